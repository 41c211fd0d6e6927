"""The judge of `perpetual chaos --daemon`: it accepts a sound campaign, and each broken promise is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.lab.kinds import RUN
from perpetual.loop import cycle
from perpetual_devkit.overnight_campaign import REPLICATES, Task, set_up
from perpetual_devkit.overnight_judge import PROMISES, EvidenceSeen, Night, RunSeen, judge, read

# A claim whose second replicate was preempted and tried again, and a crash.
SOUND = Night(
    hypotheses={"h1": ("supported", 0.97), "h2": ("open", 0.4)},
    claims={"e2": "h1"},
    runs=(
        RunSeen("r1", "e1", 1, 1, "done", 1.0, 0.1),
        RunSeen("r2", "e2", 1, 1, "done", 1.5, 0.2),
        RunSeen("r3", "e2", 2, 1, "killed", None, 0.1, ("preempted",)),
        RunSeen("r4", "e2", 2, 2, "done", 1.6, 0.2),
        RunSeen("r5", "e3", 1, 1, "failed", None, 0.1),
        RunSeen("r6", "e1", 2, 1, "lost", None, 0.1),
        RunSeen("r7", "e1", 2, 2, "done", 1.1, 0.1),
    ),
    evidence=(EvidenceSeen("v1", "h1", "r2", 1.5), EvidenceSeen("v2", "h1", "r4", 1.6)),
    debits=(
        ("r1", "reserve", 9.0), ("r1", "settle", 0.1), ("r2", "reserve", 9.0), ("r2", "settle", 0.2),
        ("r3", "reserve", 9.0), ("r3", "settle", 0.1), ("r4", "reserve", 9.0), ("r4", "settle", 0.2),
        ("r5", "reserve", 9.0), ("r5", "settle", 0.1), ("r6", "reserve", 9.0), ("r6", "settle", 0.3),
        ("r6", "correct", -0.2), ("r7", "reserve", 9.0), ("r7", "settle", 0.1),
    ),
    run_hours=0.9,
    reserved=0.0,
    events=tuple(
        (number, kind, f"r{run}", to)
        for number, (run, kind, to) in enumerate(
            (
                (run, kind, to)
                for run, end in enumerate(("done", "done", "killed", "done", "failed", "lost", "done"), 1)
                for kind, to in (("run_created", ""), ("run_status", "running"), ("run_status", end))
            ),
            1,
        )
    ),
    starts={("e1", 1): ("r1",), ("e2", 1): ("r2",), ("e2", 2): ("r3", "r4"), ("e3", 1): ("r5",),
            ("e1", 2): ("r6", "r7")},
    reason="queue_empty",
    replies=(("q1", 1), ("q2", 3)),
    answered={"q1": [1], "q2": [2, 3], "q3": [4]},  # the daemon was killed before it had stored answers 2 and 4
)  # fmt: skip


def _run(night: Night, id: str, **values: object) -> Night:
    """The night with one run that is otherwise."""
    return replace(night, runs=[replace(run, **values) if run.id == id else run for run in night.runs])  # type: ignore[arg-type]


BROKEN: list[tuple[str, str, Callable[[Night], Night]]] = [
    ("verdicts", "h1 is refuted, and supported without faults",
     lambda n: replace(n, hypotheses={**n.hypotheses, "h1": ("refuted", 0.97)})),
    ("verdicts", "h2 has a confidence of 0.41, and of 0.4 without faults",
     lambda n: replace(n, hypotheses={**n.hypotheses, "h2": ("open", 0.41)})),
    ("verdicts", "h2 is only in the reference",
     lambda n: replace(n, hypotheses={"h1": n.hypotheses["h1"]})),
    ("values", "e1 replicate 1 is done with 1.2, and done with 1.0 without faults",
     lambda n: _run(n, "r1", value=1.2)),
    ("values", "e3 replicate 1 is done with None, and failed with None without faults",
     lambda n: _run(n, "r5", status="done")),
    ("values", "e1 replicate 1 did not run", lambda n: replace(n, runs=n.runs[1:])),
    ("values", "e9 replicate 1 ran, and does not without faults",
     lambda n: replace(n, runs=[*n.runs, RunSeen("r8", "e9", 1, 1, "done", 1.0, 0.0)])),
    ("runs", "e1 replicate 1 ran again after r1 was done, which is no infrastructure fault",
     lambda n: replace(n, runs=[*n.runs, RunSeen("r8", "e1", 1, 2, "done", 1.0, 0.0)])),
    ("runs", "e2 replicate 2 ran again after r3 was killed", lambda n: _run(n, "r3", causes=())),
    ("runs", "e2 replicate 2 has the attempts 1 (r3), 1 (r4)", lambda n: _run(n, "r4", attempt=1)),
    ("runs", "the program of r2 started 2 times",
     lambda n: replace(n, starts={**n.starts, ("e2", 1): ("r2", "r2")})),
    ("runs", "a program of e2 replicate 1 started as r9",
     lambda n: replace(n, starts={**n.starts, ("e2", 1): ("r2", "r9")})),
    ("runs", "r1 is done, and its program never started",
     lambda n: replace(n, starts={key: ids for key, ids in n.starts.items() if key != ("e1", 1)})),
    ("evidence", "h1 has evidence of e2 replicate 1 more than once: v1, v3",
     lambda n: replace(n, evidence=[*n.evidence, EvidenceSeen("v3", "h1", "r2", 1.5)])),
    ("evidence", "r2 measured 1.5, and h1 has no evidence of it", lambda n: replace(n, evidence=n.evidence[1:])),
    ("evidence", "v1 says 1.4, and r2 measured 1.5",
     lambda n: replace(n, evidence=[replace(n.evidence[0], value=1.4), n.evidence[1]])),
    ("evidence", "v3 is of r1, which does not test h1",
     lambda n: replace(n, evidence=[*n.evidence, EvidenceSeen("v3", "h1", "r1", 1.0)])),
    ("budget", "r1 was reserved 1 times and settled 2 times",
     lambda n: replace(n, debits=[*n.debits, ("r1", "settle", 0.0)])),
    ("budget", "r1 was reserved 0 times", lambda n: replace(n, debits=n.debits[1:])),
    ("budget", "r7 used 0.4 run-hours, and the ledger has 0.1", lambda n: _run(n, "r7", run_hours=0.4)),
    ("budget", "the ledger has rows of r9, which is no run",
     lambda n: replace(n, debits=[*n.debits, ("r9", "settle", 0.0)])),
    ("budget", "and the budget says 1.9", lambda n: replace(n, run_hours=1.9)),
    ("budget", "9.0 hours are still reserved", lambda n: replace(n, reserved=9.0)),
    ("events", "20 events are not numbered 1 to 20 in order: [2]",
     lambda n: replace(n, events=[*n.events[:1], *n.events[2:]])),
    ("events", "22 events are not numbered 1 to 22 in order: [2]",
     lambda n: replace(n, events=[*n.events[:2], *n.events[1:]])),
    ("events", "not numbered 1 to 21 in order: out of order", lambda n: replace(n, events=n.events[::-1])),
    ("events", "r7 has 2 events of its end",
     lambda n: replace(n, events=[*n.events, (22, "run_status", "r7", "done")])),
    ("events", "r7 has 0 events of its end", lambda n: replace(n, events=n.events[:-1])),
    ("events", "r1 has not one event of its creation",
     lambda n: replace(n, events=[*n.events, (22, "run_created", "r1", "")])),
    ("events", "an event says that r9 was created",
     lambda n: replace(n, events=[*n.events, (22, "run_created", "r9", "")])),
    ("model", "question q1 was asked again after answer 1 was stored",
     lambda n: replace(n, answered={**n.answered, "q1": [1, 5]})),
    ("model", "question q1 has the answers 1, 1", lambda n: replace(n, replies=[*n.replies, ("q1", 1)])),
    ("model", "question q2 has answer 9, which the server did not give",
     lambda n: replace(n, replies=[n.replies[0], ("q2", 9)])),
    ("store", "a checksum is wrong", lambda n: replace(n, problems=["a checksum is wrong"])),
    ("end", "the loop stopped with no_progress, and with queue_empty without faults",
     lambda n: replace(n, reason="no_progress")),
    ("end", "r7 is running", lambda n: _run(n, "r7", status="running")),
]  # fmt: skip


def _found(night: Night, reference: Night) -> dict[str, list[str]]:
    return {item["promise"]: item["found"] for item in judge(night, reference) if not item["ok"]}


def test_a_sound_campaign_is_found_sound() -> None:
    assert _found(SOUND, SOUND) == {}
    assert [item["promise"] for item in judge(SOUND, SOUND)] == [*PROMISES]


@pytest.mark.parametrize(("promise", "said", "doctor"), BROKEN, ids=[said[:40] for _, said, _ in BROKEN])
def test_a_doctored_campaign_is_found_broken(promise: str, said: str, doctor: Callable[[Night], Night]) -> None:
    found = _found(doctor(SOUND), SOUND)
    assert any(said in text for text in found.get(promise, ())), found


def test_each_promise_has_a_broken_twin() -> None:
    assert {promise for promise, _, _ in BROKEN} == {*PROMISES}


def test_what_is_found_is_cut_off_with_a_count() -> None:
    many = replace(SOUND, problems=[f"problem {number}" for number in range(30)])
    assert _found(many, SOUND)["store"][-1] == "and 10 more"


def _campaign(folder: Path) -> None:
    folder.mkdir()
    set_up(Task(str(folder), "tinydb", claims=1, seconds=0.01))
    with Lab.open(folder, actor="loop") as lab:
        for number in range(1, 200):
            if cycle(lab, number=number).reason is not None:
                break
            lab.loop.wait_any(5.0)


@pytest.mark.slow
def test_a_real_record_is_read_and_its_doctored_rows_are_found(tmp_path: Path) -> None:
    """The judge reads the record and the folders of runs."""
    folder = tmp_path / "campaign"
    _campaign(folder)
    reference = read(folder)
    assert _found(reference, reference) == {}
    assert reference.hypotheses["h1"][0] == "supported"
    assert sorted(run.status for run in reference.runs) == [*["done"] * (2 * REPLICATES), "failed"]
    assert len(reference.evidence) == REPLICATES
    assert sorted(id for ids in reference.starts.values() for id in ids) == sorted(run.id for run in reference.runs)
    assert reference.reason == "all_decided"

    with Lab.open(folder) as lab, lab.context.store.transaction() as tx:
        twice = next(row for row in lab.context.store.rows("evidence") if row.body["kind"] == "measured")
        tx.append("evidence", {**twice.body})
        tx.append("debit", {**lab.context.store.rows("debit")[0].body, "kind": "reserve"})
        run = lab.context.need(RUN, "r1")
        tx.put(RUN, run.id, {**run.body, "metrics": {**run.body["metrics"], "score": 7.0}, "attempt": 2})
    with (folder / ".perpetual" / "runs" / "r2" / "checkpoints" / "starts").open("a") as file:
        file.write('["r2", 1, 1]\n')
    found = _found(read(folder), reference)
    assert {"values", "runs", "evidence", "budget", "store"} <= found.keys(), found
    assert any("more than once" in text for text in found["evidence"])
    assert any("r2 started 2 times" in text for text in found["runs"])

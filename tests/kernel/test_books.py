"""The budget's books: what is booked for runs that end, are lost or go on; and what `store verify` finds in them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run as program
from perpetual.errors import CorruptData, Refused
from perpetual.lab.kinds import RUN
from perpetual.slots.store import Transaction
from perpetual.toolkit import platform
from perpetual_supervisor import rundir

if TYPE_CHECKING:
    from perpetual.records import Run
    from tests.kernel.conftest import Campaign

LONG_S = 60.0


def _rows(lab: Lab, id: str) -> list[tuple[str, float]]:
    return [(row.body["kind"], row.body["run_hours"]) for row in lab.context.store.find("debit", run_id=id)]


def _scan_until(lab: Lab, done: Callable[[], bool]) -> list[dict[str, Any]]:
    """Scans until it is so; all changes."""
    deadline = time.monotonic() + LONG_S
    changes: list[dict[str, Any]] = []
    while not done():
        assert time.monotonic() < deadline
        changes += [{**change} for change in lab.scan()["changes"]]
    return changes


# A supervisor that has started its command and told of it, and then is no more: so it cannot keep it to its limit.
_DIES_ONCE_IT_RUNS = f"""
import os, sys
sys.path[:0] = {[str(Path(platform.__file__).parents[2]), str(Path(rundir.__file__).parents[1])]}
from perpetual_supervisor import shim, supervisor
supervisor.Run.supervise = lambda run: os.kill(os.getpid(), 9)
shim.main(sys.argv)
"""


def _lost(lab: Lab, run: Run) -> None:
    """Ends a run's supervisor and its command, so that nobody knows how long it lasted."""
    child = platform.identity_of(run.pid or 0)
    started = rundir.read_started(lab.runs.log_dir(run.id))
    assert started is not None
    assert platform.signal_process(started.supervisor, signal.SIGKILL)
    assert platform.wait_gone(started.supervisor, LONG_S)
    assert child is not None
    assert platform.signal_process(child, signal.SIGKILL)
    assert platform.wait_gone(child, LONG_S)


# --- beyond the wall limit --------------------------------------------------------------------------------------------


def test_a_run_over_its_limit_is_reported_once_and_its_reservation_grows(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("on_overrun", "warn")
    lab.settings.set_methodology("max_run_hours", str(0.2 / 3600))
    _, experiment = campaign("sh -c 'while test ! -e go; do sleep 0.02; done; echo acc=1.5'", wall_s=0.2, replicates=1)
    (run,) = lab.runs.launch(experiment.id)
    changes = _scan_until(lab, lambda: bool(lab.runs.get(run.id).annotations))
    assert [(item["from"], item["to"]) for item in changes] == [("running", "running")]
    assert "past its wall limit of 0.2 s" in changes[0]["reason"]
    # The budget held the first reservation and nothing more: it is told all the same, and nothing else fits.
    first = _rows(lab, run.id)
    assert [kind for kind, _ in first] == ["reserve", "reserve"]
    assert lab.budget.room_run_hours() == 0.0
    _, other = campaign(statement="another", wall_s=0.1)
    with pytest.raises(Refused):
        lab.runs.launch(other.id)
    changes = _scan_until(lab, lambda: len(_rows(lab, run.id)) > 2)
    assert changes == []  # it grows again, and is told no second time
    assert lab.storage.verify() == []
    Path("go").touch()
    assert lab.wait([run.id], timeout_s=LONG_S) == {run.id: "done"}
    ended = lab.runs.get(run.id)
    assert ended.duration_s is not None
    assert ended.run_hours == pytest.approx(ended.duration_s / 3600)
    assert ended.duration_s > 0.2
    rows = _rows(lab, run.id)
    assert rows[-1] == ("settle", ended.run_hours)
    assert [kind for kind, _ in rows].count("settle") == 1
    assert lab.budget.totals()["run_hours"] == ended.run_hours
    assert lab.budget.reserved_for(run.id) is None
    (event,) = [event for event in lab.events() if event.kind == "budget_overrun"]
    assert (event.subject, event.payload["wall_s"]) == (run.id, 0.2)
    assert event.payload["run_hours"] == pytest.approx(sum(hours for _, hours in first))
    assert lab.storage.verify() == []


def test_a_reservation_grows_ahead_of_the_run(lab: Lab, campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a quarter: whoever waits looks each second, and the ledger must not grow with each look."""
    lab.settings.set_methodology("on_overrun", "warn")
    _, experiment = campaign("sleep 600", wall_s=60.0, replicates=1)
    (run,) = lab.runs.launch(experiment.id)
    scheduler = lab.part("scheduler")
    poll = scheduler.poll
    for age_s, reserved_s in ((59.0, [60]), (100.0, [60, 65]), (101.0, [60, 65]), (124.0, [60, 65]),
                              (126.0, [60, 65, 32.5])):  # fmt: skip
        seen = replace(poll(run.native_id, lab.runs.log_dir(run.id)), age_s=age_s)
        monkeypatch.setattr(scheduler, "poll", lambda native_id, log_dir, seen=seen: seen)
        lab.scan()
        assert [hours * 3600 for _, hours in _rows(lab, run.id)] == pytest.approx(reserved_s), age_s
    monkeypatch.setattr(scheduler, "poll", poll)


def test_a_run_keeps_the_limit_it_was_started_under(lab: Lab, campaign: Campaign) -> None:
    """The rule may change while it runs: its supervisor still ends it, and nobody says that it goes on."""
    _, experiment = campaign("sleep 60", wall_s=0.2, replicates=1)
    (run,) = lab.runs.launch(experiment.id)
    lab.settings.set_methodology("on_overrun", "warn")
    assert lab.wait([run.id], timeout_s=LONG_S) == {run.id: "timeout"}
    assert [kind for kind, _ in _rows(lab, run.id)] == ["reserve", "settle"]


def test_a_command_that_outlives_supervisor_and_limit_is_ended(
    lab: Lab, campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.settings.set_methodology("kill_grace_s", "0")
    lab.settings.set_methodology("auto_retry", "lost")
    _, experiment = campaign("sh -c 'trap \"\" TERM; while true; do sleep 0.05; done'", wall_s=0.4, replicates=1)
    program = lab.root / "shim.py"
    program.write_text(_DIES_ONCE_IT_RUNS)
    monkeypatch.setattr(rundir, "SHIM", program)
    (run,) = lab.runs.launch(experiment.id)
    changes = _scan_until(lab, lambda: lab.runs.get(run.id).status != "running")
    assert [(item["from"], item["to"]) for item in changes] == [("running", "lost")]
    ended = lab.runs.get(run.id)
    assert "ended at its wall limit" in str(ended.reason)
    assert [item["kind"] for item in ended.annotations] == ["overrun"]
    assert platform.start_ticks(run.pid or 0) is None
    assert ended.run_hours is not None
    assert ended.run_hours <= 0.4 / 3600 + 1e-12  # never more than was reserved for it
    assert len(lab.runs.list().items) == 1  # it would last too long again
    assert [event.subject for event in lab.events() if event.kind == "budget_overrun"] == [run.id]
    assert lab.storage.verify() == []


# --- lost runs, and clocks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("days", [-1, 0, 1])
def test_a_lost_run_is_charged_a_bound_whatever_the_clock_says(lab: Lab, campaign: Campaign, days: int) -> None:
    _, experiment = campaign("sleep 600", wall_s=600.0, replicates=1)
    (run,) = lab.runs.launch(experiment.id)
    _lost(lab, run)
    with Lab.open(lab.root, clock=lambda: datetime.now(UTC) + timedelta(days=days)) as later:
        later.scan()
        ended = later.runs.get(run.id)
        assert (ended.status, ended.duration_s) == ("lost", None)
        assert "a bound: how long it lasted is not known" in str(ended.reason)
        assert ended.run_hours is not None
        if days:  # the clock cannot be right, or it was missed too late: all that was reserved, and no more
            assert ended.run_hours == pytest.approx(600 / 3600)
        else:
            assert 0 < ended.run_hours < 600 / 3600
        assert later.budget.totals()["run_hours"] == ended.run_hours
        assert later.storage.verify() == []


def test_the_kept_sums_are_those_of_the_rows(lab: Lab, campaign: Campaign) -> None:
    """Over more rows than one kept fold holds, and without reading what was folded before."""
    lab.queue.set_state("paused")
    _, experiment = campaign(replicates=30)
    for run in lab.runs.launch(experiment.id, every=True):
        lab.runs.kill(run.id)
    assert lab.storage.verify() == []
    store = lab.context.store
    kept = store.get("fold", "budget")
    assert kept is not None
    assert store.count("debit") - kept.body["rows"] < 16
    reads: list[tuple[int, int | None]] = []
    rows = store.rows

    def counted(kind: str, since: int = 0, limit: int | None = None) -> Any:
        found = rows(kind, since, limit)
        reads.append((since, len(found)))
        return found

    store.rows = counted  # type: ignore[method-assign, assignment]
    lab.budget.require_room(gpu_hours=1.0, run_hours=1.0)
    assert reads == [(kept.body["rows"], store.count("debit") - kept.body["rows"])]


def test_overruns_and_remaining_budget_are_shown(
    lab: Lab, campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.queue.set_state("paused")
    _, experiment = campaign(replicates=1, wall_s=36.0)
    (run,) = lab.runs.launch(experiment.id)
    lab.budget.set_limit(1.0)
    lab.settings.set_methodology("max_run_hours", "0.5")
    assert program(["budget"]) == 0
    assert "1.000 left of 1\n" in capsys.readouterr().out
    body = lab.context.need(RUN, run.id).body
    with lab.context.store.transaction() as tx:
        lab.budget.reserve(tx, body, gpu_hours=1.25, run_hours=1.25)
    assert program(["budget"]) == 0
    shown = capsys.readouterr().out
    assert "0.000 left of 1 (0.250 over: runs went on beyond their limit, or it was lowered)" in shown
    assert "0.0000 of max_run_hours left" in shown


# --- what is wrong is named -------------------------------------------------------------------------------------------

Spoil = Callable[[Transaction, dict[str, Any], dict[str, Any]], object]


def _debit(run: Mapping[str, Any], kind: str, hours: float = 0.0, **other: Any) -> dict[str, Any]:
    given = {"run_id": run["id"], "experiment_id": run["experiment_id"], "hypothesis_id": run["hypothesis_id"]}
    return {"kind": kind, **given, "gpu_hours": 0.0, "run_hours": hours, "created_at": "2026-01-01T00:00:00Z", **other}


BROKEN: dict[str, tuple[Spoil, str]] = {
    "settled twice": (lambda tx, done, live: tx.append("debit", _debit(done, "settle")), "r1 has a second settle"),
    "reserved after its end": (
        lambda tx, done, live: tx.append("debit", _debit(done, "reserve")),
        "r1 is reserved after it was settled",
    ),
    "closed while it is live": (
        lambda tx, done, live: tx.append("debit", _debit(live, "settle")),
        "r2 is queued, and its reservation is closed",
    ),
    "no run": (
        lambda tx, done, live: tx.append("debit", _debit(done, "reserve", run_id="r77")),
        "its run_id is r77, and there is no such run",
    ),
    "less than nothing": (
        lambda tx, done, live: tx.append("debit", _debit(live, "reserve", -1.0)),
        "r2 has 0.0 GPU-hours and -1.0 run-hours",
    ),
    "on another's account": (
        lambda tx, done, live: tx.append("debit", _debit(live, "reserve", experiment_id="e2")),
        "it is booked on e2, and r2 belongs to e1",
    ),
    "on another hypothesis": (
        lambda tx, done, live: tx.append("debit", _debit(live, "reserve", hypothesis_id="h2")),
        "it is booked on h2, and r2 belongs to h1",
    ),
    "still open": (
        lambda tx, done, live: tx.put("run", "r2", {**live, "status": "failed", "gpu_hours": 0.0, "run_hours": 0.0}),
        "r2 is failed, and its reservation is still open",
    ),
    "nothing reserved": (
        lambda tx, done, live: tx.create("run", {**live, "replicate": 3}),
        "r3 is queued, and nothing is reserved for it",
    ),
    "settled out of nothing": (
        lambda tx, done, live: (
            tx.create("run", {**live, "replicate": 3}),
            tx.append("debit", _debit({**live, "id": "r3"}, "settle")),
        ),
        "r3 is settled, and nothing was reserved for it",
    ),
    "another sum than it says": (
        lambda tx, done, live: tx.put("run", "r1", {**done, "run_hours": 5.0}),
        "r1 was debited",
    ),
    "another time than it lasted": (
        lambda tx, done, live: tx.put("run", "r1", {**done, "duration_s": 3600.0}),
        "r1 lasted 3600 s on 0 GPUs, which is not",
    ),
    "a kept sum that is wrong": (
        lambda tx, done, live: tx.put(
            "fold", "budget", {"rows": 3, "spent_gpu_hours": 9.0, "run_hours": 0.0, "reserved": {}}
        ),
        "the kept budget says spent_gpu_hours 9.0, and its rows say 0.0",
    ),
    "a kept sum that makes the totals wrong": (
        lambda tx, done, live: tx.put(
            "fold", "budget", {"rows": 3, "spent_gpu_hours": 9.0, "run_hours": 0.0, "reserved": {}}
        ),
        "the budget says 9.0 GPU-hours, and by_hypothesis add up to 0.0",
    ),
}


@pytest.mark.parametrize("hours", [-10_000.0, 1e300])
def test_an_impossible_row_of_an_earlier_version_counts_for_nothing(lab: Lab, campaign: Campaign, hours: float) -> None:
    """It is in the ledger, and in the fold that was kept then; `store verify` says what to do."""
    _, experiment = campaign(replicates=2)
    (ended,) = lab.runs.launch(experiment.id)
    assert lab.wait([ended.id], timeout_s=LONG_S) == {ended.id: "done"}
    used = lab.budget.totals()["run_hours"]
    store = lab.context.store
    with store.transaction() as tx:
        run = lab.context.need(RUN, ended.id).body
        number = tx.append("debit", _debit(run, "settle", hours))
        tx.put("fold", "budget", {"rows": number, "spent_gpu_hours": 0.0, "run_hours": hours, "reserved": {}})
    assert lab.budget.totals()["run_hours"] == used
    assert lab.budget.show()["by_experiment"][experiment.id]["run_hours"] == used
    assert any("the row counts as 0" in problem and "budget set" in problem for problem in lab.storage.verify())
    with store.transaction() as tx, pytest.raises(CorruptData):
        lab.budget.settle(tx, {**run, "id": "r9"}, gpu_hours=0.0, run_hours=hours)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_books_are_named(lab: Lab, campaign: Campaign, name: str) -> None:
    """r1 has ended, r2 waits; then somebody writes what no deed of the lab would."""
    _, experiment = campaign(replicates=2)
    campaign(statement="another", value="1.6", approve=False)
    (ended,) = lab.runs.launch(experiment.id)
    assert lab.wait([ended.id], timeout_s=LONG_S) == {ended.id: "done"}
    lab.queue.set_state("paused")
    (waiting,) = lab.runs.launch(experiment.id)
    assert (ended.id, waiting.id, lab.storage.verify()) == ("r1", "r2", [])
    spoil, said = BROKEN[name]
    store = lab.context.store
    with store.transaction() as tx:
        spoil(tx, lab.context.need("run", "r1").body, lab.context.need("run", "r2").body)
    problems = lab.storage.verify()
    assert [problem for problem in problems if said in problem], problems
    for id in ("r2", "r3"):  # so that the fixture finds nothing live that cannot be ended
        found = store.get("run", id)
        if found is not None:
            with store.transaction() as tx:
                tx.put("run", id, {**found.body, "status": "killed"})

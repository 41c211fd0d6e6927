"""The judge of an overnight test: compares a campaign that was disturbed with one that was not.

`read` returns what a project's record says of its campaign, and what its runs left in their folders. `judge` holds
that to each promise of the daemon. As a program it reads both projects in a fresh process.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, cast

from perpetual import Lab
from perpetual.toolkit.run_folder import CHECKPOINTS
from perpetual_devkit.documents import PromiseKept

__all__ = ["PROMISES", "Night", "RunSeen", "judge", "read"]

PROMISES = {
    "verdicts": "each hypothesis has the status and the confidence that it has without faults",
    "values": "each replicate of each experiment has the value that it has without faults",
    "runs": "no replicate ran twice, but for a recorded retry after an infrastructure fault",
    "evidence": "no evidence is there twice, and none is missing",
    "budget": "the ledger's hours are those of the runs, and nothing is reserved at the end",
    "events": "the event history is numbered without a gap, and has each run's start and end once",
    "model": "no question is asked again once its answer is stored, and no answer is stored twice",
    "store": "the store and all that is folded from it verify",
    "end": "the daemon came to the same end, and no run is live",
}
_LIVE = ("queued", "launching", "running")
_INFRASTRUCTURE = ("lost", "oom", "preempted")
_TOLERANCE = 1e-9
_MOST = 20  # findings of one promise
_ALL = 100_000  # items of a listing


@dataclass(frozen=True, slots=True)
class RunSeen:
    """A run as the record has it; `causes` are the kinds of what is noted beside its end."""

    id: str
    experiment: str
    replicate: int
    attempt: int
    status: str
    value: float | None
    run_hours: float | None
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EvidenceSeen:
    """A measured row of the evidence ledger."""

    id: str
    hypothesis: str
    run: str
    value: float | None


@dataclass(frozen=True, slots=True)
class Night:
    """What there is of a campaign. `starts` are the programs that really started, for each replicate in their order."""

    hypotheses: Mapping[str, tuple[str, float]]  # status and confidence
    claims: Mapping[str, str]  # experiments that test a hypothesis, and which
    runs: Sequence[RunSeen]
    evidence: Sequence[EvidenceSeen]
    debits: Sequence[tuple[str, str, float]]  # run, kind, run-hours
    run_hours: float
    reserved: float  # GPU-hours and run-hours together
    events: Sequence[tuple[int, str, str, str]]  # number, kind, subject, and the status that a run came to
    starts: Mapping[tuple[str, int], Sequence[str]]
    reason: str | None
    problems: Sequence[str] = ()  # of the store, and of what is folded
    replies: Sequence[tuple[str, int]] = ()  # questions whose answer is stored, and its number
    answered: Mapping[str, Sequence[int]] = field(default_factory=dict)  # the server's own count


def read(folder: Path, answered: Mapping[str, Sequence[int]] | None = None) -> Night:
    """Returns what the project in `folder` holds; `answered` is what its model server has counted."""
    with Lab.open(folder) as lab:
        experiments = lab.experiments.list(limit=_ALL).items
        runs = sorted(lab.runs.list(limit=_ALL).items, key=lambda run: int(run.id[1:]))
        metrics = {item.id: item.design.metric or "" for item in experiments}
        starts: dict[tuple[str, int], list[str]] = {}
        for run in runs:
            path = lab.root / run.log_dir / CHECKPOINTS / "starts"  # there for the first attempt alone
            if path.exists():
                lines = path.read_text(encoding="utf-8").splitlines()
                starts.setdefault((run.experiment_id, run.replicate), []).extend(json.loads(line)[0] for line in lines)
        events = lab.events()
        stops = [str(event.payload["reason"]) for event in events if event.kind == "loop_stopped"]
        return Night(
            hypotheses={item.id: (item.status, item.confidence) for item in lab.hypotheses.list(limit=_ALL).items},
            claims={item.id: item.hypothesis_id for item in experiments if item.hypothesis_id is not None},
            runs=[
                RunSeen(run.id, run.experiment_id, run.replicate, run.attempt, run.status,
                        run.metrics.get(metrics[run.experiment_id]), run.run_hours,
                        tuple(sorted({item["kind"] for item in run.annotations} & {*_INFRASTRUCTURE})))
                for run in runs
            ],
            evidence=[
                EvidenceSeen(row.id, row.hypothesis_id, row.run_id or "", row.value)
                for row in lab.evidence.list(limit=_ALL).items if row.kind == "measured"
            ],
            debits=[(row.run_id, row.kind, row.run_hours) for row in lab.budget.rows()],
            run_hours=lab.budget.totals()["run_hours"],
            reserved=sum(sum(lab.budget.reserved_for(run.id) or (0.0, 0.0)) for run in runs),
            events=[(event.seq, event.kind, event.subject, str(event.payload.get("to", ""))) for event in events],
            starts=starts,
            reason=stops[-1] if stops else None,
            problems=[*lab.storage.verify(), *map(str, lab.evidence.refold(check=True))],
            replies=_replies(lab),
            answered=answered or {},
        )  # fmt: skip


def _replies(lab: Lab) -> list[tuple[str, int]]:
    """Returns the answers that a thinker was given, by the number in the text; none without thinkers."""
    if "thinker" not in lab.registry.slots:
        return []
    rows = lab.records("thinkers.reply").find()
    return [(str(row["request_id"]), int(json.loads(str(row["text"]))["note"].split()[-1])) for row in rows]


def judge(found: Night, reference: Night) -> list[PromiseKept]:
    """Holds a disturbed campaign to each promise; `reference` is the same one without faults."""
    checks: dict[str, Iterable[str]] = {
        "verdicts": _verdicts(found, reference),
        "values": _values(found, reference),
        "runs": _runs(found),
        "evidence": _evidence(found),
        "budget": _budget(found),
        "events": _events(found),
        "model": _model(found),
        "store": found.problems,
        "end": _end(found, reference),
    }
    made: list[PromiseKept] = []
    for name, holds in PROMISES.items():
        problems = [*checks[name]]
        more = [f"and {len(problems) - _MOST} more"] if len(problems) > _MOST else []
        made.append({"promise": name, "holds": holds, "ok": not problems, "found": [*problems[:_MOST], *more]})
    return made


def _verdicts(found: Night, reference: Night) -> Iterator[str]:
    for id in sorted({*found.hypotheses, *reference.hypotheses}):
        seen, expected = found.hypotheses.get(id), reference.hypotheses.get(id)
        if seen is None or expected is None:
            yield f"{id} is only in the {'reference' if seen is None else 'disturbed campaign'}"
        elif seen[0] != expected[0]:
            yield f"{id} is {seen[0]}, and {expected[0]} without faults"
        elif not math.isclose(seen[1], expected[1], abs_tol=_TOLERANCE):
            yield f"{id} has a confidence of {seen[1]!r}, and of {expected[1]!r} without faults"


def _outcomes(night: Night) -> dict[tuple[str, int], tuple[str, float | None]]:
    """Returns how the last attempt of each replicate ended, and its value."""
    last: dict[tuple[str, int], RunSeen] = {}
    for run in night.runs:
        key = (run.experiment, run.replicate)
        if key not in last or run.attempt > last[key].attempt:
            last[key] = run
    return {key: (run.status, run.value) for key, run in last.items()}


def _values(found: Night, reference: Night) -> Iterator[str]:
    seen, expected = _outcomes(found), _outcomes(reference)
    for key in sorted({*seen, *expected}):
        name = f"{key[0]} replicate {key[1]}"
        if key not in seen:
            yield f"{name} did not run, and does without faults"
        elif key not in expected:
            yield f"{name} ran, and does not without faults"
        elif seen[key] != expected[key]:
            yield f"{name} is {_shown(seen[key])}, and {_shown(expected[key])} without faults"


def _shown(outcome: tuple[str, float | None]) -> str:
    return f"{outcome[0]} with {outcome[1]!r}"


def _runs(found: Night) -> Iterator[str]:
    attempts: dict[tuple[str, int], list[RunSeen]] = {}
    for run in sorted(found.runs, key=lambda run: run.attempt):
        attempts.setdefault((run.experiment, run.replicate), []).append(run)
    for key, runs in sorted(attempts.items()):
        name = f"{key[0]} replicate {key[1]}"
        if [run.attempt for run in runs] != [*range(1, len(runs) + 1)]:
            yield f"{name} has the attempts {', '.join(f'{run.attempt} ({run.id})' for run in runs)}"
        for run in runs[:-1]:
            if not _is_infrastructure(run):
                yield f"{name} ran again after {run.id} was {run.status}, which is no infrastructure fault"
    known = {run.id: run for run in found.runs}
    for key, ids in sorted(found.starts.items()):
        for id, times in Counter(ids).items():
            if times > 1:
                yield f"the program of {id} started {times} times"
            if id not in known or (known[id].experiment, known[id].replicate) != key:
                yield f"a program of {key[0]} replicate {key[1]} started as {id}, which the record does not have so"
    started = {id for ids in found.starts.values() for id in ids}
    for run in found.runs:
        if run.status == "done" and run.id not in started:
            yield f"{run.id} is done, and its program never started"


def _is_infrastructure(run: RunSeen) -> bool:
    if run.status == "lost":
        return True
    return (run.status == "killed" and "preempted" in run.causes) or (run.status == "failed" and "oom" in run.causes)


def _evidence(found: Night) -> Iterator[str]:
    runs = {run.id: run for run in found.runs}
    rows: dict[tuple[str, str, int], list[EvidenceSeen]] = {}
    for row in found.evidence:
        run = runs.get(row.run)
        if run is None or found.claims.get(run.experiment) != row.hypothesis:
            yield f"{row.id} is of {row.run or 'no run'}, which does not test {row.hypothesis}"
            continue
        rows.setdefault((row.hypothesis, run.experiment, run.replicate), []).append(row)
        if row.value != run.value:
            yield f"{row.id} says {row.value!r}, and {run.id} measured {run.value!r}"
    for (hypothesis, experiment, replicate), twice in sorted(rows.items()):
        if len(twice) > 1:
            ids = ", ".join(row.id for row in twice)
            yield f"{hypothesis} has evidence of {experiment} replicate {replicate} more than once: {ids}"
    for run in found.runs:
        is_measured = run.status == "done" and run.value is not None and run.experiment in found.claims
        if is_measured and (found.claims[run.experiment], run.experiment, run.replicate) not in rows:
            yield f"{run.id} measured {run.value!r}, and {found.claims[run.experiment]} has no evidence of it"


def _budget(found: Night) -> Iterator[str]:
    kinds: dict[str, list[str]] = {}
    hours: dict[str, float] = {}
    for id, kind, run_hours in found.debits:
        kinds.setdefault(id, []).append(kind)
        if kind != "reserve":
            hours[id] = hours.get(id, 0.0) + run_hours
    for run in found.runs:
        booked = Counter(kinds.pop(run.id, []))
        if booked["settle"] != 1 or booked["reserve"] < 1:
            yield f"{run.id} was reserved {booked['reserve']} times and settled {booked['settle']} times"
        if not math.isclose(hours.get(run.id, 0.0), run.run_hours or 0.0, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            yield f"{run.id} used {run.run_hours!r} run-hours, and the ledger has {hours.get(run.id, 0.0)!r}"
    for id in sorted(kinds):
        yield f"the ledger has rows of {id}, which is no run"
    total = math.fsum(run.run_hours or 0.0 for run in found.runs)
    if not math.isclose(found.run_hours, total, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
        yield f"the runs used {total!r} run-hours, and the budget says {found.run_hours!r}"
    if found.reserved:
        yield f"{found.reserved!r} hours are still reserved"


def _events(found: Night) -> Iterator[str]:
    numbers = [event[0] for event in found.events]
    if numbers != [*range(1, len(numbers) + 1)]:
        times = Counter(numbers)
        expected = range(1, max(numbers, default=0) + 1)
        wrong = sorted({n for n in expected if times[n] != 1})
        yield f"{len(numbers)} events are not numbered 1 to {len(numbers)} in order: {wrong[:5] or 'out of order'}"
    created = Counter(subject for _, kind, subject, _ in found.events if kind == "run_created")
    ended = Counter(subject for _, kind, subject, to in found.events if kind == "run_status" and to not in _LIVE)
    for run in found.runs:
        if created.pop(run.id, 0) != 1:
            yield f"{run.id} has not one event of its creation"
        if ended[run.id] != 1:
            yield f"{run.id} has {ended[run.id]} events of its end"
    for id in created:
        yield f"an event says that {id} was created, which is no run"


def _model(found: Night) -> Iterator[str]:
    stored: dict[str, list[int]] = {}
    for question, number in found.replies:
        stored.setdefault(question, []).append(number)
    for question, numbers in sorted(stored.items()):
        if len(numbers) > 1:
            yield f"question {question[:12]} has the answers {', '.join(map(str, numbers))}"
        given = found.answered.get(question, ())
        if numbers[-1] not in given:
            yield f"question {question[:12]} has answer {numbers[-1]}, which the server did not give"
        later = [number for number in given if number > max(numbers)]
        if later:
            yield f"question {question[:12]} was asked again after answer {max(numbers)} was stored"


def _end(found: Night, reference: Night) -> Iterator[str]:
    if found.reason != reference.reason:
        yield f"the loop stopped with {found.reason}, and with {reference.reason} without faults"
    for run in found.runs:
        if run.status in _LIVE:
            yield f"{run.id} is {run.status}"


class Projects(TypedDict):
    """What the program reads: the two projects."""

    found: str
    reference: str
    answered: dict[str, list[int]]  # of the model server of the first


def main() -> int:
    """Reads one line of JSON from standard input, and answers the promises as JSON."""
    projects = cast("Projects", json.loads(sys.stdin.readline()))
    found, reference = read(Path(projects["found"]), projects["answered"]), read(Path(projects["reference"]))
    attempts = Counter((run.experiment, run.replicate) for run in found.runs)
    document = {
        "promises": judge(found, reference),
        "runs": len(found.runs),
        "retries": sum(times - 1 for times in attempts.values()),
        "hypotheses": len(found.hypotheses),
        "evidence": len(found.evidence),
        "events": len(found.events),
        "answers": len(found.replies),
        "run_hours": found.run_hours,
        "reason": found.reason,
        # A reference in which something is wrong proves nothing.
        "reference": [
            f"the reference: {text}" for one in judge(reference, reference) for text in one["found"]
            if one["promise"] != "model"
        ],
    }  # fmt: skip
    sys.stdout.write(json.dumps(document) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

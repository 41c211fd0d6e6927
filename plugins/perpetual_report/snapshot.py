"""The record as it stood after an event: what a report is written from, and what an older one is held to.

Everything in it is a function of the record up to that event, so that a report can be derived anew later on. Imported
by the modules beside it; reads through the lab alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from perpetual.api import Debit, Event, Evidence, Experiment, Hypothesis, Note, Run, UsageError
from perpetual_report.steps import ENDED, Step, steps_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import RunStatus

__all__ = ["ADOPTED", "ENDED", "Snapshot", "everything", "number_of", "take"]

ADOPTED = "adopted"  # the scheduler's name of runs that another tool made; their files stand elsewhere, in its form
STEPS = 100  # of each hypothesis, the newest
_PAGE = 1000
_FOLDED = (
    "confidence", "e_support", "e_refute", "false_alarm_bound", "status", "evidence_count", "decided_by", "sentence",
)  # fmt: skip


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Page(Protocol[T_co]):
    @property
    def items(self) -> tuple[T_co, ...]: ...

    @property
    def next_cursor(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The record after the event `seq`; lists are in the order of creation.

    `steps` are those of each hypothesis, by its id; `limits` are (time, GPU-hours or None) of each limit that was set;
    `methodology` is as it stood then; `designs` tells, by experiment, which of a hypothesis' experiments the fold takes
    for one design; `scores` are those of the test items, by run.
    """

    project: str
    seq: int
    time: str | None
    hypotheses: tuple[Hypothesis, ...]
    steps: Mapping[str, list[Step]]
    experiments: tuple[Experiment, ...]
    runs: tuple[Run, ...]
    evidence: tuple[Evidence, ...]
    debits: tuple[Debit, ...]
    limits: tuple[tuple[str, float | None], ...]
    methodology: Mapping[str, Any]
    notes: tuple[Note, ...]
    designs: Mapping[str, str]
    scores: Mapping[str, Sequence[float]]

    @property
    def at(self) -> str:
        """Returns the suffix of a source that is folded from the record."""
        return f"@{self.seq}"


def number_of(id: str) -> int:
    """Returns the number in an id, by which records are ordered."""
    return int(id[1:])


def everything(listing: Callable[..., _Page[T]], **filters: object) -> list[T]:
    """Returns every page of a list of the lab."""
    items: list[T] = []
    cursor: str | None = None
    while True:
        page = listing(limit=_PAGE, cursor=cursor, **filters)
        items += page.items
        cursor = page.next_cursor
        if cursor is None:
            return items


def take(lab: Lab, *, seq: int | None = None, debits: int | None = None) -> Snapshot:
    """Returns the record after the event `seq` with the first `debits` rows of the budget's ledger; by default as now.

    Raises:
        UsageError: for a seq that the record has not reached.
    """
    events = lab.events()
    if seq is not None and not 0 <= seq <= len(events):
        raise UsageError(f"the record has {len(events)} events, and none numbered {seq}")
    seq = len(events) if seq is None else seq
    past, later = events[:seq], events[seq:]
    recorded = _recorded(past)
    commanded = {event.subject for event in later if event.kind == "spec_completed"}
    proposed = everything(lab.experiments.list)
    steps = steps_of(lab, past, proposed, last=STEPS)
    experiments = tuple(
        replace(item, command=None) if item.id in commanded else item
        for item in proposed
        if item.id in recorded["experiment_proposed"]
    )
    return Snapshot(
        project=lab.config["project"],
        seq=seq,
        time=past[-1].time if past else None,
        hypotheses=tuple(
            _hypothesis(item, steps[item.id][-1], recorded)
            for item in everything(lab.hypotheses.list)
            if item.id in steps
        ),
        steps=steps,
        experiments=experiments,
        runs=tuple(
            _run(item, recorded["run_status"].get(item.id, "queued"), recorded["run_annotated"].get(item.id, ()))
            for item in sorted(everything(lab.runs.list), key=lambda item: number_of(item.id))
            if item.id in recorded["run_created"]
        ),
        evidence=_evidence(everything(lab.evidence.list), recorded["evidence_added"]),
        debits=tuple(lab.budget.rows(limit=debits)),
        limits=tuple((event.time, event.payload["limit_gpu_hours"]) for event in past if event.kind == "budget_set"),
        methodology=lab.settings.methodology_at(seq),
        notes=tuple(note for note in everything(lab.memory.list) if note.path in recorded["note_written"]),
        designs={item.id: lab.experiments.design_of(item) for item in experiments},
        scores={id: found for id in recorded["run_created"] if (found := lab.runs.item_scores(id)) is not None},
    )


def _recorded(events: Iterable[Event]) -> dict[str, dict[str, Any]]:
    """Returns what the events say of each subject: by kind, what was said last; of a statement, the words."""
    kinds = ("experiment_proposed", "run_created", "run_status", "run_annotated", "evidence_added", "note_written",
             "statement")  # fmt: skip
    recorded: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    for event in events:
        if event.kind == "run_status":
            recorded["run_status"][event.subject] = event.payload["to"]
        elif event.kind == "run_annotated":
            recorded["run_annotated"].setdefault(event.subject, []).append(event.payload)
        elif event.kind in ("hypothesis_added", "hypothesis_updated"):
            if "statement" in event.payload:
                recorded["statement"][event.subject] = event.payload["statement"]
        elif event.kind in recorded:
            recorded[event.kind][event.subject] = True
    return recorded


def _hypothesis(record: Hypothesis, last: Step, recorded: Mapping[str, Mapping[str, Any]]) -> Hypothesis:
    statement = recorded["statement"].get(record.id, record.statement)
    folded: dict[str, Any] = {key: value for key, value in last.fold.items() if key in _FOLDED}
    return replace(record, statement=statement, prior=last.prior, flags=tuple(last.fold["flags"]), **folded)


def _run(record: Run, status: RunStatus, remarks: Sequence[dict[str, str]]) -> Run:
    """Returns the run as it was: one that has ended since had no result then."""
    if status in ENDED:
        return record
    started = record.started_at if status == "running" else None
    return replace(
        record, status=status, started_at=started, ended_at=None, duration_s=None, exit_code=None, signal=None,
        reason=None, gpu_hours=None, run_hours=None, metrics={}, metric_sources={}, tainted=False,
        annotations=tuple(remarks), max_rss_bytes=None, cpu_s=None,
    )  # fmt: skip


def _evidence(rows: Iterable[Evidence], present: Mapping[str, object]) -> tuple[Evidence, ...]:
    return tuple(
        row if row.retracted_by in (None, *present) else replace(row, retracted_by=None)
        for row in rows
        if row.id in present
    )

"""The record as it stood after an event: what a report is written from, and what an older one is held to.

Everything in it is a function of the record up to that event, so that a report can be derived anew later on. Imported
by the modules beside it; reads through the lab alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from perpetual.api import Debit, Event, Evidence, Experiment, Hypothesis, Note, NotFound, Run, UsageError
from perpetual_report.related import Relations
from perpetual_report.steps import ENDED, Step, steps_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import RunStatus

__all__ = ["ADOPTED", "ENDED", "STEPS", "Snapshot", "everything", "number_of", "take"]

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
    for one design; `scores` are those of the test items, by run; `is_published` where names of people and machines are
    taken out.
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
    is_published: bool = False

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


def take(
    lab: Lab,
    *,
    seq: int | None = None,
    debits: int | None = None,
    steps: int = STEPS,
    of: Iterable[str] | None = None,
    known: Mapping[str, list[Step]] | None = None,
) -> Snapshot:
    """Returns the record after the event `seq` with the first `debits` rows of the budget's ledger; by default as now.

    Args:
        lab: whose record is read.
        seq: of the last event that counts.
        debits: how many rows of the budget's ledger count.
        steps: of each hypothesis, how many of the newest are folded; each costs a fold.
        of: ids of hypotheses, experiments, runs and rows of evidence. Then the rest is left out, but for what these
            follow from: what is said of them is as it is in the whole record, and of nothing else.
        known: steps of hypotheses that were folded before, and are what they would be now.

    Raises:
        UsageError: for a seq that the record has not reached.
    """
    last = lab.feed.last()
    if seq is not None and not 0 <= seq <= last:
        raise UsageError(f"the record has {last} events, and none numbered {seq}")
    seq = last if seq is None else seq
    proposed = everything(lab.experiments.list)
    part = _all(lab) if of is None else _part(lab, proposed, {*of})
    is_present = of is not None and steps == 1 and seq == last and all(run.status in ENDED for run in part.runs)
    then = _Now(lab) if is_present else _Then(
        lab, lab.events(limit=seq) if seq else [], proposed, last=steps, known=known or {}
    )  # fmt: skip
    folded = then.steps(part.hypotheses)
    commanded = set() if seq == last else {
        event.subject for event in lab.events(since=seq) if event.kind == "spec_completed"
    }  # fmt: skip
    experiments = tuple(
        replace(item, command=None) if item.id in commanded else item
        for item in (proposed if part.experiments is None else part.experiments)
        if then.has("experiment_proposed", item.id)
    )
    runs = tuple(then.run(run) for run in part.runs if then.has("run_created", run.id))
    found = Snapshot(
        project=lab.config["project"],
        seq=seq,
        time=then.time,
        hypotheses=tuple(then.hypothesis(item, folded[item.id][-1]) for item in part.hypotheses if item.id in folded),
        steps=folded,
        experiments=experiments,
        runs=runs,
        evidence=tuple(then.evidence(row) for row in part.evidence if then.has("evidence_added", row.id)),
        debits=tuple(lab.budget.rows(limit=debits)) if debits != 0 else (),
        limits=then.limits,
        methodology=then.methodology,
        notes=tuple(note for note in part.notes if then.has("note_written", note.path)),
        designs={item.id: lab.experiments.design_of(item) for item in experiments},
        scores={run.id: items for run in runs if (items := lab.runs.item_scores(run.id)) is not None},
    )
    if is_present and lab.feed.last() != seq:  # what was read is of two states: the events tell them apart
        return take(lab, seq=seq, debits=debits, steps=steps, of=of)
    return found


# --- what is read ---------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """What is read of the record, in the order of creation; `experiments` None are all."""

    hypotheses: Sequence[Hypothesis]
    experiments: Sequence[Experiment] | None
    runs: Sequence[Run]
    evidence: Sequence[Evidence]
    notes: Sequence[Note]


def _all(lab: Lab) -> _Part:
    return _Part(
        everything(lab.hypotheses.list),
        None,
        sorted(everything(lab.runs.list), key=_by_number),
        everything(lab.evidence.list),
        everything(lab.memory.list),
    )


def _part(lab: Lab, proposed: Sequence[Experiment], ids: set[str]) -> _Part:
    """Returns what the records of these ids follow from; ids of nothing are passed over."""
    named = {item.id for item in proposed} & ids
    subjects = {id for id in ids if id[:1] == "h"}
    for id in sorted(ids):
        with suppress(NotFound):
            if id[:1] == "r":
                named.add(lab.runs.get(id).experiment_id)
            elif id[:1] == "v":
                subjects.add(lab.evidence.get(id).hypothesis_id)
    # All designs of a hypothesis are weighed together.
    subjects |= {item.hypothesis_id for item in proposed if item.id in named and item.hypothesis_id is not None}
    named |= {item.id for item in proposed if item.hypothesis_id in subjects}
    family = Relations(proposed).related(named)
    hypotheses = []
    for id in sorted(subjects, key=number_of):
        with suppress(NotFound):
            hypotheses.append(lab.hypotheses.get(id))
    runs = [run for id in family for run in everything(lab.runs.list, experiment_id=id)]
    return _Part(
        hypotheses,
        [item for item in proposed if item.id in family],
        # As they are recorded: the list shows a run that is over as ended, of which nothing is recorded yet.
        sorted((run if run.ended_at else lab.runs.get(run.id) for run in runs), key=_by_number),
        [row for item in hypotheses for row in everything(lab.evidence.list, hypothesis_id=item.id)],
        (),
    )


def _by_number(record: Run) -> int:
    return number_of(record.id)


# --- the record at a time -------------------------------------------------------------------------------------------


class _Now:
    """The record as it stands: all that is read is in it. Of runs that have ended, and of last steps alone."""

    limits: tuple[tuple[str, float | None], ...] = ()

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.methodology = {item.key: item.value for item in lab.settings.methodology()}
        self._last = lab.events(since=lab.feed.last() - 1, limit=1)
        self.time = self._last[-1].time if self._last else None

    def has(self, kind: str, subject: str) -> bool:
        return True

    def steps(self, hypotheses: Iterable[Hypothesis]) -> dict[str, list[Step]]:
        """Returns the last step of each hypothesis; which event it was of is not known."""
        record = self._lab.evidence.partial_record(self.methodology)
        record.left_out = set()
        return {
            item.id: [Step(0, 0, self.time or "", "", "prior", item.id, item.prior, record.fold(item.id))]
            for item in hypotheses
        }

    def hypothesis(self, record: Hypothesis, last: Step) -> Hypothesis:
        return _hypothesis(record, last, {"statement": {}})

    def run(self, record: Run) -> Run:
        return record

    def evidence(self, row: Evidence) -> Evidence:
        return row


class _Then:
    """The record as its events tell it, up to the last of these."""

    def __init__(
        self,
        lab: Lab,
        events: Sequence[Event],
        proposed: Sequence[Experiment],
        *,
        last: int,
        known: Mapping[str, list[Step]],
    ) -> None:
        self._lab, self._events, self._proposed, self._steps, self._known = lab, events, proposed, last, known
        self._recorded = _recorded(events)
        self.time = events[-1].time if events else None
        self.methodology = lab.settings.methodology_at(len(events))
        self.limits = tuple((e.time, e.payload["limit_gpu_hours"]) for e in events if e.kind == "budget_set")

    def has(self, kind: str, subject: str) -> bool:
        return subject in self._recorded[kind]

    def steps(self, hypotheses: Iterable[Hypothesis]) -> dict[str, list[Step]]:
        ids = {item.id for item in hypotheses}
        known = {id: steps for id, steps in self._known.items() if id in ids}
        only = ids - known.keys()
        return {**steps_of(self._lab, self._events, self._proposed, last=self._steps, only=only), **known}

    def hypothesis(self, record: Hypothesis, last: Step) -> Hypothesis:
        return _hypothesis(record, last, self._recorded)

    def run(self, record: Run) -> Run:
        status = self._recorded["run_status"].get(record.id, "queued")
        return _run(record, status, self._recorded["run_annotated"].get(record.id, ()))

    def evidence(self, row: Evidence) -> Evidence:
        is_known = row.retracted_by is None or self.has("evidence_added", row.retracted_by)
        return row if is_known else replace(row, retracted_by=None)


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

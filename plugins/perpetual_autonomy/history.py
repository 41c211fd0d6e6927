"""What the feed says of each proposer: experiments and incidents by class of action, and the priors that it declared.

Read once, and then only what is new.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perpetual.api import NotFound

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Design, Event, Experiment

__all__ = ["ACTIONS", "COST_FACTOR", "History", "Incident", "Stated", "Standing", "action_of", "experiment_of",
           "is_person"]  # fmt: skip

ACTIONS = ("claim-run", "confirmation-run", "baseline-run")
COST_FACTOR = 2.0  # a run that took more than so many times its declared cost is an incident
_PAGE = 1000
_OVER = ("done", "failed", "killed", "timeout", "lost")
_LIVE = ("queued", "launching", "running")
Pair = tuple[str, str]  # proposer and class of action


def action_of(design: Design) -> str:
    """Returns the class of action that approving an experiment of this design is."""
    if design.claim is None:
        return "baseline-run"
    return "confirmation-run" if design.confirmation else "claim-run"


def is_person(actor: object) -> bool:
    """Returns whether a name is a person's: neither an agent's, nor the loop's, nor a right's."""
    return isinstance(actor, str) and actor.startswith("user:")


@dataclass(frozen=True, slots=True)
class Incident:
    """Something for which a right is lost: what (`kind`), of which experiment, when, and in whose name."""

    seq: int
    time: str
    kind: str
    subject: str
    experiment: str
    actor: str

    @property
    def words(self) -> str:
        """Returns the incident in words."""
        return f"{_WORDS[self.kind].format(self.subject)} ({self.experiment}, {self.time[:10]})"


_WORDS = {
    "rejected": "a person rejected {}", "killed": "{} was killed", "failed": "{} failed",
    "timeout": "{} ran into its time limit", "overrun": "{} overran what was reserved for it",
    "cost": f"{{}} took more than {COST_FACTOR:g} times its declared cost", "tainted": "{} is tainted",
    "retracted": "a person took back what {} measured",
}  # fmt: skip


@dataclass(slots=True)
class _Track:
    """Of one pair: experiments in the order of their first runs, with that event, and the incidents."""

    started: list[tuple[int, str]] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a pair stands after an event: `clean` experiments in a row, and what holds up the count.

    `attempt` is 1 and one more for each experiment that had an incident, and for each time that a person revoked it.
    """

    clean: int
    attempt: int
    incidents: tuple[Incident, ...]
    pending: str | None  # an experiment that goes on; what started after it is counted once it has ended
    counted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stated:
    """A prior as it was before the first evidence: by whom, and whether it was declared (None: not known)."""

    prior: float
    actor: str
    declared: bool | None


class History:
    """The history of one lab. `read` brings it to the present; it never changes the record."""

    def __init__(self) -> None:
        self.seq = 0
        self.priors: dict[str, Stated] = {}  # by hypothesis
        self.reopened: set[str] = set()  # hypotheses that were decided and opened again
        self._measured: set[str] = set()
        self._tracks: dict[Pair, _Track] = {}
        self._firsts: set[str] = set()

    def read(self, lab: Lab) -> None:
        """Reads the events that are new."""
        while page := lab.events(since=self.seq, limit=_PAGE):
            for event in page:
                self._state(event)
                for experiment, kind, subject in self._seen(lab, event):
                    self._add(lab, event, experiment, kind, subject)
            self.seq = page[-1].seq

    def pairs(self) -> list[Pair]:
        """Returns the pairs of which an experiment has run or had an incident."""
        return sorted(self._tracks)

    def incidents(self, pair: Pair) -> list[Incident]:
        """Returns the incidents of a pair, the first first."""
        return self._tracks.get(pair, _Track()).incidents

    def _state(self, event: Event) -> None:
        """Takes what an event says of a prior; what is said after the first evidence is no prediction."""
        kind, subject, payload = event.kind, event.subject, event.payload
        if kind == "hypothesis_added":
            declared = payload.get("declared")
            self.priors[subject] = Stated(float(payload["prior"]), event.actor, declared)
        elif kind == "hypothesis_updated" and payload.get("prior") is not None and subject not in self._measured:
            self.priors[subject] = Stated(float(payload["prior"]), event.actor, True)
        elif kind == "evidence_added":
            self._measured.add(str(payload["hypothesis_id"]))
        elif kind == "hypothesis_status" and payload["from"] in ("supported", "refuted"):
            self.reopened.add(subject)

    def _seen(self, lab: Lab, event: Event) -> Iterator[tuple[str, str, str]]:
        """Yields (experiment, kind of incident, subject) of an event; notes the first run of each experiment."""
        kind, subject, payload = event.kind, event.subject, event.payload
        if kind == "run_created":
            self._start(lab, event.seq, str(payload["experiment_id"]))
        elif kind == "experiment_rejected":
            if not payload.get("withdrawn") and is_person(event.actor):
                yield subject, "rejected", subject
        elif kind == "run_tainted":
            yield str(payload["experiment_id"]), "tainted", subject
        elif kind == "budget_overrun":
            try:
                yield lab.runs.get(subject).experiment_id, "overrun", subject
            except NotFound:
                return
        elif kind == "run_status" and payload["to"] in _OVER:
            found = self._ended(lab, subject, str(payload["to"]))
            if found is not None:
                yield str(payload["experiment_id"]), found, subject
        elif kind == "evidence_added" and payload.get("kind") == "retraction" and is_person(event.actor):
            try:
                row = lab.evidence.get(subject)
            except NotFound:
                return
            if row.experiment_id is not None and row.run_id is not None:
                yield row.experiment_id, "retracted", row.run_id

    def _ended(self, lab: Lab, id: str, to: str) -> str | None:
        """Returns the incident that the end of a run is, None where it is none; lost is the machine's."""
        try:
            run = lab.runs.get(id)
        except NotFound:
            return None
        experiment = experiment_of(lab, run.experiment_id)
        if experiment is None or experiment.approved_by is None or to == "lost":  # adopted work was approved nowhere
            return None
        design = experiment.design
        rule = design.stop_rule or ""
        if to == "killed":
            return "killed"
        if to == "timeout":
            return None if rule.startswith("wall:") else "timeout"
        if to == "failed":
            return None if design.on_crash is not None or rule == f"exit:{run.exit_code}" else "failed"
        cost, hours = design.cost_run_hours, run.run_hours
        return "cost" if cost is not None and hours is not None and hours > COST_FACTOR * cost else None

    def _start(self, lab: Lab, seq: int, id: str) -> None:
        if id not in self._firsts:
            self._firsts.add(id)
            item = experiment_of(lab, id)
            if item is not None:
                self._of(item).started.append((seq, id))

    def _add(self, lab: Lab, event: Event, experiment: str, kind: str, subject: str) -> None:
        item = experiment_of(lab, experiment)
        if item is None or (kind == "rejected" and event.actor == item.proposed_by):
            return
        self._of(item).incidents.append(Incident(event.seq, event.time, kind, subject, experiment, event.actor))

    def _of(self, item: Experiment) -> _Track:
        return self._tracks.setdefault((item.proposed_by, action_of(item.design)), _Track())

    def standing(self, lab: Lab, pair: Pair, *, revoked_at: tuple[int, ...] = ()) -> Standing:
        """Returns how a pair stands now.

        What counts are experiments that a person approved here, in the order of their first runs, from the last
        incident on. Counting by that order and not by that of their ends keeps slow failures from being passed over.

        Args:
            revoked_at: the events at which a person revoked its right.
        """
        track = self._tracks.get(pair, _Track())
        since = max([*(one.seq for one in track.incidents), *revoked_at], default=0)
        attempt = 1 + len({one.experiment for one in track.incidents}) + len(revoked_at)
        clean, pending, counted = 0, None, []
        for seq, id in track.started:
            if seq <= since:
                continue
            item, approval = experiment_of(lab, id), lab.experiments.approval(id)
            if item is None or approval is None or not is_person(approval[0]):
                continue
            state = _trial(lab, item)
            if state == "pending":
                pending = id
                break
            if state == "clean":
                clean += 1
                counted.append(id)
        return Standing(clean, attempt, tuple(track.incidents), pending, tuple(counted))


def experiment_of(lab: Lab, id: str) -> Experiment | None:
    """Returns the experiment of that id, or None."""
    try:
        return lab.experiments.get(id)
    except NotFound:
        return None


def _trial(lab: Lab, item: Experiment) -> str:
    """Returns `pending`, `clean`, or `void` of an experiment without incident that has started."""
    if any(item.runs.get(status) for status in _LIVE):
        return "pending"
    is_open = item.hypothesis_id is None or lab.hypotheses.get(item.hypothesis_id).status == "open"
    if item.status not in ("complete", "analysed") and is_open:
        return "pending"
    return "clean" if item.runs.get("done") and not item.runs.get("lost") else "void"

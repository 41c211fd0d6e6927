"""What the feed says of each proposer: experiments and incidents by class of action, and the priors that it declared.

Read once, and then only what is new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perpetual.api import NotFound

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Event

__all__ = ["ACTIONS", "COST_FACTOR", "Body", "History", "Incident", "Stated", "Standing", "action_of", "body_of",
           "is_person"]  # fmt: skip

ACTIONS = ("claim-run", "confirmation-run", "baseline-run")
COST_FACTOR = 2.0  # a run that took more than so many times its declared cost is an incident
_PAGE = 1000
_OVER = ("done", "failed", "killed", "timeout", "lost")
_LIVE = ("queued", "launching", "running")
Pair = tuple[str, str]  # proposer and class of action
Body = Mapping[str, Any]


def action_of(design: Mapping[str, object]) -> str:
    """Returns the class of action that approving an experiment of this design is."""
    if design["claim"] is None:
        return "baseline-run"
    return "confirmation-run" if design.get("confirmation") else "claim-run"


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
            run = body_of(lab, "run", subject)
            if run is not None:
                yield str(run["experiment_id"]), "overrun", subject
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
        run = body_of(lab, "run", id)
        experiment = None if run is None else body_of(lab, "experiment", run["experiment_id"])
        if run is None or experiment is None or "adopted" in run or to == "lost":
            return None
        design = experiment["design"]
        rule = str(design.get("stop_rule") or "")
        if to == "killed":
            return "killed"
        if to == "timeout":
            return None if rule.startswith("wall:") else "timeout"
        if to == "failed":
            is_asked = design.get("on_crash") is not None or rule == f"exit:{run['exit_code']}"
            return None if is_asked else "failed"
        cost, hours = design["cost_run_hours"], run["run_hours"]
        return "cost" if cost is not None and hours is not None and hours > COST_FACTOR * cost else None

    def _start(self, lab: Lab, seq: int, id: str) -> None:
        if id not in self._firsts:
            self._firsts.add(id)
            track = self._track(lab, id)
            if track is not None:
                track.started.append((seq, id))

    def _add(self, lab: Lab, event: Event, experiment: str, kind: str, subject: str) -> None:
        body = body_of(lab, "experiment", experiment)
        track = self._track(lab, experiment)
        if body is None or track is None or (kind == "rejected" and event.actor == body["proposed_by"]):
            return
        track.incidents.append(Incident(event.seq, event.time, kind, subject, experiment, event.actor))

    def _track(self, lab: Lab, id: str) -> _Track | None:
        body = body_of(lab, "experiment", id)
        if body is None:
            return None
        return self._tracks.setdefault((str(body["proposed_by"]), action_of(body["design"])), _Track())

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
            body = body_of(lab, "experiment", id)
            if body is None or not is_person(body["approved_by"]) or not lab.context.trust.counts(id, body):
                continue
            state = _trial(lab, id, body)
            if state == "pending":
                pending = id
                break
            if state == "clean":
                clean += 1
                counted.append(id)
        return Standing(clean, attempt, tuple(track.incidents), pending, tuple(counted))


def body_of(lab: Lab, kind: str, id: str) -> Body | None:
    """Returns the row of that id as the store keeps it, or None."""
    found = lab.context.store.get(kind, id)
    return None if found is None else found.body


def _trial(lab: Lab, id: str, body: Body) -> str:
    """Returns `pending`, `clean`, or `void` of an experiment without incident that has started."""
    statuses = [str(run.body["status"]) for run in lab.context.store.find("run", experiment_id=id)]
    if any(status in _LIVE for status in statuses):
        return "pending"
    if body["status"] not in ("complete", "analysed"):
        claim = body_of(lab, "hypothesis", body["hypothesis_id"]) if body["hypothesis_id"] else None
        if claim is None or claim["status"] == "open":
            return "pending"
    return "void" if "lost" in statuses or not statuses else "clean"

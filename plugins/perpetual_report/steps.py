"""History of the ledger step by step: each hypothesis' fold over the record as it stood after each event.

An earlier record is folded under the methodology of its time. Reports draw the steps, and re-derive an older report's
figures from them. Imported by `snapshot`; reads through the lab alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Event, EvidenceFold, Experiment

__all__ = ["ENDED", "Step", "steps_of"]

ENDED = ("done", "failed", "killed", "timeout", "lost")
_CAUSES = {"evidence_added": "evidence", "run_status": "baseline"}


@dataclass(frozen=True, slots=True)
class Step:
    """The fold of a hypothesis after an event that may have moved it."""

    no: int  # from the hypothesis' first step on
    seq: int  # of the event, as are time, actor and subject
    time: str
    actor: str
    # prior: added, or changed by a person; evidence: the subject is its row; baseline: the subject is a run of an
    # experiment that the hypothesis is compared with, or of one that extends or renews it
    cause: str
    subject: str
    prior: float
    fold: EvidenceFold


class _Past:
    """The record as it stood after an event; `advance` takes in the next one."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._record = lab.evidence.partial_record(lab.settings.methodology_at(0))
        self._own: dict[str, dict[str, Any]] = {}  # of each hypothesis: what a person may change

    def advance(self, event: Event) -> None:
        """Takes in one event."""
        kind, subject, payload = event.kind, event.subject, event.payload
        if kind in ("experiment_proposed", "evidence_added") or (kind == "run_status" and payload["to"] in ENDED):
            self._record.ids.add(subject)
        elif kind == "run_status":
            self._record.ids.discard(subject)
        elif kind == "hypothesis_added":
            self._own[subject] = {"prior": payload["prior"], "parked": False, "restated": False}
        elif kind == "hypothesis_updated" and subject in self._own:
            self._own[subject] |= {key: payload[key] for key in ("prior", "parked", "restated") if key in payload}
        elif kind == "methodology_set":
            self._record.methodology = self._lab.settings.methodology_at(event.seq)

    def step(self, id: str, no: int, event: Event) -> Step:
        """Returns the hypothesis' step number `no`, after that event."""
        cause = _CAUSES.get(event.kind, "prior")
        return Step(no, event.seq, event.time, event.actor, cause, event.subject, **self.said(id))

    def said(self, id: str) -> dict[str, Any]:
        """Returns the hypothesis' prior, and what its evidence amounts to."""
        own = self._own[id]
        return {"prior": own["prior"], "fold": self._record.fold(id, **own)}


def steps_of(
    lab: Lab,
    events: Sequence[Event],
    experiments: Sequence[Experiment],
    *,
    last: int,
    only: Container[str] | None = None,
) -> dict[str, list[Step]]:
    """Returns the steps of some hypotheses, at most the `last` ones of each.

    The last step has the fold after all the events: thresholds that were set, and runs that move no hypothesis by
    themselves, change it too.

    Args:
        lab: whose record is read.
        events: the feed's, from the first one to the one after which the record is looked at.
        experiments: all of the record, later ones too.
        last: how many steps are folded.
        only: the ids of the hypotheses; None are all.
    """
    compared = _compared(experiments)
    moved: dict[str, list[int]] = {}  # by hypothesis: the events that may have moved it
    for event in events:
        if event.kind == "hypothesis_added" and (only is None or event.subject in only):
            moved[event.subject] = []
        for id in _moved(event, compared):
            if id in moved:
                moved[id].append(event.seq)
    if not moved:
        return {}
    numbered: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for id, seqs in moved.items():
        for no, seq in [*enumerate(seqs, 1)][-last:]:
            numbered[seq].append((id, no))
    past = _Past(lab)
    steps: dict[str, list[Step]] = {id: [] for id in moved}
    for event in events:
        past.advance(event)
        for id, no in numbered.get(event.seq, ()):
            steps[id].append(past.step(id, no, event))
    for id, own in steps.items():
        own[-1] = replace(own[-1], **past.said(id))
    return steps


def _compared(experiments: Sequence[Experiment]) -> dict[str, set[str]]:
    """Returns by experiment the hypotheses that are compared with it, or with what it extends or renews."""
    known = {item.id: item for item in experiments}
    found: dict[str, set[str]] = defaultdict(set)
    for item in experiments:
        if isinstance(item.design.baseline, str) and item.hypothesis_id is not None:
            found[item.design.baseline].add(item.hypothesis_id)
    return {item.id: found[item.id] | found[_root_of(item, known).id] for item in experiments}


def _root_of(experiment: Experiment, known: Mapping[str, Experiment]) -> Experiment:
    """Returns the baseline whose runs those of an experiment add to: what it extends or renews, else itself."""
    for id in (experiment.extends, experiment.renews):
        experiment = known[id] if id else experiment
    return experiment


def _moved(event: Event, compared: Mapping[str, set[str]]) -> list[str]:
    """Returns the hypotheses whose fold the event may have moved."""
    kind, payload = event.kind, event.payload
    if kind == "hypothesis_added" or (kind == "hypothesis_updated" and {"prior", "parked"} & payload.keys()):
        return [event.subject]
    if kind == "evidence_added":
        return [payload["hypothesis_id"]]
    if kind == "run_status" and payload["to"] == "done":
        return sorted(compared.get(payload["experiment_id"], ()))
    return []

"""What the ledger said step by step: each hypothesis' fold over the record as it stood after each event.

Yesterday's record under yesterday's thresholds: a view of the record as of an event stands in for the store, and the
fold reads from it as from any other. Reports draw the steps, and re-derive an older report's figures from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from perpetual.lab.context import Context
from perpetual.lab.flows import Desks, fold
from perpetual.lab.flows.stale import root_of
from perpetual.lab.settings import PastMethodology
from perpetual.lab.states import ENDED
from perpetual.slots.store import Document

__all__ = ["history"]

_FIGURES = ("confidence", "log_odds", "e_support", "e_refute", "false_alarm_bound", "n_measured")


class _Past:
    """The record after some event; `advance` moves it on by one. The fold reads it as it reads a store."""

    def __init__(self, desks: Desks, methodology: PastMethodology) -> None:
        store = desks.ctx.store
        self.hypotheses = {item.id: item for item in store.find("hypothesis")}
        self.experiments = {item.id: item for item in store.find("experiment")}
        self._runs = store.find("run")
        self._evidence = store.find("evidence")
        self._of = {
            "experiment": _grouped([*self.experiments.values()], "hypothesis_id"),
            "run": _grouped(self._runs, "experiment_id"),
            "evidence": _grouped(self._evidence, "hypothesis_id"),
        }
        self._proposed: set[str] = set()
        self._statuses: dict[str, str] = {}
        self._rows = 0
        self._own: dict[str, dict[str, Any]] = {}  # of each hypothesis: what a person may change
        self._desks = desks.seen_by(cast(Context, _PastContext(self, desks.ctx, methodology)))

    def advance(self, event: Mapping[str, Any]) -> None:
        """Takes in one event."""
        kind, subject, payload = event["kind"], event["subject"], event["payload"]
        if kind == "run_status":
            self._statuses[subject] = payload["to"]
        elif kind == "experiment_proposed":
            self._proposed.add(subject)
        elif kind == "evidence_added":
            self._rows = max(self._rows, int(subject[1:]))
        elif kind == "hypothesis_added":
            self._own[subject] = {"prior": payload["prior"], "parked": False, "restated": False}
        elif kind == "hypothesis_updated" and subject in self._own:
            self._own[subject] |= {key: payload[key] for key in ("prior", "parked", "restated") if key in payload}

    def find(self, kind: str, /, **equals: Any) -> list[Document]:
        """Like a store's: all that match, oldest first, as they were."""
        by = {"experiment": "hypothesis_id", "run": "experiment_id", "evidence": "hypothesis_id"}[kind]
        if by in equals:
            found = self._of[kind].get(equals[by], [])
        else:
            found = {"experiment": [*self.experiments.values()], "run": self._runs, "evidence": self._evidence}[kind]
        if kind == "run":
            found = [self._run(item) for item in found]
        elif kind == "experiment":
            found = [item for item in found if item.id in self._proposed]
        elif kind == "evidence":
            found = [item for item in found if item.number <= self._rows]
        return [item for item in found if all(item.body.get(key) == value for key, value in equals.items())]

    def _run(self, run: Document) -> Document:
        status = self._statuses.get(run.id, "queued")
        if status in ENDED:
            return run
        return Document(run.kind, run.id, run.revision, run.number, run.seq,
                        {**run.body, "status": status, "metrics": {}})  # fmt: skip

    def _then(self, id: str) -> Document:
        hypothesis = self.hypotheses[id]
        body = {**hypothesis.body, **self._own[id]}
        return Document(hypothesis.kind, id, hypothesis.revision, hypothesis.number, hypothesis.seq, body)

    def cautions(self, id: str) -> list[str]:
        """What was to be known beside the confidence."""
        return fold.cautioned(self._desks, self._then(id), fold.rows_of(self._desks, id))

    def folded(self, id: str) -> dict[str, Any]:
        """What the evidence amounted to, with the status that followed from it."""
        then = self._then(id)
        found = fold.folded(self._desks, then, fold.rows_of(self._desks, id))
        return {name: found[name] for name in (*_FIGURES, "status", "flags", "evidence_count", "decided_by")} | {
            "prior": then.body["prior"]
        }


class _PastContext:
    """What the fold asks of its context."""

    def __init__(self, store: _Past, ctx: Context, methodology: PastMethodology) -> None:
        self.store, self.config, self._ctx = store, SimpleNamespace(methodology=methodology), ctx

    def need(self, kind: str, id: str) -> Document:
        """The document of that id: an experiment's specification does not change once it runs."""
        return self.store.experiments[id] if kind == "experiment" else self._ctx.need(kind, id)


def _grouped(documents: list[Document], key: str) -> dict[Any, list[Document]]:
    groups: dict[Any, list[Document]] = defaultdict(list)
    for document in documents:
        groups[document.body[key]].append(document)
    return groups


def history(desks: Desks, *, until: int | None = None, last: int = 100) -> dict[str, list[dict[str, Any]]]:
    """Every hypothesis' steps up to the event `until` (the newest by default), at most the `last` ones of each.

    A step is `{no, seq, time, actor, cause, subject}`, numbered from the hypothesis' first one, with the fold after
    it: `confidence`, `log_odds`, `e_support`, `e_refute`, `false_alarm_bound`, `n_measured`, `prior`, `status`,
    `flags`, `evidence_count`, `decided_by`. Causes: `prior` (added, or changed by a person), `evidence` (the subject is
    its row) and `baseline` (the subject is a run of an experiment that the hypothesis is compared with, or of one that
    extends it).
    The last step is what the record said at `until`, and its flags have what is to be known beside the confidence.
    """
    everything = [(row.number, row.body) for row in desks.ctx.store.rows("event")]
    events = [(number, event) for number, event in everything if until is None or number <= until]
    methodology = PastMethodology(desks.ctx.config.methodology, everything)
    past = _Past(desks, methodology)
    users: dict[str, set[str]] = defaultdict(set)  # of a baseline experiment
    for experiment in past.experiments.values():
        baseline, subject = experiment.body["design"]["baseline"], experiment.body["hypothesis_id"]
        if isinstance(baseline, str) and subject is not None:
            users[baseline].add(subject)
    moved: dict[str, list[int]] = defaultdict(list)  # by hypothesis: the events that may have moved it
    for experiment in past.experiments.values():
        root = root_of(desks, experiment).id
        if root != experiment.id:
            users[experiment.id] = users.get(root, set())
    known: set[str] = set()
    for number, event in events:
        if event["kind"] == "hypothesis_added":
            known.add(event["subject"])
        for id in _moved(event, users):
            if id in known:
                moved[id].append(number)
    wanted = defaultdict(list)
    for id, numbers in moved.items():
        for number in numbers[-last:]:
            wanted[number].append(id)
    steps: dict[str, list[dict[str, Any]]] = {id: [] for id in moved}
    first = {id: max(1, len(numbers) - last + 1) for id, numbers in moved.items()}
    for number, event in events:
        past.advance(event)
        methodology.at = number
        for id in wanted.get(number, ()):
            cause = {"evidence_added": "evidence", "run_status": "baseline"}.get(event["kind"], "prior")
            no = first[id] + len(steps[id])
            head = {"no": no, "seq": number, "time": event["time"], "actor": event["actor"], "cause": cause}
            steps[id].append({**head, "subject": event["subject"], **past.folded(id)})
    methodology.at = events[-1][0] if events else 0
    for id, own in steps.items():  # thresholds that were set, and runs that move nothing, change them too
        own[-1] |= past.folded(id)
        own[-1]["flags"] = [*own[-1]["flags"], *past.cautions(id)]
    return steps


def _moved(event: Mapping[str, Any], users: Mapping[str, set[str]]) -> list[str]:
    kind, payload = event["kind"], event["payload"]
    if kind == "hypothesis_added" or (kind == "hypothesis_updated" and {"prior", "parked"} & payload.keys()):
        return [event["subject"]]
    if kind == "evidence_added":
        return [payload["hypothesis_id"]]
    if kind == "run_status" and payload["to"] == "done":
        return sorted(users.get(payload["experiment_id"], ()))
    return []

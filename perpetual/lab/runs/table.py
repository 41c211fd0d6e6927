"""What a table of experiments is folded from: experiments with their runs, and what has changed since an earlier look.

The part in the slot `board` folds and shows it; see `Runs.table`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from perpetual.lab.context import Context
from perpetual.lab.kinds import EVENT, EVIDENCE, EXPERIMENT, HYPOTHESIS, RUN
from perpetual.lab.state_token import Present

if TYPE_CHECKING:
    from perpetual.documents.ledger import Effect
    from perpetual.lab.bodies import ExperimentBody, RunBody
    from perpetual.lab.kinds import KindName
    from perpetual.slots.store_rows import Body, Document

__all__ = ["Changed", "Mark", "Measured", "TableSource"]

_PAGE = 1000


class Mark(NamedTuple):
    """A state of the record: its last commit, its last event with that event's commit and digest."""

    seq: int
    event: int
    event_seq: int
    digest: str


class Changed(NamedTuple):
    """The ids of what has changed; experiments also where one of their runs has."""

    experiments: set[str]
    hypotheses: set[str]


class Measured(NamedTuple):
    """An experiment, without secrets, and its runs and those of the experiments that extend it, oldest first."""

    experiment: ExperimentBody
    runs: list[RunBody]


class TableSource:
    """The record as a table needs it. Reads only; the store is opened by the first method but `key` and `token`."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def key(self) -> str:
        """Returns what tells this project, read by this configuration's redactor, from every other one."""
        config = self._ctx.config
        return f"{config.folder}\n{config.project_id}\n{config['store']}\n{config['redactor']}"

    def token(self) -> str | None:
        """Returns what tells the present state from every other one, by a look at files; None where it cannot."""
        return Present(self._ctx).token()

    def mark(self) -> Mark:
        """Returns the present state."""
        store = self._ctx.store
        seq = store.seq()  # first: what is written meanwhile is looked at again
        last = store.get(EVENT, str(store.count("event")))
        if last is None:
            return Mark(seq, 0, 0, "")
        return Mark(seq, last.number, last.seq, sha256(json.dumps(last.body, sort_keys=True).encode()).hexdigest())

    def changed(self, since: tuple[int, int, int, str]) -> Changed | None:
        """Returns what has changed since a state; None where that is no earlier state of this record."""
        store, mark = self._ctx.store, Mark(*since)
        then = store.get(EVENT, str(mark.event)) if mark.event else None
        if then is None or mark.seq > store.seq():
            return None  # a backup was put back, or the record was moved
        if sha256(json.dumps(then.body, sort_keys=True).encode()).hexdigest() != mark.digest:
            return None
        found = Changed(set(), set())
        for change in store.changes(mark.event_seq):
            if change.kind == "experiment":
                found.experiments.add(change.id)
            elif change.kind == "run" and (run := store.get(RUN, change.id)) is not None:
                found.experiments.add(run.body["experiment_id"])
            elif change.kind == "hypothesis":
                found.hypotheses.add(change.id)
            elif change.kind == "evidence" and (row := store.get(EVIDENCE, change.id)) is not None:
                found.hypotheses.add(row.body["hypothesis_id"])
        return found

    def measured(self, ids: Collection[str] | None = None) -> Iterator[Measured]:
        """Yields these experiments, or every one, oldest first; one that extends another is part of that one."""
        store, runs = self._ctx.store, None if ids is not None else self._all_runs()
        for item in self._experiments(ids):
            members = [item.id, *item.body.get("extended_by", [])]
            own = (
                run
                for id in members
                for run in (runs.get(id, []) if runs is not None
                            else (each.body for each in store.find(RUN, experiment_id=id)))
            )  # fmt: skip
            shown = self._ctx.redaction
            yield Measured(shown.shown_specification(item.body), [shown.shown_record("run", run) for run in own])

    def effects(self, hypothesis_id: str) -> dict[str, Effect]:
        """Returns the effect of each design of a hypothesis, by the experiment whose prediction holds."""
        from perpetual.lab.evidence.confidence import effects_of

        found = self._ctx.store.get(HYPOTHESIS, hypothesis_id)
        if found is None or found.body.get("effect", ...) is None:
            return {}  # nothing of it is measured
        return effects_of(self._ctx, hypothesis_id)

    def _experiments(self, ids: Collection[str] | None) -> Iterator[Document[ExperimentBody]]:
        if ids is None:
            yield from (item for item in self._pages(EXPERIMENT) if not item.body.get("extends"))
            return
        found = {id: self._ctx.need(EXPERIMENT, id) for id in ids}
        roots = {root: self._ctx.need(EXPERIMENT, root) for item in found.values()
                 if (root := item.body.get("extends") or item.id)}  # fmt: skip
        yield from sorted(roots.values(), key=lambda item: item.number)

    def _all_runs(self) -> dict[str, list[RunBody]]:
        found: dict[str, list[RunBody]] = {}
        for run in self._pages(RUN):
            found.setdefault(run.body["experiment_id"], []).append(run.body)
        return found

    def _pages(self, kind: KindName[Body]) -> Iterator[Document[Body]]:
        cursor = None
        while True:
            page = self._ctx.store.page(kind, limit=_PAGE, cursor=cursor)
            yield from page.items
            if (cursor := page.next_cursor) is None:
                return

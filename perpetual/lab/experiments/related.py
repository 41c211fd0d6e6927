"""Index of what experiments are compared with and stand in for, so that a cycle reads those that bear on open claims.

It is kept in this process and read on by the store's feed of changes: its cost grows with what has changed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT, ExperimentRow
from perpetual.lab.ledger.experiments import ExperimentRecords

__all__ = ["Related"]


class Related:
    """Finds experiments by what their designs name, as it was committed last."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._lock = ctx, threading.Lock()
        self._store: object = None
        self._at = 0  # the commit up to which the store was read
        self._named: dict[str, list[tuple[str, str]]] = {}  # by experiment: what its design names, and as what
        self._naming: dict[tuple[str, str], dict[str, str | None]] = {}  # the other way, with each one's hypothesis

    def users(self, id: str) -> set[str | None]:
        """Returns the hypotheses of the experiments that are compared with this one; None stands for no hypothesis."""
        return {*self.compared_with(id).values()}

    def compared_with(self, id: str) -> dict[str, str | None]:
        """Returns those experiments, each with its hypothesis."""
        return self._those_naming("baseline", id)

    def bearing_on(self, hypothesis_ids: Iterable[str]) -> list[ExperimentRow]:
        """Returns the hypotheses' experiments and their baselines, with their stand-ins and experiments like them."""
        store, alike = self._ctx.store, ExperimentRecords(self._ctx).alike
        found = {item.id: item for id in hypothesis_ids for item in store.find(EXPERIMENT, hypothesis_id=id)}
        for id in {item.body["design"]["baseline"] for item in found.values()} - found.keys():
            if isinstance(id, str) and (item := store.get(EXPERIMENT, id)) is not None:
                found[id] = item
        for item in [*found.values()]:
            found |= {other.id: other for other in alike.of(item.body)}
            for id in self._those_naming("proxy_of", item.id).keys() - found.keys():
                found[id] = self._ctx.need(EXPERIMENT, id)
        return sorted(found.values(), key=lambda item: item.number)

    def _those_naming(self, field: str, id: str) -> dict[str, str | None]:
        store = self._ctx.store
        with self._lock:
            seq = store.seq()  # before the rows: what comes in between is read twice
            if store is not self._store:
                self._store, self._named, self._naming = store, {}, {}
                rows = store.slice("experiment", {})
            elif seq != self._at:
                ids = [change.id for change in store.changes(self._at) if change.kind == "experiment"]
                rows = [row for each in ids if (row := store.read("experiment", each)) is not None]
            else:
                rows = []
            self._at = seq
            for row in rows:
                for key in self._named.pop(row["_id"], ()):
                    del self._naming[key][row["_id"]]
                names = [(name, row["design"].get(name)) for name in ("baseline", "proxy_of")]
                self._named[row["_id"]] = [(name, other) for name, other in names if isinstance(other, str)]
                for key in self._named[row["_id"]]:
                    self._naming.setdefault(key, {})[row["_id"]] = row["hypothesis_id"]
            return {**self._naming.get((field, id), {})}

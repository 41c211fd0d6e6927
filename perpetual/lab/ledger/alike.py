"""Index of experiments by command and settings, so that a proposal reads the experiments like it and no others.

The index is a fold in the store (kind `fold`): buckets of design keys with the numbers of their experiments, and how
far it reaches. Experiments are numbered without gaps, so whatever wrote the later ones (an adoption, an import, an
earlier version) is found by its number: a few are looked at each time, and indexed once there are enough of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT, ExperimentRow, LabTransaction

__all__ = ["Alike"]

_REACH = "alike"  # the fold that says how many experiments are indexed
_KEEP_EVERY = 16  # experiments: so many are read at each proposal rather than written at each
_BUCKET = 3  # hexadecimal digits: 4,096 buckets
_KEY = 16  # digits that are kept; readers compare whole keys

Body = Mapping[str, object]


class Alike:
    """Experiments with the same command and settings, whatever they claim."""

    def __init__(self, ctx: Context, key: Callable[[Body], str]) -> None:
        """Takes a `key` that returns the same text for bodies with the same command and settings."""
        self._ctx, self._key = ctx, key
        self._store: object = None
        self._late: dict[int, str] = {}  # the keys of experiments beyond the index, as this process has read them

    def of(self, body: Body) -> list[ExperimentRow]:
        """Returns the stored experiments like this one, oldest first; reads none of the others but the newest few."""
        store = self._ctx.store
        whole = self._key(body)
        reach = self._reach()
        bucket = store.get("fold", _bucket(whole)) if reach else None
        numbers = {*bucket.body["keys"].get(whole[:_KEY], ())} if bucket is not None else set()
        numbers |= {number for number, key in self._beyond(reach).items() if key == whole}
        found = [store.get(EXPERIMENT, f"e{number}") for number in sorted(numbers)]
        return [item for item in found if item is not None and self._key_of(item) == whole]

    def keep(self, tx: LabTransaction, *, at_once: bool = False) -> None:
        """Writes what was proposed since the index was last written, where that is much, or `at_once`."""
        reach, total = self._reach(), tx.count("experiment")
        if total - reach < (1 if at_once else _KEEP_EVERY):
            return
        added: dict[str, dict[str, list[int]]] = {}
        for number, key in self._beyond(reach).items():
            added.setdefault(_bucket(key), {}).setdefault(key[:_KEY], []).append(number)
        for id, keys in added.items():
            self._add(tx, id, keys)
        tx.put("fold", _REACH, {"experiments": total})

    def moved(self, tx: LabTransaction, document: ExperimentRow) -> None:
        """Indexes an experiment anew whose command came later."""
        self._late.pop(document.number, None)
        if document.number <= self._reach():
            key = self._key(document.body)
            self._add(tx, _bucket(key), {key[:_KEY]: [document.number]})

    @staticmethod
    def _add(tx: LabTransaction, id: str, keys: Mapping[str, list[int]]) -> None:
        kept = tx.get("fold", id)
        present: dict[str, list[int]] = dict(kept.body["keys"]) if kept is not None else {}
        for key, numbers in keys.items():
            present[key] = sorted({*present.get(key, ()), *numbers})
        tx.put("fold", id, {"keys": present})

    def _reach(self) -> int:
        kept = self._ctx.store.get("fold", _REACH)
        return int(kept.body["experiments"]) if kept is not None else 0

    def _beyond(self, reach: int) -> dict[int, str]:
        """Returns the keys of the experiments that are not indexed yet, by number."""
        store = self._ctx.store
        if store is not self._store:
            self._store, self._late = store, {}
        found: dict[int, str] = {}
        for number in range(reach + 1, store.count("experiment") + 1):
            key = self._late.get(number)
            if key is None:
                document = store.get(EXPERIMENT, f"e{number}")
                key = self._key_of(document) if document is not None else None
                if key is None or document is None:
                    continue
                if document.body["command"] is not None:  # else a person may still complete it
                    self._late[number] = key
            found[number] = key
        for number in [number for number in self._late if number <= reach]:
            del self._late[number]
        return found

    def _key_of(self, document: ExperimentRow) -> str | None:
        try:
            return self._key(document.body)
        except (KeyError, TypeError, ValueError):
            return None  # no specification; `store verify` reports it


def _bucket(key: str) -> str:
    return f"{_REACH}:{key[:_BUCKET]}"

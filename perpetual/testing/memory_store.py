"""A store in memory: the twin of the real ones, for fast tests. One process, gone when it is closed.

It is the smallest thing that keeps the contract of `perpetual.slots.store`, so it shows what a store has to do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from perpetual.errors import TransientError
from perpetual.slots.store import Capabilities, Row, StoreBase

__all__ = ["InMemoryStore", "build"]


class InMemoryStore(StoreBase):
    """Rows in a dictionary by kind and id. Safe in threads; reading does not wait for an open transaction."""

    capabilities = Capabilities()

    def __init__(self, *, lock_timeout_s: float = 30.0) -> None:
        super().__init__()
        self._lock_timeout_s = lock_timeout_s
        self._writer = threading.Lock()
        self._guard = threading.Lock()  # a reader sees all of a batch or nothing
        self._rows: dict[str, dict[str, Row]] = {}

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Excludes the other threads."""
        if not self._writer.acquire(timeout=self._lock_timeout_s):
            raise TransientError(f"another thread has been writing for {self._lock_timeout_s:g} s", hint="try again")
        try:
            yield
        finally:
            self._writer.release()

    def read(self, kind: str, id: str) -> Row | None:
        """Returns one row."""
        with self._guard:
            return self._rows.get(kind, {}).get(id)

    def scan(self, kind: str, equals: Mapping[str, object]) -> Iterable[Row]:
        """Returns all matching rows of one moment."""
        with self._guard:
            rows = [*self._rows.get(kind, {}).values()]
        return [row for row in rows if all(row.get(field) == value for field, value in equals.items())]

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        """Writes all of it, at once."""
        with self._guard:
            for kind, id, row in batch:
                self._rows.setdefault(kind, {})[id] = row


def build(options: Mapping[str, object], *, path: Path) -> InMemoryStore:
    """Returns a factory as a store's provider names it; `path` stays unused."""
    return InMemoryStore()

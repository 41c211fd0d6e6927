"""Cache of the leaderboard's rows, in the user's cache folder: kept current by increments, rebuilt where it is broken.

A database of SQLite, so that several processes may write it and a killed one leaves the state before. It holds a state
of the record that its rows are at least as new as; what has changed since then is folded anew before an answer.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from typing import NamedTuple

from perpetual import __version__
from perpetual.toolkit.caches import cache_dir

__all__ = ["BROKEN", "BoardCache", "Cached", "State"]

_FORMAT = 1
_BUSY_S = 2.0
_TABLES = """
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT);
CREATE TABLE board (number INTEGER PRIMARY KEY, body TEXT);
CREATE TABLE effect (hypothesis TEXT PRIMARY KEY, body TEXT);
"""
BROKEN = (sqlite3.Error, OSError, ValueError, TypeError, KeyError)  # what a cache raises that cannot be used
Json = dict[str, object]


class State(NamedTuple):
    """A state of the record: `young` are the experiments and hypotheses that were written after its last event."""

    token: str | None
    mark: tuple[int, int, int, str]
    young: tuple[Sequence[str], Sequence[str]]


class Cached(NamedTuple):
    """Rows by number, and by hypothesis the effects of its experiments, as of a state or newer."""

    rows: dict[int, Json]
    effects: dict[str, dict[str, Json]]
    state: State


class BoardCache:
    """One project's cache; a method that fails raises one of `BROKEN`."""

    def __init__(self, key: str) -> None:
        self._key = f"{__version__}\n{key}"
        name = sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.path = os.path.join(cache_dir(), f"board{_FORMAT}-{name}.sqlite")

    def read(self) -> Cached | None:
        """Returns what is cached, of one moment; None where nothing is, or another version wrote it."""
        if not os.path.exists(self.path):
            return None
        with closing(self._open()) as found:
            found.execute("BEGIN")
            state = _state(found, self._key)
            if state is None:
                return None
            bodies = found.execute("SELECT number, body FROM board ORDER BY number").fetchall()
            effects = found.execute("SELECT hypothesis, body FROM effect").fetchall()
        rows = json.loads(f"[{','.join(body for _, body in bodies)}]")
        return Cached(
            {number: row for (number, _), row in zip(bodies, rows, strict=True)},
            {name: json.loads(body) for name, body in effects},
            state,
        )

    def write(
        self, rows: Mapping[int, Json], effects: Mapping[str, Mapping[str, Json]], state: State, *, anew: bool
    ) -> None:
        """Writes rows, effects and their state at once; does nothing where a later state is cached.

        Args:
            anew: these are all rows that there are.
        """
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        with closing(self._open(create=True)) as cache:
            cache.execute("BEGIN IMMEDIATE")
            present = _state(cache, self._key)
            if not anew and (present is None or present.mark[0] > state.mark[0]):
                return  # closing rolls back
            if anew:
                cache.execute("DELETE FROM board")
                cache.execute("DELETE FROM effect")
            cache.executemany(
                "INSERT OR REPLACE INTO board VALUES (?, ?)",
                ((number, json.dumps(row)) for number, row in rows.items()),
            )
            cache.executemany(
                "INSERT OR REPLACE INTO effect VALUES (?, ?)",
                ((name, json.dumps(found)) for name, found in effects.items()),
            )
            body = json.dumps([self._key, state.token, state.mark, state.young])
            cache.execute("INSERT OR REPLACE INTO state VALUES (1, ?)", (body,))
            cache.execute("COMMIT")

    def drop(self) -> None:
        """Removes the file."""
        for name in (f"{self.path}-journal", self.path):
            with suppress(OSError):
                os.unlink(name)

    def _open(self, *, create: bool = False) -> sqlite3.Connection:
        if create and not os.path.exists(self.path):
            self._create()
        from urllib.parse import quote

        path = quote(os.path.abspath(self.path))
        return sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=_BUSY_S, isolation_level=None)

    def _create(self) -> None:
        """Puts an empty cache in its place in one step, readable for its user alone."""
        temporary = f"{self.path}.{os.getpid()}"
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with closing(sqlite3.connect(temporary)) as empty:
                empty.executescript(_TABLES)
            with suppress(FileExistsError):  # another process was first
                os.link(temporary, self.path)
        finally:
            os.unlink(temporary)


def _state(found: sqlite3.Connection, key: str) -> State | None:
    row = found.execute("SELECT body FROM state").fetchone()
    if row is None:
        return None
    written, token, (seq, event, event_seq, digest), (experiments, hypotheses) = json.loads(row[0])
    if written != key:
        return None
    return State(token, (seq, event, event_seq, digest), (experiments, hypotheses))

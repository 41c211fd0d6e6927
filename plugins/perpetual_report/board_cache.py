"""Cache of the leaderboard's rows, in the user's cache folder: kept current by increments, rebuilt where it is broken.

A database of SQLite, so that several processes may write it and a killed one leaves the state before. It holds a state
of the record that its rows are at least as new as; what has changed since then is folded anew before an answer.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from typing import Any, NamedTuple

from perpetual import __version__
from perpetual.toolkit.caches import cache_dir
from perpetual_report.where import FIELDS, Key, Keys

__all__ = ["BROKEN", "BoardCache", "CachedRows", "Effects", "Mark", "Row", "State"]

Row = dict[str, Any]
Mark = tuple[int, int, int, str]  # its last commit, its last event, the commit and the digest of that
Effects = Mapping[str, Mapping[str, Mapping[str, object]]]  # by hypothesis and experiment

_FORMAT = 3
_BUSY_S = 2.0
_TABLES = """
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT);
CREATE TABLE board (number INTEGER PRIMARY KEY, hypothesis_id TEXT, status TEXT, created_at TEXT, title TEXT,
                    tags TEXT, metric TEXT, body TEXT);
CREATE INDEX board_hypothesis ON board (hypothesis_id);
CREATE TABLE value (kind TEXT, name TEXT, number INTEGER, value, PRIMARY KEY (kind, name, number)) WITHOUT ROWID;
CREATE INDEX value_number ON value (number);
CREATE TABLE effect (number INTEGER PRIMARY KEY, hypothesis_id TEXT, value REAL, body TEXT);
CREATE INDEX effect_hypothesis ON effect (hypothesis_id);
"""
BROKEN = (sqlite3.Error, OSError, ValueError, TypeError, KeyError)  # what a cache raises that cannot be used
_MOST_ASKED = 500  # numbers in one query


class State(NamedTuple):
    """A state of the record: `young` are the experiments and hypotheses that were written after its last event."""

    token: str | None
    mark: Mark
    young: Sequence[str]


class BoardCache:
    """One project's cache; a method that fails raises one of `BROKEN`."""

    def __init__(self, key: str) -> None:
        self._key = f"{__version__}\n{key}"
        name = sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.path = os.path.join(cache_dir(), f"board{_FORMAT}-{name}.sqlite")

    @contextmanager
    def reading(self) -> Iterator[CachedRows | None]:
        """Yields what is cached, of one moment; None where nothing is, or another version wrote it."""
        if not os.path.exists(self.path):
            yield None
            return
        with closing(self._open()) as found:
            found.execute("BEGIN")
            state = _state(found, self._key)
            yield None if state is None else CachedRows(found, state)

    def write(self, rows: Iterable[Row], effects: Effects, state: State, *, base: State | None, anew: bool) -> bool:
        """Writes rows, effects and their state at once; returns False where these rows do not follow on what is cached.

        Args:
            base: the state that was cached when these rows were read, None where none was.
            anew: these are all rows that there are; otherwise they are what has changed since `base`.
        """
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        with closing(self._open(create=True)) as cache:
            cache.execute("BEGIN IMMEDIATE")
            present = _state(cache, self._key)
            if anew:
                is_next = present == base  # another process may have put later rows there meanwhile
            else:
                is_next = present is not None and base is not None and base.mark[0] <= present.mark[0] <= state.mark[0]
            if not is_next:
                return False  # closing rolls back
            for name in ("board", "value", "effect") if anew else ():
                cache.execute(f"DELETE FROM {name}")
            for row in rows:
                _put(cache, row, is_new=anew)
            for hypothesis, found in effects.items():
                cache.execute("DELETE FROM effect WHERE hypothesis_id = ?", (hypothesis,))
                cache.executemany(
                    "INSERT OR REPLACE INTO effect VALUES (?, ?, ?, ?)",
                    ((int(id[1:]), hypothesis, one["value"], json.dumps(one)) for id, one in found.items()),
                )
            body = json.dumps([self._key, state.token, state.mark, state.young])
            cache.execute("INSERT OR REPLACE INTO state VALUES (1, ?)", (body,))
            cache.execute("COMMIT")
        return True

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


class CachedRows:
    """Rows of a cache, of which only the columns that are asked for are read."""

    def __init__(self, found: sqlite3.Connection, state: State) -> None:
        self._found, self.state = found, state

    def keys(self) -> Keys:
        """Returns the names of all metrics, measured or declared, and of all parameters."""
        rows = self._found.execute("SELECT DISTINCT kind, name FROM value WHERE kind IN ('metric', 'param')").fetchall()
        metrics = [name for kind, name in rows if kind == "metric"]
        return Keys([*metrics, *self.declared()], [name for kind, name in rows if kind == "param"])

    def numbers(self) -> list[int]:
        """Returns the number of each row, in order."""
        return [number for (number,) in self._found.execute("SELECT number FROM board ORDER BY number")]

    def column(self, key: Key) -> dict[int, object]:
        """Returns the values of a key by row; a row that lacks it is missing."""
        if key.kind == "field":
            if key.name == "id":
                return {number: f"e{number}" for number in self.numbers()}
            if key.name == "effect":
                return dict(self._found.execute("SELECT number, value FROM effect").fetchall())
            assert key.name in FIELDS.values()
            rows = self._found.execute(f"SELECT number, {key.name} FROM board WHERE {key.name} IS NOT NULL").fetchall()
            return dict(rows) if key.name != "tags" else {number: json.loads(tags) for number, tags in rows}
        return self._values(key.kind if key.part == "mean" else f"metric.{key.part}", key.name)

    def directions(self, metric: str) -> dict[int, object]:
        """Returns, by row, which way a metric is better, where its design says so."""
        return self._values("direction", metric)

    def declared(self) -> dict[str, int]:
        """Returns how many rows declare each metric."""
        counted = "SELECT metric, COUNT(*) FROM board WHERE metric IS NOT NULL GROUP BY metric"
        return dict(self._found.execute(counted).fetchall())

    def bodies(self, numbers: Sequence[int]) -> list[Row]:
        """Returns whole rows, in this order."""
        found: dict[int, Row] = {}
        for start in range(0, len(numbers), _MOST_ASKED):
            some = numbers[start : start + _MOST_ASKED]
            rows = self._found.execute(
                "SELECT number, board.body, effect.body FROM board LEFT JOIN effect USING (number)"
                f" WHERE number IN ({','.join('?' * len(some))})",
                [*some],
            )
            for number, body, effect in rows:
                found[number] = {**json.loads(body), "effect": None if effect is None else json.loads(effect)}
        return [found[number] for number in numbers]

    def linked(self, ids: Iterable[str]) -> set[str]:
        """Returns the hypotheses of the experiments that are compared with one of these, or take its runs."""
        return {
            name
            for id in ids
            for (name,) in self._found.execute(
                "SELECT hypothesis_id FROM value JOIN board USING (number) WHERE kind = 'link' AND name = ?", (id,)
            )
            if name is not None
        }

    def _values(self, kind: str, name: str) -> dict[int, object]:
        rows = self._found.execute("SELECT number, value FROM value WHERE kind = ? AND name = ?", (kind, name))
        return {number: value == b"true" if type(value) is bytes else value for number, value in rows.fetchall()}


def _put(cache: sqlite3.Connection, row: Row, *, is_new: bool) -> None:
    number = int(row["id"][1:])
    if not is_new:
        cache.execute("DELETE FROM value WHERE number = ?", (number,))
    tags = json.dumps(row["tags"]) if row["tags"] else None
    cache.execute(
        "INSERT OR REPLACE INTO board VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (number, row["hypothesis_id"], row["status"], row["created_at"], row["title"], tags, row["metric"],
         json.dumps(row)),
    )  # fmt: skip
    cache.executemany("INSERT OR REPLACE INTO value VALUES (?, ?, ?, ?)", _values_of(number, row))


def _values_of(number: int, row: Row) -> Iterator[tuple[str, str, int, object]]:
    for name, spread in row["metrics"].items():
        yield "metric", name, number, spread["mean"]
        yield "metric.n", name, number, spread["n"]
        if spread["sd"] is not None:
            yield "metric.sd", name, number, spread["sd"]
    for name, value in row["params"].items():
        if value is not None:
            yield "param", name, number, str(value).lower().encode() if isinstance(value, bool) else value
    for name, direction in row["directions"].items():
        yield "direction", name, number, direction
    for link in row["links"]:
        yield "link", link, number, None


def _state(found: sqlite3.Connection, key: str) -> State | None:
    row = found.execute("SELECT body FROM state").fetchone()
    if row is None:
        return None
    written, token, (seq, event, event_seq, digest), young = json.loads(row[0])
    if written != key:
        return None
    return State(token, (seq, event, event_seq, digest), young)

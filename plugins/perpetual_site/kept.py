"""What is dear to compute, kept for the next build in the user's cache folder: steps of hypotheses, curves, and pages.

Steps hold while no record that they follow from is written, by the numbers of the store's commits; curves also need
the files below the runs' folders as they were. Of a page there is kept what it was made from, and its digest: one that
is in its place is made again once it would be made from something else. A build of another program or under other
settings begins anew.
A database of SQLite, of which a curve is read when its page is made.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import TYPE_CHECKING, TypedDict, cast
from urllib.parse import quote
from uuid import uuid4

from perpetual.api import NotFound
from perpetual.toolkit import caches
from perpetual_report.related import Relations
from perpetual_report.snapshot import everything
from perpetual_report.steps import Step
from perpetual_site.inputs import loaded_files
from perpetual_site.laid import Laid

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Kept"]

_KIND = "site-kept"
_NEVER = 10**15  # a commit that no record reaches
_BACK = 64  # commits in which the one of the last event is looked for
_TABLES = """
DROP TABLE IF EXISTS steps; DROP TABLE IF EXISTS curves; DROP TABLE IF EXISTS pages; DROP TABLE IF EXISTS state;
CREATE TABLE state (token TEXT);
CREATE TABLE steps (id TEXT PRIMARY KEY, body TEXT);
CREATE TABLE curves (id TEXT PRIMARY KEY, seen TEXT, body TEXT);
CREATE TABLE pages (name TEXT PRIMARY KEY, inputs TEXT, links TEXT, digest TEXT);
"""


class Kept:
    """What holds still; to be opened before the record is read."""

    def __init__(self, lab: Lab, rules: str | None) -> None:
        """Finds what was written since the last build.

        Args:
            lab: whose record is shown.
            rules: what tells the program and the settings from all others; None keeps nothing.
        """
        self._lab, self._rules = lab, rules
        self._key = f"{lab.config.project_id}\n{os.fspath(lab.root)}"
        name = sha256(self._key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self._path = os.path.join(caches.cache_dir(), f"site-{name}.sqlite")
        self._anchor = None if rules is None else _anchor(lab)
        self._curves: dict[str, tuple[str, object]] = {}  # made by this build
        self._pages: dict[str, Laid] = {}  # the same
        self._known: Collection[str] = ()  # hypotheses whose steps were kept
        self._connection: sqlite3.Connection | None = None
        self._written: set[str] = set()  # hypotheses and experiments, of which something was written
        self._stale: set[str] = set()  # hypotheses of which a step may be another
        state = caches.load(_KIND, self._key)
        if self._anchor is not None and isinstance(state, dict) and state.get("rules") == rules:
            with contextlib.suppress(sqlite3.Error, OSError, KeyError, TypeError, ValueError, NotFound):
                self._open(cast("_State", state))

    def _open(self, state: _State) -> None:
        """Opens what an earlier build has kept, unless it is of another record; raises what is suppressed above."""
        last = self._lab.storage.changes(int(state["since"]))
        if last[0] < int(state["since"]) or _mark(self._lab, int(state["event"])) != state["mark"]:
            return  # a backup was put back
        written = _owners(self._lab, last[1]) | {*map(str, state["young"])}
        relations = Relations(everything(self._lab.experiments.list))
        stale = {
            item.id
            for item in everything(self._lab.hypotheses.list)
            if item.id in written or not written.isdisjoint(relations.related(relations.of(item.id)))
        }
        connection = _connected(self._path, "ro")
        if connection.execute("SELECT token FROM state").fetchall() != [(state["token"],)]:
            connection.close()
            return
        self._written, self._stale, self._connection = written, stale, connection

    def steps(self) -> dict[str, list[Step]]:
        """Returns the steps of the hypotheses of which none can have changed."""
        if self._connection is None:
            return {}
        try:
            rows = self._connection.execute("SELECT id, body FROM steps").fetchall()
            found = {id: [Step(**each) for each in json.loads(body)] for id, body in rows if id not in self._stale}
        except (sqlite3.Error, TypeError, ValueError):
            self._close()  # it is broken
            return {}
        self._known = found.keys()
        return found

    def is_current(self) -> bool:
        """Returns whether nothing was committed since this object was made: what holds then holds for what was read."""
        return self._anchor is not None and self._lab.storage.changes(self._anchor["last"])[0] == self._anchor["last"]

    def curve(self, id: str, seen: str | None) -> tuple[object] | None:
        """Returns the document of an experiment's curves as it was kept, which may be None.

        Args:
            id: of the experiment.
            seen: what its runs' folders hold now, as `look` says; None where that is not known.
        """
        if self._connection is None or seen is None or id in self._written:
            return None
        try:
            row = self._connection.execute("SELECT body FROM curves WHERE id = ? AND seen = ?", (id, seen)).fetchone()
            return None if row is None else (json.loads(row[0]),)
        except (sqlite3.Error, ValueError):
            return None

    def keep_curve(self, id: str, seen: str | None, document: object) -> None:
        """Keeps the document of an experiment's curves, once `save` is called."""
        if seen is not None:
            self._curves[id] = (seen, document)

    def page(self, name: str) -> Laid | None:
        """Returns what a page was made from."""
        if self._connection is None:
            return None
        try:
            query = "SELECT inputs, links, digest FROM pages WHERE name = ?"
            row = self._connection.execute(query, (name,)).fetchone()
            return None if row is None else Laid(row[0], json.loads(row[1]), row[2])
        except (sqlite3.Error, ValueError):
            return None

    def keep_page(self, name: str, laid: Laid) -> None:
        """Keeps what a page was made from, once `save` is called."""
        self._pages[name] = laid

    def save(self, steps: Mapping[str, Iterable[Step]]) -> None:
        """Writes what is to be kept; a cache that cannot be written is none.

        Args:
            steps: of all hypotheses.
        """
        if self._anchor is None:
            return
        token, is_new = uuid4().hex, self._connection is None
        self._close()
        try:
            os.makedirs(caches.cache_dir(), mode=0o700, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
            with contextlib.closing(_connected(self._path, "rw")) as cache:
                cache.execute("PRAGMA synchronous = OFF")  # what a power cut breaks is made anew
                self._write(cache, steps, token, is_new=is_new)
        except (sqlite3.Error, OSError):
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            return
        caches.save(_KIND, self._key, {**self._anchor, "rules": self._rules, "token": token}, loaded_files() or ())

    def _write(
        self, cache: sqlite3.Connection, steps: Mapping[str, Iterable[Step]], token: str, *, is_new: bool
    ) -> None:
        if is_new:
            cache.executescript(_TABLES)
        cache.execute("BEGIN IMMEDIATE")
        cache.executemany("DELETE FROM steps WHERE id = ?", [(id,) for id in self._stale])
        cache.executemany("DELETE FROM curves WHERE id = ?", [(id,) for id in self._written])
        fresh = {id: _exact([asdict(step) for step in own]) for id, own in steps.items() if id not in self._known}
        cache.executemany("INSERT OR REPLACE INTO steps VALUES (?, ?)", [pair for pair in fresh.items() if pair[1]])
        curves = [(id, seen, _exact(found)) for id, (seen, found) in self._curves.items()]
        cache.executemany("INSERT OR REPLACE INTO curves VALUES (?, ?, ?)", [row for row in curves if row[2]])
        pages = [(name, laid.inputs, json.dumps(laid.links), laid.sha256) for name, laid in self._pages.items()]
        cache.executemany("INSERT OR REPLACE INTO pages VALUES (?, ?, ?, ?)", [row for row in pages if row[1]])
        cache.execute("DELETE FROM state")
        cache.execute("INSERT INTO state VALUES (?)", (token,))
        cache.execute("COMMIT")

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connected(path: str, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode={mode}", uri=True, isolation_level=None)


def _exact(value: object) -> str | None:
    """Returns a value as JSON; None for one that would not be read as it is."""
    text = json.dumps(value)
    return text if json.loads(text) == value else None


class _Anchor(TypedDict):
    """What tells a state of the record from those of others, also of one that a backup has turned back.

    `since` is the commit of the event numbered `event`, `last` the last commit, and `young` was written between the
    two: in a record that was put back to an earlier state and written on, it may be another.
    """

    since: int
    young: list[str]
    event: int
    mark: str
    last: int


class _State(_Anchor):
    """What the cache says of the last build: the state of the record then, the rules, and the token of its database."""

    rules: str
    token: str


def _anchor(lab: Lab) -> _Anchor | None:
    """Returns the record's state at its last event; None where that commit is not among the last ones."""
    events, last = lab.feed.last(), lab.storage.changes(_NEVER)[0]
    for since in range(last, max(0, last - _BACK), -1):
        if ("event", str(events)) in lab.storage.changes(since - 1)[1]:
            young = sorted(_owners(lab, lab.storage.changes(since)[1]))
            return {"since": since, "young": young, "event": events, "mark": _mark(lab, events), "last": last}
    return None


def _mark(lab: Lab, number: int) -> str:
    """Returns what tells an event from that of another record."""
    found = lab.events(since=number - 1, limit=1) if number else []
    return "".join(sha256(f"{item.seq} {item.time} {item.kind} {item.subject}".encode()).hexdigest() for item in found)


def _owners(lab: Lab, changes: Iterable[tuple[str, str]]) -> set[str]:
    """Returns the hypotheses and experiments that were written, or of which a run or a row of evidence was."""
    found = set()
    for kind, id in changes:
        if kind in ("experiment", "hypothesis"):
            found.add(id)
        elif kind == "run":
            found.add(lab.runs.get(id).experiment_id)
        elif kind == "evidence":
            found.add(lab.evidence.get(f"v{id}").hypothesis_id)
    return found

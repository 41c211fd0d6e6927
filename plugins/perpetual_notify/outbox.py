"""The outbox: which notices wait for which notifier, and what became of the others, in one SQLite file.

The event feed is the queue. Reading it puts a notice into the outbox of each notifier, in the transaction that moves
the position; a notice leaves once its notifier has accepted it. A process that is killed in between sends the notice
that it was at again, under the same id. A notifier starts at the events that come after it was first seen.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import CorruptData, PerpetualError, TransientError
from perpetual.toolkit import confined
from perpetual_notify.notifier import Notice, notice
from perpetual_notify.topics import Words, is_of_interest, words_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Event

__all__ = ["ENDED_EARLY", "LIMITS", "Counts", "Dead", "Limits", "Outbox", "Pending"]

ENDED_EARLY = "the process that sent it was ended before it was accepted"
_FILE = "outbox.sqlite"
_BATCH = 500  # events read at once
_WAIT_S = 30.0  # for another process's transaction
_HOUR_S = 3600.0
_MOST_DEAD = 200  # notices that were given up are kept, for each notifier
_MOST_FOLDED = 10  # titles in a folded notice
_TABLES = (
    "CREATE TABLE IF NOT EXISTS place (seq INTEGER NOT NULL, failures INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS notifier (name TEXT PRIMARY KEY, since INTEGER NOT NULL, sent INTEGER NOT NULL, "
    "failed INTEGER NOT NULL, last_sent TEXT, error TEXT) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS notice (notifier TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, "
    "id TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL, body TEXT NOT NULL, time TEXT NOT NULL, "
    "number INTEGER NOT NULL, attempts INTEGER NOT NULL, began_s REAL, due_s REAL NOT NULL, error TEXT, "
    "dead INTEGER NOT NULL, PRIMARY KEY (notifier, first)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS recent (notifier TEXT NOT NULL, at_s REAL NOT NULL)",
)
_COLUMNS = "first, last, id, kind, title, body, time, number, attempts, began_s, due_s, error"


class Limits(NamedTuple):
    """How often a notice is tried, and when it is given up."""

    first_wait_s: float = 5.0  # after the first failure; twice as long after each further one
    longest_wait_s: float = 1800.0
    most_attempts: int = 24
    longest_s: float = 24 * 3600.0  # since the first attempt


LIMITS = Limits()


class Pending(NamedTuple):
    """A notice in the outbox."""

    first: int  # seq of the event that it is of, of several the first one
    last: int
    id: str
    kind: str
    title: str
    body: str
    time: str
    number: int  # of notices in it
    attempts: int
    began_s: float | None
    due_s: float  # POSIX seconds
    error: str | None

    def notice(self, project: str) -> Notice:
        """Returns the notice as it is sent."""
        return Notice(self.id, self.kind, project, self.title, self.body, self.time)


class Dead(NamedTuple):
    """A notice that was given up."""

    id: str
    kind: str
    title: str
    time: str
    attempts: int
    error: str


class Counts(NamedTuple):
    """How a notifier's outbox stands."""

    pending: int = 0
    sent: int = 0
    failed: int = 0
    last_sent: str | None = None
    due_s: float | None = None  # POSIX seconds
    error: str | None = None


class Outbox:
    """The outbox of a project, in `folder`; one instance for each thread.

    Raises:
        CorruptData: at any call, if the file is damaged.
        TransientError: at any call, if another process holds the file for long.
    """

    def __init__(self, folder: Path, limits: Limits = LIMITS, draw: Callable[[], float] = random.random) -> None:
        self._path, self._limits, self._draw = folder / _FILE, limits, draw
        os.close(confined.open_file(self._path, os.O_RDWR | os.O_CREAT))  # no link is followed there
        with self._explained():
            self._db = sqlite3.connect(self._path, timeout=_WAIT_S, isolation_level=None)
            try:
                self._db.execute("PRAGMA trusted_schema = OFF")
                self._db.execute("PRAGMA synchronous = FULL")
                for table in _TABLES:
                    self._db.execute(table)
            except sqlite3.Error:
                self._db.close()
                raise

    @staticmethod
    def is_there(folder: Path) -> bool:
        """Returns whether the outbox was made."""
        return (folder / _FILE).is_file()

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def __enter__(self) -> Outbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as problem:
            raise TransientError(
                f"the outbox {self._path} cannot be used now: {problem}", hint="try again"
            ) from problem
        except sqlite3.DatabaseError as problem:
            raise CorruptData(
                f"the outbox {self._path} is damaged: {problem}",
                hint=f"rm {self._path}; notices that wait in it are lost, the record is not touched",
            ) from problem

    @contextmanager
    def _changed(self) -> Iterator[sqlite3.Connection]:
        """Holds a transaction."""
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    # --- reading the feed -----------------------------------------------------------------------------------------

    @property
    def seq(self) -> int:
        """Returns the number of the last event that was read; 0 before the first."""
        with self._explained():
            row = self._db.execute("SELECT seq FROM place").fetchone()
        return 0 if row is None else int(row[0])

    def names(self) -> list[str]:
        """Returns the notifiers that notices are kept for."""
        with self._explained():
            return [name for (name,) in self._db.execute("SELECT name FROM notifier ORDER BY name")]

    def keep(self, names: Sequence[str], last: int) -> None:
        """Keeps notices for these notifiers alone; a new one starts after the event `last`, the newest.

        Of a record that was put back from a backup, and is shorter than what was read, the rest counts as read.
        """
        known, seq = set(self.names()), self.seq
        if known == set(names) and seq <= last and (seq or not names):
            return
        with self._changed() as db:
            known = {name for (name,) in db.execute("SELECT name FROM notifier")}
            for name in known - set(names):
                for table, column in (("notifier", "name"), ("notice", "notifier"), ("recent", "notifier")):
                    db.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))
            row = db.execute("SELECT seq FROM place").fetchone()
            if row is None or row[0] > last or not known & set(names):
                db.execute("DELETE FROM place")
                db.execute("INSERT INTO place VALUES (?, 0)", (last,))
            for name in names:
                db.execute(
                    "INSERT INTO notifier VALUES (?, ?, 0, 0, NULL, NULL) ON CONFLICT (name) DO NOTHING", (name, last)
                )
            db.execute("UPDATE notifier SET since = ? WHERE since > ?", (last, last))

    def read(self, lab: Lab, kinds: Sequence[str]) -> int:
        """Puts in what has happened since the last time; returns how many notices came of it."""
        made = 0
        while events := lab.feed.read(since=(since := self.seq), limit=_BATCH):
            last = events[-1].seq
            wanted = [event for event in events if is_of_interest(event)]
            made += self._put(lab, since, last, wanted, kinds)
        return made

    def _put(self, lab: Lab, since: int, last: int, events: Sequence[Event], kinds: Sequence[str]) -> int:
        """Puts in the notices of a batch of events, unless another process has meanwhile."""
        with self._explained():
            (failures,) = self._db.execute("SELECT failures FROM place").fetchone() or (0,)
        found: list[tuple[Event, Words]] = []
        for event in events:
            try:
                words, failures = words_of(lab, event, failures)
            except PerpetualError:
                raise  # the record cannot be read now
            except Exception:  # noqa: BLE001 - an odd payload of another plugin must not hold up all that follows
                words = Words("stops", f"{event.kind} of {event.subject}", "perpetual events")
            if words is not None and words.kind in kinds:
                found.append((event, words))
        clean = lab.part("redactor").text if found else str
        project = str(lab.config["project"])
        made = [
            (event, notice(id=f"{lab.config.project_id}-{event.seq}", kind=words.kind, project=project,
                           title=clean(words.title), text=clean(words.text), time=event.time))
            for event, words in found
        ]  # fmt: skip
        with self._changed() as db:
            row = db.execute("SELECT seq FROM place").fetchone()
            if row is None or row[0] != since:
                return 0
            for event, item in made:
                db.execute(
                    "INSERT INTO notice SELECT name, ?, ?, ?, ?, ?, ?, ?, 1, 0, NULL, 0, NULL, 0 FROM notifier "
                    "WHERE since < ? ON CONFLICT DO NOTHING",
                    (event.seq, event.seq, item.id, item.kind, item.title, item.text, item.time, event.seq),
                )
            db.execute("UPDATE place SET seq = ?, failures = ?", (last, failures))
        return len(made)

    # --- sending --------------------------------------------------------------------------------------------------

    def next(self, name: str, now_s: float, per_hour: int, *, at_once: bool = False) -> Pending | None:
        """Returns the notice that is to be sent to a notifier now, None for none.

        Where only one more may be sent in this hour, all that wait and were not tried become one.

        Args:
            at_once: also one that failed and is due later.
        """
        head = self._head(name)
        if head is None or not (at_once or self.is_due(head.due_s, now_s)):
            return None
        if head.attempts:
            return head  # it may have arrived: it goes on as it is
        left = per_hour - self._recent(name, now_s)
        if left <= 0:
            return None
        if left == 1 and self.counts(name).pending > 1:
            self._fold(name)
            return self._head(name)
        return head

    def is_due(self, due_s: float | None, now_s: float) -> bool:
        """Returns whether what is due at `due_s` is due now; what is too far off is of a clock that was set back."""
        return due_s is None or not 0 < due_s - now_s <= max(self._limits.longest_wait_s, _HOUR_S)

    def _head(self, name: str) -> Pending | None:
        with self._explained():
            row = self._db.execute(
                f"SELECT {_COLUMNS} FROM notice WHERE notifier = ? AND dead = 0 ORDER BY first LIMIT 1", (name,)
            ).fetchone()
        return None if row is None else Pending(*row)

    def _recent(self, name: str, now_s: float) -> int:
        """Returns how many notices a notifier has accepted in the last hour."""
        with self._explained():
            (count,) = self._db.execute(
                "SELECT count(*) FROM recent WHERE notifier = ? AND at_s > ? AND at_s <= ?",
                (name, now_s - _HOUR_S, now_s),
            ).fetchone()
        return int(count)

    def _fold(self, name: str) -> None:
        """Makes one notice of all that wait for a notifier and were not tried; it has an id of its own."""
        with self._changed() as db:
            rows = [
                Pending(*row)
                for row in db.execute(
                    f"SELECT {_COLUMNS} FROM notice WHERE notifier = ? AND dead = 0 AND attempts = 0 ORDER BY first",
                    (name,),
                )
            ]
            if len(rows) < 2:
                return
            first, last, number = rows[0], rows[-1], sum(row.number for row in rows)
            lines = [f"{row.time[:16].replace('T', ' ')} {row.title}" for row in rows[:_MOST_FOLDED]]
            rest = number - sum(row.number for row in rows[:_MOST_FOLDED])
            if rest:
                lines.append(f"and {rest} more")
            db.execute("DELETE FROM notice WHERE notifier = ? AND dead = 0 AND attempts = 0", (name,))
            project_id = first.id.partition("-")[0]
            db.execute(
                "INSERT INTO notice VALUES (?, ?, ?, ?, 'several', ?, ?, ?, ?, 0, NULL, 0, NULL, 0)",
                (name, first.first, last.last, f"{project_id}-{first.first}-{last.last}", f"{number} notices",
                 "\n".join([*lines, "perpetual events"]), last.time, number),
            )  # fmt: skip

    def begin(self, name: str, item: Pending, now_s: float) -> None:
        """Notes that a notice is being sent: if the process is ended meanwhile it has failed, and waits its time."""
        self._failed(name, item, ENDED_EARLY, now_s, attempts=item.attempts + 1)

    def done(self, name: str, item: Pending, now_s: float, time: str) -> None:
        """Takes a notice out that its notifier has accepted."""
        with self._changed() as db:
            db.execute("DELETE FROM notice WHERE notifier = ? AND first = ?", (name, item.first))
            db.execute(
                "UPDATE notifier SET sent = sent + ?, last_sent = ?, error = NULL WHERE name = ?",
                (item.number, time, name),
            )
            db.execute("DELETE FROM recent WHERE notifier = ? AND at_s <= ?", (name, now_s - _HOUR_S))
            db.execute("INSERT INTO recent VALUES (?, ?)", (name, now_s))

    def failed(self, name: str, item: Pending, error: str, now_s: float, *, wait_s: float = 0.0) -> bool:
        """Keeps a notice that `begin` has counted, until it is due again; returns whether it was given up.

        Args:
            wait_s: what the other side asked for, at least.
        """
        return self._failed(name, item, error, now_s, attempts=item.attempts + 1, wait_s=wait_s, is_over=True)

    def _failed(
        self, name: str, item: Pending, error: str, now_s: float, *, attempts: int, wait_s: float = 0.0,
        is_over: bool = False,
    ) -> bool:  # fmt: skip
        limits, began_s = self._limits, now_s if item.began_s is None else item.began_s
        planned_s = min(limits.longest_wait_s, limits.first_wait_s * 2.0 ** min(attempts - 1, 30))
        due_s = now_s + max(min(wait_s, limits.longest_wait_s), planned_s * (0.5 + 0.5 * self._draw()))
        dead = is_over and (attempts >= limits.most_attempts or now_s - began_s >= limits.longest_s)
        with self._changed() as db:
            db.execute(
                "UPDATE notice SET attempts = ?, began_s = ?, due_s = ?, error = ?, dead = ? "
                "WHERE notifier = ? AND first = ?",
                (attempts, began_s, due_s, error, int(dead), name, item.first),
            )
            db.execute("UPDATE notifier SET error = ? WHERE name = ?", (error, name))
            if dead:
                db.execute("UPDATE notifier SET failed = failed + ? WHERE name = ?", (item.number, name))
                db.execute(
                    "DELETE FROM notice WHERE notifier = ?1 AND dead = 1 AND first NOT IN "
                    "(SELECT first FROM notice WHERE notifier = ?1 AND dead = 1 ORDER BY first DESC LIMIT ?2)",
                    (name, _MOST_DEAD),
                )
        return dead

    # --- what is shown --------------------------------------------------------------------------------------------

    def counts(self, name: str) -> Counts:
        """Returns how a notifier's outbox stands."""
        with self._explained():
            row = self._db.execute(
                "SELECT sent, failed, last_sent, error FROM notifier WHERE name = ?", (name,)
            ).fetchone()
            if row is None:
                return Counts()
            (pending,) = self._db.execute(
                "SELECT coalesce(sum(number), 0) FROM notice WHERE notifier = ? AND dead = 0", (name,)
            ).fetchone()
        head = self._head(name)
        return Counts(int(pending), int(row[0]), int(row[1]), row[2], None if head is None else head.due_s, row[3])

    def dead(self, name: str, limit: int = 20) -> list[Dead]:
        """Returns the notices that were given up, at most the newest `limit`, oldest first."""
        with self._explained():
            rows = self._db.execute(
                "SELECT id, kind, title, time, attempts, coalesce(error, '') FROM notice WHERE notifier = ? "
                "AND dead = 1 ORDER BY first DESC LIMIT ?",
                (name, limit),
            ).fetchall()
        return [Dead(*row) for row in reversed(rows)]

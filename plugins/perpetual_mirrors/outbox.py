"""The outbox of one mirror: how far it has read the record's events, which runs wait, and what was pushed.

The events are the queue: each that changes what is pushed of a run puts the run in the outbox, in the transaction that
moves the position. A run leaves it once its mirror holds it. So a process that is killed pushes again at most the run
that it was at, under the same key. The outbox is one SQLite file; without it everything is pushed anew.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import NotFound
from perpetual.toolkit import confined
from perpetual_mirrors.content import ENDED

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Event

__all__ = ["ENDED_EARLY", "Outbox", "ended_since", "is_of_interest", "runs_of"]

ENDED_EARLY = "the process that pushed it was ended before it was done"
_BATCH = 500  # events read at once
_FIRST_WAIT_S, _LONGEST_WAIT_S = 60.0, 6 * 3600.0
_WAIT_S = 30.0  # for another process's transaction
_TABLES = (
    "CREATE TABLE IF NOT EXISTS position (seq INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS waiting (run TEXT PRIMARY KEY, place INTEGER NOT NULL, attempts INTEGER NOT NULL, "
    "due_s REAL NOT NULL, error TEXT) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS pushed (run TEXT PRIMARY KEY, digest TEXT NOT NULL) WITHOUT ROWID",
)
_OF_A_RUN = frozenset({"run_tainted", "run_annotated"})
_OF_MANY = frozenset({"experiment_edited", "hypothesis_status", "hypothesis_updated", "deed_undone"})


def is_of_interest(event: Event) -> bool:
    """Returns whether an event changes what is pushed of a run."""
    if event.kind == "run_status":
        return event.payload.get("to") in ENDED
    return event.kind in _OF_A_RUN or event.kind in _OF_MANY or event.kind == "evidence_added"


def ended_since(lab: Lab, seq: int, *, limit: int) -> int:
    """Returns how many runs have ended after an event, by at most `limit` events."""
    events = lab.feed.read(since=seq, limit=limit)
    return len({event.subject for event in events if event.kind == "run_status" and is_of_interest(event)})


def runs_of(lab: Lab, event: Event) -> Iterator[str]:
    """Yields the ids of the runs that an event is about; of a run that is live its end will come."""
    if event.kind == "evidence_added":
        yield from _measured(lab, event.subject)
    elif event.kind == "run_status" or event.kind in _OF_A_RUN or event.subject.startswith("r"):
        yield event.subject
    elif event.subject.startswith("e"):
        yield from (run.id for run in lab.runs.all(experiment_id=event.subject))
    elif event.subject.startswith("h"):
        for experiment in lab.experiments.all(hypothesis_id=event.subject):
            yield from (run.id for run in lab.runs.all(experiment_id=experiment.id))


def _measured(lab: Lab, id: str) -> Iterator[str]:
    """Yields the run of a row of evidence, and that of the row which it takes back."""
    try:
        row = lab.evidence.get(id)
        rows = [row, *([lab.evidence.get(row.target)] if row.target else [])]
    except NotFound:
        return
    yield from (found.run_id for found in rows if found.run_id is not None)


class Outbox:
    """The outbox of a mirror, in `folder`. The caller holds the mirror's lock."""

    def __init__(self, folder: Path, target: str) -> None:
        path = folder / f"{target}.sqlite"
        os.close(confined.open_file(path, os.O_RDWR | os.O_CREAT))  # no link is followed there
        self._db = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
        self._db.execute("PRAGMA trusted_schema = OFF")
        self._db.execute("PRAGMA synchronous = FULL")
        for table in _TABLES:
            self._db.execute(table)

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def __enter__(self) -> Outbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def seq(self) -> int:
        """Returns the number of the last event that was read."""
        row = self._db.execute("SELECT max(seq) FROM position").fetchone()
        return int(row[0] or 0)

    def forget(self) -> None:
        """Empties the outbox: every run that has ended is pushed anew."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            for table in ("position", "waiting", "pushed"):
                self._db.execute(f"DELETE FROM {table}")

    def read(self, lab: Lab) -> None:
        """Puts in what has happened since the last time; of a record that was put back from a backup, everything."""
        if lab.feed.last() < self.seq:
            self.forget()
        while events := lab.feed.read(since=self.seq, limit=_BATCH):
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                for event in filter(is_of_interest, events):
                    for run in runs_of(lab, event):
                        self._db.execute(
                            "INSERT INTO waiting VALUES (?, ?, 0, 0, NULL) ON CONFLICT (run) DO NOTHING",
                            (run, event.seq),
                        )
                self._db.execute("DELETE FROM position")
                self._db.execute("INSERT INTO position VALUES (?)", (events[-1].seq,))

    def waiting(self, now_s: float | None = None) -> list[str]:
        """Returns the runs that wait, oldest first; with `now_s` (POSIX seconds) those alone that are due then."""
        rows = self._db.execute(
            "SELECT run FROM waiting WHERE due_s <= ? ORDER BY place, length(run), run",
            (float("inf") if now_s is None else now_s,),
        )
        return [run for (run,) in rows]

    def digest(self, run: str) -> str | None:
        """Returns the checksum of what was pushed of a run last."""
        row = self._db.execute("SELECT digest FROM pushed WHERE run = ?", (run,)).fetchone()
        return None if row is None else str(row[0])

    def done(self, run: str, digest: str | None) -> None:
        """Takes a run out; `digest` is of what its mirror holds now, None where nothing was pushed."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM waiting WHERE run = ?", (run,))
            if digest is not None:
                self._db.execute("INSERT OR REPLACE INTO pushed VALUES (?, ?)", (run, digest))

    def begin(self, run: str, now_s: float) -> None:
        """Notes that a run is being pushed: if the process is ended meanwhile, it has failed, and waits its time."""
        self.failed(run, ENDED_EARLY, now_s)

    def failed(self, run: str, error: str, now_s: float, *, again: bool = True) -> None:
        """Keeps a run whose push has failed; it is due again after a minute, twice as long each time, at most 6 h.

        Args:
            again: False says why the push failed that `begin` has counted.
        """
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            row = self._db.execute("SELECT attempts FROM waiting WHERE run = ?", (run,)).fetchone()
            attempts = int(again) + (int(row[0]) if row else 0)
            wait_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(max(attempts - 1, 0), 20))
            self._db.execute(
                "UPDATE waiting SET attempts = ?, due_s = ?, error = ? WHERE run = ?",
                (attempts, now_s + wait_s, error, run),
            )

    def error(self) -> str | None:
        """Returns why the run that failed last waits, None where none has failed."""
        row = self._db.execute("SELECT run, error FROM waiting WHERE error IS NOT NULL ORDER BY due_s DESC").fetchone()
        return None if row is None else f"{row[0]}: {row[1]}"

    def due_s(self) -> float | None:
        """Returns when the next run is due, in POSIX seconds; None where none waits."""
        row = self._db.execute("SELECT min(due_s) FROM waiting").fetchone()
        return None if row is None or row[0] is None else float(row[0])

    def counts(self) -> tuple[int, int]:
        """Returns how many runs wait, and how many the mirror holds."""
        (waiting,) = self._db.execute("SELECT count(*) FROM waiting").fetchone()
        (pushed,) = self._db.execute("SELECT count(*) FROM pushed").fetchone()
        return int(waiting), int(pushed)

"""What became of the work in whose context notes were: credits for notes, folded from exposures and runs.

An exposure says which versions of notes were put into an actor's context. A run that this actor proposed or approved
afterwards, within a day, and before the next exposure, is that context's outcome: good if it ended with its metric
measured, bad if it failed or ran out of time. Each of n notes gets 1/n of it. A run that was killed, lost or tainted
says nothing. An exposure that names a run is of that run.

The fold reads what has changed: an exposure when it is appended, a run when it is written. Credits are whole parts of
`UNIT`, so that any order of folding gives the same sums.
"""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from perpetual.api import NotFound
from perpetual.toolkit.units import iso
from perpetual_recall.calls import take_exposure, take_run
from perpetual_recall.exposure import EXPOSURE
from perpetual_recall.ranking import UNIT

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Run

__all__ = ["EXPOSURE", "NAMES", "TABLES", "agent_of", "earliest", "expose", "latest", "outcome_of", "settle"]

_WINDOW = timedelta(days=1)
REPLAY = "replay"  # tag of the runs of trials
NAMES = ("exposures", "credits", "tallies")
TABLES = (
    "CREATE TABLE IF NOT EXISTS exposures (no INTEGER PRIMARY KEY, actor TEXT, time TEXT, run TEXT, notes TEXT)",
    "CREATE INDEX IF NOT EXISTS exposures_actor ON exposures (actor, time)",
    "CREATE INDEX IF NOT EXISTS exposures_run ON exposures (run)",
    "CREATE TABLE IF NOT EXISTS credits (run TEXT, path TEXT, blob TEXT, good INTEGER, bad INTEGER, "
    "PRIMARY KEY (run, path, blob)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS tallies (path TEXT, blob TEXT, good INTEGER, bad INTEGER, "
    "PRIMARY KEY (path, blob)) WITHOUT ROWID",
)


def agent_of(actor: str) -> str:
    """Returns the name under which an actor's exposures and runs meet: an agent's in any version, else the whole."""
    kind, _, name = actor.partition(":")
    return f"agent {name.partition('/')[0].lower()}" if kind in ("agent", "mcp") and name else actor


def expose(lab: Lab, connection: sqlite3.Connection, id: str) -> str | None:
    """Takes up an exposure; answers the run that it names."""
    try:
        row = lab.records(EXPOSURE).get(id)
    except NotFound:
        return None
    run = row.fields.get("run")
    named = run if isinstance(run, str) else None
    connection.execute(
        "INSERT OR REPLACE INTO exposures VALUES (?, ?, ?, ?, ?)",
        (int(id), agent_of(row.created_by), row.created_at, named, json.dumps(_notes(row.fields.get("notes")))),
    )
    take_exposure(connection, row, agent_of(row.created_by))
    return named


def _notes(value: object) -> list[tuple[str, str]]:
    """Returns path and blob of each note of an exposure, each once."""
    items: list[object] = value if isinstance(value, list) else []
    pairs = [(item.get("path"), item.get("blob")) for item in items if isinstance(item, dict)]
    return [*dict.fromkeys((path, blob) for path, blob in pairs if isinstance(path, str) and isinstance(blob, str))]


def settle(lab: Lab, connection: sqlite3.Connection, id: str) -> None:
    """Credits the notes of a run's context with its outcome, in place of what they were credited with for it."""
    for path, blob, good, bad in connection.execute("SELECT path, blob, good, bad FROM credits WHERE run = ?", (id,)):
        _add(connection, path, blob, -good, -bad)
    connection.execute("DELETE FROM credits WHERE run = ?", (id,))
    try:
        run = lab.runs.get(id)
        experiment = lab.experiments.get(run.experiment_id)
    except NotFound:
        return
    if REPLAY in experiment.tags:
        return  # its context is what the trial gave it
    is_good = outcome_of(run, experiment)
    if run.started_at is not None:
        take_run(connection, run, _actors(experiment), earliest(run.started_at), is_good)
    if is_good is None:
        return
    notes = _context(connection, run, experiment)
    for path, blob in notes:
        part = UNIT // len(notes)
        good, bad = (part, 0) if is_good else (0, part)
        connection.execute("INSERT INTO credits VALUES (?, ?, ?, ?, ?)", (id, path, blob, good, bad))
        _add(connection, path, blob, good, bad)


def outcome_of(run: Run, experiment: Experiment) -> bool | None:
    """Returns whether a run ended well; None for one that goes on, or whose end says nothing of the work."""
    if run.tainted or run.status not in ("done", "failed", "timeout"):
        return None
    metric = experiment.design.metric
    return run.status == "done" and (metric is None or run.metrics.get(metric) is not None)


def _context(connection: sqlite3.Connection, run: Run, experiment: Experiment) -> list[tuple[str, str]]:
    """Returns the notes in whose context a run was started: of an exposure that names it, else of its actor's last."""
    row = connection.execute("SELECT notes FROM exposures WHERE run = ? ORDER BY no DESC LIMIT 1", (run.id,)).fetchone()
    if row is None and run.started_at is not None:
        actors = _actors(experiment)
        row = connection.execute(
            f"SELECT notes FROM exposures WHERE actor IN ({', '.join('?' * len(actors))}) AND run IS NULL "
            "AND time <= ? AND time >= ? ORDER BY no DESC LIMIT 1",
            (*actors, run.started_at, earliest(run.started_at)),
        ).fetchone()
    return [] if row is None else [(path, blob) for path, blob in json.loads(row[0])]


def _actors(experiment: Experiment) -> list[str]:
    """Returns the agents that a run is a deed of: the one that proposed it, and the one that approved it."""
    return sorted({agent_of(name) for name in (experiment.proposed_by, experiment.approved_by) if name})


def earliest(time: str) -> str:
    """Returns when an exposure was made at the earliest whose context a run of this time may be of; ISO 8601, UTC."""
    return iso(datetime.fromisoformat(time) - _WINDOW)


def latest(time: str) -> str:
    """Returns until when a run may be started that is the outcome of an exposure; ISO 8601, UTC."""
    return iso(datetime.fromisoformat(time) + _WINDOW)


def _add(connection: sqlite3.Connection, path: str, blob: str, good: int, bad: int) -> None:
    connection.execute(
        "INSERT INTO tallies VALUES (?, ?, ?, ?) "
        "ON CONFLICT (path, blob) DO UPDATE SET good = good + excluded.good, bad = bad + excluded.bad",
        (path, blob, good, bad),
    )

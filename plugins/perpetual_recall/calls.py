"""Calls: an exposure in which it was drawn whether a promoted note is shown, and the agent's first run after it.

A call of a version is the agent's first exposure, since its last start of a run, in which the version was drawn on:
what an agent asks for again may depend on what it was shown. Calls are counted in the order of exposures. One whose
run goes on, or may still be started, holds up those after it. One without a run within a day, or whose run ended in a
way that says nothing of the work, is left out; so is the second call of one run. Those before the version was last
promoted do not count: the promotion of a note that had been taken back begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perpetual_recall.harm import Call

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record, Run
    from perpetual_recall.index import Connection

__all__ = ["NAMES", "TABLES", "calls_of", "due", "settled", "started", "take_events", "take_exposure", "take_run"]

NAMES = ("calls", "starts", "promotions", "due")
TABLES = (
    "CREATE TABLE IF NOT EXISTS calls (no INTEGER, actor TEXT, runs INTEGER, path TEXT, blob TEXT, shown INTEGER, "
    "chance REAL, time TEXT, PRIMARY KEY (path, blob, actor, runs)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS calls_actor ON calls (actor, time)",
    "CREATE TABLE IF NOT EXISTS starts (run TEXT, actor TEXT, time TEXT, outcome TEXT, PRIMARY KEY (run, actor)) "
    "WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS starts_actor ON starts (actor, time)",
    "CREATE INDEX IF NOT EXISTS starts_time ON starts (time)",
    "CREATE TABLE IF NOT EXISTS promotions (path TEXT, blob TEXT, time TEXT, PRIMARY KEY (path, blob)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS due (path TEXT, blob TEXT, PRIMARY KEY (path, blob)) WITHOUT ROWID",
)
_PAGE = 1000  # events
_ENDED = ("done", "failed", "timeout", "killed", "lost")
_GOES_ON, _GOOD, _BAD, _NOTHING = "goes on", "good", "bad", "nothing"


def take_exposure(connection: Connection, row: Record, actor: str) -> None:
    """Takes up the draws of an exposure; those of one that names its run, or that hold no draw, are none."""
    drawn, holdout, runs = (row.fields.get(key) for key in ("drawn", "holdout", "runs"))
    if not isinstance(drawn, list) or not isinstance(holdout, float) or not isinstance(runs, int):
        return
    if not 0 < holdout < 1 or row.fields.get("run") is not None:
        return
    for item in drawn:
        known = item if isinstance(item, dict) else {}
        path, blob, shown = (known.get(key) for key in ("path", "blob", "shown"))
        if isinstance(path, str) and isinstance(blob, str) and isinstance(shown, bool):
            connection.execute(
                "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path, blob, actor, runs) DO UPDATE SET "
                "no = excluded.no, shown = excluded.shown, chance = excluded.chance, time = excluded.time "
                "WHERE excluded.no < calls.no",
                (int(row.id), actor, runs, path, blob, shown, 1 - holdout, row.created_at),
            )


def take_run(connection: Connection, run: Run, actors: list[str], earliest: str, is_good: bool | None) -> None:
    """Takes up a run that was started, and marks the versions of whose calls it may be the outcome."""
    outcome = _NOTHING if is_good is None else _GOOD if is_good else _BAD
    if run.status not in _ENDED:
        outcome = _GOES_ON
    for actor in actors:
        connection.execute(
            "INSERT OR REPLACE INTO starts VALUES (?, ?, ?, ?)", (run.id, actor, run.started_at, outcome)
        )
        connection.execute(
            "INSERT OR IGNORE INTO due SELECT DISTINCT path, blob FROM calls "
            "WHERE actor = ? AND time >= ? AND time <= ?",
            (actor, earliest, run.started_at),
        )


def take_events(lab: Lab, connection: Connection, since: int, last: int) -> int:
    """Takes up promotions among the events above `since` up to `last`, a page of them; returns how far it came."""
    if since >= last:
        return last
    events = lab.events(since=since, limit=min(_PAGE, last - since))
    for event in events:
        if event.kind == "note_promoted" and event.payload.get("was") != "promoted":
            connection.execute(
                "INSERT OR REPLACE INTO promotions VALUES (?, ?, ?)",
                (event.subject, str(event.payload.get("blob")), event.time),
            )
    return events[-1].seq if events else last


def started(connection: Connection, actor: str) -> int:
    """Returns how many runs an agent has started."""
    return int(connection.execute("SELECT count(*) FROM starts WHERE actor = ?", (actor,)).fetchone()[0])


def calls_of(connection: Connection, path: str, blob: str) -> Iterator[Call]:
    """Yields the calls of a version that count, in their order, up to the first that is not over."""
    from perpetual_recall.outcomes import latest

    since = connection.execute("SELECT time FROM promotions WHERE path = ? AND blob = ?", (path, blob)).fetchone()
    (now,) = connection.execute(
        "SELECT max(coalesce((SELECT max(time) FROM starts), ''), "
        "coalesce((SELECT time FROM exposures ORDER BY no DESC LIMIT 1), ''))"
    ).fetchone()
    rows = connection.execute(
        "SELECT shown, chance, calls.time, first.run, first.time, first.outcome FROM calls LEFT JOIN starts AS first "
        "ON first.actor = calls.actor AND first.run = (SELECT run FROM starts WHERE starts.actor = calls.actor "
        "AND starts.time >= calls.time ORDER BY starts.time, length(run), run LIMIT 1) "
        "WHERE path = ? AND blob = ? AND calls.time >= ? ORDER BY no",
        (path, blob, since[0] if since else ""),
    )
    used: set[str] = set()
    for shown, chance, time, run, start, outcome in rows:
        if run is None and now <= latest(time):
            return
        if run is None or start > latest(time) or run in used:
            continue
        used.add(run)
        if outcome == _GOES_ON:
            return
        if outcome != _NOTHING:
            yield Call(bool(shown), outcome == _GOOD, chance)


def due(connection: Connection) -> list[tuple[str, str]]:
    """Returns the versions of which a call may be over since they were last looked at."""
    return [(path, blob) for path, blob in connection.execute("SELECT path, blob FROM due ORDER BY path, blob")]


def settled(connection: Connection, version: tuple[str, str]) -> None:
    """Notes that a version was looked at."""
    connection.execute("DELETE FROM due WHERE path = ? AND blob = ?", version)

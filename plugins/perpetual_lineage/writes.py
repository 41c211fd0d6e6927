"""Counts of the notes that each source wrote in the last hour, from the feed: of all its processes together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from perpetual.toolkit.units import iso

if TYPE_CHECKING:
    from perpetual.api import Event
    from perpetual_lineage.index import Connection

__all__ = ["TABLES", "fold", "over"]

_WINDOW = timedelta(hours=1)
_AHEAD = timedelta(minutes=1)  # of a clock that runs fast
TABLES = (
    "CREATE TABLE writes (seq INTEGER PRIMARY KEY, time TEXT, source TEXT, path TEXT, blob TEXT, rejected INTEGER)",
    "CREATE INDEX writes_source ON writes (source, time)",
    "CREATE INDEX writes_path ON writes (path)",
    "CREATE INDEX writes_time ON writes (time)",
    "CREATE INDEX writes_rejected ON writes (source, time) WHERE rejected",
)


def fold(connection: Connection, event: Event) -> None:
    """Takes up a write, or a rejection of what was written."""
    if event.kind == "note_written":
        earliest = iso(datetime.now(UTC) - _WINDOW)
        if event.time <= earliest:
            return
        from perpetual_recall.outcomes import agent_of

        said = event.payload
        row = (
            event.seq,
            event.time,
            agent_of(event.actor),
            event.subject,
            said.get("blob"),
            said.get("status") == "rejected",
        )
        connection.execute("INSERT OR REPLACE INTO writes VALUES (?, ?, ?, ?, ?, ?)", row)
        old = "SELECT seq FROM writes WHERE time <= ? ORDER BY time LIMIT 100"
        connection.execute(f"DELETE FROM writes WHERE seq IN ({old})", (earliest,))
    elif event.kind == "note_rejected":
        pair = (event.subject, event.payload.get("blob"))
        connection.execute("UPDATE writes SET rejected = 1 WHERE path = ? AND blob = ?", pair)


def over(connection: Connection, actor: str, most_writes: int, most_rejected: int) -> str | None:
    """Returns what an actor has written too much of in the last hour, and until when; None while it may write.

    Args:
        most_writes: in an hour, 0 for no limit.
        most_rejected: likewise.
    """
    from perpetual_recall.outcomes import agent_of

    now, source = datetime.now(UTC), agent_of(actor)
    bounds = (source, iso(now - _WINDOW), iso(now + _AHEAD))
    within = "FROM writes WHERE source = ? AND time > ? AND time <= ?"
    for what, most, which in (("notes", most_writes, ""), ("rejected notes", most_rejected, " AND rejected")):
        # Of many writes only the one is read at which the limit is reached; they are counted where it was.
        newest = f"SELECT time {within}{which} ORDER BY time DESC LIMIT 1 OFFSET ?"
        found = connection.execute(newest, (*bounds, most - 1)).fetchone() if most else None
        if found is not None:
            (count,) = connection.execute(f"SELECT COUNT(*) {within}{which}", bounds).fetchone()
            until = datetime.fromisoformat(found[0]) + _WINDOW
            return f"{source} wrote {count} {what} within an hour (limit {most}): until {iso(until)} a person decides"
    return None

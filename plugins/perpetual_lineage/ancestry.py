"""Which notes lose their ground with their sources, from the tables of `perpetual_lineage.folding`.

A source that is taken back takes along each note that derives from it, and those that derive from these, unless a
person has promoted the note afterwards, or has left the derived notes as they are. A note that was written while its
source held loses its ground also where the source has come back since: it is named for review.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpetual_lineage.derivation import today
from perpetual_lineage.folding import NoteState, state_of, states_above

if TYPE_CHECKING:
    from perpetual_lineage.index import Connection

__all__ = ["MOST", "Lost", "below", "follows", "is_over", "lost", "spared"]

MOST = 10_000  # notes of one lineage that are looked at
_ABOVE = (  # the notes that are asked about, and all that they derive from
    "WITH RECURSIVE above (path) AS (SELECT value FROM json_each(?) UNION "
    "SELECT source FROM edges JOIN above ON edges.path = above.path LIMIT ?) "
)
_EDGES = f"{_ABOVE}SELECT above.path, source FROM above LEFT JOIN edges ON edges.path = above.path ORDER BY 1, 2"


@dataclass(frozen=True, slots=True)
class Lost:
    """Why a note has lost its ground: the note that was taken back, the source through which, and when (an event)."""

    path: str
    source: str
    through: str
    event: int
    why: str
    by_agent: bool = False


def is_over(known: NoteState) -> bool:
    """Returns whether the last day of the shown version is past, and no promotion came after it."""
    day = known.expires
    return day is not None and day < today().isoformat() and known.vouched_day <= day


class _Graph:
    """A part of the lineage, read from the tables once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._states: dict[str, NoteState | None] = {}
        self.sources: dict[str, list[str]] = {}
        self.derived: dict[str, list[str]] = {}

    def state(self, path: str) -> NoteState | None:
        if path not in self._states:
            self._states[path] = state_of(self._connection, path)
        return self._states[path]

    def take_up(self, starts: Iterable[str]) -> bool:
        """Reads the notes and everything that they derive from; answers whether that is all of it."""
        asked = (json.dumps([*starts]), MOST + 1)
        for path, source in self._connection.execute(_EDGES, asked):
            known = self.sources.setdefault(path, [])
            if source is not None:
                known.append(source)
                self.derived.setdefault(source, []).append(path)
        self._states |= {state.path: state for state in states_above(self._connection, _ABOVE, asked)}
        return len(self.sources) <= MOST

    def spread(self, taken: str | None = None, at: int = 0, *, spares: bool = True) -> dict[str, Lost]:
        """Returns the notes that have lost their ground.

        Args:
            taken: a note that is taken back for trial.
            at: the event at which it is.
            spares: leaves out notes that a person promoted and whose source an agent's process took back.
        """
        found: dict[str, Lost] = {}
        waiting = deque(path for path in self.sources if self._is_root(path, taken))
        while waiting:
            source = waiting.popleft()
            for path in self.derived.get(source, ()):
                reason = self._reason(path, source, found.get(source), taken, at, spares)
                if reason is not None and (path not in found or found[path].event < reason.event):
                    found[path] = reason
                    waiting.append(path)
        return found

    def _is_root(self, path: str, taken: str | None) -> bool:
        known = self.state(path)
        return path == taken or (known is not None and (known.lost > 0 or is_over(known)))

    def _reason(
        self, path: str, source: str, upper: Lost | None, taken: str | None, at: int, spares: bool
    ) -> Lost | None:
        mine, theirs = self.state(path), self.state(source)
        if mine is None:
            return None
        made: list[Lost] = []
        if source == taken:
            made.append(Lost(path, source, source, at, "it is taken back"))
        elif theirs is not None and theirs.lost > 0 and mine.seq > theirs.kept:
            # Still taken back, or taken back after this version was written: only a later promotion overrules that.
            if theirs.taken or theirs.lost > mine.seq:
                why = theirs.why if theirs.taken else f"{theirs.why} (the source is back: review this note)"
                made.append(Lost(path, source, source, theirs.lost, why, bool(theirs.by_agent)))
        elif theirs is not None and is_over(theirs) and mine.vouched_day <= str(theirs.expires):
            # The next scan makes it expired; until then it stands for that.
            made.append(Lost(path, source, source, max(theirs.seq, mine.vouched + 1), f"it expired {theirs.expires}"))
        if upper is not None:
            made.append(Lost(path, upper.source, source, upper.event, upper.why, upper.by_agent))
        left = (it for it in made if it.event > mine.vouched and not (spares and it.by_agent and mine.promoted))
        return max(left, key=lambda it: it.event, default=None)


def lost(connection: Connection, paths: Iterable[str]) -> dict[str, Lost]:
    """Returns which of these notes have lost their ground, and why.

    One that derives from more notes than are looked at counts as lost: its ground is not known.
    """
    found: dict[str, Lost] = {}
    asked = [*dict.fromkeys(paths)]
    graph = _Graph(connection)
    if graph.take_up(asked):
        spread = graph.spread()
        return {path: spread[path] for path in asked if path in spread}
    for path in asked:  # one by one, so that a note of an endless lineage is the only one that is withheld for it
        graph = _Graph(connection)
        if not graph.take_up([path]):
            found[path] = Lost(path, path, path, 0, f"it derives from more than {MOST:,} notes")
        elif path in (spread := graph.spread()):
            found[path] = spread[path]
    return found


def spared(connection: Connection, paths: Iterable[str]) -> dict[str, Lost]:
    """Returns which of these promoted notes stay only because an agent's process took their source back, and why.

    They are left to a person. One of more notes than are looked at is none of them: it is withheld.
    """
    known = ((path, state_of(connection, path)) for path in dict.fromkeys(paths))
    asked = [path for path, state in known if state is not None and state.promoted]
    graph = _Graph(connection)
    if not graph.take_up(asked):
        return (
            {} if len(asked) == 1 else {path: why for one in asked for path, why in spared(connection, [one]).items()}
        )
    stay, now = graph.spread(spares=False), graph.spread()
    return {path: stay[path] for path in asked if path in stay and path not in now}


def below(connection: Connection, path: str) -> list[str]:
    """Returns the notes that derive from one, the nearest first, at most `MOST`."""
    found: dict[str, None] = {}
    waiting = deque([path])
    while waiting and len(found) < MOST:
        rows = connection.execute("SELECT path FROM edges WHERE source = ? ORDER BY path", (waiting.popleft(),))
        for (name,) in rows:
            if name not in found and name != path:
                found[name] = None
                waiting.append(name)
    return [*found][:MOST]


def follows(connection: Connection, path: str, at: int) -> list[tuple[NoteState, Lost]]:
    """Returns what would lose its ground if a note were taken back at event `at`: the nearest first."""
    known = state_of(connection, path)
    is_newest = known is not None and (known.status == "rejected" or known.promoted in (0, known.seq))
    if known is not None and (not is_newest or len(json.loads(known.earlier)) > 1):
        return []  # an earlier version, which a person has promoted, stays or is shown again
    graph, names = _Graph(connection), below(connection, path)
    if not graph.take_up([path, *names]):
        names = [name for name in names if name in graph.sources]
    found = graph.spread(path, at)
    made = [(graph.state(name), found[name]) for name in names if name in found]
    return [(state, reason) for state, reason in made if state is not None and state.status in _DECIDABLE]


_DECIDABLE = ("candidate", "promoted", "expired")  # of which a stage may make quarantined ones

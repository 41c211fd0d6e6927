"""What events say of lineage, in tables: which notes are shown, which were taken back and when, what each derives from.

A note is *taken back* at an event after which agents are shown no version of it: a rejection (by a person, by evidence
or by a gate), a quarantine by evidence, or the end of its last day. A note that a gate has put aside is not taken back,
nor one whose undecided trial expired; a note that is quarantined for its source has its source's fate, not its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from perpetual.api import NotFound
from perpetual_lineage import tombs, writes
from perpetual_lineage.derivation import derivation_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Event, Note
    from perpetual_lineage.index import Connection

__all__ = ["EXPIRY", "KEPT", "LINEAGE", "TABLES", "NoteState", "fold", "start", "state_of", "states_above"]

LINEAGE, EXPIRY = "perpetual-lab/lineage", "perpetual-lab/expiry"  # as the reasons of decisions name the stages
KEPT = "lineage.kept"
_PLAIN = ("note", "episodic_case", "failure_pattern")  # types that agents are shown without a promotion
_EVENTS = ("note_written", "note_promoted", "note_rejected", "note_quarantined", "note_expired")
_MOST_EARLIER = 20  # promoted versions of a note, as the record keeps them
_LONGEST_WHY = 200  # characters
TABLES = (
    # Numbers are those of events: `seq` of the newest version, `promoted` and `exposed` of the version that is shown
    # (0: none), `vouched` of the last promotion, `taken` (0: not now) and `lost` of the last time that the note was
    # taken back, `kept` up to which notes derived from it stay. `by_agent`: it was no person, nor evidence alone, that
    # took it back, so notes that a person promoted stay. `earlier`: JSON of the versions that were promoted before the
    # shown one, each [blob, promoted, vouched, vouched_day], and the shown one last.
    "CREATE TABLE notes (path TEXT PRIMARY KEY, blob TEXT, type TEXT, status TEXT, seq INTEGER, promoted INTEGER, "
    "exposed INTEGER, vouched INTEGER, vouched_day TEXT, taken INTEGER, lost INTEGER, by_agent INTEGER, kept INTEGER, "
    "why TEXT, expires TEXT, earlier TEXT) WITHOUT ROWID",
    "CREATE INDEX notes_expires ON notes (expires) WHERE expires IS NOT NULL",
    "CREATE TABLE edges (path TEXT, source TEXT, PRIMARY KEY (path, source)) WITHOUT ROWID",
    "CREATE INDEX edges_source ON edges (source)",
    "CREATE TABLE due (path TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE review (path TEXT, source TEXT, PRIMARY KEY (path, source)) WITHOUT ROWID",
    *tombs.TABLES,
    *writes.TABLES,
)


@dataclass(slots=True)
class NoteState:
    """What the events so far say of a note; see the table `notes`."""

    path: str
    blob: str = ""
    type: str = "note"
    status: str = "candidate"
    seq: int = 0
    promoted: int = 0
    exposed: int = 0
    vouched: int = 0
    vouched_day: str = ""
    taken: int = 0
    lost: int = 0
    by_agent: int = 0
    kept: int = 0
    why: str = ""
    expires: str | None = None
    earlier: str = "[]"

    @property
    def is_shown(self) -> bool:
        """Returns whether agents may be shown a version, as far as its events say."""
        return self.promoted > 0 or (self.exposed > 0 and self.type in _PLAIN)


_COLUMNS = tuple(field.name for field in fields(NoteState))
_PUT = f"INSERT OR REPLACE INTO notes ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_GET = f"SELECT {', '.join(_COLUMNS)} FROM notes WHERE path = ?"


def state_of(connection: Connection, path: str) -> NoteState | None:
    """Returns what is known of a note."""
    row = connection.execute(_GET, (path,)).fetchone()
    return None if row is None else NoteState(*row)


def states_above(connection: Connection, above: str, asked: tuple[object, ...]) -> Iterator[NoteState]:
    """Yields what is known of the notes of a common table `above`."""
    columns = ", ".join(f"notes.{name}" for name in _COLUMNS)
    for row in connection.execute(f"{above}SELECT {columns} FROM above JOIN notes ON notes.path = above.path", asked):
        yield NoteState(*row)


def start(lab: Lab, connection: Connection) -> None:
    """Begins a new index, before the first event is folded."""
    tombs.start(lab, connection)


def fold(lab: Lab, connection: Connection, events: Sequence[Event]) -> None:
    """Takes up events, in their order."""
    touched: dict[str, NoteState] = {}
    for event in events:
        if event.kind not in _EVENTS:
            continue
        path = event.subject
        known = touched.get(path) or state_of(connection, path) or NoteState(path)
        touched[path] = known
        was = known.taken
        tombs.fold(lab, connection, event)
        writes.fold(connection, event)
        if event.kind == "note_written":
            _write(known, event)
        else:
            _decide(lab, connection, known, event)
        if known.taken and known.taken != was:
            # Written at once: what follows from it is looked up in the table.
            _put(connection, known)
            _mark_due(connection, path)
    for known in touched.values():
        _read(lab, connection, known)
        _put(connection, known)


def _put(connection: Connection, known: NoteState) -> None:
    connection.execute(_PUT, tuple(getattr(known, name) for name in _COLUMNS))


def _write(known: NoteState, event: Event) -> None:
    said = event.payload
    # A record of an early version may lack a key.
    known.blob, known.type = str(said.get("blob", "")), str(said.get("type", "note"))
    known.status = str(said.get("status", "candidate"))
    known.seq = event.seq
    if known.status == "candidate":
        known.taken = 0
        if known.type in _PLAIN:
            known.exposed = event.seq
    elif known.status == "rejected" and not known.is_shown:
        _take(known, event, "a gate rejected it")


def _decide(lab: Lab, connection: Connection, known: NoteState, event: Event) -> None:
    why = str(event.payload.get("why", ""))
    if event.kind == "note_promoted":
        if known.lost and known.taken:
            connection.execute(
                "INSERT OR IGNORE INTO review SELECT path, source FROM edges WHERE source = ?", (known.path,)
            )
        known.status, known.taken = "promoted", 0
        known.promoted = known.exposed = known.seq
        known.vouched, known.vouched_day = event.seq, event.time[:10]
        shown = [one for one in json.loads(known.earlier) if one[1] != known.seq][-_MOST_EARLIER:]
        known.earlier = json.dumps([*shown, [known.blob, known.seq, known.vouched, known.vouched_day]])
        return
    known.status = event.kind.removeprefix("note_")
    _hide(known, event)
    stages = {part.partition(": ")[0] for part in why.split("; ")}
    is_own = {
        "rejected": True, "quarantined": stages != {LINEAGE}, "expired": EXPIRY in stages,
    }[known.status]  # fmt: skip
    if is_own and not known.is_shown:
        verb = {"rejected": "it was rejected", "quarantined": "evidence is against it", "expired": "it expired"}
        _take(known, event, f"{verb[known.status]}: {why}" if why else verb[known.status])
        _keep(lab, known)


def _hide(known: NoteState, event: Event) -> None:
    """Takes the newest version, or the shown one, out of sight; one that was promoted before it may be shown again."""
    restored, shown = event.payload.get("restored"), json.loads(known.earlier)
    if restored is not None:
        while shown and shown[-1][0] != restored:
            shown.pop()
        # Of a record whose promotion is not among its events all that is known is that a version is shown.
        _, known.promoted, known.vouched, known.vouched_day = shown[-1] if shown else (restored, 1, 0, "")
    elif known.promoted == known.seq or event.payload.get("was") == "promoted":
        known.promoted, shown = 0, []
    known.exposed, known.earlier = known.promoted, json.dumps(shown)


def _take(known: NoteState, event: Event, why: str) -> None:
    line = "".join(c if c.isprintable() else " " for c in why[: _LONGEST_WHY + 1]).replace(";", ",").strip()
    known.why = line if len(line) <= _LONGEST_WHY else line[: _LONGEST_WHY - 3] + "..."
    known.taken = known.lost = event.seq
    known.by_agent = int(event.kind in ("note_rejected", "note_written") and not event.actor.startswith("user:"))


def _keep(lab: Lab, known: NoteState) -> None:
    """Notes that a person left the derived notes as they were when this version was taken back."""
    rows = lab.records(KEPT).find(source=known.path)
    since = max(known.seq, known.vouched)
    ours = [int(row["event"]) for row in rows if row["blob"] == known.blob and since <= int(row["event"]) < known.taken]
    known.kept = max(ours, default=0)


def _mark_due(connection: Connection, path: str) -> None:
    """Marks every note that derives from one, through whatever others, to be looked at by the next scan."""
    connection.execute(
        "INSERT OR IGNORE INTO due WITH RECURSIVE below (path) AS (SELECT path FROM edges WHERE source = ? "
        "UNION SELECT edges.path FROM edges JOIN below ON edges.source = below.path) SELECT path FROM below",
        (path,),
    )


def _read(lab: Lab, connection: Connection, known: NoteState) -> None:
    """Reads what the note's newest version and the one that agents are shown say of sources; both count."""
    connection.execute("DELETE FROM edges WHERE path = ?", (known.path,))
    known.expires = None
    try:
        note = lab.memory.get(known.path)
    except NotFound:
        return
    newest, shown = _text(lab, note, for_agent=False), _text(lab, note, for_agent=True)
    normalise = lab.part("memory").normalise
    sources: dict[str, None] = {}
    for text in dict.fromkeys(it for it in (newest, shown) if it is not None):
        found = derivation_of(text, normalise, path=known.path)
        sources |= dict.fromkeys(found.sources)
        if text == (shown if shown is not None else newest) and found.expires is not None:
            known.expires = found.expires.isoformat()
    connection.executemany("INSERT INTO edges VALUES (?, ?)", ((known.path, source) for source in sources))
    if sources or known.expires is not None:
        connection.execute("INSERT OR IGNORE INTO due VALUES (?)", (known.path,))


def _text(lab: Lab, note: Note, *, for_agent: bool) -> str | None:
    try:
        return lab.memory.read(note.path, exposed_only=for_agent)
    except NotFound:
        return None

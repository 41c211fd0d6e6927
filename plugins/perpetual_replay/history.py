"""What agents were shown of the memory over time: a fold of the record's events to one change after another.

A note has a version that agents are shown, or none: the one that was promoted last, and before any promotion, of a
plain note, the newest that the gates passed (unless the methodology's `memory_exposure` is `promoted`; the setting of
today counts for the whole history). A change is an event after which this version is another. Texts come from the
memory, by the commits that the events name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perpetual.api import Conflict, NotFound

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Event, Memory

__all__ = ["Change", "History", "Shown"]

_PAGE = 2_000  # events
_MOST_VERSIONS = 100_000  # of a note, that are looked through for one whose commit is gone
_PLAIN = ("note", "episodic_case", "failure_pattern")  # types that agents are shown without a promotion
_DECIDED = ("note_rejected", "note_quarantined", "note_expired")


@dataclass(frozen=True, slots=True)
class Shown:
    """A version that agents are shown: its text's id and type, and which one it is of the note's accepted versions."""

    blob: str
    type: str
    number: int


@dataclass(frozen=True, slots=True)
class Change:
    """An event after which agents are shown another version of a note, or none."""

    seq: int
    time: str
    path: str
    deed: str
    before: Shown | None
    after: Shown | None


@dataclass(slots=True)
class _Note:
    """A note while its events are read; versions are accepted ones, counted from 1."""

    accepted: int = 0
    blob: str = ""
    type: str = ""
    newest: Shown | None = None
    exposed: Shown | None = None
    promoted: Shown | None = None
    earlier: list[Shown] = field(default_factory=list)  # promoted before, the newest last

    def take(self, event: Event) -> None:
        if event.kind == "note_written":
            self._written(event.payload["status"], event.payload["type"], event.payload["blob"])
        elif event.kind == "note_promoted":
            if self.promoted is not None and self.promoted != self.newest:
                self.earlier.append(self.promoted)
            self.promoted = self.exposed = self.newest
        elif event.kind in _DECIDED:
            self._decided(event.payload.get("was"), event.payload.get("restored"))

    def _decided(self, was: object, restored: object) -> None:
        """Takes a version out of sight; one that was promoted before it stays shown, or is shown again."""
        if restored is not None:
            found = [number for number, one in enumerate(self.earlier) if one.blob == restored]
            self.promoted = self.exposed = self.earlier[found[-1]] if found else None
            self.earlier = self.earlier[: found[-1]] if found else []
        elif self.promoted == self.newest or was == "promoted":
            self.promoted, self.earlier = None, []
        self.exposed = self.promoted

    def _written(self, status: str, type: str, blob: str) -> None:
        self.type = type
        if status == "rejected":
            self.newest = None
            return
        self.accepted += 1
        self.newest = Shown(blob, type, self.accepted)
        if status == "candidate" and type in _PLAIN:
            self.exposed = self.newest

    def shown(self, exposure: str) -> Shown | None:
        hidden = exposure == "promoted" or self.type not in _PLAIN
        return self.promoted if self.promoted is not None or hidden else self.exposed


class History:
    """The changes of a record's memory, oldest first, and the texts of the versions."""

    def __init__(self, lab: Lab, exposure: str) -> None:
        """Reads every event.

        Args:
            lab: whose record is read.
            exposure: `memory_exposure` of the methodology.
        """
        self._memory: Memory = lab.part("memory")
        self.changes: list[Change] = []
        self.last: dict[str, Shown | None] = {}  # what each note is shown as after the last event
        self.promoted: int | None = None  # seq of the first promotion of any note
        self.commits: list[tuple[str, int]] = []  # of the memory, each with the seq of the event that names it
        self._commits: dict[str, dict[int, str]] = {}  # path -> intent -> the newest commit of it
        notes: dict[str, _Note] = {}
        for event in _events(lab):
            if event.kind == "note_committed":
                self._commits.setdefault(event.subject, {})[event.payload["intent"]] = event.payload["commit"]
                self.commits.append((event.payload["commit"], event.seq))
            if event.kind == "note_promoted" and self.promoted is None:
                self.promoted = event.seq
            if not event.kind.startswith("note_"):
                continue
            note = notes.setdefault(event.subject, _Note())
            before = note.shown(exposure)
            note.take(event)
            after = note.shown(exposure)
            self.last[event.subject] = after
            if (before and (before.blob, before.type)) != (after and (after.blob, after.type)):
                deed = event.kind.removeprefix("note_")
                self.changes.append(Change(event.seq, event.time, event.subject, deed, before, after))

    def text(self, path: str, version: Shown) -> str:
        """Returns the text of a version.

        Raises:
            Conflict: where the memory does not hold it.
        """
        known = self._commits.get(path, {})
        intents = sorted(known)  # those of a note are its accepted versions, in their order
        if version.number <= len(intents):
            found = self._memory.read(path, known[intents[version.number - 1]])
            if found is not None and self._memory.blob_id(found) == version.blob:
                return found
        for commit in self._memory.history(path, _MOST_VERSIONS):
            if commit.blob == version.blob:
                found = self._memory.read(path, commit.commit)
                if found is not None:
                    return found
        raise Conflict(f"the memory does not hold version {version.blob[:10]} of {path}",
                       hint="name a good state after it was replaced: --good seq:N; see perpetual events")  # fmt: skip

    def inconsistent(self, lab: Lab) -> list[str]:
        """Returns the notes that agents are shown otherwise than the events say, as those of an import may be."""
        return [path for path, version in self.last.items() if self._now(lab, path) != (version and version.blob)]

    def _now(self, lab: Lab, path: str) -> str | None:
        try:
            return self._memory.blob_id(lab.memory.read(path, exposed_only=True))
        except NotFound:
            return None

    def until(self, seq: int, left_out: Collection[tuple[str, str | None]] = ()) -> Iterator[Change]:
        """Yields the changes up to an event, without the notes, or the single versions, that are left out."""
        for change in self.changes:
            if change.seq > seq:
                return
            if (change.path, None) in left_out:
                continue
            before, after = (
                None if version is None or (change.path, version.blob) in left_out else version
                for version in (change.before, change.after)
            )
            if before != after:
                yield Change(change.seq, change.time, change.path, change.deed, before, after)


def _events(lab: Lab) -> Iterator[Event]:
    seq = 0
    while page := lab.events(since=seq, limit=_PAGE):
        yield from page
        seq = page[-1].seq

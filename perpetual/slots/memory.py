"""The memory slot: where accepted notes live with their history. A projection of the store's intents.

*Place.* The factory gets `path`; the memory lies there, or beside it under a name of its own. Several objects and
processes may have the same memory open: each sees what another has committed, at its next call. Reading may happen in
any thread while one commits. `perpetual.testing.memories` holds a memory to all of this.

*Intents.* `commit` carries the number of an intent of the store. The same intent committed twice is one commit, for
the newest 60 intents at least and in every process: the second call answers the first one's id. Intents arrive in
order, one writer at a time. Each has a commit of its own, also where it changes nothing. A number that was committed
with another path or content is `CorruptData`: the store and the memory do not belong together.

*Durability.* When `commit` returns, the note is on stable storage. A crash in the middle, at whatever point, leaves
the old state or the new one, and never hinders a second commit of the intent.

*Content.* Any text that UTF-8 can carry comes back as it was, to the byte: line ends, an empty text, a megabyte.

*Names.* A note is named by a relative path; `normalise` answers it in its one spelling or refuses it. A plain path (of
letters, digits, `-` and `_`, folders parted by `/`, ending in `.md`, up to 100 characters) is its own spelling.
Another spelling of the same path (`./`, `//`, letters composed otherwise) is brought to the one, or refused; the
spelling of a folder does not depend on what is in it. Refused are: the empty path, an absolute one (also of a drive),
one with a `..`, a backslash, a control or format character, or what UTF-8 cannot carry; a segment that begins with
`.git`, ends with a dot or has a blank at an end; more than 255 bytes in a segment or 1,000 characters in all. What
`normalise` answers, `commit` takes, whatever other notes there are: an intent, once recorded, must not be refused.
Nothing outside the memory's own place is ever read or written, whatever a note's path or a link in its way says.

*History.* Newest first, in the order of the commits, whatever their times. A version has its author (one printable
line), its time to the second, and its message, perhaps with lines added. One that changes nothing may be left out.

*Raises.* `PathRefused` for a bad path, `TransientError` where another process holds a lock, `CorruptData` for a
damaged repository: never another text, nor as if there were none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perpetual.errors import UsageError

__all__ = ["Memory", "NoteCommit", "PathRefused"]


class PathRefused(UsageError):
    """A note's path that may not be."""

    code = "path_refused"


@dataclass(frozen=True, slots=True)
class NoteCommit:
    """One version of a note. `when` is UTC, ISO 8601; `blob` is None for a version that removed it."""

    commit: str
    when: str
    author: str
    message: str
    blob: str | None


class Memory(ABC):
    """Base of every memory; see the contract at the top of this module."""

    @abstractmethod
    def normalise(self, path: str) -> str:
        """Returns the path in its one spelling."""

    @abstractmethod
    def blob_id(self, content: str) -> str:
        """Returns the id that this content has here, the `blob` of its versions, without writing anything."""

    @abstractmethod
    def commit(self, *, intent: int, path: str, content: str, message: str, author: str, when: str) -> str:
        """Writes the note and answers the commit's id. `path` is as `normalise` answers it; `when` ISO 8601 in UTC."""

    def is_lost(self) -> bool:
        """Returns whether nothing is here, not even an empty memory: the kernel then commits every intent again.

        Only a commit ends it: reading makes nothing. A memory that can be removed from outside must override this.
        """
        return False

    @abstractmethod
    def read(self, path: str, commit: str | None = None) -> str | None:
        """Returns the text at the newest commit, or as at `commit`, of whichever note; None if it was not there."""

    @abstractmethod
    def history(self, path: str, limit: int) -> Sequence[NoteCommit]:
        """Returns the note's versions, newest first, at most `limit`."""

    def clone(self, folder: Path) -> str:
        """Makes a copy that a person can edit, in a new or empty folder; returns how its changes come back."""
        raise UsageError("this memory cannot be cloned", hint="perpetual memory write changes a note")

"""The memory slot: where accepted notes live with their history. A projection of the store's intents.

The contract
------------
*Intents.* `commit` carries the number of an intent of the store. The same intent committed twice is one commit: the
second call answers the first one's id. Intents arrive in order, one writer at a time.

*Durability.* When `commit` returns, the note is on stable storage. A crash in the middle leaves the old state.

*Names.* A note is named by a relative path; `normalise` answers it in its one spelling or refuses it. Nothing outside
the memory's own folder is ever read or written, whatever a path or a link says.

*Raises.* `PathRefused` for a bad path, `TransientError` where a lock is held by somebody else, `CorruptData` for a
damaged repository.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

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
        """The path in its one spelling."""

    @abstractmethod
    def blob_id(self, content: str) -> str:
        """The id that this content has here, without writing anything."""

    @abstractmethod
    def commit(self, *, intent: int, path: str, content: str, message: str, author: str, when: str) -> str:
        """Writes the note and answers the commit's id."""

    def is_lost(self) -> bool:
        """Whether nothing is here, not even an empty memory: the kernel then commits every intent again."""
        return False

    @abstractmethod
    def read(self, path: str, commit: str | None = None) -> str | None:
        """The note's text at the newest commit, or at `commit`; None if it is not there."""

    @abstractmethod
    def history(self, path: str, limit: int) -> Sequence[NoteCommit]:
        """The note's versions, newest first, at most `limit`."""

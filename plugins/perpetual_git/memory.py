"""The memory `git`: the note repository in the slot's words.

Only the factory `open_memory` is imported from outside. dulwich is loaded when a repository is first needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perpetual.api import CorruptData, Memory, NoteCommit, PathRefused, TransientError
from perpetual.toolkit.units import iso
from perpetual_git import paths

if TYPE_CHECKING:
    from perpetual_git.repository import NoteRepository

__all__ = ["GitMemory", "open_memory"]


_HINT = "a relative path of plain names, such as notes/adam.md"


@contextmanager
def _our_errors() -> Iterator[None]:
    from perpetual_git import repository

    try:
        yield
    except paths.PathRefused as problem:
        raise PathRefused(str(problem), hint=_HINT) from problem
    except repository.RefBusy as problem:
        raise TransientError(str(problem), hint="the note is kept and is committed at the next scan") from problem
    except repository.RepositoryError as problem:
        raise CorruptData(
            str(problem), hint="git fsck says more; moved away, the repository is rebuilt from the store"
        ) from problem


class GitMemory(Memory):
    """See `perpetual.slots.memory` for the contract. The repository is opened, and created, at first use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: NoteRepository | None = None

    @property
    def _repository(self) -> NoteRepository:
        if self._opened is None:
            from perpetual_git.repository import NoteRepository

            with _our_errors():
                self._opened = NoteRepository.open(self._path)
        return self._opened

    def is_lost(self) -> bool:
        """There is no repository in the folder."""
        return self._opened is None and not (self._path / "HEAD").exists()

    def normalise(self, path: str) -> str:
        """NFC, forward slashes, ending in `.md`."""
        try:
            return paths.check_path(path)
        except paths.PathRefused as problem:
            raise PathRefused(str(problem), hint=_HINT) from problem

    def blob_id(self, content: str) -> str:
        """Git's own id of the text as a blob."""
        data = content.encode("utf-8")
        return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def commit(self, *, intent: int, path: str, content: str, message: str, author: str, when: str) -> str:
        """A commit on `main` with the trailer `Perpetual-Intent`."""
        moment = datetime.fromisoformat(when)
        with _our_errors():
            return self._repository.commit(
                path, content.encode("utf-8"), message=message, author=author, when=moment, intent=intent
            )

    def read(self, path: str, commit: str | None = None) -> str | None:
        """The text at `main`, or at `commit`."""
        with _our_errors():
            data = self._repository.read(path, commit)
        return None if data is None else data.decode("utf-8", "replace")

    def history(self, path: str, limit: int) -> Sequence[NoteCommit]:
        """By the first parents of `main`."""
        with _our_errors():
            entries = self._repository.history(path, limit)
        return [NoteCommit(item.commit, iso(item.when), item.author, item.message, item.blob) for item in entries]


def open_memory(options: Mapping[str, Any], *, path: Path) -> GitMemory:
    """Factory of the provider `git`; `path` is the folder of the bare repository."""
    return GitMemory(path)

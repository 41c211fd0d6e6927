"""The memory `git`: the note repository in the slot's words.

Only the factory `open_memory` is imported from outside. dulwich is loaded when a repository is first needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha1
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from weakref import finalize

from perpetual.api import CorruptData, Memory, NoteCommit, NotFound, PathRefused, TransientError
from perpetual.toolkit.confined import explain
from perpetual.toolkit.units import iso
from perpetual_git import errors, paths

if TYPE_CHECKING:
    from perpetual_git.repository import NoteRepository

__all__ = ["GitMemory", "open_memory"]


HOW_TO_PUSH = (
    "edit and commit there, then: git push. The next perpetual scan takes each changed file in as a candidate note of "
    "git:<author>, through the gates; a file that you remove stays a note"
)
_HINT = "a relative path of plain names, such as notes/adam.md"


@contextmanager
def _our_errors() -> Iterator[None]:
    try:
        yield
    except paths.PathRefused as problem:
        raise PathRefused(str(problem), hint=_HINT) from problem
    except errors.RefBusy as problem:
        raise TransientError(str(problem), hint="the note is kept and is committed at the next scan") from problem
    except OSError as problem:
        raise explain(problem) or problem from problem
    except errors.RepositoryError as problem:
        raise CorruptData(
            str(problem), hint="git fsck says more; moved away, the repository is rebuilt from the store"
        ) from problem


class GitMemory(Memory):
    """See `perpetual.slots.memory` for the contract. The repository is opened late, and made by the first commit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened: NoteRepository | None = None
        self._turn = Lock()  # a repository serves one thread at a time

    @contextmanager
    def repository(self) -> Iterator[NoteRepository]:
        """Yields the repository, for one thread at a time, and turns its errors into the memory's."""
        with self._turn, _our_errors():
            if self._opened is None:
                from perpetual_git.repository import NoteRepository

                self._opened = NoteRepository.open(self.path)
                finalize(self, self._opened.close)  # a memory is not closed, and its packs stay open until then
            yield self._opened

    def is_lost(self) -> bool:
        """Returns whether there is no folder, or an empty one: even if removed while this object had it open."""
        is_link = self.path.is_symlink()  # which is no loss, and is refused by name when it is opened
        lost = not is_link and (not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir())))
        if lost:
            with self._turn:
                if self._opened is not None:
                    self._opened.close()
                    self._opened = None
        return lost

    def normalise(self, path: str) -> str:
        """Returns the path in NFC, with forward slashes, ending in `.md`."""
        with _our_errors():
            return paths.check_path(path)

    def blob_id(self, content: str) -> str:
        """Returns git's own id of the text as a blob."""
        data = content.encode("utf-8")
        return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def commit(self, *, intent: int, path: str, content: str, message: str, author: str, when: str) -> str:
        """Makes a commit on `main` with the trailer `Perpetual-Intent`."""
        moment = datetime.fromisoformat(when)
        with self.repository() as repository:
            return repository.commit(
                path, content.encode("utf-8"), message=message, author=author, when=moment, intent=intent
            )

    def read(self, path: str, commit: str | None = None) -> str | None:
        """Returns the text at `main`, or at `commit`."""
        if self.is_lost():
            return None  # reading makes no repository: it would look as if none had been lost
        with self.repository() as repository:
            try:
                data = repository.read(path, commit)
            except errors.UnknownCommit:
                return None
        return None if data is None else data.decode("utf-8", "replace")

    def history(self, path: str, limit: int) -> Sequence[NoteCommit]:
        """Returns the versions by the first parents of `main`."""
        if self.is_lost():
            return []
        with self.repository() as repository:
            entries = repository.history(path, limit)
        return [NoteCommit(item.commit, iso(item.when), item.author, item.message, item.blob) for item in entries]

    def clone(self, folder: Path) -> str:
        """Clones the repository to a working tree at `folder`, which is there whole or not at all."""
        from perpetual_git.cloning import clone

        if self.is_lost():
            raise NotFound("there is no note yet to clone", hint="perpetual memory write PATH")
        with self.repository() as repository:  # which checks that it leads nowhere else
            if repository.is_empty():
                raise NotFound("there is no note yet to clone", hint="perpetual memory write PATH")
            clone(self.path, folder)
        return HOW_TO_PUSH


def open_memory(options: Mapping[str, object], *, path: Path) -> GitMemory:
    """Builds the provider `git`; `path` is the folder of the bare repository."""
    return GitMemory(path)

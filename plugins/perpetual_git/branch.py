"""The branch `main`: which commit it names, and how it comes to name another one under git's own lock.

Only the repository imports this.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dulwich.objects import ObjectID
from dulwich.refs import Ref

from perpetual.toolkit.atomic import fsync_dir
from perpetual.toolkit.confined import read_bytes
from perpetual_git.errors import RefBusy, RepositoryError
from perpetual_git.objects import is_id, write_synced

if TYPE_CHECKING:
    from dulwich.repo import Repo

__all__ = ["Branch"]

MAIN = Ref(b"refs/heads/main")
LOCK_POLL_S = 0.01
_LARGEST_REF = 4096


class Branch:
    """`main` of the repository at `path`, which `repo` has open. Moved only under the repository's flock."""

    def __init__(self, path: Path, repo: Repo, lock_wait_s: float) -> None:
        self.path = path
        self._lock_wait_s = lock_wait_s
        self._refs = repo.refs
        self._file = path / "refs" / "heads" / "main"
        self._lock = path / "refs" / "heads" / "main.lock"
        # A process that moves the branch links this file to main.lock. A main.lock that is the same file therefore
        # belongs to a committer from here, and to a dead one where the flock is free. Both names stand in one folder,
        # so that a loss of power leaves none without the one before it; git takes no name in .lock for a branch.
        self._next = path / "refs" / "heads" / "perpetual-main-next.lock"

    def was_left(self) -> bool:
        """Returns whether one of our committers is moving the branch, or died while it did."""
        return self._next.exists()

    def head(self) -> ObjectID | None:
        """Returns the commit main names, None before the first.

        Read here and not by dulwich, which takes any error in reading the file for its absence: a branch that
        looks unborn would be begun anew.
        """
        try:
            value = read_bytes(self._file, limit=_LARGEST_REF).strip()
        except FileNotFoundError:
            packed = self._packed()
            if packed is None:
                return None
            value = packed
        if not is_id(value):
            raise RepositoryError(self.path, f"{self._file} names no commit: {value[:60]!r}")
        return ObjectID(value)

    def _packed(self) -> bytes | None:
        """Returns what main names in the file of packed refs, where `git gc` puts it."""
        try:
            return self._refs.get_packed_refs().get(MAIN)
        except OSError:
            raise
        except Exception as error:
            raise RepositoryError(self.path, f"its packed refs are damaged: {error}") from error

    def move(self, expected: ObjectID | None, new: ObjectID, started_s: float) -> bool:
        """Lets main name `new` if it still names `expected`; returns False if it does not.

        git's protocol: the process that creates main.lock may change main, by renaming the one over the other.
        """
        self._file.parent.mkdir(exist_ok=True)
        write_synced(self._next, new + b"\n", 0o644)
        self._take_lock(started_s)
        try:
            moved = self.head() == expected
            if moved:
                os.replace(self._lock, self._file)
                fsync_dir(self._file.parent)
        finally:
            self.clear_own_lock()
        return moved

    def _take_lock(self, started_s: float) -> None:
        while True:
            try:
                os.link(self._next, self._lock)
                return
            except FileExistsError:
                self.check_wait(started_s)
            time.sleep(LOCK_POLL_S)

    def check_wait(self, started_s: float) -> None:
        """Raises RefBusy once that is too long ago."""
        waited_s = time.monotonic() - started_s
        if waited_s >= self._lock_wait_s:
            raise RefBusy(self.path, self._lock, waited_s)

    def clear_own_lock(self) -> None:
        """Removes main.lock if it is ours; the flock is held, so the process that made it is done or dead."""
        try:
            if os.path.samefile(self._next, self._lock):
                self._lock.unlink()
        except FileNotFoundError:
            pass  # one of the two is not there: nothing is held
        self._next.unlink(missing_ok=True)

"""Faults of the note repository. Light: the memory names these before it needs the repository."""

from __future__ import annotations

from pathlib import Path

__all__ = ["IntentConflict", "RefBusy", "RepositoryError", "UnknownCommit"]


class RepositoryError(Exception):
    """The repository cannot be used as it is. `path` is its folder, `why` the reason."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class RefBusy(RepositoryError):
    """Another process kept the branch for longer than `waited_s` seconds; `lock_file` is its lock.

    Trying again is safe. A lock file that outlives every running git was left by one that was killed.
    """

    def __init__(self, path: Path, lock_file: Path, waited_s: float) -> None:
        super().__init__(
            path,
            f"main could not be moved within {waited_s:.1f} s: another git is changing it, or one was killed "
            f"while it did; if none is running, remove {lock_file}",
        )
        self.lock_file = lock_file
        self.waited_s = waited_s


class UnknownCommit(RepositoryError):
    """`commit` names no commit of this repository."""

    def __init__(self, path: Path, commit: str) -> None:
        super().__init__(path, f"there is no commit {commit!r}")
        self.commit = commit


class IntentConflict(RepositoryError):
    """Intent `intent` was committed before, as `commit`, with another content or path.

    The numbers were given twice: the store is younger than the repository, or was restored from a backup.
    """

    def __init__(self, path: Path, intent: int, commit: str) -> None:
        super().__init__(path, f"intent {intent} was committed before as {commit}, with other content")
        self.intent = intent
        self.commit = commit

"""Commits that a table names, looked up in the repository around it: read from its objects, running nothing.

The repository is a stranger's: its configuration may name programs (hooks, a file system monitor, a signature checker,
a remote helper) that the git program would run. Reading the objects runs none.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from perpetual.toolkit.units import iso
from perpetual_adopt.reading import line

if TYPE_CHECKING:
    from dulwich.repo import Repo

__all__ = ["Commit", "Commits"]

_NAME = re.compile(r"[0-9a-f]{4,40}\Z")
_REMEMBERED = 4096
_LONGEST_MESSAGE = 2000


class Commit(NamedTuple):
    """What a repository says of a commit; times are UTC."""

    id: str
    message: str
    author: str
    committed_at: str
    parent: str | None


class Commits:
    """The commits of the repository around `folder`; there need not be one. A context manager."""

    def __init__(self, folder: Path) -> None:
        self.problem: str | None = None  # why there is nothing to look up in
        self._repository: Repo | None = None
        self._folder = folder
        self.find = lru_cache(_REMEMBERED)(self._find)

    def __enter__(self) -> Commits:
        from dulwich.errors import NotGitRepository
        from dulwich.repo import Repo

        try:
            self._repository = Repo.discover(str(self._folder))
        except NotGitRepository:
            self.problem = "there is no git repository around it"
        except Exception as problem:  # noqa: BLE001 - however a repository is broken, it is named as unreadable
            self.problem = f"the git repository around it cannot be read: {line(problem)}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._repository is not None:
            self._repository.close()

    def branch(self) -> str | None:
        """Returns the name of the branch that is checked out, or None."""
        if self._repository is None:
            return None
        try:
            chain, _ = self._repository.refs.follow(b"HEAD")  # type: ignore[arg-type]
            name = chain[-1].removeprefix(b"refs/heads/").decode("utf-8", "replace")
        except Exception as problem:  # noqa: BLE001 - as above
            self.problem = f"the git repository around it cannot be read: {line(problem)}"
            return None
        return None if name == "HEAD" else name

    def _find(self, name: str) -> Commit | None:
        """Returns the one commit whose id begins so; None if there is none, or more than one."""
        prefix = name.strip().lower()
        if self._repository is None or _NAME.match(prefix) is None:
            return None
        try:
            return self._read(self._repository, prefix)
        except Exception as problem:  # noqa: BLE001 - as above
            self.problem = f"the git repository around it cannot be read: {line(problem)}"
            return None

    def _read(self, repository: Repo, prefix: str) -> Commit | None:
        from dulwich.objects import Commit as GitCommit

        store = repository.object_store
        found = [store[id] for id in store.iter_prefix(prefix.encode())]
        commits = [item for item in found if isinstance(item, GitCommit)]
        if len(commits) != 1:
            return None
        (commit,) = commits
        when = datetime.fromtimestamp(commit.commit_time, UTC)
        return Commit(
            commit.id.decode(),
            "".join(c for c in commit.message.decode("utf-8", "replace") if c.isprintable() or c == "\n")[
                :_LONGEST_MESSAGE
            ].strip(),
            line(commit.author),
            iso(when),
            commit.parents[0].decode() if commit.parents else None,
        )

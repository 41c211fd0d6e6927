"""The time of a commit of the project's repository; nothing is written there. Imported by `moments`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from perpetual.api import UsageError

__all__ = ["committed_at"]


def committed_at(root: Path, revision: str) -> datetime:
    """Returns when a commit was made. No git runs: a repository's settings may name programs.

    Raises:
        UsageError: where there is no repository, or no such commit in it.
    """
    from dulwich.errors import NotGitRepository
    from dulwich.objectspec import parse_commit
    from dulwich.repo import Repo

    try:
        with Repo.discover(str(root)) as repository:
            seconds = parse_commit(repository, revision.encode()).commit_time
    except NotGitRepository as problem:
        raise UsageError("the project is in no git repository", hint="name the time itself") from problem
    except (KeyError, ValueError, OSError) as problem:
        raise UsageError(f"the repository has no commit {revision[:60]!r}", hint="see `git log`") from problem
    return datetime.fromtimestamp(seconds, UTC)

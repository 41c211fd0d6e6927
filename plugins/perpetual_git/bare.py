"""The folder of the repository: opened if it is such a one, or made anew.

Only the repository imports this.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dulwich.errors import NotGitRepository
from dulwich.refs import DiskRefsContainer
from dulwich.repo import (
    InvalidWorktreeConfiguration,
    Repo,
    UnsupportedExtension,
    UnsupportedVersion,
)

from perpetual.toolkit import confined
from perpetual.toolkit.atomic import fsync_dir
from perpetual_git.errors import RepositoryError

__all__ = ["create", "open_bare"]

_ELSEWHERE = ("commondir", "objects/info/alternates")
_LARGEST_SETTINGS = 1024 * 1024


def open_bare(path: Path) -> Repo:
    """Opens the repository at `path`; raises RepositoryError for all but a bare one of SHA-1 objects, ref files."""
    _refuse_ways_out(path)
    if not ((path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()):
        raise RepositoryError(path, "this is no bare git repository")
    try:
        repo = Repo(str(path), bare=True)
    except (
        NotGitRepository,
        UnsupportedExtension,
        UnsupportedVersion,
        InvalidWorktreeConfiguration,
    ) as error:
        raise RepositoryError(path, f"this git repository cannot be read: {error}") from error
    except ValueError as error:
        raise RepositoryError(path, f"its git configuration cannot be read: {error}") from error
    why = _unsuitable(repo)
    if why is not None:
        repo.close()
        raise RepositoryError(path, why)
    return repo


def _refuse_ways_out(path: Path) -> None:
    """Raises RepositoryError if anything in the folder leads out of it: dulwich opens files by name, links included.

    A repository may also name another folder to take objects, refs or settings from.
    """
    try:
        if not confined.check_folder(path):
            return
        odd = next(_odd_entries(path), None)
        settings = confined.read_bytes(path / "config", limit=_LARGEST_SETTINGS) if (path / "config").exists() else b""
    except OSError as error:
        raise RepositoryError(path, f"it cannot be opened: {error}") from error
    if odd is not None:
        raise RepositoryError(path, f"{odd} is a link, or no file")
    if b"[include" in settings.lower():
        raise RepositoryError(path, "its configuration includes another file")
    for name in _ELSEWHERE:
        if os.path.lexists(path / name):
            raise RepositoryError(path, f"{name} leads to another repository")


def _odd_entries(folder: Path) -> Iterator[str]:
    """Yields the entries below `folder` that are neither files nor folders.

    A folder may go meanwhile: that of a push's new objects, or one that `git gc` has emptied.
    """
    waiting = [os.fspath(folder)]
    while waiting:
        with suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    yield entry.path


def _unsuitable(repo: Repo) -> str | None:
    if not repo.get_config().get_boolean((b"core",), b"bare", False):
        return "this git repository is not bare; a commit would leave its work tree behind"
    if repo.object_format.hex_length != 40:
        return "this git repository does not use SHA-1"
    if not isinstance(repo.refs, DiskRefsContainer):
        return "this git repository does not keep its refs in files"
    return None


def create(path: Path) -> None:
    """Creates the repository beside its place and renames it there: no process sees half of one.

    Of two processes that do this at once the first wins, and the second finds a folder that is not empty.
    """
    confined.make_folder(path.parent)
    draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))  # mkdtemp gives mode 0700
    try:
        with Repo.init_bare(str(draft), default_branch=b"main") as repo:
            _configure(repo)
        for folder in (draft / "refs", draft):
            fsync_dir(folder)
        try:
            os.rename(draft, path)
        except OSError:
            if not (path / "HEAD").is_file():
                raise
        fsync_dir(path.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _configure(repo: Repo) -> None:
    config = repo.get_config()
    receive = (b"receive",)
    # What was acknowledged stays: a push may add to main, not rewrite or remove it.
    config.set(receive, b"denyNonFastForwards", True)
    config.set(receive, b"denyDeletes", True)
    # A push is read by programs: malformed objects and names like .git stay outside, as does a flood.
    config.set(receive, b"fsckObjects", True)
    config.set(receive, b"maxInputSize", b"64m")
    # git syncs neither loose objects nor refs by itself, and commits made here build on what was pushed.
    config.set((b"core",), b"fsync", b"committed,reference")
    # A branch that only ever grows needs no log of its positions.
    config.set((b"core",), b"logAllRefUpdates", False)
    config.write_to_path()

"""Linked git worktrees, known by git's files: starting git would cost every command 5 ms. Floor 0."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

__all__ = ["linked_worktree", "standing_in", "worktree_of"]

_HERE: ContextVar[Path | None] = ContextVar("perpetual_here", default=None)


@contextmanager
def standing_in(folder: Path) -> Iterator[None]:
    """Lets what the block proposes count as proposed in `folder`, wherever the process is."""
    token = _HERE.set(folder)
    try:
        yield
    finally:
        _HERE.reset(token)


def worktree_of(root: Path) -> Path | None:
    """Returns the folder that stands for the project's in the linked git worktree around the working directory.

    None where that is no linked worktree of the repository in which the project lies.
    """
    try:
        linked = linked_worktree(_HERE.get() or Path.cwd())
    except FileNotFoundError:
        return None
    real = Path(os.path.realpath(root))
    if linked is None or not real.is_relative_to(linked[1]) or real.is_relative_to(os.path.realpath(linked[0])):
        return None
    return linked[0] / real.relative_to(linked[1])


def linked_worktree(here: Path) -> tuple[Path, Path] | None:
    """Returns the top of the linked git worktree around a folder and that of the main one, read from git's files."""
    top = next((folder for folder in (here, *here.parents) if os.path.lexists(folder / ".git")), None)
    try:
        if top is None or not stat.S_ISREG(os.lstat(top / ".git").st_mode):
            return None
        own = top / (top / ".git").read_text("utf-8")[:4096].removeprefix("gitdir:").strip()
        common = Path(os.path.realpath(own / (own / "commondir").read_text("utf-8")[:4096].strip()))
        is_its = os.path.samefile((own / "gitdir").read_text("utf-8")[:4096].strip(), top / ".git")
    except (OSError, ValueError):
        return None
    return (top, common.parent) if is_its and common.name == ".git" else None

"""Modes of a project's files: one that is made here is its user's alone, one that came as a clone is not. Floor 0.

Git keeps no modes, so what comes out of a clone has those of the umask.
"""

from __future__ import annotations

import contextlib
import os
import stat

__all__ = ["make_private", "open_to_others"]

_OTHERS = 0o077
_STORE = "store"
_RECORD = ("", "config.yaml", "methodology.yaml", _STORE)  # what is made 0700 and 0600 here


def open_to_others(folder: str | os.PathLike[str]) -> list[str]:
    """Returns the paths of the record that other users may read or write; the folder itself goes first."""
    if os.name == "nt":
        return []
    found = [os.path.join(folder, name) if name else os.fspath(folder) for name in _RECORD]
    with contextlib.suppress(OSError):  # there is no store yet, or it may not be read
        found += sorted(entry.path for entry in os.scandir(os.path.join(folder, _STORE)))
    return [path for path in found if _is_open(path)]


def make_private(folder: str | os.PathLike[str]) -> None:
    """Takes from group and others what they may do with this user's files in the folder; follows no links."""
    if os.name == "nt":
        return
    for _, folders, files, at in os.fwalk(folder, follow_symlinks=False):
        for name in (os.curdir, *folders, *files):
            _close(name, at)


def _is_open(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return not stat.S_ISLNK(found.st_mode) and bool(found.st_mode & _OTHERS)


def _close(name: str, at: int) -> None:
    try:
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
        is_ours = found.st_uid == os.geteuid() and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))
        if not is_ours or not found.st_mode & _OTHERS:
            return
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        try:
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & ~_OTHERS)
        finally:
            os.close(descriptor)
    except OSError:
        return  # gone, or of a file system without modes: `doctor` names what is still open

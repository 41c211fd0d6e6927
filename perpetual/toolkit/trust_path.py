"""Path of a project's trust record, and a token of its state; see `trust_record`. Floor 0.

Read by the fast path of the command, so this file imports next to nothing.
"""

from __future__ import annotations

import os

from perpetual.toolkit import user_state

__all__ = ["FOLDER", "path_of", "stamp"]

FOLDER = "trust"


def path_of(root: str | os.PathLike[str]) -> str:
    """Returns the file of the project in the folder `root`."""
    try:
        from _blake2 import blake2b  # hashlib loads OpenSSL, which costs more than the whole fast path
    except ImportError:
        from hashlib import blake2b
    name = blake2b(os.fsencode(os.path.realpath(root)), digest_size=20).hexdigest()
    return os.path.join(user_state.location(), FOLDER, f"{name}.json")


def stamp(root: str | os.PathLike[str]) -> str:
    """Returns what tells one state of a project's record from another one, `-` without a record; reads nothing."""
    try:
        seen = os.stat(path_of(root))
    except OSError:
        return "-"
    return f"{seen.st_ino}-{seen.st_size}-{seen.st_mtime_ns}"

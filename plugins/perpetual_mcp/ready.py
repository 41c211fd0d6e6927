"""Notes that a harness has spoken to this server, for the lab that drives the harness."""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["note_ready"]


def note_ready(path: str) -> None:
    """Makes the file, empty, if its folder is this user's own; never follows a link, and never fails."""
    with suppress(OSError):
        folder = os.stat(os.path.dirname(path))
        if folder.st_uid == os.getuid() and not folder.st_mode & 0o077:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))

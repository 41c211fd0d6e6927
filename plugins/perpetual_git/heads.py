"""Two commits named in files: where main is, and up to where its notes are known to the store.

Light: each scan asks whether anything was pushed, and reads these two files where nothing was.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.confined import UnsafePath, read_bytes

__all__ = ["follow", "is_new", "mark", "seen"]

_SEEN = "perpetual-seen"
_MAIN = "refs/heads/main"
_LARGEST = 4096
_LARGEST_PACKED = 16 * 2**20


def is_new(repository: Path) -> bool:
    """Returns whether main has moved since `mark`, other than by commits made here."""
    head = _main(repository)
    return head is not None and head != seen(repository)


def seen(repository: Path) -> str | None:
    """Returns the commit that `mark` has noted, None before the first and for a file that holds none."""
    return _text(repository / _SEEN)


def mark(repository: Path, commit: str) -> None:
    """Notes that the store knows every note of that commit. A note that is lost costs a look at all of them."""
    write_atomic(repository / _SEEN, f"{commit}\n", durable=False)


def follow(repository: Path, parent: str | None, commit: str) -> None:
    """Moves the mark on from `parent` to a commit that the store has asked for; elsewhere it stays."""
    with contextlib.suppress(OSError):  # the commit is made, and the next scan looks for itself
        if seen(repository) == parent:
            mark(repository, commit)


def _main(repository: Path) -> str | None:
    """Returns what main names; None where that is not plain, as opening the repository says."""
    head = _text(repository / _MAIN)
    if head is None:
        with contextlib.suppress(OSError):
            lines = read_bytes(repository / "packed-refs", limit=_LARGEST_PACKED).splitlines()
            head = next((line[:40].decode("ascii", "replace") for line in lines if line[41:] == _MAIN.encode()), None)
    return head


def _text(file: Path) -> str | None:
    try:
        return read_bytes(file, limit=_LARGEST).decode("ascii", "replace").strip() or None
    except (FileNotFoundError, NotADirectoryError, UnsafePath):
        return None

"""Lists the files that a run has left in its folder of artifacts, and hands over what it needs of other runs."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from perpetual.api import Artifact, Capture, RunChanges, RunEnd, RunFacts, RunStart
from perpetual.toolkit.run_folder import ARTIFACTS
from perpetual_artifacts.needs import altered, handed_over

__all__ = ["ArtifactListing", "build", "files_below"]

MOST_FILES = 1_000  # of one run; what is beyond stays on the disk and is not listed
HASH_S = 60.0  # for all files of a run: a scan of other runs waits meanwhile
_CHUNK = 1 << 20
_DEEPEST = 32  # levels of folders


class _Found(NamedTuple):
    """A regular file below a folder, found without following any link."""

    path: str  # below the folder, with slashes
    size_bytes: int
    folder: int  # descriptor of the folder that it lies in; valid until the next one is asked for
    name: str


class ArtifactListing(Capture):
    """Hashes artifacts when the run has ended. Links and what is no regular file are left out, and said."""

    def before(self, start: RunStart) -> RunFacts:
        """Hands over what the run needs of others, as the fact `needs`; it has left nothing itself yet."""
        return RunFacts({"needs": handed_over(start)} if start.needs else {})

    def after(self, end: RunEnd) -> RunChanges:
        """Returns the artifacts, and in notes what is not listed or not hashed."""
        deadline = time.monotonic() + HASH_S
        found: list[Artifact] = []
        other, unread, is_more = 0, 0, False
        for item in files_below(end.folder / ARTIFACTS):
            if item is None:
                other += 1
            elif len(found) == MOST_FILES:
                is_more = True
                break
            else:
                digest = _digest(item, deadline)
                unread += digest is None
                found.append(Artifact(f"{ARTIFACTS}/{_shown(item.path)}", item.size_bytes, digest))
        notes = [*altered(end)]
        if other:
            notes.append(f"{other} of its artifacts are links or no files, and are not listed")
        if is_more:
            notes.append(f"it left more than {MOST_FILES} artifacts; the first ones are listed")
        if unread:
            notes.append(f"{unread} of its artifacts have no hash: they could not be read in {HASH_S:g} s")
        return RunChanges(notes=tuple(notes), artifacts=tuple(sorted(found)))


def build(options: Mapping[str, object]) -> ArtifactListing:
    """Returns the capture; it has no options."""
    return ArtifactListing()


def files_below(folder: Path) -> Iterator[_Found | None]:
    """Yields the regular files below a folder, in an order that does not change; None for each link or special file.

    No link is followed, the folder itself included. A folder that is not there holds nothing.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        top = os.open(folder, flags)
    except OSError:
        return
    try:
        for root, folders, names, opened in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            below = "" if root == "." else root.removeprefix("./") + "/"
            folders.sort()
            if below.count("/") >= _DEEPEST:
                folders.clear()
            for name in sorted(names):
                try:
                    state = os.stat(name, dir_fd=opened, follow_symlinks=False)
                except OSError:
                    continue  # removed just now, by a process that outlived the run
                if stat.S_ISREG(state.st_mode):
                    yield _Found(below + name, state.st_size, opened, name)
                else:
                    yield None
    finally:
        os.close(top)


def _digest(item: _Found, deadline: float) -> str | None:
    """Returns the SHA-256 of a file; None where it cannot be read, or not before the deadline."""
    from hashlib import sha256

    made = sha256()
    try:
        descriptor = os.open(item.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=item.folder)
    except OSError:
        return None
    with open(descriptor, "rb", buffering=0) as file:
        while time.monotonic() < deadline:
            try:
                chunk = file.read(_CHUNK)
            except OSError:
                return None
            if not chunk:
                return made.hexdigest()
            made.update(chunk)
    return None


def _shown(path: str) -> str:
    """Returns a path that any record can hold."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")

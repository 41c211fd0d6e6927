"""The files that git does not know, kept beside a run: small ones whole, links as links, the others by their hash.

Used by `git_snapshot` alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Required, TypedDict

from perpetual.api import Redactor
from perpetual_provenance.secret_files import may_hold_secret, names_secret

__all__ = ["LIMITS", "UNTRACKED", "Limits", "Untracked", "UntrackedFile", "keep_untracked"]

UNTRACKED = "untracked"

_SECRET = "not copied: may hold a secret"


class Limits(NamedTuple):
    """How much of the code a run keeps."""

    kept_file_bytes: int = 1_000_000
    kept_bytes: int = 10_000_000
    kept_files: int = 1_000
    hashed_bytes: int = 64_000_000  # of what is not kept; beyond, a size must do
    listed: int = 5_000  # files; more are counted
    patch_bytes: int = 10_000_000  # a longer patch is kept by its hash
    git_s: float = 20.0  # for all commands of one look


LIMITS = Limits()


class UntrackedFile(TypedDict, total=False):
    """One file that git does not know; `why` says why it is not kept."""

    path: Required[str]
    path_hex: str  # where the path is no UTF-8
    bytes: int | None
    mode: str
    sha256: str | None
    kept: bool
    target: str  # of a link
    redacted: bool
    why: str


class Untracked(TypedDict):
    """What the fact `git` says of untracked files."""

    untracked: list[UntrackedFile]
    untracked_left_out: int


def keep_untracked(
    redactor: Redactor,
    top: bytes,
    names: Sequence[bytes],
    place: Path,
    document: Untracked,
    problems: list[str],
    limits: Limits = LIMITS,
) -> None:
    """Keeps what git does not know: small files whole, the smallest first, the others by hash, or by size."""
    found = []
    for name in names[: limits.listed]:
        try:
            found.append((name, os.lstat(os.path.join(top, name))))
        except OSError:
            continue  # removed since git saw it
    left = _Left(limits)
    entries: list[UntrackedFile] = []
    # Links last: nothing is ever written through one.
    for name, seen in sorted(found, key=lambda pair: (stat.S_ISLNK(pair[1].st_mode), pair[1].st_size, pair[0])):
        try:
            entries.append(_entry(redactor, top, name, seen, place, left))
        except OSError as problem:
            entries.append(_named(name) | {"kept": False, "why": f"cannot be kept: {problem.strerror}"})
    document["untracked"] = sorted(entries, key=lambda entry: entry["path"])
    document["untracked_left_out"] = max(0, len(names) - limits.listed)
    if document["untracked_left_out"]:
        problems.append(f"{len(names)} files are untracked, and only {limits.listed} of them are listed")
    whole = sum(not entry["kept"] for entry in entries)
    if whole:
        problems.append(f"{whole} untracked files are not kept themselves; each says why")
    redacted = sum("redacted" in entry for entry in entries)
    if redacted:
        problems.append(f"secrets were taken out of the copies of {redacted} untracked files")


class _Left:
    """What may still be spent on untracked files."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.kept_bytes, self.kept_files, self.hashed_bytes = limits.kept_bytes, limits.kept_files, limits.hashed_bytes


def _named(name: bytes) -> UntrackedFile:
    """Returns a path for JSON; one that is no UTF-8 is also given byte by byte."""
    try:
        return {"path": name.decode("utf-8")}
    except UnicodeDecodeError:
        return {"path": name.decode("utf-8", "backslashreplace"), "path_hex": name.hex()}


def _entry(
    redactor: Redactor, top: bytes, name: bytes, seen: os.stat_result, place: Path, left: _Left
) -> UntrackedFile:
    entry = _named(name) | {"bytes": seen.st_size, "mode": f"{seen.st_mode:06o}", "sha256": None, "kept": False}
    source = os.path.join(top, name)
    if stat.S_ISLNK(seen.st_mode):
        target = os.readlink(source)
        entry |= {"sha256": sha256(target).hexdigest(), "target": _named(target)["path"], "kept": True}
        why = _link_kept(os.fsencode(place), name, target, left)
        return entry if why is None else entry | {"why": f"only described: {why}"}
    if stat.S_ISDIR(seen.st_mode):
        return entry | {"bytes": None, "why": "a repository of its own"}
    if not stat.S_ISREG(seen.st_mode):
        return entry | {"bytes": None, "why": "not a file: it has no content to keep"}
    if names_secret(entry["path"]):
        return entry | {"why": _SECRET}
    most_bytes = left.limits.kept_file_bytes
    is_small = seen.st_size <= min(most_bytes, left.kept_bytes) and left.kept_files > 0
    if not is_small and seen.st_size > left.hashed_bytes:
        return entry | {"why": f"too big to be kept, and beyond the {left.limits.hashed_bytes} bytes that are hashed"}
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if is_small:
            content = file.read(most_bytes + 1)  # it may have grown
            if len(content) <= most_bytes:
                if may_hold_secret(entry["path"], content):
                    return entry | {"bytes": len(content), "why": _SECRET}
                entry["sha256"] = sha256(content).hexdigest()
                shown = redactor.content(content)
                if shown != content:
                    entry["redacted"] = True
                    content = shown
                _write_kept(os.path.join(os.fsencode(place), name), content, 0o600 | seen.st_mode & 0o100)
                left.kept_bytes -= len(content)
                left.kept_files -= 1
                return entry | {"kept": True}
            file.seek(0)
        digest, size = sha256(), 0
        while size <= left.hashed_bytes and (piece := file.read(1 << 20)):
            digest.update(piece)
            size += len(piece)
    left.hashed_bytes -= size
    return entry | {"bytes": size, "sha256": digest.hexdigest(), "why": "too big, or one too many, to be kept"}


def _write_kept(path: bytes, content: bytes, mode: int) -> None:
    # Not synced one by one: a power cut that takes a copy takes the run with it, and the hash tells.
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)


def _link_kept(place: bytes, name: bytes, target: bytes, left: _Left) -> str | None:
    """Makes the link itself, which holds what it says whether it leads anywhere or not; why not, if it cannot be."""
    path = os.path.join(place, name)
    folder = os.path.dirname(path)
    if left.kept_files <= 0:
        return "it is one too many"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if os.path.realpath(folder) != os.path.join(os.path.realpath(place), os.path.dirname(name)).rstrip(b"/"):
            return "a link was kept in the place of its folder"
        os.symlink(target, path)
    except OSError as problem:  # a file system without links
        return str(problem.strerror)
    left.kept_files -= 1
    return None

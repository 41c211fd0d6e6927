"""Protected paths: how they look before a run and after it. What judges a run may not be changed while it runs.

Used by `capture` alone. A pattern is a path relative to the project's folder, of a file, or of a folder, which means
everything below it; `*`, `?` and `[...]` stand for a part of one name and `**` for any folders, as in git's `:(glob)`
path specifications. Links that are found on the way are held by where they point and not followed; a link that is
itself named is followed as well.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict, TypeGuard

__all__ = ["LIMITS", "Change", "Limits", "ProtectedPath", "ProtectedPaths", "is_known", "look_at", "unlike"]

_WILD = re.compile(r"[*?\[]")
_WRITTEN = "was written"
_RECORD = (".perpetual", ".git")  # met on the way they are passed by: they change while runs run


class Limits(NamedTuple):
    """How much of the protected paths is compared."""

    files: int = 20_000
    hashed_bytes: int = 512_000_000  # of contents; a file beyond is held by its size and times alone
    # A change within the same tick as the look leaves the same time behind; two seconds is the coarsest clock of a
    # file system. What was that young is compared by its content.
    young_ns: int = 2_000_000_000


LIMITS = Limits()


class ProtectedPath(TypedDict):
    """The state of one path."""

    path: str
    mode: str | None
    bytes: int | None
    sha256: str | None
    target: str | None  # of a link
    seen: list[int] | None  # [mtime_ns, ctime_ns, inode]
    why: str | None  # it could not be read
    young: NotRequired[bool]  # it had been written just before the look


class ProtectedPaths(TypedDict):
    """The fact `protected`; `sha256` is that of all paths, modes and contents in order."""

    patterns: list[str]
    sha256: str
    files: list[ProtectedPath]
    unmatched: list[str]
    problems: list[str]


def is_known(found: object) -> TypeGuard[ProtectedPaths]:
    """Returns whether it is the fact `protected` as a launch has recorded it."""
    return isinstance(found, dict) and found.get("sha256") is not None


def look_at(root: Path, patterns: Sequence[str], limits: Limits = LIMITS) -> ProtectedPaths:
    """Returns the present state of the protected paths."""
    problems: list[str] = []
    files: dict[str, ProtectedPath] = {}
    unmatched: list[str] = []
    left = limits.hashed_bytes
    for pattern in patterns:
        why = _unusable(pattern)
        if why is not None:
            problems.append(f"protected_paths: {pattern!r} {why}, and protects nothing")
            unmatched.append(pattern)
            continue
        matches = False
        for path in _matching(str(root), pattern, problems):
            matches = True
            if len(files) >= limits.files:
                problems.append(f"protected_paths: more than {limits.files} files; those beyond are not protected")
                break
            if path not in files:
                now = time.time_ns()
                files[path] = _entry(str(root), path, left)
                files[path]["young"] = (files[path]["seen"] or [0, 0])[1] > now - limits.young_ns
                left -= (files[path]["bytes"] or 0) if files[path]["sha256"] else 0
        if not matches:
            unmatched.append(pattern)
            problems.append(f"protected_paths: {pattern!r} matches nothing")
    unhashed = sum(entry["bytes"] is not None and entry["sha256"] is None for entry in files.values())
    if unhashed:
        problems.append(
            f"protected_paths: {unhashed} files beyond {limits.hashed_bytes} bytes in all are held by size and "
            "times alone"
        )
    listed = [files[path] for path in sorted(files)]
    hashed = [[entry["path"], entry["mode"], entry["sha256"], entry["target"]] for entry in listed]
    return {
        "patterns": [*patterns],
        "sha256": sha256(repr(hashed).encode("utf-8", "backslashreplace")).hexdigest(),
        "files": listed,
        "unmatched": unmatched,
        "problems": problems,
    }


class Change(NamedTuple):
    """What became of protected paths, in sentences."""

    taints: list[str]  # what is not as it was
    tells: list[str]  # what was written and is as it was


def unlike(root: Path, before: ProtectedPaths, *, most: int, limits: Limits = LIMITS) -> Change:
    """Compares the protected paths with an earlier state; names at most so many changed ones.

    Paths that are as they were again, though they were written, are listed beside the changed ones.

    A file whose size, times and inode are the same was not written: its time of change (ctime) is set by the kernel
    at every write, and no call sets it back. So contents are read again only where these differ, which spares a run
    the second hash of its test set.
    """
    problems: list[str] = []
    earlier = {entry["path"]: entry for entry in before["files"]}
    changed = {path: word for path, entry in earlier.items() if (word := _difference(str(root), entry)) is not None}
    if len(earlier) < limits.files:
        for pattern in before["patterns"]:
            if _unusable(pattern) is None:
                found = _matching(str(root), pattern, problems)
                changed |= {path: "was added" for path in found if path not in earlier}
    written = {path: "" for path, word in changed.items() if word == _WRITTEN}
    changed = {path: f" {word}" for path, word in changed.items() if word != _WRITTEN}
    if changed:
        problems.insert(0, f"protected paths are not as they were: {_listed(changed, most)}")
    remarks = [f"protected paths were written during the run, and hold what they held: {_listed(written, most)}"]
    return Change([*map(_text, problems)], [*map(_text, remarks)] if written else [])


def _listed(words: Mapping[str, str], most: int) -> str:
    shown = ", ".join(path + words[path] for path in sorted(words)[:most])
    return shown + (f", and {len(words) - most} more" if len(words) > most else "")


def _text(words: str) -> str:
    """Returns a name, which may be any bytes, as text."""
    return words.encode("utf-8", "backslashreplace").decode("utf-8")


def _difference(root: str, before: ProtectedPath) -> str | None:
    """Returns how one path has changed, or None."""
    path = before["path"]
    entry = _entry(root, path, 0)
    if entry["why"] is not None or before["why"] is not None:
        return entry["why"] or "could not be read at the start"
    if entry["mode"] != before["mode"]:
        return "has another mode"
    if entry["target"] != before["target"]:
        return "points elsewhere"
    if entry["bytes"] != before["bytes"]:
        return "was changed"
    if entry["bytes"] is None or (entry["seen"] == before["seen"] and not before["young"]):
        return None
    if before["sha256"] is None:
        return "was written, and is too big to have been hashed" if entry["seen"] != before["seen"] else None
    again = _entry(root, path, entry["bytes"])
    if again["why"] is not None or again["sha256"] != before["sha256"]:
        return again["why"] or "was changed"
    return None if entry["seen"] == before["seen"] else _WRITTEN


def _entry(root: str, path: str, limit: int) -> ProtectedPath:
    """Returns the state of a path; its content is hashed if it is at most `limit` bytes long."""
    full = os.path.join(root, path)
    entry: ProtectedPath = {"path": path, "mode": None, "bytes": None, "sha256": None, "target": None, "seen": None,
                             "why": None}  # fmt: skip
    try:
        found = os.lstat(full)
        entry |= {"mode": f"{found.st_mode:06o}", "seen": [found.st_mtime_ns, found.st_ctime_ns, found.st_ino]}
        if stat.S_ISLNK(found.st_mode):
            return entry | {"target": os.readlink(full)}
        if not stat.S_ISREG(found.st_mode):
            return entry
        entry["bytes"] = found.st_size
        if found.st_size > limit:
            return entry
        digest = sha256()
        descriptor = os.open(full, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except (FileNotFoundError, NotADirectoryError):
        return entry | {"why": "was removed"}
    except OSError as problem:
        return entry | {"why": f"cannot be read: {problem.strerror}"}
    return entry | {"sha256": digest.hexdigest()}


# --- patterns -------------------------------------------------------------------------------------------------------


def _unusable(pattern: str) -> str | None:
    if not pattern.strip("/. ") or "\0" in pattern:
        return "names no path"
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        return "lies outside the project"
    try:
        _expression(pattern)
    except re.error:
        return "is no pattern"
    return None


def _matching(root: str, pattern: str, problems: list[str]) -> Iterator[str]:
    """Yields the files and links that a pattern means, relative to the root."""
    pattern = "/".join(part for part in pattern.split("/") if part not in ("", "."))
    wild = _WILD.search(pattern)
    if wild is None or os.path.lexists(os.path.join(root, pattern)):
        yield from _below(root, pattern, problems, is_named=True)
        return
    start = pattern[: wild.start()].rpartition("/")[0]
    wanted = _expression(pattern)
    for path in _below(root, start, problems, is_named=bool(start)):
        if wanted.match(path):
            yield path


def _below(root: str, start: str, problems: list[str], *, is_named: bool) -> Iterator[str]:
    """Yields the path, or all files and links below it, in order. Follows only a link that is named itself."""
    full = os.path.join(root, start) if start else root
    if os.path.islink(full):
        yield start
        if not is_named:
            return
        if not os.path.isdir(full):
            if os.path.exists(full):
                yield os.path.relpath(os.path.realpath(full), root)
            return
    elif not os.path.isdir(full):
        if os.path.lexists(full):
            yield start
        return
    folders = [start]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            continue  # removed since it was seen
        except OSError as problem:
            problems.append(f"protected_paths: {folder or '.'} cannot be read: {problem.strerror}")
            continue
        inner = []
        for entry in found:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not entry.is_dir(follow_symlinks=False):
                yield path
            elif entry.name not in _RECORD:
                inner.append(path)
        folders += reversed(inner)


def _expression(pattern: str) -> re.Pattern[str]:
    """Returns a glob as an expression; what matches a folder matches all below it."""
    text = ""
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            text, at = text + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            text, at = text + ".*", at + 2
        elif pattern[at] == "*":
            text, at = text + "[^/]*", at + 1
        elif pattern[at] == "?":
            text, at = text + "[^/]", at + 1
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
            inner = pattern[at + 1 : end].replace("\\", "\\\\")
            text, at = text + "[" + ("^" + inner[1:] if inner[0] in "!^" else inner) + "]", end + 1
        else:
            text, at = text + re.escape(pattern[at]), at + 1
    return re.compile(rf"(?s:{text})(?:/|\Z)")

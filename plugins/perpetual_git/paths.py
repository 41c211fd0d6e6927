"""Paths that a note may have. Light: the memory checks a path long before it needs the repository."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["UNPRINTABLE", "PathRefused", "check_path"]

MAX_PATH_CHARACTERS = 200
MAX_SEGMENTS = 8
MAX_SEGMENT_BYTES = 255  # the longest file name that a clone can check out on the usual file systems


class PathRefused(Exception):
    """A path that no note may have: `path` as it was asked for, and `why`, a clause."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"note path {path!r} is refused: {why}")
        self.path = path
        self.why = why


_WINDOWS_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE)
_WINDOWS_FORBIDDEN = re.compile(r'[<>:"|?*]')
_PERCENT_ENCODED = re.compile(r"%[0-9a-fA-F]{2}")
_GIT_SHORT_NAME = re.compile(r"git~[0-9]", re.IGNORECASE)
# Control, format, surrogate, private use, line and paragraph separators. Format characters are what HFS+
# ignores in names, and what makes two different paths look the same.
UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def check_path(path: str) -> str:
    """Returns the normal form of a note's path: NFC, `/` between segments, ending in `.md`.

    `.md` is appended where the last segment has no suffix. Pure: nothing is looked up, and the answer checked
    again is itself.

    Raises:
        PathRefused: the path is empty, absolute, too long (over 200 characters, 8 segments or 255 bytes in a
            segment) or ends in another suffix; it has a backslash, an unprintable or percent-encoded
            character or one that Windows forbids; or a segment is empty, `.`, `..`, a name of git's own, a
            Windows device, or has a blank at an end or a dot at its end; or a folder ends in `.md`.
    """
    note = unicodedata.normalize("NFC", path)
    why = _characters_refused(note) or _shape_refused(note)
    if why is not None:
        raise PathRefused(path, why)
    segments = note.split("/")
    for segment in segments:
        why = _segment_refused(segment)
        if why is not None:
            raise PathRefused(path, why)
    if "." not in segments[-1].lstrip("."):
        note = f"{note}.md"
    if not note.endswith(".md"):
        raise PathRefused(path, "a note ends in .md")
    # Every note ends in .md and no folder does, so none can ever be in another's place.
    if any(segment.endswith(".md") for segment in segments[:-1]):
        raise PathRefused(path, "a folder may not end in .md")
    why = _size_refused(note)
    if why is not None:
        raise PathRefused(path, why)
    return note


def _characters_refused(note: str) -> str | None:
    for character in note:
        if unicodedata.category(character) in UNPRINTABLE:
            return f"it has the unprintable character U+{ord(character):04X}"
    if "\\" in note:
        return "it has a backslash; folders are parted by /"
    if _PERCENT_ENCODED.search(note):
        return "it is percent-encoded"
    forbidden = _WINDOWS_FORBIDDEN.search(note)
    return f"Windows allows no {forbidden.group()} in a file name" if forbidden else None


def _shape_refused(note: str) -> str | None:
    if not note:
        return "it is empty"
    if note != note.strip():
        return "it begins or ends with a blank"
    return "it is absolute" if note.startswith("/") else None


def _segment_refused(segment: str) -> str | None:
    if not segment:
        return "it has an empty segment"
    if segment in (".", ".."):
        return f"it has the segment {segment}"
    if segment.casefold().startswith(".git") or _GIT_SHORT_NAME.fullmatch(segment):
        return f"{segment} is a name of git's own"
    if segment != segment.strip() or segment.endswith("."):
        return f"the segment {segment!r} begins or ends with a blank, or ends with a dot"
    if _WINDOWS_DEVICE.fullmatch(segment.partition(".")[0].strip()):
        return f"{segment} is a device on Windows"
    return None


def _size_refused(note: str) -> str | None:
    if len(note) > MAX_PATH_CHARACTERS:
        return f"it is longer than {MAX_PATH_CHARACTERS} characters"
    segments = note.split("/")
    if len(segments) > MAX_SEGMENTS:
        return f"it has more than {MAX_SEGMENTS} segments"
    if max(len(segment.encode()) for segment in segments) > MAX_SEGMENT_BYTES:
        return f"a segment is longer than {MAX_SEGMENT_BYTES} bytes"
    return None

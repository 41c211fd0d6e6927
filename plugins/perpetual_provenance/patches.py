"""A patch as it is kept: files that hold secrets left out, secrets in the others replaced. For `git_snapshot` alone."""

from __future__ import annotations

import re
from typing import NamedTuple

from perpetual.api import MASK, Redactor
from perpetual_provenance.secret_files import may_hold_secret

__all__ = ["Kept", "without_secrets"]

_FILE = re.compile(rb"^diff --git ", re.MULTILINE)
_NAME = re.compile(rb"^(?:\+\+\+ b/|--- a/)(?P<name>[^\n]+)|^diff --git \"?a/(?P<first>[^\n]+)", re.MULTILINE)
_MASK = MASK.encode()


class Kept(NamedTuple):
    """A patch without secrets, and the files that miss something in it."""

    patch: bytes
    left_out: list[str]
    redacted: list[str]


def without_secrets(redactor: Redactor, patch: bytes) -> Kept:
    """Returns the patch with files that hold secrets left out, and secrets in other lines replaced, line by line."""
    starts = [match.start() for match in _FILE.finditer(patch)]
    pieces = [patch[: starts[0]]] if starts else [patch]
    left_out: list[str] = []
    redacted: list[str] = []
    for start, end in zip(starts, [*starts[1:], len(patch)], strict=True):
        section = patch[start:end]
        name = _name_of(section)
        if may_hold_secret(name, section):
            left_out.append(name)
            continue
        shown = _redacted(redactor, section)
        if shown != section:
            redacted.append(name)
        pieces.append(shown)
    return Kept(b"".join(pieces), left_out, redacted)


def _name_of(section: bytes) -> str:
    names = [match["name"] for match in _NAME.finditer(section[:20_000]) if match["name"]]
    if names:
        name = names[-1].rstrip(b"\t\r").strip(b'"')
    else:
        first = section.split(b"\n", 1)[0].removeprefix(b"diff --git ").strip(b'"')
        name = first[2 : len(first) // 2].rstrip(b'" ')
    return name.decode("utf-8", "backslashreplace")


def _redacted(redactor: Redactor, section: bytes) -> bytes:
    """Returns the section with as many lines as before, each with its sign."""
    if redactor.content(section) == section or b"\nGIT binary patch\n" in section:
        return section
    head, *hunks = re.split(rb"(?m)^(?=@@ )", section)
    return head + b"".join(_hunk(redactor, hunk) for hunk in hunks)


def _hunk(redactor: Redactor, hunk: bytes) -> bytes:
    lines = hunk.split(b"\n")
    signs = [line[:1] for line in lines[1:]]
    bodies = [line[1:] for line in lines[1:]]
    whole = redactor.content(b"\n".join(bodies))
    if whole.count(b"\n") == len(bodies) - 1:
        shown = whole.split(b"\n")
    else:  # a secret of several lines: each line that the whole has lost is replaced by itself
        left = whole.split(b"\n")
        stay = {*left}
        shown = [redactor.content(body) if body in stay else _MASK for body in bodies]
    changed = [sign + body for sign, body in zip(signs, shown, strict=True)]
    return b"\n".join([redactor.content(lines[0]), *changed])

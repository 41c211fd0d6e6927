"""Text files shared with people: a marked block kept inside one, and whole files that carry a line with their hash.

Used by the scaffolder. Marks are comments of the file's own kind.
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["has_stamp", "is_untouched", "put_block", "says_already", "stamp", "take_block"]

_MARKUP = (".md", ".mdc", ".markdown", ".html", ".htm", ".xml", ".svg")
_SLASHES = (".js", ".mjs", ".ts", ".mts", ".tsx", ".jsx", ".jsonc", ".c", ".go", ".rs")
_EMPTY_LINE = re.compile(r"(?:\A|(?<=\n))\r?\n\Z")
_STAMP = re.compile(r"perpetual:generated ([0-9a-f]{16})\b[^\n]*\n?\Z")


def _comment(path: str, text: str) -> str:
    """Returns the text as a comment line of that kind of file."""
    name = path.lower()
    if name.endswith(_MARKUP):
        return f"<!-- {text} -->"
    return f"// {text}" if name.endswith(_SLASHES) else f"# {text}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _find(path: str, text: str) -> tuple[int, int] | None:
    """Returns the begin and the end of the block, the end mark's line included.

    Raises:
        ValueError: with the line, if the marks are not one pair in order.
    """
    starts, ends = (
        [(found.start(), found.end()) for found in re.finditer(rf"^{re.escape(mark)}[ \t]*\r?(?:\n|\Z)", text, re.M)]
        for mark in (_comment(path, "perpetual:start"), _comment(path, "perpetual:end"))
    )
    if not starts and not ends:
        return None
    if len(starts) != 1 or len(ends) != 1 or starts[0] > ends[0]:
        at = min(begin for begin, _ in (*starts, *ends))
        raise ValueError(
            f"line {text.count(chr(10), 0, at) + 1}: the marks perpetual:start and perpetual:end do not pair"
        )
    return starts[0][0], ends[0][1]


def put_block(path: str, text: str, body: str) -> str:
    """Returns the text with `body` between the marks: replaced if they are there, otherwise added at the end."""
    newline = _newline(text)
    lines = [_comment(path, "perpetual:start"), *body.strip("\n").split("\n"), _comment(path, "perpetual:end"), ""]
    block = newline.join(lines)
    place = _find(path, text)
    if place is not None:
        return text[: place[0]] + block + text[place[1] :]
    if not text:
        return block
    return text + ("" if text.endswith("\n") else newline) + newline + block


def take_block(path: str, text: str) -> str:
    """Returns the text without the block, and without the empty line that was put before it."""
    place = _find(path, text)
    if place is None:
        return text
    return _EMPTY_LINE.sub("", text[: place[0]]) + text[place[1] :]


def says_already(path: str, text: str, body: str) -> bool:
    """Returns whether a body of one line is already a line of its own in the text, outside of the marks."""
    line = body.strip()
    return "\n" not in line and line in (found.strip() for found in take_block(path, text).splitlines())


def _hash(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8")).hexdigest()[:16]


def stamp(path: str, body: str) -> str:
    """Returns a generated file: the body and a last line that later shows whether a person edited it."""
    body = body.rstrip("\n") + "\n"
    return body + _comment(path, f"perpetual:generated {_hash(body)} (an edited file is left alone)") + "\n"


def has_stamp(text: str) -> bool:
    """Returns whether the text ends in such a line."""
    return _STAMP.search(text.replace("\r\n", "\n")) is not None


def is_untouched(text: str) -> bool:
    """Returns whether the text is as it was generated; line ends do not count."""
    plain = text.replace("\r\n", "\n")
    found = _STAMP.search(plain)
    return found is not None and _hash(plain[: plain.rfind("\n", 0, found.start()) + 1]) == found[1]

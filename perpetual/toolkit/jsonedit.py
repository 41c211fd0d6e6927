"""JSON files that people edit: one value put in or taken out, every other byte left as it was. Floor 0.

Used by the scaffold (`perpetual.lab.scaffold`). The text is edited, not the tree: number spellings, escapes, inline
lists, line ends and indentation outside of the edited place stay, which parsing and dumping could not promise.
Every function takes a whole document, answers the new one and raises ValueError (with the line, `line N: ...`)
if the text is no JSON or a step of the path holds something else than an object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["add_items", "depth", "drop", "drop_items", "load", "lookup", "put", "same"]

_DECODER = json.JSONDecoder()
_SPACE = " \t\n\r"
_INDENTED = re.compile(r"\n([ \t]+)\S")
_SPACED_COLON = re.compile(r'":\s')


@dataclass(frozen=True, slots=True)
class _Member:
    """One entry of an object (`start` is its key) or of a list (`start` is its value)."""

    key: str | None
    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class _Box:
    """An object or list: where its brackets stand, and its entries in order."""

    opening: int
    closing: int
    members: tuple[_Member, ...]

    def find(self, key: str) -> int | None:
        """The index of the entry that counts for `key`: of several, parsers take the last."""
        return next((i for i in range(len(self.members) - 1, -1, -1) if self.members[i].key == key), None)


def load(text: str) -> Any:
    """The document's value."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        raise ValueError(f"line {problem.lineno}: {problem.msg}") from problem
    except RecursionError as problem:
        raise ValueError("line 1: nested too deeply") from problem


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; True is not 1, the order of keys does not matter."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def lookup(text: str, keys: Sequence[str]) -> tuple[Any, ...]:
    """`(value,)` at the path, or `()` if there is none."""
    value = load(text)
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return ()
        value = value[key]
    return (value,)


def depth(text: str, keys: Sequence[str]) -> int:
    """How many steps of the path exist."""
    value = load(text)
    for number, key in enumerate(keys):
        if not isinstance(value, dict) or key not in value:
            return number
        value = value[key]
    return len(keys)


def put(text: str, keys: Sequence[str], value: Any) -> str:
    """Sets the value at the path: replaced where it stands, otherwise added as its object's last entry."""
    present = lookup(text, keys)
    if present and same(present[0], value):
        return text
    at = _start(text)
    for number, key in enumerate(keys):
        box = _object(text, at, keys[:number])
        index = box.find(key)
        if index is None:
            for outer in reversed(keys[number + 1 :]):
                value = {outer: value}
            return _insert(text, box, json.dumps(key, ensure_ascii=False), value)
        member = box.members[index]
        at = member.value
    written = _dump(text, value, _margin(text, at) if _has_lines(text) else None)
    return text[:at] + written + text[member.end :]


def drop(text: str, keys: Sequence[str], *, floor: int) -> str:
    """Takes out the entry at the path, and the objects above it that this leaves empty, down to `floor` steps.

    A path that does not exist changes nothing.
    """
    if depth(text, keys) < len(keys):
        return text
    path = list(keys)
    while True:
        box, index = _entry(text, path)
        text = _remove(text, box, index)
        path.pop()
        if len(path) <= floor or lookup(text, path) != ({},):
            return text


def add_items(text: str, keys: Sequence[str], items: Sequence[Any]) -> str:
    """Adds to the list at the path those items that it does not hold yet; a missing list is made."""
    present = lookup(text, keys)
    if not present:
        return put(text, keys, list(items))
    found = _list(text, keys, present[0])
    for item in items:
        if not any(same(item, other) for other in found):
            found.append(item)
            text = _insert(text, _box_at(text, keys), None, item)
    return text


def drop_items(text: str, keys: Sequence[str], items: Sequence[Any], *, floor: int) -> str:
    """Takes these items out of the list at the path; a list that this leaves empty goes like an entry of `drop`."""
    present = lookup(text, keys)
    if not present:
        return text
    found = _list(text, keys, present[0])
    gone = [i for i, other in enumerate(found) if any(same(item, other) for item in items)]
    for index in reversed(gone):
        text = _remove(text, _box_at(text, keys), index)
    if gone and len(gone) == len(found) and len(keys) > floor:
        return drop(text, keys, floor=floor)
    return text


def _list(text: str, keys: Sequence[str], value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"line {_line(text, _box_start(text, keys))}: {'.'.join(keys)} is no list")
    return list(value)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _start(text: str) -> int:
    return _skip(text, 0)


def _scan(text: str, at: int) -> _Box:
    """The box that opens at `at`. The text is known to be JSON, so no step needs a check."""
    closing = "}" if text[at] == "{" else "]"
    members: list[_Member] = []
    here = _skip(text, at + 1)
    while text[here] != closing:
        start, key = here, None
        if closing == "}":
            key, here = _DECODER.raw_decode(text, here)
            here = _skip(text, _skip(text, here) + 1)
        value = here
        _, here = _DECODER.raw_decode(text, here)
        members.append(_Member(key, start, value, here))
        here = _skip(text, here)
        if text[here] == ",":
            here = _skip(text, here + 1)
    return _Box(at, here, tuple(members))


def _object(text: str, at: int, path: Sequence[str]) -> _Box:
    if text[at] != "{":
        what = ".".join(path) or "the document"
        raise ValueError(f"line {_line(text, at)}: {what} is no object")
    return _scan(text, at)


def _entry(text: str, keys: Sequence[str]) -> tuple[_Box, int]:
    """The box and index of an entry that exists."""
    at, found = _start(text), None
    for number, key in enumerate(keys):
        box = _object(text, at, keys[:number])
        index = box.find(key)
        assert index is not None
        at, found = box.members[index].value, (box, index)
    assert found is not None
    return found


def _box_start(text: str, keys: Sequence[str]) -> int:
    if not keys:
        return _start(text)
    box, index = _entry(text, keys)
    return box.members[index].value


def _box_at(text: str, keys: Sequence[str]) -> _Box:
    return _scan(text, _box_start(text, keys))


def _has_lines(text: str) -> bool:
    return "\n" in text.strip() or text.strip() in ("{}", "[]")


def _margin(text: str, at: int) -> str:
    """The indentation of the line on which `at` stands."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """One step of the document's indentation."""
    found = _INDENTED.search(text)
    return found[1] if found else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _tight(text: str) -> bool:
    return '":' in text and _SPACED_COLON.search(text) is None


def _dump(text: str, value: Any, margin: str | None) -> str:
    """The value as this document would write it: over lines below `margin`, or on one line."""
    if margin is None:
        separators = (",", ":") if _tight(text) else (", ", ": ")
        return json.dumps(value, ensure_ascii=False, separators=separators)
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text))
    return lines.replace("\n", _newline(text) + margin)


def _insert(text: str, box: _Box, key: str | None, value: Any) -> str:
    """Adds the box's last entry, in the manner of the entries before it."""
    tight = _tight(text)
    name = "" if key is None else f"{key}:" if tight else f"{key}: "
    if box.members:
        last = box.members[-1]
        gap_at = last.start
        while text[gap_at - 1] in _SPACE:
            gap_at -= 1
        gap = text[gap_at : last.start]
        if "\n" in gap:
            piece = name + _dump(text, value, gap.rpartition("\n")[2])
        else:
            gap = "" if tight else " "
            piece = name + _dump(text, value, None)
        return f"{text[: last.end]},{gap}{piece}{text[last.end :]}"
    if _has_lines(text):
        margin = _margin(text, box.opening)
        inner = margin + _unit(text)
        newline = _newline(text)
        piece = f"{newline}{inner}{name}{_dump(text, value, inner)}{newline}{margin}"
    else:
        piece = name + _dump(text, value, None)
    return text[: box.opening + 1] + piece + text[box.closing :]


def _remove(text: str, box: _Box, index: int) -> str:
    """Takes out one entry with its comma and the space between it and its neighbour."""
    members = box.members
    if index > 0:
        return text[: members[index - 1].end] + text[members[index].end :]
    if len(members) > 1:
        return text[: members[0].start] + text[members[1].start :]
    return text[: box.opening + 1] + text[box.closing :]

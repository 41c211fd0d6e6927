"""JSON files that people edit: one value put in or taken out, every other byte left as it was.

Used by the scaffolder. The text is edited, not the tree: number spellings, escapes, inline
lists, line ends and indentation outside of the edited place stay, which parsing and dumping could not promise.
With `comments` the text may hold `//` and `/* */` comments and a comma behind a last entry (JSONC, as editors and some
agents read it): these stay too. For that the places are looked up in a copy of equal length that has spaces there.
Every function takes a whole document, answers the new one and raises ValueError (with the line, `line N: ...`)
if the text is no JSON or a step of the path holds something else than an object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["add_items", "depth", "drop", "drop_items", "load", "lookup", "put", "same"]

_DECODER = json.JSONDecoder()
_SPACE = " \t\n\r"
_INDENTED = re.compile(r"\n([ \t]+)\S")
_SPACED_COLON = re.compile(r'":\s')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/|/\*|[^\s]', re.S)


@dataclass(frozen=True, slots=True)
class _Doc:
    """A text, and the same text of plain JSON."""

    text: str
    plain: str  # as long as `text`
    comments: Mapping[int, int]  # where each begins and ends
    commas: frozenset[int]  # those behind a last entry


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
        """Returns the index of the entry that counts for `key`: of several, parsers take the last."""
        return next((i for i in range(len(self.members) - 1, -1, -1) if self.members[i].key == key), None)


def _read(text: str, comments: bool) -> _Doc:
    """Returns the text with its comments and spare commas found; without `comments` there are none."""
    if not comments:
        return _Doc(text, text, {}, frozenset())
    found: dict[int, int] = {}
    commas: set[int] = set()
    before, comma = "", -1  # the token before, and where it stands if it is a comma behind an entry
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word == "/*":
            raise ValueError(f"line {_line(text, token.start())}: a comment has no end")
        if word.startswith(("//", "/*")):
            found[token.start()] = token.end()
            continue
        if word in "}]" and before == ",":
            commas |= {comma} - {-1}
        comma = token.start() if word == "," and before not in ("", ",", "[", "{", ":") else -1
        before = word
    plain = list(text)
    for start, end in [*found.items(), *((at, at + 1) for at in commas)]:
        plain[start:end] = [sign if sign in _SPACE else " " for sign in text[start:end]]
    return _Doc(text, "".join(plain), found, frozenset(commas))


def load(text: str, *, comments: bool = False) -> object:
    """Returns the document's value."""
    return _value(_read(text, comments))


def _value(doc: _Doc) -> object:
    try:
        found: object = json.loads(doc.plain)
        return found
    except json.JSONDecodeError as problem:
        raise ValueError(f"line {problem.lineno}: {problem.msg}") from problem
    except RecursionError as problem:
        raise ValueError("line 1: nested too deeply") from problem


def same(one: object, other: object) -> bool:
    """Returns whether two JSON values are equal; True is not 1, the order of keys does not matter."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def lookup(text: str, keys: Sequence[str], *, comments: bool = False) -> tuple[object, ...]:
    """Returns `(value,)` at the path, or `()` if there is none."""
    value = load(text, comments=comments)
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return ()
        value = value[key]
    return (value,)


def depth(text: str, keys: Sequence[str], *, comments: bool = False) -> int:
    """Returns how many steps of the path exist."""
    value = load(text, comments=comments)
    for number, key in enumerate(keys):
        if not isinstance(value, dict) or key not in value:
            return number
        value = value[key]
    return len(keys)


def put(text: str, keys: Sequence[str], value: object, *, comments: bool = False) -> str:
    """Sets the value at the path: replaced where it stands, otherwise added as its object's last entry."""
    present = lookup(text, keys, comments=comments)
    if present and same(present[0], value):
        return text
    doc = _read(text, comments)
    at = _start(doc)
    for number, key in enumerate(keys):
        box = _object(doc, at, keys[:number])
        index = box.find(key)
        if index is None:
            for outer in reversed(keys[number + 1 :]):
                value = {outer: value}
            return _insert(doc, box, json.dumps(key, ensure_ascii=False), value)
        member = box.members[index]
        at = member.value
    written = _dump(text, value, _margin(text, at) if _has_lines(text) else None)
    return text[:at] + written + text[member.end :]


def drop(text: str, keys: Sequence[str], *, floor: int, comments: bool = False) -> str:
    """Takes out the entry at the path, and the objects above it that this leaves empty, down to `floor` steps.

    A path that does not exist changes nothing; an object that holds a comment is not empty.
    """
    if depth(text, keys, comments=comments) < len(keys):
        return text
    path = list(keys)
    while True:
        doc = _read(text, comments)
        box, index = _entry(doc, path)
        text = _remove(doc, box, index)
        path.pop()
        if len(path) <= floor or lookup(text, path, comments=comments) != ({},):
            return text
        if "/" in _inside(text, _box_at(_read(text, comments), path)):
            return text


def add_items(text: str, keys: Sequence[str], items: Sequence[object], *, comments: bool = False) -> str:
    """Adds to the list at the path those items that it does not hold yet; a missing list is made."""
    present = lookup(text, keys, comments=comments)
    if not present:
        return put(text, keys, list(items), comments=comments)
    found = _list(_read(text, comments), keys, present[0])
    for item in items:
        if not any(same(item, other) for other in found):
            found.append(item)
            doc = _read(text, comments)
            text = _insert(doc, _box_at(doc, keys), None, item)
    return text


def drop_items(text: str, keys: Sequence[str], items: Sequence[object], *, floor: int, comments: bool = False) -> str:
    """Takes these items out of the list at the path; a list that this leaves empty goes like an entry of `drop`."""
    present = lookup(text, keys, comments=comments)
    if not present:
        return text
    found = _list(_read(text, comments), keys, present[0])
    gone = [i for i, other in enumerate(found) if any(same(item, other) for item in items)]
    for index in reversed(gone):
        doc = _read(text, comments)
        text = _remove(doc, _box_at(doc, keys), index)
    if gone and len(gone) == len(found) and len(keys) > floor:
        if "/" in _inside(text, _box_at(_read(text, comments), keys)):
            return text
        return drop(text, keys, floor=floor, comments=comments)
    return text


def _list(doc: _Doc, keys: Sequence[str], value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"line {_line(doc.text, _box_start(doc, keys))}: {'.'.join(keys)} is no list")
    return list(value)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _start(doc: _Doc) -> int:
    return _skip(doc.plain, 0)


def _scan(text: str, at: int) -> _Box:
    """Returns the box that opens at `at`. The text is known to be JSON, so no step needs a check."""
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


def _object(doc: _Doc, at: int, path: Sequence[str]) -> _Box:
    if doc.plain[at] != "{":
        what = ".".join(path) or "the document"
        raise ValueError(f"line {_line(doc.text, at)}: {what} is no object")
    return _scan(doc.plain, at)


def _entry(doc: _Doc, keys: Sequence[str]) -> tuple[_Box, int]:
    """Returns the box and index of an entry that exists."""
    at, found = _start(doc), None
    for number, key in enumerate(keys):
        box = _object(doc, at, keys[:number])
        index = box.find(key)
        assert index is not None
        at, found = box.members[index].value, (box, index)
    assert found is not None
    return found


def _box_start(doc: _Doc, keys: Sequence[str]) -> int:
    if not keys:
        return _start(doc)
    box, index = _entry(doc, keys)
    return box.members[index].value


def _box_at(doc: _Doc, keys: Sequence[str]) -> _Box:
    return _scan(doc.plain, _box_start(doc, keys))


def _inside(text: str, box: _Box) -> str:
    return text[box.opening + 1 : box.closing]


def _has_lines(text: str) -> bool:
    return "\n" in text.strip() or text.strip() in ("{}", "[]")


def _margin(text: str, at: int) -> str:
    """Returns the indentation of the line on which `at` stands."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """Returns one step of the document's indentation."""
    found = _INDENTED.search(text)
    return found[1] if found else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _tight(text: str) -> bool:
    return '":' in text and _SPACED_COLON.search(text) is None


def _dump(text: str, value: object, margin: str | None) -> str:
    """Returns the value as this document would write it: over lines below `margin`, or on one line."""
    if margin is None:
        separators = (",", ":") if _tight(text) else (", ", ": ")
        return json.dumps(value, ensure_ascii=False, separators=separators)
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text))
    return lines.replace("\n", _newline(text) + margin)


def _insert(doc: _Doc, box: _Box, key: str | None, value: object) -> str:
    """Adds the box's last entry, in the manner of the entries before it."""
    text = doc.text
    tight = _tight(text)
    name = "" if key is None else f"{key}:" if tight else f"{key}: "
    if box.members:
        last = box.members[-1]
        gap = text[_gap(text, last.start) : last.start]
        spare = _comma_behind(doc, box, last.end)
        at = last.end if spare is None else spare + 1
        if "\n" in gap:
            piece = name + _dump(text, value, gap.rpartition("\n")[2])
            end = _behind_comments(doc, at)
        else:
            gap = "" if tight else " "
            piece, end = name + _dump(text, value, None), at
        if spare is None:
            return f"{text[:at]},{text[at:end]}{gap}{piece}{text[end:]}"
        return f"{text[:end]}{gap}{piece},{text[end:]}"
    kept = _inside(text, box).rstrip(_SPACE)  # a comment
    if kept or _has_lines(text):
        margin = _margin(text, box.opening)
        inner = margin + _unit(text)
        newline = _newline(text)
        piece = f"{newline}{inner}{name}{_dump(text, value, inner)}{newline}{margin}"
    else:
        piece = name + _dump(text, value, None)
    return text[: box.opening + 1] + kept + piece + text[box.closing :]


def _gap(text: str, at: int) -> int:
    """Returns the position at which the space before `at` begins."""
    while text[at - 1] in _SPACE:
        at -= 1
    return at


def _comma_behind(doc: _Doc, box: _Box, end: int) -> int | None:
    """Returns the position of the comma after the entry with this end, be it the last one; None without one."""
    at = _skip(doc.plain, end)
    if doc.plain[at] == ",":
        return at
    return next((comma for comma in doc.commas if end <= comma < at), None)


def _behind_comments(doc: _Doc, at: int) -> int:
    """Returns the end of the line, if nothing but comments stands on it behind `at`; otherwise `at`."""
    here = at
    while doc.text[here] in " \t" or here in doc.comments:
        here = doc.comments.get(here, here + 1)
    return here if doc.text[here] in "\r\n" else at


def _remove(doc: _Doc, box: _Box, index: int) -> str:
    """Takes out one entry with its comma and the space before it; comments stay."""
    text, member = doc.text, box.members[index]
    start, end = _gap(text, member.start), member.end
    comma = _comma_behind(doc, box, end)
    if comma is not None:
        rest = text[end:comma] + text[comma + 1 :]
    elif index > 0:
        comma = _comma_behind(doc, box, box.members[index - 1].end)
        assert comma is not None
        rest = text[end:]
    else:
        rest = text[end:]
    before = text[:start] if comma is None or comma > start else text[:comma] + text[comma + 1 : start]
    if len(box.members) == 1 and not (text[box.opening + 1 : start] + text[end : box.closing]).strip(_SPACE + ","):
        return text[: box.opening + 1] + text[box.closing :]
    line_comment = any(finish == start and text.startswith("//", begin) for begin, finish in doc.comments.items())
    if line_comment and rest.lstrip(" \t")[:1] not in ("\r", "\n"):
        before += _newline(text)  # or the rest of the line would be part of the comment
    return before + rest

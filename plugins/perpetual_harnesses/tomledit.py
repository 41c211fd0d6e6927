"""TOML files that people edit: one table put in or taken out, every other byte left as it was.

Used by the scaffolder. A new table is a block of text at the end of the file, which is what a
person would write; where its parents are inline tables, tomlkit edits the place and keeps the style. Each result is
parsed and compared with what it should hold, so that an edit is right or refused. Every function takes a whole document
and raises ValueError (with the line, `line N: ...`) if the text is no TOML or cannot take the table.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, MutableMapping, Sequence

__all__ = ["depth", "drop", "load", "lookup", "put"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_AT = re.compile(r"\(at line (\d+), column \d+\)$")
_BESIDE = re.compile(r"[ \t]*(?:#[^\n]*)?\r?")  # a line that says nothing to a program


def load(text: str) -> dict[str, object]:
    """Returns the document's value."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        found = _AT.search(str(problem))
        line = int(found[1]) if found else text.rstrip().count("\n") + 1
        raise ValueError(f"line {line}: {_AT.sub('', str(problem)).strip()}") from problem
    except RecursionError as problem:
        raise ValueError("line 1: nested too deeply") from problem


def lookup(text: str, keys: Sequence[str]) -> tuple[object, ...]:
    """Returns `(value,)` at the path, or `()` if there is none."""
    value: object = load(text)
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return ()
        value = value[key]
    return (value,)


def depth(text: str, keys: Sequence[str]) -> int:
    """Returns how many steps of the path exist."""
    value: object = load(text)
    for number, key in enumerate(keys):
        if not isinstance(value, dict) or key not in value:
            return number
        value = value[key]
    return len(keys)


def put(text: str, keys: Sequence[str], table: Mapping[str, object]) -> str:
    """Sets the table at the path; an existing one is replaced whole."""
    present = lookup(text, keys)
    if present and present[0] == table:
        return text
    wanted = load(text)
    here = wanted
    for number, key in enumerate(keys[:-1]):
        inner = here.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ValueError(f"line {_line_of(text, key)}: {'.'.join(keys[: number + 1])} is no table")
        here = inner
    here[keys[-1]] = dict(table)
    return _first_right(
        lambda found: found == wanted,
        lambda: _appended(_cut(text, keys) if present else text, keys, table),
        lambda: _set(text, keys, table),
    )


def drop(text: str, keys: Sequence[str], *, floor: int) -> str:
    """Takes out the table at the path, and the tables above it that this leaves empty, down to `floor` steps.

    A path that does not exist changes nothing.
    """
    if depth(text, keys) < len(keys):
        return text
    wanted, left = load(text), list(keys)
    while True:
        del _at(wanted, left[:-1])[left[-1]]
        left.pop()
        if len(left) <= floor or _at(wanted, left) != {}:
            break
    gone = keys[: len(left) + 1]
    # A table that only its inner table's header named goes with that header.
    right = _pruned(wanted, keys)
    return _first_right(
        lambda found: _pruned(found, keys) == right, lambda: _cut(text, keys), lambda: _deleted(text, gone)
    )


def _at(document: MutableMapping[str, object], path: Sequence[str]) -> MutableMapping[str, object]:
    """Returns the table at the path; raises TypeError where a step is none."""
    for key in path:
        inner = document[key]
        if not isinstance(inner, MutableMapping):
            raise TypeError(f"{key} is no table")
        document = inner
    return document


def _pruned(document: dict[str, object], keys: Sequence[str]) -> dict[str, object]:
    """Returns the document without what is empty on the way to the path."""
    if keys and keys[0] in document:
        inner = document[keys[0]]
        if isinstance(inner, dict):
            inner = _pruned(inner, keys[1:])
        rest = {key: value for key, value in document.items() if key != keys[0]}
        return rest if inner == {} else {**rest, keys[0]: inner}
    return document


def _first_right(is_right: Callable[[dict[str, object]], bool], *edits: Callable[[], str]) -> str:
    """Returns the text of the first edit whose value is right."""
    from tomlkit.exceptions import TOMLKitError

    for edit in edits:
        try:
            text = edit()
            if is_right(load(text)):
                return text
        except (ValueError, TypeError, KeyError, AttributeError, TOMLKitError):
            continue  # the next one may know the way; whatever is answered was compared
    raise ValueError("the table has no place there; move what is beside it into tables of its own")


def _line_of(text: str, key: str) -> int:
    found = re.search(rf"^[^#\n]*{re.escape(key)}", text, re.M)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _header(keys: Sequence[str]) -> str:
    return f"[{'.'.join(map(_key, keys))}]"


def _written(value: object) -> str:
    import tomlkit

    if isinstance(value, Mapping):
        inline = tomlkit.inline_table()
        inline.update(value)
        return inline.as_string()
    return str(tomlkit.item(value).as_string())


def _appended(text: str, keys: Sequence[str], table: Mapping[str, object]) -> str:
    """Returns the text with the table as a block at its end, an empty line before it."""
    newline = _newline(text)
    lines = [_header(keys), *(f"{_key(name)} = {_written(value)}" for name, value in table.items()), ""]
    apart = "" if not text else newline if text.endswith("\n") else newline * 2
    return text + apart + newline.join(lines)


def _cut(text: str, keys: Sequence[str]) -> str:
    """Returns the text without the lines of the table's own block; comments behind them stay.

    The last line that reads like its header is taken: an earlier one may be inside of a string.
    """
    lines = text.splitlines(keepends=True)
    *_, first = [number for number, line in enumerate(lines) if line.rstrip("\r\n") == _header(keys)]
    end = next((number for number in range(first + 1, len(lines)) if lines[number].startswith("[")), len(lines))
    while end > first + 1 and _BESIDE.fullmatch(lines[end - 1].rstrip("\n")):
        end -= 1
    if first and not lines[first - 1].strip():
        first -= 1  # the empty line that was put before it
    return "".join([*lines[:first], *lines[end:]])


def _set(text: str, keys: Sequence[str], table: Mapping[str, object]) -> str:
    """Returns the text with the table set in the tree."""
    import tomlkit

    document = tomlkit.parse(text)
    here: MutableMapping[str, object] = document
    for key in keys[:-1]:
        if key not in here:
            here[key] = tomlkit.table(is_super_table=True)
        here = _at(here, (key,))
    inline = tomlkit.inline_table()
    inline.update(table)
    here[keys[-1]] = inline
    return tomlkit.dumps(document)


def _deleted(text: str, keys: Sequence[str]) -> str:
    """Returns the text with the entry taken out of the tree."""
    import tomlkit

    document = tomlkit.parse(text)
    del _at(document, keys[:-1])[keys[-1]]
    return tomlkit.dumps(document)

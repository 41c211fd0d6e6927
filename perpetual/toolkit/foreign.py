"""Limits on documents that others wrote: how large, how deeply nested, and how much their references expand. Floor 0.

Python's parsers recurse: a document of brackets ends them with RecursionError, or (after a parse that just succeeded)
whatever walks the value next. What is read through this module is refused before, with words for a person.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["DEEPEST", "LARGEST_YAML", "check_depth", "check_yaml", "parse_json"]

DEEPEST = 64  # levels of lists and objects
LARGEST_YAML = 256 * 1024  # bytes: the YAML parser is slow, and people write no such files
_LARGEST_JSON = 64 * 1024 * 1024  # bytes
_MOST_VALUES = 20_000  # of a YAML document once its aliases are expanded
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_NESTING_LINE = re.compile(r"^(?:[ ]{64}|[ ]*+(?:[-?:][ \t]+){16})", re.MULTILINE)


def parse_json(data: bytes | str, *, most: int = _LARGEST_JSON, deepest: int = DEEPEST, **options: Any) -> Any:
    """Returns the value of a JSON document; `options` are those of `json.loads`.

    Raises:
        ValueError: if it is none, or is too large or nested too deeply.
    """
    if len(data) > most:
        raise ValueError(f"it has {len(data):,} bytes, and at most {most:,} are read")
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        if text.count("[") + text.count("{") > deepest:
            check_depth(text, deepest)
        return json.loads(text, **options)
    except RecursionError as problem:
        raise ValueError("nested too deeply") from problem


def check_depth(text: str, deepest: int = DEEPEST) -> None:
    """Raises ValueError for JSON that is nested more deeply."""
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > deepest:
            raise ValueError(f"nested more than {deepest} levels deep")


def check_yaml(text: str) -> None:
    """Raises ValueError for YAML that is too large, nested too deeply, or grows when its aliases are expanded.

    A mistake of syntax is left to the parser. An ordinary file is not parsed here: only one with an anchor, with
    many brackets or with much nesting in a line is.
    """
    if len(text) > LARGEST_YAML:
        raise ValueError(f"it has {len(text):,} characters, and at most {LARGEST_YAML:,} are read")
    if "&" not in text and text.count("[") + text.count("{") <= DEEPEST and not _NESTING_LINE.search(text):
        return
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        _count(YAML(typ="safe", pure=True).parse(text))
    except YAMLError:
        return


def _count(events: Any) -> None:
    """Counts a document's values, each alias as all that it stands for."""
    from ruamel.yaml.events import (
        AliasEvent,
        MappingEndEvent,
        MappingStartEvent,
        ScalarEvent,
        SequenceEndEvent,
        SequenceStartEvent,
    )

    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []  # the anchors of the open collections, and what was counted before each
    count = 0
    for event in events:
        if isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            open_.append((event.anchor, count))
            count += 1
            if len(open_) > DEEPEST:
                raise ValueError(f"nested more than {DEEPEST} levels deep")
        elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            anchor, before = open_.pop()
            if anchor is not None:
                sizes[anchor] = count - before
        elif isinstance(event, ScalarEvent):
            count += 1
            if event.anchor is not None:
                sizes[event.anchor] = 1
        elif isinstance(event, AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_):
                raise ValueError(f"the alias *{event.anchor} stands for what holds it")
            count += sizes.get(event.anchor, 1)
        if count > _MOST_VALUES:
            raise ValueError(f"it stands for more than {_MOST_VALUES:,} values")

"""Front matter of notes: YAML between two `---` lines, read within bounds. The text comes from anybody.

Only plain values are read: no tags, anchors, aliases or escapes. So a gate that reads the text has read the values.
"""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from perpetual.api import UsageError

__all__ = ["SCOPES", "Front", "front_of"]

SCOPES = ("hypothesis", "tag", "tool", "harness")
_LONGEST = 16 * 1024  # characters of a front matter
_MOST_VALUES = 500
_DEEPEST = 4


class Front(NamedTuple):
    """The front matter of a note, and the text below it."""

    fields: dict[str, object]
    body: str


def front_of(text: str) -> Front | None:
    """Returns the front matter of a note's text and what is below it; None where it has none.

    Raises:
        UsageError: for one that cannot be read, or that holds more than plain values.
    """
    plain = text.replace("\r\n", "\n")
    if not plain.startswith("---\n"):
        return None
    head, end, body = plain[4:].partition("\n---\n")
    if not end and plain.endswith("\n---"):
        head, end = plain[4:-4], "---"
    if not end:
        return None
    if len(head) > _LONGEST:
        raise UsageError(f"its front matter has {len(head):,} characters; at most {_LONGEST:,} are read")
    return Front(_fields(head), body)


def _fields(head: str) -> dict[str, object]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        _check(head)
        found = YAML(typ="safe", pure=True).load(head)
    except YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark is not None else ""
        what = getattr(problem, "problem", None) or "it is no YAML"
        raise UsageError(f"its front matter cannot be read{where}: {str(what)[:200]}") from problem
    except (ValueError, RecursionError, OverflowError, TypeError, KeyError) as problem:
        raise UsageError(f"its front matter cannot be read: {type(problem).__name__}") from problem
    if not isinstance(found, dict):
        raise UsageError("its front matter is no list of `field: value` lines")
    return {str(name): _plain(value) for name, value in found.items()}


def _check(head: str) -> None:
    """Raises UsageError for what is no plain value, before anything is built of it."""
    from ruamel.yaml import YAML
    from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, NodeEvent, ScalarEvent

    depth = count = 0
    for event in YAML(typ="safe", pure=True).parse(head):
        where = f"line {event.start_mark.line + 2} of its front matter"
        if isinstance(event, AliasEvent) or (isinstance(event, NodeEvent) and event.anchor is not None):
            raise UsageError(f"{where} has an anchor or an alias: write the value itself")
        if getattr(event, "tag", None) is not None:
            raise UsageError(f"{where} has a tag: write a plain value")
        if isinstance(event, ScalarEvent) and event.style == '"' and "\\" in head[event.start_mark.index :
                                                                                 event.end_mark.index]:  # fmt: skip
            raise UsageError(f"{where} has an escape: write the character itself, between single quotes")
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        count += isinstance(event, NodeEvent)
        if depth > _DEEPEST or count > _MOST_VALUES:
            raise UsageError(f"{where} is nested too deeply, or has too many values")


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    return value

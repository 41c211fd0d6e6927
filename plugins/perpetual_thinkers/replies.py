"""From the text of a reply to a checked answer, or to the one line that says what is wrong with it.

The JSON is taken from the text as a whole, else from its first fenced block, else from its first balanced object. Keys
that the schema does not name are dropped. Numbers are finite and in their range: NaN and Infinity are no JSON here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from perpetual.toolkit.fence import neutralise

__all__ = ["BadReply", "answer_of"]

_BLOCK = re.compile(r"```[A-Za-z]{0,10}[ \t]*\r?\n(.*?)```", re.DOTALL)
_DEEPEST = 20  # levels of an answer; what goes deeper is no answer of any schema here
_MOST_TRIED = 20  # opening braces from which a balanced object is looked for
_LONGEST_PROBLEM = 300


class BadReply(Exception):
    """What is wrong with a reply, in one printable line."""

    def __init__(self, problem: str) -> None:
        super().__init__(neutralise(problem, _LONGEST_PROBLEM))


def answer_of(text: str, schema: Mapping[str, object]) -> dict[str, object]:
    """Returns the answer in a reply, with the keys of the schema alone.

    Raises:
        BadReply: if there is no JSON object in the text, or it is not what the schema says.
    """
    found = next((value for value in _values(text) if isinstance(value, dict)), None)
    if found is None:
        raise BadReply("there is no JSON object in the reply")
    answer = _pruned(found, schema)
    assert isinstance(answer, dict)
    _check(answer, schema)
    return answer


def _values(text: str) -> Iterator[object]:
    """Yields the JSON values of a text, by the three ways in which models write them."""
    yield from _read(text)
    block = _BLOCK.search(text)
    if block is not None:
        yield from _read(block[1])
    start = text.find("{")
    for _ in range(_MOST_TRIED):
        if start < 0:
            return
        end = _balanced(text, start)
        if end is not None:
            yield from _read(text[start:end])
        start = text.find("{", start + 1)


def _read(text: str) -> Iterator[object]:
    if _depth(text) > _DEEPEST:
        return
    try:
        yield json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number")


def _depth(text: str) -> int:
    """Returns how deep brackets go, those inside texts left out: code has any number of them."""
    depth = most = 0
    quoted = escaped = False
    for character in text:
        if quoted:
            escaped, quoted = character == "\\" and not escaped, character != '"' or escaped
        elif character == '"':
            quoted = True
        elif character in "[{":
            depth += 1
            most = max(most, depth)
        elif character in "]}":
            depth -= 1
    return most


def _balanced(text: str, start: int) -> int | None:
    """Returns the place after the brace that closes the one at `start`, texts in quotes left out."""
    depth, quoted, escaped = 0, False, False
    for place in range(start, len(text)):
        character = text[place]
        if quoted:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                quoted = False
        elif character == '"':
            quoted = True
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return place + 1
    return None


def _pruned(value: object, schema: Mapping[str, object]) -> object:
    """Returns the value without keys that the schema does not name, and without keys that are null and not required."""
    properties, items = schema.get("properties"), schema.get("items")
    if isinstance(value, dict) and isinstance(properties, Mapping):
        required = schema.get("required")
        needed = required if isinstance(required, list) else []
        return {
            name: _pruned(value[name], one)
            for name, one in properties.items()
            if name in value and (value[name] is not None or name in needed)
        }
    if isinstance(value, list) and isinstance(items, Mapping):
        return [_pruned(item, items) for item in value]
    return value


def _check(answer: object, schema: Mapping[str, object]) -> None:
    """Raises BadReply with what the schema says of the answer."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    found = best_match(Draft202012Validator(dict(schema)).iter_errors(answer))
    if found is not None:
        place = "/".join(map(str, found.absolute_path))
        raise BadReply(f"{place or 'the answer'}: {neutralise(found.message, 200)}")

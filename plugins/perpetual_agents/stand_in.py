"""The models `test:NAME`: stand-ins that answer by a rule, without any model, and say so. For tries and tests.

- `test:tools` calls each tool once, with arguments that its schema allows, and then says what came of them.
- Any other, such as `test:echo`, says what was said to it.

Where an answer in JSON is asked for, it is one that the schema allows. The same request has the same reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from perpetual_agents.messages import Call, size_of
from perpetual_agents.model import ModelReply

if TYPE_CHECKING:
    from perpetual_agents.messages import Message
    from perpetual_agents.model import ModelRequest, Say

__all__ = ["answer", "example"]

_CALLS = "test:tools"
_BYTES_PER_TOKEN = 4
_DEEPEST = 12


def answer(request: ModelRequest, say: Say | None = None) -> ModelReply:
    """Returns the reply of a stand-in; tokens are a quarter of the bytes, and it costs nothing."""
    since = _since_user(request.messages)
    results = [message for message in since if message["role"] == "tool"]
    calls: tuple[Call, ...] = ()
    if request.model == _CALLS and not results:
        turn = len(request.messages)
        calls = tuple({"id": f"t{turn}-{number}", "name": tool.name, "args": _arguments(tool.schema)}
                      for number, tool in enumerate(request.tools, 1))  # fmt: skip
    if calls:
        text = ""
    elif request.output is not None:
        text = json.dumps(example(request.output))
    elif results:
        text = "\n".join(f"{one.get('name', '')}: {one['text']}" for one in results)
    else:
        text = since[0]["text"] if since else ""
    if say is not None:
        for piece in re.findall(r"\S+\s*|\s+", text):
            say(piece)
    sent = sum(map(size_of, request.messages)) + len(request.system.encode()) // _BYTES_PER_TOKEN
    got = -(-len((text + json.dumps(calls)).encode()) // _BYTES_PER_TOKEN)
    return ModelReply(text, calls, sent, min(got, request.max_tokens), 0.0, request.model, None, mock=True)


def _since_user(messages: Sequence[Message]) -> list[Message]:
    place = max((place for place, one in enumerate(messages) if one["role"] == "user"), default=0)
    return [*messages[place:]]


def _arguments(schema: Mapping[str, object]) -> dict[str, object]:
    found = example(schema)
    return found if isinstance(found, dict) else {}


def example(schema: object, whole: Mapping[str, object] | None = None, depth: int = 0) -> object:
    """Returns a value that a JSON schema allows, by its commonest words; the same for the same schema."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return None
    whole = schema if whole is None else whole
    if "const" in schema:
        return schema["const"]
    for given in ("enum", "examples"):
        values = schema.get(given)
        if isinstance(values, list) and values:
            return values[0]
    if "default" in schema:
        return schema["default"]
    target = schema.get("$ref")
    if isinstance(target, str):
        return example(_followed(target, whole), whole, depth + 1)
    for either in ("anyOf", "oneOf", "allOf"):
        ways = schema.get(either)
        if isinstance(ways, list) and ways:
            return example(ways[0], whole, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        return _object(schema, whole, depth)
    if kind == "array":
        least = _number(schema.get("minItems"), 0)
        return [example(schema.get("items", {}), whole, depth + 1) for _ in range(min(int(least), 100))]
    if kind == "string":
        least = int(_number(schema.get("minLength"), 1))
        return "a" * min(max(1, least), 1000) if _number(schema.get("maxLength"), 1) else ""
    if kind in ("integer", "number"):
        least = _number(schema.get("minimum"), _number(schema.get("exclusiveMinimum"), -1) + 1)
        found = min(least, _number(schema.get("maximum"), least))
        return int(found) if kind == "integer" else found
    return False if kind == "boolean" else None


def _object(schema: Mapping[str, object], whole: Mapping[str, object], depth: int) -> dict[str, object]:
    fields, wanted = schema.get("properties"), schema.get("required")
    known = cast("Mapping[str, object]", fields) if isinstance(fields, Mapping) else {}
    names = [str(name) for name in wanted] if isinstance(wanted, list) else []
    return {name: example(known.get(name, {}), whole, depth + 1) for name in names}


def _followed(target: str, whole: Mapping[str, object]) -> object:
    found: object = whole
    for part in target.removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _number(value: object, otherwise: float) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else otherwise

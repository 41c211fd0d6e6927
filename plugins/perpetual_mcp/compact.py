"""Schemas in few words: every client sends the list of tools with each conversation. Used by `perpetual_mcp.tools`.

What is left out tells a model nothing: titles made of names, a default that is null, and null as a value that leaves an
argument out (it is accepted all the same). Of an answer its document is named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

__all__ = ["MORE", "answer_schema", "argument_schema"]

MORE = "more"
Schema = dict[str, object]
_KEPT = ("type", "enum", "const", "items", "additionalProperties", "properties", "required", "description", "anyOf",
         "default", "minimum", "maximum")  # fmt: skip
_SCALARS = {"type": ["string", "number", "boolean"]}  # what a list of any values holds; `{}` some clients refuse


def argument_schema(schema: Mapping[str, object], moved: Collection[str] = (), more: str = "") -> Schema:
    """Returns the schema of a tool's arguments.

    Args:
        moved: arguments that stand in no schema: they are given in the object `more`, or by their names all the same.
        more: the description of that object.
    """
    defs = cast("Mapping[str, Mapping[str, object]]", schema.get("$defs", {}))
    found = cast("Mapping[str, Mapping[str, object]]", schema.get("properties", {}))
    shown: Schema = {name: _short(item, defs) for name, item in found.items() if name not in moved}
    if moved:
        shown[MORE] = {"description": more, "type": "object"}
    short: Schema = {"type": "object", "properties": shown}
    if required := schema.get("required"):
        short["required"] = required
    return short


def _short(schema: Mapping[str, object], defs: Mapping[str, Mapping[str, object]]) -> Schema:
    """Returns one value's schema."""
    if "$ref" in schema:
        schema = {**defs[str(schema["$ref"]).rpartition("/")[2]], **{k: v for k, v in schema.items() if k != "$ref"}}
    found: Schema = {name: value for name, value in schema.items() if name in _KEPT}
    parts = cast("Sequence[Mapping[str, object]]", found.pop("anyOf", ()))
    kinds = [_short(part, defs) for part in parts if part.get("type") != "null"]
    if len(kinds) == 1:
        found = {**kinds[0], **found}
    elif kinds and all(part.keys() == {"type"} for part in kinds):
        found["type"] = [part["type"] for part in kinds]
    elif kinds:
        found["anyOf"] = kinds
    if "enum" in found:
        found.pop("type", None)
    if found.get("default", "") in (None, "", False):
        found.pop("default", None)
    if "items" in found:
        found["items"] = _short(cast("Mapping[str, object]", found["items"]), defs) or _SCALARS
    if "additionalProperties" in found:
        del found["additionalProperties"]  # an object of any keys, as an object is
    return found


def answer_schema(schema: Mapping[str, object]) -> Schema:
    """Returns the schema of a tool's answer: an object, with the name of its document where it has one.

    No client hands more of it to its model; the page on MCP lists the keys of every answer.
    """
    found = cast("Mapping[str, Mapping[str, object]]", schema.get("properties", {}))
    named = {name: {"const": item["const"]} for name, item in found.items() if "const" in item}
    return {"type": "object", "properties": named} if named else {"type": "object"}

"""Writes `plugins/perpetual_cli/schemas/NAME.json`, the JSON schema of each document that a command answers.

Derived from the records and from `perpetual_cli.documents`; run after changing one of them (`make schemas`). With
`--check` nothing is written, and the exit status is 1 if a file is not what would be written now.
"""

from __future__ import annotations

import json
import sys
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from perpetual import records
from perpetual_cli.documents import DOCUMENTS, DRY_RUN, FOREIGN

FOLDER = Path(__file__).resolve().parent.parent / "plugins" / "perpetual_cli" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_RECORDS = {name for name in records.__all__ if is_dataclass(getattr(records, name))}


def schema_of(name: str, document: Any, *, ours: bool = True) -> dict[str, Any]:
    """Returns the schema of one document; `ours` requires the key `schema` with the document's name and version."""
    title = f"perpetual.{name}/1"
    properties: dict[str, Any] = {"schema": {"const": title}} if ours else {}
    shared: dict[str, Any] = {}
    required, description = [*properties], ""
    for part in document if isinstance(document, tuple) else (document,):
        derived = _tidy(TypeAdapter(part).json_schema(mode="serialization"))
        properties |= derived["properties"]
        required += derived.get("required", [])
        shared |= derived.get("$defs", {})
        description = derived.get("description", "")
    if name in DRY_RUN:
        planned = shared["Experiment"]["properties"] if "Experiment" in shared else properties
        planned["id"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    return {
        "$schema": DIALECT,
        "$id": f"urn:perpetual:{name}:1",
        "title": title if ours else name,
        "description": description,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": True,
        "$defs": shared,
    }


def _tidy(node: Any, *, is_schema: bool = True) -> Any:
    """Returns the schema without titles and defaults; a record's keys are always there, default or not."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    if not is_schema:  # a mapping of names to schemas
        return {name: _tidy(item) for name, item in node.items()}
    tidy = {
        key: _tidy(value, is_schema=key not in ("properties", "$defs"))
        for key, value in node.items()
        if key not in ("title", "default")
    }
    if node.get("title") in _RECORDS and "properties" in node:
        tidy["required"] = list(node["properties"])
    return tidy


def render() -> dict[str, str]:
    """Returns every file's name and text."""
    schemas = {name: schema_of(name, document) for name, document in DOCUMENTS.items()}
    schemas |= {name: schema_of(name, document, ours=False) for name, document in FOREIGN.items()}
    return {f"{name}.json": json.dumps(schema, indent=2) + "\n" for name, schema in sorted(schemas.items())}


def stale() -> list[str]:
    """Returns the names of files that are missing, out of date, or of no document any more."""
    wanted = render()
    found = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.json")}
    return sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))


def main(arguments: list[str]) -> int:
    """Writes what is stale, or with `--check` names it."""
    names = stale()
    if "--check" in arguments:
        for name in names:
            print(f"stale: {FOLDER / name} (run tools/make_schemas.py)", file=sys.stderr)
        return 1 if names else 0
    FOLDER.mkdir(exist_ok=True)
    wanted = render()
    for name in names:
        path = FOLDER / name
        if name in wanted:
            path.write_text(wanted[name], "utf-8")
        else:
            path.unlink()
        print(f"{'wrote' if name in wanted else 'removed'} {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

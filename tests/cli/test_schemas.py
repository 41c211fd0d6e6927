"""The shipped JSON schemas are what the tool would write now, and each one refuses what is no such document."""

from __future__ import annotations

import importlib.util
import json
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

TOOL = Path(__file__).parents[2] / "tools" / "make_schemas.py"


def _tool() -> ModuleType:
    """`tools/make_schemas.py`, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("make_schemas", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL_MODULE = _tool()
DOCUMENTS, FOREIGN = TOOL_MODULE.DOCUMENTS, TOOL_MODULE.FOREIGN


@pytest.fixture
def tool() -> ModuleType:
    """The tool as a module."""
    return TOOL_MODULE


def schema(name: str) -> dict[str, Any]:
    """A shipped schema, read as an installed package's file."""
    found: dict[str, Any] = json.loads((files("perpetual_cli") / "schemas" / f"{name}.json").read_text("utf-8"))
    return found


def accepts(shape: dict[str, Any], document: object) -> bool:
    """Whether the document is of this shape."""
    return bool(jsonschema.Draft202012Validator(shape).is_valid(document))


def test_the_files_are_what_the_tool_would_write_now(tool: ModuleType) -> None:
    assert tool.stale() == [], "run tools/make_schemas.py"


@pytest.mark.slow
def test_the_tool_notices_and_mends_a_stale_folder(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "FOLDER", tmp_path / "schemas")
    assert tool.main(["--check"]) == 1
    assert not (tmp_path / "schemas").exists()
    assert tool.main([]) == 0
    assert tool.main(["--check"]) == 0
    (tmp_path / "schemas" / "gone.json").write_text("{}", "utf-8")
    (tmp_path / "schemas" / "run.json").write_text("{}", "utf-8")
    assert tool.stale() == ["gone.json", "run.json"]
    assert tool.main([]) == 0
    assert tool.stale() == []


@pytest.mark.parametrize("name", sorted({*DOCUMENTS, *FOREIGN}))
def test_each_file_is_a_schema_that_is_open_and_says_what_it_is(name: str) -> None:
    shape = schema(name)
    jsonschema.Draft202012Validator.check_schema(shape)
    assert shape["description"]
    assert shape["additionalProperties"] is True
    assert not accepts(shape, {})
    if name in DOCUMENTS:
        assert shape["properties"]["schema"] == {"const": f"perpetual.{name}/1"}
        assert "schema" in shape["required"]


def test_a_documents_name_its_keys_and_their_types_are_checked() -> None:
    event = {"schema": "perpetual.event/1", "seq": 1, "time": "2026-01-01T00:00:00.000Z", "actor": "user:ann",
             "kind": "note_written", "subject": "a.md", "payload": {}}  # fmt: skip
    shape = schema("event")
    assert accepts(shape, event)
    assert accepts(shape, {**event, "later": "added"})
    assert not accepts(shape, {**event, "schema": "perpetual.event/2"})
    assert not accepts(shape, {**event, "seq": "1"})
    assert not accepts(shape, {key: value for key, value in event.items() if key != "actor"})
    page = {"schema": "perpetual.events/1", "items": [{**event, "seq": None}], "next_cursor": None}
    assert not accepts(schema("events"), page)


def test_keys_that_a_record_always_has_are_required_even_where_its_class_has_a_default() -> None:
    assert {"prediction", "flags", "params"} <= set(schema("hypothesis")["required"])
    design = schema("experiment")["$defs"]["Design"]
    assert set(design["required"]) == set(design["properties"])


def test_an_id_is_missing_only_where_nothing_was_proposed() -> None:
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert schema("experiment")["properties"]["id"] == nullable
    assert schema("experiments")["$defs"]["Experiment"]["properties"]["id"] == nullable
    assert schema("hypothesis")["properties"]["id"] == {"type": "string"}


def test_the_folder_ships_nothing_else() -> None:
    shipped = {item.name for item in (files("perpetual_cli") / "schemas").iterdir()}
    assert shipped == {f"{name}.json" for name in (*DOCUMENTS, *FOREIGN)}

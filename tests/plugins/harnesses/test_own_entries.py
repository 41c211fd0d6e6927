"""An entry `perpetual` that a person wrote is left alone with a reason; one that Perpetual wrote is kept up to date."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from perpetual.api import ScaffoldAnswer
from perpetual.config import Config
from perpetual.lab.scaffolding import examine, scaffold
from perpetual.registry import Registry
from tests.plugins.harnesses.helpers import actions, folder

_SHARED = Registry()
OURS = {"type": "stdio", "command": "perpetual", "args": ["mcp"], "alwaysLoad": True}
# What people write: another program, a variable, an argument, another value, another kind, a wrong type.
PERSONS: list[Any] = [
    {"command": "uvx", "args": ["--from", "perpetual-lab", "perpetual", "mcp"], "env": {"A": "1"}},
    {**OURS, "env": {"A": "1"}},
    {**OURS, "args": ["--project", "/elsewhere", "mcp"]},
    {**OURS, "args": ["mcp", "--http", "127.0.0.1:1"]},
    {**OURS, "alwaysLoad": False},
    {**OURS, "command": "/opt/not-perpetual"},
    {**OURS, "command": ["perpetual"], "args": "mcp"},
    {"type": "http", "url": "http://127.0.0.1:1/mcp"},
    {},
    "mine",
]
REASON = "mcpServers.perpetual is a person's own entry; --force replaces it"


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durability is tested elsewhere; here it would be nearly all of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def config() -> Iterator[Config]:
    with folder() as made:
        yield made


def reason(answer: ScaffoldAnswer, path: str) -> str | None:
    return next(item["reason"] for item in answer["files"] if item["path"] == path)


@pytest.mark.parametrize("entry", PERSONS, ids=lambda entry: json.dumps(entry)[:40])
def test_a_persons_entry_is_left_alone_and_comes_back_after_force(config: Config, entry: Any) -> None:
    path = config.root / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"perpetual": entry, "z": {}}}))
    before = path.read_bytes()
    for dry_run in (True, False):
        answer = scaffold(config, _SHARED, ["mcp"], dry_run=dry_run)
        assert (actions(answer)[".mcp.json"], reason(answer, ".mcp.json")) == ("unchanged", REASON)
    scaffold(config, _SHARED, remove=["mcp"])
    assert path.read_bytes() == before
    assert actions(scaffold(config, _SHARED, ["mcp"], force=True))[".mcp.json"] == "merged"
    assert json.loads(path.read_text())["mcpServers"] == {"perpetual": OURS, "z": {}}
    assert actions(scaffold(config, _SHARED, ["mcp"]))[".mcp.json"] == "unchanged"
    scaffold(config, _SHARED, remove=["mcp"])
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "perpetual", "args": ["mcp"]},
        {**OURS, "command": "/home/a b/venv/bin/perpetual"},
        {**OURS, "command": "/usr/bin/python3.12", "args": ["-m", "perpetual", "mcp"]},
    ],
    ids=["earlier", "path", "module"],
)
def test_an_entry_that_perpetual_wrote_is_brought_up_to_date_in_a_clone(config: Config, entry: Any) -> None:
    path = config.root / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"perpetual": entry}}))
    assert actions(scaffold(config, _SHARED, ["mcp"]))[".mcp.json"] == "merged"
    assert json.loads(path.read_text())["mcpServers"]["perpetual"] == OURS


def test_an_entry_of_another_command_is_ours_by_the_record(config: Config) -> None:
    path = config.root / ".mcp.json"
    scaffold(config, _SHARED, ["mcp"], command=["uvx", "--from", "perpetual-lab", "perpetual"])
    assert json.loads(path.read_text())["mcpServers"]["perpetual"]["command"] == "uvx"
    scaffold(config, _SHARED, ["mcp"], command=["perpetual"])
    assert json.loads(path.read_text())["mcpServers"]["perpetual"] == OURS


def test_an_entry_edited_since_is_left_alone_and_stays_after_removal(config: Config) -> None:
    path = config.root / ".mcp.json"
    scaffold(config, _SHARED, ["mcp"])
    edited = {"mcpServers": {"perpetual": {**OURS, "env": {"A": "1"}}}}
    path.write_text(json.dumps(edited))
    assert reason(scaffold(config, _SHARED, ["mcp"]), ".mcp.json") == REASON
    answer = scaffold(config, _SHARED, remove=["mcp"])
    assert (actions(answer)[".mcp.json"], reason(answer, ".mcp.json")) == ("unchanged", REASON)
    assert json.loads(path.read_text()) == edited


def test_what_else_the_file_needs_is_merged_beside_a_persons_entry(config: Config) -> None:
    path = config.root / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text('{\n  // mine\n  "mcpServers": {"perpetual": {"command": "uvx"}}\n}\n')
    before = path.read_bytes()
    answer = scaffold(config, _SHARED, ["gemini"])
    assert (actions(answer)[".gemini/settings.json"], reason(answer, ".gemini/settings.json")) == ("merged", REASON)
    assert '"perpetual": {"command": "uvx"}' in path.read_text()
    assert '"AGENTS.md"' in path.read_text()
    assert set(actions(scaffold(config, _SHARED, ["gemini"])).values()) == {"unchanged"}
    scaffold(config, _SHARED, remove=["gemini"])
    assert path.read_bytes() == before


def test_a_table_of_codex_is_left_alone_too(config: Config) -> None:
    path = config.root / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text('[mcp_servers.perpetual]\ncommand = "uvx"\nargs = ["perpetual", "mcp"] # mine\n')
    before = path.read_bytes()
    answer = scaffold(config, _SHARED, ["codex"])
    assert "mcp_servers.perpetual is a person's own entry" in str(reason(answer, ".codex/config.toml"))
    assert path.read_bytes() == before
    scaffold(config, _SHARED, ["codex"], force=True)
    assert tomllib.loads(path.read_text())["mcp_servers"]["perpetual"]["command"] == "perpetual"
    scaffold(config, _SHARED, remove=["codex"])
    assert path.read_bytes() == before


def test_the_doctor_names_it(config: Config) -> None:
    (config.root / ".mcp.json").write_text(json.dumps({"mcpServers": {"perpetual": {"command": "uvx"}}}))
    scaffold(config, _SHARED, ["mcp"])
    (found,) = [one for one in examine(config, _SHARED) if one["check"] == "harness mcp"]
    assert found["ok"] is not False
    assert REASON in found["detail"]

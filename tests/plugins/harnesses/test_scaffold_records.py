"""A scaffold record that came with a project writes, restores and removes nothing, and starts no command of its own."""

from __future__ import annotations

import base64
import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import CorruptData
from perpetual_harnesses import scaffold_record
from perpetual_harnesses.scaffold_record import is_inside, read


@pytest.fixture
def lab(tmp_path: Path) -> Any:
    with Lab.init(tmp_path / "project", name="p") as made:
        yield made


def _record(lab: Lab, path: str, content: bytes, *, written: bytes, folders: tuple[str, ...] = ()) -> dict[str, Any]:
    plan: dict[str, Any] = {"path": path, "how": "own", "text": "x", "keys": [], "value": None}
    plan |= {"comments": False, "instead": [], "existing_only": False}
    entry = {"existed": True, "original": base64.b64encode(content).decode(), "written": sha256(written).hexdigest(),
             "folders": [*folders], "plans": [["mcp", plan]]}  # fmt: skip
    return {"format": 1, "command": ["sh", "-c", "touch started"], "harnesses": ["mcp"], "files": {path: entry}}


def _bring(lab: Lab, document: dict[str, Any]) -> None:
    (lab.root / ".perpetual" / "scaffold.json").write_text(json.dumps(document))


@pytest.mark.parametrize("path", [".git/config", ".GIT/config", "README.md", "src/x.py"])
def test_a_record_that_was_brought_restores_nothing(lab: Lab, path: str) -> None:
    (lab.root / path).parent.mkdir(exist_ok=True)
    (lab.root / path).write_bytes(b"as cloned")
    _bring(lab, _record(lab, path, b"[core]\nfsmonitor = ./evil", written=b"as cloned"))
    lab.scaffold(remove=["mcp"])
    assert (lab.root / path).read_bytes() == b"as cloned"


def test_a_record_that_was_brought_removes_no_folder(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    _bring(lab, _record(lab, "a.md", b"", written=b"", folders=("../empty", str(tmp_path / "empty"))))
    lab.scaffold(remove=["mcp"])
    assert (tmp_path / "empty").is_dir()


def test_the_command_of_a_record_that_was_brought_is_ignored(lab: Lab) -> None:
    _bring(lab, _record(lab, "a.md", b"", written=b""))
    answer = lab.scaffold(["mcp"])
    assert answer["command"] == ["perpetual"]
    assert "touch started" not in (lab.root / ".mcp.json").read_text()


def test_a_record_of_ours_counts_until_a_byte_changes(lab: Lab) -> None:
    (lab.root / ".mcp.json").write_text('{ "mcpServers": {} }\n')
    lab.scaffold(["mcp"], command=["/opt/perpetual"])
    assert lab.scaffold(["mcp"])["command"] == ["/opt/perpetual"]
    path = lab.root / ".perpetual" / "scaffold.json"
    path.write_text(path.read_text().replace("/opt/perpetual", "/opt/evil"))
    assert lab.scaffold(["mcp"])["command"] == ["/opt/perpetual"]  # accepted here before
    assert "/opt/evil" not in (lab.root / ".mcp.json").read_text()


def test_a_record_of_ours_gives_the_bytes_back(lab: Lab) -> None:
    (lab.root / ".mcp.json").write_text('{ "mcpServers": {} }\n')
    lab.scaffold(["mcp"])
    lab.scaffold(remove=["mcp"])
    assert (lab.root / ".mcp.json").read_text() == '{ "mcpServers": {} }\n'


def test_a_place_outside_of_the_law_is_refused_by_name(lab: Lab) -> None:
    entry = scaffold_record.Entry(existed=False, original=None, written=None, folders=(), plans=())
    scaffold_record.write(lab.config.folder, scaffold_record.Record((), ("mcp",), {"../x": entry}))
    with pytest.raises(CorruptData, match=r"\.\./x"):
        read(lab.config.folder)


@pytest.mark.parametrize(
    "path",
    ["", "/etc/x", "../x", "a/../../x", ".git/config", "sub/.git/hooks/x", ".GIT/x", "GIT~1/x",
     ".perpetual/config.yaml",
     "~/x", "a\\b", "c:x", "a\0b", ".git /x"],
)  # fmt: skip
def test_places_that_no_file_of_an_agent_has(path: str) -> None:
    assert not is_inside(path)


@pytest.mark.parametrize("path", [".mcp.json", "AGENTS.md", ".claude/settings.json", ".gitignore", "a/.github/x"])
def test_places_of_files_of_agents(path: str) -> None:
    assert is_inside(path)


def test_a_link_into_the_repository_is_not_followed(lab: Lab) -> None:
    (lab.root / ".git").mkdir()
    os.symlink(".git/config", lab.root / ".mcp.json")
    (lab.root / ".git" / "config").write_text("{}")
    (step,) = [one for one in lab.scaffold(["mcp"])["files"] if one["path"] == ".mcp.json"]
    assert step["action"] == "conflict"
    assert (lab.root / ".git" / "config").read_text() == "{}"

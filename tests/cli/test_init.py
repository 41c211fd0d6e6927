"""The command init: what it creates, what a second run leaves, what it refuses, and what it answers."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run

DEEDS = ("auto", "stop", "report", "catchup")
OPENCODE = (
    "opencode.json",
    "AGENTS.md",
    ".opencode/agents/perpetual.md",
    ".opencode/plugins/perpetual.ts",
    *(f".opencode/commands/{name}.md" for name in DEEDS),
)
KEYS = {"schema", "project", "path", "files", "trust", "budget", "notes", "snippets"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    made = tmp_path / "research"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def init(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `init --json` and answers exit status and document."""

    def call(*arguments: str) -> tuple[int, dict[str, Any]]:
        status = run(["init", "--json", *arguments])
        return status, json.loads(capsys.readouterr().out)

    return call


def _snapshot(root: Path) -> dict[str, bytes]:
    """Every file with its bytes; the lock files hold nothing."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def _actions(document: dict[str, Any]) -> dict[str, str]:
    return {item["path"]: item["action"] for item in document["files"]}


def test_a_slip_at_the_prompt_is_asked_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("codexx\nnone, mcp\nnone\n"))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(["init"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("coding agent (") == 3
    assert "Error: unknown harness 'codexx'" in shown
    assert "none writes no files" in shown
    assert [path.name for path in folder.iterdir()] == [".perpetual"]
    monkeypatch.setattr(sys, "stdin", Terminal("codexx\n"))
    assert run(["init", "-t", "other"]) == 130  # the input has ended
    assert not (folder / "other").exists()


def test_init_creates_a_project_and_registers_it(folder: Path, init: Any) -> None:
    status, document = init("--command", sys.executable)
    assert status == 0
    assert set(document) == KEYS
    assert document["schema"] == "perpetual.init/1"
    assert (document["project"], document["path"]) == ("research", str(folder))
    assert document["budget"] == {"limit_gpu_hours": None}
    assert document["notes"] == []
    assert all(set(item) == {"path", "action", "reason"} for item in document["files"])
    assert _actions(document) == dict.fromkeys(OPENCODE, "created")
    assert any("perpetual approve" in step for step in document["trust"])
    with Lab.open(folder) as lab:
        assert lab.config["project"] == "research"


def test_a_second_run_changes_nothing(folder: Path, init: Any) -> None:
    command = ["-p", "night runs", "-H", "claude-code", "-H", "mcp", "--budget", "90m", "--store", "tinydb"]
    _, first = init(*command)
    assert first["budget"] == {"limit_gpu_hours": 1.5}
    before = _snapshot(folder)
    for arguments in (command, []):
        status, again = init(*arguments)
        assert status == 0
        assert set(_actions(again).values()) == {"unchanged"}
        assert (again["project"], again["budget"]) == ("night runs", {"limit_gpu_hours": 1.5})
    assert _snapshot(folder) == before


def test_init_names_what_an_existing_project_keeps(folder: Path, init: Any) -> None:
    init("-p", "one", "--budget", "5")
    status, document = init("-p", "two", "--budget", "7")
    assert status == 0
    assert (document["project"], document["budget"]) == ("one", {"limit_gpu_hours": 5.0})
    assert [note for note in document["notes"] if "keeps its name one" in note]
    assert [note for note in document["notes"] if "keeps its budget 5.0" in note]


def test_dry_run_creates_nothing_and_answers_the_same(folder: Path, init: Any) -> None:
    (folder / "AGENTS.md").write_text("# Agents\n")
    status, planned = init("-H", "claude-code", "--budget", "3", "--dry-run")
    assert status == 0
    assert planned["dry_run"] is True
    assert _snapshot(folder) == {"AGENTS.md": b"# Agents\n"}
    assert os.listdir(folder) == ["AGENTS.md"]
    _, done = init("-H", "claude-code", "--budget", "3")
    assert _actions(planned) == _actions(done)
    assert (planned["project"], planned["budget"]) == (done["project"], done["budget"])
    before = _snapshot(folder)
    status, planned = init("-H", "mcp", "--dry-run")
    assert _actions(planned)[".agents/skills/perpetual/SKILL.md"] == "created"
    assert _snapshot(folder) == before


def test_dry_run_in_a_folder_that_does_not_exist(folder: Path, init: Any) -> None:
    status, document = init("-t", "new/place", "--dry-run")
    assert status == 0
    assert (document["project"], document["path"]) == ("place", str(folder / "new/place"))
    assert os.listdir(folder) == []


def test_harnesses_are_recognised_by_their_files(folder: Path, init: Any) -> None:
    (folder / "CLAUDE.md").write_text("# C\n")
    _, document = init()
    assert _actions(document)[".claude/settings.json"] == "created"
    assert _actions(document)["CLAUDE.md"] == "merged"
    assert ".agents/skills/perpetual/SKILL.md" not in _actions(document)


def test_remove_gives_the_folder_back(folder: Path, init: Any) -> None:
    (folder / ".mcp.json").write_bytes(b'{"mcpServers":{"x":{"command":"y"}}}')
    init("-H", "claude-code")
    status, document = init("--remove", "claude-code")
    assert status == 0
    assert set(_actions(document).values()) == {"removed"}
    assert document["trust"] == []
    assert sorted(os.listdir(folder)) == [".mcp.json", ".perpetual"]
    assert (folder / ".mcp.json").read_bytes() == b'{"mcpServers":{"x":{"command":"y"}}}'


def test_remove_outside_of_a_project_creates_none(folder: Path, init: Any) -> None:
    status, document = init("--remove", "mcp")
    assert (status, document["error"]["code"]) == (5, "no_project")
    assert os.listdir(folder) == []


def test_a_file_that_cannot_be_merged_is_exit_6_after_all_else(folder: Path, init: Any) -> None:
    (folder / "opencode.json").write_text('{\n  "mcp": oops\n}\n')
    status, document = init()
    assert status == 6
    assert document["schema"] == "perpetual.init/1"
    assert document["error"]["code"] == "conflict"
    assert "opencode.json:2: " in document["error"]["message"]
    assert _actions(document) == {path: "conflict" if path == "opencode.json" else "created" for path in OPENCODE}
    assert (folder / "opencode.json").read_text() == '{\n  "mcp": oops\n}\n'
    (folder / "opencode.json").write_text("{}\n")
    assert init()[0] == 0


def test_all_of_them_at_once(folder: Path, init: Any) -> None:
    status, document = init("-H", "all")
    assert status == 0
    assert {".mcp.json", "opencode.json", ".codex/config.toml", ".cursor/mcp.json"} <= set(_actions(document))
    assert len(document["trust"]) == len(set(document["trust"]))
    before = _snapshot(folder)
    assert set(_actions(init()[1]).values()) == {"unchanged"}
    assert _snapshot(folder) == before
    assert init("--remove", "all")[0] == 0
    assert os.listdir(folder) == [".perpetual"]


def test_people_read_files_budget_and_what_they_must_do(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".mcp.json").write_text("oops")
    assert run(["init", "-H", "claude-code"]) == 6
    told = capsys.readouterr()
    assert "created    .claude/settings.json" in told.out
    assert "conflict   .mcp.json" in told.out
    assert "unlimited GPU-hours" in told.out
    assert "Start `claude` once in this folder" in told.out
    assert told.err.startswith("error: .mcp.json:1: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-H", "claud-code"], "did you mean claude-code"),
        (["--remove", "mpc"], "did you mean mcp"),
        (["-H", "mcp", "--remove", "mcp"], "added and removed at once"),
        (["--budget", "-1"], "--budget"),
        (["--budget", "nan"], "--budget"),
        (["--budget", "much"], "--budget"),
        (["-p", "two\nlines"], "one line"),
        (["-p", " "], "one line"),
        (["--command", ""], "--command"),
        (["--command", "'open"], "--command"),
        (["-t", "a file"], "is a file"),
        (["-t", "a file/inner"], "is a file"),
    ],
)
def test_a_bad_value_is_exit_2(folder: Path, init: Any, arguments: list[str], message: str) -> None:
    (folder / "a file").write_text("x")
    if "--remove" in arguments:
        init()
    before = _snapshot(folder)
    status, document = init(*arguments)
    assert (status, document["error"]["code"]) == (2, "usage")
    assert message in document["error"]["message"]
    assert _snapshot(folder) == before


def test_an_unknown_store_creates_nothing(folder: Path, init: Any) -> None:
    for extra in ([], ["--dry-run"]):
        status, document = init("--store", "tinydbb", *extra)
        assert (status, document["error"]["code"]) == (2, "plugin_missing")
        assert os.listdir(folder) == []


def test_inside_a_project_the_folder_must_be_named(folder: Path, init: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    init()
    inner = folder / "src" / "deep"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    status, document = init()
    assert (status, document["error"]["code"]) == (6, "conflict")
    assert str(folder) in document["error"]["message"]
    assert f"init -t {folder}" in document["error"]["hint"]
    assert os.listdir(inner) == []
    assert init("-t", str(folder))[1]["path"] == str(folder)
    assert init("-t", ".")[1]["path"] == str(inner)


def test_a_hint_that_is_pasted_runs_nothing_of_a_folder_s_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    below = tmp_path / "a $(touch pasted)" / "below"
    below.mkdir(parents=True)
    assert run(["init", "-t", str(below.parent), "-H", "none"]) == 0
    monkeypatch.chdir(below)
    capsys.readouterr()
    assert run(["init", "-H", "none"]) == 6
    assert f"perpetual init -t '{below.parent}' for that one" in capsys.readouterr().err


def test_another_tool_s_folder_is_left_alone(folder: Path, init: Any) -> None:
    (folder / ".perpetual").mkdir()
    (folder / ".perpetual/graph.db").write_bytes(b"theirs")
    for extra in ([], ["--dry-run"]):
        status, document = init(*extra)
        assert (status, document["error"]["code"]) == (6, "foreign_project")
    assert _snapshot(folder) == {".perpetual/graph.db": b"theirs"}


def test_a_folder_in_which_nothing_can_be_written_is_said_by_name(
    folder: Path, init: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, data: str, **_: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("perpetual.lab.create.write_atomic", refuse)  # what the disk does to a user without the right
    status, document = init()
    assert (status, document["error"]["code"]) == (1, "failed")
    assert f"no project can be created in {folder}" in document["error"]["message"]
    assert "Permission denied" in document["error"]["message"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no folder here that even root cannot write")
def test_a_folder_that_cannot_be_written_is_said_by_name(init: Any) -> None:
    status, document = init("-t", "/proc/self/nothing-can-be-made-here")
    assert (status, document["error"]["code"]) == (1, "failed")
    assert "/proc/self/nothing-can-be-made-here" in document["error"]["message"]


def test_a_program_that_is_not_found_is_noted(
    folder: Path, init: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no program perpetual on the PATH" in " ".join(init()[1]["notes"])
    program = tmp_path / "my tools" / "perpetual"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert init("--command", str(program))[1]["notes"] == []
    entry = json.loads((folder / "opencode.json").read_text())["mcp"]["perpetual"]
    assert entry["command"] == [str(program), "mcp"]
    assert set(_actions(init()[1]).values()) == {"unchanged"}  # the command is remembered


@pytest.mark.slow
def test_the_files_that_init_wrote_start_the_server(folder: Path, init: Any) -> None:
    init("-H", "mcp", "--command", f"{sys.executable} -m perpetual")
    entry = json.loads((folder / ".mcp.json").read_text())["mcpServers"]["perpetual"]
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    opening = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client})
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        cwd=folder,
        input=opening + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "perpetual"


def test_none_writes_no_file_for_agents(tmp_path: Path) -> None:
    assert run(["init", "-t", str(tmp_path / "alone"), "-H", "none"]) == 0
    assert [path.name for path in (tmp_path / "alone").iterdir()] == [".perpetual"]
    assert run(["init", "-t", str(tmp_path / "both"), "-H", "none", "-H", "mcp"]) == 2

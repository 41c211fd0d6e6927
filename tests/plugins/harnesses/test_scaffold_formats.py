"""Scaffolds in the files of OpenCode, Codex and Cursor: JSON with comments, TOML, and which of two files is taken."""

from __future__ import annotations

import importlib.util
import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perpetual.config import Config
from perpetual.lab.scaffolding import scaffold
from perpetual.registry import Registry
from perpetual_harnesses import jsonedit
from tests.plugins.harnesses.helpers import actions as _actions
from tests.plugins.harnesses.helpers import folder as _folder
from tests.plugins.harnesses.helpers import snapshot as _snapshot

_SHARED = Registry()
ENTRY = {"type": "local", "command": ["perpetual", "mcp"], "enabled": True, "timeout": 30000,
         "environment": {"PERPETUAL_MCP_STATE": "0"}}  # fmt: skip
DEEDS = ("auto", "stop", "report", "catchup")


def _beside(name: str) -> ModuleType:
    """A test file beside this one, for its strategies."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_JSONC = _beside("test_jsonc")
_TOML = _beside("test_tomledit")


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durability is tested elsewhere; here it would be nearly all of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def config() -> Iterator[Config]:
    with _folder() as made:
        yield made


# --- properties -----------------------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(parts=_JSONC.TEXTS, name=st.sampled_from(["opencode.json", "opencode.jsonc"]))
def test_opencode_json_with_comments_survives_and_comes_back(parts: tuple[str, str, str], name: str) -> None:
    text = "".join(parts)
    before = jsonedit.load(text, comments=True)
    assert isinstance(before, dict)
    with _folder() as config:
        path = config.root / name
        path.write_bytes(text.encode())
        answer = scaffold(config, _SHARED, ["opencode"])
        if not isinstance(before.get("mcp", {}), dict):
            assert _actions(answer)[name] == "conflict"
            assert path.read_bytes() == text.encode()
            return
        merged = path.read_bytes().decode()
        wanted = {**before, "mcp": {**before.get("mcp", {}), "perpetual": ENTRY}}
        assert jsonedit.same(jsonedit.load(merged, comments=True), wanted)
        assert _JSONC.comments_of(merged) == _JSONC.comments_of(text)
        assert set(_actions(scaffold(config, _SHARED, ["opencode"])).values()) == {"unchanged"}
        assert path.read_bytes().decode() == merged
        scaffold(config, _SHARED, remove=["opencode"])
        assert _snapshot(config.root) == {name: text.encode()}


@settings(max_examples=12, deadline=None)
@given(text=_TOML.texts(), edited=st.booleans())
def test_codex_configuration_survives_and_comes_back(text: str, edited: bool) -> None:
    before = tomllib.loads(text)
    with _folder() as config:
        path = config.root / ".codex/config.toml"
        path.parent.mkdir()
        path.write_bytes(text.encode())
        scaffold(config, _SHARED, ["codex"])
        found = tomllib.loads(path.read_bytes().decode())
        assert found["mcp_servers"].pop("perpetual")["args"] == ["mcp"]
        assert found == {**before, "mcp_servers": before.get("mcp_servers", {})}
        assert set(_actions(scaffold(config, _SHARED, ["codex"])).values()) == {"unchanged"}
        if edited:
            path.write_bytes(path.read_bytes() + b"# mine\n[mine]\nx = 1\n")
        scaffold(config, _SHARED, remove=["codex"])
        if edited:
            left = path.read_bytes().decode()
            assert tomllib.loads(left) == {**before, "mine": {"x": 1}}
            assert "# mine\n" in left
        else:
            assert _snapshot(config.root) == {".codex": None, ".codex/config.toml": text.encode()}


@settings(max_examples=15, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40), behind=st.sampled_from(["", "\nmine\n"]))
@example(text="\r", behind="\nmine\n")  # with the line feed behind it, it looks like another kind of file
@example(text="a\r\nb\n", behind="\nmine\n")
def test_any_text_survives_and_comes_back(text: str, behind: str) -> None:
    with _folder() as config:
        path = config.root / "AGENTS.md"
        path.write_bytes(text.encode())
        scaffold(config, _SHARED, ["mcp"])
        assert path.read_bytes().startswith(text.encode())
        assert b"## Research in this project" in path.read_bytes()
        assert set(_actions(scaffold(config, _SHARED, ["mcp"])).values()) == {"unchanged"}
        path.write_bytes(path.read_bytes() + behind.encode())
        scaffold(config, _SHARED, remove=["mcp"])
        if not behind:
            assert path.read_bytes() == text.encode()
        else:  # edited since: an end of line that was missing stays
            assert path.read_bytes().decode() in [text + end + behind for end in ("", "\n", "\r\n")]


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_fresh_folder_gets_all_of_opencode(config: Config) -> None:
    answer = scaffold(config, _SHARED)  # the default
    assert answer["harnesses"] == ["opencode"]
    assert set(_actions(answer)) == {
        "opencode.json",
        ".opencode/agents/perpetual.md",
        ".opencode/plugins/perpetual.ts",
        *(f".opencode/commands/{name}.md" for name in DEEDS),
        "AGENTS.md",
    }
    assert json.loads((config.root / "opencode.json").read_text()) == {
        "$schema": "https://opencode.ai/config.json",  # without it OpenCode adds it, which would be an edit
        "mcp": {"perpetual": ENTRY},
    }
    scaffold(config, _SHARED, remove=["opencode"])
    assert _snapshot(config.root) == {}


def test_a_reformatted_file_of_ours_is_removed(config: Config) -> None:
    scaffold(config, _SHARED, ["opencode"])
    path = config.root / "opencode.json"
    path.write_text(path.read_text().replace("  ", "    "))
    scaffold(config, _SHARED, remove=["opencode"])
    assert not path.exists()


def test_an_existing_jsonc_file_is_used(config: Config) -> None:
    (config.root / "opencode.jsonc").write_text('{\n  // mine\n  "theme": "x",\n}\n')
    assert _actions(scaffold(config, _SHARED))["opencode.jsonc"] == "merged"  # it is also how OpenCode is recognised
    assert not (config.root / "opencode.json").exists()
    assert (config.root / "opencode.jsonc").read_text().startswith('{\n  // mine\n  "theme": "x",\n  "mcp": {\n')


def test_a_file_that_has_our_entry_keeps_it_when_the_other_appears(config: Config) -> None:
    scaffold(config, _SHARED, ["opencode"])
    (config.root / "opencode.jsonc").write_text("{}\n")
    assert set(_actions(scaffold(config, _SHARED)).values()) == {"unchanged"}
    assert (config.root / "opencode.jsonc").read_text() == "{}\n"
    scaffold(config, _SHARED, remove=["opencode"])
    assert _snapshot(config.root) == {"opencode.jsonc": b"{}\n"}


def test_claude_code_reads_no_comments_so_they_are_a_conflict(config: Config) -> None:
    (config.root / ".claude").mkdir()
    (config.root / ".claude/settings.json").write_text('{\n  "model": "x", // mine\n}\n')
    answer = scaffold(config, _SHARED, ["claude-code"])
    (told,) = [item["reason"] for item in answer["files"] if item["action"] == "conflict"]
    assert told
    assert told.startswith(".claude/settings.json:2: ")


@pytest.mark.parametrize(
    ("harness", "path", "content", "told"),
    [
        ("codex", ".codex/config.toml", "a = 1\nb = \n", ".codex/config.toml:2: "),
        ("codex", ".codex/config.toml", "\nmcp_servers = 3\n", ".codex/config.toml:2: mcp_servers is no table"),
        ("codex", ".codex/hooks.json", "{\n  // no\n}", ".codex/hooks.json:2: "),
        ("opencode", "opencode.json", '{\n\n  "mcp": [,]\n}', "opencode.json:3: "),
        ("opencode", "opencode.jsonc", '{\n  "mcp": "x"\n}', "opencode.jsonc:2: mcp is no object"),
        ("cursor", ".cursor/mcp.json", "{", ".cursor/mcp.json:1: "),
    ],
)
def test_an_invalid_file_stays_and_the_others_are_written(
    config: Config, harness: str, path: str, content: str, told: str
) -> None:
    (config.root / path).parent.mkdir(exist_ok=True)
    (config.root / path).write_text(content)
    answer = scaffold(config, _SHARED, [harness])
    assert {name for name, action in _actions(answer).items() if action != "created"} == {path}
    (reason,) = [item["reason"] for item in answer["files"] if item["action"] == "conflict"]
    assert reason
    assert reason.startswith(told)
    assert (config.root / path).read_text() == content


def test_dry_run_shows_toml_as_a_diff(config: Config) -> None:
    (config.root / ".codex").mkdir()
    (config.root / ".codex/config.toml").write_text('model = "x"\n')
    answer = scaffold(config, _SHARED, ["codex"], dry_run=True)
    (diff,) = [item["diff"] for item in answer["files"] if item["path"] == ".codex/config.toml"]
    assert diff.splitlines()[:5] == [
        "--- .codex/config.toml",
        "+++ .codex/config.toml",
        "@@ -1 +1,11 @@",
        ' model = "x"',
        "+",
    ]
    assert "+[mcp_servers.perpetual]" in diff
    assert (config.root / ".codex/config.toml").read_text() == 'model = "x"\n'


def test_all_of_them_share_a_folder_and_go_one_by_one(config: Config) -> None:
    (config.root / "AGENTS.md").write_text("# Agents\n")
    answer = scaffold(config, _SHARED, ["all"])
    names = answer["harnesses"]
    assert {"claude-code", "codex", "gemini", "kilo", "opencode", "vscode"} < {*names}
    assert len([item for item in answer["files"] if item["path"] == "AGENTS.md"]) == 1
    for name in ("mcp", "codex", "vscode", "kilo", "claude-code", "gemini"):  # which share files with others
        scaffold(config, _SHARED, remove=[name])
        assert set(_actions(scaffold(config, _SHARED)).values()) == {"unchanged"}  # the others still stand
    scaffold(config, _SHARED, remove=["all"])
    assert _snapshot(config.root) == {"AGENTS.md": b"# Agents\n"}


def test_all_of_a_clone_without_a_record_go(config: Config) -> None:
    (config.root / "AGENTS.md").write_text("# Agents\n")
    scaffold(config, _SHARED, ["all"])
    (config.root / ".perpetual/scaffold.json").unlink()
    scaffold(config, _SHARED, remove=["all"])
    left = {name: content for name, content in _snapshot(config.root).items() if content is not None}
    assert left.pop("AGENTS.md") == b"# Agents\n"
    # files that were shared stay as they may have been there before, without anything of ours
    assert all(b"perpetual" not in content for content in left.values())


# --- files as editors and people leave them ---------------------------------------------------------------------------

_CONFIGURATIONS = [
    ("opencode", "opencode.json"),
    ("claude-code", ".mcp.json"),
    ("claude-code", ".claude/settings.json"),
    ("cursor", ".cursor/mcp.json"),
    ("gemini", ".gemini/settings.json"),
    ("vscode", ".vscode/mcp.json"),
    ("codex", ".codex/hooks.json"),
]


@pytest.mark.parametrize(("harness", "name"), _CONFIGURATIONS)
@pytest.mark.parametrize("edited", [False, True])
def test_a_byte_order_mark_stays_in_front(config: Config, harness: str, name: str, edited: bool) -> None:
    path = config.root / name
    path.parent.mkdir(exist_ok=True)
    content = b'\xef\xbb\xbf{"mine": [1, 2]}\r\n'
    path.write_bytes(content)
    assert _actions(scaffold(config, _SHARED, [harness]))[name] == "merged"
    merged = path.read_bytes()
    assert merged.startswith(b'\xef\xbb\xbf{"mine": [1, 2]')
    assert json.loads(merged.decode("utf-8-sig")).keys() > {"mine"}
    assert set(_actions(scaffold(config, _SHARED, [harness])).values()) == {"unchanged"}
    if edited:
        path.write_bytes(merged.replace(b"[1, 2]", b"[1, 2, 3]"))
    scaffold(config, _SHARED, remove=[harness])
    if edited:
        assert json.loads(path.read_bytes().removeprefix(b"\xef\xbb\xbf")) == {"mine": [1, 2, 3]}
    else:
        assert path.read_bytes() == content


def test_a_link_that_leads_to_itself_is_left_alone(config: Config) -> None:
    (config.root / ".mcp.json").symlink_to(".mcp.json")
    planned, done = scaffold(config, _SHARED, ["mcp"], dry_run=True), scaffold(config, _SHARED, ["mcp"])
    assert _actions(planned)[".mcp.json"] == _actions(done)[".mcp.json"] == "conflict"
    assert os.readlink(config.root / ".mcp.json") == ".mcp.json"


def test_a_file_in_place_of_a_folder_is_named_before_any_write(config: Config) -> None:
    (config.root / ".codex").write_text("mine")
    planned = scaffold(config, _SHARED, ["codex"], dry_run=True)
    reasons = {item["path"]: item["reason"] for item in planned["files"] if item["action"] == "conflict"}
    assert reasons[".codex/config.toml"] == ".codex/config.toml: .codex is no folder"
    assert _actions(scaffold(config, _SHARED, ["codex"])) == _actions(planned)
    assert (config.root / ".codex").read_text() == "mine"

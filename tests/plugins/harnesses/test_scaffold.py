"""Scaffolds in a folder: merged, idempotent, taken out again to the byte, and never beyond the project."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perpetual.api import FilePlan, Harness, PerpetualError, Provider, Scaffold, ScaffoldAnswer, UsageError, hookimpl
from perpetual.config import Config
from perpetual.lab.scaffolding import scaffold
from perpetual.registry import Registry
from tests.plugins.harnesses.helpers import actions as _actions
from tests.plugins.harnesses.helpers import folder as _folder
from tests.plugins.harnesses.helpers import snapshot as _snapshot

ENTRY = {"type": "stdio", "command": "perpetual", "args": ["mcp"], "alwaysLoad": True}
_SHARED = Registry()


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durability is tested elsewhere; here it would be nearly all of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def config() -> Iterator[Config]:
    with _folder() as made:
        yield made


def _reason(answer: ScaffoldAnswer | dict[str, Any], path: str) -> str:
    reason = next(item["reason"] for item in answer["files"] if item["path"] == path)
    assert reason is not None
    return str(reason)


# --- properties -----------------------------------------------------------------------------------------------------

_SERVERS = st.dictionaries(st.text("abxyz-", min_size=1, max_size=5), st.just({"command": "c", "args": ["é", "\\"]}))
_SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "model": st.just("x"),
        "permissions": st.fixed_dictionaries({}, optional={"allow": st.lists(st.sampled_from(["Bash", "Read"]))}),
        "hooks": st.fixed_dictionaries(
            {}, optional={"UserPromptSubmit": st.just([{"hooks": []}]), "Stop": st.just([])}
        ),
    },
)


def _dumped(document: Any, indent: int | str | None, ascii_only: bool, end: str, crlf: bool) -> bytes:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only) + end
    return (text.replace("\n", "\r\n") if crlf else text).encode("utf-8")


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    servers=_SERVERS,
    settings_file=_SETTINGS,
    notes=st.none() | st.sampled_from([b"", b"# Agents", b"# Agents\n", b"a\r\nb\r\n", b"\n\n", "é\n\n".encode()]),
    indent=st.sampled_from([None, 2, 4, "\t"]),
    ascii_only=st.booleans(),
    end=st.sampled_from(["", "\n", "\n\n"]),
    crlf=st.booleans(),
)
def test_earlier_content_survives_and_comes_back_to_the_byte(
    servers: dict[str, Any],
    settings_file: dict[str, Any],
    notes: bytes | None,
    indent: int | str | None,
    ascii_only: bool,
    end: str,
    crlf: bool,
) -> None:
    with _folder() as config:
        root = config.root
        (root / ".claude").mkdir()
        (root / ".mcp.json").write_bytes(_dumped({"x": 1, "mcpServers": servers}, indent, ascii_only, end, crlf))
        (root / ".claude/settings.json").write_bytes(_dumped(settings_file, indent, ascii_only, end, crlf))
        if notes is not None:
            (root / "AGENTS.md").write_bytes(notes)
            (root / "CLAUDE.md").write_bytes(notes)
        before = _snapshot(root)

        scaffold(config, _SHARED, ["claude-code"])
        merged = json.loads((root / ".mcp.json").read_bytes())
        assert list(merged["mcpServers"].items()) == [*servers.items(), ("perpetual", ENTRY)]
        allowed = json.loads((root / ".claude/settings.json").read_bytes())["permissions"]["allow"]
        assert allowed == [*settings_file.get("permissions", {}).get("allow", []), "mcp__perpetual__*"]
        once = _snapshot(root)

        again = scaffold(config, _SHARED, ["claude-code", "mcp"])
        assert {path: action for path, action in _actions(again).items() if action != "unchanged"} == {
            ".agents/skills/perpetual/SKILL.md": "created"
        }
        assert {path: content for path, content in _snapshot(root).items() if ".agents" not in path} == once

        scaffold(config, _SHARED, remove=["claude-code"])
        assert json.loads((root / ".mcp.json").read_bytes())["mcpServers"]["perpetual"] == ENTRY  # mcp uses it
        scaffold(config, _SHARED, remove=["mcp"])
        assert _snapshot(root) == before


@settings(max_examples=15, deadline=None)
@given(servers=_SERVERS, added=_SERVERS, indent=st.sampled_from([None, 2, "\t"]))
def test_an_edit_between_survives_the_removal(
    servers: dict[str, Any], added: dict[str, Any], indent: int | str | None
) -> None:
    with _folder() as config:
        path = config.root / ".mcp.json"
        path.write_bytes(_dumped({"mcpServers": servers}, indent, False, "\n", False))
        scaffold(config, _SHARED, ["mcp"])
        document = json.loads(path.read_bytes())
        document["mcpServers"].update(added)
        document["mine"] = [1.5]
        path.write_text(json.dumps(document))
        answer = scaffold(config, _SHARED, remove=["mcp"])
        assert _reason(answer, ".mcp.json") == "edited since: only what Perpetual put there was taken out"
        assert json.loads(path.read_bytes()) == {"mcpServers": {**servers, **added}, "mine": [1.5]}


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_fresh_folder_is_empty_again_after_removal(config: Config) -> None:
    answer = scaffold(config, _SHARED, ["claude-code"])
    assert _actions(answer) == {
        ".mcp.json": "created",
        ".claude/settings.json": "created",
        ".claude/agents/perpetual.md": "created",
        **{f".claude/commands/{name}.md": "created" for name in ("auto", "stop", "report", "catchup")},
        "AGENTS.md": "created",
    }  # and no CLAUDE.md
    assert any("approve the MCP server" in step for step in answer["trust"])
    scaffold(config, _SHARED, remove=["claude-code"])
    assert _snapshot(config.root) == {}


def test_claude_md_gets_one_import_line_unless_it_has_it(config: Config) -> None:
    path = config.root / "CLAUDE.md"
    path.write_text("# Notes\n\n@AGENTS.md\n")
    assert _actions(scaffold(config, _SHARED, ["claude-code"]))["CLAUDE.md"] == "unchanged"
    path.write_text("# Notes\n")
    assert _actions(scaffold(config, _SHARED, ["claude-code"]))["CLAUDE.md"] == "merged"
    assert path.read_text() == "# Notes\n\n<!-- perpetual:start -->\n@AGENTS.md\n<!-- perpetual:end -->\n"


def test_claude_md_that_is_a_link_to_agents_md_is_not_made_to_import_itself(config: Config) -> None:
    (config.root / "AGENTS.md").write_text("# Agents\n")
    (config.root / "CLAUDE.md").symlink_to("AGENTS.md")
    answer = scaffold(config, _SHARED, ["claude-code"])
    assert _reason(answer, "CLAUDE.md") == "it is the same file as AGENTS.md"
    assert "@AGENTS.md" not in (config.root / "AGENTS.md").read_text()
    assert (config.root / "CLAUDE.md").is_symlink()
    scaffold(config, _SHARED, remove=["claude-code"])
    assert (config.root / "AGENTS.md").read_text() == "# Agents\n"


def test_a_link_within_the_project_is_followed_and_stays_a_link(config: Config) -> None:
    (config.root / "conf").mkdir()
    (config.root / "conf/mcp.json").write_text("{}")
    (config.root / ".mcp.json").symlink_to("conf/mcp.json")
    assert _actions(scaffold(config, _SHARED, ["mcp"]))[".mcp.json"] == "merged"
    assert (config.root / ".mcp.json").is_symlink()
    assert json.loads((config.root / "conf/mcp.json").read_text()) == {"mcpServers": {"perpetual": ENTRY}}


@pytest.mark.parametrize("through_folder", [False, True])
def test_a_link_out_of_the_project_is_refused(config: Config, through_folder: bool) -> None:
    outside = config.root.parent / "outside"
    outside.mkdir()
    (outside / "settings.json").write_text("{}")
    if through_folder:
        (config.root / ".claude").symlink_to(outside)
    else:
        (config.root / ".claude").mkdir()
        (config.root / ".claude/settings.json").symlink_to(outside / "settings.json")
    answer = scaffold(config, _SHARED, ["claude-code"])
    assert _actions(answer)[".claude/settings.json"] == "conflict"
    assert _reason(answer, ".claude/settings.json") == ".claude/settings.json: it leads outside of the project"
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"settings.json": "{}"}
    assert _actions(answer)[".mcp.json"] == "created"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{\n  "mcpServers": {,}\n}', ".mcp.json:2: "),
        (b'{\n  "mcpServers": []\n}', ".mcp.json:2: mcpServers is no object"),
        (b"[]", ".mcp.json:1: the document is no object"),
        (b"", ".mcp.json:1: "),
        (b'{"a":\n "\xff"}', ".mcp.json:2: it is not UTF-8"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", ".mcp.json:1: nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_merged_stays_and_the_others_are_written(
    config: Config, content: bytes, told: str
) -> None:
    (config.root / ".mcp.json").write_bytes(content)
    answer = scaffold(config, _SHARED, ["mcp"])
    assert _actions(answer) == {
        ".mcp.json": "conflict",
        "AGENTS.md": "created",
        ".agents/skills/perpetual/SKILL.md": "created",
    }
    assert _reason(answer, ".mcp.json").startswith(told)
    assert (config.root / ".mcp.json").read_bytes() == content


def test_a_folder_where_a_file_should_be_is_a_conflict(config: Config) -> None:
    (config.root / "AGENTS.md").mkdir()
    (config.root / ".agents").write_text("a file")
    answer = scaffold(config, _SHARED, ["mcp"])
    assert _actions(answer)["AGENTS.md"] == "conflict"
    assert _actions(answer)[".agents/skills/perpetual/SKILL.md"] == "conflict"
    assert (config.root / ".mcp.json").exists()


def test_marks_that_do_not_pair_are_a_conflict_with_their_line(config: Config) -> None:
    (config.root / "AGENTS.md").write_text("# A\n<!-- perpetual:start -->\nlost\n")
    assert _reason(scaffold(config, _SHARED, ["mcp"]), "AGENTS.md").startswith("AGENTS.md:2: ")


def test_an_edited_own_file_is_left_alone_unless_forced(config: Config) -> None:
    path = config.root / ".agents/skills/perpetual/SKILL.md"
    scaffold(config, _SHARED, ["mcp"])
    generated = path.read_text()
    path.write_text(generated.replace("How to work", "How we work"))
    edited = path.read_text()
    answer = scaffold(config, _SHARED, ["mcp"])
    assert _actions(answer)[".agents/skills/perpetual/SKILL.md"] == "unchanged"
    assert _reason(answer, ".agents/skills/perpetual/SKILL.md") == "edited by hand"
    assert path.read_text() == edited
    assert _actions(scaffold(config, _SHARED, ["mcp"], force=True))[".agents/skills/perpetual/SKILL.md"] == "merged"
    assert path.read_text() == generated
    path.write_text(edited)
    scaffold(config, _SHARED, remove=["mcp"])
    assert path.read_text() == edited


def test_a_foreign_file_of_that_name_is_left_alone(config: Config) -> None:
    path = config.root / ".agents/skills/perpetual/SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    assert "--force" in _reason(scaffold(config, _SHARED, ["mcp"]), ".agents/skills/perpetual/SKILL.md")
    assert path.read_text() == "mine"
    scaffold(config, _SHARED, ["mcp"], force=True)
    assert path.read_text() != "mine"
    scaffold(config, _SHARED, remove=["mcp"])
    assert path.read_text() == "mine"


def test_a_clone_without_a_record_is_recognised_and_cleaned(config: Config) -> None:
    (config.root / "CLAUDE.md").write_text("# C\n")
    (config.root / ".mcp.json").write_text('{\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n')
    scaffold(config, _SHARED, ["claude-code"])
    (config.root / ".perpetual/scaffold.json").unlink()  # it is not committed
    assert set(_actions(scaffold(config, _SHARED)).values()) == {"unchanged"}  # found by .claude/
    (config.root / ".perpetual/scaffold.json").unlink()
    scaffold(config, _SHARED, remove=["claude-code"])
    assert not (config.root / ".claude/agents/perpetual.md").exists()
    assert (config.root / "CLAUDE.md").read_text() == "# C\n"
    assert (config.root / ".mcp.json").read_text() == '{\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n'


def test_another_command_replaces_the_first_and_is_remembered(config: Config) -> None:
    scaffold(config, _SHARED, ["claude-code"])
    scaffold(config, _SHARED, ["claude-code"], command=("/opt/my env/python", "-m", "perpetual"))
    entry = json.loads((config.root / ".mcp.json").read_text())["mcpServers"]["perpetual"]
    assert (entry["command"], entry["args"]) == ("/opt/my env/python", ["-m", "perpetual", "mcp"])
    hooks = json.loads((config.root / ".claude/settings.json").read_text())["hooks"]["UserPromptSubmit"]
    assert [hook["hooks"][0]["command"] for hook in hooks] == ["'/opt/my env/python' -m perpetual hook user-prompt"]
    assert set(_actions(scaffold(config, _SHARED)).values()) == {"unchanged"}


def test_another_command_replaces_the_first_in_a_file_edited_since(config: Config) -> None:
    scaffold(config, _SHARED, ["claude-code"])
    path = config.root / ".claude/settings.json"
    document = json.loads(path.read_text())
    document["hooks"]["UserPromptSubmit"].insert(0, {"hooks": [{"type": "command", "command": "date"}]})
    path.write_text(json.dumps(document, indent=4))
    scaffold(config, _SHARED, ["claude-code"], command=("/opt/perpetual",))
    groups = json.loads(path.read_text())["hooks"]["UserPromptSubmit"]
    assert [group["hooks"][0]["command"] for group in groups] == ["date", "/opt/perpetual hook user-prompt"]


def test_a_previous_entry_of_that_name_comes_back(config: Config) -> None:
    path = config.root / ".mcp.json"
    path.write_text('{"mcpServers": {"perpetual": {"command": "old"}, "z": {}}}')
    scaffold(config, _SHARED, ["mcp"], force=True)
    assert json.loads(path.read_text())["mcpServers"] == {"perpetual": ENTRY, "z": {}}
    path.write_text(path.read_text() + "\n")
    scaffold(config, _SHARED, remove=["mcp"])
    assert json.loads(path.read_text())["mcpServers"] == {"perpetual": {"command": "old"}, "z": {}}


def test_removal_keeps_the_user_s_items_of_an_edited_file(config: Config) -> None:
    path = config.root / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text('{"permissions": {"allow": ["mcp__perpetual__*"]}}')
    scaffold(config, _SHARED, ["claude-code"])
    document = json.loads(path.read_text())
    assert document["permissions"]["allow"] == ["mcp__perpetual__*"]
    path.write_text(json.dumps({**document, "model": "x"}))
    scaffold(config, _SHARED, remove=["claude-code"])
    assert json.loads(path.read_text()) == {"permissions": {"allow": ["mcp__perpetual__*"]}, "model": "x"}


def test_rights_of_a_merged_file_stay(config: Config) -> None:
    path = config.root / ".mcp.json"
    path.write_text("{}")
    path.chmod(0o660)
    scaffold(config, _SHARED, ["mcp"])
    assert path.stat().st_mode & 0o777 == 0o660


def test_a_call_that_ended_before_it_wrote_the_files_is_taken_up(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = b'{"mcpServers": { } }'  # taking our key out again would lose the space
    (config.root / ".mcp.json").write_bytes(original)

    def end(*_: object, mode: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("perpetual_harnesses.scaffold.write_atomic", end)
        with pytest.raises(KeyboardInterrupt):
            scaffold(config, _SHARED, ["mcp"])
    assert _actions(scaffold(config, _SHARED))[".mcp.json"] == "merged"
    scaffold(config, _SHARED, remove=["mcp"])
    assert _snapshot(config.root) == {".mcp.json": original}


def test_dry_run_answers_the_same_and_writes_nothing(config: Config) -> None:
    (config.root / "AGENTS.md").write_text("# Agents\n")
    before = _snapshot(config.root)
    planned = scaffold(config, _SHARED, ["claude-code"], dry_run=True)
    assert _snapshot(config.root) == before
    assert os.listdir(config.root / ".perpetual") == []
    diff = next(item["diff"] for item in planned["files"] if item["path"] == "AGENTS.md")
    assert "+<!-- perpetual:start -->" in diff
    assert "\n # Agents" in diff
    done = scaffold(config, _SHARED, ["claude-code"])
    assert [{**item, "diff": None} for item in planned["files"]] == [{**item, "diff": None} for item in done["files"]]


def test_an_unknown_harness_names_the_nearest(config: Config) -> None:
    with pytest.raises(UsageError, match="did you mean claude-code"):
        scaffold(config, _SHARED, ["claude"])
    with pytest.raises(UsageError, match="did you mean none"):
        scaffold(config, _SHARED, ["nonee"])
    with pytest.raises(UsageError, match=r"unknown harness 'absent'(?!.*none)"):
        scaffold(config, _SHARED, remove=["absent"])
    with pytest.raises(UsageError, match="added and removed at once"):
        scaffold(config, _SHARED, ["mcp"], remove=["mcp"])


def test_a_broken_record_is_said_by_name(config: Config) -> None:
    (config.root / ".perpetual/scaffold.json").write_text('{"files": {"x": 1}}')
    with pytest.raises(PerpetualError, match=r"scaffold\.json") as caught:
        scaffold(config, _SHARED, ["mcp"])
    assert caught.value.code == "corrupt"


# --- harnesses from elsewhere ---------------------------------------------------------------------------------------


class _Custom(Harness):
    """A harness whose plans the test chooses."""

    plans: tuple[FilePlan, ...] = ()

    def scaffold(self, *, project: str, command: tuple[str, ...]) -> Scaffold:
        return Scaffold(self.plans)


def build_custom(options: Mapping[str, Any]) -> _Custom:
    return _Custom()


@pytest.fixture
def custom(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Registry]:
    """A registry with one more harness, whose file plans are the arguments."""
    monkeypatch.setitem(sys.modules, "custom_harness_for_tests", sys.modules[__name__])

    class Plugin:
        @hookimpl
        def perpetual_harnesses(self) -> list[Provider]:
            return [Provider("harness", "custom", "custom_harness_for_tests:build_custom")]

    def make(*plans: FilePlan) -> Registry:
        monkeypatch.setattr(_Custom, "plans", plans)
        return Registry(extra=[("acme", "custom", "1", Plugin)])

    return make


@pytest.mark.parametrize("path", ["../x", "/etc/x", ".perpetual/config.yaml", "a/../../x", ""])
def test_a_plan_beyond_the_project_is_refused_and_the_other_harness_served(
    config: Config, custom: Callable[..., Registry], path: str
) -> None:
    answer = scaffold(config, custom(FilePlan(path, "own", text="x")), ["custom", "mcp"])
    assert _actions(answer)["custom"] == "conflict"
    assert _actions(answer)[".mcp.json"] == "created"
    assert answer["harnesses"] == ["mcp"]


def test_blocks_and_stamps_use_the_comments_of_their_file(config: Config, custom: Callable[..., Registry]) -> None:
    registry = custom(FilePlan(".gitignore", "block", text="/runs/"), FilePlan("p.ts", "own", text="export {}"))
    (config.root / ".gitignore").write_text("a\n")
    scaffold(config, registry, ["custom"])
    assert (config.root / ".gitignore").read_text() == "a\n\n# perpetual:start\n/runs/\n# perpetual:end\n"
    assert (config.root / "p.ts").read_text().startswith("export {}\n// perpetual:generated ")
    assert set(_actions(scaffold(config, registry, ["custom"])).values()) == {"unchanged"}
    newer = custom(FilePlan(".gitignore", "block", text="/out/"), FilePlan("p.ts", "own", text="export {};"))
    scaffold(config, newer, ["custom"])  # an untouched file follows a new version
    assert (config.root / ".gitignore").read_text() == "a\n\n# perpetual:start\n/out/\n# perpetual:end\n"
    assert (config.root / "p.ts").read_text().startswith("export {};\n")


def test_plans_of_two_kinds_for_one_file_are_a_conflict(config: Config, custom: Callable[..., Registry]) -> None:
    registry = custom(FilePlan("x.md", "own", text="a"), FilePlan("x.md", "block", text="b"))
    assert _actions(scaffold(config, registry, ["custom"])) == {"x.md": "conflict"}

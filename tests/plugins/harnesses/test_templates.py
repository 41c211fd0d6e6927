"""The bundled templates: complete, readable from a zip file, and true to the program."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from perpetual import __version__
from perpetual.api import FilePlan, PluginError
from perpetual.cli.fastpath import HOOKS
from perpetual.cli.table import ORDER
from perpetual.registry import Registry
from perpetual_harnesses.template import TemplateHarness
from perpetual_mcp.tools import TOOLS

ROOT = Path(__file__).parents[3]
OTHERS = ("gemini", "qwen", "copilot", "vscode", "kilo", "antigravity", "zed")
NAMES = ("opencode", "claude-code", "cursor", "codex", "mcp", *OTHERS)
DEEDS = ("auto", "stop", "report", "catchup")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_in_a_template_is_filled_in(name: str) -> None:
    plan = TemplateHarness(name).scaffold(project="p", command=("/usr/bin/perp", "-v"))
    assert plan.trust
    for item in plan.files:
        assert "{{" not in item.text + json.dumps(item.value)
        assert item.text or item.value


def _plans(name: str) -> tuple[FilePlan, ...]:
    return TemplateHarness(name).scaffold(project="p", command=("perpetual",)).files


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_one_hook_tells_the_state_of_a_prompt_and_it_exists(name: str) -> None:
    """The prompt's comes at the first turn too: a session's start tells it where the conversation was cut alone."""
    items = {item.keys[1]: item.value[0] for item in _plans(name) if item.keys[:1] == ("hooks",)}
    hooks = {event: item["hooks"][0]["command"] for event, item in items.items()}
    assert hooks.pop("Stop") == "perpetual hook stop || true"  # tests/plugins/loop/test_hooks.py
    if name == "claude-code":
        assert items["SessionStart"]["matcher"] == "compact|resume"
        assert hooks.pop(HOOKS["session-start"]) == "perpetual hook session-start"
    assert hooks == {HOOKS["user-prompt"]: "perpetual hook user-prompt"}


def test_claude_code_may_use_the_tools() -> None:
    plans = _plans("claude-code")
    assert [item.value for item in plans if item.keys == ("permissions", "allow")] == [["mcp__perpetual__*"]]


def test_agents_wait_for_the_server() -> None:
    entries = {name: next(p.value for p in _plans(name) if p.keys[-1:] == ("perpetual",)) for name in NAMES}
    assert entries["claude-code"] == entries["mcp"]
    assert entries["mcp"]["alwaysLoad"] is True
    assert (entries["opencode"]["timeout"], entries["opencode"]["command"]) == (30000, ["perpetual", "mcp"])
    codex = entries["codex"]
    assert (codex["required"], codex["startup_timeout_sec"]) == (True, 30)
    assert codex["default_tools_approval_mode"] == "approve"
    assert codex["tool_timeout_sec"] > 3600  # a wait of an hour is one call
    # Where the user's own state and configuration are: without them the project would be held for the server.
    assert codex["env_vars"] == ["PERPETUAL_PROJECT", "PERPETUAL_STATE_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"]


def test_the_state_is_told_once() -> None:
    """Where a hook or a plugin brings it with each prompt, the server's instructions leave it out."""
    entries = {name: next(p.value for p in _plans(name) if p.keys[-1:] == ("perpetual",)) for name in NAMES}
    assert entries["codex"]["env"]["PERPETUAL_MCP_STATE"] == "0"
    assert entries["opencode"]["environment"] == {"PERPETUAL_MCP_STATE": "0"}
    settings = {item.keys: item.value for item in _plans("claude-code") if item.path == ".claude/settings.json"}
    assert settings["env", "PERPETUAL_MCP_STATE"] == "0"
    for name in ("mcp", "cursor"):  # they have no hook, and share no entry with those that have one
        assert "PERPETUAL_MCP_STATE" not in json.dumps([item.value for item in _plans(name)])


def _head(text: str) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(text.split("---\n")[1])
    return found


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("opencode", "agents/perpetual.md"),
        ("claude-code", "agents/perpetual.md"),
        ("cursor", "agents/perpetual.md"),
        ("codex", "perpetual/SKILL.md"),
        ("mcp", "perpetual/SKILL.md"),
        *(("codex", f"perpetual-{deed}/SKILL.md") for deed in DEEDS),
    ],
)
def test_agents_and_skills_carry_the_frontmatter_that_harnesses_need(name: str, path: str) -> None:
    text = next(item.text for item in _plans(name) if item.path.endswith(path))
    head = _head(text)
    if name == "opencode":  # where the file's name is the agent's
        assert (head["mode"], head["color"]) == ("all", "#a855f7")
    else:
        assert head["name"] == path.split("/")[-2 if path.endswith("SKILL.md") else -1].removesuffix(".md")
    assert 20 < len(head["description"]) < 1024


def test_the_agent_of_codex_is_toml() -> None:
    agent = tomllib.loads(next(p.text for p in _plans("codex") if p.path.endswith("perpetual.toml")))
    assert set(agent) == {"name", "description", "developer_instructions"}
    assert "## Stop when there is a reason" in agent["developer_instructions"]


def test_a_rule_of_cursor_has_exactly_its_three_keys() -> None:
    rule = _head(next(item.text for item in _plans("cursor") if item.path.endswith(".mdc")))
    assert set(rule) == {"description", "globs", "alwaysApply"}
    assert rule["alwaysApply"] is True


@pytest.mark.parametrize("name", ["opencode", "claude-code", "cursor"])
@pytest.mark.parametrize("deed", DEEDS)
def test_each_deed_is_a_command(name: str, deed: str) -> None:
    text = next(item.text for item in _plans(name) if item.path.endswith(f"commands/{deed}.md"))
    common = files("perpetual_templates").joinpath(f"common/commands/{deed}.md").read_text(encoding="utf-8")
    assert text.endswith(common)
    if name == "cursor":  # which takes no frontmatter, and appends what the person typed
        assert text == common
    else:
        assert _head(text)["description"]
        assert "$ARGUMENTS" in text


def test_the_plugin_of_opencode_starts_the_command_and_needs_no_package() -> None:
    command = ("/opt/my tools/python", "-m", 'per"petual')
    plans = TemplateHarness("opencode").scaffold(project="p", command=command).files
    text = next(item.text for item in plans if item.path.endswith(".ts"))
    (line,) = re.findall(r"^const COMMAND: string\[\] = (.+)$", text, re.M)
    assert tuple(json.loads(line)) == command
    imported = re.findall(r"^import (type )?.* from \"([^\"]+)\"$", text, re.M)
    assert [name for only_type, name in imported if not only_type and not name.startswith("node:")] == []


def test_the_plugin_of_opencode_is_the_source_of_its_package() -> None:
    place = files("perpetual_templates").joinpath("opencode/package")
    source = place.joinpath("src/perpetual.ts").read_text(encoding="utf-8")
    assert source == next(item.text for item in _plans("opencode") if item.path.endswith(".ts"))
    package = json.loads(place.joinpath("package.json").read_text(encoding="utf-8"))
    pinned = json.loads((ROOT / "tests/fixtures/opencode_plugin/package.json").read_text("utf-8"))["dependencies"]
    assert (package["name"], package["version"]) == ("opencode-perpetual", __version__)
    assert package["devDependencies"] == pinned
    assert "dependencies" not in package
    settings = json.loads(place.joinpath("tsconfig.json").read_text(encoding="utf-8"))
    assert settings["compilerOptions"]["strict"] is True


def test_opencode_s_commands_do_not_quote_what_it_quotes_itself() -> None:
    texts = [item.text for item in _plans("opencode") if "/commands/" in item.path]
    assert len(texts) == len(DEEDS)
    assert all("The person added: $ARGUMENTS\n" in text for text in texts)


@pytest.mark.parametrize(
    "path", ["common/method.md", "common/agents.md", *(f"common/commands/{deed}.md" for deed in DEEDS)]
)
def test_templates_name_existing_commands(path: str) -> None:
    text = files("perpetual_templates").joinpath(path).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^ {4}|`)perpetual ([a-z-]+)", text, re.M))
    assert named
    assert named <= {*ORDER, *(offer.provider.name for offer in Registry().serving("command"))}


def test_templates_name_every_tool() -> None:
    method = files("perpetual_templates").joinpath("common/method.md").read_text(encoding="utf-8")
    offered = {*(tool.name for tool in TOOLS), *(offer.provider.name for offer in Registry().serving("mcp_tool"))}
    assert set(re.findall(r"\bperpetual_[a-z_]+", method)) == offered


def test_templates_are_read_from_a_zip_file(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    shutil.copytree(str(files("perpetual_templates")), folder, ignore=shutil.ignore_patterns("__pycache__"))
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
    with zipfile.ZipFile(packed) as archive:
        harness = TemplateHarness("mcp", zipfile.Path(archive))
        assert harness.scaffold(project="p", command=("x",)) == TemplateHarness("mcp").scaffold(
            project="p", command=("x",)
        )
        with pytest.raises(PluginError, match=r"none/template\.yaml cannot be read"):
            TemplateHarness("none", zipfile.Path(archive)).detect(tmp_path)


def test_each_harness_knows_its_own_files(tmp_path: Path) -> None:
    assert not any(TemplateHarness(name).detect(tmp_path) for name in NAMES)
    (tmp_path / ".claude").mkdir()
    assert [name for name in NAMES if TemplateHarness(name).detect(tmp_path)] == ["claude-code"]
    (tmp_path / ".claude").rmdir()
    (tmp_path / "opencode.jsonc").write_text("{}")
    assert [name for name in NAMES if TemplateHarness(name).detect(tmp_path)] == ["opencode"]
    (tmp_path / "opencode.jsonc").unlink()
    (tmp_path / ".agents/skills").mkdir(parents=True)  # which several read
    assert not any(TemplateHarness(name).detect(tmp_path) for name in NAMES)
    (tmp_path / ".mcp.json").write_text("{}")
    assert [name for name in NAMES if TemplateHarness(name).detect(tmp_path)] == ["mcp"]


def test_kilo_has_the_files_of_opencode_in_its_own_places() -> None:
    theirs = {plan.path: plan for plan in _plans("opencode")}
    own = {plan.path: plan for plan in _plans("kilo")}
    places = {path.replace(".opencode/", ".kilo/").replace("opencode.json", "kilo.json") for path in theirs}
    assert set(own) == places
    assert own["kilo.json"].instead == ("kilo.jsonc",)
    assert own[".kilo/plugins/perpetual.ts"].text == theirs[".opencode/plugins/perpetual.ts"].text


@pytest.mark.parametrize(
    ("sign", "name"),
    [
        (".gemini/settings.json", "gemini"),
        (".qwen/settings.json", "qwen"),
        (".kilocode/rules.md", "kilo"),
        ("kilo.jsonc", "kilo"),
        (".github/agents/x.agent.md", "copilot"),
        (".vscode/mcp.json", "vscode"),
        (".zed/settings.json", "zed"),
        (".agents/mcp_config.json", "antigravity"),
    ],
)
def test_a_file_of_an_agent_chooses_its_harness(tmp_path: Path, sign: str, name: str) -> None:
    place = tmp_path / sign
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("{}")
    assert [each for each in NAMES if TemplateHarness(each).detect(tmp_path)] == [name]


def test_the_entries_of_other_agents_are_in_their_own_form() -> None:
    entries = {name: next(p for p in _plans(name) if p.keys[-1:] == ("perpetual",)) for name in OTHERS}
    assert {name: plan.keys[0] for name, plan in entries.items()} == {
        "gemini": "mcpServers", "qwen": "mcpServers", "copilot": "mcpServers", "vscode": "servers", "kilo": "mcp",
        "antigravity": "mcpServers", "zed": "context_servers",
    }  # fmt: skip
    assert entries["vscode"].value == {"type": "stdio", "command": "perpetual", "args": ["mcp"]}
    assert entries["copilot"].value == next(p for p in _plans("mcp") if p.keys).value  # so that both can share it
    assert entries["gemini"].value["timeout"] == 600_000  # no progress message prolongs it
    assert entries["qwen"].value["alwaysLoadTools"] is True  # otherwise the model must search for them first


@pytest.mark.parametrize("name", ["gemini", "qwen", "copilot", "kilo"])
def test_the_others_are_driven_over_acp(name: str) -> None:
    row = TemplateHarness(name).driving()
    assert row is not None
    assert row.acp == {"kilo": ("kilo", "acp")}.get(name, (name, "--acp"))
    assert row.install

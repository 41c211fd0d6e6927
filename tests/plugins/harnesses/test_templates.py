"""The bundled templates: complete, readable from a zip file, and true to the program."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from perpetual.api import PluginError
from perpetual.cli.table import COMMANDS
from perpetual.fast import HOOKS
from perpetual_harnesses.template import TemplateHarness

NAMES = ("claude-code", "mcp")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_in_a_template_is_filled_in(name: str) -> None:
    plan = TemplateHarness(name).scaffold(project="p", command=("/usr/bin/perp", "-v"))
    assert plan.trust
    for item in plan.files:
        assert "{{" not in item.text + json.dumps(item.value)
        assert item.text or item.value


def test_what_claude_code_is_told_to_start_exists() -> None:
    plan = TemplateHarness("claude-code").scaffold(project="p", command=("perpetual",))
    hooks = {item.keys[1]: item.value[0]["hooks"][0]["command"] for item in plan.files if item.keys[:1] == ("hooks",)}
    assert {event: f"perpetual hook {name}" for name, event in HOOKS.items()} == hooks
    assert [item.value for item in plan.files if item.keys == ("permissions", "allow")] == [["mcp__perpetual__*"]]


@pytest.mark.parametrize(("name", "path"), [("claude-code", "agents/perpetual.md"), ("mcp", "SKILL.md")])
def test_agent_and_skill_carry_the_frontmatter_that_harnesses_need(name: str, path: str) -> None:
    plan = TemplateHarness(name).scaffold(project="p", command=("perpetual",))
    text = next(item.text for item in plan.files if item.path.endswith(path))
    head = YAML(typ="safe").load(text.split("---\n")[1])
    assert head["name"] == "perpetual"
    assert 20 < len(head["description"]) < 1024


@pytest.mark.parametrize("path", ["common/method.md", "common/agents.md"])
def test_agents_are_told_commands_that_exist(path: str) -> None:
    text = files("perpetual_templates").joinpath(path).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^ {4}|`)perpetual ([a-z-]+)", text, re.M))
    assert named
    assert named <= set(COMMANDS)


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
    (tmp_path / ".agents").mkdir()
    assert [name for name in NAMES if TemplateHarness(name).detect(tmp_path)] == ["mcp"]

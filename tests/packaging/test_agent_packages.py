"""What coding agents install by one line is what the templates of `init` say, and each harness takes it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from perpetual import __version__
from tests.slow.test_real_harnesses import MARK, Bench, bench, clients

__all__ = ["bench", "clients"]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "harness_templates" / "packages"


def _built() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("make_agent_packages", ROOT / "tools" / "make_agent_packages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, str] = module.packages()
    return found


def test_the_packages_are_fresh() -> None:
    built = _built()
    there = {path.relative_to(ROOT).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert there == {name for name in built if name.startswith("harness_templates/")}, "make agent-packages"
    assert [name for name, text in built.items() if (ROOT / name).read_text("utf-8") != text] == []


def test_every_package_has_the_name_of_its_place_in_the_marketplace() -> None:
    market = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text())
    for plugin in market["plugins"]:
        (manifest,) = (ROOT / plugin["source"]).glob(".c*-plugin/plugin.json")
        found = json.loads(manifest.read_text())
        assert (found["name"], found["version"], found["license"]) == (plugin["name"], __version__, "MIT")
        (server,) = json.loads((ROOT / plugin["source"] / ".mcp.json").read_text())["mcpServers"].values()
        assert (server["command"], server["args"], "required" in server) == ("perpetual", ["mcp"], False)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_claude_code_installs_its_plugin_and_works_with_it(bench: Callable[..., Bench]) -> None:
    made = bench(
        "none", ANTHROPIC_API_KEY="x", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", CLAUDE_CODE_MAX_RETRIES="0",
        DISABLE_AUTOUPDATER="1", DISABLE_TELEMETRY="1", MCP_TIMEOUT="200000", MCP_CONNECT_TIMEOUT_MS="200000",
    )  # fmt: skip
    made.more["ANTHROPIC_BASE_URL"] = made.model.url
    for place in (ROOT, FOLDER / "claude-code"):
        _well(made.run("claude", "plugin", "validate", str(place)))
    _well(made.run("claude", "plugin", "marketplace", "add", str(ROOT)))
    _well(made.run("claude", "plugin", "install", "perpetual@perpetual"))
    done = made.run(
        "claude", "-p", "Register the hypothesis.", "--output-format", "stream-json", "--verbose",
        "--model", "mock-model", "--allowedTools", "mcp__plugin_perpetual_perpetual__*",
    )  # fmt: skip
    start = next(event for event in map(json.loads, done.stdout.splitlines()) if event.get("subtype") == "init")
    assert "perpetual:perpetual" in start["agents"]
    assert {f"perpetual:{deed}" for deed in ("auto", "stop", "report", "catchup")} <= set(start["slash_commands"])
    assert MARK in made.check_effect(done)  # the hook's


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_codex_installs_its_plugin(bench: Callable[..., Bench]) -> None:
    made = bench("none")
    (made.home / ".codex").mkdir()
    _well(made.run("codex", "plugin", "marketplace", "add", str(ROOT)))
    _well(made.run("codex", "plugin", "add", "perpetual-codex@perpetual"))
    listed = json.loads(_well(made.run("codex", "mcp", "list", "--json")).stdout)
    assert [(one["name"], one["enabled"], one["transport"]["args"]) for one in listed] == [("perpetual", True, ["mcp"])]
    place = made.home / ".codex/plugins/cache/perpetual/perpetual-codex" / __version__ / "skills"
    assert {path.name for path in place.iterdir()} >= {"perpetual", "perpetual-auto"}


def _well(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done

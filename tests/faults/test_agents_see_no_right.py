"""Agents are shown no command, option or key that is for a person: by any tool, resource, prompt, command or hook."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from perpetual import Lab
from perpetual.cli import fastpath
from perpetual.cli.app import run
from perpetual.toolkit.readers import agent_hint, agent_lines, agent_steps
from tests.cli.test_walk import TABLE
from tests.plugins.mcp.clients import error_of, opener, talk

RIGHTS = re.compile(
    r"perpetual approve|agents_may_approve|memory promote|budget set|perpetual trust|--allow-approve|approve --token"
    r"|methodology set (max_run_hours|required_gates|agents)|config set plugins"
)
WAITING = "Waiting for a person: e1, e2. You may propose more or end your turn."


@pytest.fixture
def waiting(project: Path) -> Path:
    """A project with experiments that wait, a note that is held, an approved run that the budget refuses."""
    with Lab.open(project) as lab:
        lab.hypotheses.add("m grows", metric="m", direction="max", mde=0.1, baseline=1.0)
        lab.experiments.propose("h1", command="true")  # e1, e2: proposed
        lab.experiments.propose("h1", command="true 2", replicates=3)
        lab.experiments.propose("h1", command="true 3", wall_s=36000.0)  # e3: approved, too dear
        lab.experiments.approve("e3")
        lab.settings.set_methodology("max_run_hours", "1")
        lab.memory.write("skills/a.md", "# A card\ndo this", type="skill_card")
    return project


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif value is not None:
        yield str(value)


def _check(shown: str, where: str) -> None:
    found = RIGHTS.search(shown)
    around = shown[max(0, found.start() - 200) : found.end() + 100] if found else ""
    assert found is None, f"{where}: {around}"


COMMANDS = (
    ("status", 0),
    ("brief", 0),
    ("hook session-start", 0),
    ("propose -h h1 --command 'true 9'", 0),
    ("propose --auto 2", 0),
    ("experiments", 0),
    ("experiments e1", 0),
    ("run e1", 4),
    ("run e3", 7),
    ("approve e1 e2", 4),
    ("approve", 2),
    ("budget", 0),
    ("budget set 100", 4),
    ("memory queue", 0),
    ("memory promote skills/a.md --why x", 4),
    ("methodology show", 0),
    ("methodology set agents_may_approve true", 4),
    ("methodology set max_run_hours 9", 4),
    ("config set plugins.disabled immune", 4),
    ("config show", 0),
    ("mcp --help", 0),
    ("--help", 0),
    ("init", 0),
)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_commands_under_an_agents_shell(
    waiting: Path, as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEMINI_CLI", "1")
    for line, code in COMMANDS:
        words = shlex.split(line)
        assert run([*(["--json"] if as_json else []), *words]) == code, (line, capsys.readouterr())
        _check("".join(capsys.readouterr()), line)


@pytest.mark.slow
def test_every_command_under_an_agents_shell(
    waiting: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command of the tree, as the walk drives it well and wrongly, with its help."""
    monkeypatch.setenv("AGENT", "1")
    long = ("chaos", "bench-policy", "demo", "plugins check", "mcp", "adopt")
    for name, row in TABLE.items():
        for line in (row.good, row.bad):
            if line is None or name in long or line.startswith("@"):
                continue
            run(shlex.split(line))
            _check("".join(capsys.readouterr()), line)
        if not name.startswith(("approve", "memory promote", "budget set", "trust")):  # whose usage is their name
            run([*name.split(), "--help"])
            _check("".join(capsys.readouterr()), f"{name} --help")


def test_people_keep_their_commands(waiting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line, said in (
        ("status", "perpetual approve e1 e2"),
        ("experiments e1", "next: perpetual approve e1"),
        ("run e1", "hint: perpetual approve e1"),
        ("run e3", "perpetual methodology set max_run_hours HOURS"),
        ("methodology show", "agents_may_approve"),
        ("mcp --help", "--allow-approve"),
    ):
        run(shlex.split(line))
        assert said in "".join(capsys.readouterr())


def test_the_kept_status_is_right_for_both_readers(
    waiting: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status"]) == 0  # keeps the document
    capsys.readouterr()
    for command in (["status"], ["status", "--json"]):
        shown = fastpath.answer(command)
        assert shown is not None
        assert "perpetual approve e1 e2" in shown
        assert WAITING not in shown
    for command in (["brief"], ["hook", "session-start"]):  # an agent's, whatever the shell says
        shown = fastpath.answer(command)
        assert shown is not None
        assert WAITING in shown
        _check(shown, str(command))
    monkeypatch.setenv("QWEN_CODE", "1")
    for command in (["status"], ["status", "--json"], ["brief"]):
        shown = fastpath.answer(command)
        assert shown is not None
        assert WAITING in shown
        _check(shown, str(command))
    assert run(["--json", "status"]) == 0
    assert json.loads(capsys.readouterr().out)["next"] == [WAITING, "perpetual run e3"]


def test_a_configured_mark_reaches_the_fast_path(
    waiting: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "set", "agent_marks", "MY_AGENT"]) == 0
    monkeypatch.setenv("MY_AGENT", "yes")
    assert run(["status"]) == 0
    shown = fastpath.answer(["status"])
    assert shown is not None
    for text in (capsys.readouterr().out, shown):
        assert WAITING in text
        _check(text, "status")


def test_agents_that_may_approve_are_shown_how(
    waiting: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["methodology", "set", "agents_may_approve", "true"]) == 0
    monkeypatch.setenv("CLAUDECODE", "1")
    assert run(["status"]) == 0
    assert "perpetual approve e1 e2" in capsys.readouterr().out


def test_no_mcp_text_names_a_right_of_persons(waiting: Path) -> None:
    """Every tool with what tempts it, every resource and prompt, and the words of the server itself."""

    async def deed(client: Client) -> list[tuple[str, str]]:
        told = [("instructions", client.instructions or "")]
        tools = (await client.list_tools()).tools
        told += [(tool.name, json.dumps([*_strings(tool.model_dump(mode="json"))])) for tool in tools]
        tempting: dict[str, Any] = {
            "hypothesis": "h1", "command": "true", "text": "x", "file": "skills/a.md", "content": "x", "query": "card",
            "verdict": "supports", "why": "x", "detail": True,
        }  # fmt: skip
        for tool in tools:
            known = tool.input_schema["properties"]
            for action in known.get("action", {}).get("enum", [None]):
                for whom in ("e1", None):
                    given = {key: value for key, value in tempting.items() if key in known}
                    given |= {key: whom for key in ("id", "experiment", "run") if key in known and whom}
                    given |= {"action": action} if action else {}
                    answer = await client.call_tool(tool.name, given)
                    told.append((f"{tool.name} {given}", answer.model_dump_json()))
        refused = await client.call_tool("perpetual_run", {"experiment": "e1"})
        assert error_of(refused)["hint"] == "Waiting for a person: e1. You may propose more or end your turn."
        dear = await client.call_tool("perpetual_run", {"experiment": "e3"})
        assert error_of(dear)["code"] == "budget"
        uris = ["live-state://research", "experiment://e1", "experiment://e99", "hypothesis://h1", "run://r9/log"]
        for uri in [*uris, "memory://skills/a.md"]:
            try:
                told.append((uri, (await client.read_resource(uri)).model_dump_json()))
            except Exception as problem:  # noqa: BLE001 - its words are what is looked at
                told.append((uri, str(problem)))
        for prompt in (await client.list_prompts()).prompts:
            told.append((prompt.name, prompt.model_dump_json()))
            told.append((prompt.name, (await client.get_prompt(prompt.name)).model_dump_json()))
        return told

    told = talk(opener(waiting), deed)
    assert len(told) > 50
    assert sum(WAITING in text for _, text in told) > 5
    for where, text in told:
        _check(text, where)


def test_scaffolded_files_name_no_right(waiting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["claude-code", "codex", "cursor", "opencode", "mcp"]
    assert run(["--json", "init", *(word for name in names for word in ("-H", name))]) == 0
    document = json.loads(capsys.readouterr().out)
    assert any("perpetual approve" in step for step in document["trust"])  # what a person is to do
    written = [waiting / item["path"] for item in document["files"]]
    assert len(written) > 10
    for file in written:
        _check(file.read_text("utf-8"), str(file))


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("perpetual approve e1", "Waiting for a person: e1. You may propose more or end your turn."),
        (
            "declare a smaller --wall or --cost, or raise the limit: perpetual budget set HOURS",
            "declare a smaller --wall or --cost",
        ),
        (
            "perpetual methodology set auto_propose true",
            "perpetual methodology set auto_propose true",
        ),
        ("it can run: perpetual run e1", "it can run: perpetual run e1"),
        ("perpetual trust", "tell the person what you propose and why; then propose more or end your turn"),
    ],
)
def test_a_hint_for_agents_names_no_right(hint: str, shown: str) -> None:
    assert agent_hint(hint) == shown


def test_steps_for_agents_name_no_right() -> None:
    steps = ["perpetual scan", "perpetual approve e1 e12", "perpetual budget set 4", "perpetual run e2"]
    ahead = "Waiting for a person: e1, e12. You may propose more or end your turn."
    assert agent_steps(steps) == ["perpetual scan", ahead, "perpetual run e2"]
    assert agent_lines("e1  proposed: x\nnext: perpetual approve e1 e12") == f"e1  proposed: x\n{ahead}"

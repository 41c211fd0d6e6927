"""An agent takes back its own proposals, and nothing else."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.errors import Conflict, NotPermitted, UsageError
from tests.plugins.mcp.clients import error_of, opener, talk


def _propose(project: Path, actor: str | None, count: int = 1) -> list[str]:
    with Lab.open(project, actor=actor) as lab:
        start = sum(lab.status()["experiments"].values())
        return [lab.experiments.propose(command=f"true {start + number}").id for number in range(count)]


def test_a_proposal_is_withdrawn_by_its_proposer(project: Path) -> None:
    _propose(project, "mcp:claude-code/2.1", 3)  # e1, e2, e3
    _propose(project, "mcp:codex/1")  # e4
    _propose(project, None)  # e5
    with Lab.open(project) as person:
        person.experiments.approve("e3")
        with pytest.raises(NotPermitted, match="was proposed by another"):
            person.experiments.withdraw("e4", why="x")  # a person rejects it
    with Lab.open(project, actor="mcp:claude-code/2.2") as lab:
        gone = lab.experiments.withdraw("e1", why="the wrong metric")
        assert (gone.id, gone.status) == ("e1", "rejected")
        event = lab.events()[-1]
        assert (event.kind, event.actor) == ("experiment_rejected", "mcp:claude-code/2.2")
        assert event.payload == {"reason": "the wrong metric", "withdrawn": True}
        seq = event.seq
        for id in ("e3", "e4", "e5"):
            for deed in (lab.experiments.withdraw, lab.experiments.reject):
                with pytest.raises(NotPermitted, match="for a person"):
                    deed(id, why="x")
        with pytest.raises(NotPermitted):
            lab.experiments.reject_all(["e2", "e5"], "x")  # all of them or none
        with pytest.raises(Conflict):
            lab.experiments.withdraw("e1", why="x")
        with pytest.raises(UsageError):
            lab.experiments.withdraw("e2", why=" ")
        assert lab.events()[-1].seq == seq
    with Lab.open(project, actor="mcp:unknown/?") as lab, pytest.raises(NotPermitted):
        lab.experiments.withdraw("e2", why="x")
    with Lab.open(project) as person:
        assert person.experiments.reject("e3", "a person may").status == "rejected"


def test_an_agent_withdraws_its_own_proposal_in_its_shell(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _propose(project, "mcp:gemini-cli/1")  # e1: the same agent over MCP
    _propose(project, None)  # e2
    monkeypatch.setenv("GEMINI_CLI", "1")
    _propose(project, None)  # e3
    for line, code in (
        ("reject e2 --why x", 4),
        ("reject e3 e2 --why x", 4),
        ("reject e1 e3 --why 'a better one follows'", 0),
        ("reject e3 --why x", 6),
    ):
        assert run(shlex.split(line)) == code, line
    monkeypatch.delenv("GEMINI_CLI")
    assert run(shlex.split("reject e2 --why x")) == 0


def test_an_agent_withdraws_its_own_proposal_over_mcp(project: Path) -> None:
    async def deed(client: Client) -> list[Any]:
        await client.call_tool("perpetual_propose", {"command": "true 1"})
        return [
            await client.call_tool("perpetual_propose", arguments)
            for arguments in (
                {"withdraw": "e1", "why": "typo"},
                {"withdraw": "e1", "why": "typo"},
                {"withdraw": "e9", "why": "typo"},
                {"withdraw": "e1"},
                {"withdraw": "e1", "command": "true"},
            )
        ]

    first, *others = talk(opener(project), deed)
    assert first.structured_content["experiment"]["status"] == "rejected"
    assert [error_of(other)["exit"] for other in others] == [6, 5, 2, 2]


def test_names_that_agents_often_give_are_understood(project: Path) -> None:
    async def deed(client: Client) -> list[Any]:
        call = client.call_tool
        return [
            await call("perpetual_hypotheses", {"action": "create", "statement": "deeper is better"}),
            await call("perpetual_hypotheses", {"action": "add", "statement": "a", "text": "b"}),
            await call("perpetual_run", {"experiments": "e1"}),
            await call("perpetual_propose", {"commandline": "true"}),
        ]

    made, both, run_, propose = talk(opener(project), deed)
    assert made.structured_content["hypothesis"]["statement"] == "deeper is better"
    assert error_of(both)["code"] == "usage"
    assert error_of(run_)["hint"].startswith("did you mean experiment? it has ")
    assert error_of(propose)["hint"].startswith("did you mean command")

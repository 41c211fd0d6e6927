"""Faults 18, 23 and 24 of the fault list where they concern agents: odd limits, foreign pages, other users' eyes."""

from __future__ import annotations

import json
import os
import shlex
import stat
from pathlib import Path
from typing import Protocol

import pytest

from perpetual import Lab
from perpetual.cli.app import run as command
from perpetual_agents.agents import Agents
from perpetual_agents.bundle import write
from perpetual_agents.serving import lock_of
from tests.plugins.agents.support import Scripted, agent, say, work

ODD = ("-1", "nan", "-inf", "inf", "1e400", "much", "1 000", "", "0x10", "٣٫٥ usd")


class Run(Protocol):
    """Runs a command in the project; answers its exit status and its document."""

    def __call__(self, *words: str) -> tuple[int, dict[str, object]]: ...


@pytest.fixture
def run(lab: Lab, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command, in this process."""

    def call(*words: str) -> tuple[int, dict[str, object]]:
        capsys.readouterr()
        status = command(["--project", str(lab.root), *words, "--json"])
        return status, json.loads(capsys.readouterr().out)

    return call


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("flag", ["--usd", "--tokens", "--calls", "--seconds"])
def test_18_a_limit_that_is_no_amount_is_refused(lab: Lab, run: Run, flag: str, value: str) -> None:
    """Exit 2 with a way out, and nothing is made or changed."""
    status, document = run("agent", "create", "scout", "--model", "test:echo", flag, value)
    assert status == 2, document
    assert Agents(lab).list().items == ()


def test_18_settings_and_times_that_cannot_be(lab: Lab, run: Run) -> None:
    """Also of what is there already; the values in force stay."""
    agent(lab, limits={"usd": 3})
    for line in ("limit scout --usd -5", "limit scout --usd nan", "set scout max_steps=0", "set scout timeout_s=inf",
                 "set scout window=many", "set scout nothing=1", "message scout x --timeout -3s",
                 "message scout x --timeout soon", "message scout x --at tomorrow-ish", "checkpoint scout --prune -1",
                 "goals scout add ''"):  # fmt: skip
        words = shlex.split(line)
        status, document = run("agent", *words)
        assert status == 2, (words, document)
    one = Agents(lab).get("scout")
    assert one.settings == {}
    assert not Agents(lab).pending("scout")


def test_24_files_of_agents_are_their_users_alone(lab: Lab, tmp_path: Path) -> None:
    """Locks and bundles cannot be read by others, whatever the umask is."""
    before = os.umask(0)
    try:
        id = agent(lab)
        work(lab, id, Scripted(say("hello")), "hello")
        write(lab, id, str(tmp_path / "scout.json"))
        with lock_of(lab, id):
            for path in (lab.root / ".perpetual" / "agents", *(lab.root / ".perpetual" / "agents").iterdir()):
                assert stat.S_IMODE(os.stat(path).st_mode) & 0o077 == 0, path
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(tmp_path / "scout.json").st_mode) == 0o600


def test_24_a_link_in_place_of_the_folder_of_locks_is_not_followed(lab: Lab, tmp_path: Path) -> None:
    """Nothing is written outside of the project."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (lab.root / ".perpetual" / "agents").symlink_to(outside)
    id = agent(lab)
    with pytest.raises(Exception, match="link"):
        work(lab, id, Scripted(say("no")), "hello")
    assert [*outside.iterdir()] == []


def test_a_message_that_waits_for_a_limit_is_no_answer(lab: Lab, run: Run) -> None:
    """Exit 7 with the way out, and the message is kept; without waiting it is exit 0."""
    assert run("agent", "create", "scout", "--model", "test:echo", "--calls", "1")[0] == 0
    assert run("agent", "start", "scout")[0] == 0
    assert run("agent", "message", "scout", "one")[1]["answer"] == "one"
    status, document = run("agent", "message", "scout", "two")
    assert status == 7
    assert "0 of 1 calls left" in str(document["error"])
    assert [one["text"] for one in Agents(lab).pending("scout")] == ["two"]
    assert run("agent", "message", "scout", "three", "--no-wait")[0] == 0

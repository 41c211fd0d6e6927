"""kill -9 at every step of a ten-step agent: what is recorded is not paid for again, what is in flight has its key."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_agents import show
from perpetual_agents.agents import Agents
from perpetual_agents.journal import Journal
from perpetual_agents.operations import start
from tests.plugins.agents.chat_server import Asked, Does, Server, serving

_STEPS = 10  # five requests to a model, five calls of a tool; the eleventh request ends the turn
_TOOL = """
import json, os

def measure(n: int, context: "ToolContext") -> str:
    '''Measures something, and says so in a file outside of the record.'''
    with open("effects.jsonl", "a") as file:
        file.write(json.dumps([n, context.key]) + "\\n")
    return f"measured {n}"

from perpetual_agents import ToolContext
"""


class Paid(Server):
    """A model that asks for the next measurement until there are five; each request is paid for."""

    def next(self, asked: Asked) -> Does:
        """Follows from what the request holds, as a model's answer does."""
        super().next(asked)
        done = sum(message["role"] == "tool" for message in asked.body["messages"])
        if done == _STEPS // 2:
            return Does("five were measured")
        return Does("", calls=[(f"call-{done}", "measure", json.dumps({"n": done}))])


def _run(folder: Path, server: Server, *words: str, die_at: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OPENAI_API_KEY": "test", "OPENAI_BASE_URL": server.url}
    if die_at:
        env["PERPETUAL_DIE_AT"] = die_at
    return subprocess.run([sys.executable, "-m", "perpetual", *words], cwd=folder, env=env, capture_output=True,
                          text=True, timeout=120, check=False)  # fmt: skip


@pytest.mark.slow
def test_killed_at_every_step_it_ends_once(tmp_path: Path) -> None:
    """Thirty kills along one turn: at each step once it is begun, once it has had its effect, and once it is done."""
    (tmp_path / "bench.py").write_text(_TOOL)
    with Lab.init(tmp_path, name="killed") as lab:
        made = Agents(lab).create("worker", model="openai:tiny-1", tools=["python:bench:measure"])
        start(lab, made.id)
    with serving(Paid()) as server:
        words = ("agent", "message", "worker", "measure five", "--key", "k")
        first = _run(tmp_path, server, *words, die_at="agent:begun:1")
        assert first.returncode == -signal.SIGKILL, first.stderr
        for number in range(1, _STEPS + 1):
            for place in ("agent:begun", "agent:effect", "agent:done"):
                if (number, place) == (1, "agent:begun"):
                    continue
                killed = _run(tmp_path, server, "agent", "wait", "m1", die_at=f"{place}:{number}")
                assert killed.returncode == -signal.SIGKILL, (number, place, killed.stderr)
        with Lab.open(tmp_path) as lab:
            one = Agents(lab).get("worker")
            assert show.agent_line(lab, one)["activity"] == "interrupted"
        again = _run(tmp_path, server, *words)
        assert again.stdout.strip() == "five were measured"
        asked = [one.headers["idempotency-key"] for one in server.asked]
    # Each request was answered once without being recorded (killed at its effect), and once more; the last but once.
    models = _STEPS // 2
    assert sorted(Counter(asked).values()) == [1, *[2] * models]
    effects = [json.loads(line) for line in (tmp_path / "effects.jsonl").read_text().splitlines()]
    assert [n for n, _ in effects] == [n for n in range(models) for _ in range(2)]
    assert len({key for _, key in effects}) == models
    with Lab.open(tmp_path) as lab:
        one = Agents(lab).get("worker")
        steps = [*Journal(lab, one.id, one.branch).newest_first()][::-1]
        done = [step.key for step in steps if step.phase == "done" and step.kind in ("model", "tool")]
        assert len(done) == len(set(done)) == _STEPS + 1
        message = Agents(lab).message("m1")
        assert (message["state"], message["attempts"]) == ("done", 31)
        assert lab.storage.verify() == []

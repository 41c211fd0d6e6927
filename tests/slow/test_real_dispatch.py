"""Real coding agents, driven by the lab: OpenCode over ACP, Claude Code and Codex by their command lines.

The model is a program on 127.0.0.1. What a turn did is looked up in the lab's record, in the model's requests and in
the list of processes.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import Any

import psutil
import pytest

from perpetual import Lab
from perpetual_harnesses.dispatch.records import TURN
from perpetual_harnesses.testing import living
from tests.slow.test_real_harnesses import STATEMENT, Bench, bench, claude, clients, codex, opencode

__all__ = ["bench", "claude", "clients", "codex", "opencode"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def ask(agent: Bench, *words: str, status: int = 0) -> dict[str, Any]:
    """Asks on the command line; nothing of the turn is left."""
    done = agent.run("perpetual", "ask", *words, "--json")
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    found = dict(json.loads(done.stdout))
    with Lab.open(agent.folder) as lab:
        assert living(str(lab.records(TURN).get(found["id"])["mark"])) == []
    return found


def statements(agent: Bench) -> list[str]:
    with Lab.open(agent.folder) as lab:
        return [one.statement for one in lab.hypotheses.list().items]


def test_opencode_is_driven_over_acp(opencode: Bench) -> None:
    first = ask(opencode, "Register the hypothesis.")
    assert (first["harness"], first["dispatcher"], first["outcome"]) == ("opencode", "acp", "done")
    assert first["text"] == opencode.model.done
    assert first["tools"] == ["perpetual_perpetual_hypotheses"]
    assert first["cost"] == pytest.approx(5e-5)  # two calls of 11 and 7 tokens at 1 and 2 dollars a million
    assert first["tokens"] is None  # it reports the last call alone
    assert STATEMENT in statements(opencode)
    assert "You do machine-learning research" in opencode.model.turns()[0].text  # the scaffold's agent
    second = ask(opencode, "--continue", "And what was that?")
    assert second["session_id"] == first["session_id"]
    assert second["cost"] == pytest.approx(5e-5), "the sum of the session is not this turn's cost"
    assert "Register the hypothesis." in opencode.model.turns()[-1].text


def test_opencode_asks_for_what_the_policy_refuses(opencode: Bench) -> None:
    opencode.model.tool = "bash"
    opencode.model.arguments = {"command": "touch made.txt", "description": "perpetual_scan"}
    found = ask(opencode, "Do it.", status=4)
    assert (found["outcome"], len(found["refused"])) == ("permission_refused", 1)
    assert not (opencode.folder / "made.txt").exists()
    opencode.run("perpetual", "config", "set", "plugins.harnesses.allow", '["execute"]')
    assert ask(opencode, "Do it.")["outcome"] == "done"
    assert (opencode.folder / "made.txt").exists()


def test_opencode_is_cancelled_in_the_middle(opencode: Bench) -> None:
    opencode.model.hesitates = lambda request: bool(request.tools)
    process = subprocess.Popen([sys.executable, "-P", "-m", "perpetual", "ask", "Wait.", "--json"],
                               cwd=opencode.folder, env=opencode.env, stdout=subprocess.PIPE)  # fmt: skip
    deadline = time.monotonic() + 120
    while not opencode.model.turns() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert opencode.model.turns()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    opencode.model.go_on.set()
    found = json.loads(out)
    assert (process.returncode, found["outcome"]) == (130, "cancelled")
    asked = len(opencode.model.requests)
    with Lab.open(opencode.folder) as lab:
        assert living(str(lab.records(TURN).get(found["id"])["mark"])) == []
    assert len(opencode.model.requests) == asked


def test_claude_code_is_driven_by_its_command_line(claude: Bench) -> None:
    found = ask(claude, "Register the hypothesis.", "--model", "mock-model")
    assert (found["harness"], found["dispatcher"], found["outcome"]) == ("claude-code", "argv", "done")
    assert (found["tokens_in"], found["tokens_out"]) == (22, 14)
    assert found["tools"] == ["mcp__perpetual__perpetual_hypotheses"]
    assert STATEMENT in statements(claude)
    second = ask(claude, "--continue", "And what was that?", "--model", "mock-model")
    assert second["session_id"] == found["session_id"]
    assert second["cost"] == pytest.approx(found["cost"])
    claude.model.tool, claude.model.arguments = "Bash", {"command": "touch made.txt", "description": "x"}
    refused = ask(claude, "Do it.", "--model", "mock-model", status=4)
    assert refused["refused"] == ["Bash"]
    assert not (claude.folder / "made.txt").exists()


def test_codex_is_driven_by_its_command_line(codex: Bench) -> None:
    found = ask(codex, "Register the hypothesis.")
    assert (found["harness"], found["dispatcher"], found["outcome"]) == ("codex", "argv", "done")
    assert (found["tokens_in"], found["tokens_out"], found["cost"]) == (22, 14, None)
    assert STATEMENT in statements(codex)
    second = ask(codex, "--continue", "And what was that?")
    assert second["session_id"] == found["session_id"]
    assert second["tokens"] == 36, "the sum of the thread is not this turn's"


def test_a_refused_key_is_a_login(claude: Bench, codex: Bench) -> None:
    """Both agents in one project, on a model that answers 401."""
    claude.model.refuses = True
    assert ask(claude, "?", "--harness", "claude-code", "--model", "mock-model", status=4)["outcome"] == "auth_required"
    claude.more |= codex.more
    assert ask(codex, "?", "--harness", "codex", status=4)["outcome"] == "auth_required"


_THINKS = """
from perpetual_harnesses.dispatch.thinker import codex
from perpetual_thinkers.testing import example
thinker = codex({"model": "", "timeout_s": 120.0, "usd_per_answer": 1.0})
reply = thinker.think(example())
print(reply.text, reply.tokens_in, reply.tokens_out, sep="|")
"""


def test_a_harness_is_a_thinker(codex: Bench) -> None:
    """It works in a folder of its own, without the lab's tools."""
    done = codex.run(sys.executable, "-c", _THINKS)
    assert done.stdout == f"{codex.model.done}|11|7\n", done.stderr
    (request,) = codex.model.turns()
    assert "Answer with one JSON object of the schema." in request.text
    assert not [name for name in request.tools if name.startswith("perpetual")]
    assert str(codex.folder) not in request.text


TRAIN = """
import sys
rate = float(sys.argv[sys.argv.index("--lr") + 1])
print("score:", 0.6 + rate / 10)
"""


def test_a_night_in_which_a_harness_thinks(opencode: Bench) -> None:
    """The daemon runs what was approved, asks OpenCode, and ends where its proposal waits for a person."""
    answer = {"note": "The run ended as it should.", "ideas": ["a smaller step"],
              "proposals": [{"like": "e1", "args": {"--lr": 0.01}, "why": "a smaller step may do better"}]}  # fmt: skip
    opencode.model.tool, opencode.model.done = "no such tool", json.dumps(answer)
    (opencode.folder / "train.py").write_text(TRAIN)
    for words in (
        ("hypotheses", "add", "smaller steps help", "--metric", "score", "--direction", "max", "--mde", "0.1",
         "--baseline", "0.5"),
        ("propose", "-h", "h2", "--command", f"{sys.executable} train.py --lr 0.1", "--noise", "0.1"),
        ("approve", "e1"),
    ):  # fmt: skip
        assert opencode.run("perpetual", *words).returncode == 0, words
    done = opencode.run("perpetual", "daemon", "--harness", "opencode", "--interval", "1", "--json")
    assert done.returncode == 4, f"{done.stdout}\n{done.stderr}"
    assert json.loads(done.stdout.splitlines()[-1])["reason"] == "waiting_for_approval"
    with Lab.open(opencode.folder) as lab:
        assert lab.runs.get("r1").status == "done"
        proposed = lab.experiments.get("e2")
        assert (proposed.status, str(proposed.command).split()[1:]) == ("proposed", ["train.py", "--lr", "0.01"])
        assert proposed.proposed_by == "agent:thinker-opencode"
        (made,) = lab.records("thinkers.thought").find(state="used", kind_of_question="propose")
        assert "e2" in json.dumps(made["outcome"])
    # A question that was open as the daemon ended is asked by the next one; its agent was ended with the daemon.
    homes = [one.environ().get("HOME") for one in psutil.process_iter() if "opencode" in one.name()]
    assert str(opencode.home) not in homes

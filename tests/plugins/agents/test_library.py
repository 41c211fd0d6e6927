"""The library of three kinds of agents: it ends through Ctrl-C and kill -9, and pays for nothing that is recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_agents.agents import Agents
from tests.plugins.agents.chat_server import Asked, Does, Server, serving
from tests.support import until

PROGRAM = Path(__file__).parents[2] / "fixtures" / "agents" / "library.py"
PLAN = {"modules": [{"path": "slug.py", "api": "slug(text)"}, {"path": "wrap.py", "api": "wrap(text)"}]}


class Team(Server):
    """Answers as an architect, a coder or a reviewer would, by what the request holds."""

    def next(self, asked: Asked) -> Does:
        """Follows from the conversation alone."""
        super().next(asked)
        messages = asked.body["messages"]
        system, last = messages[0]["content"], messages[-1]
        task = next(one["content"] for one in reversed(messages) if one["role"] == "user")
        if "architect" in system:
            return Does(json.dumps(PLAN)) if last["role"] == "tool" else Does("", calls=[("f", "files", "{}")])
        if "coder" in system:
            if last["role"] == "tool":
                return Does("written")
            path = "wrap.py" if "wrap.py" in task else "slug.py"
            text = f"# {path}" + (" with tests" if "no tests" in task else "")
            return Does("", calls=[("w", "write", json.dumps({"path": path, "text": text}))])
        path = "wrap.py" if "wrap.py" in task else "slug.py"
        if last["role"] != "tool":
            return Does("", calls=[("r", "read", json.dumps({"path": path}))])
        fine = "with tests" in last["content"] or path == "slug.py"
        return Does(json.dumps({"verdict": "PASS" if fine else "NEEDS_FIXES", "feedback": "" if fine else "no tests"}))


def started(folder: Path, server: Server) -> subprocess.Popen[str]:
    """The program at work in a project."""
    env = {**os.environ, "OPENAI_API_KEY": "test", "OPENAI_BASE_URL": server.url}
    return subprocess.Popen([sys.executable, str(PROGRAM)], cwd=folder, env=env, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)  # fmt: skip


def reached(server: Server, program: subprocess.Popen[str], requests: int) -> bool:
    """Whether the program has made so many requests, or has ended."""
    return len(server.asked) >= requests or program.poll() is not None


@pytest.mark.slow
def test_it_ends_through_interrupts_and_kills(tmp_path: Path) -> None:
    """Ctrl-C after the plan, kill -9 while both code, then to the end; each question is paid for once or in flight."""
    Lab.init(tmp_path, name="library").close()
    with serving(Team()) as server:
        for after, sign, status in ((3, signal.SIGINT, 130), (6, signal.SIGKILL, -signal.SIGKILL)):
            program = started(tmp_path, server)
            until(partial(reached, server, program, after))
            program.send_signal(sign)
            said = program.communicate(timeout=60)
            assert program.returncode == status, said
        program = started(tmp_path, server)
        out, err = program.communicate(timeout=120)
        assert (program.returncode, out) == (0, "passed: slug.py, wrap.py\n"), err
        again = started(tmp_path, server)
        before = len(server.asked)
        assert again.communicate(timeout=120)[0] == out
        assert len(server.asked) == before
        asked = Counter(one.headers["idempotency-key"] for one in server.asked)
    assert max(asked.values()) <= 2
    assert sum(number == 2 for number in asked.values()) <= 4  # in flight at the two ends, of two agents at most
    assert (tmp_path / "library" / "wrap.py").read_text() == "# wrap.py with tests"
    with Lab.open(tmp_path) as lab:
        agents = {one.name: one for one in Agents(lab).list().items}
        assert agents.keys() == {"architect", "coder-1", "coder-2", "reviewer"}
        assert agents["architect"].data["fields"] == {"planned": 2}
        assert not Agents(lab).open_messages()

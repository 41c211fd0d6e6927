"""One lab, three real coding agents after one another: each is shown first how the one before left the research."""

from __future__ import annotations

import json

import pytest

from perpetual import Lab
from perpetual_loop.handover import handovers
from tests.slow.test_real_harnesses import Bench, bench, claude, clients, codex, opencode

__all__ = ["bench", "claude", "clients", "codex", "opencode"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def shown(agent: Bench, place: int) -> str:
    """Returns the handover in the first request that an agent made since a number of requests."""
    text = json.dumps(next(request.body for request in agent.model.requests[place:] if request.tools))
    start = text.index("Handover:")
    assert text.rfind("Next:", 0, start) > 0, "it comes right after what to do next"
    return text[start : start + 600]


def test_each_agent_is_shown_how_the_one_before_left(claude: Bench, codex: Bench, opencode: Bench) -> None:
    with Lab.open(claude.folder) as lab:
        made = lab.experiments.propose(command="true", metric="loss", direction="min")
    said = claude.model.done

    done = claude.run("claude", "-p", "Register the hypothesis.", "--output-format", "json", "--model", "mock-model")
    assert done.returncode == 0, done.stdout + done.stderr
    with Lab.open(claude.folder) as lab:
        (first,) = handovers(lab)
    assert (first.harness, first.last_words, first.waiting) == ("claude-code", said, (made.id,))

    place = len(codex.model.requests)
    done = codex.run("codex", "exec", "--json", "--skip-git-repo-check", "--disable", "unbounded_connection_retries",
                     "--dangerously-bypass-hook-trust", "Register the hypothesis.")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    text = shown(codex, place)
    assert "claude-code ended a turn at" in text
    assert f"waiting for a person: {made.id}" in text
    assert f"its last words: {said}" in text

    place = len(opencode.model.requests)
    done = opencode.run("opencode", "run", "--format", "json", "--agent", "perpetual", "--title", "t", "Go on.")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "codex ended a turn at" in shown(opencode, place)

    # And what the lab itself drives is handed over, too.
    found = json.loads(codex.run("perpetual", "ask", "Register the hypothesis.", "--harness", "codex", "--json").stdout)
    assert found["outcome"] == "done"
    with Lab.open(claude.folder) as lab:
        assert handovers(lab)[0].session == found["session_id"]

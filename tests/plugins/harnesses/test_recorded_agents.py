"""What real agents said over ACP, played to the dispatcher: each one's events, usage and permissions are read right.

The streams were recorded with the versions that stand in their first lines, on a model of one rule; long lists in them
are cut. The real programs run in the slow lane and in `make soak`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from perpetual_harnesses.dispatch.base import Limits, Row, Server, Task, Turn
from perpetual_harnesses.dispatch.environment import new_mark
from perpetual_harnesses.dispatch.over_acp import AcpDispatcher

STREAMS = Path(__file__).parents[2] / "fixtures" / "acp_streams"
ANSWER = "The hypothesis is on record; nothing else was asked."


def turn(name: str, folder: Path, *, mode: str = "", usage: str = "prompt") -> Turn:
    words = (sys.executable, "-S", str(STREAMS / "replay.py"), str(STREAMS / f"{name}.jsonl"))
    server = Server("perpetual", "perpetual", ("mcp",), tools=frozenset(("perpetual_hypotheses",)))
    task = Task("Register the hypothesis.", folder, new_mark(), servers=(server,), limits=Limits(30.0))
    return AcpDispatcher().turn(Row(name, acp=words, mode=mode, usage=usage), task)


def test_claude_code_asks_for_the_servers_tool(tmp_path: Path) -> None:
    found = turn("claude", tmp_path, mode="default")
    assert (found.outcome, found.text) == ("done", ANSWER)
    assert [(one.title, one.allowed) for one in found.asked] == [("mcp__perpetual__perpetual_hypotheses", True)]
    assert [(one.title, one.status) for one in found.tools] == [("mcp__perpetual__perpetual_hypotheses", "completed")]
    assert (found.used.tokens_in, found.used.tokens_out, found.used.steps) == (22, 14, 2)
    assert found.used.usd == pytest.approx(0.000552)


def test_claude_code_is_refused_its_shell(tmp_path: Path) -> None:
    found = turn("claude-refused", tmp_path, mode="default")
    assert found.outcome == "permission_refused"
    assert [(one.kind, one.allowed) for one in found.asked] == [("execute", False)]
    assert [one.status for one in found.tools] == ["failed"]


def test_codex_marks_calls_of_servers(tmp_path: Path) -> None:
    found = turn("codex", tmp_path)
    assert found.outcome == "done"
    assert found.text.endswith(ANSWER)
    assert [(one.title, one.status) for one in found.tools] == [("mcp.perpetual.perpetual_hypotheses", "completed")]
    assert (found.used.tokens_in, found.used.tokens_out, found.used.usd) == (22, 14, None)


def test_opencode_reports_its_last_step_alone(tmp_path: Path) -> None:
    found = turn("opencode", tmp_path, usage="last_step")
    assert (found.outcome, found.text) == ("done", ANSWER)
    assert (found.used.tokens_in, found.used.steps) == (None, 2)
    assert found.used.usd == pytest.approx(5e-05)


def test_qwen_reports_usage_with_its_words(tmp_path: Path) -> None:
    found = turn("qwen", tmp_path, mode="default")
    assert (found.outcome, found.text) == ("done", ANSWER)
    assert (found.used.tokens_in, found.used.tokens_out) == (11, 7)


def test_copilot_reports_usage_at_the_end(tmp_path: Path) -> None:
    found = turn("copilot", tmp_path)
    assert (found.outcome, found.text) == ("done", ANSWER)
    assert (found.used.tokens_in, found.used.tokens_out) == (11, 7)

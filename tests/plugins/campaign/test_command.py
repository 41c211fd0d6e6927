"""The command `campaign` and the tool: what they print, and what they answer as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import StatusSection
from perpetual.cli.app import run
from perpetual.testing.sections import StatusSectionContract
from perpetual_campaign.section import build as build_section
from perpetual_campaign.tool import build
from tests.plugins.campaign.support import COMMAND, git, repository

Json = dict[str, Any]
NEW = ("new", "demo", "--command", COMMAND, "--metric", "loss", "--direction", "min", "--edit", "model.py", "--wall",
       "60s", "--mde", "0.05")  # fmt: skip


class TestCampaigns(StatusSectionContract):
    @pytest.fixture
    def section(self) -> StatusSection:
        return build_section({})


@pytest.fixture
def call(project: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Json]:
    """Calls `perpetual campaign ... --json`, and returns what it answers."""
    repository(project)

    def answer(*words: str, status: int = 0) -> Json:
        assert run(["campaign", *words, "--json"]) == status
        out, err = capsys.readouterr()
        found: Json = json.loads(out or err)
        return found

    return answer


def test_a_campaign_from_its_start_to_its_end(
    call: Callable[..., Json], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("list")["items"] == []
    made = call(*NEW, "--budget-run-hours", "1")
    assert (made["schema"], made["state"], made["edit"]) == ("perpetual.campaign/1", "open", ["model.py"])
    assert made["worst_case_run_hours"] == pytest.approx(0.2)
    one = call("candidate", "demo", "an idea")
    assert (one["id"], one["state"], one["next"]) == ("c1", "editing", "perpetual campaign submit c1")
    assert (Path(one["worktree"]) / "model.py").exists()
    assert one["worktree"].startswith(str(project / ".perpetual"))
    monkeypatch.chdir(one["worktree"])
    problem = call("submit", "c1", status=7)
    monkeypatch.chdir(project)
    assert problem["error"]["code"] == "no_change"
    with Lab.open() as lab:
        assert lab.status()["sections"]["campaigns"]["data"] == {"demo": {"live": 1, "kept": 0, "archived": 0}}
        found = build({})(lab, name="demo")
        assert [item["id"] for item in found["candidates"]] == ["c1"]
        assert found["next"] == "perpetual campaign submit c1"
        assert build({})(lab, name="c1")["items"][0]["name"] == "demo"
        assert build({})(lab)["candidates"] == []
    dropped = call("drop", "c1", "--why", "not wanted")
    assert (dropped["outcome"], dropped["worktree"]) == ("dropped", None)
    assert dropped["branch"] == "perpetual/archive/demo/c1"
    call("candidate", "demo", "another")
    closed = call("close", "demo")
    assert (closed["state"], closed["archived"], closed["live"], closed["tried"]) == ("closed", 2, 0, 0)
    assert call("candidate", "demo", "a third", status=6)["error"]["message"] == "demo is closed"
    assert call("show", "C2")["id"] == "c2"
    assert git(project, "branch", "--show-current") == "main"


def test_the_last_line_of_a_new_candidate_is_its_worktree(
    call: Callable[..., Json], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(*NEW)
    assert run(["campaign", "candidate", "demo", "an \x1b[2Jidea"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == str(project / ".perpetual" / "campaigns" / "demo" / "c1")
    assert "\x1b" not in lines[0]

"""`perpetual auto`, which plugins of coding agents and people call."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_loop.lease import arm


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as lab:
        lab.hypotheses.add("warm-up lowers the loss")
        yield lab


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `perpetual auto ...`; the document and the exit status."""

    def call(*words: str) -> tuple[dict[str, Any], int]:
        code = run(["--json", "auto", *words])
        return json.loads(capsys.readouterr().out), code

    return call


def test_start_next_and_stop_reach_it_from_outside(lab: Lab, ask: Any) -> None:
    document, code = ask("start", "--session", "ses_1", "--rounds", "1", "--harness", "opencode")
    assert (code, document["owner"]["session"], document["owner"]["rounds_left"]) == (0, "ses_1", 1)
    assert ask("next", "--session", "ses_1")[0]["reason"] == "no_news"
    assert ask("next", "--session", "ses_1")[0]["reason"] == "not_armed"
    ask("start", "--session", "ses_1", "--rounds", "1")
    lab.hypotheses.add("another")
    document, code = ask("next", "--session", "ses_1")
    assert (code, document["go_on"], document["rounds_left"]) == (0, True, 0)
    assert document["text"].startswith("Go on with the next round of /auto")
    lab.hypotheses.add("a third")
    document, code = ask("next", "--session", "ses_1", "--harness", "opencode")
    assert (code, document["go_on"], document["reason"], document["text"]) == (0, False, "rounds", None)
    document, _ = ask()
    assert (document["owner"], document["last_reason"]) == (None, "rounds")
    assert [one["session"] for one in document["handovers"]] == ["ses_1"]
    ask("start", "--session", "ses_1")
    assert ask("stop", "--why", "enough")[0]["last_explanation"] == "enough"
    assert ask("status")[0]["owner"] is None


def test_a_second_session_is_refused_by_name(lab: Lab, ask: Any) -> None:
    ask("start", "--session", "ses_1")
    document, code = ask("start", "--session", "ses_2")
    assert (code, document["error"]["code"]) == (6, "loop_owned")
    assert document["error"]["message"].startswith("session ses_1 of other owns the loop until ")


def test_an_agent_does_not_arm_itself_in_its_shell(lab: Lab, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    document, code = ask("start", "--session", "ses_1")
    assert (code, document["error"]["code"]) == (4, "not_permitted")
    assert ask("stop")[1] == 0  # stopping is anyone's


def test_the_process_that_frees_it_must_live(lab: Lab, ask: Any) -> None:
    assert ask("start", "--session", "ses_1", "--pid", "4194305")[1] == 2
    document, _ = ask("start", "--session", "ses_1", "--pid", str(os.getpid()))
    assert document["owner"]["session"] == "ses_1"


def test_people_read_it_on_lines(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["auto"]) == 0
    assert capsys.readouterr().out == "the loop is free\n"
    arm(lab, "d-1", harness="daemon", rounds=None)
    assert run(["auto"]) == 0
    assert capsys.readouterr().out.startswith("the daemon owns the loop until ")
    assert run(["auto", "stop"]) == 6

"""The calibration board and the commands, over runs that have ended."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_autonomy.board import calibration
from perpetual_autonomy.tool import build
from perpetual_autonomy.words import board_lines
from tests.plugins.autonomy.conftest import AGENT
from tests.support import LONG_S


@pytest.mark.slow
def test_the_board_counts_what_was_declared(agent: Lab, person: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perpetual_autonomy.board.FEWEST", 2)
    made = []
    for prior, effect in ((0.7, 0.4), (0.6, -0.4), (None, 0.4)):
        claim = agent.hypotheses.add(
            f"{prior} {effect}", metric="acc", direction="max", mde=0.1, baseline=0.5, prior=prior
        )
        command = f"""sh -c 'printf "acc={0.5 + effect:.2f}%d" $((PERPETUAL_SEED % 10))'"""
        made.append(agent.experiments.propose(claim.id, command=command, replicates=4, cost_run_hours=1.0).id)
        person.experiments.approve(made[-1])
        person.runs.launch(made[-1], every=True)
    person.wait(made, timeout_s=LONG_S)
    (board,) = calibration(person, proposer=AGENT)["proposers"]
    priors, costs = board["priors"], board["costs"]
    assert (priors["decided"], priors["supported"], priors["not_declared"], priors["open"]) == (2, 1, 1, 1)
    assert priors["brier"] is not None
    assert priors["brier"]["score"] == pytest.approx((0.3**2 + 0.6**2) / 2)
    assert (priors["brier"]["base_rate"], priors["brier"]["even"]) == (0.25, 0.25)
    assert [(one["n"], one["supported"]) for one in priors["bins"]] == [(1, 0), (1, 1)]
    assert (costs["experiments"], costs["runs"], costs["runs_above"]) == (4, 13, 0)
    assert costs["median_ratio"] is not None
    assert costs["median_ratio"] < 0.1
    assert costs["low"] is None  # four values bound no median at 95 %
    assert board["predictions"]["why"] == "no claim says how large its effect is (--claim value)"
    text = "\n".join(board_lines(calibration(person)))
    assert "Brier score 0.225 over 2 decided claims, 1 supported" in text
    assert "1 with the default prior" in text


def test_little_is_said_of_little(agent: Lab) -> None:
    (board,) = calibration(agent)["proposers"]
    assert (board["priors"]["brier"], board["priors"]["bins"], board["costs"]["median_ratio"]) == (None, [], None)
    assert board["costs"]["share_above"] is None
    assert "nothing is said of fewer than 10" in str(board["priors"]["why"])
    assert calibration(agent, proposer="agent:other")["proposers"] == []


def test_the_commands_answer_their_documents(
    agent: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(agent.root)
    for words, schema in (
        (["calibration"], "calibration"),
        (["rights"], "rights"),
        (["rights", "revoke", AGENT, "claim-run", "--why", "look"], "right_changed"),
        (["rights", "restore", AGENT, "claim-run", "--why", "fine"], "right_changed"),
    ):
        capsys.readouterr()
        assert run([*words, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        known = json.loads(files("perpetual_cli").joinpath("schemas", f"{schema}.json").read_text("utf-8"))
        jsonschema.validate(document, known)
    assert run(["rights", "revoke", AGENT, "claims", "--why", "x"]) == 2


def test_a_name_forges_no_line(project: Path) -> None:
    with Lab.open(project, actor="agent:x\n  in force\x1b[2J") as lab:
        lab.hypotheses.add("x", prior=0.6)
        answer = build({})(lab)
    assert not any("\n" in text or "\x1b" in text for text in answer["calibration"])

"""All claims together: what the status, the list, the brief and the report say of them is one thing."""

from __future__ import annotations

import json

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_report.document import render

WORDS = "1 supported, under 0.1 of them expected to be false; 2 of 2 tested stand when taken together (h1, h2)"
COMMAND = (
    "python -c \"import os, random; print('loss:', {} + random.Random(os.environ['PERPETUAL_SEED']).gauss(0, 0.01))\""
)


def _tested(lab: Lab, statement: str, loss: float, replicates: int) -> str:
    claim = lab.hypotheses.add(statement, metric="loss", direction="min", mde=0.2, baseline=2.0)
    trial = lab.experiments.propose(claim.id, command=COMMAND.format(loss), replicates=replicates)
    lab.experiments.approve(trial.id)
    lab.wait([started.id for started in lab.runs.launch(trial.id, every=True)], timeout_s=60)
    return claim.id


def test_every_face_says_the_same_of_all_claims(project: object, capsys: pytest.CaptureFixture[str]) -> None:
    with Lab.open() as lab:
        assert lab.status()["family"]["discoveries"] == []
        helps, harms = _tested(lab, "it helps", 1.7, 6), _tested(lab, "it harms", 2.4, 5)
        by_hand = lab.hypotheses.add("a person says so")
        lab.hypotheses.update(by_hand.id, status="supported", why="seen elsewhere")
        lab.hypotheses.add("never tried")
        family = lab.status()["family"]
        assert (family["tested"], family["supported"], family["alpha"]) == (2, 1, 0.05)
        assert {*family["discoveries"]} == {helps, harms}
        assert 0 < family["expected_false"] < 0.1
        assert family["base_rate"] is not None
        assert 0 < family["base_rate"] < 1
        words = family["sentence"].replace("(h2, h1)", "(h1, h2)")
        assert words == WORDS
        assert f"- together: {family['sentence']}" in lab.brief(3000)
        report = render(lab)
        assert "Of 1 supported 0.0" in report
        assert "2 of 2 tested hypotheses stand" in report
    for command in ("status", "hypotheses list"):
        assert run(command.split()) == 0
        assert f"together: {family['sentence']}" in capsys.readouterr().out
    assert run(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["family"] == family

"""What a person has rejected is not proposed again, by whichever proposer; what was rejected is no pattern either."""

from __future__ import annotations

from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Draft
from perpetual.cli.app import run
from perpetual.records import Hypothesis


def _claim(lab: Lab, hypothesis: Hypothesis, command: str = "echo acc=0.5", **given: Any) -> str:
    design = {"metric": "acc", "direction": "max", "mde": 0.1, "noise": 0.1, "baseline": 0.5}
    return lab.experiments.propose(hypothesis.id, command=command, wall_s=60.0, **{**design, **given}).id


def test_a_rejected_draft_of_any_proposer_stays_rejected(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    hypothesis = lab.hypotheses.add("it matters", metric="acc", direction="max", mde=0.1, baseline=0.5)
    first = _claim(lab, hypothesis)
    lab.experiments.approve(first)
    lab.wait([lab.runs.launch(first)[0].id], timeout_s=60)
    asked = iter(range(1, 100))
    monkeypatch.setattr(
        "perpetual_metrics.rules.FullScale.drafts",
        lambda *_: [Draft(hypothesis.id, {"extends": first, "replicates": next(asked)}, "more of it")],
    )
    design = {"metric": "acc", "direction": "max", "mde": 0.1, "noise": 0.1, "baseline": 0.5}
    monkeypatch.setattr(
        "perpetual_metrics.rules.Proxies.drafts",
        lambda *_: [
            Draft(hypothesis.id, {"command": "echo acc=0.7", "replicates": next(asked), **design}, "another idea")
        ],
    )
    made = lab.loop.propose()
    assert len(made) == 2
    for id in made:
        lab.experiments.reject(id, why="no")
    assert lab.loop.propose() == []
    assert not any(pick.new for pick in lab.experiments.propose_auto(5, dry_run=True))


def test_a_grid_follows_what_stands_and_not_what_was_rejected(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("some lr helps", params={"lr": [1, 2, 3]})
    slip = _claim(lab, hypothesis, "ecko acc=0.5", config={"lr": 1})
    wrong = lab.loop.propose()
    for id in (slip, *wrong):
        lab.experiments.reject(id, why="a slip")
    assert lab.loop.propose() == []
    _claim(lab, hypothesis, "echo acc=0.5", config={"lr": 1})
    made = [lab.experiments.get(id) for id in lab.loop.propose()]
    assert [(item.command, item.config["lr"]) for item in made] == [("echo acc=0.5", 2), ("echo acc=0.5", 3)]
    lab.experiments.reject(made[0].id, why="no")
    assert lab.loop.propose() == []


def test_auto_picks_one_where_no_number_is_given(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    hypothesis = lab.hypotheses.add("some lr helps", params={"lr": [1, 2, 3]})
    id = _claim(lab, hypothesis, config={"lr": 1})
    assert run(["propose", "--auto", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("new") == 1
    for item in lab.experiments.list().items:
        lab.experiments.reject(item.id, why="no")
    assert id
    assert run(["propose", "--auto"]) == 0
    assert "it has no experiment that claims something" in capsys.readouterr().out

"""Screens that a person copies from: settings as JSON, remarks one by one, a way on where a baseline is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run


def shown(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command printed on both streams."""
    assert run([*words]) == code
    found = capsys.readouterr()
    return found.out + found.err


def test_settings_of_an_experiment_are_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Lab.open() as lab:
        lab.experiments.propose(command="true", config={"lr": 0.1, "name": "é", "wide": True}, env={"A": "b c"})
    text = shown(capsys, "experiments", "e1")
    assert 'config: {"lr": 0.1, "name": "é", "wide": true}' in text
    assert 'env: {"A": "b c"}' in text


def test_each_remark_on_a_hypothesis_has_its_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Lab.open() as lab:
        h = lab.hypotheses.add("it helps", metric="acc", direction="max", mde=0.1, baseline=0.5)
        made = lab.experiments.propose(h.id, command="echo acc=0.6", replicates=3)
        lab.experiments.approve(made.id)
        lab.wait([item.id for item in lab.runs.launch(made.id, every=True)], timeout_s=60)
        flags = lab.hypotheses.get(h.id).flags
    assert len(flags) > 1
    lines = shown(capsys, "evidence", "list").splitlines()
    assert lines[lines.index("h1:") + 1 :] == [f"  {flag}" for flag in flags]


def test_a_claim_without_a_baseline_says_how_to_make_one(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "hypotheses", "add", "it helps", "--metric", "acc", "--direction", "max", "--mde", "0.1")
    assert "next: perpetual propose -h h1 --claim none --title baseline --command" in text
    assert "--claim none" in shown(capsys, "propose", "-h", "h1", "--command", "true", code=2)
    assert "e1  proposed for h1" in shown(capsys, "propose", "-h", "h1", "--claim", "none", "--command", "true")


def test_a_list_says_why_a_claim_past_the_threshold_is_open(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Lab.open() as lab:
        lab.settings.set_methodology("require_confirmation", "true")
        h = lab.hypotheses.add("it helps", metric="acc", direction="max", mde=0.1, baseline=0.5)
        command = "sh -c 'echo acc=0.9$PERPETUAL_SEED'"
        made = lab.experiments.propose(h.id, command=command, noise=0.01, replicates=3)
        lab.experiments.approve(made.id)
        lab.wait([item.id for item in lab.runs.launch(made.id, every=True)], timeout_s=60)
    assert "open, needs a confirmation" in shown(capsys, "hypotheses", "list")


def test_a_long_budget_shows_what_costs_most(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Lab.open() as lab:
        for number in range(12):
            made = lab.experiments.propose(command="sleep 0.3" if number == 7 else "true", title=f"n{number}")
            lab.experiments.approve(made.id)
            lab.wait([run.id for run in lab.runs.launch(made.id)], timeout_s=60)
        hours = {key: item["run_hours"] for key, item in lab.budget.show()["by_experiment"].items()}
    text = shown(capsys, "budget")
    assert "the 10 most expensive of 12; --json has all" in text
    least = sorted(hours, key=lambda key: hours[key])[0]
    listed = [line.split()[0] for line in text.splitlines() if line.startswith(" e") and line.split()[0] in hours]
    assert "e8" in listed
    assert least not in listed
    assert len(listed) == 10

"""Runs of different versions are not pooled, and a comparison across versions is said wherever a confidence is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run as program
from perpetual.errors import Conflict, UsageError
from perpetual.records import Experiment, Hypothesis
from perpetual.toolkit.claims import effect_word
from perpetual_mcp.write_tools import perpetual_propose
from perpetual_report.effects import effects_of
from perpetual_report.snapshot import take

SCORE = 'echo "score={value}$PERPETUAL_SEED"\n'


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A project in a git repository whose program scores about 1."""
    methodology = {"max_concurrent_runs": 8, "min_replicates": 9}  # no verdict closes a hypothesis
    with Lab.init(tmp_path / "project", name="t", project_id="fixed", methodology=methodology) as made:
        _git(made, "init", "-q", ".")
        (made.root / ".gitignore").write_text(".perpetual/\n")
        _edit(made, "1.0")
        yield made


def _git(lab: Lab, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=lab.root, check=True)


def _edit(lab: Lab, value: str, *, commit: bool = True) -> None:
    (lab.root / "score.sh").write_text(SCORE.format(value=value))
    if commit:
        _git(lab, "add", "-A")
        _git(lab, "commit", "-q", "--allow-empty", "-m", value)


def _measure(lab: Lab, made: Experiment) -> Experiment:
    lab.experiments.approve(made.id)
    lab.wait([run.id for run in lab.runs.launch(made.id, every=True)], timeout_s=60)
    return made


def _baseline(lab: Lab, replicates: int = 3) -> Experiment:
    return _measure(lab, lab.experiments.propose(command="sh score.sh", metric="score", replicates=replicates))


def _claim(lab: Lab, baseline: Experiment | float, **design: Any) -> tuple[Hypothesis, Experiment]:
    against = baseline if isinstance(baseline, float) else baseline.id
    hypothesis = lab.hypotheses.add("it helps", metric="score", direction="max", mde=0.5, baseline=against)
    given = {"command": "sh score.sh --new", "replicates": 2, "wall_s": 60.0, **design}
    return hypothesis, _measure(lab, lab.experiments.propose(hypothesis.id, **given))


def _stale(lab: Lab, hypothesis: Hypothesis) -> list[str]:
    """What is said of versions, once the record holds by itself."""
    found = lab.hypotheses.get(hypothesis.id).flags
    assert next(item for item in take(lab).hypotheses if item.id == hypothesis.id).flags == found
    assert lab.evidence.refold(check=True) == []
    assert lab.storage.verify() == []
    return [text for text in found if text.startswith("stale")]


@pytest.mark.slow
def test_a_default_that_changed_in_between_is_said_everywhere(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = _baseline(lab)
    _edit(lab, "2.0")
    hypothesis, claim = _claim(lab, base)
    (said,) = _stale(lab, hypothesis)
    commits = [lab.runs.named([item.id])[0].git.commit or "" for item in (claim, base)]
    start = f"stale: e2 ran on code {commits[0][:7]}, its baseline e1 on code {commits[1][:7]}; perpetual rebaseline e1"
    assert said.startswith(start)
    assert lab.experiments.get(claim.id).cautions == (said,)
    lab.close()
    monkeypatch.chdir(lab.root)
    for words in (("hypotheses", "show", "h1"), ("experiments", "e2"), ("experiments",), ("brief",), ("report",),
                  ("compare", "e1", "e2"), ("hypotheses", "list")):  # fmt: skip
        assert program([*words]) == 0
        assert "stale" in capsys.readouterr().out, words
    assert program(["status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["hypotheses"][0]["stale"] is True
    assert next(line.partition("  ")[0] for line in status["next"]) == "perpetual rebaseline e1"
    assert program(["overturn", "h1"]) == 0
    assert "count for nothing until perpetual rebaseline e1" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.slow
def test_a_change_that_is_no_code_is_not_named(lab: Lab) -> None:
    """Committing what was run, a text, a report and a file that git does not know."""
    _edit(lab, "1.0 ", commit=False)
    base = _baseline(lab)
    _edit(lab, "1.0 ")
    (lab.root / "README.md").write_text("text")
    (lab.root / "docs").mkdir()
    (lab.root / "docs/a.txt").write_text("text")
    _git(lab, "add", "-A")
    _git(lab, "commit", "-qm", "texts")
    (lab.root / "README.md").write_text("other text")
    (lab.root / "report.html").write_text("a report")
    (lab.root / "loose.py").write_text("pass")
    hypothesis, claim = _claim(lab, base)
    assert _stale(lab, hypothesis) == []
    assert [run.git.dirty for run in lab.runs.named([base.id, claim.id])] == [True] * 3 + [False] * 2


@pytest.mark.slow
def test_more_replicates_on_other_code_are_not_pooled(lab: Lab) -> None:
    base = _baseline(lab)
    hypothesis, claim = _claim(lab, base)
    before = lab.hypotheses.get(hypothesis.id)
    _edit(lab, "9.0")
    _measure(lab, lab.experiments.propose(extends=base.id, replicates=2))
    after = lab.hypotheses.get(hypothesis.id)
    assert (after.confidence, after.e_support) == (before.confidence, before.e_support)
    (said,) = _stale(lab, hypothesis)
    assert "2 of 5 runs of the baseline e1" in said
    # Of the claim itself: its rows of the new code are compared with the baseline's of the new code.
    _measure(lab, lab.experiments.propose(extends=claim.id, replicates=2))
    assert lab.hypotheses.get(hypothesis.id).confidence < 0.6, "9 is not better than 9"
    assert _stale(lab, hypothesis) == ["stale: the runs of e2 are of 2 versions: their mean counts"]


@pytest.mark.slow
def test_a_baseline_that_is_run_anew_takes_the_caution_away(lab: Lab) -> None:
    base = _baseline(lab)
    _edit(lab, "2.0")
    hypothesis, _ = _claim(lab, base)
    assert lab.hypotheses.get(hypothesis.id).confidence == 0.5, "across versions nothing is decided"
    anew = lab.experiments.rebaseline(base.id, idempotency_key="k")
    assert lab.experiments.rebaseline(base.id, idempotency_key="k").id == anew.id
    assert (anew.status, anew.renews, anew.command) == ("proposed", base.id, base.command)
    answer = perpetual_propose(lab, rebaseline=anew.id, dry_run=True)
    assert "e1 anew: sh score.sh" in str(answer)
    event = next(event for event in lab.events() if event.kind == "baseline_renewed")
    assert (event.subject, event.payload["by"]) == (base.id, anew.id)
    _measure(lab, anew)
    assert lab.hypotheses.get(hypothesis.id).confidence < 0.5
    assert _stale(lab, hypothesis) == []
    seeds = [[run.seed for run in lab.runs.named([id])] for id in (base.id, anew.id)]
    assert seeds[0] == seeds[1], "a paired design shares them"


@pytest.mark.slow
def test_a_declared_change_is_the_treatment(lab: Lab) -> None:
    base = _baseline(lab)
    _edit(lab, "2.0")
    hypothesis, claim = _claim(lab, base, changes="code", replicates=3)
    assert _stale(lab, hypothesis) == []
    assert claim.design.changes == "code"
    assert lab.hypotheses.get(hypothesis.id).confidence > 0.8
    with pytest.raises(UsageError, match="thing to change"):
        _claim(lab, base, changes="cdoe")
    with pytest.raises(UsageError, match="baseline experiment"):
        _claim(lab, 1.0, changes="code")


@pytest.mark.slow
def test_data_and_environment_are_versions_too(lab: Lab) -> None:
    lab.settings.set_methodology("protected_paths", "data")
    (lab.root / "data").write_text("one")
    base = _baseline(lab)
    (lab.root / "data").write_text("two")
    hypothesis, _ = _claim(lab, base)
    assert any("ran on data" in text for text in _stale(lab, hypothesis))
    lab.settings.set_methodology("protected_paths", "data, score.sh")
    other, _ = _claim(lab, base, command="sh score.sh --other")
    assert _stale(lab, other) == [], "other files were looked at: unknown is not different"


@pytest.mark.slow
def test_programs_are_compared_without_git(tmp_path: Path) -> None:
    with Lab.init(tmp_path / "plain", name="t", project_id="fixed", methodology={"max_concurrent_runs": 8}) as lab:
        _edit(lab, "1.0", commit=False)
        base = _baseline(lab)
        (lab.root / "other.sh").write_text(SCORE.format(value="2.0"))
        same, _ = _claim(lab, base, command="sh other.sh")
        assert _stale(lab, same) == [], "another program is what the command specifies"
        _edit(lab, "2.0", commit=False)
        hypothesis, _ = _claim(lab, base)
        assert any("score.sh" in text for text in _stale(lab, hypothesis))


@pytest.mark.slow
def test_unknown_versions_are_said_to_differ_from_nothing(lab: Lab) -> None:
    """Runs of earlier releases have no versions: they fold as they did."""
    base = lab.experiments.propose(command="echo score=1", metric="score", replicates=2)
    with Lab.init(lab.root.parent / "none", name="t", project_id="fixed") as plain:
        base = _measure(plain, plain.experiments.propose(command="sh -c 'echo score=1$PERPETUAL_SEED'", metric="score"))
        assert plain.runs.named([base.id])[0].versions["code"] is None
        hypothesis, _ = _claim(plain, base, command="sh -c 'echo score=2$PERPETUAL_SEED'")
        assert _stale(plain, hypothesis) == []


def test_a_baseline_that_cannot_run_anew_is_refused(lab: Lab) -> None:
    made = lab.experiments.propose(command="sh score.sh", metric="score")
    with pytest.raises(Conflict, match="has not run yet"):
        lab.experiments.rebaseline(made.id)


@pytest.mark.slow
def test_a_declared_change_is_compared_with_the_code_before_it(lab: Lab) -> None:
    base = _baseline(lab)
    _edit(lab, "2.0")
    anew = _measure(lab, lab.experiments.rebaseline(base.id))
    hypothesis, _ = _claim(lab, base, changes="code")
    effect = lab.hypotheses.get(hypothesis.id).effect
    assert effect is not None
    assert effect["value"] > 0.9, "not with the baseline's runs under the new code"
    other, _ = _claim(lab, anew, command="sh score.sh --other")
    shown = lab.hypotheses.get(other.id).effect
    assert shown is not None
    derived = {key: found.interval for key, found in effects_of(take(lab)).items()}[shown["experiments"][0]]
    assert derived is not None, "the report finds the runs of a baseline that was run anew"
    assert (derived.mean, derived.low) == pytest.approx((shown["value"], shown["low"]))
    since = lab.experiments.differences(anew.id)
    assert since is not None
    assert since["id"] == base.id
    assert since["code"] is not None, "the same command on other code is not the same"


def test_an_effect_whose_interval_holds_none_is_not_called_better() -> None:
    assert effect_word(0.01, -0.01, 0.03, "max") == "not separable from zero"
    assert effect_word(0.01, -0.01, 0.03, "max", "supported") == "leans better", "as its sentence says"
    assert effect_word(-0.01, -0.03, 0.01, "max", "refuted") == "leans worse"
    assert effect_word(0.01, -0.01, 0.03, "max", "refuted") == "not separable from zero"
    assert effect_word(0.02, 0.01, 0.03, "max") == "better"
    assert effect_word(-0.02, -0.03, -0.01, "min") == "worse"
    assert effect_word(0.02, 0.01, 0.03, None) == "different"

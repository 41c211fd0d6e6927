"""A claim that its noise is known to hide is refused before hours are spent on it, with the numbers that could."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Provider, Scorer, ScorerState, hookimpl
from perpetual.errors import Conflict, UsageError
from perpetual.records import Experiment, Score
from perpetual.registry import Registry

Claim = Callable[..., Experiment]


@pytest.fixture
def claim(lab: Lab) -> Claim:
    """Proposes a claim "acc rises" of an mde against a baseline; nothing of it is run."""

    def make(mde: float, baseline: float | str = 1.0, **given: Any) -> Experiment:
        hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=mde, baseline=baseline)
        return lab.experiments.propose(hypothesis.id, **{"command": "echo acc=1.1", "replicates": 3, **given})

    return make


@pytest.fixture
def measured(lab: Lab) -> str:
    """A baseline of four runs whose noise is about 0.03."""
    baseline = lab.experiments.propose(
        command="sh -c 'echo acc=1.0$PERPETUAL_SEED'", metric="acc", direction="max", replicates=4, wall_s=60.0
    )
    lab.experiments.approve(baseline.id)
    lab.wait([run.id for run in lab.runs.launch(baseline.id, every=True)], timeout_s=60)
    return baseline.id


def test_what_the_measured_noise_hides_is_refused_with_what_could_decide_it(
    lab: Lab, claim: Claim, measured: str
) -> None:
    with pytest.raises(UsageError) as refused:
        claim(1e-6, measured, dry_run=True)
    with pytest.raises(UsageError) as again:
        claim(1e-6, measured)
    assert refused.value.hint == again.value.hint
    assert (refused.value.code, refused.value.exit) == ("underpowered", 2)
    assert "3 replicates cannot decide an mde of 1e-06 in acc" in str(refused.value)
    hint = refused.value.hint or ""
    for word in (f"NO-GO: baseline {measured} 1.0", "standard error 0.0", "4 runs", "best known 1.0", "noise 0.0",
                 "80 % chance: ", "--mde ", "--underpowered"):  # fmt: skip
        assert word in hint, word
    assert [item.id for item in lab.experiments.list().items] == [measured], "nothing was written"
    mde = float(hint.split("--mde ")[1].split(";")[0])
    assert claim(mde, measured).design.underpowered is False, "the number that it names is taken"


def test_an_explicit_option_proposes_it_and_is_recorded(lab: Lab, claim: Claim, measured: str) -> None:
    made = claim(1e-6, measured, underpowered=True)
    assert made.design.underpowered is True
    assert lab.experiments.get(made.id).design.underpowered is True
    with pytest.raises(Conflict) as known:
        lab.experiments.propose(made.hypothesis_id, command="echo acc=1.1", replicates=3, underpowered=True)
    assert known.value.code == "tried_before"
    assert claim(0.05, measured, underpowered=True).design.underpowered is False, "it is not"


@pytest.mark.parametrize(
    ("mde", "given"),
    [
        (0.0001, {}),  # the noise is unknown
        (0.1, {"noise": 0.1}),
        (0.1, {"noise": 0.5, "replicates": 1}),  # a guess, which may be too high
        (0.05, {"noise": 0.01}),  # as in README
        (0.3, {"kind": "binary", "baseline": 0.5}),
        (0.001, {"noise": 1.0, "claim": "any", "mde": None}),
        (0.001, {"noise": 1.0, "claim": "none", "mde": None, "baseline": None}),
    ],
)
def test_ordinary_first_claims_are_taken(lab: Lab, claim: Claim, mde: float, given: dict[str, Any]) -> None:
    if given.get("claim") in ("any", "none"):
        hypothesis = lab.hypotheses.add("acc changes", metric="acc", direction="max")
        wanted: dict[str, Any] = {"baseline": 1.0} if given["claim"] == "any" else {}
        made = lab.experiments.propose(hypothesis.id, command="true", noise=1.0, claim=given["claim"], **wanted)
    else:
        made = claim(mde, **given)
    assert made.design.underpowered is False


def test_three_replicates_against_four_runs_are_taken(claim: Claim, measured: str) -> None:
    assert claim(0.03, measured).id


@pytest.mark.parametrize(
    "given", [{"noise": 50.0}, {"kind": "binary", "baseline": 0.9, "replicates": 4}, {"noise": 2.0, "baseline_runs": 2}]
)
def test_what_is_declared_hopeless_is_refused_too(claim: Claim, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="cannot decide an mde"):
        claim(0.02, **given)


def test_a_key_that_was_used_answers_although_more_is_known_now(lab: Lab, claim: Claim) -> None:
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.02, baseline=1.0)
    wish: dict[str, Any] = {"command": "true", "noise": 50.0, "idempotency_key": "k"}
    first = lab.experiments.propose(hypothesis.id, **wish, underpowered=True)
    assert lab.experiments.propose(hypothesis.id, **wish).id == first.id


def test_what_has_runs_may_go_on(lab: Lab, measured: str) -> None:
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=1e-6, baseline=measured)
    command = "sh -c 'echo acc=1.0$PERPETUAL_SEED'"
    made = lab.experiments.propose(hypothesis.id, command=command, replicates=2, wall_s=60.0, underpowered=True)
    lab.experiments.approve(made.id)
    lab.wait([run.id for run in lab.runs.launch(made.id, every=True)], timeout_s=60)
    assert lab.experiments.propose(extends=made.id, replicates=2).design.underpowered is True
    assert lab.experiments.propose(hypothesis.id, command="echo acc=1.2").design.underpowered is False


class Even(Scorer):
    """Finds every run worth the same."""

    def score(self, state: ScorerState) -> list[Score]:
        return [Score(None, None, None, "as any other") for _ in state["candidates"]]


def test_without_a_planner_every_claim_is_taken(measured: str, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("acme_even")
    made.__dict__["perpetual_scorers"] = hookimpl(lambda: [Provider("scorer", "even", "acme_even:build")])
    made.__dict__["build"] = lambda options: Even()
    monkeypatch.setitem(sys.modules, "acme_even", made)
    monkeypatch.setenv("PERPETUAL_WITHOUT", "scorers")
    with Lab.open(lab.root, registry=Registry(extra=[("acme", "even", "1", lambda: made)])) as bare:
        bare.settings.set_methodology("exploration_strategy", "even")
        hypothesis = bare.hypotheses.add("acc rises", metric="acc", direction="max", mde=1e-6, baseline=measured)
        taken = bare.experiments.propose(hypothesis.id, command="echo acc=1.1", replicates=3)
        assert (taken.design.underpowered, taken.score.reason) == (False, "as any other")

"""The bundled scorers keep the promises of their slot, and are what their names and options say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import ConfigError, UsageError
from perpetual.science import propose
from perpetual.testing.scorers import ScorerContract, state_of
from perpetual_scorers.information_gain import (
    Decisive,
    Greedy,
    InformationGain,
    RandomChoice,
    RoundRobin,
    StrategyScorer,
    Thompson,
    build,
)
from perpetual_scorers.plugin import perpetual_scorers

SCORERS: dict[str, type[StrategyScorer]] = {
    "information-gain": InformationGain,
    "decisive": Decisive,
    "greedy": Greedy,
    "thompson": Thompson,
    "random": RandomChoice,
    "round-robin": RoundRobin,
}


class TestBundled(ScorerContract):
    """Each of the six, as it is by default and while it explores."""

    @pytest.fixture(params=[*SCORERS, "information-gain that explores"])
    def scorer(self, request: pytest.FixtureRequest) -> StrategyScorer:
        """One of them."""
        if request.param not in SCORERS:
            return InformationGain({"explore_fraction": 0.5, "cost_exponent": 0.5})
        return SCORERS[request.param]({})


def test_each_provider_builds_its_scorer() -> None:
    offers = {offer.name: offer for offer in perpetual_scorers()}
    assert set(offers) == set(SCORERS)
    for name, offer in offers.items():
        module, _, attribute = offer.factory.partition(":")
        made = getattr(__import__(module, fromlist=[attribute]), attribute)(
            {key: option.default for key, option in (offer.options or {}).items()}
        )
        assert type(made) is SCORERS[name]
        assert "-" in offer.name or made.strategy == offer.name
    assert type(build({})) is InformationGain
    assert {name for name, offer in offers.items() if not offer.options} == {"random", "round-robin"}


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_is_its_strategy(name: str) -> None:
    scorer = SCORERS[name]({})
    for seed in range(10):
        state = state_of(5, seed)
        config = {key: state[key] for key in ("support", "refute", "min_information_gain_bits")}
        assert scorer.pick(state, 3) == propose(state, 3, {**config, "strategy": name})


def test_the_knobs_reach_the_strategy() -> None:
    state = state_of(5)
    state["candidates"][0] |= {"sigma": 0.005, "cost": 400.0}
    assert InformationGain({"cost_exponent": 0.0}).pick(state, 1) == ["e1"]
    assert InformationGain({}).pick(state, 1) != ["e1"]
    explored = {InformationGain({"explore_fraction": 1.0}).pick({**state, "seed": n}, 1)[0] for n in range(60)}
    assert len(explored) == 5


@pytest.mark.parametrize("options", [{"explore_fraction": 1.5}, {"explore_fraction": -0.1}, {"cost_exponent": -1.0}])
def test_a_knob_out_of_its_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        Decisive(options)


# --- in a project ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "scorer"),
    [
        ("hypothesis_driven", InformationGain),
        ("information_gain", InformationGain),
        ("decisive", Decisive),
        ("round_robin", RoundRobin),
        ("round-robin", RoundRobin),
        ("perpetual-lab/random", RandomChoice),
    ],
)
def test_the_methodology_names_a_strategy(project: Path, strategy: str, scorer: type[StrategyScorer]) -> None:
    with Lab.open(project) as lab:
        lab.settings.set_methodology("exploration_strategy", strategy)
    with Lab.open(project) as lab:
        assert type(lab.proposals.scorer) is scorer


def test_an_unknown_strategy_is_refused_with_the_nearest(project: Path) -> None:
    with Lab.open(project) as lab, pytest.raises(UsageError, match="did you mean round"):
        lab.settings.set_methodology("exploration_strategy", "round_robbin")


def test_a_projects_options_reach_its_scorer(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.settings.set_methodology("exploration_strategy", "decisive")
        lab.settings.set_config("plugins.decisive.explore_fraction", "0.25")
    with Lab.open(project) as lab:
        assert isinstance(lab.proposals.scorer, Decisive)
        assert lab.proposals.scorer.knobs["explore_fraction"] == 0.25


def test_the_methodology_goes_before_a_scorers_options(project: Path) -> None:
    """At its default a key of the methodology leaves it to the option."""
    with Lab.open(project) as lab:
        lab.settings.set_config("plugins.information-gain.cost_exponent", "0.5")
        scorer, state = lab.proposals.scorer, lab.proposals.state([], [])
        assert isinstance(scorer, InformationGain)
        assert (scorer.knobs["cost_exponent"], state.get("cost_exponent"), state.get("explore_fraction")) == (
            0.5,
            None,
            None,
        )
        lab.settings.set_methodology("cost_exponent", "0")
        lab.settings.set_methodology("explore_fraction", "1")
        state = lab.proposals.state([], [])
        assert (state["cost_exponent"], state["explore_fraction"]) == (0.0, 1.0)


@pytest.mark.parametrize("make", [InformationGain, Decisive, Greedy, Thompson])
def test_what_the_state_says_goes_before_an_option(make: type[StrategyScorer]) -> None:
    cheap = {"id": "e1", "hypothesis_id": "h1", "mu1": 1.0, "mu0": 0.0, "sigma": 1.0, "tau": 0.0, "cost": 0.1,
             "p_fail": 0.0, "n_seen": 0, "n_pending": 0}  # fmt: skip
    state: Any = {
        "hypotheses": [{"id": "h1", "confidence": 0.5}],
        "candidates": [cheap, {**cheap, "id": "e2", "sigma": 0.7, "cost": 5.0}],
        "support": 0.8, "refute": 0.2, "min_information_gain_bits": 0.0, "seed": 7,
    }  # fmt: skip
    scorer = make({"cost_exponent": 1.0, "explore_fraction": 0.0})

    def picked(**given: float) -> list[str]:
        return scorer.pick(state | given, 1)

    assert picked() == ["e1"]
    assert picked(cost_exponent=0.0) == ["e2"]
    assert {picked(explore_fraction=1.0, seed=n)[0] for n in range(30)} == {"e1", "e2"}
    assert picked(explore_fraction=1.0) == picked(explore_fraction=1.0)


def _with_a_grid(lab: Lab, **design: Any) -> None:
    grid = {"lr": [0.1, 0.2, 0.3, 0.4]}
    claim = lab.hypotheses.add("lr matters", metric="acc", direction="max", mde=0.1, baseline=0.5, params=grid)
    lab.experiments.propose(claim.id, command="python train.py", cost_run_hours=0.25, **design)


def test_the_same_record_gives_the_same_answer_and_a_longer_one_draws_anew(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.settings.set_methodology("exploration_strategy", "random")
    with Lab.open(project) as lab:
        _with_a_grid(lab, noise=0.1)

        def drawn() -> list[dict[str, Any]]:
            return [pick.experiment.config for pick in lab.experiments.propose_auto(2, dry_run=True)]

        assert drawn() == drawn()
        before = lab.proposals.state([], [])["seed"]
        lab.experiments.propose(command="true")
        assert lab.proposals.state([], [])["seed"] != before


def test_a_pick_says_which_outcome_would_decide(project: Path) -> None:
    """In the answer and in the record; the figures are those of the evidence rule."""
    with Lab.open(project) as lab:
        claim = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=0.5)
        value = project / "value"
        made = lab.experiments.propose(
            claim.id, command=f"sh -c 'echo acc=$(cat {value})'", noise=0.02, replicates=2, cost_run_hours=0.25
        )
        lab.experiments.approve(made.id)
        value.write_text("0.62")
        lab.runs.launch(made.id)
        lab.wait([made.id], timeout_s=60)
        (picked,) = lab.experiments.propose_auto(1, dry_run=True)
        gain, words = picked.score.reason.split("; ")
        assert gain.endswith("run-hours")
        assert "would support h1 (0.50 -> 0.80)" in words
        low = float(words.split()[3])
        value.write_text(f"{0.5 + low + 0.002:.6f}")  # just inside of the stretch that decides
        lab.runs.launch(made.id)
        lab.wait([made.id], timeout_s=60)
        assert lab.hypotheses.get(claim.id).status == "supported"


def test_a_pick_says_where_no_outcome_decides(project: Path) -> None:
    with Lab.open(project) as lab:
        _with_a_grid(lab, noise=0.1)
        (picked,) = lab.experiments.propose_auto(1, dry_run=True)
        assert picked.score.reason.endswith("; no single outcome decides h1")

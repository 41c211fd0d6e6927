"""What a claim cannot be helped by: asking again in other words, and an agent's word for it. With real runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import NotPermitted, UsageError
from perpetual.lab.ledger.experiments import design_key
from perpetual.records import Experiment, Hypothesis
from perpetual_report.snapshot import take
from tests.kernel.by_hand import judged, log_e_values, log_odds_of

AGENT = "mcp:c/1"
SCRIPT = """import os, random
seed = int(os.environ["PERPETUAL_SEED"])
print("score=%f" % (1.2 + random.Random(seed).gauss(0, 0.05)))
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A project without runs, and a script whose result depends on its seed."""
    with Lab.init(
        tmp_path / "project", name="honest", project_id="fixed", methodology={"max_concurrent_runs": 8}
    ) as made:
        (made.root / "score.py").write_text(SCRIPT)
        yield made


@pytest.fixture
def agent(lab: Lab) -> Iterator[Lab]:
    """The same project, opened by an agent."""
    with Lab.open(lab.root, actor=AGENT) as made:
        yield made


def _claim(lab: Lab, hypothesis: Hypothesis, *, person: Lab | None = None, **design: Any) -> Experiment:
    """A claim whose spread between implementations is wide, so that one implementation says little; all of it run."""
    given: dict[str, Any] = {"command": "python3 score.py", "metric": "score", "direction": "max", "mde": 1.0,
                             "noise": 0.1, "tau": 0.8, "baseline": 0.0, "replicates": 2, "wall_s": 60.0}  # fmt: skip
    made = lab.experiments.propose(hypothesis.id, **{**given, **design})
    (person or lab).experiments.approve(made.id)
    lab.wait([run.id for run in lab.runs.launch(made.id, every=True)], timeout_s=60)
    return made


def _log_odds(lab: Lab, hypothesis: Hypothesis) -> float:
    p = lab.hypotheses.get(hypothesis.id).confidence
    return math.log(p / (1 - p))


def _scores(lab: Lab, experiment_id: str | None = None) -> list[float]:
    """What the runs of an experiment measured, or all of them, in their order."""
    runs = sorted(lab.runs.list(experiment_id=experiment_id).items, key=lambda run: int(run.id[1:]))
    return [run.metrics["score"] or 0.0 for run in runs]


def test_one_implementation_asked_again_in_other_words_is_no_second_opinion(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    _claim(lab, hypothesis)
    once = _log_odds(lab, hypothesis)
    assert abs(once) < 1.4, "a wide spread says little, however often it runs"
    again: list[dict[str, Any]] = [
        {"mde": 1.01}, {"baseline": 0.001}, {"claim": "value"}, {"command": "python3   'score.py'"}, {"tau": 0.01},
    ]  # fmt: skip
    for words in again:
        _claim(lab, hypothesis, replicates=1, **words)
        # Each is one more run of the first design, under its prediction.
        expected = log_odds_of(*log_e_values(_scores(lab), mde=1.0, tau=0.8, noise=0.1))
        assert _log_odds(lab, hypothesis) == pytest.approx(expected), words
        assert expected < 1.4, words
    found = lab.hypotheses.get(hypothesis.id)
    assert (found.status, found.evidence_count) == ("open", 7)
    assert lab.evidence.refold(check=True) == []
    assert lab.storage.verify() == []


def test_another_number_that_it_prints_is_no_second_opinion(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    (lab.root / "score.py").write_text(SCRIPT + SCRIPT.replace("score", "again"))
    _claim(lab, hypothesis)
    once = _log_odds(lab, hypothesis)
    _claim(lab, hypothesis, metric="again")
    assert _log_odds(lab, hypothesis) == pytest.approx(once)
    assert lab.hypotheses.get(hypothesis.id).flags == ("a later prediction of the same command: that of e1 holds",)
    assert lab.evidence.refold(check=True) == []


def test_a_second_implementation_is_a_second_opinion(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    _claim(lab, hypothesis)
    once = _log_odds(lab, hypothesis)
    _claim(lab, hypothesis, command="python3 score.py --built-otherwise")
    # Its luck is drawn anew: the mean of both designs has half the variance between implementations.
    expected = log_odds_of(*log_e_values(_scores(lab), mde=1.0, tau=0.8 / math.sqrt(2), noise=0.1))
    assert _log_odds(lab, hypothesis) == pytest.approx(expected)
    assert expected > once + 0.2


def test_the_first_prediction_holds_until_all_that_counts_for_it_is_taken_back(lab: Lab) -> None:
    """A slip in a prediction can be corrected, in the open: whoever reads the ledger sees who took what back."""
    hypothesis = lab.hypotheses.add("it matters")
    _claim(lab, hypothesis, direction="min")
    assert _log_odds(lab, hypothesis) < 0
    _claim(lab, hypothesis)
    assert _log_odds(lab, hypothesis) < 0
    flags = lab.hypotheses.get(hypothesis.id).flags
    assert flags == ("a later prediction of the same command: that of e1 holds",)
    for id in ("v1", "v2"):
        lab.evidence.retract(id, why="the direction was wrong")
    assert _log_odds(lab, hypothesis) > 0
    assert lab.hypotheses.get(hypothesis.id).flags == ()
    last = take(lab).steps[hypothesis.id][-1].fold
    assert last["log_odds"] == pytest.approx(_log_odds(lab, hypothesis))


def test_a_measured_floor_replaces_a_believed_noise(lab: Lab) -> None:
    """A noise that is declared far too small is the one way to break the bound on false alarms."""
    baseline = lab.experiments.propose(command="python3 score.py", metric="score", replicates=4, wall_s=60.0)
    lab.experiments.approve(baseline.id)
    lab.wait([run.id for run in lab.runs.launch(baseline.id, every=True)], timeout_s=60)
    hypothesis = lab.hypotheses.add("it matters")
    claim = _claim(
        lab, hypothesis, command="python3 score.py 1", baseline=baseline.id, mde=0.1, tau=0.0, noise=1e-6, paired=False
    )
    values = [_scores(lab, id) for id in (claim.id, baseline.id)]
    found, said = lab.hypotheses.get(hypothesis.id), judged(*values, tau=0.0, noise=1e-6)
    assert (found.e_support, found.e_refute) == pytest.approx((said["e_support"], said["e_refute"]))
    # What is planned for is counted in units of the declared noise: a wrong one spends half of the stake for nothing.
    undeclared = judged(*values, tau=0.0)
    assert undeclared["e_support"] / 2 <= found.e_support < undeclared["e_support"]
    assert undeclared["e_refute"] / 2 <= found.e_refute < undeclared["e_refute"]


def test_a_value_that_an_agent_sets_by_hand_is_an_opinion(lab: Lab, agent: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    agent.hypotheses.update(hypothesis.id, confidence=0.999, why="I am sure")
    agent.evidence.add(hypothesis.id, verdict="supports", why="so am I")
    assert lab.hypotheses.get(hypothesis.id).confidence == pytest.approx(0.75)
    assert lab.evidence.refold(check=True) == []
    lab.hypotheses.update(hypothesis.id, confidence=0.9, why="a person's word is not bounded")
    assert lab.hypotheses.get(hypothesis.id).confidence == pytest.approx(0.9)


def test_an_agent_decides_nothing_by_hand(lab: Lab, agent: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    for status in ("supported", "refuted"):
        with pytest.raises(NotPermitted, match="is for a person"):
            agent.hypotheses.update(hypothesis.id, status=status)
    lab.hypotheses.update(hypothesis.id, status="refuted")
    with pytest.raises(NotPermitted, match="opening h1 again"):
        agent.hypotheses.update(hypothesis.id, status="open")
    assert lab.hypotheses.get(hypothesis.id).status == "refuted"
    lab.settings.set_methodology("agents_may_approve", "true")
    with Lab.open(lab.root, actor=AGENT) as trusted:
        assert trusted.hypotheses.update(hypothesis.id, status="open").status == "open"


def test_an_agent_takes_back_what_agents_said_alone(lab: Lab, agent: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    _claim(agent, hypothesis, person=lab, replicates=1)
    lab.evidence.add(hypothesis.id, verdict="refutes", why="a person's view")
    agent.evidence.add(hypothesis.id, verdict="supports", why="an agent's view")
    for id in ("v1", "v2"):
        with pytest.raises(NotPermitted, match=f"taking back {id}"):
            agent.evidence.retract(id, why="it does not fit")
    agent.evidence.retract("v3", why="it was hasty")
    assert [row.retracted_by for row in lab.evidence.list().items] == [None, None, "v4", None]


@pytest.mark.parametrize("prior", [0.01, 0.249, 0.751, 0.99])
def test_no_prior_decides_anything(lab: Lab, agent: Lab, prior: float) -> None:
    for one in (agent, lab):
        with pytest.raises(UsageError, match=r"between 0\.25 and 0\.75"):
            one.hypotheses.add("it matters", prior=prior)
    made = agent.hypotheses.add("it matters", prior=0.75)
    for one in (agent, lab):
        with pytest.raises(UsageError, match=r"between 0\.25 and 0\.75"):
            one.hypotheses.update(made.id, prior=prior)


@pytest.mark.parametrize("design", [{"kind": "binary", "baseline": 0.5, "mde": 0.3}, {"claim": "any", "baseline": 0.0}])
def test_a_point_of_the_grid_claims_what_its_pattern_claims(lab: Lab, design: dict[str, Any]) -> None:
    hypothesis = lab.hypotheses.add("it matters", params={"lr": [0.1, 0.2]})
    made = lab.experiments.propose(
        hypothesis.id, command="echo score=1", metric="score", direction="max", config={"lr": 0.1}, **design
    )
    (pick,) = (item for item in lab.experiments.propose_auto(5) if item.new)
    assert pick.experiment.config == {"lr": 0.2}
    assert (pick.experiment.design.kind, pick.experiment.design.claim) == (made.design.kind, made.design.claim)


def test_more_of_what_was_seen_is_worth_what_is_left_to_learn(lab: Lab) -> None:
    """A draft that extends an experiment is no fresh look."""
    first, second = lab.hypotheses.add("it matters"), lab.hypotheses.add("it matters more")
    below = _claim(lab, first)
    lab.experiments.propose(second.id, command="true", metric="score", direction="max", mde=1.0, baseline=below.id)
    assert lab.experiments.propose_auto(5) == [], "two runs have shown what that implementation can show"
    fresh = lab.experiments.propose(
        first.id, command="true", metric="score", direction="max", mde=1.0, noise=0.1, tau=0.8, baseline=0.0
    )
    assert (fresh.score.information_gain_bits or 0) > 0.02, "a run's share of the few that say something"


def test_nothing_is_suggested_that_a_claim_past_its_threshold_does_not_need(tmp_path: Path) -> None:
    with Lab.init(
        tmp_path / "project", name="held out", project_id="fixed", methodology={"require_confirmation": True}
    ) as lab:
        (lab.root / "score.py").write_text(SCRIPT)
        hypothesis = lab.hypotheses.add("it matters", params={"lr": [0.1, 0.2]})
        _claim(lab, hypothesis, tau=0.1, config={"lr": 0.1})
        assert lab.hypotheses.get(hypothesis.id).needs == "confirmation"
        assert lab.experiments.propose_auto(5) == []


def test_a_baseline_may_be_another_claims_experiment(lab: Lab) -> None:
    first, second = lab.hypotheses.add("it matters"), lab.hypotheses.add("it matters more")
    below = _claim(lab, first)
    lab.experiments.propose(
        second.id, command="echo score=2.5", metric="score", direction="max", mde=1.0, noise=0.1, baseline=below.id
    )
    lab.loop.propose()
    (more,) = (item for item in lab.experiments.list().items if item.title.startswith("more of"))
    assert (more.hypothesis_id, more.design.replicates) == (first.id, 2)
    lab.hypotheses.update(first.id, status="parked")
    assert [pick.experiment.id for pick in lab.experiments.propose_auto(5) if pick.new] == []


def test_text_that_is_no_command_has_a_design_too() -> None:
    """What was adopted from elsewhere may be any text."""
    body = {"env": {}, "cwd": None, "config": {}, "design": {"claim": None}}
    keys = {design_key({**body, "command": text}) for text in ("it's", "it's  it", "its", None)}
    assert len(keys) == 4
    assert design_key({**body, "command": "a 'b'"}) == design_key({**body, "command": " a  b"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"cwd": None}, {"cwd": "./"}),
        ({"cwd": "a/b"}, {"cwd": "a//./b/"}),
        ({"config": {"k": [1, 2.0]}}, {"config": {"k": [1.0, 2]}}),
    ],
)
def test_settings_in_other_words_are_the_same_design(one: dict[str, Any], other: dict[str, Any]) -> None:
    body = {"env": {}, "cwd": None, "config": {}, "design": {"claim": "value"}, "command": "true"}
    assert design_key({**body, **one}) == design_key({**body, **other})
    assert design_key({**body, "cwd": "c", "config": {"k": True}}) != design_key(
        {**body, "cwd": "c", "config": {"k": 1}}
    )


def test_the_last_digit_of_a_fold_is_no_fault(project: Path) -> None:
    """The log odds of 0.3, turned back, are 0.30000000000000004."""
    with Lab.open(project) as lab:
        for prior in (0.3, 0.6, 0.7):
            lab.hypotheses.add(f"of prior {prior}", prior=prior)
        assert lab.storage.verify() == []

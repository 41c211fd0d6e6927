"""What a claim cannot be helped by: asking again in other words, and an agent's word for it. With real runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import NotPermitted
from perpetual.records import Experiment, Hypothesis

AGENT = "mcp:c/1"
SCRIPT = """import os, random
seed = int(os.environ["PERPETUAL_SEED"])
print("score=%f" % (1.2 + random.Random(seed).gauss(0, 0.05)))
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A project without runs, and a script whose result depends on its seed."""
    with Lab.init(tmp_path / "project", name="honest", methodology={"max_concurrent_runs": 8}) as made:
        (made.root / "score.py").write_text(SCRIPT)
        yield made


@pytest.fixture
def agent(lab: Lab) -> Iterator[Lab]:
    """The same project, opened by an agent."""
    with Lab.open(lab.root, actor=AGENT) as made:
        yield made


def _claim(lab: Lab, hypothesis: Hypothesis, **design: Any) -> Experiment:
    """A claim whose spread between implementations is wide, so that one implementation says little; all of it run."""
    given: dict[str, Any] = {"command": "python3 score.py", "metric": "score", "direction": "max", "mde": 1.0,
                             "noise": 0.1, "tau": 0.8, "baseline": 0.0, "replicates": 2, "wall_s": 60.0}  # fmt: skip
    made = lab.experiments.propose(hypothesis.id, **{**given, **design})
    lab.experiments.approve(made.id)
    lab.wait([run.id for run in lab.runs.launch(made.id, every=True)], timeout_s=60)
    return made


def _log_odds(lab: Lab, hypothesis: Hypothesis) -> float:
    p = lab.hypotheses.get(hypothesis.id).confidence
    return math.log(p / (1 - p))


def test_one_implementation_asked_again_in_other_words_is_no_second_opinion(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    _claim(lab, hypothesis)
    once = _log_odds(lab, hypothesis)
    assert 0.5 < once < 1.4, "a wide spread says little, however often it runs"
    again: list[dict[str, Any]] = [
        {"mde": 1.01}, {"baseline": 0.001}, {"claim": "value"}, {"command": "python3   'score.py'"}, {"tau": 0.01},
    ]  # fmt: skip
    for words in again:
        _claim(lab, hypothesis, replicates=1, **words)
        assert _log_odds(lab, hypothesis) == pytest.approx(once, abs=0.15), words
    found = lab.hypotheses.get(hypothesis.id)
    assert (found.status, found.evidence_count) == ("open", 7)
    assert lab.evidence.refold(check=True) == []
    assert lab.storage.verify() == []


def test_a_second_implementation_is_a_second_opinion(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    _claim(lab, hypothesis)
    once = _log_odds(lab, hypothesis)
    _claim(lab, hypothesis, command="python3 score.py --built-otherwise")
    assert _log_odds(lab, hypothesis) == pytest.approx(2 * once, abs=0.15)


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
    last = lab.evidence.history()[hypothesis.id][-1]
    assert last["log_odds"] == pytest.approx(_log_odds(lab, hypothesis))


def test_what_an_agent_sets_by_hand_is_an_opinion(lab: Lab, agent: Lab) -> None:
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
    _claim(agent, hypothesis, replicates=1)
    lab.evidence.add(hypothesis.id, verdict="refutes", why="a person's view")
    agent.evidence.add(hypothesis.id, verdict="supports", why="an agent's view")
    for id in ("v1", "v2"):
        with pytest.raises(NotPermitted, match=f"taking back {id}"):
            agent.evidence.retract(id, why="it does not fit")
    agent.evidence.retract("v3", why="it was hasty")
    assert [row.retracted_by for row in lab.evidence.list().items] == [None, None, "v4", None]


@pytest.mark.parametrize("prior", [0.01, 0.249, 0.751, 0.99])
def test_an_agents_prior_decides_nothing(lab: Lab, agent: Lab, prior: float) -> None:
    with pytest.raises(NotPermitted, match="would nearly decide"):
        agent.hypotheses.add("it matters", prior=prior)
    made = agent.hypotheses.add("it matters", prior=0.75)
    with pytest.raises(NotPermitted, match="would nearly decide"):
        agent.hypotheses.update(made.id, prior=prior)
    assert lab.hypotheses.update(made.id, prior=prior).prior == prior


@pytest.mark.parametrize("design", [{"kind": "binary", "baseline": 0.5, "mde": 0.3}, {"claim": "any", "baseline": 0.0}])
def test_a_point_of_the_grid_claims_what_its_pattern_claims(lab: Lab, design: dict[str, Any]) -> None:
    hypothesis = lab.hypotheses.add("it matters", params={"lr": [0.1, 0.2]})
    made = lab.experiments.propose(
        hypothesis.id, command="echo score=1", metric="score", direction="max", config={"lr": 0.1}, **design
    )
    (pick,) = (item for item in lab.experiments.propose_auto(5) if item.new)
    assert pick.experiment.config == {"lr": 0.2}
    assert (pick.experiment.design.kind, pick.experiment.design.claim) == (made.design.kind, made.design.claim)

"""What decides a hypothesis is part of its fold: new thresholds decide it anew, without new evidence."""

from __future__ import annotations

from collections.abc import Callable

from perpetual import Lab
from perpetual.records import Experiment, Hypothesis

Campaign = Callable[..., tuple[Hypothesis, Experiment]]


def test_new_thresholds_decide_anew(lab: Lab, campaign: Campaign) -> None:
    hypothesis, experiment = campaign()
    lab.wait([run.id for run in lab.runs.launch(experiment.id, every=True)], timeout_s=30)
    decided = lab.hypotheses.get(hypothesis.id)
    assert decided.status == "supported"
    lab.settings.set_methodology("min_replicates", "3")
    assert lab.hypotheses.get(hypothesis.id).status == "open"
    lab.settings.set_methodology("min_replicates", "2")
    assert lab.hypotheses.get(hypothesis.id) == decided
    lab.settings.set_methodology("confidence_support_threshold", "0.9999")
    assert lab.hypotheses.get(hypothesis.id).status == "open"
    kinds = [event.payload["to"] for event in lab.events() if event.kind == "hypothesis_status"]
    assert kinds == ["supported", "open", "supported", "open"]

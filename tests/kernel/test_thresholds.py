"""What decides a hypothesis is part of its fold: new thresholds decide it anew, without new evidence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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


def test_an_earlier_methodology_is_known(lab: Lab) -> None:
    moments = [lab.feed.last()]
    for value in ("3", "5"):
        lab.settings.set_methodology("min_replicates", value)
        moments.append(lab.feed.last())
    assert [lab.settings.methodology_at(seq)["min_replicates"] for seq in moments] == [2, 3, 5]
    assert lab.settings.methodology_at(0)["alpha"] == lab.settings.methodology_at(moments[-1])["alpha"]


def test_an_event_that_names_no_earlier_value_follows_the_one_before(lab: Lab) -> None:
    with lab.context.store.transaction() as tx:
        for value in (3, 4):  # as the first records have them
            lab.context.emit(tx, "methodology_set", "alpha", {"value": value / 100})
    first = lab.feed.last() - 1
    default = lab.settings.methodology_at(lab.feed.last())["alpha"]
    assert [lab.settings.methodology_at(seq)["alpha"] for seq in (first - 1, first)] == [default, 0.03]


def test_an_earlier_methodology_costs_the_events_that_set_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.settings.set_methodology("min_replicates", "3")

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("all events were read")

    monkeypatch.setattr(lab.context.store, "rows", refused)
    assert [lab.settings.methodology_at(seq)["min_replicates"] for seq in (0, 10**6)] == [2, 3]

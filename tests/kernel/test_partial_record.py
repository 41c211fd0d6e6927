"""Part of the record, folded by itself: what is left out says nothing, and the present is left as it is."""

from __future__ import annotations

import pytest

from perpetual import Lab
from perpetual.api import EvidenceFold
from perpetual.errors import NotFound


def test_only_the_part_is_folded(lab: Lab) -> None:
    made = lab.hypotheses.add("it matters")
    lab.evidence.add(made.id, verdict="supports", why="a paper")
    once = lab.hypotheses.get(made.id)
    lab.evidence.add(made.id, verdict="supports", why="another paper", strength=0.5)
    now = lab.hypotheses.get(made.id)
    before = lab.feed.last()
    part = lab.evidence.partial_record(lab.settings.methodology_at(before))
    assert part.fold(made.id, prior=0.3)["confidence"] == pytest.approx(0.3)
    for id, then in (("v1", once), ("v2", now)):
        part.ids.add(id)
        found = part.fold(made.id, prior=0.5)
        assert (found["confidence"], found["evidence_count"]) == (then.confidence, then.evidence_count)
    assert part.fold(made.id, prior=0.5, parked=True)["status"] == "parked"
    assert part.fold(made.id, prior=0.5, restated=True)["flags"] == [
        "statement_changed: its statement was changed after evidence had come in"
    ]
    assert (lab.hypotheses.get(made.id), lab.feed.last()) == (now, before)
    with pytest.raises(NotFound, match="no hypothesis h9"):
        part.fold("h9", prior=0.5)


def test_a_run_counts_with_its_prediction_under_the_given_methodology(lab: Lab) -> None:
    made = lab.hypotheses.add("it helps", metric="acc", direction="max", mde=0.1, baseline=1.0)
    lab.settings.set_methodology("min_replicates", "3")
    command = "sh -c 'echo acc=1.5$PERPETUAL_SEED'"
    trial = lab.experiments.propose(made.id, command=command, noise=0.05, replicates=2)
    lab.experiments.approve(trial.id)
    lab.wait([run.id for run in lab.runs.launch(trial.id, every=True)], timeout_s=60)
    now = lab.hypotheses.get(made.id)
    part = lab.evidence.partial_record(lab.settings.methodology_at(lab.feed.last()))
    part.ids |= {trial.id, "r1", "r2", "v1", "v2"}
    found = part.fold(made.id, prior=0.5)
    assert set(found) == {*EvidenceFold.__annotations__}
    assert (found["status"], found["n_measured"], found["confidence"]) == ("open", 2, now.confidence)
    assert now.confidence > 0.8
    part.methodology = {**part.methodology, "min_replicates": 2}
    found = part.fold(made.id, prior=0.5)
    assert (found["status"], found["decided_by"]) == ("supported", "evidence")
    part.ids.discard(trial.id)  # without its prediction a row says nothing
    assert part.fold(made.id, prior=0.5)["confidence"] == pytest.approx(0.5)

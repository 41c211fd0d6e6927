"""Editing what has not run: checked as a proposal is, and the approval of what it was has ended."""

from __future__ import annotations

import os

import pytest

from perpetual import Lab
from perpetual.errors import Conflict, NotPermitted, UsageError

COMMAND = "sh -c 'echo acc: 0.9'"


@pytest.fixture
def pair(lab: Lab) -> Lab:
    """A baseline e1 and a claim e2 of h1 against it, both approved."""
    lab.experiments.propose(command=COMMAND, metric="acc", direction="max", replicates=2)
    lab.hypotheses.add("warm-up helps", metric="acc", direction="max", mde=0.1, baseline="e1")
    lab.experiments.propose("h1", command=f"{COMMAND} warm", cost_run_hours=1.0, tags=["a"], guards=["loss:min:0.5"])
    lab.experiments.approve_all(["e1", "e2"])
    return lab


def _events(lab: Lab, kind: str) -> list[dict[str, object]]:
    return [event.payload for event in lab.events() if event.kind == kind]


def test_a_changed_limit_ends_the_approval_and_nothing_else(pair: Lab) -> None:
    before = pair.experiments.get("e2")
    after = pair.experiments.edit("e2", wall_s=60.0)
    assert (after.status, after.approved_by, after.resources.wall_s) == ("proposed", None, 60.0)
    assert after.design == before.design
    assert after.spec_hash != before.spec_hash
    with pytest.raises(NotPermitted, match="e2 is not approved"):
        pair.runs.launch("e2")
    assert _events(pair, "experiment_edited")[0]["voided"] == ["e2"]
    assert pair.experiments.get("e1").status == "approved"
    pair.experiments.approve("e2")
    assert pair.experiments.get("e2").status == "approved"


def test_labels_are_bound_by_no_approval(pair: Lab) -> None:
    after = pair.experiments.edit("e2", title="two\nlines", notes="why", tags=["b", "a", "b"], priority=3)
    assert (after.status, after.title, after.tags, after.priority) == ("approved", "two lines", ("a", "b"), 3)
    pair.wait([run.id for run in pair.runs.launch("e1", every=True)])
    assert pair.experiments.edit("e1", notes="as in the paper").notes == "as in the paper"
    with pytest.raises(Conflict, match="only its title, notes, tags and priority"):
        pair.experiments.edit("e1", wall_s=60.0)


def test_what_followed_from_a_value_follows_its_change(pair: Lab) -> None:
    assert pair.experiments.get("e2").resources.wall_s == 1.5 * 3600
    after = pair.experiments.edit("e2", cost_run_hours=2.0, mde=0.2)
    assert after.resources.wall_s == 3.0 * 3600
    assert after.design.tau == pytest.approx(0.05)
    assert [*(after.design.guards or ())] == [{"metric": "loss", "direction": "min", "margin": 0.5}]
    assert pair.experiments.edit("e1", command="true now").title == "true now"


def test_another_command_of_a_baseline_ends_the_approval_of_its_claims(pair: Lab) -> None:
    pair.experiments.edit("e1", command="true")
    assert [pair.experiments.get(id).status for id in ("e1", "e2")] == ["proposed", "proposed"]
    with pytest.raises(Conflict, match="e1 carries e2: it keeps its metric"):
        pair.experiments.edit("e1", metric="loss")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"wal_s": 3.0}, "did you mean wall_s"),
        ({"extends": "e1"}, "unknown field"),
        ({}, "nothing to edit"),
        ({"replicates": 1}, "so already"),
        ({"replicates": 0}, "replicates must be"),
        ({"replicates": 2.5}, "replicates must be a whole number from 1 to 10,000, not 2.5"),
        ({"priority": 1.5}, "priority must be a whole number"),
        ({"tags": "abc"}, "the tags are a list of texts, not 'abc'"),
        ({"tags": [1]}, r"the tags are a list of texts, not \[1\]"),
        ({"title": 5}, "title must be a text, not int"),
        ({"notes": None}, "notes must be a text, not NoneType"),
        ({"scheduler": ["local"]}, "scheduler must be a text, not list"),
        ({"config": "lr=1"}, "config must be a table of names, not str"),
        ({"guards": 5}, "guards must be a list of texts, not int"),
        ({"noise": "small"}, "noise must be a finite number, not 'small'"),
        ({"command": "a | b"}, "shell operator"),
        ({"metric": "loss"}, "e1 measures acc, not loss"),
        ({"baseline": "e2"}, "e2 would be compared with itself"),
        ({"env": {"OPENAI_API_KEY": "sk-" + "a1B2" * 12}}, "holds a secret"),
    ],
)
def test_an_edit_that_no_proposal_could_be_is_refused(pair: Lab, changes: dict[str, object], words: str) -> None:
    before = pair.experiments.get("e2")
    with pytest.raises(UsageError, match=words):
        pair.experiments.edit("e2", **changes)  # type: ignore[arg-type]
    assert pair.experiments.get("e2") == before


def test_the_same_claim_twice_is_refused_by_an_edit_too(pair: Lab) -> None:
    pair.experiments.propose("h1", command=f"{COMMAND} other", cost_run_hours=1.0, guards=["loss:min:0.5"])
    with pytest.raises(Conflict, match="tried before as e2"):
        pair.experiments.edit("e3", command=f"{COMMAND} warm")


def test_no_claims_are_compared_in_a_circle(pair: Lab) -> None:
    """Each would wait for the other's numbers, and neither verdict would rest on a measurement."""
    pair.experiments.propose("h1", command=f"{COMMAND} other", baseline="e2")
    pair.experiments.propose("h1", command=f"{COMMAND} third", baseline="e3")
    with pytest.raises(UsageError, match="e2 would be compared with itself"):
        pair.experiments.edit("e2", baseline="e4")
    assert pair.experiments.edit("e4", baseline="e1").design.baseline == "e1"
    assert pair.experiments.edit("e2", baseline="e4").design.baseline == "e4"


def test_what_the_lab_sets_for_each_run_is_no_part_of_a_claim(pair: Lab) -> None:
    with pytest.raises(UsageError, match="PERPETUAL_SEED is set by the lab"):
        pair.experiments.propose("h1", command=f"{COMMAND} other", env={"PERPETUAL_SEED": "1"})
    with pytest.raises(UsageError, match="PERPETUAL_RUN_DIR is set by the lab"):
        pair.experiments.edit("e2", env={"PERPETUAL_RUN_DIR": "x"})
    assert pair.experiments.edit("e2", env={"PERPETUAL_CONFIG_X": "1"}).env == {"PERPETUAL_CONFIG_X": "1"}


def test_each_variable_that_a_run_gets_from_the_lab_is_refused(pair: Lab) -> None:
    made = pair.experiments.propose(command="env", metric="loss")
    pair.experiments.approve(made.id)
    (run,) = pair.runs.launch(made.id)
    pair.wait([run.id])
    shown = {line.partition("=")[0] for line in (pair.runs.log_dir(run.id) / "stdout.log").read_text().splitlines()}
    own = {name for name in shown - {*os.environ} if name.startswith("PERPETUAL_")}
    assert "PERPETUAL_SEED" in own
    for name in own:
        with pytest.raises(UsageError, match=f"{name} is set by the lab"):
            pair.experiments.propose("h1", command=f"{COMMAND} other", env={name: "1"})


def test_an_undo_closes_no_circle_either(pair: Lab) -> None:
    pair.experiments.propose("h1", command=f"{COMMAND} other", baseline="e2")
    pair.experiments.edit("e3", baseline="e1")
    with Lab.open(pair.root, actor="user:other") as other:
        other.experiments.edit("e2", baseline="e3")
    with pytest.raises(UsageError, match="e3 would be compared with itself"):
        pair.undo()
    assert pair.experiments.get("e3").design.baseline == "e1"


def test_agents_edit_their_own_waiting_proposals(pair: Lab) -> None:
    with Lab.open(pair.root, actor="mcp:codex/1") as agent:
        agent.experiments.propose(command="true", metric="acc")
        assert agent.experiments.edit("e3", wall_s=60.0).resources.wall_s == 60.0
        with pytest.raises(NotPermitted):
            agent.experiments.edit("e2", notes="x")
        pair.experiments.approve("e3")
        with pytest.raises(NotPermitted):
            agent.experiments.edit("e3", wall_s=61.0)
        with pytest.raises(NotPermitted):
            agent.hypotheses.edit("h1", statement="other")
    assert pair.experiments.get("e3").status == "approved"


def test_a_hypothesis_is_corrected_before_its_claims_run(pair: Lab) -> None:
    pair.hypotheses.add("typo", metric="accuracy", mde=0.1)
    assert pair.hypotheses.edit("h2", metric="acc", baseline="e1", statement="mended").prediction.metric == "acc"
    with pytest.raises(UsageError, match="e1 measures acc, not loss"):
        pair.hypotheses.edit("h2", metric="loss")
    with pytest.raises(UsageError, match="nothing to edit"):
        pair.hypotheses.edit("h2")
    for id in ("e1", "e2"):
        pair.wait([run.id for run in pair.runs.launch(id, every=True)])
    assert pair.hypotheses.get("h1").evidence_count
    with pytest.raises(Conflict, match="only its tags"):
        pair.hypotheses.edit("h1", mde=0.01)
    with pytest.raises(Conflict, match="only its tags"):
        pair.hypotheses.edit("h1", statement="what came out")
    assert pair.hypotheses.edit("h1", tags=["done"]).tags == ("done",)


def test_archived_claims_count_as_before(pair: Lab) -> None:
    for id in ("e1", "e2"):
        pair.wait([run.id for run in pair.runs.launch(id, every=True)])
    before, claim = pair.status()["family"], pair.hypotheses.get("h1")
    pair.experiments.approve(pair.experiments.propose("h1", command="true x").id)
    with pytest.raises(Conflict, match="approved, and what may run is not hidden"):
        pair.hypotheses.archive("h1")
    pair.experiments.reject("e3", "no")
    hidden = pair.hypotheses.archive("h1")
    assert hidden.archived
    assert (hidden.confidence, hidden.false_alarm_bound) == (claim.confidence, claim.false_alarm_bound)
    assert pair.status()["family"] == before
    assert pair.status()["hypotheses"] == []
    assert pair.hypotheses.list(archived=False).items == ()
    assert [item.id for item in pair.hypotheses.list().items] == ["h1"]
    assert [*pair.evidence.refold(check=True)] == []
    assert not pair.hypotheses.archive("h1", restore=True).archived
    assert pair.experiments.archive("e1").archived
    assert [item.id for item in pair.experiments.list(archived=False, limit=1).items] == ["e2"]

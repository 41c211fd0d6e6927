"""Undo: the caller's own last deed, put back by a change of its own; what others have built on stays."""

from __future__ import annotations

import pytest

from perpetual import Lab
from perpetual.errors import Conflict, NotPermitted


@pytest.fixture
def trial(lab: Lab) -> Lab:
    """A proposed baseline."""
    lab.experiments.propose(command="sh -c 'echo acc: 0.9'", metric="acc", direction="max")
    return lab


def test_each_deed_is_put_back_in_turn(trial: Lab) -> None:
    trial.hypotheses.add("it helps", metric="acc", direction="max", mde=0.1)
    trial.hypotheses.edit("h1", baseline="e1", tags=["a"])
    trial.hypotheses.update("h1", prior=0.4)
    trial.hypotheses.update("h1", status="parked")
    trial.experiments.approve("e1")
    trial.experiments.edit("e1", wall_s=99.0)
    trial.settings.set_methodology("min_replicates", "4")
    trial.queue.set_state("paused")
    trial.hypotheses.archive("h1")
    undone = [trial.undo()["kind"] for _ in range(4)]
    assert undone == ["record_archived", "queue_changed", "methodology_set", "experiment_edited"]
    assert trial.queue.state() == "running"
    assert trial.config.methodology["min_replicates"] == 2
    found = trial.experiments.get("e1")
    assert (found.resources.wall_s, found.status) == (86400.0, "proposed"), "an undone edit brings no approval back"
    assert trial.undo()["what"] == "the change of h1"
    assert trial.hypotheses.get("h1").status == "open"
    assert trial.undo()["subjects"] == ["h1"]
    assert trial.hypotheses.get("h1").prior == 0.5
    assert trial.hypotheses.get("h1").confidence == 0.5
    trial.undo()
    assert trial.hypotheses.get("h1").prediction.baseline is None
    assert trial.hypotheses.get("h1").tags == ()
    assert trial.undo()["kind"] == "hypothesis_added"
    assert (trial.hypotheses.get("h1").status, trial.hypotheses.get("h1").archived) == ("parked", True)
    assert trial.undo()["kind"] == "experiment_proposed"
    assert trial.experiments.get("e1").status == "rejected"
    with pytest.raises(Conflict, match="nothing of yours") as refused:
        trial.undo()
    assert refused.value.code == "nothing_to_undo"
    assert trial.storage.verify() == []


def test_approvals_of_one_call_are_one_deed_and_a_rejection_comes_back_unapproved(trial: Lab) -> None:
    trial.experiments.propose(command="true", metric="acc")
    trial.experiments.approve_all(["e1", "e2"])
    trial.experiments.reject("e2", "no")
    trial.undo()
    assert trial.experiments.get("e2").status == "proposed"
    assert trial.undo()["subjects"] == ["e1"], "the approval of e2 is over already"
    assert trial.experiments.get("e1").status == "proposed"


def test_a_dry_run_says_the_same_and_writes_nothing(trial: Lab) -> None:
    before = trial.storage.changes(0)[0]
    assert trial.undo(dry_run=True)["what"] == "the proposal e1"
    assert trial.storage.changes(0)[0] == before
    assert trial.experiments.get("e1").status == "proposed"


def test_what_others_have_built_on_stays(trial: Lab) -> None:
    trial.experiments.approve("e1")
    trial.wait([trial.runs.launch("e1")[0].id])
    for dry_run in (True, False):
        with pytest.raises(Conflict, match="the approval of e1 cannot be undone: it has runs") as refused:
            trial.undo(dry_run=dry_run)
        assert refused.value.code == "built_on"
    trial.hypotheses.add("it helps")
    with Lab.open(trial.root, actor="mcp:codex/1") as agent:
        agent.experiments.propose("h1", command="true")
    with pytest.raises(Conflict, match="e2 tests it"):
        trial.undo()
    trial.experiments.propose(command="true 2", metric="acc")
    trial.hypotheses.update("h1", tags=["a"])
    with Lab.open(trial.root, actor="user:other") as other:
        other.hypotheses.update("h1", tags=["b"])
    with pytest.raises(Conflict, match="tags changed again since"):
        trial.undo()
    assert trial.hypotheses.get("h1").tags == ("b",)


def test_everyone_takes_back_deeds_of_their_own(trial: Lab) -> None:
    with Lab.open(trial.root, actor="mcp:codex/1") as agent:
        with pytest.raises(Conflict, match="nothing of yours"):
            agent.undo()
        agent.hypotheses.add("mine")
        trial.hypotheses.add("a person's")
        assert agent.undo()["subjects"] == ["h1"]
    assert not trial.hypotheses.get("h2").archived


def test_an_agent_archives_what_it_added_and_nothing_else(trial: Lab) -> None:
    trial.experiments.reject("e1", "no")
    trial.hypotheses.add("a person's")
    with Lab.open(trial.root, actor="mcp:codex/1") as agent:
        agent.hypotheses.add("mine")
        assert agent.hypotheses.archive("h2").archived
        with pytest.raises(NotPermitted, match="added by another"):
            agent.hypotheses.archive("h1")
        with pytest.raises(NotPermitted, match="added by another"):
            agent.experiments.archive("e1")
    found = trial.hypotheses.get("h1")
    assert (found.status, found.archived) == ("open", False)


def test_evidence_is_never_taken_back(trial: Lab) -> None:
    trial.hypotheses.add("it helps")
    trial.evidence.add("h1", verdict="supports", why="seen elsewhere")
    with pytest.raises(Conflict, match="it has evidence"):
        trial.undo()
    assert trial.hypotheses.get("h1").evidence_count == 1


def test_a_hypothesis_and_its_experiment_of_one_commit_go_together(trial: Lab) -> None:
    """As `try` leaves them for an agent: the proposal is rejected first, and then tests the hypothesis no longer."""
    with trial.together():
        made = trial.hypotheses.add("a larger batch helps")
        proposed = trial.experiments.propose(made.id, command="true --batch 64")
    assert trial.undo()["subjects"] == [made.id, proposed.id]
    assert trial.experiments.get(proposed.id).status == "rejected"
    assert [item.id for item in trial.hypotheses.list(archived=False).items if item.id == made.id] == []


def test_edits_are_taken_back_one_by_one_and_not_over_anothers_change(trial: Lab) -> None:
    trial.experiments.edit("e1", wall_s=99.0)
    trial.experiments.edit("e1", title="A")
    trial.experiments.edit("e1", title="B")
    trial.undo()
    trial.undo()
    trial.undo()
    found = trial.experiments.get("e1")
    assert (found.title, found.resources.wall_s) == ("sh -c 'echo acc: 0.9'", 86400.0)
    trial.experiments.edit("e1", priority=1)
    with Lab.open(trial.root, actor="user:other") as other:
        other.queue.prioritise("e1", 5)
    with pytest.raises(Conflict, match="edited again"):
        trial.undo()
    assert trial.experiments.get("e1").priority == 5


def test_a_change_of_the_queues_order_stops_no_undo(trial: Lab) -> None:
    """It is not among the deeds that are taken back; those before it are."""
    trial.queue.set_state("paused")
    trial.queue.set_group("g", 1)
    trial.queue.join("e1", "g")
    trial.queue.prioritise("e1", 5)
    assert trial.undo()["what"] == "the change of the queue"
    assert trial.queue.state() == "running"
    assert trial.undo()["kind"] == "experiment_proposed"

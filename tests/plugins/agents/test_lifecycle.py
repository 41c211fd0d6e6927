"""States and moves: legal ones by the table, every other one a typed error that changes nothing."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from perpetual import Lab
from perpetual.api import Conflict, NotFound, UsageError
from perpetual_agents.agents import Agents
from perpetual_agents.checkpoints import Checkpoints
from perpetual_agents.lifecycle import MOVES, STATES, IllegalMove, Move, after, legal_moves
from perpetual_agents.operations import pause, resume, start, stop

LEGAL = {
    ("created", "start"): "running", ("created", "stop"): "stopped", ("running", "pause"): "paused",
    ("running", "stop"): "stopped", ("running", "fail"): "error", ("paused", "resume"): "running",
    ("paused", "stop"): "stopped", ("paused", "fail"): "error", ("stopped", "start"): "running",
    ("error", "start"): "running", ("error", "resume"): "running", ("error", "stop"): "stopped",
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("move", MOVES)
def test_every_pair_is_legal_or_a_typed_error(state: str, move: Move) -> None:
    """The table is written down a second time here, so that a change of it is meant."""
    wanted = LEGAL.get((state, move))
    if wanted is not None:
        assert after("a1", state, move) == wanted
        return
    with pytest.raises(IllegalMove) as raised:
        after("a1", state, move)
    assert raised.value.exit == 6
    assert (raised.value.state, raised.value.move) == (state, move)
    assert set(raised.value.legal) == {name for name in legal_moves(state) if name != "fail"}
    assert move not in raised.value.legal


def test_an_unknown_move_is_refused() -> None:
    """It names the nearest."""
    with pytest.raises(Conflict, match="start"):
        after("a1", "created", cast("Move", "strat"))


class Lifecycle(RuleBasedStateMachine):
    """An agent's life against a model of it: states, goals, names, checkpoints; the record opened anew at times."""

    def __init__(self) -> None:
        super().__init__()
        self.place = TemporaryDirectory()
        self.lab = Lab.init(Path(self.place.name), name="machine")
        self.agents = Agents(self.lab)
        self.id = self.agents.create("one", purpose="p").id
        self.state, self.goals, self.labels, self.deleted = "created", list[str](), list[str](), False
        self.data: dict[str, object] = {}
        self.at: dict[str, tuple[list[str], dict[str, object]]] = {}

    def teardown(self) -> None:
        self.lab.close()
        self.place.cleanup()

    def _move(self, move: str) -> None:
        acts = {"start": start, "pause": pause, "resume": resume, "stop": stop}
        wanted = LEGAL.get((self.state, move))
        if wanted is None:
            with pytest.raises(IllegalMove):
                acts[move](self.lab, self.id)
        else:
            assert acts[move](self.lab, self.id).state == wanted
            self.state = wanted

    @precondition(lambda self: not self.deleted)
    @rule(move=st.sampled_from(["start", "pause", "resume", "stop"]))
    def move(self, move: str) -> None:
        """Legal moves lead where the table says, others change nothing."""
        self._move(move)

    @precondition(lambda self: not self.deleted)
    @rule()
    def fail(self) -> None:
        """A fault leads to the state error from where it can happen."""
        wanted = LEGAL.get((self.state, "fail"))
        if wanted is None:
            with pytest.raises(IllegalMove):
                self.agents.move(self.id, "fail", reason="a fault")
        else:
            self.agents.move(self.id, "fail", reason="a fault")
            self.state = wanted

    @precondition(lambda self: not self.deleted)
    @rule(
        text=st.text(min_size=1, max_size=20).filter(
            lambda text: text.strip() and "\0" not in text and text.isprintable()
        )
    )
    def add_goal(self, text: str) -> None:
        """Goals keep their order."""
        self.agents.add_goal(self.id, text)
        self.goals.append(text)

    @precondition(lambda self: not self.deleted)
    @rule(key=st.sampled_from("abc"), value=st.integers(-5, 5))
    def save(self, key: str, value: int) -> None:
        """The agent's own state is what was saved last."""
        self.data = {**self.data, key: value}
        self.agents.save_data(self.id, self.data)

    @precondition(lambda self: not self.deleted and len(self.labels) < 4)
    @rule()
    def checkpoint(self) -> None:
        """A labelled checkpoint is kept."""
        label = f"at {len(self.labels)}"
        Checkpoints(self.lab).take(self.id, label=label)
        self.labels.append(label)
        self.at[label] = [*self.goals], dict(self.data)

    @precondition(lambda self: not self.deleted and self.labels)
    @rule(place=st.integers(0, 3))
    def restore(self, place: int) -> None:
        """Restoring brings goals and state back, keeps the state of life, and saves the present first."""
        label = self.labels[place % len(self.labels)]
        if self.state == "running":
            with pytest.raises(Conflict):
                Checkpoints(self.lab).restore(self.id, label)
            return
        before = {one["id"] for one in Checkpoints(self.lab).list(self.id).items}
        agent, saved = Checkpoints(self.lab).restore(self.id, label)
        assert saved["id"] not in before
        assert agent.state == self.state
        self.goals, self.data = [*self.at[label][0]], dict(self.at[label][1])

    @rule()
    def again(self) -> None:
        """The record says the same to a process that opens it anew."""
        self.lab.close()
        self.lab = Lab.open(Path(self.place.name))
        self.agents = Agents(self.lab)

    @precondition(lambda self: not self.deleted)
    @rule()
    def delete(self) -> None:
        """One that runs or rests is not deleted; a deleted one frees its name."""
        if self.state in ("running", "paused"):
            with pytest.raises(Conflict):
                self.agents.delete(self.id)
            return
        self.agents.delete(self.id)
        with pytest.raises(NotFound):
            self.agents.get(self.id)
        self.id = self.agents.create("one", purpose="p").id
        self.state, self.goals, self.labels, self.data = "created", [], [], {}

    @invariant()
    def says_the_same(self) -> None:
        """What the record says is what the model says."""
        agent = self.agents.get("one")
        assert (agent.id, agent.state) == (self.id, self.state)
        assert [goal["text"] for goal in agent.goals] == self.goals
        assert agent.data == self.data
        labels = {one["label"] for one in Checkpoints(self.lab).list(self.id).items if one["label"]}
        assert labels == set(self.labels)
        assert self.agents.count()["total"] == 1


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(
    max_examples=12, stateful_step_count=18, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_names_and_texts_that_cannot_be(lab: Lab) -> None:
    """Each is refused by name, and nothing is recorded."""
    agents = Agents(lab)
    for name in ("", " ", "a1", "A7", "-x", "../x", "x/y", "x\0", "a b", "x" * 101, "naïve"):
        with pytest.raises(UsageError):
            agents.create(name)
    for fields in ({"purpose": "x" * 70_000}, {"tools": ["nothing"]}, {"tools": "lab"}, {"criteria": "one"},
                   {"settings": {"max_steps": 0}}, {"settings": {"max_steps": float("nan")}}, {"settings": {"nope": 1}},
                   {"limits": {"usd": -1}}, {"limits": {"usd": float("inf")}}, {"limits": {"euro": 1}},
                   {"limits": {"calls": True}}, {"system_prompt": "a\0b"}, {"criteria": [""]}):  # fmt: skip
        with pytest.raises(UsageError):
            agents.create("fine", **fields)
    with pytest.raises(NotFound):
        agents.create("fine", hypothesis="h9")
    assert agents.list().items == ()


def test_a_name_is_taken_once_and_found_in_any_case_of_an_id(lab: Lab) -> None:
    """An id is found in any case; a second agent of a name is a conflict, and with a key it is the first."""
    agents = Agents(lab)
    first = agents.create("scout", idempotency_key="k")
    assert agents.get("A1").id == agents.get("scout").id == first.id
    assert agents.create("scout", idempotency_key="k").id == first.id
    with pytest.raises(Conflict):
        agents.create("other", idempotency_key="k")
    with pytest.raises(Conflict, match="a1"):
        agents.create("scout")
    assert agents.count()["total"] == 1

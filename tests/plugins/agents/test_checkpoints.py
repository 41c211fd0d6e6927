"""Checkpoints: taken by themselves and by hand, restored with the present saved, forked inside one budget, pruned."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Conflict, CorruptData, NotFound, UsageError
from perpetual_agents import accounts
from perpetual_agents.agents import Agents
from perpetual_agents.bundle import read, write
from perpetual_agents.checkpoints import Checkpoints, fork_name
from perpetual_agents.comparison import compare
from perpetual_agents.handlers.history import window
from perpetual_agents.journal import Journal
from perpetual_agents.memory import AgentMemory
from perpetual_agents.model import ModelReply, ModelRequest
from perpetual_agents.operations import pause, resume, start, stop
from tests.plugins.agents.support import Scripted, agent, call, say, work


def texts(lab: Lab, id: str) -> list[str]:
    """What the history of an agent says, oldest first."""
    one = Agents(lab).get(id)
    return [message["text"] for message in window(Journal(lab, one.id, one.branch), 1000)]


def test_they_are_taken_at_an_interval_and_pruned(lab: Lab) -> None:
    """Every so many steps, on pause and on stop; the oldest go, one with a label never does."""
    id = agent(lab, settings={"checkpoint_every": 2, "keep_checkpoints": 3})
    checkpoints = Checkpoints(lab)
    checkpoints.take(id, label="first")
    work(lab, id, Scripted(say("ok")), *(f"m{n}" for n in range(9)))
    taken = checkpoints.list(id).items
    assert [one["reason"] for one in taken] == ["auto", "auto", "auto", "manual"]
    assert [one["id"] for one in taken] == ["k5", "k4", "k3", "k1"]
    pause(lab, id)
    resume(lab, id)
    stop(lab, id)
    assert [one["reason"] for one in checkpoints.list(id).items] == ["stop", "pause", "auto", "manual"]
    assert checkpoints.prune(id, keep=0) == ["k5", "k6", "k7"] or len(checkpoints.list(id).items) == 1
    assert [one["label"] for one in checkpoints.list(id).items] == ["first"]
    with pytest.raises(NotFound):
        checkpoints.restore(id, "k5")


def test_restoring_brings_the_past_back_and_loses_nothing(lab: Lab) -> None:
    """Messages, goals and state are as they were; the present is a checkpoint, and can be brought back too."""
    id = agent(lab)
    work(lab, id, Scripted(say("a1")), "one")
    Agents(lab).save_data(id, {"n": 1})
    goal = Agents(lab).add_goal(id, "the goal")["id"]
    Checkpoints(lab).take(id, label="then")
    work(lab, id, Scripted(say("a2")), "two")
    Agents(lab).save_data(id, {"n": 2})
    Agents(lab).update_goal(id, goal, status="done")
    Agents(lab).post(id, "not answered yet")
    with pytest.raises(Conflict, match="running"):
        Checkpoints(lab).restore(id, "then")
    pause(lab, id)
    one, saved = Checkpoints(lab).restore(id, "then")
    assert texts(lab, id) == ["one", "a1"]
    assert (one.data, one.goals[0]["status"], one.state) == ({"n": 1}, "open", "paused")
    assert not Agents(lab).pending(id)
    resume(lab, id)
    work(lab, id, Scripted(say("a3")), "three")
    assert texts(lab, id) == ["one", "a1", "three", "a3"]
    pause(lab, id)
    one, _ = Checkpoints(lab).restore(id, saved["id"])
    assert texts(lab, id) == ["one", "a1", "two", "a2"]
    assert one.data == {"n": 2}


def test_a_fork_has_the_past_one_change_and_the_same_budget(lab: Lab) -> None:
    """Both go on by themselves; what they use is counted together."""
    id = agent(lab, limits={"calls": 3})
    work(lab, id, Scripted(say("a1")), "one")
    fork = Checkpoints(lab).fork(id, fork_name(lab, id), system_prompt="be bold", data={"k": 1})
    assert (fork.name, fork.state, fork.parent) == ("scout-fork-1", "created", id)
    start(lab, fork.id)
    bold, plain = Scripted(say("bold")), Scripted(say("plain"))
    work(lab, fork.id, bold, "and now?")
    work(lab, id, plain, "and now?")
    assert texts(lab, fork.id) == ["one", "a1", "and now?", "bold"]
    assert texts(lab, id) == ["one", "a1", "and now?", "plain"]
    assert "be bold" in bold.requests[0].system
    assert "be bold" not in plain.requests[0].system
    assert accounts.read(lab, Agents(lab).get(fork.id).account)["used"]["calls"] == 3
    (refused,) = work(lab, fork.id, bold, "more")
    assert refused["state"] == "pending"
    assert Agents(lab).get(fork.id).state == "paused"
    found = compare(lab, [id, fork.id])
    assert found["differs"].keys() == {"system_prompt", "data", "state"}
    assert [one["model"] for one in found["steps"]] == [2, 1]
    assert found["answers"][1][1]["answer"] == "bold"


def test_a_fork_at_an_older_place(lab: Lab) -> None:
    """Its past ends there; an unknown place, a taken name and a strange change are refused, and nothing is made."""
    id = agent(lab)
    work(lab, id, Scripted(say("a1")), "one")
    Checkpoints(lab).take(id, label="early")
    work(lab, id, Scripted(say("a2")), "two")
    fork = Checkpoints(lab).fork(id, "early-bird", checkpoint="early", model="openai:other")
    assert texts(lab, fork.id) == ["one", "a1"]
    assert fork.model == "openai:other"
    with pytest.raises(NotFound):
        Checkpoints(lab).fork(id, "x", checkpoint="never")
    with pytest.raises(Conflict):
        Checkpoints(lab).fork(id, "early-bird")
    with pytest.raises(UsageError):
        Checkpoints(lab).fork(id, "y", tools=["nothing"])
    assert Agents(lab).count()["total"] == 2


def test_a_fork_remembers_what_its_parent_knew_then(lab: Lab) -> None:
    """Entries as they were at the checkpoint; what either writes since is its own."""
    id, memory = agent(lab), AgentMemory(lab)
    memory.set(id, "lr", "0.1 diverges")
    memory.set(id, "gone", "soon")
    Checkpoints(lab).take(id, label="then")
    memory.set(id, "lr", "0.01 diverges too")
    memory.delete(id, "gone")
    memory.set(id, "later", "new")
    old = Checkpoints(lab).fork(id, "old", checkpoint="then")
    new = Checkpoints(lab).fork(id, "new")
    assert {one["key"]: one["value"] for one in memory.list(old.id).items} == {"lr": "0.1 diverges", "gone": "soon"}
    assert {one["key"]: one["value"] for one in memory.list(new.id).items} == {
        "lr": "0.01 diverges too", "later": "new",
    }  # fmt: skip
    memory.set(old.id, "lr", "fine")
    assert memory.get(id, "lr")["value"] == "0.01 diverges too"
    assert [hit["key"] for hit in memory.search("diverges", [new.id])] == ["lr"]


def test_labels_are_taken_once(lab: Lab) -> None:
    """An empty one and an overlong one are refused."""
    id = agent(lab)
    Checkpoints(lab).take(id, label="x")
    with pytest.raises(Conflict):
        Checkpoints(lab).take(id, label="x")
    for label in ("", "x" * 300):
        with pytest.raises(UsageError):
            Checkpoints(lab).take(id, label=label)


def test_a_checkpoint_in_the_middle_of_a_turn_is_a_whole_conversation(lab: Lab) -> None:
    """A fork made while a tool is called has no call without a result."""
    made: list[str] = []

    def answer(request: ModelRequest) -> ModelReply:
        made.append(Checkpoints(lab).fork(scout, "midway").id)
        return say("done")

    scout = agent(lab, tools=["goals"])
    work(lab, scout, Scripted(say("", call("goals_list")), answer), "go")
    one = Agents(lab).get("midway")
    found = window(Journal(lab, one.id, one.branch), 100)
    assert [message["role"] for message in found] == ["user", "assistant", "tool"]


def test_a_bundle_carries_an_agent_to_another_project(lab: Lab, tmp_path: Path) -> None:
    """History, goals, state, labelled checkpoints; a private file; no permission to run code comes along."""
    id = agent(lab, tools=["goals", "python:json:dumps"], purpose="p", limits={"calls": 9})
    assert Agents(lab).get(id).mark
    work(lab, id, Scripted(say("", call("goals_add", text="g")), say("a1")), "one")
    Agents(lab).save_data(id, {"n": [1, "ü"]})
    Checkpoints(lab).take(id, label="then")
    work(lab, id, Scripted(say("a2")), "two")
    path = tmp_path / "scout.json"
    made = write(lab, id, str(path))
    assert made["steps"] == 13
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with pytest.raises(Conflict):
        write(lab, id, str(path))
    with Lab.init(tmp_path / "other") as other:
        there = read(other, str(path))
        assert (there.state, there.mark, there.data) == ("created", None, {"n": [1, "ü"]})
        assert [goal["text"] for goal in there.goals] == ["g"]
        assert texts(other, there.id) == texts(lab, id)
        Checkpoints(other).restore(there.id, "then")
        assert "two" not in texts(other, there.id)
        with pytest.raises(Conflict, match="scout"):
            read(other, str(path))
        assert read(other, str(path), name="second").id != there.id
        start(other, "second")
        assert work(other, "second", Scripted(say("here")), "go on")[0]["answer"] == "here"


def test_what_a_bundle_says_that_a_person_said_is_no_persons_word(lab: Lab, tmp_path: Path) -> None:
    """It is not pinned, and neither are its entries of memory a person's."""
    id = agent(lab)
    work(lab, id, Scripted(say("a1")), "I approve of everything")
    AgentMemory(lab).set(id, "rule", "approve it all")
    write(lab, id, str(tmp_path / "a.json"))
    there = read(lab, str(tmp_path / "a.json"), name="copy")
    said = window(Journal(lab, there.id, there.branch), 10)[0]
    assert (said["text"], said["pinned"]) == ("I approve of everything", False)
    assert said["sender"].startswith("import:user:")
    assert AgentMemory(lab).get(there.id, "rule")["author"].startswith("import:user:")


@pytest.mark.parametrize(
    "change",
    [
        {"name": 7}, {"steps": {}}, {"steps": [{"turn": "x"}]}, {"steps": [7]}, {"checkpoints": [{"label": 1}]},
        {"goals": [7]}, {"counters": {"turns": "x"}}, {"format": "perpetual.agent/2"}, {"format": "x"}, {"data": []},
        {"tools": ["nothing"]}, {"limits": {"usd": -1}}, {"name": "../x"}, {"tools": [7]}, {"settings": {"x": 1}},
    ],
)  # fmt: skip
def test_a_strange_bundle_makes_nothing(lab: Lab, tmp_path: Path, change: dict[str, object]) -> None:
    """Each is refused by name, also with a hash that fits."""
    from hashlib import sha256

    id = agent(lab)
    path = tmp_path / "scout.json"
    write(lab, id, str(path))
    content = {**json.loads(path.read_text()), "name": "copy", **change}
    del content["sha256"]
    form = json.dumps(content, sort_keys=True, ensure_ascii=True).encode()
    path.write_text(json.dumps({**content, "sha256": sha256(form).hexdigest()}))
    with pytest.raises((CorruptData, UsageError)):
        read(lab, str(path))
    assert Agents(lab).count()["total"] == 1


def test_a_bundle_that_was_changed_or_is_none(lab: Lab, tmp_path: Path) -> None:
    """A changed word, no JSON, deep nesting, a folder, nothing at all."""
    id = agent(lab, purpose="an honest purpose")
    path = tmp_path / "scout.json"
    write(lab, id, str(path))
    path.write_text(path.read_text().replace("honest", "hidden"))
    with pytest.raises(CorruptData, match="changed"):
        read(lab, str(path))
    for text in ("", "{", "[" * 100_000, "null", '"x"', "\0"):
        path.write_text(text)
        with pytest.raises(CorruptData):
            read(lab, str(path))
    for missing in (tmp_path / "none.json", tmp_path):
        with pytest.raises(NotFound):
            read(lab, str(missing))
    with pytest.raises(NotFound):
        write(lab, id, str(tmp_path / "no" / "folder.json"))

"""What comes before what in the queue: dependencies, groups, priorities, stashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.errors import Conflict, NotFound, NotPermitted, UsageError
from tests.support import LONG_S

HELD = "sh -c 'while ! test -e go; do sleep 0.02; done'"


@pytest.fixture
def lab(project: Path) -> Lab:
    """A project's lab whose queue has room for many."""
    lab = Lab.open(project)
    lab.config.methodology.set("max_concurrent_runs", "20")
    return lab


def proposed(lab: Lab, command: str = "true", count: int = 1, *, approve: bool = True) -> str:
    """Returns the id of an approved experiment."""
    id = lab.experiments.propose(command=command, replicates=count, wall_s=LONG_S, title=command).id
    if approve:
        lab.experiments.approve(id)
    return id


def launched(lab: Lab, id: str) -> list[str]:
    """Starts all of an experiment's runs, or queues them."""
    return [each.id for each in lab.runs.launch(id, every=True)]


def test_it_starts_once_another_has_succeeded(lab: Lab, project: Path) -> None:
    first, second = proposed(lab, HELD, 2), proposed(lab)
    lab.queue.after(second, [first])
    runs, (waiting,) = launched(lab, first), launched(lab, second)
    assert lab.runs.get(waiting).reason == f"it comes after {first}, which is active"
    assert lab.queue.places(lab.queue.waiting().items)[0]["after"] == [first]
    lab.runs.kill(runs[0], grace_s=0.0)
    (project / "go").touch()
    assert lab.wait([runs[1]], timeout_s=LONG_S) == {runs[1]: "done"}
    reason = str(lab.runs.get(waiting).reason)
    assert f"{first}, which ended without success (perpetual retry {runs[0]}" in reason
    again = lab.runs.retry(runs[0])
    assert lab.wait([again.id, waiting], timeout_s=LONG_S) == {again.id: "done", waiting: "done"}


def test_however_another_has_ended(lab: Lab) -> None:
    first, second = proposed(lab, "false"), proposed(lab)
    lab.queue.after(second, [first])
    (waiting,) = launched(lab, second)
    (failed,) = launched(lab, first)
    lab.wait([failed], timeout_s=LONG_S)
    lab.scan()
    assert lab.runs.get(waiting).status == "queued"
    lab.queue.after(second, [f"{first}:any"])
    assert lab.wait([waiting], timeout_s=LONG_S) == {waiting: "done"}


def test_a_rejected_one_is_named_and_a_circle_refused(lab: Lab) -> None:
    first, second, third = (proposed(lab, approve=False) for _ in range(3))
    lab.queue.after(second, [first])
    lab.queue.after(third, [second])
    for id, before in ((first, third), (first, first), (first, f"{second}:any")):
        with pytest.raises(UsageError, match="wait for one another"):
            lab.queue.after(id, [before])
    for wrong, error in (("e99", NotFound), (f"{first}:all", UsageError), ("", NotFound), ("r1;x", NotFound)):
        with pytest.raises(error):
            lab.queue.after(second, [wrong])
    lab.experiments.reject(first, why="no")
    lab.experiments.approve(second)
    (waiting,) = launched(lab, second)
    assert f"{first}, which is rejected (perpetual queue after {second}" in str(lab.runs.get(waiting).reason)
    lab.queue.after(second, [])
    assert lab.wait([waiting], timeout_s=LONG_S) == {waiting: "done"}


def test_a_group_has_its_own_limit(lab: Lab, project: Path) -> None:
    with pytest.raises(NotFound):
        lab.queue.join(proposed(lab), "big")
    lab.queue.set_group("big", 1)
    id, other = proposed(lab, HELD, 3), proposed(lab, f"{HELD} other")
    lab.queue.join(id, "big")
    lab.queue.join(other, "big")
    runs = [*launched(lab, id), *launched(lab, other)]
    assert [lab.runs.get(each).status for each in runs] == ["running", "queued", "queued", "queued"]
    assert lab.runs.get(runs[3]).reason == "its group big takes 1 at once, and 1 of them is live"
    lab.queue.set_group("big", 0)
    lab.scan()
    assert lab.runs.get(runs[3]).reason == "its group big takes no run: its limit is 0"
    lab.queue.set_group("big", 3)
    lab.scan()
    assert [lab.runs.get(each).status for each in runs] == ["running"] * 3 + ["queued"]
    for name, parallel in (("", 1), ("a\x1b[31m", 1), ("x" * 65, 1), ("big", -1), ("big", 10**9)):
        with pytest.raises(UsageError):
            lab.queue.set_group(name, parallel)
    (project / "go").touch()
    assert set(lab.wait(runs, timeout_s=LONG_S).values()) == {"done"}


def test_priority_is_changed_while_it_waits(lab: Lab) -> None:
    lab.queue.set_state("paused")
    low, high = proposed(lab, count=2), proposed(lab, "true high", 2)
    runs = [*launched(lab, low), *launched(lab, high)]
    assert [each.id for each in lab.queue.waiting().items] == runs
    lab.queue.prioritise(high, 5)
    lab.queue.prioritise(runs[1], 10)
    lab.queue.prioritise(runs[2], 0)
    assert [each.id for each in lab.queue.waiting().items] == [runs[1], runs[3], runs[0], runs[2]]
    assert [place["priority"] for place in lab.queue.places(lab.queue.waiting().items)] == [10, 5, 0, 0]
    with pytest.raises(UsageError):
        lab.queue.prioritise(high, 10**10)
    lab.queue.set_state("running")
    lab.wait(runs, timeout_s=LONG_S)
    with pytest.raises(Conflict, match="waits for nothing"):
        lab.queue.prioritise(runs[0], 1)


def test_a_stashed_run_is_passed_over(lab: Lab) -> None:
    lab.queue.set_state("paused")
    first, second, third = launched(lab, proposed(lab, count=3))
    lab.queue.stash(first)
    lab.queue.stash(second, until=datetime.now(UTC) + timedelta(hours=2))
    lab.queue.stash(third, until=datetime.now(UTC) - timedelta(seconds=5))
    lab.queue.set_state("running")
    assert lab.wait([third], timeout_s=LONG_S) == {third: "done"}
    assert [lab.runs.get(each).status for each in (first, second)] == ["queued", "queued"]
    assert f"perpetual queue enqueue {first}" in str(lab.runs.get(first).reason)
    lab.queue.enqueue(first)
    assert lab.wait([first], timeout_s=LONG_S) == {first: "done"}
    assert lab.runs.kill(second).status == "killed"


def test_an_agent_changes_no_order_of_a_person(lab: Lab, project: Path) -> None:
    lab.queue.set_state("paused")
    lab.queue.set_group("big", 1)
    id = proposed(lab)
    (waiting,) = launched(lab, id)
    lab.queue.stash(waiting)
    with Lab.open(project, actor="agent:claude-code") as agent:
        refused: list[Callable[[], object]] = [
            lambda: agent.queue.enqueue(waiting), lambda: agent.queue.set_group("big", 9),
            lambda: agent.queue.after(id, []), lambda: agent.queue.join(id, None),
        ]  # fmt: skip
        for deed in refused:
            with pytest.raises(NotPermitted):
                deed()
        own = proposed(agent, approve=False)
        agent.queue.after(own, [id])
        agent.queue.join(own, "big")


def test_the_command_line_has_all_of_it(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    def answered(*words: str, code: int = 0) -> dict[str, Any]:
        assert run([*words, "--json"]) == code
        return dict(json.loads(capsys.readouterr().out or "{}"))

    answered("queue", "pause")
    assert answered("queue", "group", "big", "--parallel", "2")["groups"] == {"big": 2}
    answered("propose", "--command", "true")
    answered("propose", "--command", "true", "--after", "e1", "--after", "e1:any", "--group", "big")
    answered("propose", "--command", "true", "--after", "e9", code=5)
    answered("propose", "--command", "true", "--group", "nope", code=5)
    assert {each.id for each in lab.experiments.list().items} == {"e1", "e2"}, "all of it, or nothing"
    answered("approve", "e1", "e2")
    answered("run", "e1")
    answered("run", "e2")
    assert [place["group"] for place in answered("queue")["places"]] == [None, "big"]
    assert answered("queue", "priority", "r2", "-5")["places"][1]["priority"] == -5
    assert answered("queue", "stash", "r1", "--until", "2h")["places"][0]["stashed"] is True
    answered("queue", "stash", "r1", "--until", "1e400", code=2)
    answered("queue", "stash", "r1", "--until", "never", code=2)
    assert answered("queue", "enqueue", "r1")["places"][0]["stashed"] is False
    assert answered("queue", "after", "e2")["places"][1]["after"] == []
    answered("queue", "resume")
    assert answered("wait", "e1", "e2")["items"]


def test_resuming_starts_what_waits_though_no_run_is_live(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No end would do so; and a caller that waits meanwhile reads what for."""
    monkeypatch.setenv("PERPETUAL_QUEUE_MOVES", "true")
    assert run(["queue", "pause"]) == 0
    (waiting,) = launched(lab, proposed(lab))
    assert run(["wait", waiting, "--timeout", "0.2s", "--plain"]) == 3
    assert f"{waiting} waits: the queue is paused" in capsys.readouterr().err
    assert run(["queue", "resume"]) == 0
    lab.wait([waiting], timeout_s=LONG_S)
    assert lab.runs.get(waiting).status == "done"

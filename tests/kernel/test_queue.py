"""How the queue is served: what waits costs nothing to look at, and what cannot be looked at holds up nobody."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import TransientError, UsageError
from perpetual.lab.context import Context
from perpetual.lab.engines.placing import Surveys
from perpetual.lab.kinds import RunRow
from perpetual.lab.runs import start
from tests.faults.run_harness import approved, opened


def three_runs(lab: Lab) -> list[str]:
    """A run of each of three experiments; with one that is live at a time, two of them wait."""
    return [lab.runs.launch(approved(lab, "sleep 600"))[0].id for _ in range(3)]


def test_a_run_that_waits_for_the_same_is_not_written_and_takes_no_lock(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for runs looks each second, and a queue may be long."""
    with opened(project, max_concurrent_runs="1") as lab:
        three_runs(lab)
        transaction = lab.context.store.transaction
        begun: list[object] = []

        def counted(*given: Any, **named: Any) -> Any:
            begun.append(given)
            return transaction(*given, **named)

        monkeypatch.setattr(lab.context.store, "transaction", counted)
        assert start.advance_queue(lab.context, Surveys(lab.context)) == ([], [])
        assert begun == []
        monkeypatch.undo()
        assert {run.reason for run in lab.queue.waiting().items} == {"1 run is live, and max_concurrent_runs is 1"}
        lab.settings.set_methodology("max_concurrent_runs", "2")
        assert [change["run_id"] for change in lab.scan()["changes"]] == ["r2"]
        assert lab.runs.get("r3").reason == "2 runs are live, and max_concurrent_runs is 2"


def test_a_run_that_cannot_start_now_is_named_and_holds_up_no_other(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(project) as lab:
        lab.queue.set_state("paused")
        ids = three_runs(lab)
        lab.queue.set_state("running")
        real = start.wanted_gpus

        def busy(run: RunRow) -> Any:
            if run.id == ids[0]:
                raise TransientError("another process writes")
            return real(run)

        monkeypatch.setattr(start, "wanted_gpus", busy)
        told = lab.scan()
        assert told["problems"] == [{"run_id": "r1", "code": TransientError.code, "message": "another process writes"}]
        assert [(change["run_id"], change["to"]) for change in told["changes"]] == [
            ("r2", "running"),
            ("r3", "running"),
        ]
        assert lab.runs.get("r1").status == "queued"
        monkeypatch.undo()
        assert [change["run_id"] for change in lab.scan()["changes"]] == ["r1"]


def test_a_run_that_cannot_be_started_has_failed_and_is_no_problem_of_the_queue(project: Path) -> None:
    with opened(project) as lab:
        lab.queue.set_state("paused")
        run = lab.runs.launch(approved(lab, "sleep 600"))[0]
        (project / ".perpetual/runs").mkdir(exist_ok=True)
        (project / ".perpetual/runs" / run.id).write_text("in the way")
        lab.queue.set_state("running")
        told = lab.scan()
        assert told["problems"] == []
        assert [(change["from"], change["to"]) for change in told["changes"]] == [("queued", "failed")]
        assert "could not be started" in (lab.runs.get(run.id).reason or "")


def test_runs_of_both_arms_of_a_comparison_start_in_an_order_drawn_by_lot(project: Path) -> None:
    """A machine that drifts then meets both arms alike."""
    with opened(project) as lab:
        lab.queue.set_state("paused")
        hypothesis = lab.hypotheses.add("it helps")
        base = lab.experiments.propose(None, command="echo m: 1", metric="m", direction="max", replicates=6)
        claim = lab.experiments.propose(
            hypothesis.id, command="echo m: 2", metric="m", direction="max", mde=1.0, baseline=base.id, replicates=6
        )
        other = lab.experiments.propose(None, command="echo n: 1", metric="n", replicates=2)
        for experiment in (base, claim, other):
            lab.experiments.approve(experiment.id)
            lab.runs.launch(experiment.id, every=True)
        order = [run.experiment_id for run in lab.queue.waiting().items if run.experiment_id != other.id]
        assert order == [run.experiment_id for run in lab.queue.waiting().items if run.experiment_id != other.id]
        assert sorted(order) == sorted([base.id, claim.id] * 6)
        turns = sum(one != next_one for one, next_one in pairwise(order))
        assert turns >= 3, order  # one after the other would turn once


def test_of_two_processes_only_one_puts_an_experiment_after_the_other(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would wait for ever."""
    with opened(project) as lab:
        first, second = (lab.experiments.propose(command=command, wall_s=60).id for command in ("true", "false"))
        refused: list[UsageError] = []

        def other() -> None:
            with opened(project) as theirs:
                theirs.experiments.get(first)
                ready.set()
                now.wait(30)
                try:
                    theirs.queue.after(second, [first])
                except UsageError as problem:
                    refused.append(problem)

        ready, now, need, looks = Event(), Event(), Context.need, list[str]()
        thread = Thread(target=other)
        thread.start()
        assert ready.wait(30)

        def at_once(ctx: Context, kind: Any, id: str) -> Any:
            found = need(ctx, kind, id)
            looks.append(id)
            if looks.count(second) == 2:  # what it comes after was read
                monkeypatch.undo()
                now.set()
                thread.join(0.5)  # where it does not wait, it is through
            return found

        monkeypatch.setattr(Context, "need", at_once)
        lab.queue.after(first, [second])
        thread.join(30)
        assert len(refused) == 1

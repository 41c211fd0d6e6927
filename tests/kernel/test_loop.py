"""The autonomous loop, cycle by cycle: what it launches, in which order, how much at once, and why it stops."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.loop import EXITS, Cycle, cycle
from perpetual.records import Experiment, Hypothesis

Campaign = Callable[..., tuple[Hypothesis, Experiment]]


def _loop(lab: Lab, most: int = 40) -> list[Cycle]:
    """Cycles until the loop says why it stops."""
    cycles: list[Cycle] = []
    for number in range(1, most + 1):
        cycles.append(cycle(lab, number=number))
        if cycles[-1].reason is not None:
            return cycles
        lab.loop.wait_any(20.0)
    raise AssertionError(f"the loop goes on: {cycles[-1]}")


def _stopped(lab: Lab, reason: str, exit: int) -> Cycle:
    last = _loop(lab)[-1]
    assert (last.reason, EXITS[last.reason or ""]) == (reason, exit), last.explanation
    assert last.explanation
    told = [event for event in lab.events() if event.kind == "loop_stopped"]
    assert told[-1].payload["reason"] == reason
    return last


def _stop_at(lab: Lab, *, days: int) -> None:
    """Records a stop of the loop by a clock that is so many days ahead."""
    with Lab.open(lab.root, clock=lambda: datetime.now(UTC) + timedelta(days=days)) as elsewhere:
        elsewhere.loop.stopped("max_cycles", 1)


def _plain(lab: Lab, command: str, **given: Any) -> Experiment:
    return lab.experiments.approve(lab.experiments.propose(command=command, **{"wall_s": 60.0, **given}).id)


# --- why it stops ---------------------------------------------------------------------------------------------------


def test_the_loop_stops_when_everything_is_decided(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("max_concurrent_runs", "1")  # what an end has shown is known before the next start
    right, _ = campaign(replicates=4)
    wrong, _ = campaign(value="0.7", replicates=4, statement="acc rises some other way")
    last = _stopped(lab, "all_decided", 0)
    assert last.open == 0
    assert lab.hypotheses.get(right.id).status == "supported"
    assert lab.hypotheses.get(wrong.id).status == "refuted"
    # Two replicates decide each of them, so the others were never run.
    assert len(lab.runs.list().items) == 4
    assert [experiment.status for experiment in lab.experiments.list().items] == ["analysed", "analysed"]
    paths = [note.path for note in lab.memory.list().items]
    assert len([path for path in paths if path.endswith((f"/{right.id}.md", f"/{wrong.id}.md"))]) == 2
    assert last.run_hours == pytest.approx(sum(run.run_hours or 0.0 for run in lab.runs.list().items))


def test_a_small_budget_holds_runs_whose_cost_is_not_declared(lab: Lab, campaign: Campaign) -> None:
    """The limit of their time is what counts, and not what is assumed of a run without a declared cost."""
    lab.settings.set_methodology("max_run_hours", "0.9")
    claim, _ = campaign(cost_run_hours=None)
    _stopped(lab, "all_decided", 0)
    assert lab.hypotheses.get(claim.id).status == "supported"


def test_a_claim_that_the_budget_does_not_hold_is_not_parked(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("max_run_hours", "0.01")
    claim, _ = campaign(cost_run_hours=None, noise=0.3, replicates=30)
    last = _stopped(lab, "budget_exhausted", 7)
    assert lab.hypotheses.get(claim.id).status == "open"
    stops = [event.payload["explanation"] for event in lab.events() if event.kind == "loop_stopped"]
    assert stops == [last.explanation]


def test_an_empty_lab_has_nothing_to_do(lab: Lab) -> None:
    assert _loop(lab)[0].reason == "queue_empty"


def test_the_loop_stops_when_nothing_is_left_to_try(lab: Lab, campaign: Campaign) -> None:
    # Half the effect that was asked for: it stays open, and its replicates are used up.
    hypothesis, _ = campaign(value="1.05", replicates=2, noise=0.2)
    last = _stopped(lab, "queue_empty", 0)
    assert last.open == 1
    found = lab.hypotheses.get(hypothesis.id)
    assert (found.status, found.evidence_count) == ("open", 2)


def test_the_loop_stops_where_a_person_must_approve(lab: Lab, campaign: Campaign) -> None:
    _, experiment = campaign(approve=False)
    last = _stopped(lab, "waiting_for_approval", 4)
    assert experiment.id in (last.explanation or "")
    assert lab.runs.list().items == ()
    lab.experiments.approve(experiment.id)
    _stopped(lab, "all_decided", 0)


def test_the_loop_approves_what_the_methodology_lets_it(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("auto_approve", "true")
    lab.settings.set_methodology("auto_approve_max_run_hours", "0.01")
    _, cheap = campaign(approve=False)
    _, dear = campaign(approve=False, cost_run_hours=5.0, statement="something dear")
    last = _stopped(lab, "waiting_for_approval", 4)
    assert dear.id in (last.explanation or "")
    assert lab.experiments.get(cheap.id).status == "analysed"
    assert lab.experiments.get(dear.id).status == "proposed"


def test_the_loop_stops_when_the_budget_is_used_up(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("max_run_hours", "0.5")
    campaign(wall_s=3600.0)
    last = _stopped(lab, "budget_exhausted", 7)
    assert "0.500" in (last.explanation or "")
    assert lab.runs.list().items == ()


def test_the_loop_launches_runs_that_still_fit_the_budget(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("max_run_hours", "0.02")
    campaign(wall_s=60.0, replicates=2)
    campaign(wall_s=3600.0, statement="acc rises with patience")
    cycles = _loop(lab)
    assert cycles[-1].reason == "budget_exhausted"
    assert {run.experiment_id for run in lab.runs.list().items} == {"e1"}


def test_the_loop_stops_when_runs_keep_failing(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("max_concurrent_runs", "1")
    campaign("sh -c 'exit 3'", replicates=9)
    last = _stopped(lab, "failure_rate", 9)
    assert "exit code 3" in (last.explanation or "")
    assert [run.status for run in lab.runs.list().items] == ["failed"] * 3
    # Whoever starts it again has seen to the cause: three more may fail before it stops again.
    assert cycle(lab).reason is None
    _stopped(lab, "failure_rate", 9)
    assert [run.status for run in lab.runs.list().items] == ["failed"] * 6


def test_a_clock_that_jumps_hides_no_failure_and_brings_none_back(lab: Lab, campaign: Campaign) -> None:
    """The loop's stop counts by its place in the record: before what failed, or after, whatever time it has."""
    lab.settings.set_methodology("max_concurrent_runs", "1")
    _stop_at(lab, days=400)
    campaign("sh -c 'exit 3'", replicates=4)
    assert _loop(lab)[-1].reason == "failure_rate"
    _stop_at(lab, days=-400)
    assert lab.loop.halt_reason() is None


def test_the_loop_stops_when_half_of_the_runs_fail(lab: Lab) -> None:
    lab.settings.set_methodology("max_concurrent_runs", "1")
    lab.hypotheses.add("so that something is open")
    _plain(lab, "sh -c 'test $((${PERPETUAL_RUN#r} % 2)) = 0'", replicates=20)
    last = _stopped(lab, "failure_rate", 9)
    assert "5 of the last 10 runs failed" in (last.explanation or "")


def test_a_killed_run_is_no_failure(lab: Lab, campaign: Campaign) -> None:
    campaign("sleep 60", replicates=4)
    first = cycle(lab)
    for id in first.launched:
        lab.runs.kill(id, grace_s=0.0)
    lab.scan()
    assert lab.loop.halt_reason() is None
    assert _loop(lab)[-1].reason == "queue_empty"


def test_the_loop_stops_when_nothing_moves(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("min_information_gain_bits", "0")
    lab.settings.set_methodology("max_concurrent_runs", "4")
    # Implementations are said to differ by a thousand times the effect: nothing that is measured says anything.
    campaign(tau=100.0, replicates=20, underpowered=True)
    _stop_at(lab, days=400)  # a stop of a clock that jumped: what comes after it in the record still counts
    last = _stopped(lab, "no_progress", 8)
    assert "8" in (last.explanation or "")
    # Of the others that were live when the eighth was measured, some may have been measured with it.
    assert 8 <= len(lab.evidence.list().items) <= len(lab.runs.list().items) <= 8 + 3
    _stop_at(lab, days=-400)
    assert lab.loop.halt_reason() is None


def test_the_loop_stops_when_the_queue_is_paused(lab: Lab, campaign: Campaign) -> None:
    campaign()
    lab.queue.set_state("paused")
    _stopped(lab, "stop_requested", 0)
    assert lab.runs.list().items == ()


def test_a_program_that_is_missing_holds_up_no_other(lab: Lab, campaign: Campaign) -> None:
    campaign("a-program-that-is-not-there")
    other = _plain(lab, "true")
    last = _stopped(lab, "waiting_for_approval", 4)
    assert "a-program-that-is-not-there" in (last.explanation or "")
    assert "cannot be started until a person has mended it" in (last.explanation or "")
    assert [(run.experiment_id, run.status) for run in lab.runs.list().items] == [(other.id, "done")]
    assert [item.status for item in lab.hypotheses.list().items] == ["open"]


def test_many_programs_that_are_missing_are_a_rate_of_failures(lab: Lab) -> None:
    for number in range(3):
        _plain(lab, f"a-program-that-is-not-there-{number}")
    last = _stopped(lab, "failure_rate", 9)
    assert "a-program-that-is-not-there-2" in (last.explanation or "")


def test_every_reason_has_an_exit() -> None:
    import inspect
    import re

    from perpetual.lab.loop import steps

    told = set(re.findall(r'return \(?\s*"(\w+)",', inspect.getsource(steps)))
    assert {"all_decided", "queue_empty", "no_progress"} <= told <= set(EXITS)


# --- what it does on the way ----------------------------------------------------------------------------------------


def test_the_loop_parks_a_hypothesis_that_is_not_worth_a_run(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("min_information_gain_bits", "0.9")
    lab.settings.set_methodology("min_replicates", "1")
    hypothesis, _ = campaign(noise=1.0)
    cycles = _loop(lab)
    assert lab.hypotheses.get(hypothesis.id).status == "parked"
    assert lab.runs.list().items == ()
    assert cycles[-1].reason == "all_decided"
    lab.settings.set_methodology("min_information_gain_bits", "0")
    assert lab.hypotheses.update(hypothesis.id, status="open").status == "open"
    assert cycle(lab).launched != ()


def test_nothing_is_parked_while_a_run_is_live(lab: Lab, campaign: Campaign) -> None:
    _plain(lab, "sleep 60")
    cycle(lab)
    lab.settings.set_methodology("min_information_gain_bits", "0.9")
    lab.settings.set_methodology("min_replicates", "1")
    hypothesis, _ = campaign(noise=1.0)
    assert cycle(lab).reason is None
    assert lab.hypotheses.get(hypothesis.id).status == "open"


def test_baselines_come_first(lab: Lab) -> None:
    lab.settings.set_methodology("max_concurrent_runs", "2")
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0)
    command = "sh -c 'echo acc=1.5$PERPETUAL_SEED'"
    for_number = lab.experiments.propose(hypothesis.id, command=command, noise=0.05, replicates=2)
    baseline = lab.experiments.propose(
        command="sh -c 'echo acc=1.0$PERPETUAL_SEED'", metric="acc", replicates=3, wall_s=60.0
    )
    other = lab.hypotheses.add("acc rises otherwise", metric="acc", direction="max", mde=0.1, baseline=baseline.id)
    claim = lab.experiments.propose(other.id, command=command, replicates=3, config={"n": 2})
    for experiment in (for_number, baseline, claim):
        lab.experiments.approve(experiment.id)
    assert _loop(lab)[-1].reason == "all_decided"
    order = [run.experiment_id for run in sorted(lab.runs.list().items, key=lambda run: int(run.id[1:]))]
    assert order[:3] == [baseline.id] * 3
    assert set(order[3:]) == {for_number.id, claim.id}


def test_a_baseline_that_no_claim_waits_for_is_not_run(lab: Lab) -> None:
    baseline = _plain(lab, "echo acc=1.0", metric="acc")
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=baseline.id)
    lab.experiments.propose(hypothesis.id, command="echo acc=1.5")
    lab.hypotheses.update(hypothesis.id, status="parked")
    assert _loop(lab)[-1].launched == ()
    assert lab.runs.list().items == ()


def test_the_loop_keeps_to_the_number_of_live_runs(lab: Lab) -> None:
    lab.settings.set_methodology("max_concurrent_runs", "2")
    lab.hypotheses.add("so that something is open")
    _plain(lab, "sh -c 'while test -e hold; do sleep 0.02; done'", replicates=5)
    (lab.root / "hold").write_text("")
    assert len(cycle(lab).launched) == 2
    for number in (2, 3):
        again = cycle(lab, number=number)
        assert (again.launched, again.reason) == ((), None)
    assert [run.status for run in lab.runs.live()] == ["running", "running"]
    (lab.root / "hold").unlink()
    cycles = _loop(lab)
    assert max(len(turn.launched) for turn in cycles) <= 2
    assert [run.status for run in lab.runs.list().items] == ["done"] * 5


def test_grids_are_explored_a_batch_at_a_time(lab: Lab) -> None:
    lab.settings.set_methodology("auto_approve", "true")
    lab.settings.set_methodology("proposal_batch_size", "2")
    script = "if grep -q 'lr.: 3' $PERPETUAL_CONFIG; then echo acc=1.5$PERPETUAL_SEED; else echo acc=1.05; fi"
    (lab.root / "train.sh").write_text(script)
    hypothesis = lab.hypotheses.add(
        "some lr helps", metric="acc", direction="max", mde=0.1, baseline=1.0, params={"lr": [1, 2, 3, 4]}
    )
    lab.experiments.propose(
        hypothesis.id, command="sh train.sh", noise=0.2, config={"lr": 1}, cost_run_hours=0.001, wall_s=60.0
    )
    cycles = _loop(lab)
    assert all(len(turn.proposed) <= 2 for turn in cycles)
    tried = [experiment.config["lr"] for experiment in lab.experiments.list().items]
    assert len(tried) == len(set(tried))
    assert cycles[0].proposed != ()
    assert cycles[-1].reason in ("all_decided", "queue_empty")


def test_a_cycle_may_be_repeated(lab: Lab, campaign: Campaign) -> None:
    campaign(replicates=2)
    _loop(lab)
    before = (lab.hypotheses.list(), lab.experiments.list(), lab.runs.list(), lab.evidence.list(), lab.budget.show())
    again = cycle(lab, number=99)
    assert (again.changes, again.evidence, again.analysed, again.proposed, again.launched) == ((),) * 5
    after = (lab.hypotheses.list(), lab.experiments.list(), lab.runs.list(), lab.evidence.list(), lab.budget.show())
    assert after == before


def test_another_process_may_take_the_loop_over(lab: Lab, project: Path, campaign: Campaign) -> None:
    (lab.root / "hold").write_text("")
    hypothesis, _ = campaign("sh -c 'while test -e hold; do sleep 0.02; done; echo acc=1.5$PERPETUAL_SEED'")
    launched = cycle(lab).launched
    assert len(launched) == 2
    lab.close()
    with Lab.open(project) as other:
        assert cycle(other).launched == ()
        (other.root / "hold").unlink()
        assert _loop(other)[-1].reason == "all_decided"
        assert other.hypotheses.get(hypothesis.id).status == "supported"
        assert [run.id for run in other.runs.list().items] == [*reversed(launched)]

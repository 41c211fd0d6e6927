"""Quiet hours and caps for each day: what they hold back, for how long, and what goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from perpetual import Lab
from perpetual.errors import NotFound, Refused, UsageError
from perpetual.loop import cycle
from perpetual.records import Experiment, Hypothesis
from perpetual.toolkit import yamlfile
from perpetual.toolkit.import_records import Batch, ImportedExperiment, ImportedRun

Campaign = Callable[..., tuple[Hypothesis, Experiment]]
SECOND_H = 1 / 3600


def _now_quiet() -> str:
    """Quiet hours around this moment."""
    now = datetime.now().astimezone()
    return f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M}"


def _tomorrow() -> datetime:
    return datetime.now(UTC) + timedelta(days=1)


# --- quiet hours ----------------------------------------------------------------------------------------------------


def test_nothing_is_launched_in_quiet_hours(lab: Lab, campaign: Campaign) -> None:
    campaign()
    lab.settings.set_methodology("quiet_hours", _now_quiet())
    turn = cycle(lab)
    assert (turn.launched, turn.reason) == ((), None)
    assert turn.resumes_at is not None
    until = datetime.fromisoformat(turn.resumes_at)
    assert timedelta(minutes=58) < until - datetime.now(UTC) <= timedelta(hours=1)
    assert turn.paused == f"quiet hours until {until.astimezone():%H:%M}"
    before = lab.context.store.seq()
    assert cycle(lab) == turn
    assert lab.context.store.seq() == before  # else a loop that wakes at each change would never sleep
    lab.settings.unset_methodology("quiet_hours")
    turn = cycle(lab)
    assert (len(turn.launched), turn.paused, turn.resumes_at) == (2, None, None)


def test_all_but_launching_goes_on_in_quiet_hours(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("auto_approve", "true")
    campaign(replicates=3)
    lab.settings.set_methodology("max_concurrent_runs", "2")
    launched = cycle(lab).launched
    lab.settings.set_methodology("quiet_hours", _now_quiet())
    _, other = campaign(approve=False, statement="acc rises some other way")
    lab.wait([*launched], timeout_s=60)
    turn = cycle(lab)
    assert {*turn.analysed} | {run.id for run in lab.runs.list().items if run.status == "done"} >= {*launched}
    assert lab.hypotheses.get("h1").status == "supported"
    assert turn.approved == (other.id,)
    assert turn.paused


def test_the_usual_reasons_hold_in_quiet_hours(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("quiet_hours", _now_quiet())
    turn = cycle(lab)
    assert (turn.reason, turn.paused, turn.resumes_at) == ("queue_empty", None, None)
    campaign(approve=False)
    turn = cycle(lab)
    assert (turn.reason, turn.paused) == ("waiting_for_approval", None)


def test_a_person_launches_in_quiet_hours(lab: Lab) -> None:
    lab.settings.set_methodology("quiet_hours", _now_quiet())
    experiment = lab.experiments.approve(lab.experiments.propose(command="true", wall_s=60.0).id)
    (run,) = lab.runs.launch(experiment.id)
    assert lab.wait([run.id], timeout_s=60) == {run.id: "done"}


def test_what_the_daemon_has_queued_waits_too(lab: Lab) -> None:
    """A person's run that waits beside it starts."""
    lab.settings.set_methodology("max_concurrent_runs", "1")
    _, other = (
        lab.experiments.approve(lab.experiments.propose(command=f"sleep {n}", replicates=1, wall_s=60.0).id)
        for n in ("60", "0.1")
    )
    lab.queue.set_state("paused")
    with Lab.open(lab.root, actor="loop") as daemon:
        (first,) = daemon.runs.launch("e1")
    (second,) = lab.runs.launch(other.id)
    lab.settings.set_methodology("quiet_hours", _now_quiet())
    lab.queue.set_state("running")
    lab.scan()
    assert (lab.runs.get(first.id).status, lab.runs.get(second.id).status) == ("queued", "running")
    assert str(lab.runs.get(first.id).reason).startswith("quiet hours until")
    lab.wait([second.id], timeout_s=60)
    lab.settings.unset_methodology("quiet_hours")
    lab.scan()
    assert lab.runs.get(first.id).status == "running"


def test_less_of_a_pause_in_a_file_waits_for_a_person(lab: Lab) -> None:
    lab.settings.set_methodology("quiet_hours", "22:00-07:00")
    lab.settings.set_methodology("max_calls_per_day", "5")
    path = lab.root / ".perpetual" / "methodology.yaml"
    for hours, calls in (("23:00-07:00", 6), (None, None)):
        yamlfile.set_value(path, ("quiet_hours",), hours)
        yamlfile.set_value(path, ("max_calls_per_day",), calls)
        with Lab.open(lab.root) as again:
            methodology = again.config.methodology
            assert methodology.held == {"quiet_hours": hours, "max_calls_per_day": calls}
            assert (methodology["quiet_hours"], methodology["max_calls_per_day"]) == ("22:00-07:00", 5)
    yamlfile.set_value(path, ("quiet_hours",), ["22:00-07:00", "12:00-13:00"])
    yamlfile.set_value(path, ("max_calls_per_day",), 4)
    with Lab.open(lab.root) as again:
        assert again.config.methodology.held == {}
        assert again.config.methodology["quiet_hours"] == ["22:00-07:00", "12:00-13:00"]


# --- edited thresholds ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_edited_threshold_moves_what_was_measured(lab: Lab, campaign: Campaign) -> None:
    """By hand in the file: no new run is needed, and a turn under the same values folds nothing."""
    hypothesis, _ = campaign()
    lab.wait([*cycle(lab).launched], timeout_s=60)
    cycle(lab)
    assert lab.hypotheses.get(hypothesis.id).status == "supported"
    path = lab.root / ".perpetual" / "methodology.yaml"
    for value, status in ((0.9999, "open"), (0.8, "supported")):
        yamlfile.set_value(path, ("confidence_support_threshold",), value)
        with Lab.open(lab.root) as again:
            cycle(again)
            assert again.hypotheses.get(hypothesis.id).status == status
            assert again.storage.verify() == []
            before = again.context.store.seq()
            cycle(again, waits_on=("all_decided", "queue_empty"))
            assert again.context.store.seq() == before


# --- run-hours of a day ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_loop_waits_for_the_next_day(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("max_run_hours_per_day", f"{60.5 * SECOND_H}")
    campaign("sh -c 'sleep 1; echo acc=1.5$PERPETUAL_SEED'")
    first = cycle(lab)
    assert len(first.launched) == 1
    assert first.paused is not None  # what the run may still use counts
    lab.wait([*first.launched], timeout_s=60)
    turn = cycle(lab)
    assert (turn.launched, turn.reason) == ((), None)
    assert turn.paused is not None
    assert "the day's run-hours are used up" in turn.paused
    assert "max_run_hours_per_day" in turn.paused
    assert turn.resumes_at is not None
    until = datetime.fromisoformat(turn.resumes_at).astimezone()
    assert (until.hour, until.minute) == (0, 0)
    assert until.date() == datetime.now().astimezone().date() + timedelta(days=1)
    before = lab.context.store.seq()
    assert cycle(lab).paused == turn.paused
    assert lab.context.store.seq() == before
    with Lab.open(lab.root, clock=_tomorrow) as later:
        assert later.budget.room_of_day("run_hours") == pytest.approx(60.5 * SECOND_H)
        turn = cycle(later)
        assert (len(turn.launched), turn.reason) == (1, None)
        later.runs.kill(turn.launched[0], grace_s=0.0)


def test_a_person_is_refused_beyond_the_cap_of_a_day(lab: Lab) -> None:
    lab.settings.set_methodology("max_run_hours_per_day", "0.5")
    experiment = lab.experiments.approve(lab.experiments.propose(command="true", wall_s=3600.0).id)
    for launch in (lab.runs.launch, lab.runs.plan):
        with pytest.raises(Refused) as refused:
            launch(experiment.id)
        assert (refused.value.code, refused.value.exit) == ("budget_of_day", 7)
        assert "1 run-hours, and 0.5 of max_run_hours_per_day are left today" in refused.value.message
        assert "perpetual methodology set max_run_hours_per_day" in (refused.value.hint or "")
    assert lab.runs.list().items == ()


def test_what_fits_no_day_exhausts_the_budget(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("max_run_hours_per_day", "0.01")
    campaign()
    turn = cycle(lab)
    assert (turn.reason, turn.paused) == ("budget_exhausted", None)


def test_what_fits_the_day_goes_before_what_does_not(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("max_run_hours_per_day", "0.1")
    campaign(cost_run_hours=0.5, wall_s=3600.0, noise=0.01)
    _, cheap = campaign(statement="acc rises some other way", replicates=1)
    lab.settings.set_methodology("cost_exponent", "0")  # the dear one teaches more
    turn = cycle(lab)
    assert [lab.runs.get(id).experiment_id for id in turn.launched] == [cheap.id]
    assert turn.paused
    lab.wait([*turn.launched], timeout_s=60)


def test_hours_that_were_used_elsewhere_are_no_hours_of_today(lab: Lab) -> None:
    lab.settings.set_methodology("max_run_hours_per_day", "1")
    run = ImportedRun("a1", "a", "done", run_hours=5.0, gpu_hours=5.0, duration_s=18000.0, gpus=("0",))
    batch = Batch("adopt", "adopted", "elsewhere", [ImportedExperiment("a", None, "earlier"), run], charge=True)
    lab.imports.take(batch)
    assert lab.budget.totals()["run_hours"] == 5.0
    assert lab.budget.room_of_day("run_hours") == 1.0


# --- requests of a day ----------------------------------------------------------------------------------------------


def test_a_request_is_booked_at_its_most_and_reconciled(lab: Lab) -> None:
    for key, cap in (("max_calls_per_day", "2"), ("max_tokens_per_day", "1000"), ("max_usd_per_day", "0.5")):
        lab.settings.set_methodology(key, cap)
    assert lab.budget.debit("ask-1", {"calls": 1, "tokens": 900, "usd": 0.3})
    left = [lab.budget.room_of_day(name) for name in ("calls", "tokens", "usd")]
    assert left == pytest.approx([1.0, 100.0, 0.2])
    with pytest.raises(Refused, match="the request may need 101 tokens, and 100 of max_tokens_per_day") as refused:
        lab.budget.debit("ask-2", {"calls": 1, "tokens": 101})
    assert (refused.value.code, refused.value.exit) == ("budget_of_day", 7)
    assert lab.budget.room_of_day("calls") == 1.0  # of what is refused nothing is booked
    assert lab.budget.reconcile("ask-1", {"calls": 1, "tokens": 250, "usd": 0.1})
    left = [lab.budget.room_of_day(name) for name in ("calls", "tokens", "usd")]
    assert left == pytest.approx([1.0, 750.0, 0.4])
    assert lab.budget.debit("ask-2", {"calls": 1, "tokens": 101})
    with pytest.raises(Refused, match="max_calls_per_day"):
        lab.budget.debit("ask-3", {"calls": 1})
    assert lab.storage.verify() == []
    assert lab.budget.rows() == []  # which are those of runs
    assert lab.budget.totals()["run_hours"] == 0.0


def test_a_request_is_booked_once_and_reconciled_once(lab: Lab) -> None:
    for _ in range(3):
        lab.budget.debit("ask-1", {"calls": 1, "tokens": 900})
    assert lab.budget.used_of_day("tokens") == 900
    with Lab.open(lab.root) as other:  # as a process would that died on the way, and was started again
        assert not other.budget.debit("ask-1", {"calls": 1, "tokens": 900})
        assert [other.budget.reconcile("ask-1", {"calls": 1, "tokens": n}) for n in (300, 200)] == [True, False]
    assert lab.budget.used_of_day("tokens") == 300
    assert not lab.budget.debit("ask-1", {"calls": 1, "tokens": 900})
    assert (lab.budget.used_of_day("tokens"), lab.budget.used_of_day("calls")) == (300, 1)


def test_a_request_counts_on_the_day_of_its_booking(lab: Lab) -> None:
    lab.settings.set_methodology("max_tokens_per_day", "1000")
    lab.budget.debit("ask-1", {"tokens": 900})
    with Lab.open(lab.root, clock=_tomorrow) as later:
        assert later.budget.room_of_day("tokens") == 1000
        later.budget.reconcile("ask-1", {"tokens": 100})
        assert later.budget.room_of_day("tokens") == 1000
        assert later.budget.debit("ask-2", {"tokens": 1000})
        assert later.storage.verify() == []


def test_what_was_used_beyond_its_booking_counts(lab: Lab) -> None:
    lab.settings.set_methodology("max_usd_per_day", "1")
    lab.budget.debit("ask-1", {"usd": 0.9})
    lab.budget.reconcile("ask-1", {"usd": 1.5, "calls": 1})
    assert lab.budget.used_of_day("usd") == 1.5
    assert lab.budget.room_of_day("usd") == 0.0
    assert lab.budget.used_of_day("calls") == 1
    assert lab.budget.debit("ask-2", {"usd": 0.0})


def test_what_is_no_request_is_refused(lab: Lab) -> None:
    for uses in ({"dollars": 1.0}, {"run_hours": 1.0}, {"calls": -1}, {"tokens": float("nan")}, {"tokens": 1e308}):
        with pytest.raises(UsageError):
            lab.budget.debit("ask-1", uses)
        with pytest.raises(UsageError):
            lab.budget.reconcile("ask-1", uses)
    with pytest.raises(UsageError, match="unknown currency"):
        lab.budget.room_of_day("euro")
    with pytest.raises(UsageError):
        lab.budget.debit("", {"calls": 1})
    with pytest.raises(NotFound):
        lab.budget.reconcile("ask-1", {"calls": 1})
    assert lab.context.store.count("debit") == 0


def test_requests_of_many_leave_the_sums_of_runs_alone(lab: Lab, campaign: Campaign) -> None:
    """Over more rows than one kept fold holds, and than one page of a day."""
    _, experiment = campaign(replicates=1)
    lab.wait([lab.runs.launch(experiment.id)[0].id], timeout_s=60)
    used = lab.budget.totals()
    for n in range(130):
        lab.budget.debit(f"ask-{n}", {"calls": 1})
        if n % 2:
            lab.budget.reconcile(f"ask-{n}", {"calls": 2})
    assert lab.budget.used_of_day("calls") == 65 + 2 * 65
    assert lab.budget.totals() == used
    assert [row.kind for row in lab.budget.rows()] == ["reserve", "settle"]
    assert [row.kind for row in lab.budget.rows(limit=1)] == ["reserve"]
    assert sum(line["runs"] for line in lab.budget.show()["by_day"].values()) == 1
    assert lab.storage.verify() == []


def test_requests_race_for_the_last_calls(lab: Lab) -> None:
    lab.settings.set_methodology("max_calls_per_day", "5")

    def ask(name: str) -> int:
        with Lab.open(lab.root) as own:
            made = 0
            for n in range(4):
                with suppress(Refused):
                    made += own.budget.debit(f"{name}-{n}", {"calls": 1})
            return made

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(ask, "abcd")) == 5
    assert lab.budget.used_of_day("calls") == 5

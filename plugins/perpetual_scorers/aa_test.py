"""An A/A test over a lab: planned, approved, run and looked at. `perpetual aa` is its command.

from perpetual import Lab
from perpetual_scorers.aa_test import aa_test

with Lab.open() as lab:
    found = aa_test(lab, "e1")
    print(found["noise_sd"], found["advice"])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import Conflict, PerpetualError, Refused, UsageError
from perpetual.science.rates import luck_of_rate
from perpetual.science.versions import samples_of
from perpetual.toolkit.units import counted, finite
from perpetual_scorers import aa_plan
from perpetual_scorers.aa import Measured, by_seed, drift, noise, seed_correlation
from perpetual_scorers.aa_advice import advice, of_rule, sentence
from perpetual_scorers.aa_ours import our_rule, thresholds
from perpetual_scorers.aa_plan import AaTest, Slot
from perpetual_scorers.aa_rules import RuleShare, rates

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Design, Experiment, Run
    from perpetual_scorers.documents import Aa, AaPlan, AaRule, AaRun

__all__ = ["FEWEST_VALUES", "aa_analysis", "aa_plan_of", "aa_test"]

FEWEST_VALUES = 3
FEWEST_ITEMS = 2
_ROUNDING = 1e-9  # hours

Say = Callable[[str], None]


def aa_test(
    lab: Lab,
    experiment_id: str,
    *,
    runs: int | None = None,
    again: bool = False,
    metric: str | None = None,
    direction: str | None = None,
    items: int | None = None,
    mde: float | None = None,
    say: Say | None = None,
) -> Aa:
    """Runs two arms of an experiment's own command to their end and returns what they say of the set-up.

    Both arms are proposed, approved in the caller's name, and run like any experiment. A test that was cut off goes on
    where it stopped; one that is complete is looked at again, and runs nothing.

    Args:
        runs: of both arms together, an even number; None is 8, or what the test has.
        again: starts a new test beside those that are there.
        metric, direction: by default the experiment's, or those of a claim against it.
        items: how many test items the metric is a share of, in one or in percent; by default as a design says it.
        mde: the effect that the advice and the lab's own rule are about; by default the smallest claimed against it.
        say: called with lines about the progress.

    Raises:
        NotPermitted: for an agent, while the arms are not approved (they are proposed then), and for an experiment
            that is not approved here itself: its command may be one that no person has seen.
        Refused: if the budget does not hold all runs that are missing; none is started.
        Conflict: if it has no command, or the test has another size.
        PerpetualError: (too_few_runs) if fewer than three runs gave a value.
    """
    source = aa_plan.source_of(lab, experiment_id)
    _check_numbers(items, mde)
    metric, direction = aa_plan.with_metric(lab, source, metric, direction)
    aa_plan.check_runnable(source, runs)
    planned = aa_plan.current(lab, source, again=again)
    _check_budget(lab, source, len(_missing(lab, planned, _slots(lab, planned, runs))))
    test = aa_plan.proposed(lab, source, runs=runs, again=again, metric=metric, direction=direction)
    waiting = [arm.id for arm in test.arms.values() if arm.status == "proposed"]
    if waiting:
        _check_approval(lab, source)
        lab.experiments.approve_all(waiting)
    _launch(lab, test, say or (lambda _: None))
    return _analysis(lab, source, test, metric, direction, items, mde)


def aa_plan_of(
    lab: Lab,
    experiment_id: str,
    *,
    runs: int | None = None,
    again: bool = False,
    metric: str | None = None,
    direction: str | None = None,
) -> AaPlan:
    """Returns what `aa_test` would run with the same arguments, and what that costs; writes nothing."""
    source = aa_plan.source_of(lab, experiment_id)
    metric, direction = aa_plan.with_metric(lab, source, metric, direction)
    aa_plan.check_runnable(source, runs)
    test = aa_plan.current(lab, source, again=again)
    slots = _slots(lab, test, runs)
    known = _run_ids(lab, test)
    missing = sum((slot.arm, slot.replicate) not in known for slot in slots)
    gpu_hours, run_hours = _worst_case(source)
    return {
        "experiment_id": source.id,
        "test": test.number,
        "arms": [test.arms[arm].id for arm in aa_plan.ARMS if arm in test.arms],
        "command": source.command,
        "metric": metric,
        "direction": direction,
        "runs": [_planned(test, slot, known.get((slot.arm, slot.replicate))) for slot in slots],
        "missing": missing,
        "needs_approval": any(arm not in test.arms or test.arms[arm].status == "proposed" for arm in aa_plan.ARMS),
        "gpu_hours": missing * gpu_hours,
        "run_hours": missing * run_hours,
        "expected_run_hours": _expected(lab, source, missing),
    }


def aa_analysis(
    lab: Lab,
    experiment_id: str,
    *,
    metric: str | None = None,
    direction: str | None = None,
    items: int | None = None,
    mde: float | None = None,
) -> Aa:
    """Returns what the runs that are there say: the experiment's own and those of its newest A/A test; runs nothing.

    Raises:
        PerpetualError: (too_few_runs) if fewer than three runs gave a value.
    """
    source = aa_plan.source_of(lab, experiment_id)
    _check_numbers(items, mde)
    metric, direction = aa_plan.with_metric(lab, source, metric, direction)
    tests = aa_plan.tests_of(lab, source)
    return _analysis(lab, source, tests[-1] if tests else None, metric, direction, items, mde)


def _check_numbers(items: int | None, mde: float | None) -> None:
    if items is not None and items < FEWEST_ITEMS:
        raise UsageError(f"--items counts the test items, {FEWEST_ITEMS} at least, not {items}", hint="--items 1000")
    if mde is not None:
        finite(mde, "the mde", above=0.0)


# --- running ----------------------------------------------------------------------------------------------------------


def _slots(lab: Lab, test: AaTest, runs: int | None) -> list[Slot]:
    return aa_plan.slots(lab, test, test.runs or runs or aa_plan.RUNS)


def _run_ids(lab: Lab, test: AaTest) -> dict[tuple[str, int], str]:
    """Returns the newest run of each replicate of each arm."""
    return {(arm, run.replicate): run.id for arm, item in test.arms.items() for run in lab.runs.named([item.id])}


def _missing(lab: Lab, test: AaTest, slots: Sequence[Slot]) -> list[Slot]:
    known = _run_ids(lab, test)
    return [slot for slot in slots if (slot.arm, slot.replicate) not in known]


def _planned(test: AaTest, slot: Slot, run_id: str | None) -> AaRun:
    return {
        "arm": slot.arm,
        "experiment_id": test.arms[slot.arm].id if slot.arm in test.arms else None,
        "replicate": slot.replicate,
        "seed": slot.seed,
        "shared": slot.is_shared,
        "run_id": run_id,
    }


def _worst_case(source: Experiment) -> tuple[float, float]:
    """Returns the GPU-hours and run-hours that one run reserves."""
    hours = (source.resources.wall_s or 0.0) / 3600.0
    return hours * source.resources.gpus, hours * max(1, source.resources.gpus)


def _check_approval(lab: Lab, source: Experiment) -> None:
    """Raises NotPermitted unless the experiment itself could be launched: approving its arms approves its command."""
    with suppress(Conflict):  # it has all of its replicates
        lab.runs.plan(source.id)


def _expected(lab: Lab, source: Experiment, count: int) -> float | None:
    """Returns the run-hours of so many runs, by those that the experiment's own took."""
    hours = [run.run_hours for run in lab.runs.named([source.id]) if run.status == "done" and run.run_hours is not None]
    return count * math.fsum(hours) / len(hours) if hours else None


def _check_budget(lab: Lab, source: Experiment, missing: int) -> None:
    """Raises Refused unless the worst case of all missing runs fits: half an A/A test says little."""
    left = lab.budget.totals()["left_gpu_hours"], lab.budget.room_run_hours()
    for unit, need, room in zip(("GPU-hours", "run-hours"), _worst_case(source), left, strict=True):
        if room is not None and missing * need > room + _ROUNDING:
            raise Refused(
                f"{counted(missing, 'run')} may need {missing * need:.3f} {unit} and {room:.3f} are left",
                hint=f"fewer runs: perpetual aa {source.id} --runs {aa_plan.FEWEST_RUNS}; or a larger budget",
                code="budget",
            )


def _launch(lab: Lab, test: AaTest, say: Say) -> None:
    """Launches the missing runs in the order of the plan and waits for the end of all; the queue keeps their order."""
    slots = _slots(lab, test, None)
    missing = _missing(lab, test, slots)
    arms = [test.arms[arm].id for arm in aa_plan.ARMS]
    if missing:
        say(f"A/A test {test.number} of {test.of}: {len(missing)} of {counted(len(slots), 'run')} to go, "
            f"arms {' and '.join(arms)}")  # fmt: skip
    for slot in missing:
        arm = test.arms[slot.arm].id
        try:
            lab.runs.launch(arm, seed=slot.seed, idempotency_key=f"aa:{arm}:{slot.replicate}")
        except Conflict:
            if (slot.arm, slot.replicate) in _run_ids(lab, test):
                continue  # another process was faster
            raise
    lab.wait(arms, say=say)


# --- looking ----------------------------------------------------------------------------------------------------------


class _Sample(NamedTuple):
    """The runs that are looked at, and what was left out."""

    runs: list[tuple[Run, str]]  # with their session
    own: int
    without_value: int
    other_version: int


def _analysis(
    lab: Lab,
    source: Experiment,
    test: AaTest | None,
    metric: str,
    direction: str,
    items: int | None,
    mde: float | None,
) -> Aa:
    sample = _sample(lab, source, metric)
    values = [_measured(run, session, metric, order) for order, (run, session) in enumerate(sample.runs)]
    if len(values) < FEWEST_VALUES:
        raise PerpetualError(
            f"{source.id} has {counted(len(values), 'run')} with a value of {metric}",
            hint=f"perpetual aa {source.id} runs more; perpetual runs shows what ended without a value",
            code="too_few_runs",
        )
    spread, alike = noise(values), seed_correlation(values)
    trend = drift(values, direction=direction)
    designs = _designs(lab, source, metric)
    claimed = mde if mde is not None else min((each.mde for each in designs if each.mde is not None), default=None)
    items = items if items is not None else next((each.items for each in designs if each.items), None)
    effect = claimed if claimed is not None else spread.value or None
    ours = None if effect is None else our_rule(thresholds(lab), kind=source.design.kind, mde=effect, items=items)
    shares = rates(values, direction=direction, ours=ours)
    figures = [each.value for each in values]
    luck = luck_of_rate(figures, items) if items is not None else None
    is_rate = luck is not None or (items is None and all(0.0 <= value <= 1.0 for value in figures))
    pairs = _pairs(sample.runs, test)
    found: Aa = {
        "experiment_id": source.id,
        "test": test.number if test is not None else None,
        "arms": [test.arms[arm].id for arm in aa_plan.ARMS if arm in test.arms] if test is not None else [],
        "metric": metric,
        "direction": direction,
        "n": len(values),
        "own": sample.own,
        "seeds": len(by_seed(values)),
        "pairs": pairs[0],
        "shared_pairs": pairs[1],
        "without_value": sample.without_value,
        "other_version": sample.other_version,
        "rules": [_rule(each) for each in shares],
        "noise_sd": spread.value,
        "noise_sd_low": spread.low,
        "noise_sd_high": spread.high,
        "seed_correlation": alike.value,
        "seed_correlation_low": alike.low,
        "seed_correlation_high": alike.high,
        "drift": {**trend._asdict()},  # type: ignore[typeddict-item]
        "item_luck": luck,
        "items": items,
        "item_rate": math.fsum(figures) / len(figures) if is_rate else None,
        "mde": effect,
        "mde_is_noise": claimed is None and effect is not None,
        "advice": [],
        "sentence": "",
    }
    return {**found, "advice": advice(found), "sentence": sentence(found)}


def _sample(lab: Lab, source: Experiment, metric: str) -> _Sample:
    """Returns the runs with a value of the newest version, in the order of their launches.

    Runs of the experiment itself with a seed picked by hand are left out, since they may have been picked by what they
    show; so are runs that touched what judges them.
    """
    parts = [(source.id, source.id)]
    parts += [(item.id, item.id) for item in aa_plan.experiments_of(lab) if source.id in (item.extends, item.renews)]
    tests = aa_plan.tests_of(lab, source)
    arms = {arm.id: f"aa{test.number}" for test in tests for arm in test.arms.values()}
    known: list[tuple[Run, str]] = []
    without = 0
    for id, session in [*parts, *arms.items()]:
        for run in lab.runs.named([id]):
            value = run.metrics.get(metric)
            if run.status == "done" and value is not None and math.isfinite(value):
                if not run.tainted and (id in arms or not run.chosen_seed):
                    known.append((run, session))
            elif id in arms and run.status not in ("queued", "launching", "running"):
                without += 1
    known.sort(key=lambda each: (each[0].started_at or "", int(each[0].id[1:])))
    samples = samples_of((run.versions, (run, session)) for run, session in known)
    newest = next((each.items for each in samples if known and known[-1] in each.items), [])
    own = sum(session not in arms.values() for _, session in newest)
    return _Sample(newest, own, without, len(known) - len(newest))


def _measured(run: Run, session: str, metric: str, order: int) -> Measured:
    value = run.metrics[metric]
    assert value is not None, run.id
    return Measured(value, run.id if run.seed is None else run.seed, float(order), session)


def _designs(lab: Lab, source: Experiment, metric: str) -> list[Design]:
    """Returns the designs of the experiment and of what is compared with it, as far as they are of this metric."""
    found = [item.design for item in aa_plan.experiments_of(lab) if source.id in (item.id, item.design.baseline)]
    return [each for each in found if each.metric == metric]


def _pairs(runs: Sequence[tuple[Run, str]], test: AaTest | None) -> tuple[int, int]:
    """Returns how many replicates of the newest test gave a value in both arms, and on how many seeds both did."""
    if test is None or len(test.arms) < len(aa_plan.ARMS):
        return 0, 0
    by_arm = [[run for run, _ in runs if run.experiment_id == test.arms[arm].id] for arm in aa_plan.ARMS]
    one, other = ({run.seed for run in arm} for arm in by_arm)
    return min(map(len, by_arm)), len(one & other)


def _rule(share: RuleShare) -> AaRule:
    return {
        "rule": share.rule,
        "said_improved": share.said,
        "low": share.low,
        "high": share.high,
        "runs": share.runs,
        "splits": share.splits,
        "all_splits": share.is_all,
        "promised": share.promised,
        "normal": share.normal,
        "in_order": share.in_order,
        "advice": of_rule(share),
    }

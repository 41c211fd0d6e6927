"""Sweeps of a project: created, approved, run, and their winner claimed. Functions over `Lab`.

    from perpetual_scorers import sweeps

    made = sweeps.new(lab, "python train.py --lr {lr}", ["lr=log:1e-4..1e-1"], metric="loss", direction="min", runs=24)
    sweeps.run(lab, made["id"], wait=True)
    sweeps.claim(lab, made["id"], baseline="e1", mde=0.01)

A sweep is one record. Each pick is an experiment without a claim, so that a sweep's runs are evidence of nothing: they
choose what to test. The claim is a new experiment, whose seeds are its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from perpetual.api import Conflict, NotFound, NotPermitted, PerpetualError, UsageError, to_json
from perpetual.science import propose
from perpetual.toolkit.units import finite
from perpetual_scorers.space import (
    MOST_SETTINGS,
    Parameter,
    Value,
    checked,
    parameters_of,
    placed,
    settings_of,
)
from perpetual_scorers.standing import standing
from perpetual_scorers.sweep_shown import digest_of, importance, listed, show
from perpetual_scorers.sweep_view import SWEEP, TRIAL, Recipe, View, in_words, parameters_in, view_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment
    from perpetual_scorers.documents import (
        SweepClaimed,
        SweepDocument,
        SweepParameter,
    )

__all__ = [
    "SWEEP",
    "approve",
    "claim",
    "claimed",
    "digest_of",
    "grow",
    "importance",
    "listed",
    "new",
    "next_runs",
    "parameters_in",
    "run",
    "show",
]

DEFAULT_RUNS = 2  # for each setting
MOST_RUNS = 10_000
_FRUITLESS = 4  # runs without a value, and none with one, after which a sweep stops
_WAIT_S = 10.0  # for the end of a run, before the record is looked at again
_LOOK_S = 0.2  # between two looks where no run can be waited for
_SLACK = 1e-9  # sums of shares that fill a budget exactly may round past it


# --- creating ---------------------------------------------------------------------------------------------------------


def new(
    lab: Lab,
    command: str,
    parameters: Sequence[str],
    *,
    metric: str,
    direction: str,
    conditions: Sequence[str] = (),
    method: str | None = None,
    settings: int | None = None,
    runs: int | None = None,
    rungs: Sequence[float] = (),
    noise: float | None = None,
    mde: float | None = None,
    cost_run_hours: float | None = None,
    gpus: int = 0,
    wall_s: float | None = None,
    cwd: str | None = None,
    idempotency_key: str | None = None,
) -> SweepDocument:
    """Creates a sweep, and answers it; nothing is run.

    Args:
        command: with `{NAME}` for each parameter, and `{rung}` for the length of a run where there are `rungs`.
        parameters: `NAME=SPEC`, as `perpetual_scorers.space` reads them.
        conditions: `OTHER=VALUE: NAME=SPEC`, parameters that are there only beside that value.
        method: grid, random or quasi; by default a grid of choices, and quasi-random settings of ranges.
        settings: how many; of a grid the most that it may have.
        runs: how many runs the sweep may take in all, in full ones; by default two for each setting.
        rungs: lengths that rise to the full one, in the unit that the command takes.
        noise, mde: sd between seeds, and the smallest difference that is worth having, in the metric's units.
        cost_run_hours, gpus, wall_s, cwd: of one full run, as for an experiment.

    Raises:
        UsageError: for what cannot be read, or cannot be run.
    """
    found = parameters_of(parameters, conditions)
    if direction not in ("max", "min"):
        raise UsageError(f"the direction is max or min, not {direction!r}", hint="--direction max")
    if not metric.strip():
        raise UsageError("a sweep needs a metric", hint="--metric val_loss")
    lengths = _lengths(rungs, command)
    chosen = method or ("grid" if all(one.choices for one in found) else "quasi")
    key = json.dumps([lab.config.project_id, command, *parameters, *conditions])
    points = settings_of(found, chosen, settings, key)
    budget = DEFAULT_RUNS * len(points) if runs is None else runs
    if not 1 <= budget <= MOST_RUNS:
        raise UsageError(f"a sweep takes 1 to {MOST_RUNS} runs, not {budget}", hint="--runs 32")
    options = {"noise": noise, "mde": mde, "cost_run_hours": cost_run_hours, "gpus": gpus, "wall_s": wall_s, "cwd": cwd}
    if mde is not None:
        finite(mde, "mde", above=0.0)
    recipe = Recipe(command, tuple(one.name for one in found), metric.strip(), direction, lengths, options)
    for point in points:
        recipe.arguments(point.values, recipe.last)  # a placeholder that cannot be filled is named now
    lab.experiments.propose(**recipe.arguments(points[0].values, recipe.last), dry_run=True)
    made = lab.records(SWEEP).add(
        idempotency_key=idempotency_key,
        command=command,
        metric=recipe.metric,
        direction=direction,
        parameters=[_declared(one) for one in found],
        method=chosen,
        settings=[{"id": point.id, "values": point.values, "x": point.x} for point in points],
        runs=budget,
        rungs=lengths,
        options=options,
    )
    return show(lab, made.id)


def grow(lab: Lab, id: str, settings: Sequence[Mapping[str, Value]]) -> SweepDocument:
    """Adds settings to a sweep, and answers it; what it has already is left out.

    An approval of the sweep does not cover them: it is approved anew where an agent is to run it.

    Args:
        settings: the values by parameter.

    Raises:
        UsageError: for a value out of its range, and beyond the most settings that a sweep may have.
    """
    with lab.transaction():
        record = lab.records(SWEEP).get(id)
        parameters = parameters_in(record)
        found = [*record["settings"]]
        for given in settings:
            values = checked(parameters, given)
            if all(one["values"] != values for one in found):
                found.append({"id": f"s{len(found) + 1}", "values": values, "x": placed(parameters, values)})
        if len(found) > MOST_SETTINGS:
            raise UsageError(f"a sweep has at most {MOST_SETTINGS} settings, not {len(found)}")
        lab.records(SWEEP).update(record.id, settings=found)
    return show(lab, record.id)


def _declared(one: Parameter) -> SweepParameter:
    is_range = not one.choices
    return {
        "name": one.name,
        "choices": None if is_range else [*one.choices],
        "low": one.low if is_range else None,
        "high": one.high if is_range else None,
        "log": one.is_log,
        "whole": one.is_whole,
        "when": None if one.when is None else {one.when: [*one.values]},
    }


def _lengths(rungs: Sequence[float], command: str) -> list[float]:
    lengths = [float(length) for length in rungs]
    if any(not 0 < low < high < float("inf") for low, high in pairwise(lengths)):
        raise UsageError(f"rungs rise from above 0, not {', '.join(f'{length:g}' for length in lengths)}")
    if len(lengths) == 1:
        raise UsageError("one rung is no ladder", hint="--rungs 1,3,9: the last is a full run")
    if lengths and "{rung}" not in command:
        raise UsageError("the command takes no {rung}", hint="python train.py --epochs {rung}")
    if not lengths and "{rung}" in command:
        raise UsageError("the command takes a {rung}, and there are no rungs", hint="--rungs 1,3,9")
    return lengths


# --- choosing ---------------------------------------------------------------------------------------------------------


def next_runs(lab: Lab, id: str, count: int = 1, *, idempotency_key: str | None = None) -> list[Experiment]:
    """Proposes the runs that are worth most now, at most `count`: one experiment for each setting, without a claim.

    What is proposed or runs already counts as it is expected to come out, so that a second call names others. The list
    is empty once the budget is spent, and where rungs wait for runs.

    Raises:
        UsageError: for a count below 1.
        NotFound: if there is no such sweep.
    """
    if count < 1:
        raise UsageError(f"propose at least one run, not {count}", hint="-k 4")
    id = lab.records(SWEEP).get(id).id
    with lab.transaction():  # or another process picks by the same record
        rows = lab.records(TRIAL).find(sweep=id, key=idempotency_key) if idempotency_key is not None else []
        if rows:
            return [lab.experiments.get(row["experiment"]) for row in rows]
        return _pick(lab, view_of(lab, id), count, idempotency_key)


def _pick(lab: Lab, view: View, count: int, key: str | None) -> list[Experiment]:
    """Writes the picks down, within the budget."""
    wanted: dict[tuple[str, int], int] = {}
    left = view.left
    for setting in propose(view.state(), min(count, MOST_RUNS), {}):
        rung = min(len(view.curve(setting)), view.recipe.last)
        if view.seen(setting):
            rung = view.recipe.last
        left -= view.recipe.share(rung)
        if left < -_SLACK:
            break
        wanted[setting, rung] = wanted.get((setting, rung), 0) + 1
    made = []
    for (setting, rung), replicates in wanted.items():
        values = view.values[setting]
        experiment = lab.experiments.propose(
            **view.recipe.arguments(values, rung),
            replicates=replicates,
            title=_title(view, setting, rung),
            tags=[view.id],
        )
        lab.records(TRIAL).append(sweep=view.id, setting=setting, rung=rung, experiment=experiment.id, key=key)
        made.append(experiment)
    return made


def _title(view: View, setting: str, rung: int) -> str:
    short = "" if rung == view.recipe.last else f" at {view.recipe.rungs[rung]:g}"
    return f"{view.id} {setting}{short}: {in_words(view.values[setting])}"


# --- approving and running --------------------------------------------------------------------------------------------


def approve(lab: Lab, id: str, *, runs: int | None = None) -> SweepDocument:
    """Approves a sweep as it is, once: its runs start without another word, also where an agent runs it.

    The first runs are proposed, if none is, and approved as any experiment is.

    Args:
        runs: a larger budget, in full runs.

    Raises:
        NotPermitted: for an agent, as `Experiments.approve_all`.
        UsageError: for a budget that is smaller than before.
    """
    lab.experiments.approve_all([])  # which is for a person
    record = lab.records(SWEEP).get(id)
    if runs is not None and not record["runs"] <= runs <= MOST_RUNS:
        raise UsageError(f"{record.id} takes {record['runs']} runs; it can take more, up to {MOST_RUNS}, not {runs}")
    if runs is not None:
        record = lab.records(SWEEP).update(record.id, runs=runs)
    view = view_of(lab, record.id)
    proposed = [trial.experiment.id for trial in view.trials if trial.experiment.status == "proposed"]
    if not proposed and not any(_is_by_person(trial.experiment) for trial in view.trials):
        proposed = [made.id for made in next_runs(lab, record.id, _parallel(lab))]
    lab.experiments.approve_all(proposed)
    approval = {"by": lab.actor, "digest": digest_of(record), "runs": record["runs"]}
    lab.records(SWEEP).update(record.id, approval=approval)
    return show(lab, record.id)


def _is_by_person(experiment: Experiment) -> bool:
    by = experiment.approved_by
    return by is not None and not by.startswith(("agent:", "mcp:", "right:"))


def _approve(lab: Lab, view: View, ids: Sequence[str]) -> None:
    """Approves experiments of the sweep: a person by running it, an agent where a person has approved the sweep."""
    try:
        lab.experiments.approve_all(ids)
        return
    except NotPermitted as problem:
        if problem.code == "not_trusted":
            raise
        refused = problem
    record, approval = view.record, view.record["approval"] or {}
    why = "is not approved"
    if approval.get("digest") == digest_of(record) and record["runs"] <= approval["runs"]:
        held = {item.subject for item in lab.trust.review().held}
        if any(_is_by_person(trial.experiment) and trial.experiment.id not in held for trial in view.trials):
            with lab.transaction():  # what was changed since is not approved by this
                lab.experiments.approve_all(ids, allowed=True)
                found = [lab.experiments.differences(id) for id in ids]
                if all(each is not None and each["code"] is None for each in found):
                    return
                raise _unapproved(view.id, "was approved with other code") from refused
        why = "was approved elsewhere"
    elif approval:
        why = "has changed since it was approved"
    raise _unapproved(view.id, why) from refused


def _unapproved(id: str, why: str) -> NotPermitted:
    return NotPermitted(f"{id} {why}, and approving is for a person", hint=f"perpetual sweep approve {id}",
                        code="not_approved")  # fmt: skip


def _parallel(lab: Lab) -> int:
    return int(lab.config.methodology["max_concurrent_runs"])


def run(
    lab: Lab,
    id: str,
    *,
    runs: int | None = None,
    wait: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> SweepDocument:
    """Starts the runs that are worth most, as many at a time as the methodology lets run; answers the sweep.

    Running a sweep approves its runs, if a person does it. Interrupted, it goes on where it was.

    Args:
        runs: how many are started by this call at most; without it as many as the budget holds.
        wait: goes on until the budget is spent and all runs have ended; without it only what has room is started.
        say: called with the progress.

    Raises:
        UsageError: for fewer runs than one.
        NotPermitted: for an agent, unless a person has approved the sweep as it is now.
        PerpetualError: once four runs have ended and none of them measured the metric.
        Refused: if the budget of the project does not hold a run.
    """
    if runs is not None and runs < 1:
        raise UsageError(f"run at least one, not {runs}", hint="--runs 4")
    started = 0
    while True:
        lab.scan()
        view = view_of(lab, id)
        _check_fruit(view)
        for experiment in view.waiting:
            _start(lab, view, experiment, say)
        live = len(view_of(lab, id).live)
        room = _parallel(lab) - live
        if runs is not None:
            room = min(room, runs - started)
        made = next_runs(lab, id, room) if room > 0 else []
        for experiment in made:
            _start(lab, view_of(lab, id), experiment, say)
            started += experiment.design.replicates
        live = len(view_of(lab, id).live)
        if not wait or (not live and not made):
            return show(lab, id)
        if not lab.loop.wait_any(_WAIT_S):
            time.sleep(_LOOK_S)  # all of them wait for room


def _start(lab: Lab, view: View, experiment: Experiment, say: Callable[[str], None]) -> None:
    """Approves and launches an experiment of the sweep, unless another process has done so meanwhile."""
    try:
        if experiment.status == "proposed":
            _approve(lab, view, [experiment.id])
        for each in lab.runs.launch(experiment.id, every=True):
            say(f"{each.id} {each.status}: {experiment.title}")
    except Conflict:
        if len(lab.runs.named([experiment.id])) < experiment.design.replicates:
            raise


def _check_fruit(view: View) -> None:
    """Raises PerpetualError where every run has ended without a value: the command is wrong, and not its settings."""
    outcomes = view.outcomes()
    if len(outcomes) >= _FRUITLESS and all(value is None for value in outcomes):
        last = view.ended[-1].id
        raise PerpetualError(
            f"{len(outcomes)} runs of {view.id} have ended, and none gave {view.recipe.metric}",
            hint=f"perpetual logs {last}",
            code="no_values",
        )


# --- the winner -------------------------------------------------------------------------------------------------------


def claim(
    lab: Lab,
    id: str,
    *,
    baseline: float | str,
    mde: float | None = None,
    replicates: int = 3,
    statement: str | None = None,
    paired: bool = False,
    idempotency_key: str | None = None,
) -> SweepClaimed:
    """Makes a hypothesis of the pick, and proposes the experiment that tests it against a baseline on fresh seeds.

    Seeds derive from the experiment that they are for, so those of the sweep are not used again; its runs have no claim
    and weigh nothing. Asked again while the pick is the same, it answers the same.

    Args:
        baseline: an experiment that is none of the sweep's, or a number.
        mde: the smallest effect worth having; by default the sweep's.
        statement: by default what the setting is, and which way the metric is to go.
        paired: the baseline's seeds are shared.

    Raises:
        Conflict: before a full run has given a value, and once another setting was claimed.
        UsageError: without an mde, and for a baseline whose runs chose the winner.
    """
    view = view_of(lab, id)
    best = standing(view.state()).best if any(view.seen(setting) for setting in view.values) else None
    if best is None or not any(value is not None for value in view.seen(best)):
        raise Conflict(f"{view.id} has no full run with a value, and no winner", hint=f"perpetual sweep run {view.id}")
    mde = view.record["options"]["mde"] if mde is None else mde
    if mde is None:
        raise UsageError("a claim needs the smallest effect worth having", hint="--mde 0.01")
    against = baseline if isinstance(baseline, int | float) else lab.experiments.get(baseline).id
    if against in {trial.experiment.id for trial in view.trials}:
        raise UsageError(
            f"{against} is a run of {view.id}, and chose its winner", hint="--baseline: an experiment of its own"
        )
    earlier = view.record["claim"]
    if earlier:
        if earlier["setting"] == best or (idempotency_key is not None and earlier["key"] == idempotency_key):
            return claimed(lab, view.id)
        raise Conflict(
            f"{view.id} has claimed {earlier['setting']} as {earlier['hypothesis_id']}, and {best} is the pick now",
            hint=f"perpetual hypotheses show {earlier['hypothesis_id']}",
        )
    recipe, values = view.recipe, view.values[best]
    text = statement or f"{in_words(values)} {'raises' if recipe.direction == 'max' else 'lowers'} {recipe.metric}"
    arguments = recipe.arguments(values, recipe.last)
    with lab.transaction():
        hypothesis = lab.hypotheses.add(
            text, metric=recipe.metric, direction=recipe.direction, mde=mde, baseline=against, tags=[view.id]
        )
        experiment = lab.experiments.propose(
            hypothesis.id,
            **arguments,
            mde=mde,
            baseline=against,
            paired=paired,
            replicates=replicates,
            notes=f"the pick of {view.id}, whose runs chose it and weigh nothing",
            tags=[view.id],
        )
        made = {"setting": best, "hypothesis_id": hypothesis.id, "experiment_id": experiment.id, "key": idempotency_key}
        lab.records(SWEEP).update(view.id, claim=made)
    return claimed(lab, view.id)


def claimed(lab: Lab, id: str) -> SweepClaimed:
    """Returns what a sweep's winner was claimed as; raises NotFound if it was not."""
    record = lab.records(SWEEP).get(id)
    if not record["claim"]:
        raise NotFound(f"{record.id} has claimed nothing", hint=f"perpetual sweep claim {record.id} --baseline e1")
    found = record["claim"]
    return {
        "sweep_id": record.id,
        "setting": found["setting"],
        "hypothesis": to_json(lab.hypotheses.get(found["hypothesis_id"])),
        "experiment": to_json(lab.experiments.get(found["experiment_id"])),
    }

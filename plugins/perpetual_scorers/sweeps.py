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
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from perpetual.api import Conflict, NotFound, NotPermitted, PerpetualError, UsageError, to_json
from perpetual.science import propose
from perpetual.toolkit.units import counted, finite, shown_number
from perpetual_scorers.space import (
    MOST_SETTINGS,
    Parameter,
    Value,
    checked,
    command_of,
    parameters_of,
    placed,
    settings_of,
)
from perpetual_scorers.standing import Standing, standing

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Record, Run
    from perpetual_scorers.documents import (
        SweepClaim,
        SweepClaimed,
        SweepDocument,
        SweepLine,
        SweepParameter,
        SweepSetting,
    )

__all__ = [
    "approve",
    "claim",
    "claimed",
    "digest_of",
    "grow",
    "listed",
    "new",
    "next_runs",
    "parameters_in",
    "run",
    "show",
]

SWEEP, TRIAL = "scorers.sweep", "scorers.trial"
DEFAULT_RUNS = 2  # for each setting
MOST_RUNS = 10_000
_FRUITLESS = 4  # runs without a value, and none with one, after which a sweep stops
_WAIT_S = 10.0  # for the end of a run, before the record is looked at again
_LOOK_S = 0.2  # between two looks where no run can be waited for
_SLACK = 1e-9  # sums of shares that fill a budget exactly may round past it
_LONGEST = 60  # characters of a setting in a title
_OUTCOMES = ("done", "failed", "killed", "timeout")  # a lost run says nothing of its setting
_LIVE = ("queued", "launching", "running")
# What a person approves of a sweep: changed, it is approved anew.
_BOUND = ("command", "metric", "direction", "parameters", "settings", "rungs", "options")


class _Recipe(NamedTuple):
    """What the runs of a sweep are made of."""

    command: str
    names: tuple[str, ...]
    metric: str
    direction: str
    rungs: list[float]
    options: Mapping[str, Any]

    @property
    def last(self) -> int:
        """Returns the rung of a full run."""
        return max(len(self.rungs) - 1, 0)

    def share(self, rung: int) -> float:
        """Returns what part of a full run a run of this rung is."""
        return self.rungs[rung] / self.rungs[-1] if self.rungs else 1.0

    def arguments(self, values: Mapping[str, Value], rung: int) -> dict[str, Any]:
        """Returns what `Experiments.propose` takes for a run of a setting: its command, configuration and needs."""
        options, share = self.options, self.share(rung)
        length = self.rungs[rung] if self.rungs else None
        cost, wall_s = options["cost_run_hours"], options["wall_s"]
        return {
            "command": command_of(self.command, self.names, values, length),
            "config": {**values, **({} if length is None else {"rung": length})},
            "metric": self.metric,
            "direction": self.direction,
            "noise": options["noise"],
            "cost_run_hours": None if cost is None else cost * share,
            "gpus": options["gpus"],
            "wall_s": wall_s,
            "cwd": options["cwd"],
        }


class _Trial(NamedTuple):
    """An experiment of a sweep: the setting and the rung that it runs, and its runs."""

    setting: str
    rung: int
    experiment: Experiment
    runs: Sequence[Run]

    @property
    def pending(self) -> int:
        """Returns how many of its runs have not ended."""
        return self.experiment.design.replicates - sum(run.status not in _LIVE for run in self.runs)

    def outcomes(self, metric: str) -> list[float | None]:
        """Returns what its runs measured, None for one that ended without a value by itself."""
        ended = [run for run in self.runs if run.status in _OUTCOMES and not run.tainted and not run.chosen_seed]
        return [run.metrics.get(metric) if run.status == "done" else None for run in ended]


class _View:
    """A sweep with its trials, as the record has them now."""

    def __init__(self, lab: Lab, record: Record) -> None:
        self.lab, self.record, self.id = lab, record, record.id
        names = tuple(one["name"] for one in record["parameters"])
        self.recipe = _Recipe(record["command"], names, record["metric"], record["direction"], record["rungs"] or [],
                              record["options"])  # fmt: skip
        self.values: dict[str, dict[str, Value]] = {one["id"]: one["values"] for one in record["settings"]}
        self.trials = [
            _Trial(row["setting"], row["rung"], experiment, lab.runs.named([experiment.id]))
            for row in lab.records(TRIAL).find(sweep=record.id)
            if (experiment := lab.experiments.get(row["experiment"])).status not in ("rejected", "expired")
        ]

    @property
    def spent(self) -> float:
        """Returns the runs that were picked, in full ones."""
        return sum(self.recipe.share(trial.rung) * trial.experiment.design.replicates for trial in self.trials)

    @property
    def left(self) -> float:
        """Returns the runs that the budget still holds, in full ones."""
        return max(float(self.record["runs"]) - self.spent, 0.0)

    @property
    def ended(self) -> list[Run]:
        """Returns the runs that have ended."""
        return [run for trial in self.trials for run in trial.runs if run.status not in _LIVE]

    @property
    def live(self) -> list[Run]:
        """Returns the runs that are queued or run."""
        return [run for trial in self.trials for run in trial.runs if run.status in _LIVE]

    @property
    def waiting(self) -> list[Experiment]:
        """Returns the experiments that have runs to start."""
        return [trial.experiment for trial in self.trials if trial.experiment.design.replicates > len(trial.runs)]

    def of(self, setting: str) -> list[_Trial]:
        """Returns the trials of a setting."""
        return [trial for trial in self.trials if trial.setting == setting]

    def state(self) -> dict[str, object]:
        """Returns the sweep as `perpetual.science.propose` takes it."""
        hours = self._hours()
        settings: list[dict[str, object]] = [
            {
                "id": setting["id"],
                "x": setting["x"],
                "cost": hours[setting["id"]],
                "seen": self.seen(setting["id"]),
                "curve": self.curve(setting["id"]),
                "pending": sum(trial.pending for trial in self.of(setting["id"])),
            }
            for setting in self.record["settings"]
        ]
        sweep = {"settings": settings, "direction": self.record["direction"], "rungs": self.recipe.rungs or None}
        return {"sweep": sweep, "seed": f"{self.lab.config.project_id}:{self.id}"}

    def seen(self, setting: str) -> list[float | None]:
        """Returns the values of the setting's full runs, None for one that gave none."""
        return self._values(setting, self.recipe.last)

    def _values(self, setting: str, rung: int) -> list[float | None]:
        metric = self.recipe.metric
        return [value for trial in self.of(setting) if trial.rung == rung for value in trial.outcomes(metric)]

    def curve(self, setting: str) -> list[float | None]:
        """Returns the values at the rungs that the setting has passed, below the full one."""
        curve: list[float | None] = []
        for rung in range(self.recipe.last):
            values = self._values(setting, rung)
            if not values:
                break
            known = [value for value in values if value is not None]
            curve.append(sum(known) / len(known) if known else None)
        return curve

    def _hours(self) -> dict[str, float]:
        """Returns what a full run of each setting is expected to take: what it took, drawn towards the mean of all."""
        taken = {setting["id"]: list[float]() for setting in self.record["settings"]}
        for trial in self.trials:
            ended = [run.run_hours for run in trial.runs if run.status == "done" and run.run_hours is not None]
            taken[trial.setting] += [hours / self.recipe.share(trial.rung) for hours in ended]
        every = [hours for each in taken.values() for hours in each]
        mean = sum(every) / len(every) if every else 1.0
        # A floor of a second: what a run takes beyond its own work is no cost of its setting.
        mean = max(mean, 1 / 3600)
        return {id: (sum(max(h, 1 / 3600) for h in each) + 2 * mean) / (len(each) + 2) for id, each in taken.items()}


def _view(lab: Lab, id: str) -> _View:
    return _View(lab, lab.records(SWEEP).get(id))


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
    recipe = _Recipe(command, tuple(one.name for one in found), metric.strip(), direction, lengths, options)
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


def parameters_in(record: Record) -> list[Parameter]:
    """Returns the parameters of a sweep's record."""
    return [
        Parameter(
            one["name"],
            tuple(one["choices"] or ()),
            one["low"] or 0.0,
            one["high"] or 0.0,
            is_log=one["log"],
            is_whole=one["whole"],
            when=next(iter(one["when"] or {}), None),
            values=tuple(next(iter((one["when"] or {}).values()), ())),
        )
        for one in record["parameters"]
    ]


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
        return _pick(lab, _view(lab, id), count, idempotency_key)


def _pick(lab: Lab, view: _View, count: int, key: str | None) -> list[Experiment]:
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


def _title(view: _View, setting: str, rung: int) -> str:
    short = "" if rung == view.recipe.last else f" at {view.recipe.rungs[rung]:g}"
    return f"{view.id} {setting}{short}: {_shown(view.values[setting])}"


def _shown(values: Mapping[str, Value]) -> str:
    text = ", ".join(f"{name}={value}" for name, value in values.items())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


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
    view = _view(lab, record.id)
    proposed = [trial.experiment.id for trial in view.trials if trial.experiment.status == "proposed"]
    if not proposed and not any(_is_by_person(trial.experiment) for trial in view.trials):
        proposed = [made.id for made in next_runs(lab, record.id, _parallel(lab))]
    lab.experiments.approve_all(proposed)
    approval = {"by": lab.actor, "digest": digest_of(record), "runs": record["runs"]}
    lab.records(SWEEP).update(record.id, approval=approval)
    return show(lab, record.id)


def digest_of(record: Record) -> str:
    """Returns what stands for the sweep that a person has approved."""
    return sha256(json.dumps([record[name] for name in _BOUND], sort_keys=True).encode()).hexdigest()


def _is_by_person(experiment: Experiment) -> bool:
    by = experiment.approved_by
    return by is not None and not by.startswith(("agent:", "mcp:"))


def _approve(lab: Lab, view: _View, ids: Sequence[str]) -> None:
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
        view = _view(lab, id)
        _check_fruit(view)
        for experiment in view.waiting:
            _start(lab, view, experiment, say)
        live = len(_view(lab, id).live)
        room = _parallel(lab) - live
        if runs is not None:
            room = min(room, runs - started)
        made = next_runs(lab, id, room) if room > 0 else []
        for experiment in made:
            _start(lab, _view(lab, id), experiment, say)
            started += experiment.design.replicates
        live = len(_view(lab, id).live)
        if not wait or (not live and not made):
            return show(lab, id)
        if not lab.loop.wait_any(_WAIT_S):
            time.sleep(_LOOK_S)  # all of them wait for room


def _start(lab: Lab, view: _View, experiment: Experiment, say: Callable[[str], None]) -> None:
    """Approves and launches an experiment of the sweep, unless another process has done so meanwhile."""
    try:
        if experiment.status == "proposed":
            _approve(lab, view, [experiment.id])
        for each in lab.runs.launch(experiment.id, every=True):
            say(f"{each.id} {each.status}: {experiment.title}")
    except Conflict:
        if len(lab.runs.named([experiment.id])) < experiment.design.replicates:
            raise


def _check_fruit(view: _View) -> None:
    """Raises PerpetualError where every run has ended without a value: the command is wrong, and not its settings."""
    outcomes = [value for trial in view.trials for value in trial.outcomes(view.recipe.metric)]
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
    view = _view(lab, id)
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
    text = statement or f"{_shown(values)} {'raises' if recipe.direction == 'max' else 'lowers'} {recipe.metric}"
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


# --- showing ----------------------------------------------------------------------------------------------------------


def show(lab: Lab, id: str) -> SweepDocument:
    """Returns a sweep with all of its settings, as the record has them."""
    view = _view(lab, id)
    record, recipe = view.record, view.recipe
    now = standing(view.state())
    settings = [_setting(view, one["id"], now) for one in record["settings"]]
    approval = record["approval"]
    is_valid = bool(approval) and approval["digest"] == digest_of(record) and record["runs"] <= approval["runs"]
    options = record["options"]
    return {
        "id": record.id,
        "command": recipe.command,
        "metric": recipe.metric,
        "direction": recipe.direction,
        "method": record["method"],
        "parameters": record["parameters"],
        "rungs": recipe.rungs,
        "noise": options["noise"],
        "mde": options["mde"],
        "cost_run_hours": options["cost_run_hours"],
        "settings": settings,
        "best": now.best,
        "best_parameters": None if now.best is None else view.values[now.best],
        "regret_bound": now.regret_bound,
        "sentence": _sentence(view, now),
        "runs": len(view.ended),
        "runs_pending": sum(trial.pending for trial in view.trials),
        "runs_budget": record["runs"],
        "runs_left": round(view.left, 9),
        "status": _status(view),
        "approved_by": approval["by"] if is_valid else None,
        "claim": _claim(record),
        "created_at": record.created_at,
        "created_by": record.created_by,
    }


def _claim(record: Record) -> SweepClaim | None:
    found = record["claim"]
    if not found:
        return None
    return {
        "setting": found["setting"],
        "hypothesis_id": found["hypothesis_id"],
        "experiment_id": found["experiment_id"],
    }


def _status(view: _View) -> str:
    if view.record["claim"]:
        return "claimed"
    if not view.trials:
        return "new"
    return "open" if view.live or view.waiting or view.left >= view.recipe.share(0) else "complete"


def _setting(view: _View, id: str, now: Standing) -> SweepSetting:
    values = view.seen(id)
    known = [value for value in values if value is not None]
    mean = math.fsum(known) / len(known) if known else None
    believed = now.settings.get(id)
    return {
        "id": id,
        "parameters": view.values[id],
        "n": len(known),
        "n_failed": len(values) - len(known),
        "mean": mean,
        "sd": statistics.stdev(known) if len(known) > 1 else None,
        "values": values,
        "curve": view.curve(id),
        "pending": sum(trial.pending for trial in view.of(id)),
        "expected": believed.mean if believed else None,
        "expected_sd": believed.sd if believed else None,
        "chance_best": believed.chance if believed else None,
        "experiments": [trial.experiment.id for trial in view.of(id)],
    }


def _sentence(view: _View, now: Standing) -> str:
    """Returns the standing for a person without statistics."""
    if now.best is None:
        return f"no run of {view.id} has given {view.recipe.metric} yet"
    named = f"{now.best} ({_shown(view.values[now.best])})"
    if now.best not in now.settings:
        return f"{named} is ahead at the rung that was reached; no full run has ended"
    n = sum(value is not None for value in view.seen(now.best))
    expected = f"expected {view.recipe.metric} {shown_number(now.settings[now.best].mean)} after {counted(n, 'run')}"
    if now.regret_bound is None:
        return f"{named} is the pick: {expected}; too few runs to say what it may lose"
    if now.regret_bound <= 0:
        return f"{named} is the pick: {expected}; by the fitted model it is the best with 95 %"
    loss = shown_number(now.regret_bound)
    return f"{named} is the pick: {expected}; by the fitted model it is within {loss} of the best with 95 %"


def listed(lab: Lab, *, limit: int = 100, cursor: str | None = None) -> tuple[list[SweepLine], str | None]:
    """Returns a page of sweeps, oldest first, and the cursor of the next one."""
    page = lab.records(SWEEP).list(limit=limit, cursor=cursor)
    return [_line(show(lab, record.id)) for record in page.items], page.next_cursor


def _line(found: SweepDocument) -> SweepLine:
    return {
        "id": found["id"],
        "command": found["command"],
        "metric": found["metric"],
        "direction": found["direction"],
        "method": found["method"],
        "settings": len(found["settings"]),
        "runs": found["runs"],
        "runs_budget": found["runs_budget"],
        "best": found["best"],
        "best_parameters": found["best_parameters"],
        "status": found["status"],
        "approved_by": found["approved_by"],
        "claim": found["claim"],
        "created_at": found["created_at"],
    }

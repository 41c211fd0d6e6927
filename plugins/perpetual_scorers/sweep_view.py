"""A sweep as the record has it: what its runs are made of, its trials, and what they measured.

Imported by `sweeps` and the modules that show a sweep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from perpetual_scorers.space import Parameter, Value, command_of

if TYPE_CHECKING:
    from typing import TypedDict

    from perpetual import Lab
    from perpetual.api import Experiment, Record, Run
    from perpetual_scorers.documents import SweepDocument

    class RunArguments(TypedDict):
        """What `Experiments.propose` takes for a run of a setting."""

        command: str
        config: dict[str, object]
        metric: str
        direction: str
        noise: float | None
        cost_run_hours: float | None
        gpus: int
        wall_s: float | None
        cwd: str | None


__all__ = ["LIVE", "SWEEP", "TRIAL", "Recipe", "Trial", "View", "in_words", "parameters_in", "view_of"]

SWEEP, TRIAL = "scorers.sweep", "scorers.trial"
LIVE = ("queued", "launching", "running")
_OUTCOMES = ("done", "failed", "killed", "timeout")  # a lost run says nothing of its setting
_LONGEST = 60  # characters of a setting in a title


class Recipe(NamedTuple):
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

    def arguments(self, values: Mapping[str, Value], rung: int) -> RunArguments:
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


class Trial(NamedTuple):
    """An experiment of a sweep: the setting and the rung that it runs, and its runs."""

    setting: str
    rung: int
    experiment: Experiment
    runs: Sequence[Run]

    @property
    def pending(self) -> int:
        """Returns how many of its runs have not ended."""
        return self.experiment.design.replicates - sum(run.status not in LIVE for run in self.runs)

    def outcomes(self, metric: str, estimates: Mapping[str, float]) -> list[float | None]:
        """Returns what its runs measured, None for one that ended without a value by itself.

        Of a run that was stopped early it is the estimate, and nothing where there is none.
        """
        ended = [run for run in self.runs if run.status in _OUTCOMES and not run.tainted and not run.chosen_seed]
        return [
            run.metrics.get(metric) if run.status == "done" else estimates.get(run.id)
            for run in ended
            if not run.stopped or run.status == "done" or run.id in estimates
        ]


class View:
    """A sweep with its trials, as the record has them now."""

    def __init__(self, lab: Lab, record: Record) -> None:
        self.lab, self.record, self.id = lab, record, record.id
        names = tuple(one["name"] for one in record["parameters"])
        self.recipe = Recipe(record["command"], names, record["metric"], record["direction"], record["rungs"] or [],
                              record["options"])  # fmt: skip
        self.values: dict[str, dict[str, Value]] = {one["id"]: one["values"] for one in record["settings"]}
        self.trials = [
            Trial(row["setting"], row["rung"], experiment, lab.runs.named([experiment.id]))
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
        return [run for trial in self.trials for run in trial.runs if run.status not in LIVE]

    @property
    def live(self) -> list[Run]:
        """Returns the runs that are queued or run."""
        return [run for trial in self.trials for run in trial.runs if run.status in LIVE]

    @property
    def waiting(self) -> list[Experiment]:
        """Returns the experiments that have runs to start."""
        return [trial.experiment for trial in self.trials if trial.experiment.design.replicates > len(trial.runs)]

    def of(self, setting: str) -> list[Trial]:
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
        trials = [trial for trial in self.of(setting) if trial.rung == rung]
        return [value for trial in trials for value in trial.outcomes(metric, self.estimates)]

    def outcomes(self) -> list[float | None]:
        """Returns what all runs measured, in the order of the trials."""
        return [value for trial in self.trials for value in trial.outcomes(self.recipe.metric, self.estimates)]

    @cached_property
    def estimates(self) -> dict[str, float]:
        """Returns by run that was stopped early what its last value would be, by regression over the complete runs.

        The settings' curves share a slope and a level: what is estimated so chooses what to test, and is no evidence.
        """
        from perpetual.science.stopped import filled

        runs = [run for trial in self.trials for run in trial.runs]
        stopped = [run for run in runs if run.stopped is not None and run.status == "killed"]
        at = {id: x for run in stopped for id, x in (run.stopped or {})["at_step"].items()}
        last = {run.id: run.metrics.get(self.recipe.metric) for run in runs if run.status == "done"}
        points = [(x, y) for id, x in at.items() if (y := last.get(id)) is not None]
        found = filled(points, [float((run.stopped or {})["value"]) for run in stopped])
        return {} if found is None else {run.id: value for run, value in zip(stopped, found.values, strict=True)}

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


def view_of(lab: Lab, id: str) -> View:
    """Returns a sweep as the record has it now. Raises NotFound."""
    return View(lab, lab.records(SWEEP).get(id))


def parameters_in(record: Record | SweepDocument) -> list[Parameter]:
    """Returns the parameters of a sweep, from its record or as it is shown."""
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


def in_words(values: Mapping[str, Value]) -> str:
    """Returns a setting in words, cut where it is long."""
    text = ", ".join(f"{name}={value}" for name, value in values.items())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."

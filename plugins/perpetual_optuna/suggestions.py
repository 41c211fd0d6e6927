"""Settings that Optuna suggests for a sweep: candidates, never evidence.

    from perpetual_optuna.suggestions import suggest

    suggest(lab, "sweep-1", 4, sampler="tpe")

A study in memory is shown what the sweep has measured: settings with full runs as complete trials, those that only ran
short as pruned ones with their values by rung, those without a value as failed. The sampler then draws new settings,
which are added to the sweep. Which of them run, and which is best, the sweep decides as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError, UsageError, unknown
from perpetual.science.draws import uniform
from perpetual_scorers import sweeps
from perpetual_scorers.space import Parameter, Value, checked

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import BaseTrial, FrozenTrial

    from perpetual import Lab
    from perpetual_scorers.documents import SweepDocument, SweepSetting

__all__ = ["PRUNERS", "SAMPLERS", "candidates", "dropped", "require_optuna", "suggest"]

SAMPLERS = ("tpe", "gp")
PRUNERS = {"median": 50.0, "third": 33.3}  # the share of complete settings, in percent, that one has to be among
_NEEDS = {"tpe": ("optuna",), "gp": ("optuna", "scipy", "torch")}  # of the samplers of Optuna
_MOST = 100
_TRIES = 20  # draws for each setting: a sampler may draw one that there is already
_DIGITS = 4
_STARTS = 4  # settings with a value, below which a sampler draws by lot


def require_optuna(sampler: str) -> None:
    """Raises UsageError for an unknown sampler, and PerpetualError with the way out where a package is missing."""
    if sampler not in SAMPLERS:
        raise UsageError(unknown("sampler", sampler, SAMPLERS))
    for package in _NEEDS[sampler]:
        if find_spec(package) is None:
            hint = "pip install 'perpetual-lab[optuna]'" if package == "optuna" else f"pip install {package}"
            raise PerpetualError(f"the sampler {sampler} needs {package}, which is not installed", hint=hint,
                                 code="optuna_missing")  # fmt: skip


def suggest(lab: Lab, id: str, count: int, *, sampler: str = "tpe") -> SweepDocument:
    """Adds at most `count` settings that the sampler suggests, and answers the sweep.

    Fewer are added where the sampler draws what there is already.

    Raises:
        UsageError: for an unknown sampler, and for a count below 1 or above 100.
        PerpetualError: (optuna_missing) where a package that the sampler needs is not installed.
    """
    require_optuna(sampler)
    if not 1 <= count <= _MOST:
        raise UsageError(f"suggest 1 to {_MOST} settings, not {count}", hint="-n 4")
    found = sweeps.show(lab, id)
    parameters = sweeps.parameters_in(lab.records(sweeps.SWEEP).get(id))
    seed = f"{lab.config.project_id}:{found['id']}:{len(found['settings'])}"
    return sweeps.grow(lab, id, candidates(found, parameters, count, sampler=sampler, seed=seed))


def candidates(
    found: SweepDocument, parameters: Sequence[Parameter], count: int, *, sampler: str = "tpe", seed: str = ""
) -> list[dict[str, Value]]:
    """Returns at most `count` new settings that the sampler draws; pure: the same arguments draw the same."""
    study = _study(found, parameters, sampler, seed=seed)
    known: list[dict[str, Value]] = [item["parameters"] for item in found["settings"]]
    fresh: list[dict[str, Value]] = []
    for _ in range(_TRIES * count):
        if len(fresh) == count:
            break
        values = _asked(study.ask(), parameters)
        if values not in known:
            known.append(values)
            fresh.append(values)
    return fresh


def dropped(lab: Lab, id: str, *, pruner: str = "median") -> list[str]:
    """Returns the settings that a pruner of Optuna would not run any further, by their short runs; nothing is changed.

    Raises:
        UsageError: for an unknown pruner, and for a sweep without rungs.
        PerpetualError: (optuna_missing) where Optuna is not installed.
    """
    if pruner not in PRUNERS:
        raise UsageError(unknown("pruner", pruner, PRUNERS))
    require_optuna("tpe")
    import optuna

    found = sweeps.show(lab, id)
    if not found["rungs"]:
        raise UsageError(f"{found['id']} has no rungs, and a pruner nothing to go by", hint="sweep new --rungs 1,3,9")
    parameters = sweeps.parameters_in(lab.records(sweeps.SWEEP).get(id))
    study = _study(found, parameters, "tpe", seed=found["id"])
    rule = optuna.pruners.PercentilePruner(PRUNERS[pruner], n_startup_trials=1)
    return [
        item["id"]
        for item, trial in zip(_shown(found), study.trials, strict=True)
        if item["curve"] and not item["n"] and rule.prune(study, _again(trial))
    ]


def _study(found: SweepDocument, parameters: Sequence[Parameter], sampler: str, *, seed: str) -> optuna.Study:
    import optuna

    number = int(uniform(seed) * 2**31)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    built: optuna.samplers.BaseSampler = optuna.samplers.TPESampler(seed=number, n_startup_trials=_STARTS)
    if sampler == "gp":
        built = optuna.samplers.GPSampler(seed=number, n_startup_trials=_STARTS)
    study = optuna.create_study(direction="maximize" if found["direction"] == "max" else "minimize", sampler=built)
    by_name = {one.name: one for one in parameters}
    for item in _shown(found):
        study.add_trial(_trial(item, by_name))
    return study


def _shown(found: SweepDocument) -> list[SweepSetting]:
    """Returns the settings that have run."""
    return [item for item in found["settings"] if item["values"] or item["curve"]]


def _trial(item: SweepSetting, parameters: dict[str, Parameter]) -> FrozenTrial:
    from optuna.trial import TrialState, create_trial

    curve = {place: value for place, value in enumerate(item["curve"], 1) if value is not None}
    state = TrialState.COMPLETE if item["n"] else TrialState.PRUNED if curve else TrialState.FAIL
    return create_trial(
        state=state,
        value=item["mean"],
        params=dict(item["parameters"]),
        distributions={name: _distribution(parameters[name]) for name in item["parameters"]},
        intermediate_values=curve,
    )


def _again(trial: FrozenTrial) -> FrozenTrial:
    """Returns a trial as it was while it ran, which is what a pruner judges."""
    from copy import copy

    from optuna.trial import TrialState

    running = copy(trial)
    running.state = TrialState.RUNNING
    return running


def _distribution(one: Parameter) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if one.choices:
        return CategoricalDistribution(one.choices)
    if one.is_whole:
        return IntDistribution(int(one.low), int(one.high), log=one.is_log)
    return FloatDistribution(one.low, one.high, log=one.is_log)


def _asked(trial: BaseTrial, parameters: Sequence[Parameter]) -> dict[str, Value]:
    """Returns the values that a trial draws, a parameter with a condition only where it holds."""
    found: dict[str, Value] = {}
    for one in parameters:
        if not one.is_there(found):
            continue
        if one.choices:
            place = one.choices.index(trial.suggest_categorical(one.name, one.choices))
            found[one.name] = one.choices[place]
        elif one.is_whole:
            found[one.name] = trial.suggest_int(one.name, int(one.low), int(one.high), log=one.is_log)
        else:
            drawn = trial.suggest_float(one.name, one.low, one.high, log=one.is_log)
            found[one.name] = min(max(float(f"{drawn:.{_DIGITS}g}"), one.low), one.high)
    return checked(parameters, found)

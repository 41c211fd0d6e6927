"""Choice of the scheduler for an experiment's runs, and the options that the experiment may ask of it.

An experiment names its scheduler, or leaves it to the configuration. A run keeps the one that it was launched with: see
`perpetual.lab.engines.sight.scheduler_for`.
"""

from __future__ import annotations

from collections.abc import Mapping

from perpetual.errors import PluginError, UnknownPlugin, UsageError
from perpetual.lab.context import Context
from perpetual.lab.kinds import ExperimentRow
from perpetual.lab.options import asked, leaves_of, with_defaults
from perpetual.slots.scheduler import LaunchError, Scheduler

__all__ = ["engine_options", "is_of_this_machine", "named", "options_of", "queues", "scheduler_of", "scheduler_name"]


def scheduler_name(ctx: Context, experiment: ExperimentRow) -> str:
    """Returns the name of the scheduler that starts an experiment's runs."""
    chosen: str = experiment.body["resources"].get("scheduler") or ctx.config["scheduler"]
    return chosen


def scheduler_of(ctx: Context, experiment: ExperimentRow) -> Scheduler:
    """Returns the scheduler that starts an experiment's runs.

    Raises:
        UnknownPlugin: if it is not installed.
    """
    own = experiment.body["resources"].get("scheduler")
    if own is None:
        configured: Scheduler = ctx.part("scheduler")
        return configured
    try:
        found: Scheduler = ctx.part_named("scheduler", own)
    except UnknownPlugin as problem:
        raise UnknownPlugin(
            f"{experiment.id} is to be run by the scheduler {own!r}, which is not here: {problem.message}",
            hint=f"pip install the plugin that offers it, or propose {experiment.id} again with another --scheduler",
            code=problem.code,
        ) from problem
    return found


def named(ctx: Context, name: str) -> Scheduler:
    """Returns the scheduler of that name, for an experiment that is being proposed.

    Raises:
        UnknownPlugin: if no plugin offers it, with the nearest names.
        PluginError: if it cannot be built.
    """
    try:
        found: Scheduler = ctx.part_named("scheduler", name)
    except UnknownPlugin as problem:
        raise UnknownPlugin(
            problem.message,
            hint=f"perpetual plugins list; without --scheduler it is the configured one, {ctx.config['scheduler']}",
            code=problem.code,
        ) from problem
    return found


def is_of_this_machine(ctx: Context, name: str) -> bool:
    """Returns whether the runs of a scheduler take this machine's CPUs and memory; one that is gone counts as not."""
    try:
        scheduler: Scheduler = ctx.part_named("scheduler", name)
    except PluginError:
        return False
    return not (scheduler.places_gpus or scheduler.queues)


def queues(ctx: Context, name: str) -> bool:
    """Returns whether what a scheduler launches may wait in its engine's queue; one that is gone counts as not."""
    try:
        scheduler: Scheduler = ctx.part_named("scheduler", name)
    except PluginError:
        return False
    return scheduler.queues


def engine_options(scheduler: Scheduler, name: str, given: Mapping[str, object]) -> dict[str, object]:
    """Returns the options that an experiment gives its scheduler, checked and in their types.

    Raises:
        UsageError: for one that the scheduler does not declare, one that does not fit, or a compulsory one left out.
    """
    declared = scheduler.engine_options
    try:
        found = asked(declared, given, _title(name))
        with_defaults(declared, found, _title(name))
    except UsageError as problem:
        known = "; ".join(sorted(f"{'.'.join(keys)}: {option.meaning}" for keys, option in leaves_of(declared)))
        raise UsageError(
            problem.message, hint=problem.hint or (f"{name} takes {known}" if known else f"{name} takes none")
        ) from problem
    return found


def options_of(ctx: Context, experiment: ExperimentRow) -> dict[str, object]:
    """Returns the options that the scheduler of an experiment is given, with their defaults.

    Raises:
        LaunchError: if the scheduler, as it is now, does not take them.
    """
    scheduler, name = scheduler_of(ctx, experiment), scheduler_name(ctx, experiment)
    try:
        given = asked(scheduler.engine_options, experiment.body["resources"].get("engine") or {}, _title(name))
        return with_defaults(scheduler.engine_options, given, _title(name))
    except UsageError as problem:
        raise LaunchError(
            f"{experiment.id}: {problem.message}", hint="propose it again with --engine KEY=VALUE"
        ) from problem


def _title(name: str) -> str:
    return f"engine option of {name}"

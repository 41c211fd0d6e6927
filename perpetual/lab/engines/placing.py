"""The placements in force, and what it sees of the lab: live runs, the needs of runs, and settings.

Used by launches, the plugin listing and the doctor. `perpetual.slots.placement` is the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from perpetual.config import Config
from perpetual.errors import PluginError, UsageError
from perpetual.lab.context import Context
from perpetual.lab.engines.schedulers import scheduler_name, scheduler_of
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, RunRow
from perpetual.slots.gpu import GpuBackend
from perpetual.slots.placement import (
    GpuNeed,
    GpuStatus,
    Lease,
    LiveRun,
    Placement,
    PlacementProject,
    PlacementRequest,
    PlacementSettings,
    PlacementView,
    QueuedRun,
    Survey,
    Waits,
)
from perpetual.slots.scheduler import LaunchError, Scheduler
from perpetual.slots.sections import Finding
from perpetual.toolkit.units import posix_of

__all__ = ["Surveys", "check_place", "need_of", "needs_driver", "placement_by", "placement_of", "placer_of", "placers",
           "request_of", "settings_of", "variables", "view_of"]  # fmt: skip

_RECENT = 100  # ended runs whose processes are still looked for; the driver forgets a process within seconds


class Surveys:
    """What one command places runs with: a survey for each placement, so that a driver is asked once."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._found: dict[str | None, Survey] = {}

    def of(self, experiment: ExperimentRow) -> Survey:
        """Returns the survey of the placement that places an experiment's runs; raises as `scheduler_of` does."""
        return self.by(_placer(self._ctx, scheduler_name(self._ctx, experiment), scheduler_of(self._ctx, experiment)))

    def by(self, placer: str | None) -> Survey:
        """Returns the survey of a scheduler's own placement; None is the configured placement."""
        if placer not in self._found:
            placement = _placement(self._ctx, None if placer is None else _scheduler(self._ctx, placer))
            self._found[placer] = placement.survey(view_of(self._ctx, placer))
        return self._found[placer]


def placement_of(ctx: Context, experiment: ExperimentRow) -> Placement:
    """Returns what places an experiment's runs: the placement of its scheduler, else the configured one.

    Where no plugin offers that one, runs that need GPUs are refused or wait, and CPU runs see no GPU.
    """
    return _placement(ctx, scheduler_of(ctx, experiment))


def placer_of(ctx: Context, experiment: ExperimentRow) -> str | None:
    """Returns the scheduler whose own placement places an experiment's runs; None for the configured placement."""
    return _placer(ctx, scheduler_name(ctx, experiment), scheduler_of(ctx, experiment))


def placers(ctx: Context, runs: Iterable[RunRow]) -> list[str | None]:
    """Returns the schedulers whose own placements place these runs, None for the configured one; each once."""
    return [*dict.fromkeys(_placer_of_run(ctx, run) for run in runs)]


def placement_by(ctx: Context, placer: str | None) -> Placement:
    """Returns a scheduler's own placement; None is the configured placement."""
    return _placement(ctx, None if placer is None else _scheduler(ctx, placer))


def _placement(ctx: Context, scheduler: Scheduler | None) -> Placement:
    own = None if scheduler is None else scheduler.placement()
    if own is not None:
        return own
    try:
        chosen: Placement = ctx.part("placement")
    except PluginError as problem:
        return _NoPlacement(problem)
    return chosen


def _placer(ctx: Context, name: str, scheduler: Scheduler) -> str | None:
    return None if scheduler.placement() is None else name


def _placer_of_run(ctx: Context, run: RunRow) -> str | None:
    """Returns the placer of a live run; its scheduler's name, where that one is gone: nothing of this machine."""
    name = str(run.body["scheduler"])
    try:
        return _placer(ctx, name, _scheduler(ctx, name))
    except PluginError:
        return name


def _scheduler(ctx: Context, name: str) -> Scheduler:
    found: Scheduler = ctx.part_named("scheduler", name)
    return found


def settings_of(config: Config) -> PlacementSettings:
    """Returns what the configuration says of GPUs."""
    return PlacementSettings(
        frozenset(config["gpus_excluded"]), config["gpu_foreign"] == "allow", config["gpu_ids"] == "index"
    )


def view_of(
    ctx: Context,
    placer: str | None = None,
    live: Callable[[], Sequence[RunRow]] | None = None,
    ahead: Callable[[], Iterable[QueuedRun]] = tuple,
) -> PlacementView:
    """Returns what a placement sees.

    Args:
        placer: the scheduler whose own placement it is; None is the configured one. It sees the runs that it places.
        live: answers the launching and running runs; by default the record is read at each call.
        ahead: answers the runs in front in the queue that wait for GPUs; by default there are none.
    """

    def backend() -> GpuBackend:
        chosen: GpuBackend = ctx.part("gpus")
        return chosen

    def read() -> list[RunRow]:
        return [run for status in ("launching", "running") for run in ctx.store.find(RUN, status=status)]

    look = live or read

    def find() -> list[RunRow]:
        return [run for run in look() if _placer_of_run(ctx, run) == placer]

    def runs() -> list[LiveRun]:
        return [_live_run(ctx, run) for run in find()]

    def ended() -> Mapping[int, str]:
        known = {run.id for run in find()}
        newest = ctx.store.page(RUN, limit=_RECENT, newest_first=True).items
        ours = [run for run in newest if run.id not in known and _placer_of_run(ctx, run) == placer]
        return {pid: run.id for run in ours if (pid := run.body["pid"]) is not None}

    return PlacementView(
        backend=backend,
        project=PlacementProject(ctx.config.root, ctx.config.project_id),
        settings=settings_of(ctx.config),
        now_s=_now_s(ctx),
        live=runs,
        ahead=ahead,
        ended=ended,
    )


def _live_run(ctx: Context, run: RunRow) -> LiveRun:
    """Returns a launching or running run as a placement sees it."""
    experiment = ctx.need(EXPERIMENT, run.body["experiment_id"])
    started = run.body["started_at"]
    return LiveRun(
        run_id=run.id,
        status=run.body["status"],
        gpus=tuple(run.body["gpus"]),
        numbers=tuple(run.body.get("gpu_numbers") or ()),
        memory_bytes=experiment.body["resources"]["gpu_memory_bytes"],
        pid=run.body["pid"],
        ends_at_s=_end_s(experiment, run.body.get("on_overrun"), _now_s(ctx) if started is None else posix_of(started)),
    )


def need_of(experiment: ExperimentRow, wanted: Sequence[int]) -> GpuNeed | None:
    """Returns what a run needs of GPUs; None for a CPU run."""
    resources = experiment.body["resources"]
    number = len(wanted) or resources["gpus"]
    return GpuNeed(number, resources["gpu_memory_bytes"], tuple(wanted)) if number else None


def needs_driver(experiment: ExperimentRow, wanted: Sequence[int], surveys: Surveys) -> bool:
    """Returns whether its survey must be asked before a run of the experiment is placed."""
    if need_of(experiment, wanted) is None:
        return False
    try:
        return not surveys.of(experiment).is_asked
    except PluginError:
        return False  # its scheduler is gone: it waits for that


def request_of(ctx: Context, experiment: ExperimentRow, need: GpuNeed, run: RunRow | None = None) -> PlacementRequest:
    """Returns the request for a run of the experiment that would start now; `run` is None for one that is planned."""
    ends_at_s = _end_s(experiment, ctx.config.methodology["on_overrun"], _now_s(ctx))
    if run is None:
        return PlacementRequest(experiment.id, need, ends_at_s)
    return PlacementRequest(experiment.id, need, ends_at_s, run.id, ctx.folder / "runs" / run.id)


def check_place(ctx: Context, experiment: ExperimentRow, wanted: Sequence[int], surveys: Surveys) -> None:
    """Raises unless the run could ever get its GPUs, and `wanted` names as many as it declares."""
    declared = experiment.body["resources"]["gpus"]
    if wanted and (len(set(wanted)) != len(wanted) or declared not in (0, len(wanted))):
        raise UsageError(
            f"{experiment.id} declares {declared} GPUs, and -g names {', '.join(map(str, wanted))}",
            hint="name each GPU once, as many as were declared; without -g free ones are chosen",
        )
    need = need_of(experiment, wanted)
    if need is not None:
        surveys.of(experiment).check(request_of(ctx, experiment, need))


def variables(ctx: Context, experiment: ExperimentRow, gpus: Sequence[str], run: RunRow | None) -> dict[str, str]:
    """Returns the variables by which a program sees the GPUs of its run, and no others."""
    numbers = [] if run is None else run.body.get("gpu_numbers") or []
    return placement_of(ctx, experiment).environment(view_of(ctx, placer_of(ctx, experiment)), gpus, numbers)


def _end_s(experiment: ExperimentRow, on_overrun: str | None, start_s: float) -> float:
    wall_s: float | None = experiment.body["resources"]["wall_s"]
    return inf if wall_s is None or on_overrun == "warn" else start_s + wall_s


def _now_s(ctx: Context) -> float:
    return ctx.clock().timestamp()


class _Unplaced(Survey):
    """No plugin places GPUs: runs that need some are refused, or wait where they are queued already."""

    is_asked = True

    def __init__(self, problem: PluginError) -> None:
        self._problem = problem

    def ask(self) -> None:
        return

    def check(self, request: PlacementRequest) -> None:
        raise LaunchError(f"{request.experiment_id} {self._why(request.need)}", hint=self._problem.hint)

    def reserve(self, view: PlacementView, request: PlacementRequest, *, take: bool) -> Lease | Waits:
        return Waits(self._why(request.need))

    def _why(self, need: GpuNeed) -> str:
        return f"{need}, and no placement is in force: {self._problem.message}"


class _NoPlacement(Placement):
    """Serves where the configured placement cannot be built: CPU runs start, and see no GPU."""

    def __init__(self, problem: PluginError) -> None:
        self._problem = problem

    def survey(self, view: PlacementView) -> Survey:
        return _Unplaced(self._problem)

    def environment(self, view: PlacementView, gpus: Sequence[str], numbers: Sequence[int | None]) -> dict[str, str]:
        return {"CUDA_VISIBLE_DEVICES": ""}

    def status(self, view: PlacementView) -> GpuStatus:
        raise self._problem

    def examine(self, view: PlacementView) -> Finding:
        raise self._problem

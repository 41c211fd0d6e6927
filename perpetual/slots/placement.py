"""The placement slot: which GPUs a run gets, what it waits for where it gets none, and what the GPUs are like.

The contract
------------
*Survey.* `survey` returns at once and asks no driver. A survey belongs to one command: it asks the GPU backend at most
once, when `ask` is called or when it is first needed. The kernel calls `ask` outside of transactions, because a driver
that hangs takes its whole deadline, and calls `reserve` inside of the transaction that makes the run `launching`.

*Check.* `check` raises `LaunchError` (code `does_not_fit`) where this machine could never give the run its GPUs,
however idle it were, and `UsageError` where a GPU was named that there is not. A backend that could not be asked this
time refuses nothing.

*Reserve.* `reserve` answers a `Lease` with as many GPUs as the run needs, each once, or `Waits` with the reason. The
leases of this project are the GPUs of its live runs (`PlacementView.live`): a GPU that one of them has alone is given
to no other run, and the memory that they declared on a GPU is not promised twice. A GPU on which a process of no run
works is given to none, unless the settings allow it; an excluded one never is.

*Backfill.* `PlacementView.ahead` are the runs in front in the queue that wait for GPUs alone, in their order. A run
overtakes them only where the first of them that has to wait could start as early all the same, by the wall limits of
the live runs. A run without a wall limit never ends by that reckoning.

*Hold.* A lease that was asked for with `take` may have an open file, `held`, whose lock tells other projects on this
machine of it. The scheduler keeps a copy open as long as the run lives; `release` closes the launcher's. A crash of any
of them leaves no lease behind: the lease of a run is over when its record is no longer live, and the hold is over when
no process has the file open. Without `take` nothing is written or held.

*Environment.* A program sees the GPUs of its lease and no others; one without a lease sees none.

*Watch.* `watch` answers what live runs do with GPUs that they have not leased, and which leased GPU is lost. It ends
nothing and writes nothing. It may answer nothing where it has looked a moment before.

*Status and doctor.* `status` answers the document of `perpetual gpu-status`, outside of a project too
(`PlacementView.project` is None then); `examine` answers the finding `gpus` of the doctor. Neither writes anything.

A scheduler whose engine assigns GPUs itself offers its own placement in place of the configured one:
`Scheduler.placement`, by default `EnginePlacement` where `places_gpus` says so. Methods may be called from threads.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from perpetual.slots.gpu import GpuBackend
from perpetual.toolkit.units import shown_bytes

if TYPE_CHECKING:
    from perpetual.slots.sections import Finding

__all__ = [
    "DeviceStatus",
    "EnginePlacement",
    "GpuClaim",
    "GpuNeed",
    "GpuProcessStatus",
    "GpuStatus",
    "InstanceStatus",
    "Lease",
    "LiveRun",
    "Placement",
    "PlacementProject",
    "PlacementRequest",
    "PlacementSettings",
    "PlacementView",
    "QueuedRun",
    "RunNote",
    "Survey",
    "Waits",
]


@dataclass(frozen=True, slots=True)
class GpuNeed:
    """What a run declares: a number of GPUs, with so much memory on each, or all of each; `wanted` are chosen ones."""

    amount: int
    memory_bytes: int | None = None
    wanted: tuple[int, ...] = ()  # as the driver counts

    def __str__(self) -> str:
        if self.memory_bytes is None:
            return f"needs {self.amount} GPU{'s' if self.amount > 1 else ''}"
        where = "one GPU" if self.amount == 1 else f"each of {self.amount} GPUs"
        return f"needs {shown_bytes(self.memory_bytes, up=True)} on {where}"


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """A run that is to be placed.

    - `ends_at_s`: its latest end by its wall limit if it starts now, in seconds since the epoch; infinity without one.
    - `run_id`, `run_dir`: None for a run that is planned and not made yet.
    """

    experiment_id: str
    need: GpuNeed
    ends_at_s: float = inf
    run_id: str | None = None
    run_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run of this project that is launching or running, with its lease.

    - `gpus`: uuids; empty for a CPU run. `numbers`: the same as the driver counts, None for a part of a device; runs
      of earlier versions have none.
    - `memory_bytes`: declared on each; None if the run has its GPUs alone.
    - `pid`: of its command; None while it is launching.
    - `ends_at_s`: its latest end by its wall limit, in seconds since the epoch; infinity without one.
    """

    run_id: str
    status: str
    gpus: tuple[str, ...] = ()
    numbers: tuple[int | None, ...] = ()
    memory_bytes: int | None = None
    pid: int | None = None
    ends_at_s: float = inf


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A run in front in the queue that nothing but GPUs can hold back."""

    experiment_id: str
    need: GpuNeed


@dataclass(frozen=True, slots=True)
class PlacementProject:
    """The project whose runs are placed: its folder, and the id in its configuration."""

    root: Path
    id: str


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """What the configuration says: `gpus_excluded` (numbers and uuids), `gpu_foreign` and `gpu_ids`."""

    excluded: frozenset[str] = frozenset()
    allows_foreign: bool = False
    by_index: bool = False  # programs get numbers instead of uuids


@dataclass(frozen=True, slots=True)
class PlacementView:
    """What a placement sees of the lab. The callables read the record when they are called.

    - `project`: None outside of a project.
    - `backend`: builds, or answers, the GPU backend in force.
    - `live`: the launching and running runs, CPU runs too.
    - `ahead`: the runs in front in the queue that wait for GPUs.
    - `ended`: the newest ended runs by the pids of their commands.
    """

    backend: Callable[[], GpuBackend]
    project: PlacementProject | None = None
    settings: PlacementSettings = field(default_factory=PlacementSettings)
    now_s: float = 0.0  # since the epoch, by the lab's clock
    live: Callable[[], Sequence[LiveRun]] = tuple
    ahead: Callable[[], Iterable[QueuedRun]] = tuple
    ended: Callable[[], Mapping[int, str]] = dict


@dataclass(frozen=True, slots=True)
class Lease:
    """The GPUs that a run gets; none for one that its engine places.

    - `held`: an open file; a process that has a copy of it keeps the lease as other projects see it.
    - `unclaimed`: why other projects do not see it, None if they do.
    - `is_begun`: a launcher that died has started the run with these GPUs, and its supervisor has them.
    """

    gpus: tuple[str, ...] = ()
    numbers: tuple[int | None, ...] = ()  # as the driver counts; None for a part of a device
    held: int | None = None
    unclaimed: str | None = None
    is_begun: bool = False


@dataclass(frozen=True, slots=True)
class Waits:
    """Why a run gets no GPUs now, in words that follow its name."""

    reason: str


@dataclass(frozen=True, slots=True)
class RunNote:
    """What is noted beside a live run."""

    run_id: str
    text: str


class GpuProcessStatus(TypedDict):
    """A process of a device: `owner` is run (a live one), ended, foreign or unknown; `run_id` is its run if it has one.

    `claim` is its run, with the project, if it is of another project's run: `owner` is then foreign.
    """

    pid: int
    memory_bytes: int | None
    user: str | None
    name: str | None
    owner: str
    run_id: str | None
    claim: str | None


class GpuClaim(TypedDict):
    """The lease of a run of another project of this user; without `memory_bytes` it has the device alone."""

    project: str
    run_id: str
    memory_bytes: int | None


class InstanceStatus(TypedDict):
    """A part of a device that was cut into instances; `state` and `note` as of a device."""

    uuid: str
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    processes: list[GpuProcessStatus]
    run_ids: list[str]
    claims: list[GpuClaim]
    state: str
    note: str | None


class DeviceStatus(TypedDict):
    """One GPU; `utilization` is percent, `run_ids` are our live runs that hold it, `claims` those of other projects.

    `state` is free, leased, used, excluded, sick or cut (into instances); `note` says why no further run gets it.
    """

    index: int
    uuid: str | None
    name: str | None
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    memory_free_bytes: int | None
    utilization: float | None
    temperature_celsius: float | None
    power_watts: float | None
    compute_mode: str | None
    processes: list[GpuProcessStatus]
    mig: list[InstanceStatus]
    run_ids: list[str]
    claims: list[GpuClaim]
    healthy: bool
    error: str | None
    state: str
    note: str | None


class GpuStatus(TypedDict):
    """The machine's GPUs; `reason` says why there are none, `transient` that it may pass by itself."""

    driver: str | None
    gpus: list[DeviceStatus]
    reason: str | None
    transient: bool


class Survey(ABC):
    """The machine's GPUs as one command sees them; see the contract at the top of this module."""

    @property
    @abstractmethod
    def is_asked(self) -> bool:
        """Returns whether `reserve` can answer without waiting for a driver."""

    @abstractmethod
    def ask(self) -> None:
        """Asks the driver now. Outside of transactions."""

    @abstractmethod
    def check(self, request: PlacementRequest) -> None:
        """Raises LaunchError or UsageError unless the machine could ever give the run its GPUs."""

    @abstractmethod
    def reserve(self, view: PlacementView, request: PlacementRequest, *, take: bool) -> Lease | Waits:
        """Returns the GPUs that the run gets now, or why it waits; with `take` they are held. Inside a transaction."""


class Placement(ABC):
    """Base of every placement; see the contract at the top of this module."""

    @abstractmethod
    def survey(self, view: PlacementView) -> Survey:
        """Returns what one command works with; asks nothing yet."""

    @abstractmethod
    def environment(self, view: PlacementView, gpus: Sequence[str], numbers: Sequence[int | None]) -> dict[str, str]:
        """Returns the variables by which a program sees these GPUs, and no others."""

    @abstractmethod
    def status(self, view: PlacementView) -> GpuStatus:
        """Returns the document of `perpetual gpu-status`."""

    @abstractmethod
    def examine(self, view: PlacementView) -> Finding:
        """Returns what the doctor says of the GPUs."""

    def watch(self, view: PlacementView, survey: Survey) -> Sequence[RunNote]:
        """Returns what is to be noted beside live runs. Called again and again while a run that has GPUs lives."""
        return ()

    def release(self, lease: Lease) -> None:
        """Closes the launcher's hold, once a scheduler has its copy or the launch has come to nothing."""
        if lease.held is not None:
            os.close(lease.held)


class _Elsewhere(Survey):
    """An engine's machines, which cannot be asked from here."""

    is_asked = True

    def ask(self) -> None:
        return

    def check(self, request: PlacementRequest) -> None:
        return

    def reserve(self, view: PlacementView, request: PlacementRequest, *, take: bool) -> Lease | Waits:
        return Lease()


class EnginePlacement(Placement):
    """For schedulers whose engine assigns GPUs: nothing is leased here, and the engine's own variables count."""

    def survey(self, view: PlacementView) -> Survey:
        """Returns a survey that refuses nothing and lets no run wait."""
        return _Elsewhere()

    def environment(self, view: PlacementView, gpus: Sequence[str], numbers: Sequence[int | None]) -> dict[str, str]:
        """Returns no variables."""
        return {}

    def status(self, view: PlacementView) -> GpuStatus:
        """Returns no devices: they are the engine's."""
        return {"driver": None, "gpus": [], "reason": "the scheduler's engine places GPUs", "transient": False}

    def examine(self, view: PlacementView) -> Finding:
        """Returns that it does not apply."""
        from perpetual.slots.sections import Finding

        return Finding(None, "the scheduler's engine places GPUs")

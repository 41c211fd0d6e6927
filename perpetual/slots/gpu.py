"""The GPU slot: which devices there are and how they fare.

The contract: `read` answers within its deadline and one second whatever the driver does; no driver is the normal state
of zero devices with a reason, and only zero devices have one; one device that fails is listed unhealthy with its error
and does not hide the others; what a device does not support or cannot tell is None, never 0, -1 or a word for it. Sizes
are bytes, temperatures degrees Celsius, power watts, utilization percent.

A reason is `transient` where asking again may bring an answer: the driver hangs, or could not be asked this time. Runs
then wait. Where it is not, as without a driver, a run that needs a device is refused at once.

Devices are numbered from 0 in the order of the list, as people name them. A uuid stands once and means the same device
in every reading of every process: a run is given devices by their uuids alone, so one without is shown and never used.
`processes` lists each process that holds memory of the device, once; a process that is none of the lab's keeps runs off
the device. A backend that cannot tell them, or not surely, says so in the `error` of a device that may be healthy all
the same: it is then not idle, and no run gets it. So does one whose device uses gigabytes that no process is known to
hold.

A device that is cut lists its instances in `mig`: runs are given those, one each, and never the device. `processes` of
an instance are those that use it, and are in the device's list too; an instance with unknown processes says so
in its `error`.

A reading is of the moment when it was asked for, the caller's own, and can be written as JSON. Calls are safe in
threads and hold nothing open.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

__all__ = ["Gpu", "GpuBackend", "GpuProcess", "MigDevice", "GpuReading"]


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory of a device; pids are the host's, in a container they may be foreign."""

    pid: int
    memory_bytes: int | None
    user: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A part of a device that was cut into instances."""

    uuid: str
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    processes: tuple[GpuProcess, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device."""

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
    processes: tuple[GpuProcess, ...]
    healthy: bool
    error: str | None
    mig: tuple[MigDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuReading:
    """All devices at one moment; `reason` says why there are none, `transient` that it may pass by itself."""

    driver: str | None
    gpus: tuple[Gpu, ...]
    reason: str | None
    transient: bool = False


class GpuBackend(ABC):
    """Base of every GPU backend; see the contract at the top of this module."""

    @abstractmethod
    def read(self, deadline_s: float = 5.0) -> GpuReading:
        """Returns the devices now, within `deadline_s` and one second."""

"""The placement `gpus`: leases of this machine's GPUs, which other projects of this user see by claims."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from perpetual.api import Finding, GpuStatus, Placement, PlacementView, RunNote, Survey
from perpetual_gpus import claims
from perpetual_gpus.gpu_status import shown_device
from perpetual_gpus.leasable import holds_of, units_of
from perpetual_gpus.leases import Devices, Silence
from perpetual_gpus.owners import owners_of
from perpetual_gpus.watch import notes_of

__all__ = ["EVERY_S", "GpuPlacement", "build"]

EVERY_S = 15.0  # a command that waits for runs scans each second, and a look costs a process of its own


class GpuPlacement(Placement):
    """Leases whole devices, shares of their memory, and MIG instances."""

    def __init__(self) -> None:
        self._silence = Silence()
        self._looked_s: float | None = None

    def survey(self, view: PlacementView) -> Devices:
        """Returns the devices for one command; the driver is not asked yet."""
        return Devices(view, self._silence)

    def environment(self, view: PlacementView, gpus: Sequence[str], numbers: Sequence[int | None]) -> dict[str, str]:
        """Returns what makes a CUDA program see the devices that its run has leased, and no others."""
        names = [*gpus]
        if view.settings.by_index:
            # Counted as the driver counts, which is the order that the second variable asks CUDA for.
            names = [uuid if number is None else str(number) for uuid, number in zip(gpus, numbers, strict=True)]
        return {"CUDA_VISIBLE_DEVICES": ",".join(names), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

    def status(self, view: PlacementView) -> GpuStatus:
        """Returns the devices as the backend reads them, with the owners of their processes and their leases."""
        reading = view.backend().read()
        found = claims.living() if reading.gpus else []
        if view.project is not None:
            found = claims.others(found, claims.home_of(view.project))
        live = view.live()
        owners = owners_of(view, reading, found)
        units = units_of(reading, owners, holds_of(live, found), view.settings)
        gpus = [
            shown_device(gpu, [unit for unit in units if unit.number == gpu.index], owners, live)
            for gpu in reading.gpus
        ]
        return {"driver": reading.driver, "gpus": gpus, "reason": reading.reason, "transient": reading.transient}

    def examine(self, view: PlacementView) -> Finding:
        """Returns how the devices fare, and whether other projects see the leases of this one."""
        reading = view.backend().read()
        if not reading.gpus:
            return Finding(None, f"{reading.reason or 'no GPU'} (optional)")
        sick = [f"GPU {gpu.index}: {gpu.error}" for gpu in reading.gpus if not gpu.healthy]
        detail = "; ".join(sick) or f"{len(reading.gpus)} healthy GPUs, driver {reading.driver}"
        if not sick and (problem := claims.problem()) is not None:
            hint = "make that folder one that can be written, or set XDG_STATE_HOME to one for all of your projects"
            return Finding(None, f"{detail}; other projects on this machine do not see our leases: {problem}", hint)
        return Finding(not sick, detail)

    def watch(self, view: PlacementView, survey: Survey) -> Sequence[RunNote]:
        """Returns what live runs do with GPUs that they have not leased, and which leased GPU is lost.

        The driver is polled only if a running run has leased a device, and at most once in `EVERY_S` seconds.
        """
        running = [run for run in view.live() if run.status == "running"]
        now_s = time.monotonic()
        is_early = self._looked_s is not None and now_s - self._looked_s < EVERY_S
        if is_early or not any(run.gpus for run in running) or not isinstance(survey, Devices):
            return ()
        # A driver that does not answer says nothing of its devices.
        notes = [] if survey.reading.transient else notes_of(running, survey.reading, survey.owners)
        self._looked_s = now_s
        return notes


def build(options: Mapping[str, object]) -> Placement:
    """Returns the placement; it has no options."""
    return GpuPlacement()

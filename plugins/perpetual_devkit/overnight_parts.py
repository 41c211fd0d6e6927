"""Parts that the projects of an overnight test are given: GPUs whose driver is gone while a file says so.

The engine makes them a plugin of its scratch folder. No other project finds them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from perpetual.api import Gpu, GpuBackend, GpuReading, Provider, hookimpl

__all__ = ["DRIVER_VARIABLE", "DrivenGpus", "build_gpus", "perpetual_gpu_backends"]

DRIVER_VARIABLE = "OVERNIGHT_DRIVER_GONE"  # names a file: while it is there, the driver is gone
_GPUS = 2
_BYTES = 16 << 30


class DrivenGpus(GpuBackend):
    """Idle devices, or a driver that does not answer."""

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        """Returns the devices while the driver is there."""
        if os.path.exists(os.environ.get(DRIVER_VARIABLE, "")):
            return GpuReading(None, (), "the driver does not answer", transient=True)
        return GpuReading("0.0", tuple(map(_gpu, range(_GPUS))), None)


def _gpu(index: int) -> Gpu:
    return Gpu(
        index=index, uuid=f"GPU-overnight-{index}", name="an imitated GPU", memory_total_bytes=_BYTES,
        memory_used_bytes=0, memory_free_bytes=_BYTES, utilization=0.0, temperature_celsius=None, power_watts=None,
        compute_mode=None, processes=(), healthy=True, error=None,
    )  # fmt: skip


def build_gpus(options: Mapping[str, object]) -> DrivenGpus:
    """Builds the backend; it has no options."""
    return DrivenGpus()


@hookimpl
def perpetual_gpu_backends() -> list[Provider]:
    """Offers the imitated devices."""
    summary = "imitated GPUs of an overnight test"
    return [Provider("gpus", "overnight", "perpetual_devkit.overnight_parts:build_gpus", summary)]

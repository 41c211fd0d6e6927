"""The backend of a lab that uses no GPUs. Only the factory `build` is imported from outside, by the kernel."""

from __future__ import annotations

from collections.abc import Mapping

from perpetual.api import GpuBackend, GpuReading

__all__ = ["NoGpus", "build"]


class NoGpus(GpuBackend):
    """Always zero devices."""

    def read(self, deadline_s: float = 5.0) -> GpuReading:
        """Returns no devices, by configuration."""
        return GpuReading(None, (), "this project is configured to use no GPUs (gpus: none)")


def build(options: Mapping[str, object]) -> NoGpus:
    """Builds the provider `none`."""
    return NoGpus()

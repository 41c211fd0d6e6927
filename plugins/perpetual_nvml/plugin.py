"""Entry point of the GPU backends `nvml` and `none`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_gpu_backends() -> list[Provider]:
    """Offers NVIDIA devices, or none at all."""
    return [
        Provider("gpus", "nvml", "perpetual_nvml.devices:build", "NVIDIA GPUs through libnvidia-ml"),
        Provider("gpus", "none", "perpetual_nvml.none:build", "no GPUs, whatever the machine has"),
    ]

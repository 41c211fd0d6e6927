"""Entry point of GPU leases: offers the placement `gpus` and the command `gpu-status`; nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_placements() -> list[Provider]:
    """Leases of this machine's GPUs, which other projects of the user see."""
    summary = "leases of this machine's GPUs"
    return [Provider("placement", "gpus", "perpetual_gpus.placement:build", summary, requires=("supervisor",))]


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual gpu-status`."""
    return [Provider("command", "gpu-status", "perpetual_gpus.command:gpu_status", "The machine's GPUs.")]

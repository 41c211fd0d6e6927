"""Entry point of the GPU placement: offers `gpus`; nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_placements() -> list[Provider]:
    """Leases of this machine's GPUs, which other projects of the user see."""
    return [Provider("placement", "gpus", "perpetual.lab.gpus.placement:build", "leases of this machine's GPUs")]

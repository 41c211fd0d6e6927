"""Entry point of the supervisor library, and of what runs the services of other plugins.

Schedulers whose runs are processes of this machine, or of a cluster's node, name it in `Provider.requires` and start
their commands through `perpetual_supervisor.rundir`.
"""

from __future__ import annotations

from perpetual.api import Provider, Slot, Suite, hookimpl


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings the slot `service_host`, which `lab.services` asks."""
    base = "perpetual.slots.service_host:ServiceHost"
    suite = Suite("perpetual_supervisor.testing:ServiceHostContract", fixture="host")
    return [
        Slot("service_host", "perpetual_service_hosts", "host of services", base, "one", default="processes",
             suite=suite)
    ]  # fmt: skip


@hookimpl
def perpetual_service_hosts() -> list[Provider]:
    """Offers the processes of this machine."""
    factory = "perpetual_supervisor.services:build"
    return [Provider("service_host", "processes", factory, "A process of this machine for each service.")]


@hookimpl
def perpetual_checks() -> list[Provider]:
    """Offers the check of services."""
    factory = "perpetual_supervisor.service_check:build"
    return [Provider("check", "services", factory, "How the services of plugins fare.", order=80)]

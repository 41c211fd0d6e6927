"""Entry point of the daemon: brings the slots `loop` and `companion`, and offers the service; nothing heavy."""

from __future__ import annotations

from perpetual.api import EventKind, Provider, Slot, Suite, hookimpl

_REQUIRES = ("loop", "supervisor")


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings `loop`, how a turn of the loop goes, and `companion`, what works beside it."""
    return [
        Slot("loop", "perpetual_loops", "loop strategy", "perpetual_daemon.strategy:LoopStrategy", "one",
             default="default", suite=Suite("perpetual_daemon.testing:LoopContract", fixture="strategy")),
        Slot("companion", "perpetual_companions", "companion", "perpetual_daemon.companion:Companion",
             suite=Suite("perpetual_daemon.testing:CompanionContract", fixture="companion")),
    ]  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_loops() -> list[Provider]:
    """Offers the loop of the kernel."""
    return [Provider("loop", "default", "perpetual_daemon.strategy:build", "scan, analyse, propose, approve, launch")]


@hookimpl
def perpetual_services() -> list[Provider]:
    """Offers the daemon, and what starts it again after a crash."""
    return [
        Provider("service", "daemon", "perpetual_daemon.daemon:build", "turns the loop unattended", requires=_REQUIRES),
        Provider("service", "daemon-keeper", "perpetual_daemon.keeper:build", "starts the daemon again after a crash",
                 requires=_REQUIRES),
    ]  # fmt: skip


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual daemon`."""
    return [Provider("command", "daemon", "perpetual_daemon.command:daemon", "Turn the loop unattended.",
                     requires=_REQUIRES)]  # fmt: skip


@hookimpl
def perpetual_kinds() -> list[EventKind]:
    """Brings the event that says what the daemon waits for."""
    return [EventKind("waits", "The daemon stays and waits: `reason` and `explanation`.")]

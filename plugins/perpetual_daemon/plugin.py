"""Entry point of the daemon: brings the slots `loop` and `companion`, and offers the service; nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, Slot, Suite, hookimpl


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

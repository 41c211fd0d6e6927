"""Entry point of the demo: offers the command `demo`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual demo`."""
    return [
        Provider(
            "command",
            "demo",
            "perpetual_demo.command:demo",
            "Watch a real campaign decide five hypotheses, in under a minute.",
            requires=("daemon", "report"),
        )
    ]

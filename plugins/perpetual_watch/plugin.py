"""Entry point: offers `perpetual watch`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual watch`."""
    return [
        Provider(
            "command",
            "watch",
            "perpetual_watch.command:watch",
            "Watch claims, runs, GPUs and events live.",
            requires=("cli",),
            topic="runs",
        )
    ]

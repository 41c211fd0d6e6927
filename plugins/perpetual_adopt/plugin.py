"""Entry point of adoption: offers the command `adopt`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual adopt`."""
    return [
        Provider(
            "command",
            "adopt",
            "perpetual_adopt.command:adopt",
            "Take over earlier work: a perpetual-agent project, an autoresearch table, MLflow runs.",
            requires=("sqlite",),
        )
    ]

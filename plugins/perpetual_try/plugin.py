"""Entry point: offers `perpetual try`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual try`."""
    return [
        Provider(
            "command",
            "try",
            "perpetual_try.command:try_",
            "Run a change against a baseline, and say whether it helped.",
            requires=("cli", "provenance"),
        )
    ]

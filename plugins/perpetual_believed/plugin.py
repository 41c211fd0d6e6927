"""Entry point of `believed`: offers the command; nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual believed`."""
    return [
        Provider(
            "command",
            "believed",
            "perpetual_believed.command:believed",
            "What the record said at a moment, and what changed since.",
            requires=("report",),
            topic="results",
        )
    ]

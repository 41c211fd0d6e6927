"""Entry point of the bundled scorers; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_scorers() -> list[Provider]:
    """`information-gain`, the default."""
    return [
        Provider(
            slot="scorer",
            name="information-gain",
            factory="perpetual_scorers.information_gain:build",
            summary="expected information gain in bits per run-hour, given what is pending",
        )
    ]

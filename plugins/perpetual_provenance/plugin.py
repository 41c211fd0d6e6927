"""Entry point of the capture of code, environment, packages, machine and protected paths; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_captures() -> list[Provider]:
    """Offers the capture that answers the facts of every run's provenance.json."""
    return [
        Provider("capture", "provenance", "perpetual_provenance.capture:build",
                 "code, environment, packages, machine and protected paths of every run", order=10)
    ]  # fmt: skip

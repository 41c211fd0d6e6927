"""Entry point of the gate `immune`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_gates() -> list[Provider]:
    """Offers the text scanner."""
    return [
        Provider("gate", "immune", "perpetual_immune.gate:build",
                 "injected instructions, secrets, dangerous commands and score manipulation", order=10,
                 requires=("redaction",))
    ]  # fmt: skip

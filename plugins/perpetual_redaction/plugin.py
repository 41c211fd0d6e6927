"""Entry point of the redactor `secrets`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_redactors() -> list[Provider]:
    """Secrets by published formats, by the names of settings, and by their places in texts and commands."""
    summary = "token formats, names of settings, credentials in URLs, headers and options"
    return [Provider("redactor", "secrets", "perpetual_redaction.redactor:build", summary)]

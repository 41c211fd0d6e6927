"""Entry point of the report: offers the command `report`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_commands() -> list[Provider]:
    """`perpetual report`."""
    return [
        Provider(
            "command", "report", "perpetual_report.command:report", "Write the research up, every number with its run."
        )
    ]

"""Entry point of the report: offers the command `report` and the tool of the same; imports nothing heavy."""

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


@hookimpl
def perpetual_mcp_tools() -> list[Provider]:
    """`perpetual_report`, for agents."""
    return [
        Provider(
            "mcp_tool",
            "perpetual_report",
            "perpetual_report.tool:build",
            "The research written up as Markdown, every number with its run; long ones come in parts.",
        )
    ]

"""Entry point of the report: offers `report`, `verify`, `compare` and the tool `perpetual_report`; nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, Slot, hookimpl


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual report`, `perpetual verify` and `perpetual compare`."""
    return [
        Provider(
            "command", "report", "perpetual_report.command:report", "Write the research up, every number with its run."
        ),
        Provider(
            "command", "verify", "perpetual_report.command:verify", "Hold a report to the record, number by number."
        ),
        Provider(
            "command", "compare", "perpetual_report.command:compare", "What differs between experiments, and which won."
        ),
    ]


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings the slots `board`, which `lab.runs.table()` asks, and `site`, which `perpetual report --site` asks."""
    return [
        Slot("board", "perpetual_boards", "leaderboard", "perpetual_report.board:Board", "one", default="board"),
        Slot("site", "perpetual_sites", "site of the research", "perpetual_report.site:Site", "one", default="logbook"),
    ]


@hookimpl
def perpetual_boards() -> list[Provider]:
    """Offers the leaderboard."""
    return [Provider("board", "board", "perpetual_report.board:build", "Experiments by what they measured.")]


@hookimpl
def perpetual_mcp_tools() -> list[Provider]:
    """Offers `perpetual_report` and `perpetual_query`, for agents."""
    return [
        Provider(
            "mcp_tool",
            "perpetual_query",
            "perpetual_report.query_tool:build",
            "Experiments by what they measured: filtered, in order, with their parameters.",
        ),
        Provider(
            "mcp_tool",
            "perpetual_report",
            "perpetual_report.tool:build",
            "The research written up as Markdown, every number with its run; long ones come in parts.",
        ),
    ]

"""Entry point: offers `curves`, the tool `perpetual_curves`, a section of the report and the progress of live runs."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual curves`."""
    return [Provider("command", "curves", "perpetual_curves.command:curves", "Draw a metric over the steps of runs.")]


@hookimpl
def perpetual_mcp_tools() -> list[Provider]:
    """Offers `perpetual_curves`, for agents."""
    summary = "A metric over the steps of runs in short: first, last, best, trend; how far live runs are."
    return [Provider("mcp_tool", "perpetual_curves", "perpetual_curves.tool:build", summary)]


@hookimpl
def perpetual_report_sections() -> list[Provider]:
    """Offers the section of learning curves."""
    summary = "learning curves of the declared metric, by experiment"
    return [Provider("report_section", "curves", "perpetual_curves.section:build", summary, requires=("report",))]


@hookimpl
def perpetual_status_sections() -> list[Provider]:
    """Offers how far live runs are; it adds no section of its own."""
    summary = "step, metrics, speed and time left of live runs"
    return [Provider("status_section", "live-runs", "perpetual_curves.progress:build", summary)]

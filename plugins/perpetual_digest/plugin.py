"""Entry point: offers `digest`, the tool `perpetual_digest`, and the companion that writes digests; nothing heavy."""

from __future__ import annotations

from perpetual.api import EventKind, Field, Provider, RecordKind, hookimpl

_REQUIRES = ("report",)


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual digest`."""
    return [
        Provider(
            "command",
            "digest",
            "perpetual_digest.command:digest",
            "What was decided, spent and lost since a moment.",
            requires=_REQUIRES,
            topic="results",
        )
    ]


@hookimpl
def perpetual_mcp_tools() -> list[Provider]:
    """Offers `perpetual_digest`, for agents."""
    summary = "What was decided, spent and lost since a moment, and what waits for the person."
    return [Provider("mcp_tool", "perpetual_digest", "perpetual_digest.tool:build", summary, requires=_REQUIRES)]


@hookimpl(optionalhook=True)
def perpetual_companions() -> list[Provider]:
    """Offers what writes a digest every `report_interval_hours` while the daemon runs."""
    return [
        Provider(
            "companion",
            "digest",
            "perpetual_digest.companion:build",
            "a digest every report_interval_hours",
            requires=("daemon", *_REQUIRES),
        )
    ]


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings the ledger of the times that digests were due, and the event that carries one."""
    return [
        RecordKind("period", {
            "due_at": Field("str", "When the digest was due, UTC.", required=True),
            "first": Field("int", "The number of the last event before the period.", required=True),
            "last": Field("int", "The number of the last event of the period.", required=True),
            "is_written": Field("bool", "Whether anything had happened, so that a digest was written.", required=True),
        }, ledger=True, exported=False),
        EventKind("digest", "subject: when it was due; payload: text (Markdown), since, until, first, last (events)"),
    ]  # fmt: skip

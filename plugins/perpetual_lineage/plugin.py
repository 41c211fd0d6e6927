"""Entry point: what was taken back does not stay, nor come back; imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import EventKind, Field, Provider, RecordKind, hookimpl

if TYPE_CHECKING:
    from perpetual import Lab

_REQUIRES = ("recall",)


@hookimpl
def perpetual_promotion_stages() -> list[Provider]:
    """Offers the stages on sources and on last days."""
    return [
        Provider("promotion_stage", "lineage", "perpetual_lineage.stages:lineage",
                 "quarantines a note while its source is taken back", requires=_REQUIRES),
        Provider("promotion_stage", "expiry", "perpetual_lineage.stages:expiry", "expires a note after its last day",
                 requires=_REQUIRES),
    ]  # fmt: skip


@hookimpl
def perpetual_gates() -> list[Provider]:
    """Offers the gates that judge a note beside the record."""
    return [
        Provider("gate", "lineage", "perpetual_lineage.gates:lineage", "sources that are taken back, and last days",
                 order=20, requires=_REQUIRES),
    ]  # fmt: skip


@hookimpl
def perpetual_withholders() -> list[Provider]:
    """Offers what keeps such notes from agents before a scan has decided."""
    return [Provider("withholder", "lineage", "perpetual_lineage.withholder:build",
                     "notes whose source is taken back, or whose last day is past", requires=_REQUIRES)]  # fmt: skip


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual memory reject` and `perpetual memory lineage`."""
    return [
        Provider("command", "memory.reject", "perpetual_lineage.command:reject",
                 "Hide a note from agents, with what derives from it.", requires=_REQUIRES),
        Provider("command", "memory.lineage", "perpetual_lineage.command:lineage",
                 "Show what a note derives from, and what derives from it.", requires=_REQUIRES),
    ]  # fmt: skip


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings the ledger of derived notes that a person kept, and the event that names notes to review."""
    return [
        RecordKind("kept", {
            "source": Field("str", "The rejected note.", required=True),
            "blob": Field("str", "Its version.", required=True),
            "event": Field("int", "seq of the last event before the rejection.", required=True),
            "notes": Field("list", "Paths of the notes that stay, for a person to decide on.", required=True),
        }, ledger=True, indexes=("source",)),
        EventKind("review", "The subject came back; `derived` names quarantined notes that derive from it."),
    ]  # fmt: skip


@hookimpl
def perpetual_scan(lab: Lab) -> None:
    """Takes back the notes whose source was taken back or whose last day is past."""
    from perpetual_lineage.cascade import catch_up

    catch_up(lab)

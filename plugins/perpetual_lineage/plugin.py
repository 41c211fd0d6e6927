"""Entry point: what was taken back does not stay, nor come back; imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import EventKind, Field, Option, Provider, RecordKind, hookimpl

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
        Provider("gate", "tombstones", "perpetual_lineage.gates:tombstones", "claims that were rejected before",
                 order=21, requires=_REQUIRES),
        Provider("gate", "rates", "perpetual_lineage.gates:rates", "notes per source and hour", order=22,
                 requires=_REQUIRES),
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
        RecordKind("tombstone", {
            "path": Field("str", "The note whose version was rejected.", required=True),
            "blob": Field("str", "The version.", required=True),
            "event": Field("int", "seq of the event that said so.", required=True),
            "why": Field("str", "The reason.", required=True),
            "claim": Field("dict", "What of it was rejected, as it is compared: words in the order of the alphabet.",
                           required=True),
        }, ledger=True),
        EventKind("review", "The subject came back, or an agent's process took it back: `derived` names quarantined or "
                  "promoted notes that derive from it, for a person."),
    ]  # fmt: skip


@hookimpl
def perpetual_options() -> dict[str, Option]:
    """Names the shares of an hour of a source that is no person."""
    return {
        "writes_per_hour": Option("int", 120, "Notes that a source may write in an hour; 0 is no limit.", minimum=0,
                                  maximum=1_000_000),
        "rejected_per_hour": Option("int", 20, "Of them rejected, before the others wait; 0 is no limit.", minimum=0,
                                    maximum=1_000_000),
    }  # fmt: skip


@hookimpl
def perpetual_scan(lab: Lab) -> None:
    """Takes back the notes whose source was taken back or whose last day is past."""
    from perpetual_lineage.cascade import catch_up

    catch_up(lab)

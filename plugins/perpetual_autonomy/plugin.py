"""Entry point of earned autonomy: brings the slot `approver`, one that goes by earned rights, and two commands."""

from __future__ import annotations

from perpetual.api import EventKind, Field, Provider, RecordKind, Slot, Suite, hookimpl


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings `approver`: what approves proposals in the loop beside the methodology's rule."""
    suite = Suite("perpetual_autonomy.testing:ApproverContract", fixture="approver")
    return [Slot("approver", "perpetual_approvers", "approver", "perpetual_autonomy.approver:Approver", suite=suite)]


@hookimpl(optionalhook=True)
def perpetual_approvers() -> list[Provider]:
    """Offers the approver that goes by earned rights, which has none without a ceiling of the user."""
    return [Provider("approver", "earned", "perpetual_autonomy.earned:build", "approves by rights that were earned")]


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual calibration` and `perpetual rights`."""
    return [
        Provider("command", "calibration", "perpetual_autonomy.command:calibration",
                 "How declared priors, costs and effects fared.", topic="results"),
        Provider("command", "rights", "perpetual_autonomy.command:rights",
                 "Rights to approve that proposers have earned.", topic="project"),
    ]  # fmt: skip


@hookimpl
def perpetual_mcp_tools() -> list[Provider]:
    """Offers `perpetual_rights`, which only reads."""
    return [
        Provider("mcp_tool", "perpetual_rights", "perpetual_autonomy.tool:build", "Earned rights, and what is missing.")
    ]


@hookimpl
def perpetual_checks() -> list[Provider]:
    """Offers the check that says whether the ceilings of rights fit."""
    return [Provider("check", "rights", "perpetual_autonomy.check:build", "whether the ceilings of rights fit")]


@hookimpl
def perpetual_status_sections() -> list[Provider]:
    """Offers the section that says which rights are in force."""
    return [Provider("status_section", "rights", "perpetual_autonomy.check:build_section", "which rights are in force")]


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings the ledgers of rights and of what they approved, and their events."""
    change = {
        "proposer": Field("str", "Whose right it is.", required=True),
        "action": Field("str", "The class of action.", required=True),
        "change": Field("str", "earned, lost, revoked or restored.", required=True),
        "rule": Field("int", "The version of the rule.", required=True),
        "seq": Field("int", "The last event that was read for it.", required=True),
        "why": Field("str", "In words.", required=True),
        "facts": Field("dict", "clean, needed, attempt, experiments, incidents.", required=True),
        "of": Field("int", "The number of the revocation that is restored."),
        "mark": Field("str", "What makes a restoration count here.", private=True, verbatim=True),
    }
    use = {
        "experiment": Field("str", "What was approved.", required=True, references="experiment"),
        "spec_hash": Field("str", "The specification that was approved.", required=True, verbatim=True),
        "proposer": Field("str", "The actor that proposed it.", required=True),
        "action": Field("str", "The class of action.", required=True),
        "right": Field("int", "The number of the row by which the right was earned.", required=True),
        "run_hours": Field("float", "Run-hours that all its runs may take at most.", required=True),
        "day": Field("str", "The local day that they count for.", required=True),
    }
    meaning = "subject: proposer and class of action; payload: proposer, action, right (its number), why, rule"
    return [
        RecordKind("change", change, ledger=True),
        RecordKind("use", use, ledger=True),
        *(EventKind(name, meaning) for name in ("earned", "lost", "revoked", "restored")),
        EventKind("approved", "subject: experiment; payload: right, proposer, action, run_hours, day"),
    ]

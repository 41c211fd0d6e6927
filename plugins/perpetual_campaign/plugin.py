"""Entry point of campaigns on code: the command `campaign`, a tool, and what takes candidates on; nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import EventKind, Field, Option, Provider, RecordKind, hookimpl

if TYPE_CHECKING:
    from perpetual import Lab

_REQUIRES = ("adopt",)


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual campaign`."""
    return [
        Provider("command", "campaign", "perpetual_campaign.command:campaign",
                 "Improve code by candidates that are measured against the best.", topic="research",
                 requires=_REQUIRES),
    ]  # fmt: skip


@hookimpl
def perpetual_mcp_tools() -> list[Provider]:
    """Offers `perpetual_campaigns`, for agents."""
    return [
        Provider("mcp_tool", "perpetual_campaigns", "perpetual_campaign.tool:build",
                 "Campaigns on code, with the candidates of one.", requires=_REQUIRES),
    ]  # fmt: skip


@hookimpl
def perpetual_status_sections() -> list[Provider]:
    """Offers the section of the status that counts candidates."""
    return [
        Provider("status_section", "campaigns", "perpetual_campaign.section:build", "open campaigns on code",
                 requires=_REQUIRES),
    ]  # fmt: skip


@hookimpl
def perpetual_options() -> dict[str, Option]:
    """Names the limits of a candidate."""
    return {
        "alpha": Option("float", 0.05, "Of new campaigns: the chance at most to keep a candidate that changes nothing.",
                        minimum=1e-6, maximum=0.5),
        "max_files": Option("int", 30, "Files that a candidate may change.", minimum=1, maximum=10_000),
        "max_bytes": Option("int", 1_000_000, "Bytes that the files of a candidate have together at most.", minimum=1,
                            maximum=1_000_000_000),
        "max_rounds": Option("int", 3, "How often a candidate is measured anew because the best has moved.", minimum=1,
                             maximum=20),
        "thinker_tokens": Option("int", 8000, "Tokens of a question to the thinker, files included, at most.",
                                 minimum=500, maximum=150_000),
        "edit_tokens": Option("int", 8000, "Tokens of a thinker's edit at most.", minimum=100, maximum=100_000),
        "edit_hours": Option("float", 72.0, "Hours after which a candidate that was not submitted ends.", minimum=0.01,
                             maximum=10_000.0),
    }  # fmt: skip


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings campaigns and their candidates."""
    return [
        RecordKind("campaign", {
            "name": Field("str", "Its name, which is part of its branches' names.", required=True),
            "command": Field("str", "The command line that measures.", required=True),
            "metric": Field("str", "What it measures.", required=True),
            "direction": Field("str", "max or min.", required=True),
            "mde": Field("float", "The smallest effect worth having; null counts any."),
            "edit": Field("list", "What candidates may change: patterns of paths.", required=True),
            "protect": Field("list", "What they may not, in any case.", required=True),
            "replicates": Field("int", "Pairs of runs of a look at a comparison.", required=True),
            "max_pairs": Field("int", "Pairs of a comparison at most; null is one look."),
            "alpha": Field("float", "Chance at most that a candidate that changes nothing is kept."),
            "max_candidates": Field("int", "Candidates at most."),
            "budget_run_hours": Field("float", "Run-hours of all its runs at most."),
            "wall_s": Field("float", "Seconds after which a run is ended."),
            "gpus": Field("int", "GPUs of a run.", required=True),
            "base": Field("str", "The commit that it began with.", required=True),
            "base_branch": Field("str", "The branch that was checked out then."),
            "best": Field("str", "The commit of the best.", required=True),
            "state": Field("str", "open or closed.", required=True),
            "thinker": Field("int", "Candidates that a thinker edits at once; null or 0 asks none."),
            "thinker_mark": Field("str", "What shows that a person of this machine has let it.", private=True),
        }, indexes=("name", "state")),
        RecordKind("candidate", {
            "campaign": Field("str", "Its campaign.", required=True, references="campaign"),
            "idea": Field("str", "What it tries, in a line.", required=True),
            "state": Field("str", "new, editing, trial, confirmation, keeping, kept, archiving or archived.",
                           required=True),
            "outcome": Field("str", "Once over: kept, refuted, undecided, failed, stuck, expired, dropped or refused."),
            "thinker": Field("str", "The thinker that edits it."),
            "edited_at": Field("str", "When the thinker's edit was taken over, UTC."),
            "reason": Field("str", "Why it is over."),
            "base": Field("str", "The best that it was made of.", required=True),
            "commit": Field("str", "What is measured."),
            "patch": Field("str", "The id of its difference, which names an idea that was tried before."),
            "files": Field("list", "What it changes."),
            "round": Field("int", "How often it was submitted or measured anew.", required=True),
            "stages": Field("list", "Its comparisons: {round, kind, base, commit, best_arm, arm, hypothesis}.",
                            required=True),
            "submitted_at": Field("str", "When it was last submitted, UTC."),
            "decided_at": Field("str", "When it was decided, UTC."),
            "expires_at": Field("str", "When it ends unless it is submitted, UTC.", required=True),
            "message": Field("str", "The message of that commit, as the evidence stood when it was decided."),
            "kept": Field("str", "The commit on the campaign's branch."),
            "note": Field("str", "Path of the note about its failure."),
            "mark": Field("str", "What shows that a person of this machine has let it run.", private=True),
        }, indexes=("campaign", "state"), prefix="c"),
        EventKind("edited", "subject: the candidate; payload: campaign"),
    ]  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_questions() -> list[Provider]:
    """Offers the question for an edit, which the thinker of a project is asked."""
    return [
        Provider("question", "edit", "perpetual_campaign.question:build", "an edit of code for a campaign",
                 requires=(*_REQUIRES, "thinkers")),
    ]  # fmt: skip


@hookimpl
def perpetual_scan(lab: Lab) -> None:
    """Takes candidates on whose runs are over."""
    _advance(lab)


@hookimpl
def perpetual_analysed(lab: Lab) -> None:
    """Takes candidates on whose runs have just ended."""
    _advance(lab)


def _advance(lab: Lab) -> None:
    if not lab.records("campaign.campaign").count():
        return
    from perpetual_campaign.campaigns import Campaigns

    Campaigns(lab).advance()

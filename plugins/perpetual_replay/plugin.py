"""Entry point of the replay gate: offers its stage, `memory replay` and what keeps trials going; nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import Field, Option, Provider, RecordKind, hookimpl

if TYPE_CHECKING:
    from perpetual import Lab

_REQUIRES = ("recall",)


@hookimpl
def perpetual_promotion_stages() -> list[Provider]:
    """Offers the stage that promotes what replays have shown to help."""
    return [Provider("promotion_stage", "replay", "perpetual_replay.stage:build", "paired runs with and without a note",
                     requires=_REQUIRES)]  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_prices() -> list[Provider]:
    """Offers the pricer that reads trials."""
    return [Provider("price", "replay", "perpetual_replay.price:build", "what paired runs measured, for each token",
                     requires=_REQUIRES)]  # fmt: skip


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual memory replay`."""
    return [Provider("command", "memory.replay", "perpetual_replay.command:replay",
                     "Test a note by paired runs with and without it.", requires=_REQUIRES)]  # fmt: skip


@hookimpl
def perpetual_mcp_tools() -> list[Provider]:
    """Offers `perpetual_replay`, for agents."""
    return [Provider("mcp_tool", "perpetual_replay", "perpetual_replay.tool:build",
                     "Trials of notes by paired runs: list them, or ask for one.", requires=_REQUIRES)]  # fmt: skip


@hookimpl
def perpetual_status_sections() -> list[Provider]:
    """Offers the section of the status that counts trials."""
    return [Provider("status_section", "replays", "perpetual_replay.section:build", "trials of notes, by state",
                     requires=_REQUIRES)]  # fmt: skip


@hookimpl
def perpetual_options() -> dict[str, Option]:
    """Names the limits of a trial."""
    return {
        "alpha": Option("float", 0.05, "Chance at most that a useless note is promoted.", minimum=1e-6, maximum=0.5),
        "harm_alpha": Option("float", 0.2, "Chance at most that a harmless note is rejected.", minimum=1e-6,
                             maximum=0.5),
        "min_pairs": Option("int", 5, "Pairs before a decision.", minimum=1, maximum=60),
        "max_pairs": Option("int", 60, "Pairs after which a trial ends undecided.", minimum=5, maximum=1000),
        "canary_pairs": Option("int", 5, "Pairs by which a note of no use tests each set of tasks.", minimum=5,
                               maximum=60),
        "block_tokens": Option("int", 1200, "Tokens of the memory block that a run is given.", minimum=200,
                               maximum=20_000),
        "expires_days": Option("int", 90, "Days after which an undecided note expires.", minimum=1, maximum=3650),
    }  # fmt: skip


@hookimpl
def perpetual_kinds() -> list[RecordKind]:
    """Brings trials, their pairs, and the contexts that runs were given."""
    return [
        RecordKind("trial", {
            "note": Field("str", "The note's path; of a canary the set of tasks that it tests.", required=True),
            "blob": Field("str", "The version under test.", required=True),
            "canary": Field("bool", "Whether the note is one of no use, which tests the tasks.", required=True),
            "tasks_digest": Field("str", "Digest of the tasks.", required=True),
            "tasks": Field("list", "The tasks as they were, each with the digests of its two contexts.", required=True),
            "max_pairs": Field("int", "Pairs after which it ends undecided.", required=True),
            "state": Field("str", "proposed, running, helps, harms, undecided, stopped, withdrawn or expired.",
                           required=True),
            "approved_by": Field("str", "The actor that let its runs start."),
            "pairs": Field("int", "Pairs that are recorded.", required=True),
            "e_help": Field("float", "E-value that the note helps.", required=True),
            "e_harm": Field("float", "E-value that it harms.", required=True),
            "bar": Field("float", "The e-value that was needed when it was decided."),
            "voided": Field("int", "Attempts at its pairs before it was last resumed.", required=True),
            "reason": Field("str", "Why it is in this state."),
            "expires_at": Field("str", "When it expires while undecided, UTC.", required=True),
        }, indexes=("note", "state"), prefix="trial-"),
        RecordKind("pair", {
            "trial": Field("str", "The trial.", required=True, references="trial"),
            "place": Field("int", "From 0, in the planned order.", required=True),
            "task": Field("str", "The task's name.", required=True),
            "seed": Field("int", "Seed of both runs.", required=True),
            "with_first": Field("bool", "Whether the run with the note started first.", required=True),
            "run_with": Field("str", "The run with the note.", required=True, references="run"),
            "run_without": Field("str", "The run without it.", required=True, references="run"),
            "score_with": Field("float", "In [0, 1].", required=True),
            "score_without": Field("float", "In [0, 1].", required=True),
            "remarks": Field("list", "Runs that gave no score, and why.", required=True),
        }, ledger=True, indexes=("trial",)),
        RecordKind("context", {
            "digest": Field("str", "SHA-256 of the text.", required=True),
            "text": Field("str", "The memory block that runs were given.", required=True, private=True),
        }, indexes=("digest",), prefix="context-"),
    ]  # fmt: skip


@hookimpl
def perpetual_scan(lab: Lab) -> None:
    """Records the pairs whose runs are over, and starts the next ones."""
    from perpetual_replay.trials import Trials

    Trials(lab).advance()

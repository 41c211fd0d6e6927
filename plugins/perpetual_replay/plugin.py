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
    """Offers `perpetual memory replay` and `perpetual memory bisect`."""
    return [
        Provider("command", "memory.replay", "perpetual_replay.command:replay",
                 "Test a note by paired runs with and without it.", requires=_REQUIRES),
        Provider("command", "memory.bisect", "perpetual_replay.command:bisect",
                 "Find the change of a note after which replay scores fell.", requires=(*_REQUIRES, "report")),
    ]  # fmt: skip


@hookimpl
def perpetual_mcp_tools() -> list[Provider]:
    """Offers `perpetual_replay`, `perpetual_bisections` and `perpetual_bisect`, for agents."""
    return [
        Provider("mcp_tool", "perpetual_replay", "perpetual_replay.tool:build",
                 "Trials of notes by paired runs: list them, or ask for one.", requires=_REQUIRES),
        Provider("mcp_tool", "perpetual_bisections", "perpetual_replay.bisect_tool:build_list",
                 "Searches for the change of a note after which replay scores fell.", requires=_REQUIRES),
        Provider("mcp_tool", "perpetual_bisect", "perpetual_replay.bisect_tool:build_ask",
                 "Ask for such a search, or plan one.", requires=(*_REQUIRES, "report")),
    ]  # fmt: skip


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
        "bisect_alpha": Option("float", 0.05, "Chance at most that a bisection shows a fall that is none.",
                               minimum=1e-6, maximum=0.5),
        "bisect_pairs": Option("int", 60, "Pairs of each comparison of a bisection at most.", minimum=5, maximum=1000),
        "canary_pairs": Option("int", 5, "Pairs by which a note of no use tests each set of tasks.", minimum=5,
                               maximum=60),
        "block_tokens": Option("int", 1200, "Tokens of the memory block that a run is given.", minimum=200,
                               maximum=20_000),
        "expires_days": Option("int", 90, "Days after which an undecided note expires.", minimum=1, maximum=3650),
    }  # fmt: skip


@hookimpl
def perpetual_kinds() -> list[RecordKind]:
    """Brings trials, their pairs, bisections, and the contexts that runs were given."""
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
            "mark": Field("str", "What shows that a person of this machine has.", private=True),
            "pairs": Field("int", "Pairs that are recorded.", required=True),
            "e_help": Field("float", "E-value that the note helps.", required=True),
            "e_harm": Field("float", "E-value that it harms.", required=True),
            "bar": Field("float", "The e-value that was needed when it was decided."),
            "voided": Field("int", "Attempts at its pairs before it was last resumed.", required=True),
            "reason": Field("str", "Why it is in this state."),
            "expires_at": Field("str", "When it expires while undecided, UTC.", required=True),
            "bisection": Field("str", "Of a comparison of two states of the memory: its bisection.",
                               references="bisection"),
            "draws": Field("str", "With its id and version, what its pairs are drawn by."),
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
        RecordKind("bisection", {
            "key": Field("str", "Digest of all that it will do.", required=True),
            "good": Field("int", "Seq of the event after which the memory was good.", required=True),
            "bad": Field("int", "Seq of the event after which it is asked about.", required=True),
            "exposure": Field("str", "The methodology's `memory_exposure`.", required=True),
            "left_out": Field("list", "Notes of no state: [path, blob], blob null for every version.", required=True),
            "tasks": Field("list", "The tasks as they were.", required=True),
            "tasks_digest": Field("str", "Digest of the tasks.", required=True),
            "states": Field("list", "The good state and each change that reaches a task, with the digests of its "
                            "contexts, one for each task.", required=True),
            "changes": Field("int", "Changes of the memory between the two, whether or not they reach a task.",
                             required=True),
            "alpha": Field("float", "Chance at most that a fall is shown where there is none.", required=True),
            "max_pairs": Field("int", "Pairs of a comparison at most.", required=True),
            "block_tokens": Field("int", "Tokens of the memory block that a run is given.", required=True),
            "state": Field("str", "proposed, running, found, none or stopped.", required=True),
            "approved_by": Field("str", "The actor that let its runs start."),
            "mark": Field("str", "What shows that a person of this machine has.", private=True),
            "results": Field("list", "What each step said: {shown, e_values, trials}.", required=True),
            "found": Field("str", "Path of the note after whose change scores fell."),
            "confirmation": Field("str", "The trial of the found change alone, in the memory of the bad state.",
                                  references="trial"),
            "confirmed": Field("bool", "Whether it was shown there too."),
            "reason": Field("str", "Why it is in this state."),
        }, indexes=("state", "key", "found")),
        RecordKind("context", {
            "digest": Field("str", "SHA-256 of the text.", required=True),
            "text": Field("str", "The memory block that runs were given.", required=True, private=True),
        }, indexes=("digest",), prefix="context-"),
    ]  # fmt: skip


@hookimpl
def perpetual_scan(lab: Lab) -> None:
    """Records the pairs whose runs are over, and starts the next ones."""
    from perpetual_replay.bisections import Bisections
    from perpetual_replay.trials import Trials

    Trials(lab).advance()
    Bisections(lab).advance()

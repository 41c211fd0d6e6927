"""Entry point of the thinkers: brings the slot `thinker`, offers `none` and `command`, and the companion that asks."""

from __future__ import annotations

from perpetual.api import EventKind, Field, Option, Provider, RecordKind, Slot, Suite, hookimpl


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings `thinker`, a model or a program that drives one, and `question`, what plugins ask it.

    The thinker `none` serves where nothing is chosen.
    """
    suite = Suite("perpetual_thinkers.testing:ThinkerContract", fixture="thinker")
    return [Slot("thinker", "perpetual_thinkers", "thinker", "perpetual_thinkers.base:Thinker", "one", default="none",
                 suite=suite),
            Slot("question", "perpetual_questions", "question to the thinker", "perpetual_thinkers.question:Question",
                 suite=Suite("perpetual_thinkers.testing.questions:QuestionContract", fixture="question"))]  # fmt: skip


@hookimpl
def perpetual_thinkers() -> list[Provider]:
    """Offers no thinker at all, and any program that answers on standard output."""
    return [
        Provider("thinker", "none", "perpetual_thinkers.none:build", "no model: the rules alone"),
        Provider("thinker", "command", "perpetual_thinkers.by_command:build", "a program: JSON in, JSON out", options={
            "command": Option("list", [], "The program's words; without one nothing is asked."),
            "timeout_s": Option("float", 120.0, "Seconds after which it is killed.", minimum=0.1, maximum=3600),
            "environment": Option("list", [], "Variables that it gets beside PATH, HOME and the like, by name."),
            "token": Option("str", None, "Where the secret is kept that it gets in PERPETUAL_THINKER_TOKEN.",
                            nullable=True, secret=True),
        }),
    ]  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_companions() -> list[Provider]:
    """Offers the companion of the daemon that asks the thinker in force."""
    return [Provider("companion", "thinker", "perpetual_thinkers.companion:build", "asks the thinker beside the loop",
                     requires=("daemon",))]  # fmt: skip


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual thoughts`."""
    return [Provider("command", "thoughts", "perpetual_thinkers.command:thoughts",
                     "Show what a thinker was asked and answered.", topic="results")]  # fmt: skip


@hookimpl
def perpetual_mcp_tools() -> list[Provider]:
    """Offers `perpetual_thoughts`, which only reads."""
    return [Provider("mcp_tool", "perpetual_thoughts", "perpetual_thinkers.tool:build",
                     "What the project's thinker was asked and answered.")]  # fmt: skip


@hookimpl
def perpetual_checks() -> list[Provider]:
    """Offers the check that says whether the thinker in force can be asked."""
    return [Provider("check", "thinker", "perpetual_thinkers.check:build", "whether the thinker can be asked")]


@hookimpl
def perpetual_status_sections() -> list[Provider]:
    """Offers the section that says what the thinker does, and whether it fails."""
    return [Provider("status_section", "thinker", "perpetual_thinkers.check:build_section", "what the thinker does")]


@hookimpl
def perpetual_options() -> dict[str, Option]:
    """Names what a thinker is asked, and what it may do."""
    return {
        "analyse": Option("bool", True, "Whether it is asked about runs that the rules have analysed."),
        "propose": Option("bool", True, "Whether it is asked for proposals where the rules have none."),
        "analyse_runs": Option("int", 20, "How many of the newest runs it may be asked about.", minimum=1,
                               maximum=1000),
        "verdicts": Option("bool", True, "Whether its opinions become evidence, at the weight of an opinion."),
        "free_commands": Option("bool", False, "Whether it may propose a command of its own; a person approves it."),
        "max_tokens": Option("int", 2000, "Tokens of an answer at most.", minimum=50, maximum=100_000),
        "usd_per_call": Option("float", 0.05, "US dollars that a call may cost, reserved before it.", minimum=0.0,
                               maximum=1000.0),
    }  # fmt: skip


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings thoughts, the raw replies, the state of the breaker, and their events."""
    thought = {
        "request_id": Field("str", "SHA-256 of what is asked, about what, and of the ledger's head.", required=True),
        "kind_of_question": Field("str", "analyse, propose, or that of a plugin.", required=True),
        "subject": Field("str", "The run, `project`, or what a plugin asks about.", required=True),
        "thinker": Field("str", "The thinker's name.", required=True),
        "state": Field("str", "asking, answered, used, refused, failed or dropped.", required=True),
        "attempts": Field("int", "Calls that were made for it.", required=True),
        "mark": Field("str", "What shows that this user's program was given the last reply.", private=True),
        "asked": Field("str", "The state of the record that was sent, as JSON.", private=True),
        "max_tokens": Field("int", "Tokens of the answer at most.", required=True),
        "problem": Field("str", "What was wrong with the first reply."),
        "reason": Field("str", "Why it ended without use."),
        "outcome": Field("dict", "What came of it: note, evidence, proposals, left_out, ideas."),
    }
    reply = {
        "thought": Field("str", "The thought.", required=True, references="thought"),
        "request_id": Field("str", "Of the thought.", required=True),
        "attempt": Field("int", "From 1.", required=True),
        "day": Field("str", "The local day that it counts for.", required=True),
        "text": Field("str", "The reply as it came.", required=True, private=True),
        "tokens_in": Field("int", "Tokens of the question."),
        "tokens_out": Field("int", "Tokens of the reply."),
        "usd": Field("float", "US dollars."),
        "model": Field("str", "The model, as the thinker names it."),
    }
    breaker = {
        "thinker": Field("str", "The thinker's name.", required=True),
        "failures": Field("int", "In a row.", required=True),
        "is_open": Field("bool", "Whether nothing is asked until then.", required=True),
        "until": Field("str", "When it may be asked again, UTC."),
        "error": Field("str", "The last failure."),
        "capped_on": Field("str", "The local day on which a cap was reached last."),
        "cap": Field("str", "Which one."),
    }
    return [
        RecordKind("thought", thought, indexes=("request_id", "state", "kind_of_question", "subject")),
        RecordKind("reply", reply, ledger=True, indexes=("day", "thought", "request_id")),
        RecordKind("breaker", breaker, indexes=("thinker",)),
        EventKind("failing", "subject: the thinker; payload: error, failures, until, instead"),
        EventKind("recovered", "subject: the thinker"),
        EventKind("capped", "subject: the thinker; payload: reason, instead"),
    ]

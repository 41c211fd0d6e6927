"""Entry point of the loop's lease: the command `auto`, the hooks of coding agents, a section of the status."""

from __future__ import annotations

from perpetual.api import EventKind, Field, Provider, RecordKind, Slot, Suite, hookimpl


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings `harness_hook`: what `perpetual hook NAME` answers, by the name of the hook."""
    suite = Suite("perpetual_loop.testing:HarnessHookContract", fixture="harness_hook")
    return [Slot("harness_hook", "perpetual_harness_hooks", "hook of a coding agent",
                 "perpetual_loop.harness_hook:HarnessHook", suite=suite)]  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_harness_hooks() -> list[Provider]:
    """Offers the hooks of a prompt and of the end of a turn."""
    return [
        Provider("harness_hook", "user-prompt", "perpetual_loop.hooks:build_prompt", "the brief; /auto arms the loop"),
        Provider("harness_hook", "stop", "perpetual_loop.hooks:build_stop", "goes on with /auto; writes the handover"),
    ]


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual auto`."""
    return [Provider("command", "auto", "perpetual_loop.command:auto", "Which session or daemon owns the loop.",
                     topic="agents")]  # fmt: skip


@hookimpl
def perpetual_status_sections() -> list[Provider]:
    """Offers the sections that name the owner of the loop, and how the last session left the research."""
    return [
        Provider("status_section", "loop", "perpetual_loop.section:build", "the owner of the loop"),
        Provider("status_section", "handover", "perpetual_loop.section:build_handover",
                 "how the last session of a coding agent left the research"),
    ]  # fmt: skip


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings the lease, of which a project has one row, the handover of each session, and two events."""
    lease = {
        "session": Field("str", "The session that has it, or had it last.", required=True, verbatim=True),
        "harness": Field("str", "claude-code, codex, opencode, daemon or another.", required=True),
        "actor": Field("str", "The actor that armed it.", required=True),
        "is_held": Field("bool", "Whether it was not given back.", required=True),
        "until": Field("str", "When it expires, UTC.", required=True),
        "armed_at": Field("str", "When it was taken, UTC.", required=True),
        "renewed_at": Field("str", "When it was last renewed, UTC.", required=True),
        "rounds": Field("int", "Further turns that were asked for; null is no limit."),
        "rounds_left": Field("int", "Further turns that are left."),
        "seq": Field("int", "The last event before its last turn began.", required=True),
        "process": Field("list", "Boot, pid, start, machine of its process, if known.", private=True, verbatim=True),
        "reason": Field("str", "Once given back: why, as a word."),
        "explanation": Field("str", "The same in words."),
    }
    handover = {
        "session": Field("str", "The session.", required=True, verbatim=True),
        "harness": Field("str", "Its coding agent.", required=True),
        "actor": Field("str", "The actor that wrote it.", required=True),
        "ended_at": Field("str", "When its last turn ended, UTC.", required=True),
        "last_words": Field("str", "The end of the agent's last message.", private=True),
        "live_runs": Field("list", "Ids of the runs that were live.", required=True),
        "waiting": Field("list", "Ids of the experiments that waited for a person.", required=True),
        "armed": Field("str", "The owner of the loop then, in words."),
        "seq": Field("int", "The last event at that time.", required=True),
    }
    return [
        RecordKind("lease", lease),
        RecordKind("handover", handover, indexes=("session",)),
        EventKind("armed", "subject: the harness; payload: session, rounds"),
        EventKind("ended", "subject: the harness; payload: session, reason, explanation"),
    ]

"""The hooks `user-prompt` and `stop` of Claude Code and Codex."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError
from perpetual.toolkit.agents import harness as harness_of
from perpetual.toolkit.platform import Identity, identity_of, parent_of
from perpetual_loop.handover import write_handover
from perpetual_loop.harness_hook import HarnessHook
from perpetual_loop.lease import DAEMON, arm, is_dispatched, lease_of, release, session_problem
from perpetual_loop.prompt import asked_of
from perpetual_loop.rounds import clear_stop, decide

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_loop.prompt import Asked

__all__ = ["PromptHook", "StopHook", "build_prompt", "build_stop"]

_LONGEST_MESSAGE = 256 * 1024  # characters of a last message that are looked at
_PROGRAMS = ("claude", "codex")  # names of the processes that run hooks, with a shell between
_MOST_ANCESTORS = 4
_NOTICES = ("<task-notification>", "<system-reminder>")


class PromptHook(HarnessHook):
    """Answers the brief. `/auto` arms the session, and any other prompt of its person ends that."""

    def answer(self, lab: Lab, event: Mapping[str, object]) -> Mapping[str, object] | None:
        """Returns the brief and what became of `/auto`, as context of the prompt."""
        if is_dispatched():
            return None
        words = _heed(lab, event)
        text = "\n\n".join([lab.brief(), *([words] if words else [])])
        return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": text}}


class StopHook(HarnessHook):
    """Goes on where the session is armed and there is a reason to; writes the handover where it ends."""

    def answer(self, lab: Lab, event: Mapping[str, object]) -> Mapping[str, object] | None:
        """Returns the order to go on, or None."""
        session = event.get("session_id")
        if is_dispatched() or event.get("hook_event_name") == "SubagentStop" or not isinstance(session, str):
            return None
        if session_problem(session):
            return None
        made = decide(lab, session, process=_process())
        if made.text is not None:
            return {"decision": "block", "reason": made.text}
        said = event.get("last_assistant_message")
        words = said[-_LONGEST_MESSAGE:] if isinstance(said, str) else ""
        ended = made.explanation if made.was_armed else None
        if write_handover(lab, session, harness=_harness(event), last_words=words, ended=ended):
            lab.status()  # kept, so that the next prompt's hook answers at once
        return None


def _heed(lab: Lab, event: Mapping[str, object]) -> str:
    """Does what the prompt asks of the loop; returns what the agent is to know of it."""
    session, asked = event.get("session_id"), asked_of(event.get("prompt"))
    if not isinstance(session, str) or session_problem(session) or _is_notice(event.get("prompt")):
        return ""
    if asked is not None and asked.deed == "auto":
        return _armed(lab, session, _harness(event), asked)
    found = lease_of(lab)
    if found is None or not found.is_held or found.session != session or found.harness == DAEMON:
        return ""
    words = "the person stopped it" if asked is not None else "the person wrote something else"
    release(lab, session, reason="stop_requested", explanation=words)
    return f"/auto has ended: {words}. Do what the prompt asks, then end your turn."


def _is_notice(prompt: object) -> bool:
    """Returns whether the harness itself wrote the prompt: the end of a task in the background is no person's word."""
    return isinstance(prompt, str) and prompt.lstrip().startswith(_NOTICES)


def _armed(lab: Lab, session: str, harness: str, asked: Asked) -> str:
    try:
        clear_stop(lab)
        made = arm(lab, session, harness=harness, rounds=asked.rounds, process=_process())
    except PerpetualError as problem:
        words = "Tell the person so, start nothing by yourself and end your turn."
        return f"/auto is not in force: {problem.message}. {words}"
    return (
        f"/auto is in force: when you end your turn you are asked to go on, {made.rounds_left} times at most, for as "
        "long as the record moves and something is left that is not a person's to do. Make one round a turn."
    )


def _harness(event: Mapping[str, object]) -> str:
    """Returns the harness as the event names it, by what only its events hold, or by its mark in the environment."""
    named = event.get("harness")
    if isinstance(named, str) and session_problem(named) is None and named != DAEMON:
        return named
    if "turn_id" in event:
        return "codex"
    found = harness_of(os.environ)
    return "claude-code" if found is None else found.lower().replace(" ", "-")


def _process() -> Identity | None:
    """Returns the process of the harness, a near ancestor of this hook's; None where none has a name that is known.

    A wrong one would free the loop too early, and none only later: when the lease expires.
    """
    pid: int | None = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        if pid is None or pid <= 1:
            return None
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                name = file.read().strip()
        except (OSError, ValueError):
            return None
        if name in _PROGRAMS:
            return identity_of(pid)
        pid = parent_of(pid)
    return None


def build_prompt(options: Mapping[str, object]) -> PromptHook:
    """Builds the hook; it has no options."""
    return PromptHook()


def build_stop(options: Mapping[str, object]) -> StopHook:
    """Builds the hook; it has no options."""
    return StopHook()

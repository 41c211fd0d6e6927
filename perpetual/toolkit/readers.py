"""Hints for agents where a person reads a command of their own: a person decides. Floor 0.

An agent that is shown `perpetual approve e1` runs it, or asks for the key that lets it. So a step or a hint that names
what is for a person is put in other words, or left out, wherever an agent reads it: the brief, the status, the hooks,
MCP, and commands under an agent's shell. Light: the fast path of the command uses it.
"""

from __future__ import annotations

from perpetual.toolkit.late_pattern import late_pattern

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FOR_A_PERSON", "agent_hint", "agent_lines", "agent_steps", "is_waiting", "names_a_right", "waiting"]

FOR_A_PERSON = "tell the person what you propose and why; then propose more or end your turn"

# What only a person may do, as commands, options and keys name it. Settings that an agent may set are not among them.
_RIGHTS = late_pattern(
    r"perpetual (?:sweep )?approve\b|perpetual trust\b|agents_may_approve|auto_approve|--allow-approve|approve --token"
    r"|\bplugins (?:install|remove)\b|perpetual uninstall\b|\bnotify (?:send|test)\b"
    r"|\bmemory (?:promote|reject)\b|\bbudget set\b|plugins\.disabled|required_gates"
    r"|\bmethodology set(?! (?:exploration_strategy|proposal_batch_size|min_information_gain_bits|auto_propose"
    r"|auto_analyze|memory_write_on_completion)\b)"
    r"|\bconfig (?:un)?set(?! project\b)"
)
_APPROVE = late_pattern(r"(?P<before>(?:next: )?)perpetual approve (?P<ids>[a-z]+\d+(?:,? [a-z]+\d+)*)\s*(?:\(.*\))?")
_WAITING = late_pattern(r"Waiting for a person: [a-z]+\d+(?:, [a-z]+\d+)*\. You may propose more or end your turn\.")
_CLAUSE = late_pattern(r"; |, or ")


def waiting(ids: Iterable[str]) -> str:
    """Returns what an agent is to know of experiments that are not approved."""
    return f"Waiting for a person: {', '.join(ids)}. You may propose more or end your turn."


def is_waiting(line: str) -> bool:
    """Returns whether a line is an answer of `waiting`, which quotes no text of others."""
    return _WAITING.fullmatch(line) is not None


def names_a_right(text: str) -> bool:
    """Returns whether a text of this program names a command, an option or a key that is for a person."""
    return _RIGHTS.search(text) is not None


def agent_steps(steps: Iterable[str]) -> list[str]:
    """Returns the next steps as an agent reads them.

    Approvals as `waiting`, others that are for a person not at all.
    """
    shown = []
    for step in steps:
        found = _APPROVE.fullmatch(step)
        if found is not None:
            shown.append(waiting(found["ids"].replace(",", " ").split()))
        elif not names_a_right(step):
            shown.append(step)
    return shown


def agent_hint(hint: str | None) -> str | None:
    """Returns a hint as an agent reads it, without its clauses that are for a person."""
    if hint is None or not names_a_right(hint):
        return hint
    found = _APPROVE.fullmatch(hint)
    if found is not None:
        return waiting(found["ids"].replace(",", " ").split())
    kept = [clause for clause in _CLAUSE.split(hint) if not names_a_right(clause)]
    return "; ".join(kept) or FOR_A_PERSON


def agent_lines(text: str) -> str:
    """Returns a command's answer as an agent reads it: of its lines that say what is next, see `agent_steps`."""
    if "next: " not in text:
        return text
    shown = []
    for line in text.split("\n"):
        before, mark, step = line.partition("next: ")
        shown += agent_steps([step]) if mark and not before else [line]
    return "\n".join(shown)

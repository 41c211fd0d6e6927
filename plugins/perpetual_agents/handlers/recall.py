"""The handler `recall`: shows a model entries of memory that fit a message, where the agent's settings let it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError
from perpetual.toolkit.fence import fence
from perpetual_agents.handler import Handler
from perpetual_agents.messages import size_of, user

if TYPE_CHECKING:
    from perpetual_agents.memory_documents import MemoryHitDocument
    from perpetual_agents.messages import Message
    from perpetual_agents.turn import Turn

__all__ = ["RecallHandler", "build"]

_K = 10  # hits that are looked at


class RecallHandler(Handler):
    """Adds what memory holds on a message, within the setting `inject_tokens`; 0, its default, adds nothing."""

    async def history(self, turn: Turn, messages: list[Message]) -> list[Message]:
        """Returns the history with the entries after it, the same in the whole turn."""
        most = int(turn.agent.setting("inject_tokens"))
        if not most or not turn.text.strip():
            return messages
        if "recalled" not in turn.cache:
            turn.cache["recalled"] = await turn.blocking(lambda: _recalled(turn, messages, most))
        return [*messages, *turn.cache["recalled"]]


def _recalled(turn: Turn, messages: Sequence[Message], most: int) -> list[Message]:
    """Returns a message with the entries that fit, none where none does or memory cannot be searched."""
    from perpetual_agents.memory import AgentMemory
    from perpetual_agents.memory_text import SHARED, are_alike, shingles

    try:
        hits = AgentMemory(turn.lab).search(turn.text, [turn.agent.id, SHARED], k=_K, said=False)
    except PerpetualError as problem:
        turn.facts["recall_failed"] = problem.message
        return []
    known = [message["text"] for message in [*messages, *turn.messages]]
    taken: list[MemoryHitDocument] = []
    made: list[Message] = []
    for hit in hits:
        is_known = any(hit["text"] in text for text in known)
        if is_known or any(are_alike(shingles(hit["text"]), shingles(other["text"])) for other in taken):
            continue
        message = _message([*taken, hit])
        if size_of(message) <= most:
            taken.append(hit)
            made = [message]
    if taken:
        turn.facts["recalled"] = [hit["id"] for hit in taken]
    return made


def _message(hits: Sequence[MemoryHitDocument]) -> Message:
    lines = "\n".join(f"{hit['key']} ({hit['author']}, {hit['created_at'][:10]}): {hit['text']}" for hit in hits)
    return user(f"From memory:\n{fence(lines, 'memory')}", "memory", pinned=False)


def build(options: Mapping[str, object]) -> RecallHandler:
    """Builds the handler."""
    return RecallHandler()

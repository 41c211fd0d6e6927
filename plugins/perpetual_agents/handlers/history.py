"""The handler `history`: shows a model the newest messages of the agent's history, within its window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual_agents.handler import Handler
from perpetual_agents.messages import Message, tool_result

if TYPE_CHECKING:
    from perpetual_agents.journal import Journal
    from perpetual_agents.turn import Turn

__all__ = ["HistoryHandler", "build", "mended", "window"]


class HistoryHandler(Handler):
    """Reads the past of a turn once, from the newest step on; costs the window, however long the history is."""

    async def history(self, turn: Turn, messages: list[Message]) -> list[Message]:
        """Returns the past before what the handlers after it add."""
        if "past" not in turn.cache:
            most = int(turn.agent.setting("window"))
            turn.cache["past"] = await turn.blocking(lambda: window(turn.journal, most, turn.id))
        return [*turn.cache["past"], *messages]


def window(journal: Journal, most: int, turn: str | None = None) -> list[Message]:
    """Returns at most `most` messages of a history, oldest first, those of the turn left out; whole turns only.

    A summary stands for all before it, so nothing older is read.
    """
    found: list[Message] = []
    turns: list[str] = []
    for step in journal.newest_first():
        message = step.message
        if message is None or (turn is not None and step.turn == turn):
            continue
        if len(found) >= most and step.turn != turns[-1]:
            break
        found.append(message)
        turns.append(step.turn)
        if message["role"] == "summary":
            break
    found.reverse()
    turns.reverse()
    if len(found) > most and turns[0] != turns[-1]:  # the oldest turn does not fit as a whole
        oldest = turns[0]
        keep = next((place for place, name in enumerate(turns) if name != oldest), 0)
        found = found[keep:]
    return mended(found)


def mended(messages: Sequence[Message]) -> list[Message]:
    """Returns a conversation in which each call of a tool has its result, and each result its call.

    A turn that failed may have left a call without one, which no provider takes.
    """
    found: list[Message] = []
    waiting: dict[str, Message] = {}
    for message in messages:
        if message["role"] == "tool":
            if waiting.pop(message.get("call", ""), None) is not None:
                found.append(message)
            continue
        found += waiting.values()
        waiting = {}
        found.append(message)
        for call in message.get("calls", ()):
            waiting[call["id"]] = tool_result(call, "this call was not completed", is_error=True)
    return [*found, *waiting.values()]


def build(options: Mapping[str, object]) -> HistoryHandler:
    """Builds the handler."""
    return HistoryHandler()

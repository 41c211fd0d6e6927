"""The handler `history`: shows a model the newest messages of the agent's history, within its window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual_agents.handler import Handler
from perpetual_agents.messages import Message, tool_result

if TYPE_CHECKING:
    from perpetual_agents.journal import Journal, Step
    from perpetual_agents.turn import Turn

__all__ = ["HistoryHandler", "Recent", "build", "mended", "recent", "shown", "window"]


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

    A summary comes first; it stands for all that it covers, so nothing older is read.
    """
    return shown(recent(journal, most, turn), most)


class Recent(NamedTuple):
    """The newest messages of a history.

    - `steps`: those that no summary covers, oldest first.
    - `summary`: the step of the newest summary, None where none was reached.
    - `is_whole`: False where older messages were not read.
    """

    steps: list[Step]
    summary: Step | None
    is_whole: bool


def recent(journal: Journal, most: int, turn: str | None = None) -> Recent:
    """Returns the messages since the newest summary, those of the turn left out; whole turns, so `most` and more.

    A summary covers what was before it but for the newest messages, whose number is `kept` in its step's body. A number
    and no place, so that it holds in a copy of the journal too.
    """
    found: list[Step] = []
    summary: Step | None = None
    kept = 0
    for step in journal.newest_first():
        if summary is not None and not kept:
            break
        message = step.message
        if message is None:
            continue
        if message["role"] == "summary":
            if summary is None:
                summary, kept = step, _number(step.body.get("kept"))
            continue
        kept -= summary is not None
        if turn is None or step.turn != turn:
            if len(found) >= most and step.turn != found[-1].turn:
                return Recent(found[::-1], summary, False)
            found.append(step)
    return Recent(found[::-1], summary, True)


def shown(found: Recent, most: int) -> list[Message]:
    """Returns what a model is shown of the newest messages: at most `most`, whole turns, the summary first."""
    steps = found.steps
    if len(steps) > most and steps[0].turn != steps[-1].turn:  # the oldest turn does not fit as a whole
        oldest = steps[0].turn
        steps = steps[next(place for place, step in enumerate(steps) if step.turn != oldest) :]
    messages = mended([step.message for step in steps if step.message is not None])
    summary = None if found.summary is None else found.summary.message
    return messages if summary is None else [summary, *messages]


def _number(found: object) -> int:
    return found if isinstance(found, int) and found > 0 else 0


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

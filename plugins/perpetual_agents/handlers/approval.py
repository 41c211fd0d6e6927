"""The handler `approval`: calls that need a person wait for one, and questions are answered by one.

A tool needs one where it says so itself (`AgentTool.needs_approval`, `@tool(approval=True)`), or where the agent's list
`approvals` has its name, the name by which the agent has it (such as `mcp:files`), or `*`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from perpetual_agents.approvals import Approvals
from perpetual_agents.handler import Handler, Suspend
from perpetual_agents.messages import tool_result

if TYPE_CHECKING:
    from perpetual_agents.event_documents import ApprovalDocument
    from perpetual_agents.messages import Call, Message
    from perpetual_agents.turn import Turn

__all__ = ["ApprovalHandler", "build"]

_MOST = 120  # characters of a question in the reason why a message waits


class ApprovalHandler(Handler):
    """Asks a person before a call is made; what the person said is part of the call's result."""

    async def tool(self, turn: Turn, call: Call, proceed: Callable[[Call], Awaitable[Message]]) -> Message:
        """Makes the call once a person approved it. Raises Suspend until one has decided."""
        tool = turn.tools.get(call["name"])
        if tool is None:
            return await proceed(call)
        question: str | None = None
        if getattr(tool, "asks", False):
            question = str(call["args"].get("question") or "").strip()
            if not question:
                turn.cleared = turn.key
                return await proceed(call)  # which says what is missing
        elif not await turn.needs_person(call):
            turn.cleared = turn.key
            return await proceed(call)
        approvals = Approvals(turn.lab)
        asked = await turn.blocking(lambda: approvals.asked(turn.agent.id, turn.id, turn.key, call, question))
        if asked["state"] == "waiting":
            what = f"asks: {question[:_MOST]}" if question else f"wants to call {call['name']}"
            raise Suspend(f"{turn.agent.name} {what}", hint=f"perpetual agent approve {asked['id']}",
                          still=lambda: approvals.waits(asked["id"]))  # fmt: skip
        if asked["state"] == "denied":
            return {**tool_result(call, f"a person denied this call: {asked['answer']}", is_error=True),
                    "pinned": True}  # fmt: skip
        if question is not None:
            return {**tool_result(call, str(asked["answer"])), "pinned": True}
        turn.cleared = turn.key
        return _with_word(await proceed(call), asked)


def _with_word(result: Message, asked: ApprovalDocument) -> Message:
    """Returns the result of a call, with the words of its approval."""
    if asked["answer"] is None:
        return result
    return {**result, "text": f"{result['text']}\nThe person that approved this call says: {asked['answer']}"}


def build(options: Mapping[str, object]) -> ApprovalHandler:
    """Builds the handler."""
    return ApprovalHandler()

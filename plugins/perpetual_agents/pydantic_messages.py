"""Conversations between our messages and those of pydantic-ai. Imported where a model is asked, as it is heavy."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic import ValidationError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from perpetual_agents.messages import Call, Message

__all__ = ["BadCall", "as_raw", "bare_json", "calls_of", "to_engine", "with_own_ids"]

_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.DOTALL | re.IGNORECASE)


class BadCall(ValueError):
    """A model has called a tool with arguments that are no JSON object."""


def to_engine(messages: Sequence[Message]) -> list[ModelMessage]:
    """Returns a conversation in the engine's form; what lies between two replies becomes one request."""
    found: list[ModelMessage] = []
    waiting: list[ModelRequestPart] = []
    for message in messages:
        if message["role"] != "assistant":
            waiting.append(_said(message))
            continue
        if waiting:
            found.append(ModelRequest(parts=waiting))
            waiting = []
        found.append(_from_raw(message) or _rebuilt(message))
    if waiting:
        found.append(ModelRequest(parts=waiting))
    return found


def _said(message: Message) -> ModelRequestPart:
    if message["role"] == "tool":
        return ToolReturnPart(message.get("name", ""), message["text"], message.get("call", ""),
                              outcome="failed" if message.get("is_error") else "success")  # fmt: skip
    if message["role"] == "summary":
        return UserPromptPart(f"Summary of the {message.get('covers', 0)} messages before:\n{message['text']}")
    return UserPromptPart(message["text"])


def _from_raw(message: Message) -> ModelResponse | None:
    """Returns a reply as the engine has given it, None unless it says what the message says.

    So thinking and what only the provider reads go back to it, and a record that was changed, or came from another
    engine, cannot show a model anything that a person does not see.
    """
    raw = message.get("raw")
    if not isinstance(raw, dict):
        return None
    try:
        [found] = ModelMessagesTypeAdapter.validate_python([raw])
        if not isinstance(found, ModelResponse) or (found.text or "") != message["text"]:
            return None
        return found if calls_of(found) == tuple(message.get("calls", ())) else None
    except (ValidationError, ValueError, TypeError):
        return None


def _rebuilt(message: Message) -> ModelResponse:
    parts: list[ModelResponsePart] = [TextPart(message["text"])] if message["text"] else []
    parts += [ToolCallPart(call["name"], dict(call["args"]), call["id"]) for call in message.get("calls", ())]
    return ModelResponse(parts=parts, model_name=message.get("model") or None)


def as_raw(response: ModelResponse) -> object:
    """Returns a reply as JSON, which `to_engine` reads again; what it used is counted elsewhere."""
    [found] = ModelMessagesTypeAdapter.dump_python([response], mode="json", exclude_none=True)
    return {name: value for name, value in found.items() if name != "usage"}


def with_own_ids(response: ModelResponse) -> ModelResponse:
    """Returns a reply in which each call has an id of its own, as some servers give none or one for all."""
    seen: set[str] = set()
    parts: list[ModelResponsePart] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            id, number = part.tool_call_id or "call", 1
            while id in seen:
                number += 1
                id = f"{part.tool_call_id or 'call'}-{number}"
            seen.add(id)
            parts.append(part if id == part.tool_call_id else replace(part, tool_call_id=id))
        else:
            parts.append(part)
    return replace(response, parts=parts)


def calls_of(response: ModelResponse) -> tuple[Call, ...]:
    """Returns the calls of tools in a reply. Raises BadCall for arguments that are no JSON object."""
    return tuple({"id": part.tool_call_id, "name": part.tool_name, "args": _arguments(part)}
                 for part in response.parts if isinstance(part, ToolCallPart))  # fmt: skip


def _arguments(part: ToolCallPart) -> dict[str, object]:
    found: object = part.args
    if found is None or found == "":
        return {}
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError) as problem:
            raise BadCall(f"the arguments of {part.tool_name} are no JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise BadCall(f"the arguments of {part.tool_name} are a {type(found).__name__}, not a JSON object")
    return {str(name): value for name, value in found.items()}


def bare_json(text: str) -> str:
    """Returns a JSON answer without the fence that a model may have put around it."""
    fenced = _FENCED.match(text)
    return fenced[1] if fenced else text

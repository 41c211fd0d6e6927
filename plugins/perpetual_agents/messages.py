"""Messages of a conversation as they are recorded: plain JSON of a version of our own.

A message is `{v, role, text}` with, by its role:

- `user`: `sender`, and `pinned` where it must never be summarised;
- `assistant`: `calls`, each `{id, name, args}`; `model`, `mock`; `raw`, the engine's own form of it;
- `tool`: `call` (the id of the call that it answers), `name`, `is_error`;
- `summary`: what stands for older messages; `covers` is how many.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, NotRequired, TypeAlias, TypedDict

__all__ = ["VERSION", "Call", "Message", "Role", "assistant", "size_of", "summary", "tool_result", "user"]

VERSION = 1
Role: TypeAlias = Literal["user", "assistant", "tool", "summary"]
_BYTES_PER_TOKEN = 4


class Call(TypedDict):
    """One call of a tool that a model asked for; `args` is a JSON object."""

    id: str
    name: str
    args: dict[str, object]


class Message(TypedDict):
    """One message; see the top of this module for the keys of each role."""

    v: int
    role: Role
    text: str
    sender: NotRequired[str]
    pinned: NotRequired[bool]
    calls: NotRequired[list[Call]]
    call: NotRequired[str]
    name: NotRequired[str]
    is_error: NotRequired[bool]
    model: NotRequired[str]
    mock: NotRequired[bool]
    raw: NotRequired[object]
    covers: NotRequired[int]


def user(text: str, sender: str, *, pinned: bool = True) -> Message:
    """Returns what was said to the agent; what a person says is pinned."""
    return {"v": VERSION, "role": "user", "text": text, "sender": sender, "pinned": pinned}


def assistant(text: str, calls: Sequence[Call], *, model: str, mock: bool = False, raw: object = None) -> Message:
    """Returns what the model said, with the tools that it calls."""
    return {"v": VERSION, "role": "assistant", "text": text, "calls": [*calls], "model": model, "mock": mock,
            "raw": raw}  # fmt: skip


def tool_result(call: Call, text: str, *, is_error: bool = False) -> Message:
    """Returns what a call of a tool came to."""
    return {"v": VERSION, "role": "tool", "text": text, "call": call["id"], "name": call["name"], "is_error": is_error}


def summary(text: str, covers: int) -> Message:
    """Returns what stands for the `covers` messages before it."""
    return {"v": VERSION, "role": "summary", "text": text, "covers": covers}


def size_of(message: Message) -> int:
    """Returns the size of a message in tokens, as a quarter of its bytes."""
    calls = json.dumps(message.get("calls", []), ensure_ascii=False) if message.get("calls") else ""
    return -(-len((message["text"] + calls).encode()) // _BYTES_PER_TOKEN) + 4

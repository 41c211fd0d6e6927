"""The documents of `perpetual ask` and `perpetual turns`."""

from __future__ import annotations

from typing import NotRequired

from perpetual.documents import TypedDict
from perpetual.documents.status import ErrorBody

__all__ = ["AskDocument", "LoginDocument", "ToolCall", "TurnDocument", "WordsDocument"]


class ToolCall(TypedDict):
    """A tool call of a harness; `status` is completed, failed or pending."""

    title: str
    kind: str
    status: str


class TurnDocument(TypedDict):
    """One prompt to a harness and what came of it.

    `outcome` is null while it goes on. `cost` is US dollars; what the harness does not report is null. `tools` are the
    titles of `tool_calls`, `refused` those of permissions that were not given.
    """

    id: str
    harness: str
    dispatcher: str
    purpose: str
    state: str
    outcome: str | None
    outcomes: list[str]
    problem: str | None
    text: str
    session_id: str | None
    tokens: int | None
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    steps: int | None
    model: str | None
    tools: list[str]
    tool_calls: list[ToolCall]
    refused: list[str]
    left: list[str]
    duration_s: float | None
    created_at: str


class AskDocument(TurnDocument):
    """The answer of `perpetual ask`: the turn, and the error where its outcome is a failure."""

    error: NotRequired[ErrorBody]


class LoginDocument(TypedDict):
    """Whether a harness is logged in: `signed_in` is null where that is not known, `how` says what showed it."""

    harness: str
    program: str
    installed: bool
    signed_in: bool | None
    how: str | None
    login: str | None
    install: str | None


class WordsDocument(TypedDict):
    """What `perpetual chat` or `perpetual auth login` would start, and where."""

    words: list[str]
    cwd: str

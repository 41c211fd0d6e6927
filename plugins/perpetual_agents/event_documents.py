"""The documents of `perpetual agent timer`, `approvals`, `approve` and `deny`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["ApprovalDocument", "TimerDocument"]


class TimerDocument(TypedDict):
    """A timer of an agent.

    `repeats` is once, every or cron; `expression` a time, seconds, or a cron expression in the time zone `zone`.
    `next` is when it fires next, null once it is over or cancelled; `fired` how often it has fired.
    """

    id: str
    agent: str
    repeats: str
    expression: str
    zone: str | None
    text: str
    type: str
    next: str | None
    last: str | None
    fired: int
    active: bool
    created_by: str
    created_at: str


class ApprovalDocument(TypedDict):
    """What an agent asks a person.

    `question` is null where it is whether `tool` may be called with `args`. `state` is waiting, approved, denied, or
    void where the call was changed or its message is over. `answer` is what the person `by` said, or why not.
    """

    id: str
    agent: str
    message: str
    tool: str
    args: dict[str, object]
    question: str | None
    state: str
    answer: str | None
    by: str | None
    created_at: str
    decided_at: str | None

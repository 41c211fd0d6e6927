"""The documents of `perpetual thoughts`, and of `state_of`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["ThinkersState", "ThoughtDocument", "ThoughtLine", "ThoughtReply"]


class ThoughtLine(TypedDict):
    """A question to a thinker in short: `subject` is a run, or `project` for proposals."""

    id: str
    kind: str
    subject: str
    thinker: str
    state: str
    attempts: int
    made: list[str]  # what came of it: notes, evidence, experiments
    reason: str | None
    created_at: str


class ThoughtReply(TypedDict):
    """A reply as it came; counts are null where the thinker gave none."""

    attempt: int
    text: str
    tokens_in: int | None
    tokens_out: int | None
    usd: float | None
    model: str
    created_at: str


class ThoughtDocument(ThoughtLine):
    """A question to a thinker, what it was asked about and what it replied."""

    request_id: str
    asked: str  # the state of the record, as JSON
    problem: str | None  # what was wrong with the first reply
    left_out: list[str]  # proposals that were not made, each with why
    ideas: list[str]
    replies: list[ThoughtReply]


class ThinkersState(TypedDict):
    """The thinker in force, what it has used today and what it may use, and how it fares.

    `state` is `none`, `working`, `waiting` (after a failure), `open` (the breaker) or `capped` (until tomorrow).
    """

    thinker: str
    state: str
    reason: str | None
    until: str | None
    failures: int
    calls_today: int
    tokens_today: int
    usd_today: float
    max_calls_per_day: int | None
    max_tokens_per_day: int | None
    max_usd_per_day: float | None
    thoughts: dict[str, int]

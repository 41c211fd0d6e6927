"""The kinds of records of the thinkers, by name, and the thoughts as they are read."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpetual.toolkit import user_state
from perpetual_thinkers.base import Kind, Request

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record

__all__ = [
    "ANSWERED",
    "ASKING",
    "BREAKER",
    "CAPPED",
    "DROPPED",
    "FAILED",
    "FAILING",
    "RECOVERED",
    "REFUSED",
    "REPLY",
    "STATES",
    "THOUGHT",
    "USED",
    "Thought",
    "is_own",
    "mark_of",
    "replies_to",
    "thought_of",
    "thoughts",
]

THOUGHT, REPLY, BREAKER = "thinkers.thought", "thinkers.reply", "thinkers.breaker"
FAILING, RECOVERED, CAPPED = "thinkers.failing", "thinkers.recovered", "thinkers.capped"  # events
ASKING, ANSWERED, USED, REFUSED, FAILED, DROPPED = "asking", "answered", "used", "refused", "failed", "dropped"
STATES = (ASKING, ANSWERED, USED, REFUSED, FAILED, DROPPED)


@dataclass(frozen=True, slots=True)
class Thought:
    """One question to a thinker and what came of it; `problem` is what was wrong with the first answer."""

    id: str
    revision: int
    request_id: str
    kind: Kind
    subject: str
    thinker: str
    state: str
    attempts: int
    asked: str  # the state of the record that it was asked about, as JSON; empty where it came from elsewhere
    max_tokens: int
    problem: str | None
    reason: str | None
    outcome: dict[str, object]
    created_at: str
    mark: str | None  # of the last reply

    def request(self, schema: Mapping[str, object]) -> Request:
        """Returns the question, the same after any restart."""
        return Request(self.request_id, self.kind, self.asked, schema, self.max_tokens)


def thought_of(record: Record) -> Thought:
    """Returns a record as a thought."""
    mark = record.fields.get("mark")
    return Thought(
        record.id, record.revision, record["request_id"], record["kind_of_question"], record["subject"],
        record["thinker"], record["state"], record["attempts"], record["asked"] or "", record["max_tokens"],
        record["problem"], record["reason"], record["outcome"] or {}, record.created_at,
        mark if isinstance(mark, str) else None,
    )  # fmt: skip


def thoughts(lab: Lab, **equals: object) -> list[Thought]:
    """Returns the thoughts whose fields have these values, oldest first."""
    return [thought_of(record) for record in lab.records(THOUGHT).find(**equals)]


def mark_of(thought: Thought, reply: Record) -> str:
    """Returns the mark of a reply that this user's program was given, which no record from elsewhere can bring.

    Raises:
        PerpetualError: (state_not_writable) where the user's state folder cannot be used.
    """
    bound = json.dumps(["thinkers.reply", thought.request_id, thought.subject, reply["attempt"], reply["text"]])
    return hmac.new(user_state.secret(), bound.encode(), "sha256").hexdigest()


def is_own(thought: Thought, reply: Record) -> bool:
    """Returns whether a reply was given to this user's program, as it stands."""
    return thought.mark is not None and hmac.compare_digest(thought.mark, mark_of(thought, reply))


def replies_to(lab: Lab, thought: Thought) -> list[Record]:
    """Returns the raw replies to a thought's question, in the order in which they came."""
    return lab.records(REPLY).find(thought=thought.id)

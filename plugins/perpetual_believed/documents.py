"""The document of `perpetual believed`."""

from __future__ import annotations

from perpetual.documents import TypedDict
from perpetual.documents.ledger import Effect

__all__ = ["Belief", "Believed", "BelievedHypothesis", "Change", "Said"]


class Belief(TypedDict):
    """What the evidence says of a hypothesis; the keys mean what they mean of a hypothesis."""

    statement: str
    prior: float
    status: str
    decided_by: str | None
    confidence: float
    e_support: float
    e_refute: float
    false_alarm_bound: float | None
    evidence_count: int
    counting: int | None
    effect: Effect | None
    sentence: str | None


class Said(TypedDict):
    """What the record itself said then; the confidence is null where no later row keeps it."""

    status: str
    confidence: float | None


class Change(TypedDict):
    """One event since; `subject` is the record that it is about, `seq` its number in `perpetual events`."""

    seq: int
    time: str
    actor: str
    kind: str
    subject: str
    text: str


class BelievedHypothesis(TypedDict):
    """A hypothesis then and now.

    `then` is the evidence of then, under the methodology of then, by the rules of today. `said` is what the record said
    at that time. `differs` is true where the two are not the same: then the rules have changed since.
    """

    id: str
    said: Said
    then: Belief
    now: Belief
    differs: bool
    changes: list[Change]
    changes_left: int


class Believed(TypedDict):
    """The record after the event `seq`, beside the record now.

    `added` are the hypotheses that came later, `changes` what concerns all of them: the methodology and the rules.
    """

    at: str
    by: str
    seq: int
    seq_now: int
    items: list[BelievedHypothesis]
    next_cursor: str | None
    added: list[str]
    changes: list[Change]

"""What a call to a thinker may cost, booked in the lab's budget under its caps of a day; the one place that books.

Before a call its worst case is booked: the tokens of the question and of the longest answer, and the dearest call of
the day. Once there is a reply, what it says counts instead. A call without a reply stays booked: the service may have
charged for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import Refused
from perpetual_thinkers.records import REPLY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from perpetual import Lab
    from perpetual_thinkers.base import Reply, Request

__all__ = ["book", "day_of", "settle", "worst_case"]

_BYTES_PER_TOKEN = 3  # of English and JSON about 4; less is more tokens
_SCHEMA_TOKENS = 600


def day_of(now: datetime) -> str:
    """Returns the local day of a time, as 2026-11-27."""
    return now.astimezone().date().isoformat()


def worst_case(lab: Lab, request: Request, day: str) -> dict[str, float]:
    """Returns what a call may use of each currency."""
    tokens = request.max_tokens + len(request.state.encode()) // _BYTES_PER_TOKEN + _SCHEMA_TOKENS
    dearest = max((float(row["usd"] or 0.0) for row in lab.records(REPLY).find(day=day)), default=0.0)
    return {"calls": 1, "tokens": tokens, "usd": max(float(str(lab.options("thinkers")["usd_per_call"])), dearest)}


def book(lab: Lab, key: str, uses: Mapping[str, float]) -> str | None:
    """Books the worst case of a call under its key; returns why it may not be made today, or None."""
    try:
        lab.budget.debit(key, uses)
    except Refused as problem:
        return problem.message
    return None


def settle(lab: Lab, key: str, booked: Mapping[str, float], reply: Reply) -> None:
    """Books what a call has used; what its reply does not say stays as it was booked."""
    used = dict(booked)
    if reply.tokens_out is not None:
        used["tokens"] = reply.tokens_out + (reply.tokens_in or 0)
    if reply.usd is not None:
        used["usd"] = reply.usd
    lab.budget.reconcile(key, used)

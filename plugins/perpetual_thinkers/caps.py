"""Caps of a local day on calls, tokens and money; the one place that says how they are counted.

Before a call its worst case is reserved in the ledger `call`: the tokens of the question and of the longest answer,
and the dearest call of the day. Once there is a reply, what it says counts instead. A call without a reply keeps its
reservation: the service may have charged for it.

The caps are keys of the methodology: `max_calls_per_day`, `max_tokens_per_day` and `max_usd_per_day` where the lab has
them, else the plugin's own keys of these names.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from perpetual_thinkers.records import CALL, REPLY

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_thinkers.base import Request

__all__ = ["Limits", "Spent", "day_of", "limits_of", "refusal", "spent_on", "worst_case"]

_BYTES_PER_TOKEN = 3  # of English and JSON about 4; less is more tokens
_SCHEMA_TOKENS = 600


@dataclass(frozen=True, slots=True)
class Limits:
    """The caps of a day; None is no cap."""

    calls: int | None
    tokens: int | None
    usd: float | None


@dataclass(frozen=True, slots=True)
class Spent:
    """What a day's calls have cost, reservations of calls without a reply included; `dearest_usd` is of one call."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    dearest_usd: float = 0.0


def day_of(now: datetime) -> str:
    """Returns the local day of a time, as 2026-11-27."""
    return now.astimezone().date().isoformat()


def limits_of(lab: Lab) -> Limits:
    """Returns the caps in force."""
    calls, tokens, usd = (_key(lab, f"max_{what}_per_day") for what in ("calls", "tokens", "usd"))
    return Limits(None if calls is None else int(calls), None if tokens is None else int(tokens), usd)


def _key(lab: Lab, name: str) -> float | None:
    methodology = lab.config.methodology
    value = methodology[name if methodology.knows(name) else f"thinkers.{name}"]
    return None if value is None else float(value)


def spent_on(lab: Lab, day: str) -> Spent:
    """Returns what the calls of a day have cost."""
    replies = {(one["thought"], one["attempt"]): one for one in lab.records(REPLY).find(day=day)}
    tokens, usd, dearest, calls = 0, 0.0, 0.0, lab.records(CALL).find(day=day)
    for call in calls:
        reply = replies.get((call["thought"], call["attempt"]))
        tokens += _tokens(call, reply)
        cost = _usd(call, reply)
        usd, dearest = usd + cost, max(dearest, cost)
    return Spent(len(calls), tokens, usd, dearest)


def _tokens(call: Record, reply: Record | None) -> int:
    if reply is None or reply["tokens_out"] is None:
        return int(call["tokens"])
    known = reply["tokens_in"]
    return int(reply["tokens_out"]) + (int(known) if known is not None else 0)


def _usd(call: Record, reply: Record | None) -> float:
    return float(call["usd"] if reply is None or reply["usd"] is None else reply["usd"])


def worst_case(request: Request, spent: Spent, usd_per_call: float) -> tuple[int, float]:
    """Returns the tokens and the US dollars that a call may cost."""
    tokens = request.max_tokens + len(request.state.encode()) // _BYTES_PER_TOKEN + _SCHEMA_TOKENS
    return tokens, max(usd_per_call, spent.dearest_usd)


def refusal(limits: Limits, spent: Spent, tokens: int, usd: float) -> str | None:
    """Returns why one more call would go beyond a cap today, or None."""
    if limits.calls is not None and spent.calls + 1 > limits.calls:
        return f"max_calls_per_day is {limits.calls}, and {spent.calls} are used"
    if limits.tokens is not None and spent.tokens + tokens > limits.tokens:
        return f"max_tokens_per_day is {limits.tokens}, {spent.tokens} are used, and a call may take {tokens}"
    if limits.usd is not None and spent.usd + usd > limits.usd:
        return f"max_usd_per_day is {limits.usd:g}, {spent.usd:g} are used, and a call may cost {usd:g}"
    return None

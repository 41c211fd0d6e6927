"""Where the thinker of a project stands, from the record and the configuration alone."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from perpetual.toolkit.units import iso
from perpetual_thinkers.breaker import breaker_state
from perpetual_thinkers.caps import day_of
from perpetual_thinkers.records import BREAKER, STATES, THOUGHT

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_thinkers.documents import ThinkersState

__all__ = ["in_force", "state_of", "utc_now"]


def utc_now() -> datetime:
    """Returns the present time."""
    return datetime.now(UTC)


def in_force(lab: Lab) -> str:
    """Returns the bare name of the thinker that the configuration chooses."""
    return lab.config.chosen(lab.registry.slot("thinker")).rpartition("/")[2]


def state_of(lab: Lab, now: datetime | None = None) -> ThinkersState:
    """Returns the thinker in force, what it has used today, and whether its breaker is open."""
    now = now or utc_now()
    name, day = in_force(lab), day_of(now)
    breaker, methodology = breaker_state(lab, name, now), lab.config.methodology
    capped = [row["cap"] for row in lab.records(BREAKER).find(thinker=name) if row["capped_on"] == day]
    waits = breaker.until is not None and breaker.until > now
    state, reason, until = "working", None, None
    if name == "none":
        state = "none"
    elif waits:
        state, reason, until = "open" if breaker.is_open else "waiting", breaker.error, breaker.until
    elif capped:
        state, reason = "capped", capped[0]
    records = lab.records(THOUGHT)
    counts = Counter({one: len(records.find(state=one)) for one in STATES})
    return {
        "thinker": name,
        "state": state,
        "reason": reason,
        "until": None if until is None else iso(until),
        "failures": breaker.failures,
        "calls_today": int(lab.budget.used_of_day("calls")),
        "tokens_today": int(lab.budget.used_of_day("tokens")),
        "usd_today": lab.budget.used_of_day("usd"),
        "max_calls_per_day": methodology["max_calls_per_day"],
        "max_tokens_per_day": methodology["max_tokens_per_day"],
        "max_usd_per_day": methodology["max_usd_per_day"],
        "thoughts": {one: count for one, count in counts.items() if count},
    }

"""The time that a digest is about: from which event to which."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import UsageError
from perpetual.toolkit.units import iso, whole_number
from perpetual_report.where import time_of

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Span", "span_of"]

_HINT = "so long ago as 12h or 2d, a time as 2026-11-25T20:00, or an event's number; see `perpetual events`"


class Span(NamedTuple):
    """The events after `first` up to `last`; `since` and `until` are times as the record writes them."""

    first: int
    last: int
    since: str
    until: str


def span_of(lab: Lab, text: str, now: datetime) -> Span:
    """Returns the span from the moment that a text names to now; reads a few events, however many there are.

    Raises:
        UsageError: for what names no moment, and for one in the future.
    """
    if not isinstance(text, str):
        raise UsageError(f"--since must be a text, not {text!r:.60}", hint=_HINT)
    last, until = lab.feed.last(), iso(now)
    words = text.strip()
    number = whole_number(words.removeprefix("seq:"))
    if number is not None:
        if number > last:
            raise UsageError(f"the record has {last} events, and none numbered {words[:40]}", hint=_HINT)
        return Span(number, last, _time_of_event(lab, max(number, 1)) or until, until)
    if _is_number(words):
        raise UsageError(f"--since is no event's number: {words[:40]}", hint=_HINT)
    try:
        since = time_of(words, now, "--since")
    except UsageError as problem:
        raise UsageError(problem.message, hint=_HINT) from problem
    except (OverflowError, ValueError) as problem:  # a year that no calendar has in UTC
        raise UsageError(f"--since is beyond all times: {words[:40]!r}", hint=_HINT) from problem
    if since > until:
        raise UsageError(f"--since is in the future: {words[:40]!r}", hint=_HINT)
    first = _before(lab, since, last)
    began = _time_of_event(lab, 1)
    return Span(first, last, max(since, began) if began else until, until)


def _is_number(words: str) -> bool:
    """Returns whether a text is a number without a unit: seconds are written with theirs here."""
    try:
        float(words)
    except ValueError:
        return False
    return True


def _time_of_event(lab: Lab, number: int) -> str | None:
    found = lab.events(since=number - 1, limit=1)
    return found[0].time if found else None


def _before(lab: Lab, time: str, last: int) -> int:
    """Returns the number of the last event before that time."""
    low, high = 0, last
    while low < high:
        middle = (low + high + 1) // 2
        found = _time_of_event(lab, middle)
        low, high = (middle, high) if found is not None and found < time else (low, middle - 1)
    return low

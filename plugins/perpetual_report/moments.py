"""A moment of the record as people name it: a time, a duration before now, an event's number or a commit.

Imported by `verify` and by the plugin `believed`; reads through the lab alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from perpetual.api import UsageError
from perpetual.toolkit.units import iso, seconds_of, whole_number
from perpetual_report.commits import committed_at

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Moment", "debits_at", "moment_of"]

_AGO = re.compile(r"(an?|\d{1,9}) (second|minute|hour|day|week)s? ago")
_UNITS = {"second": "1s", "minute": "1m", "hour": "1h", "day": "1d", "week": "7d"}
_HINT = "a time as 2026-11-25 or 2026-11-25T10:00+01:00, so long ago as 3d, `2 days ago`, an event as seq:120"
_ENDED = ("done", "failed", "killed", "timeout", "lost")


@dataclass(frozen=True, slots=True)
class Moment:
    """The record after the event `seq`; `time` is what was asked for, or that event's time (ISO 8601 with an offset).

    `by` says what named it: time | seq | commit.
    """

    seq: int
    time: str
    by: str


def moment_of(lab: Lab, text: str, *, now: datetime | None = None) -> Moment:
    """Returns the moment that a text names.

    A time without an offset is local. A date is the start of that day.

    Raises:
        UsageError: for what names no moment, and for one before the record's first event or after now.
    """
    if not isinstance(text, str):
        raise UsageError(f"at must be a text, not {text!r:.60}", hint=_HINT)
    now = now or datetime.now(UTC)
    words = " ".join(text.split())
    head, colon, rest = re.sub(r"\Aseq ", "seq:", words).partition(":")
    if colon and head == "seq":
        return _numbered(lab, rest, words)
    by = "time"
    if colon and head == "commit":
        found, by = committed_at(lab.root, rest), "commit"
    else:
        found = _time(words, now)
    if found > now:
        raise UsageError(f"{_local(found)} is in the future", hint="a moment of the past, or none for now")
    seq = _before(lab, iso(found))
    if seq == 0:
        first = lab.events(limit=1)
        began = f"it begins at {_local(datetime.fromisoformat(first[0].time))}" if first else "it is empty"
        raise UsageError(f"the record has nothing as early as {_local(found)}: {began}", hint="a later moment")
    return Moment(seq, _local(found), by)


def _numbered(lab: Lab, digits: str, words: str) -> Moment:
    number, last = whole_number(digits), lab.feed.last()
    if number is None:
        raise UsageError(f"{words[:40]!r} names no event", hint="for example seq:120; see `perpetual events`")
    if not 1 <= number <= last:
        raise UsageError(f"the record has {last} events, and none numbered {number}", hint="see `perpetual events`")
    (event,) = lab.events(since=number - 1, limit=1)
    return Moment(number, _local(datetime.fromisoformat(event.time)), "seq")


def _time(words: str, now: datetime) -> datetime:
    plain = words.lower()
    if plain == "now":
        return now
    if plain == "yesterday":
        plain = "1 day ago"
    ago = _AGO.fullmatch(plain)
    try:
        if ago is not None:
            return now - timedelta(seconds=(whole_number(ago[1]) or 1) * seconds_of(_UNITS[ago[2]], "--at"))
        try:
            found = datetime.fromisoformat(words)
        except ValueError:
            return now - timedelta(seconds=seconds_of(words, "--at"))
        return found.astimezone(UTC)  # a naive time is taken as local
    except UsageError as problem:
        raise UsageError(f"--at is no moment: {words[:40]!r}", hint=_HINT) from problem
    except (OverflowError, OSError, ValueError) as problem:  # no clock goes there
        raise UsageError(f"--at is beyond all times: {words[:40]!r}", hint=_HINT) from problem


def _before(lab: Lab, time: str) -> int:
    """Returns the seq of the last event up to that time; reads a few events, however many there are."""
    low, high = 0, lab.feed.last()
    while low < high:
        middle = (low + high + 1) // 2
        (event,) = lab.events(since=middle - 1, limit=1)
        low, high = (middle, high) if event.time <= time else (low, middle - 1)
    return low


def _local(moment: datetime) -> str:
    """Returns local time with its offset from UTC, to the millisecond where it has any."""
    local = moment.astimezone()
    return local.isoformat(timespec="milliseconds" if local.microsecond else "seconds")


def debits_at(lab: Lab, seq: int) -> int:
    """Returns how many rows the budget's ledger had after the event `seq`: it has no number of its own."""
    if seq >= lab.feed.last():
        return len(lab.budget.rows())
    found = lab.events(since=seq - 1, limit=1) if seq else []
    time = found[0].time if found else ""
    # A row of the event's own millisecond may be later: what settles a run that had not ended is.
    later = {
        event.subject
        for event in lab.events(since=seq)
        if event.kind == "run_created" or (event.kind == "run_status" and event.payload["to"] in _ENDED)
    }
    count = 0
    for row in lab.budget.rows():
        if row.created_at > time or (row.created_at == time and row.run_id in later):
            break
        count += 1
    return count

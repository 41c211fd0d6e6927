"""Local time of the machine: quiet hours, and calendar days. Floor 0.

Quiet hours are what a clock on the wall shows, so they hold across changes to and from daylight-saving time: an hour
that the clock skips is no quiet hour, and one that it shows twice is quiet both times.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo

from perpetual.toolkit.config_keys import texts

__all__ = ["day_of", "fewer_are_weaker", "minutes_of", "next_day", "quiet_until"]

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = 24 * 60  # minutes
_WEEK = 7 * _DAY
_FORM = re.compile(r"(?:([a-z]{3})(?:-([a-z]{3}))?\s+)?(\d\d?):(\d\d)\s*-\s*(\d\d?):(\d\d)")


def minutes_of(value: object) -> frozenset[int]:
    """Returns the minutes of the week, from Monday 00:00, that quiet hours cover: null, a text or a list of texts.

    Hours that end no later than they begin end on the next day; a day before them is that on which they begin.

    Raises:
        ValueError: saying what is wrong with which text, or that no minute of the week is left.
    """
    given = [value] if isinstance(value, str) else [] if value is None else texts(value)
    found = frozenset(minute for text in given for minute in _minutes(text))
    if len(found) == _WEEK:
        raise ValueError("the whole week is quiet, so nothing would ever be launched")
    return found


def _minutes(text: str) -> list[int]:
    match = _FORM.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f'{text!r} is no time of day, such as "22:00-07:00" or "mon-fri 09:00-17:00"')
    for name in match.group(1, 2):
        if name is not None and name not in _DAYS:
            raise ValueError(f"{name!r} in {text!r} is no day: choose {', '.join(_DAYS)}")
    hour, minute, end_hour, end_minute = map(int, match.group(3, 4, 5, 6))
    start, end = 60 * hour + minute, 60 * end_hour + end_minute
    if max(minute, end_minute) > 59 or start >= _DAY or end > _DAY:
        raise ValueError(f"{text!r} is no time of day: hours go from 00:00 to 24:00")
    if start == end:
        raise ValueError(f"{text!r} ends when it begins; a whole day is 00:00-24:00")
    first, last = (_DAYS.index(match[1]), _DAYS.index(match[2] or match[1])) if match[1] else (0, 6)
    days = range(first, first + (last - first) % 7 + 1)
    return [(day * _DAY + start + n) % _WEEK for day in days for n in range((end - start) % _DAY or _DAY)]


def fewer_are_weaker(value: object, base: object) -> bool:
    """Returns whether some minute that was quiet no longer is."""
    return not minutes_of(base) <= minutes_of(value)


def quiet_until(value: object, now: datetime, zone: tzinfo | None = None) -> datetime | None:
    """Returns when the quiet hours end in which `now` lies, in UTC; None where it lies in none.

    Args:
        value: as for `minutes_of`.
        now: with its time zone.
        zone: whose clock counts; None is the machine's.
    """
    quiet = minutes_of(value)

    def covers(moment: datetime) -> bool:
        local = moment.astimezone(zone)
        return local.weekday() * _DAY + local.hour * 60 + local.minute in quiet

    start = end = now.astimezone(UTC).replace(second=0, microsecond=0)
    while covers(end):  # by the minute, since the clock may be changed on the way
        end += timedelta(minutes=1)
    return end if end > start else None


def day_of(now: datetime, zone: tzinfo | None = None) -> str:
    """Returns the calendar day of the machine, or of a zone, as YYYY-MM-DD."""
    return now.astimezone(zone).date().isoformat()


def next_day(now: datetime, zone: tzinfo | None = None) -> datetime:
    """Returns when the next calendar day begins, in UTC."""
    day = now.astimezone(zone).date() + timedelta(days=1)
    return datetime.combine(day, time(), zone).astimezone(UTC)  # without a zone, the machine's of then

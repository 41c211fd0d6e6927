"""Numbers with units, times and identifiers as people write them. Floor 0, used by every face and department."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from perpetual.errors import UsageError

__all__ = [
    "LONGEST_REASON",
    "LONGEST_S",
    "bounded",
    "bytes_of",
    "counted",
    "finite",
    "hours_of",
    "identifier",
    "iso",
    "posix_of",
    "seconds_of",
    "shown_bound",
    "shown_bytes",
    "shown_hours",
    "shown_number",
    "shown_time",
    "start_of",
    "whole_number",
]

# Characters of a statement or a reason: each is listed, and read by agents whose context is short. More is for a note.
LONGEST_REASON = 4_000
LONGEST_S = 10 * 365 * 86400.0  # ten years: a longer limit is a slip, and timers overflow somewhere beyond
_MOST_DIGITS = 18  # fewer than an index of a database has room for
_SPELT_OUT = 1e9  # below it a large number is written in full: 408960, and not 4.0896e+05
_NUMBER = re.compile(r"\s*+([+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)\s*+([A-Za-z]*+)\s*+\Z")
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30,
          "tib": 2.0**40, "k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40}  # fmt: skip


def _measure(text: str, what: str, example: str, units: Mapping[str, float], bare: float, names: str) -> float:
    """Returns the number in `text` times its unit, or times `bare` where it has none."""
    match = _NUMBER.match(text)
    if match is None:
        raise UsageError(f"{what}: {text!r} is no number", hint=f"for example {example}")
    unit = match[2].lower()
    if unit and unit not in units:
        raise UsageError(f"{what}: unknown unit {unit!r} in {text!r}", hint=names)
    size = float(match[1]) * units.get(unit, bare)
    if not math.isfinite(size) or size < 0:
        raise UsageError(f"{what} must be a finite number of at least 0, not {text!r}", hint=f"for example {example}")
    return size


def bounded(text: str, what: str, most: int = LONGEST_REASON) -> str:
    """Returns the text as it is.

    Raises:
        UsageError: if it has more than `most` characters.
    """
    if len(text) > most:
        raise UsageError(
            f"{what} has {len(text):,} characters, and at most {most:,} are kept",
            hint="say it shorter, and put the rest into a note: perpetual memory write PATH < FILE",
        )
    return text


def seconds_of(text: str, what: str) -> float:
    """Seconds in `90`, `90s`, `30m`, `2h` or `1d`.

    Raises:
        UsageError: for anything else, negative numbers and unknown units included.
    """
    return _measure(text, what, "90s, 30m or 2h", _SECONDS, 1.0, "s, m, h or d, as in 90s or 2h")


def hours_of(text: str, what: str) -> float:
    """Hours in `1.5` (hours), `90s`, `30m`, `2h` or `1d`; raises like `seconds_of`."""
    return _measure(text, what, "0.5, 30m or 2h", _SECONDS, 3600.0, "s, m, h or d, as in 30m or 2h") / 3600.0


def bytes_of(text: str, what: str) -> int:
    """Bytes in `1000000`, `24GB` or `24GiB`; raises like `seconds_of`."""
    return int(_measure(text, what, "24GiB", _BYTES, 1.0, "B, kB, MB, GB, KiB, MiB or GiB"))


def finite(
    value: float, what: str, *, minimum: float | None = None, above: float | None = None, maximum: float | None = None
) -> float:
    """Returns the number itself.

    Raises:
        UsageError: if it is NaN, infinite or beyond its limits.
    """
    try:
        is_finite = math.isfinite(value)
    except TypeError as problem:
        raise UsageError(f"{what} must be a finite number, not {value!r}") from problem
    except OverflowError as problem:  # a whole number, which may have more digits than a message can
        raise UsageError(f"{what} must be a finite number, and this one is beyond all of them") from problem
    if not is_finite:
        raise UsageError(f"{what} must be a finite number, not {value}")
    if minimum is not None and value < minimum:
        raise UsageError(f"{what} must be at least {minimum:g}, not {value:g}")
    if above is not None and value <= above:
        raise UsageError(f"{what} must be above {above:g}, not {value:g}")
    if maximum is not None and value > maximum:
        raise UsageError(f"{what} must be at most {maximum:g}, not {value:g}")
    return float(value)


def iso(moment: datetime) -> str:
    """Returns UTC, ISO 8601 with milliseconds and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def posix_of(text: str) -> float:
    """Returns POSIX seconds of a time that `iso` wrote."""
    return datetime.fromisoformat(text).timestamp()


def identifier(text: str) -> str:
    """Returns an id as it is stored: `H1` is `h1`."""
    return text.strip().lower()


def counted(count: int, one: str, many: str | None = None) -> str:
    """Returns `1 run`, `2 runs`: how many there are of something; `many` where the plural is not `one` with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def shown_number(value: float, form: str = ".3g") -> str:
    """Returns the value in a format of Python's, but large numbers in full, and no sign before a rounded nothing."""
    text = format(value, form)
    if "e+" in text and abs(value) < _SPELT_OUT:
        return format(value, "+.0f" if form.startswith("+") else ".0f")
    return text[1:] if text[:1] in ("+", "-") and not any(digit in text for digit in "123456789") else text


def shown_bound(bound: float | None) -> str:
    """Returns a false-alarm bound for people; `none` of a verdict by hand, which bounds nothing."""
    return "none" if bound is None else format(bound, ".2g")


def shown_bytes(number_bytes: int, *, up: bool = False) -> str:
    """Returns a size for people, rounded down to what is surely there, or up to what is surely enough."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if number_bytes >= unit:
            tenths = -(-number_bytes * 10 // unit) if up else number_bytes * 10 // unit
            return f"{tenths / 10:g} {name}"
    return f"{number_bytes} bytes"


def shown_time(time: str | None) -> str:
    """Returns a record's time to the second, for people: `2026-11-22 08:45:11`; it is UTC, as all of them are."""
    return "-" if time is None else time[:19].replace("T", " ")


def shown_hours(hours: float | None) -> str:
    """Hours for people: `-`, `3.2 s`, `4.1 min` or `2.50 h`."""
    if hours is None:
        return "-"
    seconds = hours * 3600.0
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{hours:.2f} h"


def whole_number(text: str) -> int | None:
    """Returns the number that a text of at most 18 ASCII digits writes, and None for any other text.

    Python's `int` also takes spaces, underscores, signs and digits of other scripts, and raises ValueError for
    thousands of digits.
    """
    return int(text) if len(text) <= _MOST_DIGITS and text.isascii() and text.isdecimal() else None


def start_of(cursor: str | None, *, most: int | None = None) -> int:
    """Returns the number after which a page starts: the `next_cursor` of the page before, 0 for the first.

    Raises:
        UsageError: for what is no cursor, and for one above `most`.
    """
    found = 0 if cursor is None else whole_number(cursor)
    if found is None or (most is not None and found > most):
        shown = cursor if cursor is None or len(cursor) <= 40 else cursor[:40] + "..."
        raise UsageError(f"{shown!r} is no cursor", hint="use the next_cursor of the page before")
    return found

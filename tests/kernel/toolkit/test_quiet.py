"""Quiet hours and calendar days by a local clock: across midnight, weekdays, and changes of the clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from perpetual.errors import ConfigError
from perpetual.lab.methodology import Methodology
from perpetual.toolkit.quiet import day_of, fewer_are_weaker, minutes_of, next_day, quiet_until

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = "22:00-07:00"


def _until(value: object, local: str, *, fold: int = 0) -> str | None:
    """When it ends, in Berlin's time, for a moment in Berlin's time."""
    now = datetime.fromisoformat(local).replace(tzinfo=BERLIN, fold=fold)
    until = quiet_until(value, now, BERLIN)
    return None if until is None else until.astimezone(BERLIN).isoformat(timespec="minutes")


@pytest.mark.parametrize(
    ("value", "local", "until"),
    [
        (None, "2026-11-25T23:00", None),
        ([], "2026-11-25T23:00", None),
        (NIGHT, "2026-11-25T21:59:59", None),
        (NIGHT, "2026-11-25T22:00", "2026-11-26T07:00+01:00"),
        (NIGHT, "2026-11-26T06:59:59", "2026-11-26T07:00+01:00"),
        (NIGHT, "2026-11-26T07:00", None),
        ("9:00 - 17:00", "2026-11-26T12:30:15", "2026-11-26T17:00+01:00"),
        # Days are those on which the hours begin: Friday's night goes on into Saturday, and Sunday has none.
        ("mon-fri 22:00-07:00", "2026-11-28T06:00", "2026-11-28T07:00+01:00"),
        ("mon-fri 22:00-07:00", "2026-11-29T23:00", None),
        ("sun 22:00-07:00", "2026-11-30T01:00", "2026-11-30T07:00+01:00"),
        ("SAT-MON 00:00-24:00", "2026-11-29T12:00", "2026-12-01T00:00+01:00"),
        ("fri 00:00-24:00", "2026-11-26T23:59", None),
        # Hours that touch or overlap are one.
        ([NIGHT, "mon-fri 06:00-09:00"], "2026-11-26T23:00", "2026-11-27T09:00+01:00"),
        ([NIGHT, "mon-fri 06:00-09:00"], "2026-11-27T23:00", "2026-11-28T07:00+01:00"),
        # The night of 29 March has an hour less, and that of 25 October one more.
        (NIGHT, "2026-03-28T23:00", "2026-03-29T07:00+02:00"),
        (NIGHT, "2026-10-24T23:00", "2026-10-25T07:00+01:00"),
        # What ends in the hour that is skipped ends where the clock is set; what begins in it begins there.
        ("01:00-02:30", "2026-03-29T01:30", "2026-03-29T03:00+02:00"),
        ("02:30-05:00", "2026-03-29T03:00", "2026-03-29T05:00+02:00"),
        ("02:15-02:45", "2026-03-29T03:10", None),
    ],
)
def test_quiet_hours_end_by_the_clock_on_the_wall(value: object, local: str, until: str | None) -> None:
    assert _until(value, local) == until


def test_an_hour_that_comes_twice_is_quiet_twice() -> None:
    assert _until("02:15-02:45", "2026-10-25T02:20") == "2026-10-25T02:45+02:00"
    assert _until("02:15-02:45", "2026-10-25T02:50") is None
    assert _until("02:15-02:45", "2026-10-25T02:20", fold=1) == "2026-10-25T02:45+01:00"


def test_the_end_is_in_utc() -> None:
    until = quiet_until(NIGHT, datetime(2026, 11, 25, 23, 30, tzinfo=BERLIN), BERLIN)
    assert until == datetime(2026, 11, 26, 6, tzinfo=UTC)
    assert until.tzinfo is UTC


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("22:00", "'22:00' is no time of day"),
        ("", "'' is no time of day"),
        ("25:00-07:00", "hours go from 00:00 to 24:00"),
        ("22:60-07:00", "hours go from 00:00 to 24:00"),
        ("24:00-07:00", "hours go from 00:00 to 24:00"),
        ("07:00-07:00", "ends when it begins"),
        ("foo 22:00-07:00", "'foo' in 'foo 22:00-07:00' is no day: choose mon"),
        ("mon-fry 22:00-07:00", "'fry'"),
        ("mon, tue 22:00-07:00", "is no time of day"),
        (["22:00-07:00", "soon"], "'soon' is no time of day"),
        ("00:00-24:00", "nothing would ever be launched"),
        (["00:00-12:00", "12:00-24:00"], "nothing would ever be launched"),
    ],
)
def test_what_is_no_time_is_named(value: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        minutes_of(value)
    path = tmp_path / "methodology.yaml"
    path.write_text(f"# a comment\nquiet_hours: {value if isinstance(value, list) else repr(value)}\n")
    with pytest.raises(ConfigError) as refused:
        Methodology(path)
    assert words in refused.value.message
    assert "methodology.yaml:2" in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("value", ["7", "{a: 1}", "[1.5]", "true"])
def test_what_is_no_text_is_refused(value: str, tmp_path: Path) -> None:
    path = tmp_path / "methodology.yaml"
    path.write_text(f"quiet_hours: {value}\n")
    with pytest.raises(ConfigError, match="a text or a list of texts or null"):
        Methodology(path)


def test_fewer_quiet_hours_are_weaker() -> None:
    assert fewer_are_weaker(None, NIGHT)
    assert fewer_are_weaker("23:00-07:00", NIGHT)
    assert not fewer_are_weaker("21:00-08:00", NIGHT)
    assert not fewer_are_weaker(["22:00-00:00", "00:00-07:00"], NIGHT)
    assert not fewer_are_weaker(NIGHT, None)


def test_a_day_is_that_of_the_local_calendar() -> None:
    evening = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
    assert day_of(evening, BERLIN) == "2026-03-29"
    assert day_of(evening, ZoneInfo("America/Los_Angeles")) == "2026-03-28"
    assert next_day(evening, BERLIN) == datetime(2026, 3, 29, 22, tzinfo=UTC)  # a day of 23 hours
    assert next_day(datetime(2026, 3, 28, 22, 59, tzinfo=UTC), BERLIN) == datetime(2026, 3, 28, 23, tzinfo=UTC)

"""Back-off and breaker: a thinker that fails is asked later, and after three failures in a row not for ten minutes.

What it knows is one record, so that a restart forgets neither, and the status of another process shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from perpetual.toolkit.fence import neutralise
from perpetual.toolkit.units import iso
from perpetual_thinkers.records import BREAKER, CAPPED, FAILING, RECOVERED

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["CLOSED", "FAILURES", "OPEN_S", "Breaker", "State", "backoff_s", "breaker_state"]

FAILURES = 3  # in a row, after which it opens
OPEN_S = 600.0
_FIRST_S, _LONGEST_S = 5.0, 300.0
_LONGEST_ERROR = 300


@dataclass(frozen=True, slots=True)
class State:
    """Failures in a row, until when nothing is asked, whether the breaker is open, and the last error."""

    failures: int = 0
    until: datetime | None = None
    is_open: bool = False
    error: str | None = None


CLOSED = State()


def backoff_s(failures: int, random: Callable[[], float]) -> float:
    """Returns the seconds to wait after so many failures in a row, 1 or more; `random` answers in [0, 1)."""
    return min(_LONGEST_S, _FIRST_S * 2.0 ** min(failures - 1, 20)) * (0.5 + random())


def breaker_state(lab: Lab, thinker: str, now: datetime) -> State:
    """Returns the state for a thinker; another one starts anew, and a time that has passed opens the way for a try."""
    rows = lab.records(BREAKER).find(thinker=thinker)
    if not rows or not rows[0]["failures"]:
        return CLOSED
    row = rows[0]
    until = datetime.fromisoformat(row["until"]) if row["until"] else None
    waits = until is not None and until > now
    return State(row["failures"], until, bool(row["is_open"]) and waits, row["error"])


class Breaker:
    """Writes the state of one thinker.

    Args:
        random: answers in [0, 1), for the back-off.
    """

    def __init__(self, lab: Lab, thinker: str, random: Callable[[], float]) -> None:
        self._lab, self._thinker, self._random = lab, thinker, random

    def state(self, now: datetime) -> State:
        """Returns the state now."""
        return breaker_state(self._lab, self._thinker, now)

    def failed(self, error: str, now: datetime) -> State:
        """Counts a failure; an event says so when the breaker opens first."""
        before = self.state(now)
        failures = before.failures + 1
        opens = failures >= FAILURES
        wait_s = OPEN_S if opens else backoff_s(failures, self._random)
        found = State(failures, now + timedelta(seconds=wait_s), opens, neutralise(error, _LONGEST_ERROR))
        with self._lab.together():
            self._write(found)
            if failures == FAILURES:  # it opens again after each further failure, which is no news
                payload = {"error": found.error, "failures": failures, "until": _text(found.until),
                           "instead": "the rules analyse and propose alone"}  # fmt: skip
                self._lab.feed.emit(FAILING, self._thinker, payload)
        return found

    def succeeded(self, now: datetime) -> None:
        """Closes the breaker; an event says so where it was open."""
        before = self.state(now)
        if not before.failures:
            return
        with self._lab.together():
            self._write(CLOSED)
            if before.failures >= FAILURES:
                self._lab.feed.emit(RECOVERED, self._thinker, {})

    def capped(self, why: str, day: str) -> None:
        """Says once a day that a cap is reached: nothing is asked until the next one."""
        rows = self._lab.records(BREAKER).find(thinker=self._thinker)
        if rows and rows[0]["capped_on"] == day:
            return
        with self._lab.together():
            self._put(capped_on=day, cap=why)
            self._lab.feed.emit(CAPPED, self._thinker, {"reason": why, "instead": "the rules go on alone"})

    def _write(self, state: State) -> None:
        self._put(failures=state.failures, until=_text(state.until), is_open=state.is_open, error=state.error)

    def _put(self, **fields: object) -> None:
        records = self._lab.records(BREAKER)
        rows = records.find(thinker=self._thinker)
        if rows:
            records.update(rows[0].id, expect_revision=None, **fields)
        else:
            kept: dict[str, object] = {"thinker": self._thinker, "failures": 0, "is_open": False, **fields}
            records.add(idempotency_key=None, **kept)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment.astimezone(UTC))

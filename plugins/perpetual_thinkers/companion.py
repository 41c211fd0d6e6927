"""The companion of the daemon that asks the thinker: it comments on runs and proposes, beside the loop."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from perpetual_daemon.companion import Companion
from perpetual_thinkers.acting import acting
from perpetual_thinkers.state import in_force, utc_now

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.slots.service import StopSignal
    from perpetual_thinkers.thinking import Thinking

__all__ = ["ThinkerCompanion", "build"]

_LOOK_S = 1.0
_IDLE_S = 5.0  # the same where there is no thinker; the daemon starts this anew where the configuration has changed
_SWEEP_S = 300.0  # after which it looks although nothing has changed: a new day has new caps


class ThinkerCompanion(Companion):
    """Turns `Thinking` while the daemon runs; a changed configuration counts at the next look.

    Args:
        now: returns the present time, in UTC.
        draw: answers in [0, 1), for the back-off.
    """

    def __init__(self, *, now: Callable[[], datetime] = utc_now, draw: Callable[[], float] = random.random) -> None:
        self._now, self._draw = now, draw
        self._trouble: str | None = None
        self._idle_at: str | None = None  # the state of the record at which there was nothing to do

    def run(self, lab: Lab, stop: StopSignal) -> None:
        """Asks, one question at a time, until `stop` is set.

        Raises:
            NotPermitted: (not_trusted) for a thinker in a held project.
            PluginError: for a thinker that is not installed.
        """
        while not stop.is_set():
            settings = _settings(lab)
            with acting(lab, now=self._now, draw=self._draw) as (own, thinking):
                self._turn(own, thinking, settings, stop)

    def _turn(self, lab: Lab, thinking: Thinking, settings: tuple[str, str], stop: StopSignal) -> None:
        """Works until `stop` is set or the configuration has changed; looks again only where the record has."""
        seen, due, swept_s, is_none = None, False, time.monotonic(), in_force(lab) == "none"
        while not stop.is_set():
            state = lab.feed.state()
            waits = thinking.waits_until() if due else None
            is_late = time.monotonic() > swept_s + _SWEEP_S
            if state is None or state != seen or (due and waits is None) or is_late:
                if _settings(lab) != settings:
                    return
                while not stop.is_set() and thinking.step(stop):
                    state = None
                due = thinking.waits_until() is not None
                self._trouble = thinking.trouble()
                self._idle_at = None if due else state
                seen, swept_s = state, time.monotonic()
            stop.wait(_IDLE_S if is_none else _LOOK_S)

    def is_at_work(self, lab: Lab) -> bool:
        """Returns whether there is a thinker that is well, and has not seen the record as it is or is asked again."""
        if in_force(lab) == "none" or self._trouble is not None:
            return False
        if self._idle_at is None or lab.feed.state() != self._idle_at:
            return True
        return any(question.may_come(lab) for _, question in lab.parts("question"))

    def trouble(self) -> str | None:
        """Returns why the thinker is not asked, None where it works or there is none."""
        return self._trouble


def _settings(lab: Lab) -> tuple[str, str]:
    """Returns the name of the thinker in force and every option of plugins; once they have changed it is built anew."""
    lab.config.reload()
    return in_force(lab), repr(lab.config.sections)


def build(options: Mapping[str, object]) -> ThinkerCompanion:
    """Builds the companion."""
    return ThinkerCompanion()

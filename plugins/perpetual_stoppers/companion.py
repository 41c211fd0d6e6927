"""The companion `early-stop`: judges live runs while the daemon runs, if a stopper is in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError
from perpetual_daemon.companion import Companion
from perpetual_stoppers.judge import Judge

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.slots.service import StopSignal

__all__ = ["EarlyStopCompanion", "build"]

_LOOK_S = 15.0  # between two looks at the curves of live runs


class EarlyStopCompanion(Companion):
    """Judges live runs every few seconds; between runs it reads nothing but the methodology.

    Args:
        look_s: seconds between two looks.
    """

    def __init__(self, *, look_s: float = _LOOK_S) -> None:
        self._look_s = look_s
        self._trouble: str | None = None

    def run(self, lab: Lab, stop: StopSignal) -> None:
        """Works until `stop` is set."""
        judge = Judge(lab)
        while not stop.is_set():
            lab.config.refresh()
            try:
                if judge.active:
                    judge.judge()
                self._trouble = None
            except PerpetualError as problem:  # a name that is no stopper's, or a store that is busy: it is tried again
                self._trouble = problem.message
            stop.wait(self._look_s)

    def trouble(self) -> str | None:
        """Returns what is wrong in one line, or None."""
        return self._trouble


def build(options: Mapping[str, object]) -> EarlyStopCompanion:
    """Builds the companion; it has no options."""
    return EarlyStopCompanion()

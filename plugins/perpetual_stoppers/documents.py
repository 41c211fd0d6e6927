"""Documents of `perpetual early-stop`."""

from __future__ import annotations

from typing import Literal

from perpetual.documents import TypedDict

__all__ = ["EarlyStop", "JudgedRun"]


class JudgedRun(TypedDict):
    """A live run, and whether it is stopped.

    `rung` is the step where that is decided, null while complete runs tell no length; `share_done` is of their steps.
    `verdict`: stopped, would_stop (a dry run), goes_on (it was decided at the rung that it is completed), not_yet (it
    has not come to the rung), past (it is too far for a stop to save much), not_eligible. `why` says it in words.
    """

    run_id: str
    experiment_id: str
    verdict: Literal["stopped", "would_stop", "goes_on", "not_yet", "past", "not_eligible"]
    stopper: str | None
    why: str
    rung: float | None
    share_done: float | None
    complete: int
    stopped: int
    baseline_complete: int


class EarlyStop(TypedDict):
    """What early stopping says of the live runs; `active` are the stoppers in force, none where it is off."""

    active: list[str]
    at: float
    runs: list[JudgedRun]

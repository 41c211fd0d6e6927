"""The rule under which a run that is evidence may be stopped, whatever a stopper says.

The estimate of an arm with stopped runs stands on those that are complete: see `perpetual.science.stopped`. So a share
of the runs is always completed, the first ones among them.
"""

from __future__ import annotations

from perpetual.toolkit.units import counted
from perpetual_stoppers.stopper import StopState

__all__ = ["LEAST_BASELINE", "LEAST_COMPLETE", "LEAST_SHARE", "why_not"]

LEAST_COMPLETE = 2  # runs of the claim, before one may be stopped
LEAST_BASELINE = 4  # complete runs of its baseline
LEAST_SHARE = 1 / 3  # of the runs that are completed


def why_not(state: StopState) -> str | None:
    """Returns why the rule keeps a run going; None where it may be stopped."""
    if state.sort == "search":
        return None
    complete, stopped = len(state.complete), len(state.stopped)
    least = LEAST_BASELINE if state.sort == "baseline" else LEAST_COMPLETE
    if complete < least:
        return f"{counted(complete, 'run')} of the {state.sort} complete, {least} are wanted first"
    if state.sort == "claim" and len(state.others) < LEAST_BASELINE:
        return f"{counted(len(state.others), 'run')} of the baseline complete, {LEAST_BASELINE} are wanted first"
    if complete < LEAST_SHARE * (complete + stopped + 1) - 1e-9:
        return f"{complete} of {complete + stopped} runs of the {state.sort} are complete: one in three is completed"
    return None

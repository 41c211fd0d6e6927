"""Floor 3: the autonomous loop. `cycle(lab)` is one turn of it; the caller decides when the next one comes.

    SCAN -> ANALYSE -> CHECK -> PROPOSE -> APPROVE -> LAUNCH -> NOTE -> CHECK -> REPORT

Every step is made of transactions that may be repeated, so a cycle that was cut off is simply run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpetual.toolkit.crashpoints import step

if TYPE_CHECKING:
    from collections.abc import Collection

    from perpetual.documents.runs import Change
    from perpetual.lab import Lab

__all__ = ["EXITS", "Cycle", "cycle"]

# stop reason -> exit status of the command that ran the loop
EXITS: dict[str, int] = {
    "all_decided": 0,
    "queue_empty": 0,
    "max_cycles": 0,
    "stop_requested": 0,
    "budget_exhausted": 7,
    "waiting_for_approval": 4,
    "no_progress": 8,
    "failure_rate": 9,
    "harness_down": 3,
}


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did. `reason` is a key of `EXITS` once the loop should stop, with `explanation` in words.

    `paused` says why nothing was launched for a while, such as quiet hours; `resumes_at` is when that ends (UTC).
    """

    cycle: int
    changes: tuple[Change, ...]
    evidence: tuple[dict[str, object], ...]
    analysed: tuple[str, ...]
    proposed: tuple[str, ...]
    approved: tuple[str, ...]
    launched: tuple[str, ...]
    open: int
    spent_gpu_hours: float
    reserved_gpu_hours: float
    run_hours: float
    reason: str | None
    explanation: str | None
    paused: str | None = None
    resumes_at: str | None = None


def cycle(lab: Lab, *, number: int = 1, waits_on: Collection[str] = ()) -> Cycle:
    """Runs one cycle and reports it. A stop reason is also written to the event feed.

    Args:
        number: of this cycle, from 1.
        waits_on: reasons on which the caller stays and waits; they are not written as a stop.

    Raises:
        PerpetualError: what a step raises; the cycle may be run again.
    """
    scanned = lab.scan(analyse=False)
    step("loop:scanned")
    lab.loop.heed()
    methodology = lab.config.methodology
    analysed = lab.loop.analyse() if methodology["auto_analyze"] else []
    step("loop:analysed")
    stop = lab.loop.halt_reason()
    proposed = lab.loop.propose() if stop is None else []
    approved = lab.loop.approve() if stop is None else []
    step("loop:approved")
    launches = lab.loop.launch() if stop is None else None
    step("loop:launched")
    if methodology["auto_analyze"]:
        lab.loop.note()  # once the free place is taken: the gates of memory may take a while
        step("loop:noted")
    if launches is not None:
        stop = lab.loop.stop_reason(launches)
    if stop is not None and stop[0] not in waits_on:
        lab.loop.stopped(stop[0], number, stop[1])
        step("loop:stopped")
    budget = lab.budget.totals()
    why, until = (launches.paused if launches and stop is None else None) or (None, None)
    return Cycle(
        cycle=number,
        changes=tuple(scanned["changes"]),
        evidence=tuple(scanned["evidence"]),
        analysed=tuple(analysed),
        proposed=tuple(proposed),
        approved=tuple(approved),
        launched=launches.runs if launches else (),
        open=lab.hypotheses.count_open(),
        spent_gpu_hours=budget["spent_gpu_hours"],
        reserved_gpu_hours=budget["reserved_gpu_hours"],
        run_hours=budget["run_hours"],
        reason=stop[0] if stop else None,
        explanation=stop[1] if stop else None,
        paused=why,
        resumes_at=until,
    )

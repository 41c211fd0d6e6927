"""`lab.loop`: the steps of the autonomous loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from perpetual.lab.context import Context

if TYPE_CHECKING:
    from perpetual.lab import Lab
    from perpetual.lab.loop import steps

__all__ = ["Loop"]


class Loop:
    """`lab.loop`: the steps that the autonomous loop is made of; each may be repeated without harm."""

    def __init__(self, ctx: Context, lab: Lab, note: Callable[[], None]) -> None:
        self._ctx, self._lab, self._note = ctx, lab, note

    def heed(self) -> None:
        """Folds every hypothesis anew where the methodology was edited and decides by other values than before."""
        from perpetual.lab.evidence_rules import by_thresholds

        by_thresholds(self._ctx)

    def analyse(self) -> list[str]:
        """Analyses finished runs; returns their ids. What was learned is written to memory by `note`."""
        from perpetual.lab.runs.analyse import analyse

        return analyse(self._ctx)

    def note(self) -> None:
        """Has notes of what was learned written to memory: of every analysis that has none yet."""
        self._note()

    def propose(self) -> list[str]:
        """Proposes what the proposers suggest, to at most `proposal_batch_size` open ones; returns the new ids."""
        from perpetual.lab.loop import steps

        return steps.propose(self._ctx)

    def approve(self) -> list[str]:
        """Approves what the methodology's `auto_approve` or an approver of a plugin lets through; returns the ids."""
        from perpetual.lab.loop import steps

        return steps.approve(self._ctx, self._lab)

    def launch(self) -> steps.Launches:
        """Starts the replicates that are most worth their cost, while there is room."""
        from perpetual.lab.loop import steps

        return steps.launch(self._ctx)

    def halt_reason(self) -> tuple[str, str] | None:
        """Returns why nothing more should be launched, as (reason, explanation), or None."""
        from perpetual.lab.loop import steps

        return steps.halt_reason(self._ctx)

    def stop_reason(self, launches: steps.Launches) -> tuple[str, str] | None:
        """Returns why the loop should stop now, as (reason, explanation), or None."""
        from perpetual.lab.loop import steps

        return steps.stop_reason(self._ctx, launches)

    def stopped(self, reason: str, cycles: int, explanation: str = "") -> None:
        """Notes in the feed that the loop stopped, and what it saw."""
        ctx = self._ctx
        with ctx.store.transaction() as tx:
            ctx.emit(tx, "loop_stopped", "loop", {"reason": reason, "cycles": cycles, "explanation": explanation})

    def wait_any(self, timeout_s: float) -> bool:
        """Waits until one of the live runs has ended; False if the time was over before."""
        from perpetual.lab.runs import wait

        return wait.wait_any(self._ctx, timeout_s)

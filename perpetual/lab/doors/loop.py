"""`lab.loop`, with the deeds that cross departments attached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.lab.flows import Desks

if TYPE_CHECKING:
    from perpetual.lab.flows import steps as _steps

__all__ = ["LoopDoor"]


class LoopDoor:
    """`lab.loop`: the steps that the autonomous loop is made of; each may be repeated without harm."""

    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    def analyse(self) -> list[str]:
        """Has finished runs put into words and verdicts noted; answers the ids of the runs."""
        from perpetual.lab.flows.analyse import analyse as _analyse

        return _analyse(self._desks)

    def propose(self) -> list[str]:
        """Asks the proposers while there is room for proposals; answers the new experiments' ids."""
        from perpetual.lab.flows import steps as _steps

        return _steps.propose(self._desks)

    def approve(self) -> list[str]:
        """Approves what the methodology lets the loop approve; answers the ids."""
        from perpetual.lab.flows import steps as _steps

        return _steps.approve(self._desks)

    def launch(self) -> _steps.Launches:
        """Starts the replicates that are most worth their cost, while there is room."""
        from perpetual.lab.flows import steps as _steps

        return _steps.launch(self._desks)

    def halt_reason(self) -> tuple[str, str] | None:
        """Why nothing more should be launched, as (reason, explanation), or None."""
        from perpetual.lab.flows import steps as _steps

        return _steps.halt_reason(self._desks)

    def stop_reason(self, launches: _steps.Launches) -> tuple[str, str] | None:
        """Why the loop should stop now, as (reason, explanation), or None."""
        from perpetual.lab.flows import steps as _steps

        return _steps.stop_reason(self._desks, launches)

    def stopped(self, reason: str, cycles: int) -> None:
        """Notes in the feed that the loop stopped."""
        ctx = self._desks.ctx
        with ctx.store.transaction() as tx:
            ctx.emit(tx, "loop_stopped", "loop", {"reason": reason, "cycles": cycles})

    def wait_any(self, timeout_s: float) -> bool:
        """Waits until one of the live runs has ended; False if the time was over before."""
        from perpetual.lab.flows import wait as _wait

        return _wait.wait_any(self._desks, timeout_s)

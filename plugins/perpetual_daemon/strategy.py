"""The slot `loop`: how one turn of the autonomous loop goes.

The contract
------------
*One turn.* `turn(lab, number, waits_on)` does what can be done now and returns what it did. It does not sleep, and it
may be cut off at any moment: the next turn, in this process or in another, goes on from the record. So each step is a
transaction that may be repeated, and whatever the strategy needs to know is in the record.

*Its reason.* A turn that sees nothing more to do returns a `reason`, which is a key of `perpetual.loop.EXITS`, with an
explanation in words, and the event feed has a `loop_stopped` with it. None means: go on. For a reason in `waits_on` the
daemon stays and waits, and no `loop_stopped` is written. A turn that may launch nothing for a while, such as in quiet
hours, returns no reason but `paused`, why, and `resumes_at`.

*Its fences.* A turn starts only what is approved, and inside the budget and the number of runs that may be live. It
has no state of its own between turns, so that a changed configuration acts at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual.lab import Lab
    from perpetual.loop import Cycle

__all__ = ["DefaultLoop", "LoopStrategy", "build"]


class LoopStrategy(ABC):
    """A way of turning the loop; see the contract at the top of this module."""

    @abstractmethod
    def turn(self, lab: Lab, *, number: int, waits_on: Collection[str] = ()) -> Cycle:
        """Runs turn `number`, counted from 1, and returns what it did.

        Raises:
            PerpetualError: what a step raises. The turn may be repeated.
        """


class DefaultLoop(LoopStrategy):
    """Runs `perpetual.loop.cycle`: scan, analyse, propose, approve, launch."""

    def turn(self, lab: Lab, *, number: int, waits_on: Collection[str] = ()) -> Cycle:
        """Runs one cycle of the kernel."""
        from perpetual.loop import cycle

        return cycle(lab, number=number, waits_on=waits_on)


def build(options: Mapping[str, object]) -> DefaultLoop:
    """Builds the default strategy; it has no options."""
    return DefaultLoop()

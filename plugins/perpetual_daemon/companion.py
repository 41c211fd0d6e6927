"""The slot `companion`: what works beside the loop while the daemon runs, such as a thinker or the notifications.

The contract
------------
*Beside, never in the way.* `run(lab, stop)` is called once in a thread of its own with a `Lab` of its own, and works
until `stop` is set; then it returns within seconds. It waits with `stop.wait`, or with `lab.feed.wait` for a second at
most. The loop does not wait for it, and goes on if it fails. Where the configuration has changed it is ended and
started anew.

*From the record.* What it needs to go on after kill -9 is in the record or in a file of its own. What it does twice
does no harm.

*Its trouble.* `trouble()` may be called at any time from another thread and answers at once: None while all is well,
else what is wrong in one line. `daemon status` shows it.

*Its word of more.* `is_at_work(lab)` is asked after a turn, from the loop's thread and with its lab, and answers at
once: whether something that the loop could go on with may still come. Where it is always true the loop never ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual.lab import Lab
    from perpetual.slots.service import StopSignal

__all__ = ["Companion"]


class Companion(ABC):
    """Something that works beside the loop; see the contract at the top of this module."""

    @abstractmethod
    def run(self, lab: Lab, stop: StopSignal) -> None:
        """Works until `stop` is set.

        Raises:
            PerpetualError: if it cannot go on. The daemon logs it, and starts it again after a while.
        """

    def is_at_work(self, lab: Lab) -> bool:
        """Returns whether it may still bring work: the loop does not end for lack of it. Asked of the loop's thread."""
        return False

    def trouble(self) -> str | None:
        """Returns what is wrong in one line, or None."""
        return None

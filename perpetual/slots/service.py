"""The slot `service`: what a plugin keeps running for a project, such as a loop, a server or a bridge.

The contract
------------
*One for each project.* A service runs in a process of its own, which holds the lock `.perpetual/services/NAME.lock`; a
second start is refused. The lock is the kernel's to free, so a service that is killed is seen as ended at once.

*Running.* `run(lab, stop)` serves until `stop` is set and then returns within seconds. It is called once per process
and may be called again in the next one: what it needs to go on is in the record. It leaves no thread behind. A `run`
that returns before it was asked has ended; one that raises has failed, and its reason is kept.

*Health.* `health(lab)` may be called at any time, from another thread, and answers at once.

*Events.* While a service runs, observers (`perpetual_event`) hear of each event at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

from perpetual.slots.sections import Finding

if TYPE_CHECKING:
    from perpetual.lab import Lab

__all__ = ["Service", "StopSignal"]


class StopSignal(Protocol):
    """Says that a service is to end; a `threading.Event` is one."""

    def is_set(self) -> bool:
        """Returns whether the service is to end."""

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the service is to end, at most `timeout` seconds; returns whether it is to."""


class Service(ABC):
    """One service; see the contract at the top of this module."""

    @abstractmethod
    def run(self, lab: Lab, stop: StopSignal) -> None:
        """Serves until `stop` is set."""

    def health(self, lab: Lab) -> Finding:
        """Returns how the service fares; by default that it runs."""
        return Finding(True, "running")

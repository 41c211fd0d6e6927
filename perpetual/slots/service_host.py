"""The slot `service_host`: what starts, shows and ends the services that plugins bring. `lab.services` is its answer.

The contract
------------
*One of each.* Of a service one runs for a project at a time: a second start raises Conflict. Whether one runs is what
its lock says, and no file that anybody may write: after kill -9 it is seen as ended at once.

*For a person.* Starting, running and ending a service call `person_only` with what is asked for before anything else
happens; what that raises goes through, and nothing was started or ended.

*Named.* A service that no plugin offers is NotFound, with the nearest names. Showing changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual.lab import Lab
    from perpetual.lab.services import Services

__all__ = ["ServiceHost"]


class ServiceHost(ABC):
    """Hosts services; see the contract at the top of this module."""

    @abstractmethod
    def services(self, lab: Lab, person_only: Callable[[str], None]) -> Services:
        """Returns the services of a lab; `person_only` raises NotPermitted where an agent asks for a deed."""

"""`lab.services`: the services of plugins, one process each, as the part in the slot `service_host` keeps them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual.documents.services import ServiceLine
    from perpetual.slots.service import Service

__all__ = ["Services"]


class Services(ABC):
    """The services of one lab; see the contract in `perpetual.slots.service_host`."""

    @abstractmethod
    def list(self) -> Sequence[ServiceLine]:
        """Returns every service that a plugin offers, and those that run."""

    @abstractmethod
    def status(self, name: str) -> ServiceLine:
        """Returns one service. Raises NotFound."""

    @abstractmethod
    def start(self, name: str, *, timeout_s: float = 30.0) -> ServiceLine:
        """Starts a service in a process of its own, and returns once it runs.

        Raises:
            Conflict: if it runs already.
            NotFound: if no plugin offers it.
            NotPermitted: where an agent asks for it.
            PerpetualError: if it ended at once; the message has its reason.
        """

    @abstractmethod
    def run(self, name: str, service: Service | None = None) -> None:
        """Runs a service, or the part that the caller has built, in this process until it is asked to end."""

    @abstractmethod
    def stop(self, name: str, *, grace_s: float = 10.0) -> ServiceLine:
        """Ends a service, and returns once it has ended. Raises NotFound, NotPermitted."""

    @abstractmethod
    def log(self, name: str) -> str:
        """Returns the path of the file that a service's output goes to."""

    @abstractmethod
    def allows(self, deed: str) -> None:
        """Raises NotPermitted where an agent asks for the deed, or the project is held."""

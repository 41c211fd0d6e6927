"""HTTP connections that send nothing whole do not last. Imported by `perpetual_mcp.http` when it serves.

Before a request's headers are complete nothing names the sender, so any program that reaches the port could hold
connections by sending a byte now and then, until the process has no descriptors left. uvicorn bounds only the pause
between requests.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["PATIENCE_S", "PatientProtocol"]

PATIENCE_S = 10.0


class PatientProtocol(H11Protocol):
    """Ends a connection in which no request was served for `PATIENCE_S`; one that is being served lasts."""

    patience_s = PATIENCE_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Handles a new connection; called by the event loop."""
        super().connection_made(transport)
        self._served_at = self.loop.time()
        self._look = self.loop.call_later(self.patience_s, self._look_after)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handles the end of the connection; called by the event loop."""
        self._look.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Handles the end of an answer; called by uvicorn."""
        self._served_at = self.loop.time()
        super().on_response_complete()

    def _look_after(self) -> None:
        cycle: Any = self.cycle  # None before the first request, whatever its annotation says
        is_served = cycle is not None and not cycle.response_complete
        left = self.patience_s if is_served else self._served_at + self.patience_s - self.loop.time()
        if left <= 0:
            self.transport.abort()
        else:
            self._look = self.loop.call_later(left, self._look_after)

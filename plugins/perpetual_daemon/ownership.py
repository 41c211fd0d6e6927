"""The daemon's hold on the loop: it turns cycles only while no session of a coding agent goes on by itself."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from perpetual.api import Conflict, line
from perpetual.toolkit.platform import identity_of
from perpetual_loop.lease import DAEMON, Lease, arm, lease_of, owner, release, renew

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Ownership", "refuse_owned"]

_LEASE_S = 2 * 3600.0  # its process is known, so a killed daemon keeps nothing away for so long
_FRESH = timedelta(hours=1)  # left of it: a write an hour, and none a turn


class Ownership:
    """The lease of one daemon, from its first turn to its end."""

    def __init__(self) -> None:
        host = "".join(c for c in socket.gethostname() if c.isascii() and c.isalnum())[:40] or "host"
        self._session = f"daemon/{host}/{os.getpid()}"

    def keep(self, lab: Lab) -> Lease | None:
        """Takes or renews the lease; returns the session that owns the loop instead, None where the daemon does."""
        now, found = datetime.now(UTC), lease_of(lab)
        own = found if found is not None and found.is_held and found.session == self._session else None
        if own is not None and (own.until - now > _FRESH or renew(lab, self._session, lease_s=_LEASE_S)):
            return None
        try:
            arm(lab, self._session, harness=DAEMON, rounds=None, process=identity_of(os.getpid()), lease_s=_LEASE_S)
        except Conflict:
            # Where it has ended meanwhile the next turn takes it. Two daemons exclude each other by their service; two
            # programs may turn one record (`Daemon.run`).
            found = owner(lab)
            return None if found is None or found.harness == DAEMON else found
        return None

    def end(self, lab: Lab, reason: str) -> None:
        """Gives the lease back."""
        release(lab, self._session, reason=reason, explanation=f"the daemon ended: {reason}")


def refuse_owned(lab: Lab) -> None:
    """Raises Conflict, naming it, where a session of a coding agent owns the loop."""
    found = owner(lab)
    if found is not None and found.harness != DAEMON:
        message = f"{line(found.words)} goes on by itself ({found.rounds_left} rounds left)"
        raise Conflict(message, hint=f"{found.way_out} ends that; --wait waits for its end", code="loop_owned")

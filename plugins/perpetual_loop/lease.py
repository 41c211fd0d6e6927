"""The lease on the loop: of all that would go on by themselves, exactly one does.

    daemon                  -> arm(lab, ..., rounds=None), renew, release
    /auto in a coding agent -> arm(lab, ..., rounds=N), then `perpetual_loop.rounds.decide` at the end of each turn

It is one row of the record, read and written in one transaction, so that of many processes that want it one has it.
While it is valid no other session takes it. It ends by `release`, at `until`, and at once where its process is known
and gone. One that has expired and that no other session has taken since is still renewed by its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from perpetual.api import Conflict, UsageError
from perpetual.toolkit.agents import DISPATCH
from perpetual.toolkit.platform import Identity, boot_id, host_name, is_alive
from perpetual.toolkit.units import iso

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record

__all__ = [
    "ARMED",
    "DAEMON",
    "ENDED",
    "LEASE",
    "LEASE_S",
    "MOST_ROUNDS",
    "ROUNDS",
    "Lease",
    "arm",
    "is_dispatched",
    "lease_of",
    "owner",
    "process_fields",
    "put",
    "release",
    "renew",
    "session_problem",
]

LEASE, ARMED, ENDED = "loop.lease", "loop.armed", "loop.ended"
DAEMON = "daemon"  # the harness of a lease that the daemon has
LEASE_S = 3600.0  # longer than a turn takes; the lease of a session that was killed blocks others so long
ROUNDS, MOST_ROUNDS = 10, 50  # further turns: where none are named, and at most
_LONGEST_S = 24 * 3600.0  # a lease that claims more is not one of ours
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,199}")


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease as it was last written; `owner` says whether it is valid now."""

    id: str
    session: str
    harness: str
    actor: str
    is_held: bool
    until: datetime
    armed_at: str
    renewed_at: datetime
    rounds: int | None
    rounds_left: int | None
    seq: int
    process: Identity | None
    host: str | None
    reason: str | None
    explanation: str | None

    @property
    def words(self) -> str:
        """Returns its owner: `the daemon`, or `session ID of claude-code`."""
        return "the daemon" if self.harness == DAEMON else f"session {self.session} of {self.harness}"

    @property
    def way_out(self) -> str:
        """Returns the command that takes it back."""
        return "perpetual daemon stop" if self.harness == DAEMON else f"perpetual auto stop --session {self.session}"

    def is_valid(self, now: datetime) -> bool:
        """Returns whether it keeps others away."""
        if not self.is_held or now >= self.until or (self.until - now).total_seconds() > _LONGEST_S:
            return False
        if self.process is None or is_alive(self.process):
            return True
        # Of another machine that shares the record only the time is known; this one was started anew since.
        return self.process.boot_id != boot_id() and self.host != host_name()


def is_dispatched(environment: Mapping[str, str] = os.environ) -> bool:
    """Returns whether the lab drives the harness that this process belongs to."""
    return bool(environment.get(DISPATCH))


def session_problem(name: object) -> str | None:
    """Returns why something can be no name of a session or a harness, None if it can."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return None
    return "a session is named by at most 200 letters, digits and . _ : @ / -"


def lease_of(lab: Lab) -> Lease | None:
    """Returns the project's lease, valid or not; None before the first, and where the row cannot be one."""
    rows = lab.records(LEASE).list(limit=1).items
    return None if not rows else _lease(rows[0])


def _lease(row: Record) -> Lease | None:
    process = row["process"]
    try:
        return Lease(
            row.id, row["session"], row["harness"], row["actor"], row["is_held"], _moment(row["until"]),
            row["armed_at"], _moment(row["renewed_at"]), row["rounds"], row["rounds_left"], row["seq"],
            None if not process else Identity(str(process[0]), int(process[1]), int(process[2])),
            str(process[3]) if process and len(process) > 3 else None,
            row["reason"], row["explanation"],
        )  # fmt: skip
    except (TypeError, ValueError, LookupError):
        return None  # of another program; it keeps nothing away


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def owner(lab: Lab, now: datetime | None = None) -> Lease | None:
    """Returns the lease where it is valid now, None where the loop is free."""
    found = lease_of(lab)
    return found if found is not None and found.is_valid(now or datetime.now(UTC)) else None


def arm(
    lab: Lab, session: str, *, harness: str, rounds: int | None = ROUNDS, process: Identity | None = None,
    lease_s: float = LEASE_S, now: datetime | None = None,
) -> Lease:  # fmt: skip
    """Takes the lease for a session, anew where the session has it already, and returns it.

    Args:
        lab: the lab, whose actor is written down.
        session: its name, which the harness gives; the daemon's is made of its process.
        harness: claude-code, codex, opencode, `DAEMON` or another.
        rounds: further turns, `MOST_ROUNDS` at most; None is no limit.
        process: the process without which the session is over, where it is known.
        lease_s: how long it holds without a renewal.
        now: the time, UTC.

    Raises:
        Conflict: while another session or the daemon has it, and where the lab drives the harness.
        UsageError: for a name that can be none.
        NotPermitted: in a project that is held.
    """
    wrong = session_problem(session) or session_problem(harness)
    if wrong is not None:
        raise UsageError(wrong)
    if harness != DAEMON and is_dispatched():
        raise Conflict("the lab drives this session itself, so it does not go on by itself", code="dispatched")
    lab.trust.require("arming the loop")
    now = now or datetime.now(UTC)
    with lab.transaction():
        found = lease_of(lab)
        if found is not None and found.is_valid(now) and found.session != session:
            message = f"{found.words} owns the loop until {iso(found.until)}"
            raise Conflict(message, hint=f"{found.way_out} ends that", code="loop_owned")
        left = None if rounds is None else max(0, min(rounds, MOST_ROUNDS))
        if harness != DAEMON:  # which says itself when it turns, waits and stops
            lab.feed.emit(ARMED, harness, {"session": session, "rounds": left})
        return put(
            lab, found, session=session, harness=harness, actor=lab.actor, is_held=True,
            until=iso(now + timedelta(seconds=lease_s)), armed_at=iso(now), renewed_at=iso(now), rounds=left,
            rounds_left=left, seq=lab.feed.last(), process=process_fields(process), reason=None,
            explanation=None,
        )  # fmt: skip


def process_fields(process: Identity | None) -> list[object] | None:
    """Returns a process of this machine as the row has it: boot, pid, start and the machine's name."""
    return None if process is None else [*process, host_name()]


def renew(lab: Lab, session: str, *, lease_s: float = LEASE_S, now: datetime | None = None) -> Lease | None:
    """Renews the session's own lease, expired or not, and returns it; None where it is another's or was given back."""
    now = now or datetime.now(UTC)
    with lab.transaction():
        found = lease_of(lab)
        if found is None or found.session != session or not found.is_held:
            return None
        return put(lab, found, until=iso(now + timedelta(seconds=lease_s)), renewed_at=iso(now))


def release(lab: Lab, session: str | None, *, reason: str, explanation: str) -> Lease | None:
    """Gives the lease of a session back, or with None whichever has it; returns what it was, None where there is none.

    Raises:
        Conflict: for None where the daemon has it, which its own command stops.
    """
    with lab.transaction():
        found = lease_of(lab)
        if found is None or not found.is_held or session not in (None, found.session):
            return None
        if session is None and found.harness == DAEMON and found.is_valid(datetime.now(UTC)):
            raise Conflict("the daemon owns the loop", hint=found.way_out, code="loop_owned")
        if found.harness != DAEMON:
            payload = {"session": found.session, "reason": reason, "explanation": explanation}
            lab.feed.emit(ENDED, found.harness, payload)
        put(lab, found, is_held=False, process=None, reason=reason, explanation=explanation)
        return found


def put(lab: Lab, found: Lease | None, **fields: object) -> Lease:
    """Writes the row, in the caller's transaction, and returns the lease that it is."""
    records = lab.records(LEASE)
    if found is not None:
        made = _lease(records.update(found.id, expect_revision=None, **fields))
    else:
        rows = records.list(limit=1).items  # one that could not be read is replaced
        made = _lease(
            records.update(rows[0].id, expect_revision=None, **fields)
            if rows
            else records.add(idempotency_key=None, **fields)
        )
    if made is None:
        raise UsageError("the lease cannot be written")
    return made

"""The handover of a session: how it left the research when its last turn ended, for whichever agent comes next.

One row per session. It is written where the record has moved since the last one, so that a session that does other
work leaves nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from perpetual.toolkit.fence import block
from perpetual.toolkit.units import iso
from perpetual_loop.lease import lease_of, session_problem

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record

__all__ = ["HANDOVER", "Handover", "handovers", "write_handover"]

HANDOVER = "loop.handover"
MOST_WORDS = 1500  # characters of a last message that are kept: its end, where an agent sums up
_MOST_IDS = 20


@dataclass(frozen=True, slots=True)
class Handover:
    """How a session left the research; `last_words` are an agent's, to be fenced where an agent reads them."""

    session: str
    harness: str
    actor: str
    ended_at: str
    last_words: str
    live_runs: tuple[str, ...]
    waiting: tuple[str, ...]
    armed: str | None
    seq: int


def handovers(lab: Lab, *, limit: int = 3) -> list[Handover]:
    """Returns the handovers of sessions, the one that ended last first."""
    rows = sorted(lab.records(HANDOVER).find(), key=lambda row: str(row["ended_at"]), reverse=True)
    return [_handover(row) for row in rows[:limit]]


def _handover(row: Record) -> Handover:
    return Handover(
        row["session"], row["harness"], row["actor"], row["ended_at"], row["last_words"] or "",
        tuple(map(str, row["live_runs"])), tuple(map(str, row["waiting"])), row["armed"], row["seq"],
    )  # fmt: skip


def write_handover(
    lab: Lab, session: str, *, harness: str, last_words: object = "", ended: str | None = None,
    now: datetime | None = None,
) -> bool:  # fmt: skip
    """Writes how a session leaves the research, and returns whether: not where the record has not moved since.

    Args:
        lab: the lab.
        session, harness: as `arm` takes them.
        last_words: the agent's last message; anything else than text is none.
        ended: why its /auto ended, where it was armed; then it is written in any case.
        now: the time, UTC.
    """
    if session_problem(session) or session_problem(harness):
        return False
    status = lab.status()
    said = block(last_words)[-MOST_WORDS:] if isinstance(last_words, str) else ""
    records = lab.records(HANDOVER)
    with lab.transaction():
        rows = records.find()
        seen = max((int(row["seq"]) for row in rows), default=0)
        if ended is None and not any(not event.kind.startswith("loop.") for event in lab.feed.read(since=seen)):
            return False
        fields: dict[str, object] = {
            "session": session, "harness": harness, "actor": lab.actor, "ended_at": iso(now or datetime.now(UTC)),
            "last_words": said, "live_runs": [run["id"] for run in status["runs"]["active"]][:_MOST_IDS],
            "waiting": [one["id"] for one in status["brief"].get("proposed", [])][:_MOST_IDS],
            "armed": _armed(lab, session, ended, now), "seq": lab.feed.last(),
        }  # fmt: skip
        own = [row for row in rows if row["session"] == session]
        if own:
            records.update(own[0].id, expect_revision=None, **fields)
        else:
            records.add(idempotency_key=None, **fields)
    return True


def _armed(lab: Lab, session: str, ended: str | None, now: datetime | None) -> str | None:
    """Returns the owner of the loop when the session's turn ended, and whether that is over; None where it was free."""
    lease = lease_of(lab)
    if lease is None or (ended is None and not lease.is_valid(now or datetime.now(UTC))):
        return None
    if ended is None or lease.session != session:
        return f"{lease.words}, since {lease.armed_at}"
    return f"/auto of this session, armed by {lease.actor} at {lease.armed_at}; ended: {ended}"

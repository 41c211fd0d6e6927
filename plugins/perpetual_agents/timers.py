"""Durable timers of agents: a message at a time, at an interval, or by a cron expression.

A timer fires in one transaction that posts its message and moves it to its next time, so each time is fired once
whatever is killed when. Times that passed while nothing ran fire once, together. The next time is always after the
present one, whichever way the clock was set and whatever a time zone does to it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from perpetual.api import NotFound, Refused, UsageError, unknown
from perpetual.toolkit.units import LONGEST_S, finite, iso
from perpetual_agents.agents import Agents
from perpetual_agents.data import check_text
from perpetual_agents.names import TIMED, TIMER
from perpetual_agents.times import due_time

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_agents.event_documents import TimerDocument

__all__ = ["Repeats", "Timers", "following", "local_zone"]

Repeats = Literal["once", "every", "cron"]
_ACTIVE = "yes"
_MOST = 100  # active timers of an agent
_SHORTEST_S = 1.0
_HEARS = ("created", "running", "paused")  # states in which an agent's inbox takes messages
_FIELDS = 5  # of a cron expression; a sixth would be seconds


class Timers:
    """The timers of a lab's agents."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self._agents, self._timers = lab, Agents(lab), lab.records(TIMER)

    def add(
        self, agent: str, *, at: str | datetime | None = None, every_s: float | None = None, cron: str | None = None,
        text: str = "", type: str = "timer", zone: str | None = None, key: str | None = None,
        now: datetime | None = None,
    ) -> TimerDocument:  # fmt: skip
        """Sets a timer; durable before it returns.

        Args:
            agent: id or name.
            at: the time of one message; one that is over fires at once.
            every_s: seconds between two messages, the first of which comes after that long.
            cron: minute, hour, day of month, month and day of week, as cron(8) reads them.
            text: what the message says.
            type: of the message: `timer`, or the type of an event that a program handles.
            zone: the time zone of the cron expression; None is this machine's.
            key: the same key sets one timer; a second call answers it.
            now: the present time; None is the clock's.

        Raises:
            UsageError: unless one of `at`, `every_s` and `cron` is given, and for a value that cannot be.
            Refused: for an agent that has 100 active timers.
            NotFound: for an unknown agent.
        """
        now = now or datetime.now(UTC)
        repeats, expression, zone = _checked(at, every_s, cron, zone)
        check_text("the message", text)
        check_text("the type of the message", type, most=200, may_be_empty=False)
        if repeats == "once":
            first: datetime | None = datetime.fromisoformat(expression)
        else:
            first = following(repeats, expression, zone, now, now)
        if first is None:
            raise UsageError(f"{expression!r} has no time to come", hint="as in '0 8 * * MON-FRI'")
        with self.lab.transaction():
            owner = self._agents.record(agent).id
            if key is not None:
                key = f"{owner}:{check_text('the key', key, most=900, may_be_empty=False)}"
                known = next(iter(self._timers.find(dedup=key)), None)
                if known is not None:
                    return _shown(known)
            if sum(1 for one in self._timers.find(agent=owner) if one["active"]) >= _MOST:
                raise Refused(f"{owner} has {_MOST} active timers", hint="cancel one that is not needed",
                              code="too_many_timers")  # fmt: skip
            made = self._timers.add(agent=owner, repeats=repeats, expression=expression, zone=zone, text=text,
                                    type=type, next=iso(first), fired=0, active=_ACTIVE, dedup=key)  # fmt: skip
            self.lab.feed.emit(TIMED, owner, {"timer": made.id, "next": made["next"]})
        return _shown(made)

    def get(self, timer: str) -> TimerDocument:
        """Returns a timer. Raises NotFound."""
        return _shown(self._timers.get(timer))

    def list(self, agent: str | None = None, *, active: bool = True) -> Sequence[TimerDocument]:
        """Returns the timers of an agent, or of all, oldest first.

        Args:
            agent: id or name.
            active: whether those that are over or cancelled are left out.
        """
        equals: dict[str, object] = {} if agent is None else {"agent": self._agents.record(agent).id}
        if active:
            equals["active"] = _ACTIVE
        return [_shown(one) for one in self._timers.find(**equals)]

    def cancel(self, timer: str, *, agent: str | None = None) -> TimerDocument:
        """Ends a timer; one that is over stays as it is. Raises NotFound, also where `agent` does not have it."""
        with self.lab.transaction():
            found = self._timers.get(timer)
            if agent is not None and found["agent"] != self._agents.record(agent).id:
                known = [one["id"] for one in self.list(agent)]
                raise NotFound(unknown("timer of the agent", timer, known), hint="perpetual agent timer ID --list")
            if found["active"]:
                found = self._timers.update(found.id, active=None, next=None)
                self.lab.feed.emit(TIMED, found["agent"], {"timer": found.id, "next": None})
        return _shown(found)

    def fire(self, now: datetime | None = None, *, agent: str | None = None) -> float | None:
        """Fires the timers that are due; returns the seconds until the next one, None where there is none.

        A timer of an agent that is stopped or in error waits until the agent takes messages again.

        Args:
            now: the present time; None is the clock's.
            agent: id of the agent whose timers are fired; None is every agent.
        """
        now = now or datetime.now(UTC)
        waits_s: float | None = None
        equals: dict[str, object] = {"active": _ACTIVE} if agent is None else {"active": _ACTIVE, "agent": agent}
        for found in self._timers.find(**equals):
            following_at = self._fired(found, now)
            if following_at is not None:
                wait_s = max(0.0, (following_at - now).total_seconds())
                waits_s = wait_s if waits_s is None else min(waits_s, wait_s)
        return waits_s

    def _fired(self, timer: Record, now: datetime) -> datetime | None:
        """Fires one timer if it is due; returns when it is due next, None where only a change makes it due."""
        due = datetime.fromisoformat(timer["next"])
        if due > now:
            nearer = following(timer["repeats"], timer["expression"], timer["zone"], due, now)
            if nearer is None or nearer >= due:
                return due
        elif not self._is_heard(timer["agent"]):
            return None
        with self.lab.transaction():
            present = self._timers.get(timer.id)
            if not present["active"] or present["next"] != timer["next"]:  # another process was faster
                return datetime.fromisoformat(present["next"]) if present["active"] else None
            later = following(timer["repeats"], timer["expression"], timer["zone"], due, now)
            if due > now:  # the clock was set back
                self._timers.update(timer.id, next=None if later is None else iso(later))
                return later
            if not self._is_heard(timer["agent"]):
                return None
            self._post(present)
            after = None if later is None else iso(later)
            self._timers.update(timer.id, next=after, last=present["next"], fired=present["fired"] + 1,
                                active=None if later is None else _ACTIVE)  # fmt: skip
            self.lab.feed.emit(TIMED, timer["agent"], {"timer": timer.id, "next": after})
        return later

    def _post(self, timer: Record) -> None:
        key = f"timer/{timer.id}/{timer['next']}"
        data = {"type": timer["type"], "id": key, "data": {"timer": timer.id, "scheduled": timer["next"]}}
        self._agents.post(timer["agent"], timer["text"], type=timer["type"], data=data, sender=timer.created_by,
                          key=key)  # fmt: skip

    def _is_heard(self, agent: str) -> bool:
        try:
            return self._agents.get(agent).state in _HEARS
        except NotFound:  # it was deleted
            return False


def following(repeats: str, expression: str, zone: str | None, due: datetime, now: datetime) -> datetime | None:
    """Returns the first time of a timer that is after `now`, None where there is none.

    Args:
        repeats: once, every or cron.
        expression: as the timer has it.
        zone: of a cron expression.
        due: a time of the timer: an interval goes on from it.
        now: the present time.

    Raises:
        UsageError: for a cron expression that cannot be read.
    """
    if repeats == "once":
        return due if due > now else None
    if repeats == "every":
        every = timedelta(seconds=float(expression))
        if due > now:
            return min(due, now + every)
        return due + ((now - due) // every + 1) * every
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as problem:
        raise UsageError("cron expressions need the package cronsim", hint="pip install 'perpetual-lab[agents]'",
                         code="not_installed") from problem  # fmt: skip
    try:
        # the hour that a zone has twice is named once, so a time of it may lie before the present one
        found = next((one for one in CronSim(expression, now.astimezone(_zone(zone))) if one > now), None)
    except CronSimError as problem:
        raise UsageError(f"{expression!r} is no cron expression: {problem}", hint="as in '0 8 * * MON-FRI'",
                         code="cron_unreadable") from problem  # fmt: skip
    return None if found is None else found.astimezone(UTC)


def _checked(
    at: str | datetime | None, every_s: float | None, cron: str | None, zone: str | None
) -> tuple[Repeats, str, str | None]:
    """Returns what a timer does, its expression and its zone. Raises UsageError."""
    given = [name for name, value in (("at", at), ("every", every_s), ("cron", cron)) if value is not None]
    if len(given) != 1:
        raise UsageError(f"a timer has one of at, every and cron, not {' and '.join(given) or 'none'}",
                         hint="a time, an interval, or a cron expression")  # fmt: skip
    if at is not None:
        return "once", due_time(at.isoformat() if isinstance(at, datetime) else at), None
    if every_s is not None:
        seconds = finite(every_s, "the interval", minimum=_SHORTEST_S, maximum=LONGEST_S)
        return "every", f"{seconds:.3f}".rstrip("0").rstrip("."), None
    expression = " ".join(check_text("the cron expression", cron, most=200, may_be_empty=False).split())
    if len(expression.split()) != _FIELDS:
        raise UsageError(f"{expression!r} is no cron expression of five fields", code="cron_unreadable",
                         hint="minute, hour, day of month, month, day of week: '0 8 * * MON-FRI'")  # fmt: skip
    named = zone or local_zone()
    _zone(named)
    return "cron", expression, named


def _zone(name: str | None) -> ZoneInfo:
    """Returns a time zone. Raises UsageError for one that this machine does not know."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError) as problem:
        raise UsageError(f"{str(name)[:60]!r} is no time zone of this machine", hint="as in Europe/Paris, or UTC",
                         code="no_zone") from problem  # fmt: skip


def local_zone() -> str:
    """Returns the name of this machine's time zone, UTC where it has none that can be named."""
    from zoneinfo import available_timezones

    linked = os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    for name in (os.environ.get("TZ", "").removeprefix(":"), linked):
        if name and name in available_timezones():
            return name
    return "UTC"


def _shown(record: Record) -> TimerDocument:
    return {
        "id": record.id, "agent": record["agent"], "repeats": record["repeats"], "expression": record["expression"],
        "zone": record["zone"], "text": record["text"], "type": record["type"], "next": record["next"],
        "last": record["last"], "fired": record["fired"], "active": bool(record["active"]),
        "created_by": record.created_by, "created_at": record.created_at,
    }  # fmt: skip

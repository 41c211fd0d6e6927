"""The one thread of a process that waits on the feed of a lab, for all agents that sleep in it.

It puts events into inboxes, fires timers, and wakes those that wait. So an idle agent costs nothing, and a thousand of
them cost one thread that looks twice a second.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from perpetual_agents.names import DELETED, MOVED, TIMED
from perpetual_agents.subscriptions import Subscriptions
from perpetual_agents.timers import Timers

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Pulse", "pulse_of"]

_LOOK_S = 0.5  # until it looks whether it is to end, and whether the clock was set
_SWEEP_S = 30.0  # between two looks at the timers where nothing says that they have changed
_BATCH = 500
_CHANGES = frozenset({TIMED, MOVED, DELETED})  # after which other timers may be due
_log = logging.getLogger(__name__)


class _Waiter(NamedTuple):
    seen: int
    loop: asyncio.AbstractEventLoop
    woken: asyncio.Future[None]


class Pulse:
    """Wakes the coroutines of a process that wait for an event of a lab; see the module. Safe in threads."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._waiters: list[_Waiter] = []
        self._last = 0
        self._due: datetime | None = None  # of the next timer
        self._is_stale, self._swept_s = True, 0.0
        self._thread = threading.Thread(target=self._run, name="agents-pulse", daemon=True)
        self.holders = 0

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and waits for its end, half a second at most."""
        self._over.set()
        self._thread.join()

    async def wait(self, seen: int, timeout_s: float) -> bool:
        """Returns true once there is an event after `seen`, or false after `timeout_s`."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(seen, loop, loop.create_future())
        with self._guard:
            if self._last > seen:
                return True
            self._waiters.append(waiter)
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await waiter.woken
            return True
        except TimeoutError:
            return False
        finally:
            with self._guard, suppress(ValueError):
                self._waiters.remove(waiter)

    def _run(self) -> None:
        subscriptions, timers = Subscriptions(self._lab), Timers(self._lab)
        seen: int | None = None
        trouble = ""
        while not self._over.is_set():
            try:
                if seen is None or self._lab.feed.last() < seen:
                    seen = subscriptions.catch_up()
                seen = self._heard(subscriptions, seen)
                self._lab.feed.wait(seen, timeout_s=self._timed(timers))
                trouble = ""
            except Exception as problem:  # noqa: BLE001 - a store that is being moved: the next look opens the new one
                if trouble != repr(problem):
                    trouble = repr(problem)
                    _log.warning("events and timers of agents wait: %s", trouble)
                self._over.wait(_LOOK_S)
                seen, self._is_stale = None, True

    def _heard(self, subscriptions: Subscriptions, seen: int) -> int:
        """Delivers the events after `seen` and wakes those that wait; returns how far it came."""
        events = self._lab.feed.read(since=seen, limit=_BATCH) if self._lab.feed.last() > seen else []
        if not events:
            self._wake(seen)
            return seen
        self._is_stale = self._is_stale or any(event.kind in _CHANGES for event in events)
        subscriptions.deliver(events)
        self._wake(events[-1].seq)
        return events[-1].seq

    def _wake(self, last: int) -> None:
        with self._guard:
            self._last = last  # smaller than before where a backup was put back
            woken = [one for one in self._waiters if one.seen < self._last]
            self._waiters = [one for one in self._waiters if one.seen >= self._last]
        for one in woken:
            with suppress(RuntimeError):  # its event loop is closed
                one.loop.call_soon_threadsafe(_set, one.woken)

    def _timed(self, timers: Timers) -> float:
        """Fires the timers that are due; returns the seconds until something is to be looked at."""
        now = datetime.now(UTC)
        if self._is_stale or (self._due is not None and now >= self._due) or time.monotonic() > self._swept_s:
            self._is_stale = False
            wait_s = timers.fire(now)
            self._due = None if wait_s is None else now + timedelta(seconds=wait_s)
            self._swept_s = time.monotonic() + _SWEEP_S
        if self._due is None:
            return _LOOK_S
        return min(_LOOK_S, max(0.0, (self._due - now).total_seconds()))


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


_PULSES: dict[int, Pulse] = {}  # by the id of the lab, which lives while its pulse does
_GUARD = threading.Lock()


@asynccontextmanager
async def pulse_of(lab: Lab) -> AsyncIterator[Pulse]:
    """Holds the pulse of a lab in this process; the last one that lets it go ends it."""
    with _GUARD:
        found = _PULSES.get(id(lab))
        if found is None:
            found = _PULSES[id(lab)] = Pulse(lab)
            found.start()
        found.holders += 1
    try:
        yield found
    finally:
        with _GUARD:
            found.holders -= 1
            is_last = found.holders == 0
            if is_last:
                del _PULSES[id(lab)]
        if is_last:
            await asyncio.shield(asyncio.to_thread(found.close))

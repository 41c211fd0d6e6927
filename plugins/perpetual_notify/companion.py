"""Sends notices while the daemon runs: reads the feed as it grows, and sends in threads that nothing waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError, line
from perpetual_daemon.companion import Companion
from perpetual_notify.consent import folder_of
from perpetual_notify.outbox import LIMITS, Limits, Outbox
from perpetual_notify.sending import Chosen, chosen, deliver, fill, settings, words

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import StopSignal

__all__ = ["Notifications", "build"]

_LOOK_S = 1.0  # between two looks at the number of events
_SWEEP_S = 15.0  # between two rounds where nothing happens: the configuration may have changed
_LEAVE_S = 2.0  # for threads that are sending, once it is to end; what they send is repeated if it is lost


class Notifications(Companion):
    """The companion `notify`."""

    def __init__(self, limits: Limits = LIMITS, clock: Callable[[], float] = time.time) -> None:
        self._limits, self._clock = limits, clock
        self._trouble: str | None = None
        self._sending: dict[str, threading.Thread] = {}
        self._problems: dict[str, str] = {}
        self._ended = threading.Event()

    def trouble(self) -> str | None:
        """Returns which notifier fails, and why."""
        return self._trouble

    def run(self, lab: Lab, stop: StopSignal) -> None:
        """Sends until `stop` is set."""
        self._ended = threading.Event()
        seen, sweep_s = -1, 0.0
        try:
            while not stop.is_set():
                last, now_s = lab.feed.last(), self._clock()
                if last != seen or now_s >= sweep_s:
                    seen = last
                    sweep_s = min(now_s + _SWEEP_S, self._round(lab))
                stop.wait(_LOOK_S)
        finally:
            self._ended.set()
            for thread in self._sending.values():
                thread.join(_LEAVE_S)

    def _round(self, lab: Lab) -> float:
        """Fills the outbox and starts to send what is due; returns when the next notice is, in POSIX seconds."""
        lab.config.refresh()
        found = chosen(lab)
        fill(lab, found, self._limits)
        folder, now_s, due_s = folder_of(lab), self._clock(), float("inf")
        troubles: list[str] = []
        if found and Outbox.is_there(folder):
            with Outbox(folder, self._limits) as outbox:
                for item in found:
                    count = outbox.counts(item.name)
                    if item.is_ready and count.pending:
                        due_s = min(due_s, max(count.due_s or 0.0, now_s + _LOOK_S))
                        if (count.due_s or 0.0) <= now_s:
                            self._start(lab, item)
                    if count.error is not None:
                        troubles.append(f"{item.name}, {count.pending} waiting: {count.error}")
        troubles += [f"{item.name}: {why_not(item)}" for item in found if not item.is_ready]
        troubles += [f"{name}: {why}" for name, why in self._problems.items()]
        self._trouble = line("; ".join(troubles)) or None
        return due_s

    def _start(self, lab: Lab, item: Chosen) -> None:
        """Starts to send to a notifier, unless a thread is at it."""
        before = self._sending.get(item.name)
        if before is not None and before.is_alive():
            return
        folder, project, per_hour = folder_of(lab), line(lab.config["project"]), settings(lab).per_hour

        def work() -> None:
            try:
                deliver(folder, item, project, per_hour, limits=self._limits, clock=self._clock, stop=self._ended)
                self._problems.pop(item.name, None)
            except (PerpetualError, OSError) as problem:  # of the outbox; a notifier's own is kept in it
                self._problems[item.name] = words(PerpetualError(str(problem)))

        thread = threading.Thread(target=work, name=f"notify {item.name}", daemon=True)
        self._sending[item.name] = thread
        thread.start()


def why_not(item: Chosen) -> str:
    """Returns why nothing is sent to a notifier that is not ready."""
    if item.problem is not None:
        return words(item.problem)
    return f"not accepted here (perpetual notify test {item.name})"


def build(options: Mapping[str, object]) -> Notifications:
    """Builds the companion; it has no options."""
    return Notifications()

"""Sends notices while the daemon runs: reads the feed as it grows, and sends in threads that nothing waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError, TransientError, line
from perpetual_daemon.companion import Companion
from perpetual_notify.consent import folder_of
from perpetual_notify.outbox import LIMITS, Limits, Outbox
from perpetual_notify.sending import Chosen, chosen, deliver, fill, settings, words

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import StopSignal

__all__ = ["Notifications", "build"]

_WAIT_S = 1.0  # until it looks whether it is to end
_IDLE_S = 5.0  # the same where no notifier is chosen
_LOOK_S = 2.0  # between two looks at the number of events
_SWEEP_S = 30.0  # between two rounds where nothing happens: the configuration may have changed
_LAST_S = 3.0  # for what is still to be sent once it is to end


class Notifications(Companion):
    """The companion `notify`."""

    def __init__(self, limits: Limits = LIMITS, clock: Callable[[], float] = time.time) -> None:
        self._limits, self._clock = limits, clock
        self._trouble: str | None = None
        self._sending: dict[str, threading.Thread] = {}
        self._problems: dict[str, str] = {}
        self._ended = threading.Event()
        self._is_any = False  # whether a notifier is chosen

    def trouble(self) -> str | None:
        """Returns which notifier fails, and why."""
        return self._trouble

    def run(self, lab: Lab, stop: StopSignal) -> None:
        """Sends until `stop` is set."""
        self._ended = threading.Event()
        seen, look_s, sweep_s = -1, 0.0, 0.0
        try:
            while not stop.is_set():
                now_s = self._clock()
                if now_s >= look_s or now_s >= sweep_s:
                    last, look_s = lab.feed.last(), now_s + _LOOK_S
                    if last != seen or now_s >= sweep_s:
                        seen = last
                        sweep_s = min(now_s + _SWEEP_S, self._guarded_round(lab))
                stop.wait(_WAIT_S if self._is_any else _IDLE_S)
            self._send_last(lab)
        finally:
            self._ended.set()

    def _send_last(self, lab: Lab) -> None:
        """Sends what has come until now, for a few seconds: the daemon ends when the loop has stopped, which is news.

        What is not accepted by then waits for the next daemon, or for `perpetual notify send`.
        """
        deadline_s = time.monotonic() + _LAST_S
        for _ in range(2):  # a thread that was at its end in the first round is started again in the second
            try:
                self._guarded_round(lab)
            except PerpetualError:
                return  # it is the trouble now
            for thread in self._sending.values():
                thread.join(max(0.0, deadline_s - time.monotonic()))

    def _guarded_round(self, lab: Lab) -> float:
        """Runs a round; what it raises is its trouble too, until it is started again."""
        try:
            return self._round(lab)
        except PerpetualError as problem:
            self._trouble = words(problem)
            raise
        except OSError as problem:
            self._trouble = line(problem)
            raise TransientError(f"the outbox cannot be written: {problem}") from problem

    def _round(self, lab: Lab) -> float:
        """Fills the outbox and starts to send what is due; returns when the next notice is, in POSIX seconds."""
        lab.config.refresh()
        found = chosen(lab)
        self._is_any = bool(found)
        fill(lab, found, self._limits)
        folder, now_s, due_s = folder_of(lab), self._clock(), float("inf")
        troubles: list[str] = []
        if found and Outbox.is_there(folder):
            with Outbox(folder, self._limits) as outbox:
                for item in found:
                    count = outbox.counts(item.name)
                    if item.is_ready and count.pending:
                        due_s = min(due_s, max(count.due_s or 0.0, now_s + _WAIT_S))
                        if outbox.is_due(count.due_s, now_s):
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

"""Runs the companions: one thread each, with a lab of its own, started again after an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from perpetual.toolkit.contained import contained

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_daemon.companion import Companion

__all__ = ["Beside"]

_FIRST_RETRY_S, _LONGEST_RETRY_S = 2.0, 300.0
_GRACE_S = 5.0
_MOST_CHARS = 300  # of what one says is wrong


class _Silence(NamedTuple):
    """What a companion raised when it was asked whether it is at work, and when it is asked again."""

    said: str
    wait_s: float
    until: float  # of the clock


class Beside:
    """The companions of a running daemon. `close` ends them."""

    def __init__(
        self, lab: Lab, open_lab: Callable[[str], Lab], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Starts every companion that plugins offer; `open_lab(actor)` opens a lab for each, `clock` is in seconds."""
        self._open, self._clock = open_lab, clock
        self._threads: dict[str, threading.Thread] = {}
        self._begin(lab)

    def renew(self, lab: Lab) -> None:
        """Ends the companions, and starts them again as `lab` builds them: its configuration has changed."""
        self._stop.set()
        self._begin(lab)

    def _begin(self, lab: Lab) -> None:
        self._stop = threading.Event()
        self._failed: dict[str, str] = {}
        self._silent: dict[str, _Silence] = {}  # the companions that could not say whether they are at work
        self._parts: dict[str, Companion] = dict(lab.parts("companion"))
        before, self._threads = self._threads, {}
        for name, part in self._parts.items():
            work = (name, part, before.get(name), self._stop, self._failed)
            thread = threading.Thread(target=self._run, args=work, daemon=True, name=f"companion-{name}")
            self._threads[name] = thread
            thread.start()

    @property
    def names(self) -> frozenset[str]:
        """Returns the names of the companions."""
        return frozenset(self._parts)

    def is_at_work(self, lab: Lab) -> bool:
        """Returns whether a companion that runs may still bring work.

        One that cannot say brings none, and is asked again after a while that grows to five minutes.
        """
        found = False
        for name, part in self._parts.items():
            silence = self._silent.get(name)
            if not self._threads[name].is_alive() or (silence is not None and self._clock() < silence.until):
                continue
            try:
                with contained():
                    found = bool(part.is_at_work(lab))
                self._silent.pop(name, None)
            except Exception as problem:  # noqa: BLE001 - the loop goes on without it
                wait_s = _FIRST_RETRY_S if silence is None else min(_LONGEST_RETRY_S, 2 * silence.wait_s)
                said = f"is_at_work: {type(problem).__name__}: {problem}"
                self._silent[name] = _Silence(said, wait_s, self._clock() + wait_s)
            if found:
                return True
        return False

    def troubles(self) -> dict[str, str]:
        """Returns what is wrong, by companion; answers at once."""
        found = {name: silence.said for name, silence in [*self._silent.items()]} | self._failed
        for name, part in self._parts.items():
            if name in found:
                continue
            try:
                with contained():
                    why = part.trouble()
            except Exception as problem:  # noqa: BLE001 - one that cannot say how it fares is not well
                why = f"trouble: {type(problem).__name__}: {problem}"
            if why:
                found[name] = why
        return {name: _line(why) for name, why in found.items()}

    def ask_end(self) -> None:
        """Asks all to end."""
        self._stop.set()

    def close(self) -> None:
        """Asks all to end and waits for them together, for a few seconds."""
        self.ask_end()
        deadline = time.monotonic() + _GRACE_S
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(
        self, name: str, part: Companion, before: threading.Thread | None, stop: threading.Event, failed: dict[str, str]
    ) -> None:
        """Runs one until the stop; an error is kept for `troubles` and the companion is started again."""
        if before is not None:
            before.join()  # never two of one name at once
        wait_s = _FIRST_RETRY_S
        while not stop.is_set():
            began = time.monotonic()
            try:
                with self._open(f"loop:{name}") as lab, contained():
                    failed.pop(name, None)
                    part.run(lab, stop)
                return  # it has nothing more to do
            # A KeyboardInterrupt that the companion itself raises too, or its thread would end without a word.
            except BaseException as problem:  # noqa: BLE001 - the loop goes on without it
                failed[name] = f"{type(problem).__name__}: {problem}"
                wait_s = _FIRST_RETRY_S if time.monotonic() - began > _LONGEST_RETRY_S else wait_s
                stop.wait(wait_s)
                wait_s = min(_LONGEST_RETRY_S, 2 * wait_s)


def _line(text: object) -> str:
    """Returns the first line of a text, cut: what a foreign part says goes into a file of bounded size."""
    return (str(text).strip().splitlines() or [""])[0][:_MOST_CHARS]

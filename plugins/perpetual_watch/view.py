"""The live view: collects in threads, draws and takes keys in the main one. Nothing is read without a reason.

The record is read again once it changes (`lab.feed.wait`), and each second while a run is live, whose files grow
without an event. The devices are asked in a thread of their own, since a driver may hang.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError
from perpetual_watch.deeds import Deed, approvals, kills, turn_queue
from perpetual_watch.facts import collected, devices_of
from perpetual_watch.frame import HELP, Line, Question, frame, question

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import GpuStatus
    from perpetual_watch.documents import Watch
    from perpetual_watch.terminal import Terminal

__all__ = ["View"]

_LIVE_S = 1.0  # between two looks while runs are live; and the longest wait for a change, so that it ends soon
_LEAST_S = 0.2  # between two looks, however fast the record changes
_DEVICES_S = 5.0
_JOIN_S = 3.0
_IDLE_LOOKS = 30  # waits without a change after which it looks all the same


class View:
    """The view of one lab on one terminal."""

    def __init__(self, lab: Lab, terminal: Terminal) -> None:
        self._lab, self._terminal = lab, terminal
        self._stop = threading.Event()
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        # What threads hand over; each is replaced as a whole.
        self._document: Watch | None = None
        self._devices: GpuStatus | None = None
        self._note: str | None = None
        self._offered: Sequence[Deed] | None = None
        self._is_stale = threading.Event()  # the devices are others than at the last look
        # Of the main thread alone.
        self._deeds: Sequence[Deed] = ()
        self._place = 0
        self._help: Question | None = None

    def run(self) -> None:
        """Shows the lab until q, Ctrl-C, or the end of the terminal."""
        threads = [
            threading.Thread(target=target, name=f"watch {target.__name__}", daemon=True)
            for target in (self._collect, self._look_at_devices, self._do)
        ]
        try:
            for thread in threads:
                thread.start()
            while not self._terminal.is_over:
                self._draw()
                for key in self._terminal.pressed():
                    before = self._asked
                    self._press(key)
                    if self._asked is not before or self._terminal.is_over:
                        break  # what was typed ahead is no answer to a question that was not shown yet
                self._take_offer()
        except KeyboardInterrupt:
            pass
        finally:
            self._stop.set()
            self._work.put(None)

    def join(self) -> None:
        """Waits until the threads have ended; after the terminal was given back."""
        for thread in threading.enumerate():
            if thread.name.startswith("watch "):
                thread.join(_JOIN_S)

    # --- threads ------------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Reads the record anew as it changes."""
        while not self._stop.is_set():
            began, live = time.monotonic(), False
            self._is_stale.clear()
            try:
                found = collected(self._lab, self._devices)
                self._document, live = found, bool(found["live"])
                self._terminal.wake()
                self._wait(found["seq"], 1 if live else _IDLE_LOOKS)
            except PerpetualError as problem:
                self._say(problem)
                self._stop.wait(_LIVE_S)
            self._stop.wait(max(0.0, began + _LEAST_S - time.monotonic()))

    def _wait(self, seq: int, looks: int) -> None:
        for _ in range(looks):
            self._lab.feed.wait(seq, timeout_s=_LIVE_S)
            if self._stop.is_set() or self._is_stale.is_set() or self._lab.feed.last() > seq:
                return

    def _look_at_devices(self) -> None:
        """Asks for the GPUs, again and again where there are any."""
        while not self._stop.is_set():
            found = devices_of(self._lab)
            if found != self._devices:
                self._devices = found
                self._is_stale.set()
            if not found["gpus"] and not found["transient"]:
                return
            self._stop.wait(_DEVICES_S)

    def _do(self) -> None:
        """Does one thing after the other that a key asked for."""
        while (work := self._work.get()) is not None:
            try:
                work()
            except PerpetualError as problem:
                self._say(problem)
            self._terminal.wake()

    def _say(self, problem: PerpetualError) -> None:
        from perpetual.toolkit.fence import neutralise

        self._note = neutralise(f"{problem.message}" + (f" ({problem.hint})" if problem.hint else ""))
        self._terminal.wake()

    # --- keys ---------------------------------------------------------------------------------------------------------

    @property
    def _asked(self) -> Question | None:
        return self._deeds[self._place].question if self._deeds else self._help

    def _press(self, key: str) -> None:
        if (asked := self._asked) is not None:
            self._answer(asked, key)
            return
        self._note = None
        if key in ("q", "Q"):
            self._terminal.is_over = True
        elif key == "?":
            self._help = Question("Keys", HELP, "any key goes back")
        elif key == "a":
            self._offer(approvals, "nothing waits for approval")
        elif key == "k":
            self._offer(kills, "no run is live")
        elif key == "p":
            self._work.put(self._turn)
        elif key == "r":
            self._is_stale.set()

    def _turn(self) -> None:
        self._note = turn_queue(self._lab)

    def _offer(self, find: Callable[[Lab], Sequence[Deed]], nothing: str) -> None:
        def look() -> None:
            found = find(self._lab)
            self._note = None if found else nothing
            self._offered = found

        self._note = "looking"
        self._work.put(look)

    def _take_offer(self) -> None:
        offered, self._offered = self._offered, None
        if offered and self._asked is None:
            self._deeds, self._place = offered, 0
            self._terminal.forget_keys()  # what was typed before the question is drawn is no answer to it

    def _answer(self, asked: Question, key: str) -> None:
        moves = {"up": -1, "down": 1, "page up": -10, "page down": 10, " ": 10}
        if key in moves:
            asked.offset += moves[key]
        elif key in ("right", "left") and len(self._deeds) > 1:
            self._place = (self._place + (1 if key == "right" else -1)) % len(self._deeds)
        elif key == "y" and self._deeds and not asked.is_read:
            asked.offset += 10  # what is not read yet is not agreed to
        else:
            deed = self._deeds[self._place] if self._deeds and key == "y" else None
            self._deeds, self._help, self._note = (), None, None
            if deed is not None:
                self._note = deed.doing
                self._work.put(self._doing(deed))

    def _doing(self, deed: Deed) -> Callable[[], None]:
        def do() -> None:
            self._note = deed.do()

        return do

    # --- drawing ------------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        columns, lines = self._terminal.size()
        if (asked := self._asked) is not None:
            self._terminal.draw(question(asked, columns, lines))
        elif self._document is None:
            self._terminal.draw([Line((self._note or "reading the record")[:columns])])
        else:
            self._terminal.draw(frame(self._document, columns, lines, note=self._note))

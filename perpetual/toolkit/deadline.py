"""Time limits for code that looks at foreign bytes: metric readers, gates, parsers of plugins.

A regular expression in C code cannot be interrupted from another thread, since it holds the interpreter's lock. In
the main thread a timer's signal ends it. In other threads the limit is checked when the call returns; parts that may
be slow check a `Deadline` themselves.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Deadline", "OutOfTime", "call", "call_bounded"]

T = TypeVar("T")
_AGAIN_S = 0.5  # a part that swallowed the first interruption gets another


class OutOfTime(Exception):
    """A call took longer than its limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"stopped after {seconds:g} s")
        self.seconds = seconds


class _Struck(BaseException):
    """The timer's interruption; no `except Exception` of a plugin takes it for its own."""


class Deadline:
    """A moment on the monotonic clock after which `check` raises."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Returns the seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raises OutOfTime once the time is up."""
        if time.monotonic() > self._end:
            raise OutOfTime(self.seconds)


def call(seconds: float, function: Callable[[], T]) -> T:
    """Returns the function's answer, or raises OutOfTime once it has taken `seconds`.

    In the main thread the function is interrupted. Elsewhere it runs to its end, and a late answer is dropped, so that
    both places answer the same.

    Raises:
        OutOfTime: at the limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        deadline = Deadline(seconds)
        answer = function()
        deadline.check()
        return answer
    armed = True

    def strike(number: int, frame: object) -> None:
        if armed:
            raise _Struck

    began = time.monotonic()
    previous = signal.signal(signal.SIGALRM, strike)
    outer_s, interval_s = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
    try:
        try:
            return function()
        finally:
            armed = False
    except _Struck:
        raise OutOfTime(seconds) from None
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        if outer_s:  # another timer was running: it goes on, and strikes at once where its time has passed
            signal.setitimer(signal.ITIMER_REAL, max(0.001, outer_s - (time.monotonic() - began)), interval_s)


def call_bounded(seconds: float, function: Callable[[], T]) -> T:
    """Returns the function's answer as `call` does; outside of the main thread a late function is left behind.

    There it runs in a thread of its own, which ends with the process: for parts that may hang, not for quick calls.

    Raises:
        OutOfTime: at the limit.
    """
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
        return call(seconds, function)
    answers: list[T] = []
    problems: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(function())
        except BaseException as problem:  # noqa: BLE001 - raised in the caller's thread
            problems.append(problem)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if problems:
        raise problems[0]
    if not answers:
        raise OutOfTime(seconds)
    return answers[0]

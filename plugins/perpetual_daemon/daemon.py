"""The service `daemon`: turns the loop of a project until a reason comes to stop.

    LOCK -> RECOVER -> [SCAN -> ANALYSE -> UPDATE -> CHECK -> PROPOSE -> APPROVE -> LAUNCH -> REPORT -> SLEEP]* -> EXIT

It owns the loop meanwhile (`perpetual_loop.lease`): no session of a coding agent goes on by itself beside it, and it
waits for one that does. The lock is that of the service, which the kernel frees when its process is killed. Recovering
needs no step of its own: each turn begins with a scan, and every step is a transaction that may be repeated. Between
two turns the daemon sleeps until a run has ended, another process has changed the record, or a file of the
configuration has changed. TERM, Ctrl-C and `daemon stop` end it after the present turn; runs go on.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from perpetual import Lab
from perpetual.api import (
    ConfigError,
    Conflict,
    Finding,
    NotPermitted,
    PerpetualError,
    PluginError,
    Service,
    TransientError,
)
from perpetual.loop import EXITS, Cycle
from perpetual.toolkit import confined
from perpetual.toolkit.contained import contained
from perpetual.toolkit.reserved import known_name
from perpetual.toolkit.units import posix_of
from perpetual_daemon.beside import Beside
from perpetual_daemon.ownership import Ownership
from perpetual_daemon.strategy import DefaultLoop
from perpetual_daemon.wakes import QueueLock, Wakes, files_of

if TYPE_CHECKING:
    from perpetual.api import StopSignal
    from perpetual_daemon.documents import DaemonCycle
    from perpetual_daemon.strategy import LoopStrategy
    from perpetual_loop.lease import Lease

__all__ = ["ACTOR", "THINKER", "Daemon", "End", "Settings", "build", "line_of", "log_in", "log_path"]

ACTOR = "loop"
THINKER = "thinker"  # the companion that `--require-llm` asks for
WAITED_FOR = "waiting_for_approval"
# What a change of the record can end. After the other reasons a person is to look before anything is started again.
PASSING = ("all_decided", "queue_empty", "budget_exhausted", "stop_requested", WAITED_FOR)  # here of a paused queue
LACKING = ("all_decided", "queue_empty")  # no reason to end while a companion may still bring work
_COMPANION_S = 2.0  # between two looks meanwhile
_SWEEP_S = 60.0  # between two looks where nothing wakes: a supervisor may be killed, a disk may have room again
_SHORTEST_PAUSE_S = 0.5  # also with --interval 0, and where a strategy names a moment that is over
_LONGEST_PAUSE_S = 3600.0  # the clock may be set
_FIRST_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0
_LARGEST_LOG_BYTES = 10 * 1024 * 1024
_LOG = "daemon.jsonl"
_OTHER_LOOP = "mend its plugin, or: perpetual config set slots.loop default"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a daemon goes about it.

    - `interval_s`: seconds between two looks where nothing wakes it.
    - `max_cycles`: turns after which it ends; None is no limit.
    - `waits`: stays while proposals wait for a person.
    - `stays`: stays too where there is nothing to do, or no budget, until that changes.
    - `requires_thinker`: ends where the companion `thinker` is missing or in trouble.
    - `is_safe`: loads bundled plugins only.
    """

    interval_s: float = _SWEEP_S
    max_cycles: int | None = None
    waits: bool = False
    stays: bool = False
    requires_thinker: bool = False
    is_safe: bool = False

    @property
    def waits_on(self) -> tuple[str, ...]:
        """Returns the reasons on which it stays."""
        return PASSING if self.stays else (WAITED_FOR,) if self.waits else ()


@dataclass(frozen=True, slots=True)
class End:
    """Why a daemon ended: a key of `perpetual.loop.EXITS`, in words, and after how many turns."""

    reason: str
    explanation: str
    cycles: int


class Daemon(Service):
    """Turns the loop; see the module. `end` is set once `run` has returned.

    Args:
        settings: how it goes about it.
        report: called with each turn, in the thread of `run`.
    """

    def __init__(self, settings: Settings | None = None, report: Callable[[Cycle], None] | None = None) -> None:
        self.settings, self._report = settings or Settings(), report
        self.end: End | None = None
        self._beside: Beside | None = None
        self._ownership = Ownership()
        self._words, self._is_well, self._number = "starting", True, 0
        self._waits: tuple[str, str] | None = None
        self._waits_on: tuple[str, ...] = ()
        self._said: tuple[object, ...] = (None, None, None)  # of the last turn: reason, explanation, what it waits for
        self._is_warm = False

    def run(self, lab: Lab, stop: StopSignal) -> None:
        """Turns the loop until `stop` is set, or a reason comes."""
        with ExitStack() as closing:
            queue = QueueLock(lab.root / ".perpetual")
            closing.callback(self._let_go, lab, queue)
            closing.callback(self._give_back, lab)
            current = _Current(lab, self.settings.is_safe)
            closing.callback(current.close)
            wakes = Wakes(current.another, queue, actor=ACTOR)
            closing.callback(wakes.close)
            self._beside = Beside(current.lab, current.another)
            closing.callback(self._beside.close)
            threading.Thread(target=self._heed_stop, args=(stop, wakes), daemon=True).start()
            try:
                self.end = self._turns(current, stop, queue, wakes)
            except Exception as problem:
                words = f"{type(problem).__name__}: {getattr(problem, 'message', problem)}"
                self._log(lab, {"reason": "failed", "explanation": words, "cycles": self._number})
                raise
            self._log(lab, {"reason": self.end.reason, "explanation": self.end.explanation, "cycles": self.end.cycles})

    def health(self, lab: Lab) -> Finding:
        """Returns what the last turn came to, and which companion has trouble."""
        trouble = self._beside.troubles() if self._beside is not None else {}
        words = [self._words, *(f"{name}: {why}" for name, why in trouble.items())]
        return Finding(
            self._is_well and not trouble, "; ".join(words), None if self._is_well else "perpetual daemon logs"
        )

    def _heed_stop(self, stop: StopSignal, wakes: Wakes) -> None:
        """Ends the sleep at the stop, and the companions: one that holds the record would hold up the turn."""
        while not stop.wait(5.0) and not wakes.is_over:
            pass
        if self._beside is not None:
            self._beside.ask_end()
        wakes.wake()

    def _turns(self, current: _Current, stop: StopSignal, queue: QueueLock, wakes: Wakes) -> End:
        failures = 0
        while True:
            if stop.is_set():
                return self._stopped(current.lab, "stop_requested", "the daemon was asked to end")
            if (held := _held(current.lab)) is not None:  # before anything of another's is run
                return End(WAITED_FOR, held, self._number)
            missing = self._missing_thinker(current.lab)
            if missing is not None:
                return self._stopped(current.lab, "harness_down", missing)
            try:
                if current.renew() and self._beside is not None:
                    if "companion" not in current.lab.registry.slots:
                        return self._stopped(current.lab, "stop_requested", "the plugin daemon was disabled")
                    self._beside.renew(current.lab)
                last = current.lab.feed.last()  # before the owner is looked up: what comes later wakes
                if (other := self._ownership.keep(current.lab)) is not None:
                    self._await_owner(current.lab, queue, wakes, other, last)
                    continue
                queue.take()
                queue.clear()
                seen = current.lab.feed.last()
                done = self._turn(current.lab)
                self._note_waits(current.lab, done)
                last = current.lab.feed.last()  # before it is asked what has changed: what comes later wakes
                is_outdated = self._is_outdated(current.lab, seen)
                failures = 0
            except (PerpetualError, OSError) as problem:
                if (held := _held(current.lab)) is not None:
                    return End(WAITED_FOR, held, self._number)
                if not _may_pass(problem):
                    raise
                failures += 1
                wait_s = self._failed(current.lab, problem, failures)
                if _is_of_files(problem):
                    wakes.sleep(wait_s, 0)  # until the file is mended
                else:
                    stop.wait(wait_s)  # ends of runs that cannot be recorded would wake it without a pause
                continue
            self._tell(current.lab, done)
            if done.launched and not self._is_warm:
                self._is_warm = True
                threading.Thread(target=_warm, args=(current.another,), daemon=True, name="daemon-warm").start()
            if done.reason is not None and done.reason not in self._waits_on:
                return End(done.reason, done.explanation or "", self._number)
            if self.settings.max_cycles is not None and self._number >= self.settings.max_cycles:
                return self._stopped(current.lab, "max_cycles", f"{self._number} cycles were asked for")
            if not is_outdated:
                self._sleep(current.lab, wakes, done, last)

    def _await_owner(self, lab: Lab, queue: QueueLock, wakes: Wakes, other: Lease, last: int) -> None:
        """Waits until the session of a coding agent that owns the loop may have ended.

        Raises:
            Conflict: before the first turn of a daemon that does not stay.
        """
        if not self._number and not self.settings.waits_on:
            raise Conflict(f"{other.words} goes on by itself", hint=f"{other.way_out} ends that", code="loop_owned")
        queue.release()  # queued runs go on meanwhile
        words = f"{other.words} owns the loop"
        self._is_well, self._words = True, f"waits: {words}"
        if self._waits != ("loop_owned", words):
            lab.feed.emit("daemon.waits", "loop", {"reason": "loop_owned", "explanation": words})
            self._waits = ("loop_owned", words)
        left_s = (other.until - datetime.now(UTC)).total_seconds()
        wakes.sleep(min(max(left_s, _SHORTEST_PAUSE_S), self.settings.interval_s or _SHORTEST_PAUSE_S), last)

    def _give_back(self, lab: Lab) -> None:
        """Gives the loop back; where the record cannot be written, the end of this process does."""
        with suppress(PerpetualError, OSError):
            self._ownership.end(lab, "failed" if self.end is None else self.end.reason)

    def _turn(self, lab: Lab) -> Cycle:
        name = lab.config.chosen(lab.registry.slot("loop"))
        strategy: LoopStrategy = lab.part("loop")
        number = self._number + 1
        is_at_work = self._beside is not None and self._beside.is_at_work(lab)
        self._waits_on = (*self.settings.waits_on, *(LACKING if is_at_work else ()))
        try:
            with contained():
                done = strategy.turn(lab, number=number, waits_on=self._waits_on)
        except (PerpetualError, OSError):
            raise
        except Exception as problem:
            if isinstance(strategy, DefaultLoop):
                raise
            raise PerpetualError(f"the loop strategy {name} failed: {type(problem).__name__}: {problem}",
                                 hint=_OTHER_LOOP) from problem  # fmt: skip
        wrong = _wrong_in(done)
        if wrong is not None:
            raise PerpetualError(f"the loop strategy {name} answered {wrong}", hint=_OTHER_LOOP)
        self._number = number  # a turn that failed is not counted
        return replace(done, cycle=number)

    def _is_outdated(self, lab: Lab, seen: int) -> bool:
        """Returns whether another process has changed the record during the turn, which may have missed it."""
        return any(event.actor != ACTOR for event in lab.feed.read(since=seen))

    def _sleep(self, lab: Lab, wakes: Wakes, done: Cycle, last: int) -> None:
        """Sleeps after a turn until something wakes it, no companion may bring work any longer, or the pause ends."""
        end = time.monotonic() + self._pause_s(done)
        is_waiting = done.reason in LACKING and done.reason not in self.settings.waits_on
        while (left := end - time.monotonic()) > 0:
            if wakes.sleep(min(left, _COMPANION_S) if is_waiting else left, last):
                return
            if is_waiting and (self._beside is None or not self._beside.is_at_work(lab)):
                return

    def _pause_s(self, done: Cycle) -> float:
        """Returns how long to sleep after a turn where nothing wakes: the interval, a little varied."""
        pause_s = self.settings.interval_s * random.uniform(0.9, 1.1)
        if done.resumes_at is not None:
            pause_s = min(pause_s, posix_of(done.resumes_at) - time.time())
        return min(max(pause_s, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)

    def _note_waits(self, lab: Lab, done: Cycle) -> None:
        """Says once what the daemon waits for."""
        waits = None if done.reason is None else (done.reason, done.explanation or "")
        if waits is None and done.paused is not None:
            waits = ("paused", done.paused)
        if (
            waits != self._waits
            and waits is not None
            and (done.reason is None or done.reason in self.settings.waits_on)
        ):
            try:
                lab.feed.emit("daemon.waits", "loop", {"reason": waits[0], "explanation": waits[1]})
            except (PerpetualError, OSError) as problem:
                if not _may_pass(problem):
                    raise
                waits = None  # it is said after the next turn
        self._waits = waits

    def _tell(self, lab: Lab, done: Cycle) -> None:
        """Writes the turn down and reports it."""
        self._is_well, waits = True, self._waits
        self._words = f"cycle {done.cycle}" + ("" if waits is None else f", waits: {waits[0]} ({waits[1]})")
        said = (done.reason, done.explanation, waits)
        if _is_news(done) or said != self._said:
            self._log(lab, {"turn": line_of(done)})
        self._said = said
        if self._report is not None:
            self._report(done)

    def _failed(self, lab: Lab, problem: Exception, failures: int) -> float:
        """Says what failed; returns the seconds until the next attempt."""
        message = str(getattr(problem, "message", problem)) or type(problem).__name__
        self._is_well, self._words = False, f"cannot go on now: {message}"
        doublings = min(failures - 1, 10)  # a float overflows after a night of failures
        wait_s = min(_LONGEST_RETRY_S, _FIRST_RETRY_S * 2.0**doublings) * random.uniform(0.5, 1.0)
        self._log(lab, {"error": message, "failures": failures, "retry_s": round(wait_s, 1)})
        return wait_s

    def _missing_thinker(self, lab: Lab) -> str | None:
        if not self.settings.requires_thinker or self._beside is None:
            return None
        name = next((name for name in self._beside.names if known_name("companion", name) == THINKER), None)
        if name is None:
            return "no companion named thinker is installed"
        if lab.config.chosen(lab.registry.slot("thinker")) == "none":
            return "no thinker is chosen (perpetual config set slots.thinker NAME)"
        why = self._beside.troubles().get(name)
        return None if why is None else f"the thinker is down: {why}"

    def _stopped(self, lab: Lab, reason: str, words: str) -> End:
        if _held(lab) is None:
            lab.loop.stopped(reason, self._number, words)
        return End(reason, words, self._number)

    def _let_go(self, lab: Lab, queue: QueueLock) -> None:
        """Lets the dispatcher have the queue; what ended since the last turn is recorded now."""
        is_left = queue.clear()
        queue.release()
        if is_left and _held(lab) is None:
            try:
                lab.scan(analyse=False)
            except (PerpetualError, OSError) as problem:
                self._log(lab, {"error": str(problem), "failures": 1, "retry_s": 0.0})

    def _log(self, lab: Lab, words: Mapping[str, object]) -> None:
        """Appends a line to the daemon's log; a disk that is full has none."""
        path = log_path(lab)
        try:
            confined.make_folder(os.path.dirname(path))
            seen = confined.look(path)
            fresh = os.O_TRUNC if seen is not None and seen.st_size > _LARGEST_LOG_BYTES else 0
            descriptor = confined.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | fresh)
            try:
                text = json.dumps({"time": time.time(), **words}, ensure_ascii=True)
                os.write(descriptor, text.encode() + b"\n")
            finally:
                os.close(descriptor)
        except OSError:
            self._is_well = False


class _Current:
    """The lab that turns are made with: opened anew when a file of the configuration has changed."""

    def __init__(self, first: Lab, is_safe: bool) -> None:
        self._first, self._is_safe = first, is_safe
        self._files = files_of(first)
        self.lab = self.another()

    def another(self, actor: str = ACTOR) -> Lab:
        """Opens a lab of the project."""
        return Lab.open(self._first.root, actor=actor, safe=self._is_safe)

    def renew(self) -> bool:
        """Opens the lab anew if a file has changed, and returns whether. Raises ConfigError: the old values hold."""
        files = files_of(self._first)
        if files == self._files:
            return False
        fresh = self.another()
        fresh.config.methodology  # noqa: B018 - read now: a wrong file is found before the lab is used
        old, self.lab, self._files = self.lab, fresh, files
        old.close()
        return True

    def close(self) -> None:
        """Closes the lab."""
        self.lab.close()


def _held(lab: Lab) -> str | None:
    """Returns why nothing may be run or recorded in the project, and the way out; None where this user trusts it."""
    try:
        lab.trust.require("turning the loop")
    except NotPermitted as problem:
        return f"{problem.message}; {problem.hint}"
    return None


def _may_pass(problem: Exception) -> bool:
    """Returns whether a turn may succeed later though this one failed: also where the disk is full."""
    is_full = isinstance(problem, PerpetualError) and problem.code == "not_written"
    return is_full or isinstance(problem, (TransientError, OSError)) or _is_of_files(problem)


def _is_of_files(problem: Exception) -> bool:
    """Returns whether a file has to be mended, or a plugin to come back, before a turn can succeed."""
    return isinstance(problem, ConfigError) or (isinstance(problem, PluginError) and problem.code == "plugin_missing")


def _warm(open_lab: Callable[[], Lab]) -> None:
    """Has the gates of memory read their rules while the first runs go on: the first note takes a second otherwise."""
    try:
        with open_lab() as lab:
            lab.memory.scan("A run has ended.")
    except (PerpetualError, OSError):
        return  # the note that is written meets it, and says so


def _wrong_in(done: object) -> str | None:
    """Returns what is wrong with a strategy's answer, or None."""
    if not isinstance(done, Cycle):
        return f"{type(done).__name__}, and not a Cycle"
    if done.reason is not None and done.reason not in EXITS:
        return f"the reason {done.reason!r}, which is none of {', '.join(EXITS)}"
    try:
        posix_of(done.resumes_at) if done.resumes_at is not None else None
    except (AttributeError, TypeError, ValueError):
        return f"resumes_at {done.resumes_at!r}, which is no time"
    return None


def _is_news(done: Cycle) -> bool:
    return bool(done.changes or done.analysed or done.proposed or done.approved or done.launched)


def line_of(done: Cycle) -> DaemonCycle:
    """Returns what is reported of a turn."""
    return {
        "cycle": done.cycle,
        "done": [change["run_id"] for change in done.changes if change["to"] not in ("launching", "running")],
        "analysed": [*done.analysed],
        "proposed": [*done.proposed],
        "approved": [*done.approved],
        "launched": [*done.launched],
        "spent_gpu_hours": done.spent_gpu_hours,
        "reserved_gpu_hours": done.reserved_gpu_hours,
        "run_hours": done.run_hours,
        "open": done.open,
        "paused": done.paused,
        "resumes_at": done.resumes_at,
        "reason": done.reason,
        "explanation": done.explanation,
    }


def log_path(lab: Lab) -> str:
    """Returns the path of the daemon's log, one JSON object a line."""
    return log_in(os.path.join(lab.root, ".perpetual"))


def log_in(folder: str) -> str:
    """Returns the path of the daemon's log, given the project's `.perpetual`."""
    return os.path.join(folder, "services", _LOG)


def build(options: Mapping[str, object]) -> Daemon:
    """Builds the service as `services start daemon` runs it, until it is stopped; it has no options."""
    return Daemon(Settings(stays=True))

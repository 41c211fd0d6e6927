"""The dispatcher `argv`: harnesses by their command lines, one process for one turn; the prompt goes to standard input.

A permission cannot be answered here: what the command line does not allow beforehand, the harness refuses by itself.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import threading
import time
from collections.abc import Callable, Mapping

from perpetual.api import PerpetualError
from perpetual.toolkit.fence import neutralise
from perpetual_harnesses.dispatch.base import Dispatcher, DispatchError, Row, Task, Turn
from perpetual_harnesses.dispatch.dialects import DIALECTS, Dialect
from perpetual_harnesses.dispatch.environment import cleaned
from perpetual_harnesses.dispatch.messages import last_line
from perpetual_harnesses.dispatch.process import Process
from perpetual_harnesses.dispatch.stream import MOST_TEXT_BYTES, Gathered

__all__ = ["ArgvDispatcher", "build"]

LONGEST_LINE_BYTES = 16 * 1024 * 1024
_MOST_ARGUMENT_BYTES = 100_000  # Linux takes 128 KiB for one word (execve(2), MAX_ARG_STRLEN)
_PIECE_BYTES = 64 * 1024
_LOOK_S = 0.1
_DRAIN_S = 1.0  # for what the pipe still holds once the harness has ended


class ArgvDispatcher(Dispatcher):
    """Drives harnesses by their command lines; see the contract in `perpetual_harnesses.dispatch.base`."""

    name = "argv"

    def __init__(self) -> None:
        self._lock = threading.RLock()  # `cancel` may come in a signal handler
        self._going: set[_Reading] = set()

    def problem(self, row: Row, environment: Mapping[str, str]) -> PerpetualError | None:
        """Returns what is missing: words in the row, or the program."""
        if not row.argv:
            return DispatchError(f"{row.name} has no command line for one turn that is known")
        if shutil.which(row.argv[0], path=environment.get("PATH")) is None:
            return DispatchError(f"{neutralise(row.argv[0], 100)} is not installed", hint=row.install or None)
        if row.parser not in DIALECTS:
            return DispatchError(f"{row.name}: there is no parser {row.parser}; there is {', '.join(DIALECTS)}")
        return None

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        """Starts the harness with the prompt, and returns what came of it."""
        environment = cleaned(os.environ, row, task)
        dialect = DIALECTS[row.parser]()
        if task.session is not None and not row.resume:
            raise DispatchError(f"{row.name} cannot go on with a session by its command line")
        words = _words(row, task, dialect)
        process = Process([shutil.which(words[0], path=environment.get("PATH")) or words[0], *words[1:]],
                          cwd=task.cwd, env=environment)  # fmt: skip
        gathered = Gathered(task, seen)
        gathered.session = task.session
        has_prompt = any("{prompt}" in word for word in (row.resume if task.session else row.argv))
        reading = _Reading(process, gathered, dialect, b"" if has_prompt else task.prompt.encode("utf-8", "replace"))
        with self._lock:
            self._going.add(reading)
        try:
            reading.read()
        finally:
            with self._lock:
                self._going.discard(reading)
            status, left = process.end(is_hasty=gathered.is_over)
        if reading.is_cancelled:
            gathered.blame("cancelled")
        elif not gathered.is_over:
            _judge(status, dialect, gathered, process.errors)
        return gathered.turn(self.name, left, process.errors)

    def cancel(self) -> None:
        """Kills the processes of the turns that go on."""
        with self._lock:
            for reading in self._going:
                reading.cancel()


def _judge(status: int, dialect: Dialect, gathered: Gathered, errors: str) -> None:
    """Notes what the end of the process says."""
    failures = gathered.outcomes - {"permission_refused", "hook_untrusted"}
    if not dialect.is_whole(gathered) or (status != 0 and not failures):
        gathered.blame("broken_stream", f"the harness ended with status {status}: {last_line(errors)}")


def _words(row: Row, task: Task, dialect: Dialect) -> list[str]:
    """Returns the row's words with the task's in place of their names."""
    many = {
        "{servers}": dialect.servers(task), "{permissions}": dialect.permissions(task),
        "{agent}": dialect.agent(task), "{budget}": dialect.budget(task),
        "{model}": [word.replace("{model}", task.model) for word in row.model] if task.model else [],
    }  # fmt: skip
    found: list[str] = []
    for word in row.resume if task.session is not None else row.argv:
        if word in many:
            found += many[word]
        else:
            found.append(word.replace("{session}", task.session or "").replace("{prompt}", task.prompt))
    if any(len(word.encode("utf-8", "replace")) > _MOST_ARGUMENT_BYTES for word in found):
        raise DispatchError(
            f"the prompt is too long for a word of the command line of {row.name}",
            hint="leave {prompt} out of the template: it then goes to standard input",
        )
    if any("\0" in word for word in found):
        raise DispatchError("a prompt with a zero byte cannot be a word of a command line")
    return found


class _Reading:
    """One process that is written to and read from, until it has ended or a limit is passed."""

    def __init__(self, process: Process, gathered: Gathered, dialect: Dialect, prompt: bytes) -> None:
        self._process, self._gathered, self._dialect = process, gathered, dialect
        self._rest = memoryview(prompt)
        self._buffer = bytearray()
        self.is_cancelled = False

    def cancel(self) -> None:
        """Ends the reading from another thread."""
        self.is_cancelled = True
        self._process.interrupt()

    def read(self) -> None:
        """Reads until the process has ended and its output is drained, or closed."""
        process, gathered = self._process, self._gathered
        os.set_blocking(process.input.fileno(), False)
        ended: float | None = None
        with selectors.DefaultSelector() as selector:
            selector.register(process.input, selectors.EVENT_WRITE)
            selector.register(process.output, selectors.EVENT_READ)
            while process.output in {key.fileobj for key in selector.get_map().values()}:
                left = gathered.left_s()
                why = f"no answer within {gathered.task.limits.wall_s:g} s" if left <= 0 else gathered.passed()
                if self.is_cancelled or why is not None:
                    self._cut(why)
                    return
                ready = selector.select(min(left, _LOOK_S))
                if process.has_ended():
                    ended = ended or time.monotonic()
                    if time.monotonic() - ended > _DRAIN_S:
                        break  # what it has left behind goes on printing
                for key, _ in ready:
                    if key.fileobj is process.input:
                        self._write(selector)
                    elif not self._take():
                        selector.unregister(process.output)
                if not ready and process.has_ended():
                    break  # a child that it has left holds the output open
        if self._buffer:
            self._line(bytes(self._buffer))
        self._await_end()

    def _await_end(self) -> None:
        """Waits for a harness that has closed its output, within the limit."""
        while not self._process.has_ended() and not self.is_cancelled:
            if self._dialect.by_lines and self._dialect.is_whole(self._gathered):
                return  # it has said all; ending it is what comes next
            if self._gathered.left_s() <= 0:
                self._cut(f"it did not end within {self._gathered.task.limits.wall_s:g} s")
                return
            time.sleep(_LOOK_S / 5)

    def _cut(self, why: str | None) -> None:
        self._gathered.is_over = True
        if self._buffer and not self._dialect.by_lines:
            self._line(bytes(self._buffer))
        if why is not None and not self.is_cancelled:
            self._gathered.blame("budget_cut", why)
        self._process.interrupt()

    def _write(self, selector: selectors.BaseSelector) -> None:
        descriptor = self._process.input.fileno()
        try:
            self._rest = self._rest[os.write(descriptor, self._rest) :] if self._rest else self._rest
        except BlockingIOError:
            return
        except OSError:  # it reads no further
            self._rest = self._rest[:0]
        if not self._rest:
            selector.unregister(self._process.input)
            with contextlib.suppress(OSError):
                self._process.input.close()

    def _take(self) -> bool:
        """Takes a piece of the output; returns False at its end."""
        piece = os.read(self._process.output.fileno(), _PIECE_BYTES)
        if not piece:
            return False
        self._buffer += piece
        if not self._dialect.by_lines:
            if len(self._buffer) > 2 * MOST_TEXT_BYTES:  # more is not kept, and is drained
                del self._buffer[2 * MOST_TEXT_BYTES :]
            return True
        *lines, rest = self._buffer.split(b"\n")
        for line in lines:
            self._line(bytes(line))
        self._buffer = bytearray(rest if len(rest) <= LONGEST_LINE_BYTES else b"")
        return True

    def _line(self, line: bytes) -> None:
        if line.strip():
            self._dialect.take(line.decode("utf-8", "replace"), self._gathered)


def build(options: Mapping[str, object]) -> ArgvDispatcher:
    """Builds the provider `argv`; it has no options."""
    return ArgvDispatcher()

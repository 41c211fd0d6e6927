"""A helper process in which foreign code is called: one that hangs is killed. Floor 0.

Its program is `perpetual.toolkit.helper_worker`, which answers by the deeds that are named; questions and answers are
lines of JSON. What foreign code prints there goes to standard error. The process is started at the first question, and
again after it was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from typing import IO

__all__ = ["HelperEnded", "HelperHung", "HelperProcess"]

_START = "import sys; sys.path[:] = {path!r}; from perpetual.toolkit.helper_worker import main; main({deeds!r})"
_LEAVE_S = 2.0  # for the helper to leave by itself


class HelperHung(Exception):
    """No answer came in time; the helper was killed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer in {seconds:g} s")
        self.seconds = seconds


class HelperEnded(Exception):
    """The helper process ended without an answer."""

    def __init__(self, status: int | None) -> None:
        super().__init__(f"it ended its process (status {status})")


class HelperProcess:
    """The helper process; usable as a context manager and from several threads, one question at a time.

    Args:
        deeds: `module:table` of what it can do; see `perpetual.toolkit.helper_worker`.
    """

    def __init__(self, deeds: str) -> None:
        self._deeds = deeds
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def __enter__(self) -> HelperProcess:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def ask(self, deed: str, limit_s: float, **question: object) -> dict[str, object]:
        """Returns the answer to one question.

        Raises:
            HelperHung: if none came in time.
            HelperEnded: if the helper died.
            OSError: if it cannot be started.
        """
        with self._turn:
            self.send(deed, limit_s, **question)
            return self.receive(limit_s)

    def send(self, deed: str, limit_s: float, **question: object) -> None:
        """Sends a question; `receive` has the answers."""
        process = self._started()
        assert process.stdin is not None
        line = json.dumps({"deed": deed, "limit_s": limit_s, **question}) + "\n"
        try:
            process.stdin.write(line.encode("ascii"))
            process.stdin.flush()
        except OSError:  # it died between two questions: a fresh one gets this one
            self.kill()
            process = self._started()
            assert process.stdin is not None
            process.stdin.write(line.encode("ascii"))
            process.stdin.flush()

    def receive(self, limit_s: float, said_s: float | None = None) -> dict[str, object]:
        """Returns the next answer; kills the helper if none comes in time.

        Args:
            said_s: the limit that the error names, where it is another one.

        Raises:
            HelperHung, HelperEnded: see `ask`.
        """
        try:
            line = self._answers.get(timeout=max(0.001, limit_s))
        except queue.Empty:
            self.kill()
            raise HelperHung(limit_s if said_s is None else said_s) from None
        except BaseException:  # an interrupt: the answer that is still to come belongs to no later question
            self.kill()
            raise
        try:
            answer: dict[str, object] = json.loads(line)
        except ValueError:
            raise HelperEnded(self.kill()) from None
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.kill()
        self._answers = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START.format(path=sys.path, deeds=self._deeds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        reader = threading.Thread(target=_read, args=(self._process.stdout, self._answers), daemon=True)
        reader.start()
        return self._process

    def kill(self) -> int | None:
        """Ends the helper and what it started at once; returns its exit status."""
        process, self._process = self._process, None
        if process is None:
            return None
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        return _ended(process)

    def close(self) -> None:
        """Lets the helper leave, and ends it if it does not."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LEAVE_S)
        self.kill()


def _ended(process: subprocess.Popen[bytes]) -> int:
    status = process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    return status


def _read(stream: IO[bytes] | None, answers: queue.SimpleQueue[bytes]) -> None:
    """Passes lines on until the stream ends, which is an empty one."""
    assert stream is not None
    with stream, contextlib.suppress(OSError, ValueError):
        for line in stream:
            answers.put(line)
    answers.put(b"")

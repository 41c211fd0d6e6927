"""The thinker `command`: a program that reads one request as JSON and writes one reply as JSON.

    {"request_id": ..., "kind": ..., "state": ..., "schema": {...}, "max_tokens": ...}      on standard input
    {"text": ..., "tokens_in": ..., "tokens_out": ..., "usd": ..., "model": ...}            on standard output

It is started for each request, in the project's folder, as the leader of a process group that is killed when the
program has ended, is late or writes too much. Its environment is minimal: keys of services are passed by name
(`environment`) or as a reference to a secret (`token`).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from perpetual.api import PerpetualError
from perpetual.toolkit.fence import neutralise
from perpetual.toolkit.secret import Secret
from perpetual_thinkers.base import MOST_REPLY_BYTES, Reply, Request, Thinker, ThinkerError

__all__ = ["TOKEN", "CommandThinker", "build"]

TOKEN = "PERPETUAL_THINKER_TOKEN"
_KEPT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "SYSTEMROOT", "TEMP", "TMP")
_MOST_OUTPUT_BYTES = 4 * MOST_REPLY_BYTES  # a text may be escaped, as `\u00e9`
_KEPT_ERRORS_BYTES = 4 * 1024
_PIECE_BYTES = 64 * 1024
_LOOK_S = 0.1
_LONGEST_REASON = 300
_MOST_COUNT = 10**9


class CommandThinker(Thinker):
    """Starts a program for each request.

    Args:
        command: its words; without one there is no answer.
        timeout_s: seconds after which it is killed.
        environment: names of variables that it gets beside the minimal ones.
        token: a secret that it gets in `PERPETUAL_THINKER_TOKEN`.
    """

    def __init__(
        self, command: Sequence[str], *, timeout_s: float = 120.0, environment: Sequence[str] = (),
        token: Secret | None = None,
    ) -> None:  # fmt: skip
        self._command, self._timeout_s = [*command], timeout_s
        self._environment, self._token = [*environment], token
        self._root: Path | None = None
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._cancelled: set[subprocess.Popen[bytes]] = set()

    def open(self, root: Path) -> None:
        """Names the folder in which the program is started."""
        self._root = root

    def problem(self) -> ThinkerError | None:
        """Returns an error where there is no command, or its program is not there."""
        if not self._command:
            return ThinkerError(
                "the thinker `command` has no command that counts here",
                hint='perpetual config set plugins.command.command \'["python", "think.py"]\'; one that was '
                "written into the project's file by hand counts once a person has accepted it: perpetual trust",
            )
        if shutil.which(self._command[0], path=self._variables_kept().get("PATH")) is None:
            inside = self._root is not None and (self._root / self._command[0]).is_file()
            if not inside:
                return ThinkerError(f"the thinker's program is not there: {_shown(self._command[0])}")
        return None

    def think(self, request: Request) -> Reply:
        """Returns what the program answers."""
        wrong = self.problem()
        if wrong is not None:
            raise wrong
        question = json.dumps({
            "request_id": request.request_id, "kind": request.kind, "state": request.state,
            "schema": request.schema, "max_tokens": request.max_tokens,
        })  # fmt: skip
        try:
            process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                cwd=self._root, env=self._variables(), start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as problem:
            raise ThinkerError(f"{_shown(self._command[0])} cannot be started: {_shown(problem)}") from problem
        with self._lock:
            self._running.add(process)
        try:
            out, errors, late = _exchange(process, question.encode(), time.monotonic() + self._timeout_s)
        finally:
            _end(process)
            with self._lock:
                self._running.discard(process)
                cancelled = process in self._cancelled
                self._cancelled.discard(process)
        if cancelled:
            raise ThinkerError("the thinker was stopped before its answer")
        if late:
            raise ThinkerError(f"no answer in {self._timeout_s:g} s")
        if len(out) > _MOST_OUTPUT_BYTES:
            raise ThinkerError(f"the answer is longer than {_MOST_OUTPUT_BYTES} bytes")
        if process.returncode != 0:
            lines = errors.decode("utf-8", "replace").split("\n")
            said = _shown(next((line.strip() for line in reversed(lines) if line.strip()), ""))
            raise ThinkerError(f"{_shown(self._command[0])} ended with status {process.returncode}: {said or '-'}")
        return _reply(out)

    def cancel(self) -> None:
        """Kills the programs that run."""
        with self._lock:
            for process in self._running:
                self._cancelled.add(process)
                _kill(process)

    def _variables_kept(self) -> dict[str, str]:
        return {name: os.environ[name] for name in (*_KEPT, *self._environment) if name in os.environ}

    def _variables(self) -> dict[str, str]:
        found = self._variables_kept()
        if self._token is not None:
            try:
                found[TOKEN] = self._token.reveal()
            except PerpetualError as problem:
                raise ThinkerError(problem.message, hint=problem.hint) from problem
        return found


def _exchange(process: subprocess.Popen[bytes], question: bytes, deadline: float) -> tuple[bytes, bytes, bool]:
    """Writes the question and reads until the program has closed its output; returns both, and whether it was late.

    Reads at most one piece more than is allowed: a program that writes for ever is not waited for.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    out, errors = bytearray(), bytearray()
    rest = memoryview(question)
    with selectors.DefaultSelector() as selector, process.stdin, process.stdout, process.stderr:
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while process.stdout in {key.fileobj for key in selector.get_map().values()}:
            left = deadline - time.monotonic()
            if left <= 0:
                return bytes(out), bytes(errors), True
            for key, _ in selector.select(min(left, _LOOK_S)):
                if key.fileobj is process.stdin:
                    rest = _put(process.stdin.fileno(), rest)
                    if not rest:
                        selector.unregister(process.stdin)
                        with contextlib.suppress(OSError):
                            process.stdin.close()
                    continue
                piece = os.read(key.fd, _PIECE_BYTES)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    out += piece
                else:
                    errors = (errors + piece)[-_KEPT_ERRORS_BYTES:]
            if len(out) > _MOST_OUTPUT_BYTES:
                return bytes(out), bytes(errors), False
            if process.poll() is not None and not _more(selector):
                break  # a child that it has left holds the output open
        while process.poll() is None:  # it has closed its output and goes on
            if time.monotonic() > deadline:
                return bytes(out), bytes(errors), True
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
    return bytes(out), bytes(errors), False


def _more(selector: selectors.BaseSelector) -> bool:
    """Returns whether there is something to read now."""
    return any(key.events & selectors.EVENT_READ for key, _ in selector.select(0))


def _put(descriptor: int, rest: memoryview) -> memoryview:
    """Writes as much as the pipe takes; nothing is left to write where the program reads no further."""
    try:
        return rest[os.write(descriptor, rest) :]
    except BlockingIOError:
        return rest
    except OSError:
        return rest[:0]


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of the program's group, and takes its status."""
    _kill(process)
    process.wait()


def _reply(out: bytes) -> Reply:
    try:
        found = json.loads(out)
    except (ValueError, RecursionError):
        raise ThinkerError("the answer on standard output is not one JSON object") from None
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        raise ThinkerError("the answer has no `text`")
    text = found["text"].encode("utf-8", "replace").decode()
    if len(text.encode()) > MOST_REPLY_BYTES:
        raise ThinkerError(f"the answer's text is longer than {MOST_REPLY_BYTES} bytes")
    model = found.get("model")
    return Reply(text, _count(found.get("tokens_in")), _count(found.get("tokens_out")), _money(found.get("usd")),
                 neutralise(model, 100) if isinstance(model, str) else "")  # fmt: skip


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_COUNT else None


def _money(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= _MOST_COUNT:
        return None
    return float(value) if math.isfinite(value) else None


def _shown(text: object) -> str:
    return neutralise(text, _LONGEST_REASON)


def build(options: Mapping[str, object]) -> CommandThinker:
    """Builds the provider `command`."""
    command, environment, timeout_s = options["command"], options["environment"], options["timeout_s"]
    token = options["token"]
    assert isinstance(command, list)
    assert isinstance(environment, list)
    assert isinstance(timeout_s, (int, float))
    assert token is None or isinstance(token, Secret), "the kernel hands a secret over as one"
    return CommandThinker(
        [*map(str, command)], timeout_s=float(timeout_s), environment=[*map(str, environment)], token=token
    )

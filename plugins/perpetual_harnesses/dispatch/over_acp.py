"""The dispatcher `acp`: harnesses that speak the Agent Client Protocol (agentclientprotocol.com, version 1).

The wire is the library's (`agent-client-protocol`, the extra `harnesses`); its messages are read here as they come,
since harnesses send more than a version of the schema knows. Updates are taken in the order of the lines, before the
answer that follows them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import threading
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from perpetual.api import PerpetualError
from perpetual_harnesses.dispatch.acp_session import AUTH_REQUIRED, CLOSE_S, Session
from perpetual_harnesses.dispatch.acp_wire import LONGEST_LINE_BYTES, Wire
from perpetual_harnesses.dispatch.base import Dispatcher, DispatchError, Row, Task, Turn
from perpetual_harnesses.dispatch.environment import cleaned
from perpetual_harnesses.dispatch.messages import last_line
from perpetual_harnesses.dispatch.process import Process
from perpetual_harnesses.dispatch.stream import Gathered, trouble_in

__all__ = ["AcpDispatcher", "build"]

EXTRA = "pip install 'perpetual-lab[harnesses]'"
_CANCEL_S, _CUT_S = 0.8, 2.0  # for the harness to confirm that it has stopped: for a caller, and at a limit


class AcpDispatcher(Dispatcher):
    """Drives harnesses over ACP; see the contract in `perpetual_harnesses.dispatch.base`."""

    name = "acp"

    def __init__(self) -> None:
        self._lock = threading.RLock()  # `cancel` may come in a signal handler
        self._going: set[_Going] = set()

    def problem(self, row: Row, environment: Mapping[str, str]) -> PerpetualError | None:
        """Returns what is missing: words in the row, the program, or the library."""
        if not row.acp:
            return DispatchError(f"{row.name} is not known to speak ACP")
        if shutil.which(row.acp[0], path=environment.get("PATH")) is None:
            return DispatchError(f"{row.acp[0]} is not installed", hint=row.install or None)
        if find_spec("acp") is None:
            return DispatchError("the package agent-client-protocol is not installed", hint=EXTRA)
        return None

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        """Sends the prompt in a new process of the harness, and returns what came of it."""
        import os

        environment = cleaned(os.environ, row, task)
        process = Process(_resolved(row.acp, environment), cwd=task.cwd, env=environment)
        gathered = Gathered(task, seen)
        gathered.session = task.session
        going = _Going(process, gathered)
        with self._lock:
            self._going.add(going)
        try:
            asyncio.run(_drive(row, task, process, gathered, going))
        finally:
            with self._lock:
                self._going.discard(going)
            status, left = process.end(is_hasty=gathered.is_over)
        if going.is_cancelled:
            gathered.outcomes -= {"broken_stream", "budget_cut"}
            gathered.blame("cancelled")
        elif "broken_stream" in gathered.outcomes and not gathered.problem:
            gathered.problem = (
                f"the harness ended in the middle of the turn with status {status}: {last_line(process.errors)}"
            )
        return gathered.turn(self.name, left, process.errors)

    def cancel(self) -> None:
        """Ends the turns that go on: asks the harness, and ends its processes where it does not stop."""
        with self._lock:
            for going in self._going:
                going.cancel()


class _Going:
    """A turn that goes on, as another thread may end it."""

    def __init__(self, process: Process, gathered: Gathered) -> None:
        self._process, self._gathered = process, gathered
        self.is_cancelled = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def ready(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        """Takes what wakes the turn."""
        self._loop, self._stop = loop, stop
        if self.is_cancelled:
            stop.set()

    def cancel(self) -> None:
        """Wakes the turn, which then asks the harness to stop."""
        self.is_cancelled = True
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(stop.set)


async def _drive(row: Row, task: Task, process: Process, gathered: Gathered, going: _Going) -> None:
    """Speaks with the harness until the turn is over; what goes wrong is noted in `gathered`."""
    from acp.connection import Connection
    from acp.exceptions import RequestError

    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    reader = asyncio.StreamReader(limit=LONGEST_LINE_BYTES)
    read, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.output)
    write, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.input)
    session = Session(row, task, gathered, stop.set)
    wire = Wire(reader, asyncio.StreamWriter(write, protocol, None, loop), session.update)
    connection = Connection(session.answer, wire)
    going.ready(loop, stop)
    speaking = asyncio.ensure_future(session.speak(connection))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((speaking, stopping), timeout=max(0.0, gathered.left_s()), return_when="FIRST_COMPLETED")
        if not speaking.done():
            gathered.is_over = True
            if not going.is_cancelled:
                gathered.blame("budget_cut", gathered.passed() or f"no answer within {task.limits.wall_s:g} s")
            await session.stop(connection, speaking, _CANCEL_S if going.is_cancelled else _CUT_S)
        if speaking.done() and not speaking.cancelled():
            _judge(speaking.exception(), gathered, RequestError)
    finally:
        stopping.cancel()
        speaking.cancel()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await speaking
        with contextlib.suppress(Exception):
            await asyncio.wait_for(connection.close(), CLOSE_S)
        read.close()
        if write.get_write_buffer_size():
            write.abort()  # what a harness does not read is not waited for
        else:
            write.close()


def _judge(problem: BaseException | None, gathered: Gathered, refused: type[Exception]) -> None:
    """Notes why the harness gave no answer."""
    if problem is None:
        return
    if isinstance(problem, refused):
        code, data = getattr(problem, "code", 0), getattr(problem, "data", None)
        said = f"{problem}: {json.dumps(data, default=str)}" if data else str(problem)
        wants_login = code == AUTH_REQUIRED or "auth_required" in trouble_in(said)
        gathered.blame("auth_required" if wants_login else "no_answer", said)
    elif isinstance(problem, DispatchError):  # what was asked for cannot be had
        gathered.blame("no_answer", problem.message)
    elif isinstance(problem, (ConnectionError, OSError)):
        gathered.blame("broken_stream")
    else:
        gathered.blame("broken_stream", f"{type(problem).__name__}: {problem}")


def _resolved(words: tuple[str, ...], environment: Mapping[str, str]) -> list[str]:
    """Returns the words with the program's whole path, so that it is the one of the cleaned PATH."""
    return [shutil.which(words[0], path=environment.get("PATH")) or words[0], *words[1:]]


def build(options: Mapping[str, object]) -> AcpDispatcher:
    """Builds the provider `acp`; it has no options."""
    return AcpDispatcher()

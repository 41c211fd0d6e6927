"""The context of one call of a tool: how far it is, and whether the client has taken it back. Used by `tools`.

A tool runs in a worker thread, or in the event loop where it is a coroutine function, and blocks in neither: the newest
word about its progress is kept, and a task of the call sends it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from math import isfinite
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from perpetual.api import ToolContext
from perpetual_mcp.bounds import plain

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

__all__ = ["CallContext", "context_name", "current"]

_LEAST_S = 1.0  # between two notifications of a call
_LONGEST = 200  # characters of a message
_THREADS = 64  # calls that take long, at once; the others keep the threads of the SDK

T = TypeVar("T")
_current: ContextVar[CallContext | None] = ContextVar("call", default=None)


class CallContext(ToolContext):
    """One call; made in the event loop.

    Attributes:
        heard: the newest event that this client has been answered by a scan or a wait; None before the first.
        is_heard: whether the client asked for progress.
    """

    def __init__(self, ctx: ServerRequestContext[object, object], heard: int | None = None) -> None:
        self.heard = heard
        self.is_heard = bool(ctx.meta) and dict(ctx.meta or {}).get("progress_token") is not None
        self._session = ctx.session
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._newest: tuple[float, float | None, str] | None = None
        self._reached = float("-inf")

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Keeps the newest word for the client; see `ToolContext`."""
        if self.is_cancelled() or not isfinite(done):
            return
        with self._lock:
            if done <= self._reached:
                return
            self._reached = done
            self._newest = (done, total if total is not None and isfinite(total) else None, plain(message, _LONGEST))
        try:
            self._loop.call_soon_threadsafe(self._wake.set)
        except RuntimeError:
            return  # the server is leaving

    def is_cancelled(self) -> bool:
        """Returns whether the client has taken the call back, or has left."""
        return self._cancelled.is_set()

    async def serve(self, work: Callable[[], Awaitable[T]]) -> T:
        """Returns what `work` comes to, which sees this context, and sends its progress meanwhile.

        Where the call is taken back, what `work` has in a thread is waited for, as it may hold the store; it looks at
        `is_cancelled` every second or so.
        """
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._send)
            token = _current.set(self)
            try:
                result = await work()
            except Exception as problem:  # noqa: BLE001 - raised below, as it is: a group would wrap it
                failure = problem
            finally:
                _current.reset(token)
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return result

    async def in_thread(self, deed: Callable[[], T]) -> T:
        """Returns what `deed` answers, done in a thread; see `serve`."""
        return await self.serve(lambda: anyio.to_thread.run_sync(deed, limiter=_limiter()))

    async def _send(self) -> None:
        """Sends the newest word about the progress, again and again; when it is cancelled, so is the call."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                with self._lock:
                    newest, self._newest = self._newest, None
                if newest is not None:
                    await self._session.report_progress(newest[0], newest[1], newest[2] or None)
                    await anyio.sleep(_LEAST_S)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the client has left, which ends the call
        finally:
            self._cancelled.set()


_limiters: dict[asyncio.AbstractEventLoop, anyio.CapacityLimiter] = {}


def _limiter() -> anyio.CapacityLimiter:
    """Returns the limiter of this event loop's calls that take long."""
    loop = asyncio.get_running_loop()
    for other in [known for known in _limiters if known.is_closed()]:
        del _limiters[other]
    return _limiters.setdefault(loop, anyio.CapacityLimiter(_THREADS))


def current() -> CallContext | None:
    """Returns the context of the call that is served here; None outside of one."""
    return _current.get()


def context_name(function: Callable[..., object]) -> str | None:
    """Returns the parameter of a tool that takes the context, by its annotation."""
    for item in inspect.signature(function, eval_str=True).parameters.values():
        if isinstance(item.annotation, type) and issubclass(item.annotation, ToolContext):
            return item.name
    return None

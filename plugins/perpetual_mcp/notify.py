"""Notifies clients of every change, whatever process made it. Used by `perpetual_mcp.server`.

Both eras of the protocol are served: `subscriptions/listen` (2026-07-28) through the SDK's bus, which `Changes` is, and
`resources/subscribe` (before) by a message to each connection that asked. The changes come from the feed: from the
first subscription on, a thread waits for events of any process, which the store wakes.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import anyio

from perpetual import Lab
from perpetual.api import PerpetualError
from perpetual_mcp.resources import uris_of
from perpetual_mcp.sessions import NOBODY, Labs

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.subscriptions import ServerEvent

__all__ = ["OPENINGS", "Changes"]

OPENINGS = ("subscriptions/listen", "resources/subscribe")  # methods before which `begin` is to be called
_TURN_S = 5.0  # the thread looks whether it is still wanted
_PAUSE_S = 1.0  # after a store that could not be read
_PATIENCE_S = 5.0  # for a connection that takes no message
_BATCH = 500

_log = logging.getLogger(__name__)


class Changes:
    """The SDK's subscription bus, fed from the lab's feed, and the older protocol's subscriptions beside it."""

    def __init__(self, labs: Labs) -> None:
        self._labs = labs
        self._listeners: dict[object, Callable[[ServerEvent], None]] = {}
        self._watching: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()  # connection -> what it asked for
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Queue[dict[str, None]] = asyncio.Queue()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    # --- the SDK's bus ------------------------------------------------------------------------------------------

    async def publish(self, event: ServerEvent) -> None:
        """Hands an event to every stream that listens."""
        for listener in [*self._listeners.values()]:
            listener(event)
        await anyio.lowlevel.checkpoint()

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Adds a stream; answers what takes it away."""
        token = object()
        self._listeners[token] = listener

        def leave() -> None:
            self._listeners.pop(token, None)

        return leave

    # --- the older protocol -------------------------------------------------------------------------------------

    def serve_older(self, server: MCPServer[object]) -> None:
        """Serves `resources/subscribe` and `resources/unsubscribe`, for which the SDK's server has no public way."""
        from mcp_types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

        async def watch(ctx: Any, params: Any) -> EmptyResult:
            self._watching.setdefault(ctx.session._connection, set()).add(str(params.uri))
            return EmptyResult()

        async def leave(ctx: Any, params: Any) -> EmptyResult:
            self._watching.get(ctx.session._connection, set()).discard(str(params.uri))
            return EmptyResult()

        lowlevel = server._lowlevel_server
        lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, watch)
        lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, leave)

    # --- the feed -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def serving(self, server: MCPServer[object]) -> AsyncIterator[dict[str, object]]:
        """Serves, over the server's lifespan, the changes that the thread reads."""
        self._loop = asyncio.get_running_loop()
        async with anyio.create_task_group() as group:
            group.start_soon(self._tell)
            try:
                yield {}
            finally:
                self._ended.set()
                self._loop = None
                group.cancel_scope.cancel()

    def begin(self) -> None:
        """Hears every change from now on; may block, and does nothing if it hears already.

        Raises:
            PerpetualError: if the lab cannot be opened.
        """
        with self._guard:
            if self._thread is None or not self._thread.is_alive():
                lab = self._labs.open(NOBODY)
                since = lab.feed.last()
                self._thread = threading.Thread(target=self._hear, args=(lab, since), name="changes", daemon=True)
                self._thread.start()

    def _hear(self, lab: Lab, since: int) -> None:
        """Waits for events and hands them over, until the server has ended."""
        with lab:
            while not self._ended.is_set():
                try:
                    lab.feed.wait(since, timeout_s=_TURN_S)
                    events = lab.events(since=since, limit=_BATCH)
                except PerpetualError as problem:
                    _log.warning("the feed could not be read: %s", problem)
                    self._ended.wait(_PAUSE_S)
                    continue
                loop = self._loop
                if not events or loop is None:
                    continue
                since = events[-1].seq
                changed = dict.fromkeys(uri for event in events for uri in uris_of(event))
                try:
                    loop.call_soon_threadsafe(self._news.put_nowait, changed)
                except RuntimeError:
                    return  # the loop was closed meanwhile: there is no client to notify

    async def _tell(self) -> None:
        from mcp.shared.subscriptions import ResourceUpdated

        while True:
            changed = await self._news.get()
            while not self._news.empty():  # a burst is one notification
                changed |= self._news.get_nowait()
            for uri in changed:
                await self.publish(ResourceUpdated(uri=uri))
                for connection, wanted in [*self._watching.items()]:
                    if uri in wanted:
                        with anyio.move_on_after(_PATIENCE_S):
                            await connection.send_resource_updated(uri)

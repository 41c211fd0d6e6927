"""Calls that block, such as those of the store, from coroutines: in a thread, and never left behind half done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

__all__ = ["in_thread"]

_Args = ParamSpec("_Args")
_Found = TypeVar("_Found")


async def in_thread(call: Callable[_Args, _Found], *args: _Args.args, **kwargs: _Args.kwargs) -> _Found:
    """Calls in a thread and returns what came of it; a caller that is cancelled waits for the end of the call.

    A thread that is left within a transaction while its lab is closed would hold the store's lock and wait for it.
    """
    task = asyncio.ensure_future(asyncio.to_thread(partial(call, *args, **kwargs)))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:  # asked again to hurry; the call ends all the same
                continue
        raise

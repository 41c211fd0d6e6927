"""A pool of processes for a computation of seconds; needs no project."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from perpetual.api import PerpetualError

__all__ = ["Mapper", "mapper"]

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


class Mapper(Protocol):
    """What works like the builtin `map` on one series of items."""

    def __call__(self, function: Callable[[_Item], _Answer], items: Iterable[_Item], /) -> Iterator[_Answer]:
        """Yields the function's answers in the order of the items."""


def _stay() -> None:
    """Ignores, in a worker, an interrupt from the keyboard: the parent answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def mapper(jobs: int) -> Iterator[Mapper]:
    """Yields `map`, or the same by `jobs` processes: in order, so that the answer does not depend on `jobs`.

    The processes are started anew and not forked: function and items must be importable and picklable.

    Raises:
        PerpetualError: if a worker dies.
    """
    if jobs == 1:
        yield map
        return
    from concurrent.futures import ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_stay)

    def spread(function: Callable[[_Item], _Answer], items: Iterable[_Item], /) -> Iterator[_Answer]:
        # Not `pool.map`: it cancels what is left as soon as one worker died, while the thread of the pool gives each
        # of these the same failure. Before Python 3.13 that thread then stops before it has waited for its processes.
        left = [pool.submit(function, item) for item in items]
        try:
            while left:
                yield left.pop(0).result()
        except BrokenProcessPool:
            wait(left)
            raise

    try:
        yield spread
    except BrokenProcessPool as problem:
        raise PerpetualError(
            "a worker process died", hint="what it was given to compute may have ended it; try with --jobs 1"
        ) from problem
    finally:
        pool.shutdown(wait=True, cancel_futures=True)

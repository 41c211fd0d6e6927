"""A pool of processes for a computation of seconds; needs no project."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

from perpetual.api import PerpetualError

__all__ = ["mapper"]


def _stay() -> None:
    """Ignores, in a worker, an interrupt from the keyboard: the parent answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def mapper(jobs: int) -> Iterator[Callable[..., Any]]:
    """Yields `map`, or the same by `jobs` processes: in order, so that the answer does not depend on `jobs`.

    The processes are started anew and not forked: function and items must be importable and picklable.

    Raises:
        PerpetualError: if a worker dies.
    """
    if jobs == 1:
        yield map
        return
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_stay)
    try:
        yield pool.map
    except BrokenProcessPool as problem:
        raise PerpetualError(
            "a worker process died", hint="what it was given to compute may have ended it; try with --jobs 1"
        ) from problem
    finally:
        pool.shutdown(wait=True, cancel_futures=True)

"""How long a call takes where it is not kept waiting by other work of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["quickest"]

_TIMES = 3


def quickest(call: Callable[[], object], most_s: float) -> float:
    """Returns the shortest time in seconds of three calls; the first one that takes less than `most_s` is enough.

    One call may wait for the processor behind other processes, which says nothing about it.
    """
    times: list[float] = []
    while len(times) < _TIMES and (not times or times[-1] >= most_s):
        began = time.monotonic()
        call()
        times.append(time.monotonic() - began)
    return min(times)

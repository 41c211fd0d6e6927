"""Time limits hold in the main thread and in others."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from perpetual.toolkit.deadline import OutOfTime, call_bounded


def _here(work: Callable[[], object]) -> object:
    return call_bounded(0.2, work)


def _elsewhere(work: Callable[[], object]) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_here, work).result()


def _raise() -> None:
    raise LookupError("mine")


@pytest.mark.parametrize("place", [_here, _elsewhere])
def test_a_call_that_hangs_is_left(place: Callable[[Callable[[], object]], object]) -> None:
    assert place(lambda: 7) == 7
    began = time.monotonic()
    with pytest.raises(OutOfTime):
        place(lambda: time.sleep(5))
    assert time.monotonic() - began < 3
    with pytest.raises(LookupError, match="mine"):
        place(_raise)

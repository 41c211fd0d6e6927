"""What tests of every part share: the one limit that is never reached, and waiting for what comes soon."""

from __future__ import annotations

import time
from collections.abc import Callable

from perpetual import Lab
from perpetual.lab.doctor import Doctor

__all__ = ["LONG_S", "finding", "until"]

LONG_S = 60.0  # never reached, unless the test fails
_LOOK_S = 0.005


def until(condition: Callable[[], object], problem: str = "it did not come about") -> None:
    """Blocks until the condition holds; fails with `problem` after `LONG_S`."""
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(_LOOK_S)


def finding(lab: Lab, check: str) -> tuple[bool | None, str, str | None]:
    """What one of the kernel's own checks finds, as (ok, detail, hint); no other distribution's check is asked."""
    (found,) = [item for item in Doctor(lab.context, lab.feed).examine([]) if item["check"] == check]
    return found["ok"], found["detail"], found["hint"]

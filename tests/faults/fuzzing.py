"""How the fuzz lanes draw and bound their examples.

In CI (`make slow`) with few examples, always the same; `make soak` draws many more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

SECONDS = 10.0  # of CPU time that one example may take; most take milliseconds
CHECKED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
FEW, MANY = 12, 1_500


def lanes(name: str, *values: Any) -> pytest.MarkDecorator:
    """Each case twice: with few examples in the slow lane, with many in the soak."""
    cases = [
        pytest.param(count, *(value if isinstance(value, tuple) else (value,)), marks=mark, id=f"{value}-{mark.name}")
        for value in values
        for count, mark in ((FEW, pytest.mark.slow), (MANY, pytest.mark.soak))
    ]
    return pytest.mark.parametrize(f"count, {name}", cases)


def examples(count: int, drawn: st.SearchStrategy[Any], deed: Callable[[Any], None]) -> None:
    """Does the deed with so many examples; each within its time."""

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=CHECKED,
    )
    @given(drawn)
    def one(example: Any) -> None:
        with bounded():
            deed(example)

    one()


@contextmanager
def bounded() -> Iterator[None]:
    """The block takes at most `SECONDS` of CPU time."""
    began = time.thread_time()
    yield
    assert time.thread_time() - began < SECONDS

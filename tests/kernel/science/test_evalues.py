"""E-values of effects of unknown noise, and their confidence sequences, against independent oracles."""

from __future__ import annotations

import itertools
import math

import pytest

from perpetual.science.evalues import Statistic, log_e


def seen(t: float, n: int) -> Statistic:
    """The statistic of n runs beside a number, whose t is this."""
    return Statistic(t / math.sqrt(n), 1 / n, n - 1.0, n)


FAR = (0.0, 0.01, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e6)


@pytest.mark.parametrize("n", [2, 3, 10, 21, 22, 100, 300, 3000])
def test_an_e_value_rises_with_the_effect_however_many_runs(n: int) -> None:
    found = [log_e(seen(t, n)) for t in [*(-t for t in reversed(FAR)), *FAR]]
    assert all(one <= other + 1e-7 for one, other in itertools.pairwise(found)), found
    assert math.log(0.1) <= found[0] < 0 < found[-1]
    assert found[len(FAR)] < 0, "no effect speaks against one"

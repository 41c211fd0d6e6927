"""What a run is expected to cost, and its chance to fail."""

from __future__ import annotations

import pytest

from perpetual.science.costs import failure_probability, learned_cost


def test_failure_probability_starts_at_a_tenth() -> None:
    assert failure_probability(0, 0) == pytest.approx(0.1)
    assert failure_probability(9, 10) == pytest.approx(0.5)


def test_cost_is_learned_with_caution() -> None:
    assert learned_cost(2.0, []) == pytest.approx(2.0)
    assert learned_cost(2.0, [8.0]) == pytest.approx(2.0 * 2.0)  # the cube root of 8
    assert learned_cost(2.0, [2.0, 0.5]) == pytest.approx(2.0)
    assert learned_cost(0.0, []) == pytest.approx(1 / 3600)
    with pytest.raises(ValueError, match=r"math domain|positive"):
        learned_cost(1.0, [0.0])

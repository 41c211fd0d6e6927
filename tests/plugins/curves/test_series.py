"""Series: order, means over runs, thinning and description are what they say."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perpetual.api import MetricHistory
from perpetual_curves.series import Curve, mean_of, ordered, summary_of, thinned, trend_of


def _curve(steps: list[float], values: list[float | None]) -> Curve:
    return Curve("step", steps, values, [None] * len(steps))


def test_steps_are_put_in_order_and_the_last_value_of_a_step_counts() -> None:
    found = ordered(MetricHistory("step", [0, 10, 5, 10, None], [1.0, 2.0, 3.0, 4.0, 9.0], [None] * 5, "f", 0.0))
    assert (found.steps, found.values) == ([0, 5, 10], [1.0, 3.0, 4.0])
    assert (found.superseded, found.unplaced) == (1, 1)


def test_a_mean_is_taken_step_by_step_with_its_spread() -> None:
    found = mean_of([_curve([0, 1, 2], [1.0, 2.0, 3.0]), _curve([0, 1, 2], [3.0, 6.0, 3.0])])
    assert (found.is_exact, found.values, found.n) == (True, [2.0, 4.0, 3.0], [2, 2, 2])
    assert found.sd == [pytest.approx(statistics.stdev([1, 3])), pytest.approx(statistics.stdev([2, 6])), 0.0]


def test_a_run_that_ended_early_leaves_the_others_and_the_count_says_so() -> None:
    found = mean_of([_curve([0, 1, 2], [1.0, 2.0, 3.0]), _curve([0, 1], [3.0, 4.0])])
    assert (found.is_exact, found.values, found.n, found.sd[2]) == (True, [2.0, 3.0, 3.0], [2, 2, 1], None)


def test_a_run_without_a_finite_number_makes_a_gap_and_no_better_mean() -> None:
    found = mean_of([_curve([0, 1, 2], [1.0, 2.0, 3.0]), _curve([0, 1, 2], [1.0, None, 3.0])])
    assert (found.values, found.n) == ([1.0, None, 3.0], [2, 2, 2])


def test_runs_of_other_steps_are_interpolated_inside_of_their_range_only() -> None:
    found = mean_of([_curve([0, 10], [0.0, 10.0]), _curve([5, 15], [5.0, 15.0])])
    assert not found.is_exact
    assert (found.steps, found.values, found.n) == ([0, 5, 10, 15], [0.0, 5.0, 10.0, 15.0], [1, 2, 2, 1])
    across = mean_of([_curve([0, 10, 20], [0.0, None, 20.0]), _curve([0, 5, 15], [0.0, 5.0, 15.0])])
    assert across.values == [0.0, None, None, None, 20.0]


@given(
    st.lists(st.one_of(st.none(), st.floats(-1e9, 1e9)), min_size=1, max_size=400),
    st.integers(min_value=8, max_value=60),
)
def test_thinning_keeps_ends_extremes_and_a_gap(values: list[float | None], most: int) -> None:
    kept = thinned(values, most)
    assert list(kept) == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, len(values) - 1)
    assert len(kept) <= max(len(values) if len(values) <= most else 0, most + 2)
    shown = [values[n] for n in kept]
    known, left = [x for x in values if x is not None], [x for x in shown if x is not None]
    assert (None in shown) == (None in values)
    if known:
        assert (min(left), max(left)) == (min(known), max(known))


def test_a_trend_describes_the_last_tenth_and_is_silent_where_there_is_none() -> None:
    rising = trend_of([float(n) for n in range(100)])
    assert rising == {"word": "rising", "change": 10.0, "points": 10}
    falling = trend_of([-float(n) for n in range(40)])
    assert falling is not None
    assert falling["word"] == "falling"
    flat = trend_of([1.0, 5.0] * 20)
    assert flat is not None
    assert flat["word"] == "level"
    assert trend_of([1.0, 2.0, 3.0]) is None
    assert trend_of([1.0, 2.0, 3.0, 4.0, None]) is None


def test_a_summary_says_that_the_last_value_is_no_number() -> None:
    found = summary_of([1, 2, 3], [0.5, 0.25, None])
    assert (found.first, found.last, found.low, found.high) == ((1, 0.5), (3, None), (2, 0.25), (1, 0.5))
    assert found.not_finite == 1
    assert not math.isnan(found.low[1] if found.low else math.nan)

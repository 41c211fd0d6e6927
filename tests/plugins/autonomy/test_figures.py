"""The figures of the board and of the rule of rights, against cases computed by hand."""

from __future__ import annotations

import math
from random import Random

import pytest

from perpetual_autonomy.figures import (
    ALPHA,
    bins,
    brier,
    clean_needed,
    level_of,
    median_interval,
    rate_interval,
    wealth,
)

WORLDS = 1000
LOOKS = 200


def test_the_brier_score_and_its_references() -> None:
    found = brier([0.6, 0.4, 0.75], [True, False, False])
    assert found.score == pytest.approx((0.16 + 0.16 + 0.5625) / 3)
    assert (found.n, found.happened, found.even) == (3, 1, 0.25)
    assert found.base_rate == pytest.approx(2 / 9)
    assert brier([0.5] * 7, [True] * 3 + [False] * 4).score == 0.25


@pytest.mark.parametrize(
    ("happened", "n", "low", "high"),
    [(0, 10, 0.0, 1 - 0.025**0.1), (10, 10, 0.025**0.1, 1.0), (5, 10, 0.187086, 0.812914), (1, 1, 0.025, 1.0)],
)
def test_the_interval_of_a_rate_is_exact(happened: int, n: int, low: float, high: float) -> None:
    assert rate_interval(happened, n) == pytest.approx((low, high), abs=1e-6)


def test_each_prior_is_in_one_bin() -> None:
    stated = [0.25, 0.35, 0.349, 0.55, 0.75, 0.7]
    found = bins(stated, [True, False, True, True, True, False])
    assert [(one.low_edge, one.n, one.happened) for one in found] == [
        (0.25, 2, 2),
        (0.35, 1, 0),
        (0.55, 1, 1),
        (0.65, 2, 1),
    ]
    assert found[-1].stated == pytest.approx(0.725)
    assert sum(one.n for one in found) == len(stated)


def test_the_median_has_the_interval_that_order_statistics_give() -> None:
    assert median_interval(list(range(1, 11))) == (5.5, (2, 9))  # P(Bin(10, 1/2) <= 1) = 11 / 1024
    assert median_interval([3, 1, 2, 5, 4]) == (3, None)  # 1 / 32 is above 2.5 %
    assert median_interval([6, 1, 2, 5, 4, 3]) == (3.5, (1, 6))


def test_how_many_in_a_row_earn_a_right() -> None:
    assert clean_needed(1, 0.1) == math.ceil(math.log(40) / -math.log(0.9)) == 36
    assert clean_needed(1, 0.3) == 11
    assert clean_needed(2, 0.3) == 14
    for attempt in range(1, 30):
        needed = clean_needed(attempt, 0.1)
        assert wealth(needed, 0.1) >= 1 / level_of(attempt) > wealth(needed - 1, 0.1)
    assert sum(level_of(attempt) for attempt in range(1, 10_000)) < ALPHA


@pytest.mark.parametrize("worse", [0.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_a_bad_proposer_seldom_earns_a_right_however_often_one_looks(worse: float) -> None:
    """Its rate is the limit or above, and rises and falls as it likes: it earns in at most `ALPHA` of the worlds."""
    random, rate, earned = Random(7), 0.3, 0
    for _ in range(WORLDS):
        attempt, clean = 1, 0
        for _ in range(LOOKS):
            if random.random() < rate + worse * (clean % 2):
                attempt, clean = attempt + 1, 0
            else:
                clean += 1
                if clean >= clean_needed_at_most(attempt, rate):
                    earned += 1
                    break
    assert earned / WORLDS <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / WORLDS)


def test_a_good_proposer_earns_it() -> None:
    random, earned = Random(7), 0
    for _ in range(100):
        attempt, clean = 1, 0
        for _ in range(LOOKS):
            attempt, clean = (attempt + 1, 0) if random.random() < 0.01 else (attempt, clean + 1)
            if clean >= clean_needed_at_most(attempt, 0.1):
                earned += 1
                break
    assert earned >= 95


_NEEDED: dict[tuple[int, float], int] = {}


def clean_needed_at_most(attempt: int, rate: float) -> int:
    """`clean_needed`, computed once."""
    return _NEEDED.setdefault((attempt, rate), clean_needed(attempt, rate))

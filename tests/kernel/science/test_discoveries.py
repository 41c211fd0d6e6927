"""Discoveries among many claims: by hand, at the borders, and no more false ones than were allowed."""

from __future__ import annotations

import math
import random

import pytest

from perpetual.science.discoveries import discoveries


def test_discoveries_worked_by_hand() -> None:
    e_values = {"a": 100.0, "b": 39.0, "c": 41.0, "d": 1.0}
    # Of 4 at 0.05: one needs 80, two need 40, three need 26.7, four need 20.
    assert discoveries(e_values, 0.05) == ["a", "c", "b"]
    assert discoveries({**e_values, "b": 26.0, "c": 40.0}, 0.05) == ["a", "c"]
    assert discoveries({**e_values, "b": 26.0, "c": 39.0}, 0.05) == ["a"]
    assert discoveries({**e_values, "a": 79.0, "b": 1.0, "c": 1.0}, 0.05) == []


def test_a_later_rank_takes_the_earlier_ones_along() -> None:
    assert discoveries({"a": 30.0, "b": 30.0, "c": 30.0, "d": 0.0}, 0.05) == ["a", "b", "c"]


def test_discoveries_at_the_thresholds() -> None:
    assert discoveries({}, 0.05) == []
    assert discoveries({"a": 20.0}, 0.05) == ["a"]
    assert discoveries({"a": 19.999}, 0.05) == []
    assert discoveries({"a": math.inf, "b": 0.0}, 0.05) == ["a"]
    assert discoveries({"a": 1.0}, 1.0) == ["a"]


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.1, float("nan")])
def test_alpha_is_a_rate(alpha: float) -> None:
    with pytest.raises(ValueError):
        discoveries({"a": 1.0}, alpha)


@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_an_e_value_is_not_negative(value: float) -> None:
    with pytest.raises(ValueError):
        discoveries({"a": value}, 0.05)


def test_false_discoveries_stay_under_the_rate() -> None:
    """20 claims, half of them false, all read from one shared draw: e = exp(z d - d^2/2) has mean 1 under the null."""
    draw = random.Random(3)
    alpha, rates, found = 0.2, [], 0
    for _ in range(800):
        shared = draw.gauss(0.0, 1.0)
        e_values = {}
        for n in range(20):
            z = 0.7 * shared + math.sqrt(1 - 0.49) * draw.gauss(0.0, 1.0) + (3.0 if n < 10 else 0.0)
            e_values[f"h{n}"] = math.exp(3.0 * z - 4.5)
        names = discoveries(e_values, alpha)
        found += sum(int(name[1:]) < 10 for name in names)
        rates.append(sum(int(name[1:]) >= 10 for name in names) / max(1, len(names)))
    assert sum(rates) / len(rates) <= alpha
    assert found > 800  # and it does find some

"""Discoveries among many claims: by hand, at the borders, and no more false ones than were allowed."""

from __future__ import annotations

import math
import random

import pytest

from perpetual.science.discoveries import base_rate, discoveries, expected_false, in_words


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


def test_the_base_rate_worked_by_hand() -> None:
    """Of one claim with e, the share p solves p = p e / (p e + 1 - p) / 2, whose root is (e / 2 - 1) / (e - 1)."""
    assert base_rate([5.0]) == pytest.approx(1.5 / 4)
    assert expected_false({"a": 5.0}, ["a"]) == pytest.approx(0.625 / 2.5)
    assert base_rate([99.0]) == base_rate([math.inf])  # no claim is taken for surer
    assert base_rate([0.5] * 20) < 1e-6
    assert base_rate([]) == 0.0
    assert expected_false({"a": 5.0, "b": 0.2}, []) == 0.0


def test_claims_that_failed_make_a_supported_one_doubtful() -> None:
    alone, among = {"a": 8.0}, {"a": 8.0, **{f"b{n}": 0.3 for n in range(19)}}
    assert expected_false(alone, ["a"]) < 0.25 < 0.75 < expected_false(among, ["a"]) <= 1.0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_about_as_many_false_ones_are_expected_as_there_are(share: float) -> None:
    """Labs of 20 claims, looked at after each of 12 runs and supported at an e-value of 4."""
    draw = random.Random(5)
    said = false = 0.0
    for _ in range(150):
        e_values, true = {}, set()
        for n in range(20):
            shift, log_e = (0.8 if draw.random() < share else 0.0), 0.0
            true |= {f"h{n}"} if shift else set()
            for _ in range(12):
                log_e += 0.8 * draw.gauss(shift, 1.0) - 0.32
                if log_e >= math.log(4):
                    break
            e_values[f"h{n}"] = math.exp(log_e)
        supported = [name for name, e in e_values.items() if e >= 4]
        said += expected_false(e_values, supported)
        false += len({*supported} - true)
    assert false > 100
    assert 0.75 * false <= said <= 1.3 * false


def test_the_words_of_a_family() -> None:
    assert in_words(4, 0, 0.0, []) == "0 of 4 tested stand when taken together"
    assert in_words(4, 2, 0.02, ["h1"]) == (
        "2 supported, under 0.1 of them expected to be false; 1 of 4 tested stands when taken together (h1)"
    )
    assert in_words(30, 3, 1.26, [f"h{n}" for n in range(12)]).endswith("h9 and 2 more)")

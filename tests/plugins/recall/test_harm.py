"""The e-process of harm: what it is worth where showing a note does nothing, helps or harms."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product

import pytest

from perpetual_recall.harm import Call, Harm, weigh
from perpetual_recall.holdout import point

CHANCE, BAR = 0.95, 5.0


def expected(shown: float, withheld: float, chance: float, calls: int) -> float:
    """The mean of the e-value after so many calls, over all that can happen, each as likely as it is."""
    total = 0.0
    for story in product(product((True, False), repeat=2), repeat=calls):
        likely = 1.0
        for is_shown, is_good in story:
            good = shown if is_shown else withheld
            likely *= (chance if is_shown else 1 - chance) * (good if is_good else 1 - good)
        total += likely * weigh(Call(is_shown, is_good, chance) for is_shown, is_good in story).e_value
    return total


@pytest.mark.parametrize("chance", [0.5, 0.95])
@pytest.mark.parametrize("good", [0.1, 0.5, 0.9])
def test_where_showing_does_nothing_the_mean_is_one(good: float, chance: float) -> None:
    assert expected(good, good, chance, 4) == pytest.approx(1.0)
    assert expected(good + 0.1, good, chance, 3) < 1 - 1e-6
    assert expected(good - 0.1, good, chance, 3) > 1 + 1e-6


def test_the_evidence_by_hand() -> None:
    """A withheld call that ended well at the mean of 1/2 and a chance of 1/2: D / B = -1, so each stake wins itself."""
    assert weigh([]) == Harm()
    found = weigh([Call(False, True, 0.5)])
    assert found == pytest.approx((0, 0, 1, 1, 1.5, 1.5))
    assert weigh([Call(True, True, 0.5)]).e_value == pytest.approx(0.5)
    # Then m = 2/3, B = 4/3 and D = -4/3: each stake wins itself again.
    found = weigh([Call(False, True, 0.5), Call(True, False, 0.5)])
    assert found.e_value == pytest.approx(sum((1 + s) ** 2 for s in (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)) / 7)
    assert weigh([Call(False, True, 0.5), Call(False, False, 0.5)]).most == pytest.approx(1.5)


@pytest.mark.parametrize("chance", [0.0, 1.0, -1.0, 2.0, float("nan")])
def test_a_chance_that_is_none_is_refused(chance: float) -> None:
    with pytest.raises(ValueError, match="chance"):
        weigh([Call(True, True, chance)])


Chances = Callable[[random.Random, int, int], tuple[float, float]]  # of a good outcome, shown and withheld


def share_taken_back(chances: Chances, worlds: int, calls: int, seed: str, chance: float = CHANCE) -> float:
    """The share of notes that reach the bar at any time."""
    draw, taken = random.Random(seed), 0
    for _ in range(worlds):
        story, good = [], 0
        for number in range(calls):
            is_shown = draw.random() < chance
            is_good = draw.random() < chances(draw, number, good)[not is_shown]
            good += is_good
            story.append(Call(is_shown, is_good, chance))
        taken += weigh(story).most >= BAR
    return taken / worlds


def steady(shown: float, withheld: float) -> Chances:
    return lambda draw, number, good: (shown, withheld)


HARMLESS: dict[str, Chances] = {
    "often good": steady(0.9, 0.9),
    "even": steady(0.5, 0.5),
    "seldom good": steady(0.1, 0.1),
    "helps": steady(0.8, 0.6),
    "gets worse": lambda draw, number, good: (max(0.1, 0.9 - number / 400),) * 2,
    "moves about": lambda draw, number, good: (0.9 if number // 50 % 2 else 0.2,) * 2,
    "follows the past": lambda draw, number, good: (0.9 if good * 2 < number else 0.1,) * 2,
}


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_notes_are_seldom_taken_back(name: str) -> None:
    assert share_taken_back(HARMLESS[name], 200, 200, name) <= 0.2


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("chance", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_notes_are_seldom_taken_back_in_the_long_run(name: str, chance: float) -> None:
    """Of 1,000 notes with 500 calls each, at most a fifth ever, as is promised."""
    assert share_taken_back(HARMLESS[name], 1000, 500, f"{name} {chance}", chance) <= 0.2


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize(
    ("shown", "withheld", "least", "most"),
    [(0.5, 0.8, 0.8, 0.95), (0.2, 0.5, 0.8, 0.95), (0.65, 0.95, 0.9, 1.0), (0.6, 0.7, 0.25, 0.45)],
)
def test_how_many_harmful_notes_are_taken_back(shown: float, withheld: float, least: float, most: float) -> None:
    """Within 500 calls; the numbers are those of the documentation."""
    assert least <= share_taken_back(steady(shown, withheld), 1000, 500, f"{shown} {withheld}") <= most


def test_draws_are_even_and_apart() -> None:
    one, two = ([point("p", "agent c", path, runs) < 0.05 for runs in range(20_000)] for path in ("a.md", "b.md"))
    assert sum(one) / 20_000 == pytest.approx(0.05, abs=0.005)
    assert sum(map(all, zip(one, two, strict=True))) / 20_000 == pytest.approx(0.0025, abs=0.0012)
    assert point("p", "agent c", "a.md", 1) == point("p", "agent c", "a.md", 1) != point("p", "agent d", "a.md", 1)

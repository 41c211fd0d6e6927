"""The search finds the change after which scores fell, and hardly ever shows a fall that is none."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from perpetual_replay.search import Comparison, Place, Result, bar, decide, follow, halvings, most_comparisons

ALPHA = 0.05
PAIRS = 60
Noise = Callable[[random.Random, float], float]


def _gauss(sd: float) -> Noise:
    return lambda draw, mean: max(-1.0, min(1.0, draw.gauss(mean, sd)))


def _coin(draw: random.Random, mean: float) -> float:
    return 1.0 if draw.random() < (1 + mean) / 2 else -1.0


def _exact(draw: random.Random, mean: float) -> float:
    return mean


class Outcome(NamedTuple):
    place: Place
    false: bool  # whether any fall was shown that is none
    pairs: int
    comparisons: int


def search(scores: Sequence[float], draw: random.Random, noise: Noise, max_pairs: int = PAIRS) -> Outcome:
    """Searches as a bisection does, with D drawn from `noise` about the difference of the states' mean scores."""
    changes, results, false, pairs, comparisons = len(scores) - 1, list[Result](), False, 0, 0
    while True:
        place = follow(changes, results, lambda one, other: False)
        if not place.comparisons:
            return Outcome(place, false, pairs, comparisons)
        differences: list[list[float]] = [[] for _ in place.comparisons]
        comparisons += len(place.comparisons)
        while (result := decide(differences, bar(changes, ALPHA), max_pairs)) is None:
            for found, (later, earlier) in zip(differences, place.comparisons, strict=True):
                found.append(noise(draw, scores[later] - scores[earlier]))
                pairs += 1
        if result.shown is not None:
            later, earlier = place.comparisons[result.shown]
            false = false or scores[later] >= scores[earlier]
        results.append(result)


def _step(changes: int, after: int, fall: float) -> list[float]:
    return [0.8 - (fall if state >= after else 0.0) for state in range(changes + 1)]


@pytest.mark.parametrize("changes", [1, 2, 3, 7, 8, 20])
def test_each_change_is_found_where_nothing_is_noisy(changes: int) -> None:
    for after in range(1, changes + 1):
        found = search(_step(changes, after, 0.6), random.Random(0), _exact)
        assert (found.place.low, found.place.high, found.place.shown) == (after - 1, after, True)
        assert (found.place.unproven, found.place.none) == (0, False)
        assert found.comparisons <= most_comparisons(changes) - 1  # and one for the confirmation


def test_changes_are_found_in_noise() -> None:
    draw, found = random.Random("noise"), []
    for number in range(24):
        after = number % 8 + 1
        found.append(search(_step(8, after, 0.4), draw, _gauss(0.3)).place.high == after)
    assert sum(found) >= 23


def test_without_a_fall_none_is_found() -> None:
    for scores in ([0.5] * 9, [0.1, 0.2, 0.3, 0.4], [0.9, 0.1, 0.95]):  # flat, rising, and made good again
        found = search(scores, random.Random(0), _exact).place
        assert found.none
        assert found.comparisons == ()


def test_of_several_falls_one_is_found_and_it_is_one() -> None:
    """Also where scores rise in between: nothing is assumed of their order."""
    scores = [0.9, 0.9, 0.5, 0.8, 0.8, 0.3, 0.6, 0.2, 0.2]
    draw = random.Random("several")
    for _ in range(20):
        found = search(scores, draw, _gauss(0.1))
        assert found.place.shown
        assert scores[found.place.high] < scores[found.place.low]


def _false(worlds: int, noise: Noise, key: str) -> int:
    """Returns how many of so many bisections show a fall that is none: of histories without, with one, with several."""
    draw = random.Random(key)
    count = 0
    for number in range(worlds):
        changes = draw.choice([1, 2, 4, 9])
        if number % 2 == 0:
            scores = [0.5] * (changes + 1)
        else:  # the ends fall, so that there is a search, and what lies between rises and falls
            scores = [0.9, *(draw.choice([0.3, 0.6, 0.6, 0.9]) for _ in range(changes - 1)), 0.3]
        count += search(scores, draw, noise).false
    return count


def test_a_fall_that_is_none_is_hardly_ever_shown() -> None:
    assert _false(80, _coin, "quick") <= 80 * ALPHA


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("name", ["coin", "gauss", "rare"])
def test_the_chance_of_a_false_fall_is_at_most_alpha(name: str) -> None:
    """Of 1,500 bisections each; by Ville's inequality the mean is 75 at most, and 100 is 3 sd above it."""
    rare: Noise = lambda draw, mean: max(-1.0, min(1.0, mean + (-0.95 if draw.random() < 0.05 else 0.05)))  # noqa: E731
    noise = {"coin": _coin, "gauss": _gauss(0.3), "rare": rare}[name]
    assert _false(1_500, noise, f"soak {name}") <= 100


def test_pairs_count_in_step_and_the_larger_e_value_wins() -> None:
    falls, ties = [-0.9] * 12, [0.0] * 12
    assert decide([falls, ties[:3]], 40, PAIRS) is None
    assert decide([ties, falls], 40, PAIRS) == decide([ties, [*falls, 0.9]], 40, PAIRS)
    assert decide([ties, falls], 40, PAIRS).shown == 1  # type: ignore[union-attr]
    assert decide([[-0.8] * 30, [-0.9] * 30], 1.5, PAIRS).shown == 1  # type: ignore[union-attr]
    # A fall that would be shown by a pair that the other comparison has not run yet does not count.
    assert decide([[*ties[:3], *[-1.0] * 20], ties[:3]], 40, PAIRS) is None
    risen = decide([[0.9] * 40], 40, PAIRS)
    assert risen is not None
    assert (risen.shown, risen.e_values[0] < 1) == (None, True)
    ended = decide([ties, ties], 40, 12)
    assert ended == Result(None, (1.0, 1.0))


def test_states_that_show_the_same_are_not_compared() -> None:
    class_of = [0, 0, 1, 1, 1, 2, 2, 2]
    same = lambda one, other: class_of[one] == class_of[other]  # noqa: E731
    assert follow(7, [], same).comparisons == (Comparison(7, 0),)
    shown = Result(0, (99.0,))
    assert follow(7, [shown], same).comparisons == (Comparison(3, 0), Comparison(7, 3))
    left = follow(7, [shown, Result(0, (99.0, 1.0))], same)
    assert (left.low, left.high, left.shown, left.comparisons) == (1, 2, True, ())
    assert follow(3, [], lambda one, other: True).none


def test_an_unproven_step_goes_to_the_likelier_side_and_says_so() -> None:
    never = lambda one, other: False  # noqa: E731
    shown, open_ = Result(0, (99.0,)), Result(None, (3.0, 2.0))
    place = follow(3, [shown, open_], never)
    assert (place.low, place.high, place.shown, place.unproven) == (0, 1, False, 1)
    place = follow(4, [shown, Result(None, (2.0, 2.0)), Result(1, (1.0, 99.0))], never)
    assert (place.low, place.high, place.shown, place.unproven) == (3, 4, True, 1)


def test_the_bar_is_of_all_comparisons_that_there_may_be() -> None:
    assert [halvings(changes) for changes in (1, 2, 3, 4, 5, 8, 9, 1024, 1025)] == [0, 1, 2, 2, 3, 3, 4, 10, 11]
    assert (most_comparisons(1), most_comparisons(8)) == (2, 8)
    assert bar(8, 0.05) == pytest.approx(160)

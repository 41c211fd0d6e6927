"""Pairs are weighed so that a useless note is hardly ever promoted, whenever one looks, and a useful one mostly is."""

from __future__ import annotations

import random

import pytest

from perpetual_replay.evalues import bar, curve, interval, weigh
from perpetual_replay.tasks import Task, draws, score_of

PAIRS = 60


def _clipped(value: float) -> float:
    return max(-1.0, min(1.0, value))


def _promoted(differences: list[float]) -> bool:
    return any(helps >= 20 for helps, _ in curve(differences)[4:])


def _rejected(differences: list[float]) -> bool:
    return any(harms >= 5 for _, harms in curve(differences)[4:])


def test_the_evidence_is_that_of_the_curve_at_its_end() -> None:
    draw = random.Random(1)
    found = [draw.uniform(-1, 1) for _ in range(20)]
    assert curve(found)[-1] == pytest.approx((weigh(found).e_help, weigh(found).e_harm))
    assert weigh([]) == (0, 1.0, 1.0, None)
    # By hand: one pair of D = 0.5 multiplies each stake's wealth by 1 + stake / 2.
    assert weigh([0.5]).e_help == pytest.approx(1 + 0.5 * (0.1 + 0.2 + 0.35 + 0.5 + 0.65 + 0.8 + 0.9) / 7)


@pytest.mark.parametrize("shape", ["normal", "coin", "rare", "ties"])
def test_useless_notes_are_hardly_ever_promoted(shape: str) -> None:
    """Of 1,000 notes with 60 pairs each, at any stopping time."""
    draw = random.Random(f"useless {shape}")
    makers = {
        "normal": lambda: _clipped(draw.gauss(0, 0.3)),
        "coin": lambda: draw.choice([-1.0, 1.0]),
        "rare": lambda: 0.95 if draw.random() < 0.05 else -0.05,  # mean 0
        "ties": lambda: draw.choice([0.0, 0.0, 0.0, -0.2, 0.2]),
    }
    promoted = sum(_promoted([makers[shape]() for _ in range(PAIRS)]) for _ in range(1000))
    assert promoted <= 50, promoted


def test_a_note_worth_a_fifth_is_mostly_promoted() -> None:
    draw = random.Random("useful")
    promoted = sum(_promoted([_clipped(draw.gauss(0.2, 0.3)) for _ in range(PAIRS)]) for _ in range(500))
    assert promoted >= 400, promoted


def test_a_harmful_note_is_mostly_rejected_and_a_harmless_one_seldom() -> None:
    draw = random.Random("harm")
    harmful = sum(_rejected([_clipped(draw.gauss(-0.2, 0.3)) for _ in range(PAIRS)]) for _ in range(300))
    harmless = sum(_rejected([_clipped(draw.gauss(0, 0.3)) for _ in range(PAIRS)]) for _ in range(1000))
    assert harmful >= 270, harmful
    assert harmless <= 200, harmless


@pytest.mark.parametrize("mean", [-0.5, 0.0, 0.2, 0.9])
def test_the_interval_covers_the_mean_at_every_look(mean: float) -> None:
    draw = random.Random(f"interval {mean}")
    missed = 0
    for _ in range(60):
        found = [1.0 if draw.random() < (1 + mean) / 2 else -1.0 for _ in range(30)]
        looks = [interval(found[:count]) for count in (1, 5, 15, 30)]
        missed += any(look is None or not look[0] <= mean <= look[1] for look in looks)
    assert missed <= 9, missed  # 90 % of 60, and chance


def test_the_interval_leaves_out_zero_where_one_note_is_promoted() -> None:
    draw = random.Random(4)
    found = [_clipped(draw.gauss(0.4, 0.2)) for _ in range(40)]
    first = next(count for count in range(5, 40) if weigh(found[:count]).e_help >= 20)
    look = interval(found[:first])
    assert look is not None
    assert look[0] > -0.011  # the grid is 0.005 fine, and its neighbours are kept
    assert interval([]) is None
    assert interval([1.0] * 60) is not None


def test_the_bar_rises_with_the_queue_and_falls_with_discoveries() -> None:
    assert bar([25.0]) == pytest.approx(20)
    assert bar([1.0]) == pytest.approx(20)
    assert bar([25.0, 1.0]) == pytest.approx(40)
    assert bar([25.0, 22.0]) == pytest.approx(20)
    assert bar([1e6] + [1.0] * 9) == pytest.approx(200)
    assert bar([]) == pytest.approx(20)


def test_e_bh_keeps_the_share_of_useless_notes_among_the_promoted() -> None:
    draw = random.Random("family")
    shares = []
    for _ in range(60):
        worth = [0.3] * 5 + [0.0] * 15
        values = [weigh([_clipped(draw.gauss(mean, 0.3)) for _ in range(40)]).e_help for mean in worth]
        promoted = [mean for mean, value in zip(worth, values, strict=True) if value >= bar(values)]
        shares.append(promoted.count(0.0) / len(promoted) if promoted else 0.0)
    assert sum(shares) / len(shares) <= 0.05


@pytest.mark.parametrize(
    ("output", "score"),
    [
     ("0.5", 0.5), ("step\n1\n\n", 1.0), ("0", 0.0), ("1e-3", 0.001), (".25", 0.25), ("score 0.5", None),
     ("1.01", None),
     ("-0.1", None), ("nan", None), ("inf", None), ("", None), ("0.5\ndone", None), ("0x1", None), ("e5", None),
     (".", None), ("1e999", None), ("٠", None)],
)  # fmt: skip
def test_a_score_is_the_last_line_and_lies_between_0_and_1(output: str, score: float | None) -> None:
    assert score_of(output) == score


def test_the_draws_follow_the_weights_and_the_key() -> None:
    tasks = [Task("a", "x", weight=3.0), Task("b", "x", seed=7)]
    found = draws(tasks, "key", 4000)
    assert found == draws(tasks, "key", 4000)
    assert found[:60] == draws(tasks, "key", 60)
    assert found != draws(tasks, "other", 4000)
    assert 0.72 < sum(index == 0 for index, _, _ in found) / 4000 < 0.78
    assert {seed for index, seed, _ in found if index == 1} == {7}
    assert len({seed for index, seed, _ in found if index == 0}) > 2900
    assert 0.47 < sum(first for _, _, first in found) / 4000 < 0.53

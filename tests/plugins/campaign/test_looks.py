"""When a comparison goes on, and how often noise is kept through the lab's own rule."""

from __future__ import annotations

import random

import pytest

from perpetual_campaign.looks import Look, chance_left, needed, said_of
from perpetual_campaign.simulation import World, interval, is_kept, kept, main

OPEN = Look(6, 24, "open", 2.0, 4.0, 0.5, 1.0, None)


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (OPEN, "go_on"),
        (OPEN._replace(status="supported", e_value=5.0), "passed"),
        (OPEN._replace(status="supported", e_value=5.0, needed=6.0), "go_on"),  # a confirmation needs the product
        (OPEN._replace(status="supported", e_value=5.0, needed=6.0, pairs=24), "most"),
        (OPEN._replace(status="refuted", e_value=0.1), "refuted"),
        (OPEN._replace(pairs=24), "most"),
        (OPEN._replace(effect=-2.0), "futile"),
        (OPEN._replace(effect=-2.0, mde=9.0), "go_on"),  # an effect of the mde would still show
        (OPEN._replace(effect=None, sd=None), "go_on"),  # nothing is known: it is no reason to end
        (OPEN._replace(sd=0.0), "go_on"),
    ],
)
def test_each_look_says_what_comes_next(look: Look, said: str) -> None:
    assert said_of(look) == said


def test_a_confirmation_needs_what_the_trial_left() -> None:
    assert needed("trial", 0.8, 0.05, 1.0) == pytest.approx(4.0)
    assert needed("confirmation", 0.8, 0.05, 4.0) == pytest.approx(5.0)
    assert needed("confirmation", 0.8, 0.05, 100.0) == pytest.approx(4.0)
    left = [chance_left(OPEN._replace(effect=effect)) for effect in (-1.0, 0.0, 0.5, 2.0)]
    assert left == sorted(left, key=lambda one: one or 0.0)


def test_an_interval_of_a_share_is_exact() -> None:
    assert interval(0, 100) == pytest.approx((0.0, 0.036217), abs=1e-6)
    assert interval(5, 100) == pytest.approx((0.016432, 0.112835), abs=1e-6)
    assert interval(100, 100) == pytest.approx((0.963783, 1.0), abs=1e-6)


def test_further_pairs_find_what_one_look_misses(capsys: pytest.CaptureFixture[str]) -> None:
    one, more = (kept(World(effect=1.2, most=most), 40)[0] for most in (6, 24))
    assert more >= one + 15
    found = is_kept(World(effect=5.0), random.Random(1))
    assert found == (True, 12), "a large effect takes one look a comparison"
    main(["--candidates", "20"])
    assert capsys.readouterr().out.startswith("kept 0 of 20: 0.00%, between 0.00% and 16.84%")


@pytest.mark.slow
@pytest.mark.parametrize(("ratio", "shared"), [(1.0, 0.0), (1.0, 0.9), (8.0, 0.0), (0.125, 0.9)])
@pytest.mark.parametrize(("replicates", "most"), [(6, 24), (2, 20)])
def test_noise_is_kept_far_less_often_than_alpha(ratio: float, shared: float, replicates: int, most: int) -> None:
    """The bound holds where the arms' noises differ and where their seeds pull them together."""
    world = World(ratio=ratio, shared=shared, replicates=replicates, most=most)
    count, _ = kept(world, 1000)
    assert interval(count, 1000)[1] < world.alpha

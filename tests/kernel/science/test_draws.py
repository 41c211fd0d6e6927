"""Draws that depend on their key alone."""

from __future__ import annotations

import math

import pytest

from perpetual.science.draws import uniform


def test_draws_are_even_and_depend_on_the_key_alone() -> None:
    drawn = [uniform("x", n) for n in range(4000)]
    assert all(0 < value < 1 for value in drawn)
    assert math.fsum(drawn) / 4000 == pytest.approx(0.5, abs=0.02)
    assert drawn == [uniform("x", n) for n in range(4000)]
    assert uniform("caf\udce9") != uniform("cafe")

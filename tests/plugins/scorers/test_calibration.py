"""How honest the evidence rule is, quickly with wide bounds, and slowly with the figures of the documentation.

An e-value claims only what it can prove, so the lab's confidence lies nearer to one half than the truth would allow:
its calibration error is caution. What must hold is the other side: of what is said with 0.8 at even base rates one in
five may be false at most.
"""

from __future__ import annotations

import math

import pytest

from perpetual_scorers.calibration import CalibrationRow, StoppingRow, calibration, optional_stopping

LAB = ("the lab's", "the lab's, noise misdeclared x0.5-2", "the lab's, shared seeds correlate 0.8")


def calibrated(count: int) -> dict[str, CalibrationRow]:
    return {row.rule: row for row in calibration(count)}


def stopped(count: int) -> dict[str, StoppingRow]:
    return {row.rule: row for row in optional_stopping(count)}


def keeps_its_word(row: CalibrationRow) -> bool:
    """Whether at most one in five of what is said with 0.8 is false, within three standard errors."""
    said = row.said_true
    assert said.true_share is not None
    return said.n * (1 - said.true_share) <= 0.2 * said.n + 3 * math.sqrt(0.16 * said.n)


def test_what_is_said_is_at_least_as_often_true() -> None:
    rows = calibrated(400)
    for rule in LAB:
        row = rows[rule]
        assert row.brier < 0.24, "better than saying one half"
        assert row.low < row.brier < row.high
        assert keeps_its_word(row), rule
    shared, own = rows[LAB[2]], rows[LAB[0]]
    assert shared.brier < own.brier
    assert shared.said_true.n > own.said_true.n, "pairs say more of the same runs"
    last = rows["last run's verdict, 0.9 or 0.1"]
    assert last.brier > 0.25
    assert last.ece > 0.15
    assert not keeps_its_word(last)
    assert calibration(50) == calibration(50)


def test_the_declared_noise_decides_nothing() -> None:
    """Runs twice as noisy as declared are judged by what they show: the e-value is one of the t statistic."""
    rows = stopped(25)
    for row in rows.values():
        if row.rule.startswith("e-value"):
            assert row.twice_the_noise == row.no_effect


@pytest.mark.slow
def test_looking_after_every_run_keeps_the_bound() -> None:
    rows = stopped(200)
    for row in rows.values():
        if row.rule.startswith("e-value"):
            assert row.bound is not None
            assert row.no_effect < row.bound, row
            assert row.twice_the_noise < row.bound, row
            assert row.harm <= row.no_effect, row
    assert rows["+-0.1 a run, >= 0.8"].no_effect > 0.55
    assert rows["t-test p < 0.05 at every look"].no_effect > 0.15
    assert optional_stopping(20) == optional_stopping(20)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_calibration_is_what_the_documentation_says() -> None:
    rows = calibrated(2000)
    for rule, (low, high), ece in (
        ("the lab's", (0.205, 0.225), 0.08),
        ("the lab's, noise misdeclared x0.5-2", (0.205, 0.225), 0.08),
        ("the lab's, shared seeds correlate 0.8", (0.150, 0.172), 0.13),
        ("that of 7c2e50b", (0.190, 0.215), 0.05),
        ("product over runs, noise known, tau ignored", (0.205, 0.240), 0.18),
    ):
        assert low <= rows[rule].brier <= high, rule
        assert rows[rule].ece <= ece, rule
    assert all(keeps_its_word(rows[rule]) for rule in LAB)
    assert not keeps_its_word(rows["product over runs, noise known, tau ignored"])
    assert rows["last run's verdict, 0.9 or 0.1"].ece > 0.2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_false_support_is_what_the_documentation_says() -> None:
    rows = stopped(1000)
    for rule, no_effect, harm, twice in (
        ("+-0.1 a run, >= 0.8", 0.719, 0.102, 0.719),
        ("t-test p < 0.05 at every look", 0.302, 0.037, 0.302),
        ("e-value for 0.8, 4 baseline runs", 0.054, 0.011, 0.054),
        ("e-value for 0.95, 4 baseline runs", 0.010, 0.001, 0.010),
        ("e-value for 0.8, 16 baseline runs", 0.073, 0.006, 0.073),
        ("e-value for 0.95, 16 baseline runs", 0.012, 0.0, 0.012),
        ("0.8 by the rule of 7c2e50b, 4 baseline runs", 0.167, 0.037, 0.107),
        ("0.95 by the rule of 7c2e50b, 4 baseline runs", 0.036, 0.009, 0.004),
    ):
        row = rows[rule]
        for said, wanted in ((row.no_effect, no_effect), (row.harm, harm), (row.twice_the_noise, twice)):
            error = 4 * (2 * max(wanted, 0.002) * (1 - wanted) / 1000) ** 0.5  # of the difference of two simulations
            assert abs(said - wanted) < error, (rule, said, wanted)

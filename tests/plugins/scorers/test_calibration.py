"""How honest the evidence rule is, quickly with wide bounds, and slowly with the figures of the documentation."""

from __future__ import annotations

import pytest

from perpetual_scorers.calibration import CalibrationRow, StoppingRow, calibration, optional_stopping

POOLED = ("pooled, noise known", "pooled, noise of 4 baseline runs", "noise misdeclared x0.5-2, t with nu0 = 2")


def calibrated(count: int) -> dict[str, CalibrationRow]:
    return {row.rule: row for row in calibration(count)}


def stopped(count: int) -> dict[str, StoppingRow]:
    return {row.rule: row for row in optional_stopping(count)}


def test_a_stated_confidence_is_about_as_often_true() -> None:
    rows = calibrated(400)
    for rule in POOLED:
        row = rows[rule]
        assert row.brier < 0.2
        assert row.ece < 0.08
        assert row.low < row.brier < row.high
        assert row.said_true.true_share is not None
        assert row.said_true.true_share > 0.8
    lab = rows["the lab's rule"]
    assert lab.brier < 0.25  # as good as knowing nothing; one run says nothing, and it is not sure of anything early
    assert lab.said_true.true_share is not None
    assert lab.said_true.true_share > 0.85
    last = rows["last run's verdict, 0.9 or 0.1"]
    assert last.brier > 0.25
    assert last.ece > 0.15
    assert last.said_true.true_share is not None
    assert last.said_true.true_share < 0.75
    assert calibration(50) == calibration(50)


@pytest.mark.slow
def test_looking_after_every_run_keeps_the_bound() -> None:
    rows = stopped(150)
    for rule in ("the lab's rule, >= 0.8", "the lab's rule, >= 0.95"):
        row = rows[rule]
        assert row.bound is not None
        assert row.twice_the_noise == pytest.approx(row.no_effect, abs=0.03)  # whatever the noise
    for row in rows.values():
        if row.bound is not None:
            assert row.no_effect < row.bound + 0.06, row
            assert row.harm < row.bound, row
            assert row.harm < row.no_effect, row
    assert rows["+-0.1 a run, >= 0.8"].no_effect > 0.55
    assert rows["t-test p < 0.05 at every look"].no_effect > 0.15
    trusted = rows["confidence >= 0.8, noise declared and trusted"]
    assert trusted.bound is not None
    assert trusted.twice_the_noise > 1.5 * trusted.bound, "a believed sigma is the one way to break it"
    assert optional_stopping(20) == optional_stopping(20)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_calibration_is_what_the_documentation_says() -> None:
    rows = calibrated(2000)
    for rule, (low, high), ece in (
        ("pooled, noise known", (0.158, 0.175), 0.04),
        ("pooled, noise of 4 baseline runs", (0.162, 0.179), 0.04),
        ("noise misdeclared x0.5-2, trusted", (0.167, 0.184), 0.06),
        ("noise misdeclared x0.5-2, t with nu0 = 2", (0.163, 0.180), 0.04),
        ("product over runs, tau ignored", (0.166, 0.188), 0.08),
    ):
        assert low <= rows[rule].brier <= high, rule
        assert rows[rule].ece <= ece, rule
    assert rows["last run's verdict, 0.9 or 0.1"].ece > 0.2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_false_support_is_what_the_documentation_says() -> None:
    rows = stopped(2000)
    for rule, no_effect, harm, twice in (
        ("+-0.1 a run, >= 0.8", 0.718, 0.107, 0.718),
        ("t-test p < 0.05 at every look", 0.274, 0.030, 0.274),
        ("confidence >= 0.8, noise declared and trusted", 0.144, 0.017, 0.54),
        ("confidence >= 0.95, noise declared and trusted", 0.033, 0.001, 0.38),
        ("confidence >= 0.8, t form, nu0 = 2", 0.142, 0.020, 0.309),
        ("confidence >= 0.8, t form, nu0 = 2, 3 replicates or more", 0.118, 0.012, 0.278),
        ("confidence >= 0.95, t form, nu0 = 2", 0.028, 0.001, 0.078),
        ("confidence >= 0.8, noise of 4 baseline runs", 0.183, 0.043, 0.239),
        ("confidence >= 0.8, noise of 4 baseline runs, 3 replicates or more", 0.124, 0.012, 0.218),
        ("confidence >= 0.95, noise of 4 baseline runs", 0.049, 0.011, 0.058),
    ):
        row = rows[rule]
        for said, wanted in ((row.no_effect, no_effect), (row.harm, harm), (row.twice_the_noise, twice)):
            error = 4 * (2 * max(wanted, 0.002) * (1 - wanted) / 2000) ** 0.5  # of the difference of two simulations
            assert abs(said - wanted) < error, (rule, said, wanted)

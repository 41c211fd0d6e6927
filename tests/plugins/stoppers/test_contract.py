"""The bundled stoppers keep the promises of their slot, and stop what they say they stop."""

from __future__ import annotations

import pytest

from perpetual import Lab
from perpetual_daemon.companion import Companion
from perpetual_daemon.testing import CompanionContract
from perpetual_stoppers.companion import build as build_companion
from perpetual_stoppers.curve import build as build_curve
from perpetual_stoppers.halving import build as build_halving
from perpetual_stoppers.rule import why_not
from perpetual_stoppers.stopper import Stopper, StopState
from perpetual_stoppers.testing import StopperContract

FORETELLS = tuple((float(n), n + 1.0 + 0.01 * (-1) ** n) for n in range(6))  # the last value follows the rung
TELLS_NOTHING = ((0.0, 3.0), (1.0, 1.0), (2.0, 4.0), (3.0, 0.0), (4.0, 3.0), (5.0, 1.0))


class TestCurve(StopperContract):
    """The extrapolation of curves."""

    @pytest.fixture
    def stopper(self) -> Stopper:
        return build_curve({})


class TestHalving(StopperContract):
    """Asynchronous halving."""

    @pytest.fixture
    def stopper(self) -> Stopper:
        return build_halving({})


class TestCompanion(CompanionContract):
    """What judges runs while the daemon runs, with a stopper in force."""

    @pytest.fixture
    def companion(self) -> Companion:
        return build_companion({})

    def prepare(self, lab: Lab) -> None:
        lab.settings.set_methodology("stoppers.active", "curve")


def test_a_run_is_stopped_whose_curve_foretells_its_end() -> None:
    stopper = build_curve({})
    why = stopper.why(StopState("claim", 2.0, FORETELLS[:2], (), FORETELLS))
    assert why is not None
    assert "of the noise between runs" in why
    assert stopper.why(StopState("claim", 2.0, TELLS_NOTHING[:2], (), TELLS_NOTHING)) is None
    assert stopper.why(StopState("search", 2.0, peers=(1.0, 2.0, 3.0))) is None, (
        "a search has no last value to foretell"
    )


def test_whether_it_looks_good_does_not_matter_to_the_curve() -> None:
    """To stop the bad ones alone would leave complete runs of another sort than the stopped ones."""
    answers = {
        build_curve({}).why(StopState("claim", value, FORETELLS[:2], (), FORETELLS)) is None
        for value in (-50.0, 0.0, 2.0, 50.0)
    }
    assert answers == {False}


def test_how_much_it_must_foretell_is_an_option() -> None:
    state = StopState("claim", 2.0, FORETELLS[:3], (), FORETELLS)
    assert build_curve({"spread": 1.0}).why(state) is not None
    assert build_curve({"spread": 0.001}).why(state) is None


def test_halving_lets_the_best_third_go_on() -> None:
    stopper, peers = build_halving({}), (1.0, 2.0, 3.0, 4.0, 5.0)
    stopped = {value: stopper.why(StopState("search", value, peers=peers)) for value in (0.5, 3.5, 4.5, 5.5)}
    assert stopped[4.5] is None
    assert stopped[5.5] is None
    assert stopped[3.5] == "it is at place 3 of the 6 runs that have come so far, and the best 2 go on"
    assert stopped[0.5] is not None
    assert stopper.why(StopState("search", -9.0, peers=(1.0,))) is None, "of fewer than eta none is stopped"
    assert build_halving({"eta": 6.0}).why(StopState("search", 4.5, peers=peers)) is not None


def test_halving_ranks_a_claim_with_its_baseline() -> None:
    state = StopState("claim", 1.5, ((2.0, 9.0), (3.0, 9.0)), (4.0,), ((5.0, 9.0), (6.0, 9.0)))
    assert build_halving({}).why(state) == "it is at place 6 of the 6 runs that have come so far, and the best 2 go on"


@pytest.mark.parametrize(
    ("complete", "stopped", "others", "why"),
    [
        (1, 0, 9, "1 run of the claim complete, 2 are wanted first"),
        (2, 0, 3, "3 runs of the baseline complete, 4 are wanted first"),
        (2, 4, 9, "2 of 6 runs of the claim are complete: one in three is completed"),
        (2, 3, 4, None),
        (3, 6, 4, "3 of 9 runs of the claim are complete: one in three is completed"),
        (3, 5, 4, None),
    ],
)
def test_the_rule_completes_the_first_runs_and_one_in_three(
    complete: int, stopped: int, others: int, why: str | None
) -> None:
    pair = ((1.0, 2.0),)
    assert why_not(StopState("claim", 1.0, pair * complete, (1.0,) * stopped, pair * others)) == why


def test_the_rule_completes_four_runs_of_a_baseline() -> None:
    pair = ((1.0, 2.0),)
    said = [why_not(StopState("baseline", 1.0, pair * n, (1.0,) * stopped)) for n, stopped in ((3, 0), (4, 8), (4, 7))]
    assert said == [
        "3 runs of the baseline complete, 4 are wanted first",
        "4 of 12 runs of the baseline are complete: one in three is completed",
        None,
    ]


def test_the_rule_is_about_evidence() -> None:
    assert why_not(StopState("search", 1.0)) is None

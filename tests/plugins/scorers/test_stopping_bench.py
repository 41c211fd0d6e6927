"""What early stopping saves in simulated research: its figures, on campaigns whose hours are known."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from perpetual_scorers.figures import Cell, Episode, paired_ratio
from perpetual_scorers.simulate import Arm, Job, Policy, StrategyPolicy
from perpetual_scorers.stopping_bench import savings
from perpetual_stoppers.stopper import Stopper, StopState

CELL = Cell(0.6, 1)


class Never(Stopper):
    """Stops no run."""

    def why(self, state: StopState) -> str | None:
        return None


def played(hours: float, *, wrong: int = 0) -> Episode:
    return Episode(hours, 4, ((True, 0.9), (False, 0.2)), right=(1, 1, 1, 1, 2 - wrong), wrong=wrong, refutable=1,
                   spent_hours=hours)  # fmt: skip


def stand_in(job: Job) -> list[Episode] | str:
    """Campaigns of 8, 10 and 12 hours, of which stopping saves a quarter and costs one verdict."""
    stops = isinstance(job.policy, Arm)
    return [played(hours * (0.75 if stops else 1.0), wrong=int(stops and hours == 8)) for hours in (8.0, 10.0, 12.0)]


def test_what_is_saved_is_the_share_of_the_hours_of_the_same_campaigns() -> None:
    policy: Policy = StrategyPolicy("hypothesis_driven")

    def run(_: object, jobs: Iterable[Job]) -> Iterable[list[Episode] | str]:
        return [stand_in(job) for job in jobs]

    (found,) = savings(policy, {"mine": Never()}, [CELL], episodes=3, seed=1, run=run)
    assert (found["stopper"], found["threshold"], found["equal_error"]) == ("mine", 0.6, False)
    assert [found["saved"], found["saved_low"], found["saved_high"]] == pytest.approx([0.25, 0.25, 0.25])
    assert [found["error_rate"], found["full_error_rate"]] == pytest.approx([1 / 6, 0.0])
    assert [found["right"], found["full_right"]] == pytest.approx([5 / 3, 2.0])


def test_an_interval_of_a_ratio_draws_the_same_campaigns_of_both() -> None:
    full = [played(hours) for hours in (1.0, 2.0, 30.0)]
    half = [played(each.spent_hours / 2) for each in full]
    (ratio, low, high), _ = paired_ratio(half, full, lambda each: each.spent_hours, "a test")
    assert [ratio, low, high] == pytest.approx([0.5, 0.5, 0.5])
    nothing = [played(0.0) for _ in full]
    assert paired_ratio(half, nothing, lambda each: each.spent_hours, "a test")[0] == (None, None, None)

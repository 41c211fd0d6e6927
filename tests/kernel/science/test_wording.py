"""The sentence that leads a verdict: what it says is what was tested, and no more."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perpetual.science import judge
from perpetual.science.wording import sentence

BASE = [{"value": value} for value in (0.10, -0.12, 0.05, -0.03, 0.02, -0.08)]


SOME: dict[str, Any] = {"claim": "any", "mde": None, "direction": None}


def told(values: list[float], baseline: Any = None, **claim: Any) -> str:
    """The sentence on what these runs show."""
    asked = {"metric": "acc", "direction": "max", "claim": "improves", "mde": 0.3, **claim}
    found = judge(asked, BASE if baseline is None else baseline, [{"value": value} for value in values], {})
    return sentence(found, found["status"], claim=asked["claim"], mde=asked["mde"])


@pytest.mark.parametrize(
    ("values", "claim", "start"),
    [
        ([0.62, 0.55, 0.70, 0.58], {}, "Helps: about 0.62 better, between 0."),
        ([0.21, 0.35, 0.16], {"mde": 0.1}, "Leans to help: about 0.25 better"),
        ([0.62, 0.55, 0.70, 0.58], {"claim": "at_least"}, "Helps by at least 0.3: "),
        ([0.62, 0.55, 0.70, 0.58], SOME, "Makes a difference: "),
        ([-0.62, -0.55, -0.70, -0.58], SOME, "Makes a difference: about 0.6"),
        ([-0.02, 0.05, 0.0, -0.08], {}, "Does not help by 0.3: "),
        ([0.05, 0.12, 0.01], {}, "Leans against help by 0.3: "),
        ([-0.62, -0.55, -0.70, -0.58], {"mde": None}, "Harms: about 0.6 worse, between 0."),
        ([-0.62, -0.55, -0.70, -0.58], {"mde": 0.0}, "Harms: "),
        ([0.02, -0.05, 0.0, 0.03, 0.01, -0.02], {"claim": "any", "direction": None}, "Does not help by 0.3: "),
        ([0.02, -0.05, 0.0, 0.03, 0.01, -0.02], {"claim": "any"}, "Does not help by 0.3: "),
        ([0.2, 0.1], {}, "Undecided: about 0.16 better, between "),
        ([], {}, "Not measured yet."),
        ([0.3], {}, "Undecided: the noise is not known yet; one more run is needed."),
    ],
)  # fmt: skip
def test_the_head_says_what_was_tested(values: list[float], claim: dict[str, Any], start: str) -> None:
    assert told(values, **claim).startswith(start)


def test_harm_is_said_only_where_the_effect_is_known_to_be_below_nothing() -> None:
    """A refuted claim of an effect may be of one that is there, and too small."""
    small = told([0.05, 0.12, 0.01, 0.08, 0.06], claim="any")
    assert "Harms" not in small
    assert "harm" not in small


def test_the_bound_is_that_of_the_verdict() -> None:
    values = [0.62, 0.55, 0.70, 0.58]
    found = judge({"mde": 0.3, "direction": "max"}, BASE, [{"value": value} for value in values], {})
    said = sentence(found, "supported", mde=0.3)
    assert said.endswith(f"a false claim would look this good in at most 1 of {int(found['e_support'])} labs.")
    against = judge({"mde": 0.3, "direction": "max"}, BASE, [{"value": -value} for value in values], {})
    said = sentence(against, "refuted", mde=0.3)
    assert said.endswith(f"a true effect of 0.3 would look this bad in at most 1 of {int(against['e_refute'])} labs.")
    none = judge({"direction": "max"}, BASE, [{"value": -value} for value in values], {})
    assert "a true claim would look this bad" in sentence(none, "refuted")


def test_an_open_claim_says_how_many_runs_would_decide() -> None:
    assert "more runs like these: 80% chance to decide." in told([0.16, 0.1, 0.2], tau=0.0)
    assert told([0.15, 0.1, 0.2, 0.15], [{"value": v} for v in (0.4, -0.4)]).endswith("would hardly decide.")
    rate = told([1, 0, 1], 0.5, kind="binary")
    assert rate.endswith("; more runs are needed."), "a rate's noise needs no further run to be known"
    assert "stale" not in rate


def test_large_numbers_are_written_out() -> None:
    base = [{"value": 1000 * run["value"]} for run in BASE]
    assert told([622.0, 553.0, 701.0, 584.0], base, mde=300.0).startswith(
        "Helps: about 625 better, between 300 and 950"
    )
    assert "e+" not in told([99.7, 99.6, 99.8], [{"value": 0.01}, {"value": 0.0}, {"value": 0.02}])


def test_what_differs_is_named_where_baseline_and_claim_are_not_comparable() -> None:
    found = judge({"mde": 0.3}, BASE, [{"value": value} for value in (0.6, 0.5)], {})
    said = sentence(found, "open", mde=0.3, stale="code and data")
    assert said.startswith("Undecided, as baseline and claim ran on other code and data: about 0.5")


def test_an_interval_around_nothing_says_which_end_is_better() -> None:
    said = told([0.16, 0.1, 0.2])
    assert re.search(r"between [\d.e-]+ worse and [\d.e-]+ better;", said), said

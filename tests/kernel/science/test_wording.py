"""The sentence that leads a verdict: what it says is what was tested, and no more."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import pytest

from perpetual.science import judge
from perpetual.science.wording import SURE, leans, more_runs, sentence

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


def test_a_verdict_leans_where_its_interval_holds_no_effect() -> None:
    """Of few pairs the interval is wider than the e-value says: both are true, and the sentence is the weaker one."""
    base = [{"value": value, "seed": seed} for seed, value in enumerate((0.506, 0.507, 0.5))]
    for values, head in (((0.646, 0.645, 0.65), "Leans to help"), ((0.346, 0.345, 0.35), "Leans to harm")):
        runs = [{"value": value, "seed": seed} for seed, value in enumerate(values)]
        found = judge({"direction": "max", "paired": True}, base, runs, {})
        effect = found["effect"]
        assert effect is not None
        assert effect["low"] is not None
        assert effect["high"] is not None
        assert effect["low"] < 0 < effect["high"]
        assert max(found["e_support"], found["e_refute"]) > 20
        assert sentence(found, found["status"]).startswith(f"{head}: ")


def test_runs_that_ignore_their_seed_ask_for_no_further_run() -> None:
    said = told([0.3, 0.3, 0.3], 0.1, mde=None)
    assert said == "Undecided: the noise is not known, as all runs measured the same; do they use PERPETUAL_SEED?"


def test_harm_is_said_only_where_the_effect_is_known_to_be_below_nothing() -> None:
    """A refuted claim of an effect may be of one that is there, and too small."""
    small = told([0.05, 0.12, 0.01, 0.08, 0.06], claim="any")
    assert "Harms" not in small
    assert "harm" not in small


def test_the_bound_is_that_of_the_verdict() -> None:
    values = [0.62, 0.55, 0.70, 0.58]
    found = judge({"mde": 0.3, "direction": "max"}, BASE, [{"value": value} for value in values], {})
    said = sentence(found, "supported", mde=0.3)
    assert _labs(said, "a false claim would look this good") <= found["e_support"]
    against = judge({"mde": 0.3, "direction": "max"}, BASE, [{"value": -value} for value in values], {})
    said = sentence(against, "refuted", mde=0.3)
    assert _labs(said, "a true effect of 0.3 would look this bad") <= against["e_refute"]
    none = judge({"direction": "max"}, BASE, [{"value": -value} for value in values], {})
    assert "a true claim would look this bad" in sentence(none, "refuted")


def _labs(said: str, what: str) -> int:
    """The number of labs in a sentence, which has two digits at most."""
    found = re.search(rf"; {what} in at most 1 of ([\d,]+) labs\.$", said)
    assert found is not None, said
    assert len(found[1].replace(",", "").rstrip("0")) <= 2, "more digits than anybody could stand for"
    return int(found[1].replace(",", ""))


def test_no_bound_is_said_that_only_the_model_holds() -> None:
    assert "in at most 1 of 10,000 labs" in told([5.0, 5.01, 5.02, 5.03, 5.01, 5.02])


def test_a_lean_says_how_many_runs_would_make_it_sure() -> None:
    """It is decided, and still more runs are worth something."""
    said = told([0.21, 0.35, 0.16], mde=0.1)
    assert re.search(r" labs; \d+ more runs? like these: 80% chance to make it sure\.$", said), said
    assert "make it sure" not in told([0.62, 0.55, 0.70, 0.58])
    assert "make it sure" not in told([0.05, 0.12, 0.01]), "a refuted claim needs no more runs"
    clear, wide = {"low": 0.1, "high": 0.3}, {"low": -0.1, "high": 0.3}
    assert leans("supported", 0.06, clear)
    assert leans("supported", 0.05, wide), "its interval holds 0"
    sure = [("supported", 0.05, clear), ("supported", None, wide), ("open", 0.5, wide), ("refuted", 0.05, wide)]
    assert not any(leans(*said) for said in sure)


def test_an_open_claim_says_how_many_runs_would_decide() -> None:
    assert "more runs like these: 80% chance to decide." in told([0.16, 0.1, 0.2], tau=0.0)
    assert told([0.15, 0.1, 0.2, 0.15], [{"value": v} for v in (0.4, -0.4)]).endswith("would hardly decide.")
    few = told([3.0, 3.4, 2.7], [{"value": v} for v in (0.4, -0.4)], mde=None)
    assert few.endswith("would hardly make it sure: the baseline needs more than its 2 runs."), few
    rate = told([1, 0, 1], 0.5, kind="binary")
    assert rate.endswith("; more runs are needed."), "a rate's noise needs no further run to be known"
    assert "stale" not in rate


@pytest.mark.slow
@pytest.mark.parametrize("n_baseline", [2, 3, 4, 8])
def test_so_many_more_runs_decide_as_often_as_is_said(n_baseline: int) -> None:
    """Whatever the effect, as far as one noise for both arms goes; the runs are drawn anew in each world."""
    draw, asked = random.Random(n_baseline), {"metric": "acc", "direction": "max", "claim": "improves", "mde": 1.0}

    def drawn(mean: float, n: int) -> list[dict[str, Any]]:
        return [{"value": draw.gauss(mean, 1.0)} for _ in range(n)]

    said = came = 0
    for world in range(3000):
        effect = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 15.0, 30.0)[world % 9]
        base, runs = drawn(0.0, n_baseline), drawn(effect, 2 + world % 3)
        found = judge(asked, base, runs, {})
        more = more_runs(found, found["status"], mde=1.0)
        if more is None:
            continue
        later = judge(asked, base, runs + drawn(effect, more), {})
        said += 1
        came += later["status"] != "open" if found["status"] == "open" else later["e_support"] >= SURE
    assert came >= 0.8 * said - 2 * math.sqrt(0.16 * said), (came, said)
    assert n_baseline == 2 or said > 50


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

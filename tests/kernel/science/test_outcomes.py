"""What the next replicate can decide: every boundary is fed to the evidence rule itself, from either side."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from perpetual.science import confidence, outlook
from perpetual.science.outcomes import Outlook, Span, explain

THRESHOLDS = {"support": 0.8, "refute": 0.2}


def rows_of(values: list[float], shift: float = 0.0) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"id": n, "kind": "measured", "design_id": "d", "value": value} for n, value in enumerate(values)
    ]
    return [*rows, {"id": "m", "kind": "manual", "log_odds": shift}] if shift else rows


class Case:
    """One design with some replicates, drawn at random; `said` is the rule's confidence after one more value."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.gap, self.sign = 10 ** rng.uniform(-3, 2), rng.choice([1, 1, -1])
        self.mu0 = rng.choice([0.0, self.gap * rng.uniform(-3, 3)])
        sd = self.gap * 10 ** rng.uniform(-1.5, 1)
        self.design: dict[str, Any] = {
            "mu1": self.mu0 + self.sign * self.gap, "mu0": self.mu0, "tau": self.gap * rng.choice([0, 0.02, 0.25, 1])
        }  # fmt: skip
        noise = rng.choice(["known", "guessed", "none"])
        self.design |= {"known": {"sigma": sd}, "guessed": {"s0": sd, "nu0": rng.choice([2, 3])}, "none": {}}[noise]
        if rng.random() < 0.5:
            n = rng.choice([1, 2, 4])
            self.design |= {"baseline_n": n, "baseline_ss": rng.choice([0.0, sd * sd * n])}
        if rng.random() < 0.2:
            self.design["claim"] = "value"
        middle = self.mu0 + self.sign * self.gap * rng.random()
        values = [middle + rng.gauss(0, sd) for _ in range(rng.choice([0, 0, 1, 2, 3, 6]))]
        if len(values) > 1 and rng.random() < 0.1:
            values = values[:1] * len(values)
        self.rows = rows_of(values, rng.uniform(-2, 2))
        self.hypothesis = {"id": "h", "prior": rng.uniform(0.2, 0.8)}
        self.config = {"support": rng.choice([0.8, 0.95]), "refute": rng.choice([0.2, 0.05])}

    def outlook(self) -> Outlook:
        return outlook(self.hypothesis, {"d": self.design}, self.rows, "d", self.config)

    def said(self, value: float) -> float:
        more = {"id": "new", "kind": "measured", "design_id": "d", "value": value}
        result = confidence(self.hypothesis, {"d": self.design}, [*self.rows, more], {})
        return float(result["confidence"])

    def decides(self, which: str, value: float) -> bool:
        said = self.said(value)
        return said >= self.config["support"] if which == "support" else said <= self.config["refute"]


@pytest.mark.slow
def test_confidence_crosses_at_each_boundary_and_nowhere_else() -> None:
    crossed = none = 0
    for seed in range(120):
        case = Case(seed)
        found = case.outlook()
        for which, span in (("support", found.support), ("refute", found.refute)):
            if span is None:
                none += 1
                grid = [case.mu0 + case.gap * (n / 10 - 6) for n in range(121)]
                assert not [value for value in grid if case.decides(which, value)], (seed, which)
                continue
            crossed += 1
            tiny = 1e-5 * max(case.gap, abs(span.low or 0.0), abs(span.high or 0.0))
            if span.low is not None:
                assert case.decides(which, span.low + tiny), (seed, which)
                assert not case.decides(which, span.low - tiny), (seed, which)
            if span.high is not None:
                assert case.decides(which, span.high - tiny), (seed, which)
                assert not case.decides(which, span.high + tiny), (seed, which)
    assert crossed > 60
    assert none > 60


def test_the_boundary_of_a_known_noise_is_the_closed_form() -> None:
    design = {"mu1": 1.0, "mu0": 0.0, "tau": 0.25, "sigma": 0.5}
    found = outlook({"id": "h", "prior": 0.5}, {"d": design}, [], "d", THRESHOLDS)
    v = 0.25**2 + 0.5**2
    assert found.support is not None
    assert found.refute is not None
    assert found.support.low == pytest.approx(0.5 + math.log(4) * v)
    assert found.refute.high == pytest.approx(0.5 - math.log(4) * v)
    assert (found.support.high, found.refute.low) == (None, None)


def test_no_outcome_decides_where_a_design_says_too_little() -> None:
    design = {"mu1": 1.0, "mu0": 0.0, "tau": 0.25, "s0": 3.0, "nu0": 2.0}
    found = outlook({"id": "h", "prior": 0.5}, {"d": design}, [], "d", THRESHOLDS)
    assert (found.support, found.refute) == (None, None)
    assert explain(found, "h3", THRESHOLDS) == "no single outcome decides h3"
    sure = {**THRESHOLDS, "support": 0.9975}
    capped = outlook({"id": "h", "prior": 0.75}, {"d": {**design, "s0": None, "sigma": 0.1}}, [], "d", sure)
    assert capped is not None
    assert capped.support is None, "a design is worth 99 to 1 at most"


def test_a_success_or_a_failure_may_decide() -> None:
    design = {"model": "binary", "mu1": 0.9, "mu0": 0.1}
    found = outlook({"id": "h", "prior": 0.62}, {"d": design}, [], "d", THRESHOLDS)
    assert (found.support, found.refute) == (Span(1.0, 1.0), Span(0.0, 0.0))
    words = "a success would support h3 (0.62 -> 0.80), a failure would refute it (-> 0.20)"
    assert explain(found, "h3", THRESHOLDS) == words
    timid = outlook({"id": "h", "prior": 0.5}, {"d": {**design, "mu1": 0.6, "mu0": 0.4}}, [], "d", THRESHOLDS)
    assert explain(timid, "h3", THRESHOLDS) == "no single outcome decides h3"


def _covers(span: Span | None, value: float) -> bool:
    return span is not None and (span.low is None or value >= span.low) and (span.high is None or value <= span.high)


@pytest.mark.parametrize(
    ("values", "baseline_n", "shift"),
    [([0.3], 0, 1.2), ([0.9, 1.2], 0, 1.25), ([-0.9, -1.2, -1.0], 0, 0.0), ([0.2, 0.4], 4, 0.7)],
)
def test_either_side_may_decide_a_claim_of_some_effect(values: list[float], baseline_n: int, shift: float) -> None:
    design = {"model": "any"} | ({"baseline_n": baseline_n, "baseline_ss": 0.03} if baseline_n else {})
    rows = rows_of(values, shift)
    found = outlook({"id": "h", "prior": 0.5}, {"d": design}, rows, "d", THRESHOLDS)
    assert "an effect" in explain(found, "h1", THRESHOLDS)
    for step in range(-100, 101):
        value = step / 20 + 0.0123
        more = {"id": "new", "kind": "measured", "design_id": "d", "value": value}
        said = confidence({"id": "h", "prior": 0.5}, {"d": design}, [*rows, more], {})["confidence"]
        supports = _covers(found.support, value) or _covers(found.also, value)
        assert supports == (said >= THRESHOLDS["support"]), value
        assert not _covers(found.refute, value) or said <= THRESHOLDS["refute"], value


@pytest.mark.parametrize(
    ("prior", "values", "design"),
    [
        (0.75, [], {"mu1": 1.0, "mu0": 0.0, "tau": 0.25, "sigma": 0.5}),
        (0.25, [0.9], {"mu1": 1.0, "mu0": 0.0, "tau": 0.25, "s0": 0.5, "nu0": 2.0}),
        (0.75, [0.4, 0.6], {"model": "any", "one_sided": True, "baseline_n": 4, "baseline_ss": 0.03}),
        (0.5, [-0.9, -1.2, -1.0], {"model": "any", "one_sided": True}),
    ],
)
def test_the_outlook_of_a_verdict_is_where_the_rule_gives_it(
    prior: float, values: list[float], design: dict[str, Any]
) -> None:
    rows, hypothesis = rows_of(values, 0.0), {"id": "h", "prior": prior}
    found = outlook(hypothesis, {"d": design}, rows, "d", {**THRESHOLDS, "verdict": True})
    for step in range(-100, 101):
        value = step / 20 + 0.0123
        more = {"id": "new", "kind": "measured", "design_id": "d", "value": value}
        reached = confidence(hypothesis, {"d": design}, [*rows, more], THRESHOLDS)["reached"]
        assert _covers(found.support, value) == (reached == "supported"), value
        assert _covers(found.refute, value) == (reached == "refuted"), value


def test_a_first_run_says_nothing_of_some_effect() -> None:
    found = outlook({"id": "h", "prior": 0.5}, {"d": {"model": "any"}}, [], "d", THRESHOLDS)
    assert (found.support, found.refute, found.also) == (None, None, None)
    assert explain(found, "h1", THRESHOLDS) == "no single outcome decides h1"


def test_other_designs_and_retracted_rows_are_what_they_are_in_the_rule() -> None:
    designs = {name: {"mu1": 1.0, "mu0": 0.0, "tau": 0.25, "sigma": 0.5} for name in ("d", "other")}
    other = {"id": "o", "kind": "measured", "design_id": "other", "value": 0.9}
    with_it = outlook({"id": "h", "prior": 0.5}, designs, [other], "d", THRESHOLDS)
    taken_back = outlook(
        {"id": "h", "prior": 0.5}, designs, [other, {"id": "r", "kind": "retraction", "target": "o"}], "d", THRESHOLDS
    )
    alone = outlook({"id": "h", "prior": 0.5}, designs, [], "d", THRESHOLDS)
    assert taken_back == alone
    assert with_it.support is not None
    assert alone.support is not None
    assert (with_it.support.low or 0.0) < (alone.support.low or 0.0)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            Outlook(0.62, Span(0.031, None), Span(None, -0.012), False, 0.05),
            "an effect above +0.031 would support h3 (0.62 -> 0.80), an effect below -0.012 would refute it (-> 0.20)",
        ),
        (Outlook(0.5, None, Span(None, -0.1), False, 1.0), "an effect below -0.1 would refute h3 (0.50 -> 0.20)"),
        (
            Outlook(0.9, Span(0.1, None), None, False, 1.0),
            "an effect above +0.1 leaves h3 at 0.80 or above",
        ),
        (
            Outlook(0.5, Span(0.9, 1.7), None, False, 1.0),
            "an effect from +0.9 to +1.7 would support h3 (0.50 -> 0.80)",
        ),
        (
            Outlook(0.5, Span(1.1, None), None, False, 1.0, Span(None, -1.1)),
            "an effect above +1.1 or below -1.1 would support h3 (0.50 -> 0.80)",
        ),
        (Outlook(0.5, Span(0.9, 50.0), None, False, 1.0), "an effect above +0.9 would support h3 (0.50 -> 0.80)"),
    ],
)
def test_the_outlook_is_explained_in_words(found: Outlook, words: str) -> None:
    assert explain(found, "h3", THRESHOLDS) == words

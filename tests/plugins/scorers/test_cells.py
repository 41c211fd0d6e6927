"""The worlds that attack the evidence rule: that they are what they say, that the measurement bites, and the rule."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from perpetual_scorers.attack import Cell, Judge, failures, measure, most_by_chance, upper_limit
from perpetual_scorers.cells import CELLS, main
from perpetual_scorers.null_worlds import Look

Answer = dict[str, object]


def document(
    log_e: float, effect: float | None, reach: float, cautions: Sequence[str], threshold: float = math.log(4)
) -> Answer:
    """What a judge would answer whose log e-value is this; its interval reaches so far around the effect."""
    status = "supported" if log_e >= threshold else "refuted" if -log_e >= threshold else "open"
    e = {"supported": math.exp(min(log_e, 700)), "refuted": math.exp(min(-log_e, 700))}
    low, high = (None, None) if effect is None else (effect - reach, effect + reach)
    return {
        "status": status,
        "e_support": e["supported"],
        "e_refute": e["refuted"],
        "confidence": 1 / (1 + math.exp(-max(min(log_e, 30), -30))),
        "false_alarm_bound": min(1.0, 1 / e.get(status, 1.0)),
        "effect": {"value": effect, "low": low, "high": high},
        "cautions": [*cautions],
    }


def values_of(runs: Sequence[Mapping[str, Any]]) -> list[float]:
    return [run["value"] for run in runs if run["value"] is not None]


def mean_of(baseline: Any) -> float | None:
    if isinstance(baseline, float | int):
        return float(baseline)
    if isinstance(baseline, dict):
        return float(baseline["value"])
    values = values_of(baseline)
    return statistics.fmean(values) if values else None


class Trusting:
    """The rule that this project must not have: a product over designs that believes the noise, without cautions."""

    def __init__(self, cautions: Sequence[str] = (), weight: float = 1.0) -> None:
        self._cautions, self._weight = cautions, weight

    def __call__(self, items: list[list[object]]) -> list[Answer]:
        return [self._judged(*item) for item in items]

    def _judged(self, claim: Any, baseline: Any, runs: Any, config: object) -> Answer:
        if not isinstance(claim, list):
            claim, baseline, runs = [claim], [baseline], [runs]
        elif not (isinstance(baseline, list) and baseline and isinstance(baseline[0], list)):
            baseline = [baseline] * len(claim)
        total, effects = 0.0, []
        for one, against, own in zip(claim, baseline, runs, strict=True):
            values, base = values_of(own), mean_of(against)
            if not values or base is None:
                continue
            mde = one["mde"] or 1.0
            effect = statistics.fmean(values) - base
            effect = effect if one["direction"] == "max" else -effect
            sigma = max(one["noise"] if one["noise"] is not None else mde, 1e-9)
            total += len(values) * mde * (effect - mde / 2) / sigma**2
            effects.append(effect)
        told = statistics.fmean(effects) if effects else None
        return document(self._weight * total, told, 1e-6, self._cautions)


def silent(items: list[list[object]]) -> list[Answer]:
    """A judge that never decides and always warns."""
    codes = sorted({code for cell in CELLS.values() for code in cell.cautions})
    return [document(0.0, None, 0.0, codes) for _ in items]


def played(name: str, campaign: int = 0) -> list[Look]:
    return list(CELLS[name].generate(Random(f"{campaign}")))


def launched(look: Look) -> list[Mapping[str, Any]]:
    """All runs of a look, of both arms."""
    found: list[Mapping[str, Any]] = []

    def walk(part: object) -> None:
        if isinstance(part, list):
            for each in part:
                walk(each)
        elif isinstance(part, dict) and "order" in part:
            found.append(part)

    walk(look.baseline)
    walk(look.runs)
    return found


# --- the worlds -------------------------------------------------------------------------------------------------------


def test_the_cells_cover_every_row_of_the_audit() -> None:
    rows = {row for cell in CELLS.values() for row in cell.defect.split()}
    assert {f"D{n}" for n in range(1, 18)} <= rows
    assert len([cell for cell in CELLS.values() if cell.true is None]) >= 24
    for cell in CELLS.values():
        assert cell.violates.endswith(".")
        assert cell.seen or cell.cautions, cell.name


@pytest.mark.parametrize("name", [*CELLS])
def test_each_look_adds_one_run_and_leaves_the_looks_before(name: str) -> None:
    looks = list(CELLS[name].generate(Random("shape")))
    texts = [json.dumps(look) for look in looks]
    again = [json.dumps(look) for look in CELLS[name].generate(Random("shape"))]
    assert texts == again, "seeded"
    assert 4 <= len(looks) <= 100
    counts = [len(launched(look)) for look in looks]
    steps = [after - before for before, after in itertools.pairwise(counts)]
    assert min(steps) == 1
    assert max(steps) == 1 or isinstance(looks[-1].claim, list), "a design may bring a baseline of its own"
    last = launched(looks[-1])
    orders = [run["order"] for run in last]
    assert len(set(orders)) == len(orders)
    claims = looks[-1].claim
    assert 1 <= (len(claims) if isinstance(claims, list) else 1) <= 12
    for look in looks:
        if isinstance(look.claim, list):
            assert len(look.claim) == len(look.runs)


def test_directions_and_units_vary_and_values_follow_them() -> None:
    effects = []
    directions = set()
    for number in range(40):
        look = played("uncapped", number)[-1]
        assert isinstance(look.claim, dict)
        directions.add((look.claim["direction"], look.unit))
        assert look.truth == pytest.approx(10 * look.unit)
        base = mean_of(look.baseline)
        assert base is not None
        effect = (statistics.fmean(values_of(look.runs)) - base) / look.unit  # type: ignore[arg-type]
        effects.append(effect if look.claim["direction"] == "max" else -effect)
    assert len(directions) == 8
    assert all(8 < effect < 12 for effect in effects)


def test_lost_runs_say_how_they_ended() -> None:
    looks = [played("killed-early", number)[-1] for number in range(20)]
    treated = [run for look in looks for run in launched(look) if run["order"] >= 4]
    killed = [run for run in treated if run["status"] == "killed"]
    assert 0.4 < len(killed) / len(treated) < 0.6
    assert all(run["value"] is None and run["by"] and run["last_value"] is not None for run in killed)


def test_scores_per_item_have_the_runs_value_as_their_mean() -> None:
    for run in launched(played("one-set-100-scores")[-1]):
        assert len(run["items"]) == 100
        assert run["value"] == pytest.approx(statistics.fmean(run["items"]))


# --- the measurement --------------------------------------------------------------------------------------------------


def test_limits_are_those_of_the_binomial() -> None:
    assert upper_limit(0, 100) == pytest.approx(1 - 0.01**0.01)
    assert upper_limit(100, 100) == 1.0
    assert upper_limit(100, 2000) == pytest.approx(0.0627, abs=3e-4)
    whole = [math.comb(100, k) * 0.05**k * 0.95 ** (100 - k) for k in range(101)]
    k = most_by_chance(100, 0.05)
    assert sum(whole[: k + 1]) >= 0.99 > sum(whole[:k])
    assert most_by_chance(100, 0.25) == 35


def test_a_judge_that_says_nothing_and_warns_holds() -> None:
    for cell in CELLS.values():
        if cell.least_share is None:
            assert failures(cell, measure(cell, 2, judge=silent)) == [], cell.name
    found = failures(CELLS["uncapped"], measure(CELLS["uncapped"], 40, judge=silent))
    assert found == ["e >= 133.333 in 0 of 40 only"]


@pytest.mark.parametrize("name", ["noise-x0.1-typed", "shared-baseline-1", "treatment-sd-x8-baseline4", "all-bad-lost"])
def test_a_rule_that_trusts_the_noise_fails(name: str) -> None:
    cell = CELLS[name]
    tally = measure(cell, 100, judge=Trusting())
    assert any(found.startswith("e >= 20 in") for found in failures(cell, tally)), failures(cell, tally)
    assert tally.ever_e > most_by_chance(100, 0.05)
    full = measure(cell, 100, judge=Trusting(weight=0.05)) if name == "all-bad-lost" else tally
    assert full.nulls == 100


@pytest.mark.parametrize("name", ["typed-worst-of-5", "one-set-100-nothing", "drift-walk-separated", "stale-bias2"])
def test_a_rule_without_cautions_fails(name: str) -> None:
    cell = CELLS[name]
    found = failures(cell, measure(cell, 40, judge=Trusting()))
    assert any(f"no {cell.cautions[0]} at a look with the false verdict" in each for each in found)
    assert any("at the last look in 40 of 40" in each for each in found)
    warned = failures(cell, measure(cell, 40, judge=Trusting(cell.cautions)))
    assert not any(cell.cautions[0] in each for each in warned)
    assert any("must stay open" in each for each in warned) is cell.stays_open


def test_intervals_that_miss_fail() -> None:
    found = failures(CELLS["plain"], measure(CELLS["plain"], 40, judge=Trusting()))
    assert "interval missed the truth in 40 of 40" in found
    assert any(each.startswith("interval missed at the verdict") for each in found)


def changed(change: Callable[[Answer], object]) -> Judge:
    """A judge that answers as `Trusting`, each document changed."""

    def judge(items: list[list[object]]) -> list[Answer]:
        answers = Trusting()(items)
        for answer in answers:
            change(answer)
        return answers

    return judge


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda answer: answer.update(false_alarm_bound=0.2), "bound of another verdict"),
        (lambda answer: answer.update(status="supported"), "bound of another verdict"),
        (lambda answer: answer.pop("effect"), "malformed, 0 refused: KeyError: 'effect'"),
        (lambda answer: answer.update(e_support=math.nan), "e_support is nan"),
        (lambda answer: answer.update(error="the claim is none"), "refused: the claim is none"),
    ],
)
def test_documents_that_break_a_promise_fail(change: Callable[[Answer], object], said: str) -> None:
    found = failures(CELLS["plain"], measure(CELLS["plain"], 20, judge=changed(change)))
    assert any(said in each for each in found), found


def test_the_seed_decides_whatever_computes() -> None:
    cell = CELLS["plain"]
    whole = measure(cell, 120, 7, judge=Trusting())

    def backwards(function: Callable[[Any], Any], jobs: Any) -> Any:
        return reversed([function(job) for job in reversed(list(jobs))])

    assert measure(cell, 120, 7, judge=Trusting(), run=backwards) == whole
    assert measure(cell, 120, 8, judge=Trusting()) != whole


def test_power_says_when_the_truth_was_found() -> None:
    cell = CELLS["power-2-sigma0.5-baseline16"]
    tally = measure(cell, 20, judge=Trusting())
    assert tally.ever_true == tally.reached == 20
    assert 20 <= tally.runs_to_true <= tally.runs_to_bar < 200


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_says_where_the_rule_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perpetual.science.judge_many", Trusting(), raising=False)
    assert main(["noise-x0.1-typed", "power-outlier", "--nulls", "30", "--jobs", "1"]) == 1
    shown = capsys.readouterr().out
    assert "| noise-x0.1-typed | D5 |" in shown
    assert "e >= 20 in" in shown
    assert "| power-outlier | " in shown
    assert main(["D17", "--nulls", "3", "--jobs", "1", "--json"]) in (0, 1)
    told = json.loads(capsys.readouterr().out)
    assert [cell["cell"] for cell in told["cells"]] == [name for name in CELLS if name.startswith("any-")]
    assert main(["D5", "--list"]) == 0
    assert "noise-x0.1-two (D5): " in capsys.readouterr().out
    assert main(["nonsense"]) == 2
    assert "--list" in capsys.readouterr().err


# --- the rule ---------------------------------------------------------------------------------------------------------


# One cell of each violation; `make soak` plays the others.
PLAYED = (
    "plain", "opinions-effect0", "uncapped", "twelve-by-two-tau-0-sigma2", "noise-x0.01-two", "noise-x0-paired",
    "stale-bias2", "one-set-100-nothing", "one-set-100-scores", "treatment-sd-x4-baseline16", "baseline-sd-x8",
    "killed-early", "all-bad-lost", "at-least-0.9-sigma0.5", "typed-of-1-sigma1", "typed-n-3", "rate-runs-10",
    "shared-baseline-1", "drift-walk-separated", "correlated-0.5", "paired-rho0.8", "base-rate-0.1",
    "baseline-outlier-20-4", "any-none",
)  # fmt: skip


def test_a_cell_of_each_violation_is_played() -> None:
    assert len(PLAYED) == 24
    assert set(PLAYED) <= set(CELLS)
    violated = {row for cell in CELLS.values() for row in cell.defect.split() if row.startswith("D")}
    assert {row for name in PLAYED for row in CELLS[name].defect.split()} >= violated


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in PLAYED else pytest.mark.soak) for name in CELLS]
)
def test_the_rule_holds(name: str) -> None:
    cell: Cell = CELLS[name]
    assert failures(cell, measure(cell, 100)) == []

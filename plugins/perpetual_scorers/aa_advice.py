"""What to do about an A/A test's figures, in sentences. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from perpetual.science.intervals import student_quantile
from perpetual.toolkit.units import counted, shown_number
from perpetual_scorers.aa_ours import HELPS, SUPPORTED
from perpetual_scorers.aa_rules import KEEP_ONE, KEEP_THREE, PERMUTATION, TWO_SIGMA

if TYPE_CHECKING:
    from perpetual_scorers.aa_rules import RuleShare
    from perpetual_scorers.documents import Aa

__all__ = ["advice", "of_rule", "runs_needed", "sentence", "smallest_effect"]

_ALPHA, _POWER = 0.05, 0.8
_TEST = "t test at 5 %"
_MOST_RUNS = 10_000
_FEW = 5  # runs an arm, of which is said what they can show
_WEAK = 0.3  # a correlation up to which pairs gain little
_TWO_SIGMA_LEVEL = 0.97725  # the share of normal values below the mean plus two sd


def runs_needed(sd: float, effect: float) -> int | None:
    """Returns the runs an arm with which a one-sided t test at 5 % shows an effect in 80 % of tries; None above 10,000.

    The non-central t is taken as a shifted one, which is off by less than a run from three runs an arm on.
    """
    low, high = 1, 2
    while smallest_effect(sd, high) > effect:
        if high >= _MOST_RUNS:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if smallest_effect(sd, middle) <= effect else (middle, high)
    return high


def smallest_effect(sd: float, runs: int) -> float:
    """Returns the effect that `runs` runs an arm (two at least) show in 80 % of tries, as `runs_needed` has it."""
    nu = 2.0 * (runs - 1)
    return sd * math.sqrt(2.0 / runs) * (student_quantile(1.0 - _ALPHA, nu) + student_quantile(_POWER, nu))


def of_rule(rule: RuleShare) -> str:
    """Returns what to do about one rule of decision."""
    if rule.said is None:
        return f"needs {rule.runs} seeds: more --runs"
    if rule.rule in (SUPPORTED, HELPS) and rule.promised is not None and (rule.low or 0.0) > rule.promised:
        return "more often than promised: look for outliers, drift and shared test items"
    known = rule.runs - 1
    factor = student_quantile(_TWO_SIGMA_LEVEL, known - 1) * math.sqrt(1.0 + 1.0 / known) if known > 1 else 0.0
    return {
        KEEP_ONE: "a coin toss: run both again before keeping anything",
        KEEP_THREE: "the same coin: a mean decides nothing without its spread",
        TWO_SIGMA: f"with {known} baseline runs ask for {factor:.1f} sd, not 2",
        PERMUTATION: "look once, after a number of runs fixed before",
        SUPPORTED: "leans to help; holds while you look after each run",
        HELPS: "holds however often you look",
    }[rule.rule]


def sentence(found: Aa) -> str:
    """Returns the result in one sentence without statistics."""
    said = {rule["rule"]: rule["said_improved"] for rule in found["rules"]}
    if said.get(KEEP_ONE) is None:
        return f"{counted(found['n'], 'run')} of {found['experiment_id']} are too few to compare rules of decision."
    ours = said.get(HELPS)
    end = "" if ours is None else f', and Perpetual would have said "helps" in {_percent(ours)}'
    return (
        f'Nothing was changed: keeping the better of two runs would have said "improved" in '
        f"{_percent(said[KEEP_ONE])} of the comparisons{end}."
    )


def advice(found: Aa) -> list[str]:
    """Returns what to do about the figures, the most pressing first."""
    return [*_without_value(found), *_noise(found), *_seeds(found), *_drift(found), *_items(found), *_rough(found)]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100.0 * share:.0f} %"


def _number(value: float | None) -> str:
    return "?" if value is None else shown_number(value, ".2g")


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({_number(low)} to {_number(high)})"


def _without_value(found: Aa) -> list[str]:
    lines = []
    if found["without_value"]:
        arms = " and ".join(found["arms"])
        lines.append(f"{counted(found['without_value'], 'run')} of {arms} gave no value: perpetual runs shows why")
    if found["other_version"]:
        count = counted(found["other_version"], "earlier run")
        lines.append(f"{count} left out: other code, data or environment than the newest runs")
    return lines


def _noise(found: Aa) -> list[str]:
    sd, mde = found["noise_sd"], found["mde"]
    if sd is None:
        return [f"noise: {counted(found['seeds'], 'seed')} measured, and it takes two: perpetual aa"]
    if sd == 0.0:
        return ["every run measured the same: seeds make no difference here, and more runs of one command say no more"]
    said = f"noise {_number(sd)}{_between(found['noise_sd_low'], found['noise_sd_high'])}"
    if mde is None or found["mde_is_noise"]:
        shown = _number(smallest_effect(sd, _FEW))
        return [f"{said}: {_FEW} runs an arm show effects from {shown} on in 4 of 5 tries ({_TEST})"]
    need, worst = (None if each is None else runs_needed(each, mde) for each in (sd, found["noise_sd_high"]))
    how_many = f"more than {_MOST_RUNS:,} runs" if need is None else counted(need, "run")
    worst_case = f", or {worst} if the noise is at its upper end" if worst is not None and worst != need else ""
    return [f"{said}: an effect of {_number(mde)} needs {how_many} an arm{worst_case} (4 of 5 tries, {_TEST})"]


def _seeds(found: Aa) -> list[str]:
    rho, low, high = (found[key] for key in ("seed_correlation", "seed_correlation_low", "seed_correlation_high"))
    if found["noise_sd"] in (None, 0.0) or (rho is None and not found["shared_pairs"]):
        return []
    pairs = counted(found["shared_pairs"], "pair")
    if rho is None:
        return []
    if low is None or high is None:
        return [
            f"the same seed gave the same value each time ({pairs}): pair the seeds (--paired), as far as the change "
            "leaves what a seed fixes"
        ]
    said = f"seeds correlate {_number(rho)}{_between(low, high)}"
    if low > 0.0:
        saved = f"up to {1.0 / max(1e-3, 1.0 - rho):.0f} times fewer runs" if rho >= 0.5 else "somewhat fewer runs"
        return [f"{said}: pair them (--paired): {saved}, as far as the change leaves what a seed fixes"]
    if high < _WEAK:
        return [f"{said}: a shared seed makes runs hardly alike, so pairing them gains little"]
    more = f"perpetual aa {found['experiment_id']} --again --runs 24"
    return [f"{said}: {pairs} cannot say whether to pair them; more: {more}"]


def _drift(found: Aa) -> list[str]:
    drift, id = found["drift"], found["experiment_id"]
    if drift["found"] is None:
        return ["drift: too few runs to look for it"] if found["noise_sd"] != 0.0 else []
    if not drift["found"]:
        reach = _between(drift["slope_low"], drift["slope_high"])
        return [f"no drift seen; the slope is {_number(drift['slope'])} a launch{reach}"]
    tests: list[tuple[float, str]] = []
    if drift["p_slope"] is not None:
        slope = f"{_number(drift['slope'])} a launch{_between(drift['slope_low'], drift['slope_high'])}"
        tests.append((drift["p_slope"], f"drift of {slope}: launch baseline and claim in random order, interleaved"))
    if drift["p_lag1"] is not None:
        text = (
            f"neighbouring runs are related (lag-1 correlation {_number(drift['lag1'])}): interleave baseline and claim"
        )
        tests.append((drift["p_lag1"], text))
    if drift["p_shift"] is not None:
        text = f"the newest runs differ by {_number(drift['shift'])} from earlier ones: compare with none of those; "
        tests.append((drift["p_shift"], f"{text}perpetual rebaseline {id}"))
    bar = _ALPHA / len(tests)
    return [text for p, text in tests if p <= bar]


def _items(found: Aa) -> list[str]:
    luck, items, rate = found["item_luck"], found["items"], found["item_rate"]
    if items is None:
        return (
            []
            if rate is None
            else [f"where {found['metric']} is a share of test items: --items N says what their luck is"]
        )
    if luck is None:
        return [f"{found['metric']} is no share of right answers, so --items says nothing about it"]
    said = f"{counted(items, 'item')} at a rate of {_number(rate)}: two equally good models differ by {_number(luck)}"
    return [
        f"{said} (sd, at most) by luck of the items, and more seeds do not lessen it: take more items, or compare item "
        "by item"
    ]


def _rough(found: Aa) -> list[str]:
    largest = max((rule["runs"] for rule in found["rules"] if rule["said_improved"] is not None), default=0)
    if not largest or found["seeds"] // largest >= _FEW:
        return []
    blocks = counted(found["seeds"] // largest, "comparison")
    return [
        f"the shares are rough: {found['seeds']} seeds hold {blocks} of {largest} runs without a run in common; "
        f"sharper: perpetual aa {found['experiment_id']} --again --runs 32"
    ]

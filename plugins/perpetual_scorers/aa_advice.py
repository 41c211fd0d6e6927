"""What to do about an A/A test's figures, in sentences. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from perpetual.science.evalues import log_e
from perpetual.science.evidence import TAU_SHARE
from perpetual.science.intervals import student_quantile
from perpetual.science.wording import SURE
from perpetual.toolkit.units import counted, shown_number
from perpetual_scorers.aa_ours import HELPS, SUPPORTED
from perpetual_scorers.aa_rules import KEEP_ONE, KEEP_THREE, PERMUTATION, TWO_SIGMA
from perpetual_scorers.proposing.planning import statistic_of

if TYPE_CHECKING:
    from perpetual_scorers.aa_rules import RuleShare
    from perpetual_scorers.documents import Aa

__all__ = ["advice", "of_rule", "runs_needed", "sentence"]

_ALPHA = 0.05
_Z_LIKELY = 0.8416  # the normal quantile of 4 of 5
_TRIES = '"helps" in 4 of 5 tries'
_MOST_RUNS = 10_000
_FEWEST_BLOCKS = 5  # comparisons without a run in common, below which a share is rough
_WEAK = 0.3  # a correlation up to which pairs gain little
_TWO_SIGMA_LEVEL = 0.97725  # the share of normal values below the mean plus two sd
_BISECTIONS = 30


def runs_needed(sd: float, effect: float) -> int | None:
    """Returns the runs an arm with which a true effect gets a verdict of "helps" in 4 of 5 tries; None above 10,000."""
    low, high = 1, 2
    while not _is_shown(sd, effect, high):
        if high >= _MOST_RUNS:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_shown(sd, effect, middle) else (middle, high)
    return high


def _is_shown(sd: float, effect: float, runs: int) -> bool:
    """Returns whether an effect gets its verdict with that chance, looked at once, at the end.

    The effect is that of the implementation that is run. The e-value allows for others as far as it does by default.
    """
    found = statistic_of(effect, sd, runs, runs, tau=TAU_SHARE * effect)
    if found is None:
        return False
    se, bar = math.sqrt(found.v), math.log(SURE)
    low, high = 0.0, effect / se
    if log_e(found) < bar:
        return False
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if log_e(found._replace(effect=middle * se)) < bar else (low, middle)
    # The non-central t statistic by its normal approximation (Johnson and Welch 1940, Biometrika 31).
    spread = math.sqrt(1.0 + high * high / (2.0 * found.nu))
    return (effect / se - high * (1.0 - 1.0 / (4.0 * found.nu))) / spread >= _Z_LIKELY


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
        SUPPORTED: "leans to help; the promise holds at every look",
        HELPS: "the promise holds at every look",
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
        count = counted(found["without_value"], "run")
        lines.append(f"{count} of the A/A test gave no value: perpetual runs shows why")
    if found["other_version"]:
        count = counted(found["other_version"], "earlier run")
        lines.append(f"{count} left out: other code, data or environment than the newest runs")
    return lines


def _noise(found: Aa) -> list[str]:
    sd, mde = found["noise_sd"], found["mde"]
    if sd is None:
        return [f"noise: {counted(found['seeds'], 'seed')} measured, and it takes two: perpetual aa"]
    if sd == 0.0:
        return ["every run measured the same: seeds make no difference here, and more runs add nothing"]
    said = f"noise {_number(sd)}{_between(found['noise_sd_low'], found['noise_sd_high'])}"
    if mde is None or found["mde_is_noise"]:
        equal, twice = runs_needed(1.0, 1.0), runs_needed(1.0, 2.0)
        return [f"{said}: an effect of that size needs {equal} runs an arm, one of twice that {twice} ({_TRIES})"]
    need, worst = (None if each is None else runs_needed(each, mde) for each in (sd, found["noise_sd_high"]))
    how_many = f"more than {_MOST_RUNS:,} runs" if need is None else counted(need, "run")
    worst_case = f", or {worst} if the noise is at its upper end" if worst is not None and worst != need else ""
    return [f"{said}: an effect of {_number(mde)} needs {how_many} an arm{worst_case} ({_TRIES})"]


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
    luck, items, metric = found["item_luck"], found["items"], found["metric"]
    if items is None:
        is_share = found["item_rate"] is not None
        return [f"if {metric} is a share of test items, --items N says what their luck is"] if is_share else []
    if luck is None:
        return [f"{metric} is no share of right answers, so --items says nothing about it"]
    said = f"{counted(items, 'item')} at a mean of {_number(found['item_rate'])}"
    return [
        f"{said}: two equally good models differ by {_number(luck)} (sd, at most) by luck of the items, and more seeds "
        "do not lessen it: take more items, or compare item by item"
    ]


def _rough(found: Aa) -> list[str]:
    largest = max((rule["runs"] for rule in found["rules"] if rule["said_improved"] is not None), default=0)
    if not largest or found["seeds"] // largest >= _FEWEST_BLOCKS:
        return []
    blocks = counted(found["seeds"] // largest, "comparison")
    return [
        f"the shares are rough: {found['seeds']} seeds hold {blocks} of {largest} runs without a run in common; "
        f"sharper: perpetual aa {found['experiment_id']} --again --runs 32"
    ]

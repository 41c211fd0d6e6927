"""The sentence that leads every verdict: what a person without statistics should know, the numbers behind it.

Pure. Imported by `judge` and by the lab.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.science.evalues import log_e
from perpetual.science.reach import runs_for, statistic_of

if TYPE_CHECKING:
    from perpetual.science.evidence import Confidence, Effect

__all__ = ["SURE", "leans", "more_runs", "sentence"]

SURE = 20.0  # e-value from which on "Helps" is said; below it leans, and where the interval holds 0
LIKELY = 0.8
MOST_MORE = 200
MOST_LABS = 10_000  # of which a false claim is said to be one: beyond, the model of the noise is less sure than that
_LARGE = 1e6
_MOST_SHORT = 20.0  # nats that an e-value may fall short of its plan; more leaves no number of runs either


def leans(status: str, bound: float | None, effect: Mapping[str, object] | None) -> bool:
    """Returns whether runs decided a claim, but not surely: more of them can make it sure.

    Their evidence is too weak for "Helps", or the interval of a supported effect holds 0.

    Args:
        status: of the hypothesis.
        bound: of a false verdict like this; None of one that no runs reached.
        effect: what has the ends of the interval.
    """
    if status not in ("supported", "refuted") or bound is None:
        return False
    return bound > 1 / SURE or (status == "supported" and effect is not None and _holds_none(effect))


def _holds_none(effect: Mapping[str, object]) -> bool:
    """Returns whether the interval, which is wider than the e-value of few runs, holds no effect."""
    low, high = effect["low"], effect["high"]
    return isinstance(low, float | int) and isinstance(high, float | int) and low <= 0 <= high


def sentence(
    found: Confidence,
    status: str,
    *,
    claim: str = "improves",
    mde: float | None = None,
    stale: str = "",
    guards: Sequence[str] = (),
) -> str:
    """Returns the verdict in one sentence.

    Args:
        found: what `perpetual.science.confidence` returned.
        status: open, supported or refuted, as it is shown.
        claim: what was tested: improves, at_least, any or value.
        mde: the smallest effect worth having.
        stale: what baseline and claim differ in, where they do.
        guards: the metrics that may not get worse.
    """
    effect = found["effect"]
    if not found["n_measured"]:
        return "Not measured yet."
    if effect is None:
        if any("seed not applied" in part["flags"] for part in found["parts"]):  # equal values count as one
            return "Undecided: the noise is not known, as all runs measured the same; do they use PERPETUAL_SEED?"
        return "Undecided: the noise is not known yet; one more run is needed."
    words, named = _of_effect(effect), " and ".join(guards)
    e = found["e_support"] if status == "supported" else found["e_refute"]
    if status == "supported":
        head = _head(claim, mde, e >= SURE and not _holds_none(effect), supported=True)
        head += f", and {named} stays within its margin" if guards else ""
        more = f"; {_more(found, status, claim, mde, guards)}" if _can_be_surer(found, claim, guards) else ""
        return f"{head}: {words}{_bound(e, 'a false claim would look this good')}{more}."
    if status == "refuted":
        what = f"a true effect of {mde:.3g}" if mde else "a true claim"
        head = _head(claim, mde, e >= SURE and bool(mde or not _holds_none(effect)), supported=False)
        if guards:  # either the metric is not better, or a guard is worse
            what, head = "a true claim", f"{'Not' if e >= SURE else 'Leans to not'} better without harm to {named}"
        return f"{head}: {words}{_bound(e, what + ' would look this bad')}."
    if stale:
        return f"Undecided, as baseline and claim ran on other {stale}: {words}."
    return f"Undecided: {words}; {_more(found, 'open', claim, mde, guards)}."


def _head(claim: str, mde: float | None, sure: bool, *, supported: bool) -> str:
    if supported:
        if claim == "any":
            return "Makes a difference" if sure else "Leans to make a difference"
        least = f" by at least {mde:.3g}" if claim == "at_least" and mde is not None else ""
        return f"Helps{least}" if sure else f"Leans to help{least}"
    if not mde:
        return "Harms" if sure else "Leans to harm"
    return f"Does not help by {mde:.3g}" if sure else f"Leans against help by {mde:.3g}"


def _of_effect(effect: Effect) -> str:
    value, low, high = effect["value"], effect["low"], effect["high"]
    about = f"about {_plain(value)} {'better' if value >= 0 else 'worse'}"
    between = "" if low is None or high is None else f", between {_signed(low)} and {_signed(high)}"
    between += " better" if between and low is not None and high is not None and low < 0 < high else ""
    runs = _counted(effect["n"])
    others = f" against {effect['n_baseline']}" if effect["n_baseline"] else ""
    return f"{about}{between}; {runs}{others}"


def _signed(value: float) -> str:
    return f"{_plain(value)} worse" if value < 0 else _plain(value)


def _plain(value: float) -> str:
    """Returns the size of a number to two digits, or to its units where it has more."""
    return f"{abs(value):.0f}" if 99.5 <= abs(value) < _LARGE else f"{abs(value):.2g}"


def _bound(e: float, what: str) -> str:
    e = min(e, MOST_LABS)
    unit = 10 ** max(math.floor(math.log10(max(e, 1.0))) - 1, 0)  # two digits, rounded so that it stays a bound
    return f"; {what} in at most 1 of {math.floor(e / unit) * unit:,} labs" if e >= 2 else ""


def _can_be_surer(found: Confidence, claim: str, guards: Sequence[str]) -> bool:
    """Returns whether it is known how many runs would make a support sure, which evidence so far is too weak for."""
    effect = found["effect"]
    return found["e_support"] < SURE and claim != "any" and not guards and effect is not None and bool(effect["sd"])


def _more(found: Confidence, status: str, claim: str, mde: float | None, guards: Sequence[str]) -> str:
    """Returns in words how many more runs like these would probably decide, or make a support sure."""
    effect = found["effect"]
    assert effect is not None
    if not effect["sd"]:  # a rate has an interval without any
        known = effect["low"] is not None
        return "more runs are needed" if known else "one more run is needed to know the noise"
    more = more_runs(found, status, claim=claim, mde=mde, guards=guards)
    to = "make it sure" if status == "supported" else "decide"
    if more is None:
        is_thin = effect["n_baseline"] and any(
            _runs(effect, gap, None, 0.0) for gap in _gaps(effect, status, claim, mde)
        )
        why = f": the baseline needs more than its {_counted(effect['n_baseline'])}" if is_thin else ""
        return f"{MOST_MORE} more runs like these would hardly {to}{why}"
    return f"{_counted(more, ' more')} like these: {LIKELY:.0%} chance to {to}"


def _counted(n: int | None, more: str = "") -> str:
    return f"{n}{more} run{'' if n == 1 else 's'}"


def more_runs(
    found: Confidence, status: str, *, claim: str = "improves", mde: float | None = None, guards: Sequence[str] = ()
) -> int | None:
    """Returns how many more runs like these would decide, or make a support sure, with a chance of 80 %.

    None where `MOST_MORE` would hardly do, where the noise is not known, and where nothing is left to decide.

    Args:
        found: what `perpetual.science.confidence` returned.
        status: open, supported or refuted, as it is shown.
        claim: what was tested: improves, at_least, any or value.
        mde: the smallest effect worth having.
        guards: the metrics that may not get worse.
    """
    effect = found["effect"]
    sd = None if effect is None else effect["sd"]
    if effect is None or not sd or status == "refuted":
        return None
    if status == "supported" and not _can_be_surer(found, claim, guards):
        return None
    counts = []
    # Where only a support can be made surer there is one gap, and the second e-value is of no use.
    for gap, e in zip(_gaps(effect, status, claim, mde), (found["e_support"], found["e_refute"]), strict=False):
        # By as much as the e-value falls short of what is planned for, it will then.
        planned = log_e(statistic_of(gap, sd, effect["n"], effect["n_baseline"], tau=effect["declared_sd"]))
        counts.append(_runs(effect, gap, effect["n_baseline"], min(max(planned - math.log(e), 0.0), _MOST_SHORT)))
    options = [runs for runs in counts if runs is not None]
    return max(min(options) - effect["n"], 1) if options else None


def _gaps(effect: Effect, status: str, claim: str, mde: float | None) -> list[float]:
    """Returns how far the effect is above the bound that supports, and of an open claim below that which refutes."""
    null = mde if claim == "at_least" and mde is not None else 0.0
    return [effect["value"] - null, *([(mde or 0.0) - effect["value"]] if status == "open" else [])]


def _runs(effect: Effect, gap: float, n_baseline: int | None, short: float) -> int | None:
    threshold, tau, most = SURE * math.exp(short), effect["declared_sd"], effect["n"] + MOST_MORE
    return runs_for(gap, effect["sd"] or 0.0, n_baseline, threshold, tau=tau, most=most)

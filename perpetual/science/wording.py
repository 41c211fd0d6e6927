"""The sentence that leads every verdict: what a person without statistics should know, the numbers behind it.

Pure. Imported by `judge` and by the lab.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.science.planning import runs_for

if TYPE_CHECKING:
    from perpetual.science.evidence import Confidence, Effect

__all__ = ["SURE", "sentence"]

SURE = 20.0  # e-value from which on "Helps" is said; below it leans
LIKELY = 0.8
MOST_MORE = 200
_LARGE = 1e6


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
        return "Undecided: the noise is not known yet; one more run is needed."
    words, named = _of_effect(effect), " and ".join(guards)
    e = found["e_support"] if status == "supported" else found["e_refute"]
    if status == "supported":
        head = _head(claim, mde, e, supported=True) + (f", and {named} stays within its margin" if guards else "")
        return f"{head}: {words}{_bound(e, 'a false claim would look this good')}"
    if status == "refuted":
        what = f"a true effect of {mde:.3g}" if mde else "a true claim"
        head = _head(claim, mde, e, supported=False)
        if guards:  # either the metric is not better, or a guard is worse
            what, head = "a true claim", f"{'Not' if e >= SURE else 'Leans to not'} better without harm to {named}"
        return f"{head}: {words}{_bound(e, what + ' would look this bad')}"
    if stale:
        return f"Undecided, as baseline and claim ran on other {stale}: {words}."
    return f"Undecided: {words}; {_more(effect, claim, mde)}."


def _head(claim: str, mde: float | None, e: float, *, supported: bool) -> str:
    sure = e >= SURE
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
    runs = f"{effect['n']} run{'' if effect['n'] == 1 else 's'}"
    others = f" against {effect['n_baseline']}" if effect["n_baseline"] else ""
    return f"{about}{between}; {runs}{others}"


def _signed(value: float) -> str:
    return f"{_plain(value)} worse" if value < 0 else _plain(value)


def _plain(value: float) -> str:
    """Returns the size of a number to two digits, or to its units where it has more."""
    return f"{abs(value):.0f}" if 99.5 <= abs(value) < _LARGE else f"{abs(value):.2g}"


def _bound(e: float, what: str) -> str:
    return f"; {what} in at most 1 of {math.floor(e)} labs." if e >= 2 else "."


def _more(effect: Effect, claim: str, mde: float | None) -> str:
    """Returns how many more runs like these would probably decide."""
    sd = effect["sd"]
    if not sd:  # a rate has an interval without any
        known = effect["low"] is not None
        return "more runs are needed" if known else "one more run is needed to know the noise"
    null = mde if claim == "at_least" and mde is not None else 0.0
    for_it = effect["value"] - null
    against_it = (mde or 0.0) - effect["value"]
    found = [
        runs_for(gap, sd, effect["n_baseline"], SURE, tau=effect["declared_sd"], most=effect["n"] + MOST_MORE)
        for gap in (for_it, against_it)
    ]
    options = [runs for runs in found if runs is not None]
    if not options:
        return f"{MOST_MORE} more runs like these would hardly decide"
    more = max(min(options) - effect["n"], 1)
    return f"{more} more run{'' if more == 1 else 's'} like these: {LIKELY:.0%} chance to decide"

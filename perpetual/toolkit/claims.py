"""What a claim says and what is weighed for it, in words that hold.

The test weighs an effect of the size of the mde against none. It does not show that an effect is at least as large,
so no sentence here says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perpetual.toolkit.units import shown_number

__all__ = ["MEANING", "claim_in_words", "effect_in_words", "effect_word"]

_WORDS = {"max": "higher", "min": "lower"}
MEANING = (
    "Supported means that an effect of the size that was weighed fits what was measured better than no effect does, "
    "and refuted that no effect fits better; the interval says how large the effect is, positive where it is better."
)


def effect_word(value: float, low: float | None, high: float | None, direction: str | None) -> str:
    """Returns which way an effect goes, where its interval excludes none; without an interval, where its value goes."""
    if low is not None and high is not None and low <= 0 <= high:
        return "not separable from none"
    if value == 0:
        return "no change"
    if direction not in _WORDS:
        return "different"
    return "better" if value > 0 else "worse"


def effect_in_words(effect: Mapping[str, Any], direction: str | None) -> str:
    """Returns a hypothesis' effect on one line: the size, its 95 % interval, and the runs that it rests on."""
    value, low, high = effect["value"], effect["low"], effect["high"]
    interval = "" if low is None else f" ({shown_number(low, '+.3g')} to {shown_number(high, '+.3g')})"
    against = f"{effect['n_baseline']} of {effect['baseline']}" if effect["n_baseline"] else f"{effect['baseline']:g}"
    runs = "1 run" if effect["n"] == 1 else f"{effect['n']} runs"
    size = f"an effect of {shown_number(value, '+.3g')} {effect['metric']}{interval}"
    return f"{size}, {effect_word(value, low, high, direction)}; {runs} against {against}"


def claim_in_words(
    metric: str,
    direction: str | None,
    baseline: float | str | None,
    mde: float | None,
    *,
    claim: str | None = "at_least",
    kind: str = "gaussian",
) -> str:
    """Returns the claim, and after a semicolon what is weighed for it."""
    word = _WORDS.get(direction or "", "other")
    against = "" if baseline is None else f" than {baseline if isinstance(baseline, str) else f'{baseline:g}'}"
    name = f"rate of {metric}" if kind == "binary" else metric
    said = f"{name} {word}{against}"
    if claim == "any":
        return f"{said}, by any amount"
    if mde is None:
        return said
    if kind == "binary" and isinstance(baseline, float | int):
        expected = baseline + mde if direction == "max" else baseline - mde
        return f"{said}; weighed: {shown_number(expected)} against {shown_number(float(baseline))}"
    size = "exactly " if claim == "value" else ""
    return f"{said}; weighed: an effect of {size}{mde:g} against none"

"""Words of a claim, and of the evidence that is weighed for it.

`improves` is tested against no effect and planned for the mde: a support does not show that the effect is as large, so
no sentence here says so. `at_least` is tested against an effect of the mde.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.toolkit.units import shown_number

if TYPE_CHECKING:
    from perpetual.documents.ledger import Effect

__all__ = ["WORDS", "claim_in_words", "effect_in_words", "effect_word", "short_effect"]

_WAYS = {"max": "higher", "min": "lower"}
# Every face explains these words of its answers with these lines; docs/concepts.md has them too.
WORDS = {
    "supported": "the runs show an effect; with the claim `improves` it need not be as large as planned for",
    "refuted": "the runs speak against an effect as large as was planned for, or against any if none was planned",
    "confidence": "how likely the claim is, from 0 to 1, by prior and evidence",
    "effect": "the change against the baseline; positive is better",
    "interval": "the effects that the runs agree with: right in 95 of 100 labs, however often one looks",
    "shrunk": "the effect drawn towards none: one that is stopped because it looks good is overstated",
    "evidence": "rows that are only added: one for each run that counts, each opinion",
    "false-alarm bound": "if the verdict were wrong, evidence this strong would come up at most this often",
}


def effect_word(
    value: float, low: float | None, high: float | None, direction: str | None, status: str | None = None
) -> str:
    """Returns which way an effect goes, where its interval excludes zero; without an interval nothing says it.

    Args:
        status: that of the hypothesis, where it is shown beside: what decided it leans, also if zero is not excluded.
    """
    if low is None or high is None:
        return "no interval yet"
    if low <= 0 <= high:
        if direction in _WAYS and (status, value > 0) in (("supported", True), ("refuted", False)):
            return f"leans {'better' if value > 0 else 'worse'}"
        return "not separable from zero"
    if direction not in _WAYS:
        return "different"
    return "better" if value > 0 else "worse"


def effect_in_words(effect: Effect, direction: str | None, status: str | None = None) -> str:
    """Returns a hypothesis' effect on one line: size, way, 95 % interval, and the runs that it rests on."""
    value, low, high = effect["value"], effect["low"], effect["high"]
    interval = (
        "" if low is None or high is None else f", interval {shown_number(low, '+.3g')} to {shown_number(high, '+.3g')}"
    )
    against = f"{effect['n_baseline']} of {effect['baseline']}" if effect["n_baseline"] else f"{effect['baseline']:g}"
    runs = "1 run" if effect["n"] == 1 else f"{effect['n']} runs"
    whole = effect["how"].rpartition("; ")[2]
    runs += f" of {whole}" if whole.endswith(" designs as one arm") else ""
    size = f"{shown_number(value, '+.3g')} {effect['metric']} ({effect_word(value, low, high, direction, status)})"
    small = effect.get("shrunk")
    drawn = "" if small is None else f", {shown_number(small, '+.3g')} shrunk"
    return f"{size}{interval}{drawn}; {runs} against {against}"


def short_effect(effect: Effect | None) -> str:
    """Returns an effect for a table: its value with its interval, and the runs of both arms; empty without one."""
    if effect is None:
        return ""
    low, high = effect["low"], effect["high"]
    interval = "" if low is None or high is None else f" ({low:.2g} to {high:.2g})"
    others = f" v {effect['n_baseline']}" if effect["n_baseline"] else ""
    return f"{effect['value']:+.2g}{interval}, {effect['n']}{others}"


def claim_in_words(
    metric: str,
    direction: str | None,
    baseline: float | str | None,
    mde: float | None,
    *,
    claim: str | None = "improves",
    kind: str = "gaussian",
    null_effect: float | None = None,
) -> str:
    """Returns what the claim predicts."""
    way = _WAYS.get(direction or "", "higher or lower")
    against = "" if baseline is None else f" than {baseline if isinstance(baseline, str) else f'{baseline:g}'}"
    name = f"rate of {metric}" if kind == "binary" else metric
    if claim == "any" or mde is None:
        return f"{name} {way}{against}" + (", by any amount" if claim == "any" else "")
    if null_effect is not None:
        return f"{name} more than {null_effect:g} {way}{against}"
    if claim == "value":
        return f"{name} exactly {mde:g} {way}{against}"
    return f"{name} {way}{against} (planned for {mde:g}, the smallest effect worth having)"

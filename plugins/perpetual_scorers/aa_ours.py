"""The lab's own rule, asked what it would have said after each run of an A/A test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual_scorers.aa_rules import Ask

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["HELPS", "SUPPORTED", "our_rule", "thresholds"]

SUPPORTED, HELPS = "perpetual_supported", "perpetual_helps"
_STRONG = 20.0  # the e-value from which a verdict says "helps"
_CONFIG = {
    "support": "confidence_support_threshold",
    "refute": "confidence_refute_threshold",
    "alpha": "alpha",
    "min_replicates": "min_replicates",
}

_Look = tuple[Sequence[float], Sequence[float]]


def thresholds(lab: Lab) -> dict[str, object]:
    """Returns the project's thresholds as `perpetual.science.judge` takes them."""
    return {name: lab.config.methodology[key] for name, key in _CONFIG.items()}


def our_rule(config: Mapping[str, object], *, kind: str, mde: float, items: int | None) -> Ask:
    """Returns the rule under these thresholds: what it says of a claim that an idea improves by `mde`.

    Its promise at a prior of one half: a claim that is false is ever supported with a chance of at most the odds
    against the threshold, and ever has an e-value of 20 with a chance of at most 1 in 20.
    """
    threshold = config["support"]
    assert isinstance(threshold, float)
    claim = {"metric": "m", "direction": "max", "kind": kind, "claim": "improves", "mde": mde, "noise": None,
             "tau": None, "paired": False, "items": items, "prior": 0.5, "opinions": [], "changes": []}  # fmt: skip

    def verdicts(looks: Sequence[_Look]) -> list[Mapping[str, bool]]:
        from perpetual.science.judge import judge_many

        asked = [[claim, _runs(baseline, 0), _runs(runs, 1), config] for baseline, runs in looks]
        return [_words(answer) for answer in judge_many(asked)]

    return Ask({SUPPORTED: (1.0 - threshold) / threshold, HELPS: 1.0 / _STRONG}, verdicts)


def _runs(values: Sequence[float], place: int) -> list[dict[str, object]]:
    """Returns an arm's runs, launched in turn with the other arm's: at every second place from `place` on."""
    return [
        {"seed": 2 * n + place, "value": value, "status": "done", "by": None, "order": 2 * n + place, "code": None,
         "items": None, "last_value": None}
        for n, value in enumerate(values)
    ]  # fmt: skip


def _words(answer: Mapping[str, object]) -> Mapping[str, bool]:
    e_value = answer.get("e_support")
    is_supported = answer.get("status") == "supported"
    return {SUPPORTED: is_supported, HELPS: is_supported and isinstance(e_value, float) and e_value >= _STRONG}

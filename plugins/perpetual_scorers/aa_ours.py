"""The lab's own rule, asked what it would have said after each run of an A/A test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError
from perpetual.science.wording import SURE
from perpetual_scorers.aa_rules import Ask
from perpetual_scorers.aa_splits import Look

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["HELPS", "SUPPORTED", "our_rule", "thresholds"]

SUPPORTED, HELPS = "perpetual_supported", "perpetual_helps"
_CONFIG = {
    "support": "confidence_support_threshold",
    "refute": "confidence_refute_threshold",
    "alpha": "alpha",
    "min_replicates": "min_replicates",
}


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

    def verdicts(looks: Sequence[Look]) -> list[Mapping[str, bool]]:
        from perpetual.science import judge_many

        asked = [[claim, *_arms(look), config] for look in looks]
        return [_words(answer) for answer in judge_many(asked)]

    return Ask({SUPPORTED: (1.0 - threshold) / threshold, HELPS: 1.0 / SURE}, verdicts)


def _arms(look: Look) -> list[list[dict[str, object]]]:
    """Returns the runs of baseline and treatment, on seeds of their own, with their places in the order of launches."""
    if look.is_in_turn:
        return [_runs(look.baseline, 0, 2), _runs(look.treatment, 1, 2)]
    return [_runs(look.baseline, 0, 1), _runs(look.treatment, len(look.baseline), 1)]


def _runs(values: Sequence[float], first: int, step: int) -> list[dict[str, object]]:
    return [
        {"seed": place, "value": value, "status": "done", "by": None, "order": place, "code": None, "items": None,
         "last_value": None}
        for place, value in zip(range(first, first + step * len(values), step), values, strict=True)
    ]  # fmt: skip


def _words(answer: Mapping[str, object]) -> Mapping[str, bool]:
    if "error" in answer:
        raise PerpetualError(f"the rule refused a comparison: {answer['error']}", code="not_judged")
    e_value = answer["e_support"]
    is_supported = answer["status"] == "supported"
    return {SUPPORTED: is_supported, HELPS: is_supported and isinstance(e_value, float | int) and e_value >= SURE}

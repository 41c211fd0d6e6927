"""The calibration board: how declared priors, costs and effects fared against what was measured, by proposer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.api import NotFound
from perpetual_autonomy.figures import bins, brier, median_interval
from perpetual_autonomy.history import History

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Hypothesis
    from perpetual_autonomy.documents import Board, Calibration, Costs, Predictions, Priors, ReliabilityBin

__all__ = ["FEWEST", "NOTES", "calibration", "priors_of"]

FEWEST = 10  # nothing is said of less
_MOST = 50  # proposers of one answer
_EARLY = ("failed", "killed", "timeout")
_OVER = ("done", "lost", *_EARLY)
NOTES = (
    "A verdict is this lab's, by its own rule, and not the truth. It starts from the prior: a bold prior is decided "
    "sooner, though never against the evidence.",
    "Only decided claims count, and which claims come to be decided is no random choice.",
    "The base rate is known only afterwards, so it is a hard reference. The claims of a project may depend on each "
    "other, and the intervals take them as independent.",
)


def calibration(lab: Lab, *, proposer: str | None = None) -> Calibration:
    """Returns the board: of one proposer, or of every one, those with most experiments and claims first."""
    history = History()
    history.read(lab)
    counts: dict[str, int] = {}
    for stated in history.priors.values():
        counts[stated.actor] = counts.get(stated.actor, 0) + 1
    experiments = [*lab.experiments.all()]
    for item in experiments:
        counts[item.proposed_by] = counts.get(item.proposed_by, 0) + 1
    names = sorted(counts, key=lambda name: (-counts[name], name))
    if proposer is not None:
        names = [name for name in names if name == proposer]
    found: list[Board] = []
    for name in names[:_MOST]:
        own = [item for item in experiments if item.proposed_by == name]
        found.append({"proposer": name, "priors": priors_of(lab, history, name), "costs": _costs(lab, own),
                      "predictions": _predictions(lab, own)})  # fmt: skip
    return {"proposers": found, "total": len(names), "notes": [*NOTES]}


def _few(n: int, what: str) -> str | None:
    return None if n >= FEWEST else f"{n} {what}, and nothing is said of fewer than {FEWEST}"


def priors_of(lab: Lab, history: History, proposer: str) -> Priors:
    """Returns how the priors fared that a proposer declared before the first evidence."""
    stated: list[float] = []
    came: list[bool] = []
    counts = dict.fromkeys(("open", "parked", "by_hand", "reopened", "not_declared", "unknown"), 0)
    for id, said in history.priors.items():
        claim = _claim(lab, id) if said.actor == proposer else None
        if claim is None:
            continue
        if not said.declared:
            counts["unknown" if said.declared is None else "not_declared"] += 1
        elif claim.status in ("open", "parked"):
            counts[claim.status] += 1
            counts["reopened"] += id in history.reopened
        elif claim.decided_by != "evidence":
            counts["by_hand"] += 1
        else:
            stated.append(said.prior)
            came.append(claim.status == "supported")
    why = _few(len(stated), "decided claims with a declared prior")
    score = brier(stated, came) if why is None else None
    shown: list[ReliabilityBin] = [
        {"from_prior": one.low_edge, "to_prior": one.high_edge, "n": one.n, "supported": one.happened,
         "stated": one.stated, "share": one.happened / one.n, "low": one.low, "high": one.high}
        for one in (bins(stated, came) if why is None else ())
    ]  # fmt: skip
    return {
        "decided": len(stated), "supported": sum(came),
        "brier": None if score is None else {"score": score.score, "base_rate": score.base_rate, "even": score.even},
        "bins": shown, "why": why, "open": counts["open"], "parked": counts["parked"], "by_hand": counts["by_hand"],
        "reopened": counts["reopened"], "not_declared": counts["not_declared"], "unknown": counts["unknown"],
    }  # fmt: skip


def _claim(lab: Lab, id: str) -> Hypothesis | None:
    try:
        return lab.hypotheses.get(id)
    except NotFound:  # it was taken back
        return None


def _costs(lab: Lab, experiments: Sequence[Experiment]) -> Costs:
    ratios: list[float] = []
    runs = above = censored = censored_above = lost = not_declared = 0
    for item in experiments:
        cost, own = item.design.cost_run_hours, list[float]()
        is_here = item.approved_by is not None and item.runs  # adopted work ran elsewhere
        ended = [run for run in lab.runs.all(experiment_id=item.id) if run.status in _OVER] if is_here else []
        if not cost:
            not_declared += bool(ended)
            continue
        for run in ended:
            hours = run.run_hours
            if run.status == "lost" or hours is None:
                lost += 1
            elif run.status in _EARLY:
                censored += 1
                censored_above += hours > cost
            else:
                own.append(hours / cost)
        runs += len(own)
        above += sum(ratio > 1 for ratio in own)
        ratios += [math.fsum(own) / len(own)] if own else []
    why = _few(len(ratios), "experiments with a declared cost and a run that was done")
    median, interval = median_interval(ratios) if why is None else (None, None)
    low, high = interval or (None, None)
    return {
        "experiments": len(ratios), "runs": runs, "median_ratio": median, "low": low, "high": high,
        "runs_above": above, "share_above": above / runs if why is None else None, "censored": censored,
        "censored_above": censored_above, "lost": lost, "not_declared": not_declared, "why": why,
    }  # fmt: skip


def _predictions(lab: Lab, experiments: Sequence[Experiment]) -> Predictions:
    """Returns how claims of an effect of a certain size fared: an mde alone is a threshold, and no prediction."""
    declared, covered, ratios = 0, 0, []
    seen: set[str] = set()
    for item in experiments:
        claim, mde = item.hypothesis_id, item.design.mde
        if item.design.claim != "value" or not mde or claim is None or claim in seen or not item.runs:
            continue
        seen.add(claim)
        declared += 1
        found = _claim(lab, claim)
        effect = None if found is None else found.effect
        if effect is not None and effect.get("low") is not None and effect.get("high") is not None:
            covered += effect["low"] <= mde <= effect["high"]
            ratios.append(effect["value"] / mde)
    why = "no claim says how large its effect is (--claim value)" if not declared else _few(len(ratios), "such effects")
    median, interval = median_interval(ratios) if why is None else (None, None)
    low, high = interval or (None, None)
    return {"declared": declared, "measured": len(ratios), "covered": covered if why is None else None,
            "median_ratio": median, "low": low, "high": high, "why": why}  # fmt: skip

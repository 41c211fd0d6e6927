"""The pricer `replay`: what the pairs of a trial measured, for the tokens that the note took in its contexts."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from perpetual_recall.price import Price, Pricer, Prices

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_replay.trials import Trials

__all__ = ["ReplayPricer", "build"]


class ReplayPricer(Pricer):
    """Prices by the newest trial of each version.

    None is priced by tasks that reward any note, as their canary has shown, nor one that no context had room for.
    """

    def prices(self, lab: Lab, paths: Collection[str] | None = None) -> Prices:
        """Returns the prices, from the records of trials alone."""
        from perpetual_replay.trials import Trials

        trials = Trials(lab)
        found = {version: _price(trials, trial) for version, trial in trials.tested(paths).items()}
        return {version: price for version, price in found.items() if price is not None}


def _price(trials: Trials, trial: Record) -> Price | None:
    from perpetual_replay.evalues import interval

    tokens = _tokens(trial)
    differences = trials.differences(trial)
    if not tokens or not differences or trials.failed_canary(trial):
        return None
    # Pairs that no single mean fits leave nothing out.
    low, high = interval(differences) or (-1.0, 1.0)
    return Price(math.fsum(differences) / len(differences), low, high, len(differences), tokens)


def _tokens(trial: Record) -> float:
    """Returns the note's tokens in the mean over the tasks, by the weights by which pairs draw them.

    They are known, not measured: so the interval for 1,000 tokens is that of the uplift, scaled.
    """
    tasks: list[Mapping[str, float]] = trial["tasks"]
    return math.fsum(one["weight"] * one.get("tokens", 0) for one in tasks) / math.fsum(one["weight"] for one in tasks)


def build(options: Mapping[str, object]) -> ReplayPricer:
    """Returns the pricer."""
    return ReplayPricer()

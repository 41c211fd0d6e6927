"""What the newest experiments teach of the next ones: how much luck a seed's runs share, and how far stand-ins are off.

It says what runs are worth, and no evidence: a verdict is weighed with and without pairs, whatever is learned here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.lab.context import Context
from perpetual.lab.evidence.stale import baseline_of, baseline_values
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, RunRow
from perpetual.lab.proposals import Proposals
from perpetual.science.evalues import arm
from perpetual.science.prospects import StandIn, seed_correlation, stand_in

if TYPE_CHECKING:
    from perpetual.documents.scorer import CandidateState
    from perpetual.lab.bodies import DraftBody, ExperimentBody

__all__ = ["Learned", "candidate_of"]

_NEWEST = 200  # experiments that are looked at: the cost of a proposal must not grow with the record


class _Measured(NamedTuple):
    """One claim's runs and those of its baseline, oriented: bigger is better."""

    own: list[float]
    base: list[float]
    pairs: list[tuple[float, float]]

    def effect(self) -> tuple[float, float] | None:
        """Returns the effect and the variance that noise gives it; None before two runs of each arm."""
        if min(len(self.own), len(self.base)) < 2:
            return None
        own, base = arm(self.own), arm(self.base)
        noise = (own.ss + base.ss) / (own.n + base.n - 2)
        return own.mean - base.mean, noise * (1 / own.n + 1 / base.n)


class Learned:
    """Read anew where the record has grown."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._at = ctx, -1
        self._pairs: dict[tuple[str, str], list[list[tuple[float, float]]]] = {}
        self._gaps: dict[str, list[tuple[float, float, float]]] = {}

    def correlation(self, baseline_id: str, metric: str) -> float:
        """Returns the correlation of the runs of a seed, by all claims on this baseline; 0 where none is known."""
        self._read()
        return seed_correlation(self._pairs.get((baseline_id, metric), ())) or 0.0

    def stand_in(self, metric: str) -> StandIn | None:
        """Returns how far stand-ins were off in this metric; None before three were compared with their originals."""
        self._read()
        return stand_in(self._gaps.get(metric, ()))

    def _read(self) -> None:
        at = self._ctx.store.count("event")
        if at == self._at:
            return
        self._at, self._pairs, self._gaps = at, {}, {}
        for item in self._ctx.store.page(EXPERIMENT, limit=_NEWEST, newest_first=True).items:
            design, metric = item.body["design"], item.body["design"]["metric"]
            if metric is None or design["claim"] is None or design["kind"] == "binary":
                continue
            found = self._measured(item)
            if design["paired"] and isinstance(design["baseline"], str):
                self._pairs.setdefault((design["baseline"], metric), []).append(found.pairs)
            for gap in self._gap(item, found):
                self._gaps.setdefault(metric, []).append(gap)

    def _gap(self, item: ExperimentRow, found: _Measured) -> Iterator[tuple[float, float, float]]:
        """Yields the effects of a stand-in and of its original, and the variance of their difference."""
        original = item.body["design"].get("proxy_of")
        origin = None if original is None else self._ctx.store.get(EXPERIMENT, original)
        if origin is None or origin.body["design"]["metric"] != item.body["design"]["metric"]:
            return
        cheap, full = found.effect(), self._measured(origin).effect()
        if cheap is not None and full is not None:
            yield cheap[0], full[0], cheap[1] + full[1]

    def _measured(self, item: ExperimentRow) -> _Measured:
        design = item.body["design"]
        metric, sign = design["metric"] or "", -1.0 if design["direction"] == "min" else 1.0

        def values(runs: Sequence[RunRow]) -> dict[object, float]:
            ended = ((run, run.body["metrics"].get(metric)) for run in runs if run.body["status"] == "done")
            return {run.body["seed"] or run.id: sign * value for run, value in ended if value is not None}

        own = values([*self._ctx.store.find(RUN, experiment_id=item.id)])
        base = values(baseline_of(self._ctx, design)[1])
        return _Measured([*own.values()], [*base.values()], [(own[seed], base[seed]) for seed in own if seed in base])


def candidate_of(
    ctx: Context, id: str, experiment: ExperimentBody | DraftBody, runs: Sequence[RunRow]
) -> CandidateState | None:
    """Returns one more replicate of an experiment as a scorer sees it, with what was learned; see `Proposals`."""
    design = experiment["design"]
    candidate = ctx.cached(Proposals).candidate(id, experiment, runs, baseline_values(ctx, design))
    if candidate is None or "model" in candidate or (metric := design["metric"]) is None:
        return candidate
    learned = ctx.cached(Learned)
    if "baseline_id" in candidate and design["paired"]:
        candidate["rho"] = learned.correlation(candidate["baseline_id"], metric)
    if design.get("proxy_of"):
        candidate["proxy"] = True
        if (known := learned.stand_in(metric)) is not None:
            candidate["tau"], candidate["bias"] = known.tau, known.bias
    return candidate

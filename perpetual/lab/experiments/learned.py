"""What the newest experiments teach of the next ones: how much luck a seed's runs share, and how far stand-ins are off.

It says what runs are worth, and no evidence: a verdict is weighed with and without pairs, whatever is learned here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.lab.context import Context
from perpetual.lab.evidence.early import stopped_runs
from perpetual.lab.evidence.stale import baseline_of, baseline_values, parts_of
from perpetual.lab.experiments.feasibility import planner_of
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, RunRow
from perpetual.lab.proposals import Proposals

if TYPE_CHECKING:
    from perpetual.documents.scorer import CandidateState
    from perpetual.lab.bodies import DraftBody, ExperimentBody
    from perpetual.science.planner import StandInGap

__all__ = ["Learned", "candidate_of"]

_NEWEST = 200  # experiments that are looked at: the cost of a proposal must not grow with the record


class _Measured(NamedTuple):
    """One claim's runs and those of its baseline by seed, oriented: bigger is better."""

    own: dict[object, float]
    base: dict[object, float]


class Learned:
    """Answers from the newest claims, read anew once the record has grown; each answer is computed when asked for."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._at = ctx, -1
        self._claims: list[ExperimentRow] = []
        self._correlations: dict[tuple[str, str], float] = {}
        self._stand_ins: dict[str, StandInGap | None] = {}

    def correlation(self, baseline_id: str, metric: str) -> float:
        """Returns the correlation of the runs of a seed, by all claims on this baseline; 0 where none is known."""
        self._refresh()
        key = baseline_id, metric
        if key not in self._correlations:
            planner = planner_of(self._ctx)
            found = [self._measured(item) for item in self._claims_in(metric) if _is_paired_with(item, baseline_id)]
            pairs = [[(own[seed], base[seed]) for seed in own if seed in base] for own, base in found]
            self._correlations[key] = (planner.seed_correlation(pairs) if planner else None) or 0.0
        return self._correlations[key]

    def stand_in(self, metric: str) -> StandInGap | None:
        """Returns how far stand-ins were off in this metric; None before three were compared with their originals."""
        self._refresh()
        if metric not in self._stand_ins:
            planner = planner_of(self._ctx)
            gaps = [gap for item in self._claims_in(metric) for gap in self._gap(item)] if planner else []
            self._stand_ins[metric] = planner.stand_in(gaps) if planner else None
        return self._stand_ins[metric]

    def _refresh(self) -> None:
        at = self._ctx.store.count("event")
        if at != self._at:
            self._at, self._correlations, self._stand_ins = at, {}, {}
            newest = self._ctx.store.page(EXPERIMENT, limit=_NEWEST, newest_first=True).items
            self._claims = [item for item in newest if item.body["design"]["claim"] is not None]

    def _claims_in(self, metric: str) -> Iterator[ExperimentRow]:
        for item in self._claims:
            if item.body["design"]["metric"] == metric and item.body["design"]["kind"] != "binary":
                yield item

    def _gap(self, item: ExperimentRow) -> Iterator[tuple[float, float, float]]:
        """Yields the effects of a stand-in and of its original, and the variance of their difference."""
        original = item.body["design"].get("proxy_of")
        origin = None if original is None else self._ctx.store.get(EXPERIMENT, original)
        if origin is None or origin.body["design"]["metric"] != item.body["design"]["metric"]:
            return
        cheap, full = (self._effect(each) for each in (item, origin))
        if cheap is not None and full is not None:
            yield cheap[0], full[0], cheap[1] + full[1]

    def _effect(self, item: ExperimentRow) -> tuple[float, float] | None:
        own, base = self._measured(item)
        planner = planner_of(self._ctx)
        return planner.measured_effect([*own.values()], [*base.values()]) if planner else None

    def _measured(self, item: ExperimentRow) -> _Measured:
        design = item.body["design"]
        metric, sign = design["metric"] or "", -1.0 if design["direction"] == "min" else 1.0

        def values(runs: Sequence[RunRow]) -> dict[object, float]:
            ended = ((run, run.body["metrics"].get(metric)) for run in runs if run.body["status"] == "done")
            return {run.body["seed"] or run.id: sign * value for run, value in ended if value is not None}

        own = values([*self._ctx.store.find(RUN, experiment_id=item.id)])
        return _Measured(own, values(baseline_of(self._ctx, design)[1]))


def _is_paired_with(item: ExperimentRow, baseline_id: str) -> bool:
    return bool(item.body["design"]["paired"]) and item.body["design"]["baseline"] == baseline_id


def candidate_of(
    ctx: Context, id: str, experiment: ExperimentBody | DraftBody, runs: Sequence[RunRow]
) -> CandidateState | None:
    """Returns one more replicate of an experiment as a scorer sees it, with what was learned; see `Proposals`."""
    design = experiment["design"]
    candidate = ctx.cached(Proposals).candidate(id, experiment, runs, baseline_values(ctx, design))
    if candidate is not None and "baseline_n" in candidate:
        candidate["baseline_n"] += len(stopped_runs(ctx, parts_of(ctx, design), design["metric"]))
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

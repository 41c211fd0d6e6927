"""`lab.proposals`: candidates as a scorer sees them, and what the chosen scorer says of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from perpetual.lab.context import Context
from perpetual.lab.kinds import HypothesisRow, RunRow
from perpetual.lab.ledger.runs import is_stopped
from perpetual.lab.methodology import KEYS
from perpetual.records import ENDED, LIVE, Score
from perpetual.science.costs import failure_probability, learned_cost
from perpetual.science.intervals import pooled_sd
from perpetual.slots.scorer import Scorer

if TYPE_CHECKING:
    from typing import TypedDict

    from perpetual.documents.scorer import CandidateState, PredictionState, ScorerState
    from perpetual.lab.bodies import DraftBody, ExperimentBody
    from perpetual.lab.kinds import ExperimentRow

    class _Price(TypedDict):
        """What one more run costs, in run-hours; see `CandidateState`."""

        cost: float
        p_fail: float
        n_pending: int


__all__ = ["Proposals"]


_DEFAULT_EFFECT = 1.0  # standard deviations: the typical size of an effect that the default test looks for


class Proposals:
    """Which replicate is worth its cost. Reads the record; changes nothing."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._scorer: Scorer | None = None

    @property
    def scorer(self) -> Scorer:
        """Returns the scorer that the methodology's `exploration_strategy` names."""
        if self._scorer is None:
            offer = self._ctx.registry.choose("scorer", self._ctx.config.methodology.scorer)
            self._scorer = self._ctx.registry.build(offer, self._ctx.options.of(offer))
        return self._scorer

    def candidate(
        self,
        id: str,
        experiment: ExperimentBody | DraftBody,
        runs: Sequence[RunRow],
        baseline: dict[int, float] | float | None,
    ) -> CandidateState | None:
        """Returns one more replicate of an experiment (stored, or a draft that has the same keys) as a scorer sees it.

        None if it makes no claim. Noise is what it seems to be: the measured one where two values or more are there
        (the experiment's own and its baseline's), else the declared one, else the mde itself.
        """
        design = experiment["design"]
        metric = design["metric"]
        if design["claim"] is None or experiment["hypothesis_id"] is None:
            return None
        values = [run.body["metrics"].get(metric) if metric else None for run in runs if run.body["status"] == "done"]
        own = [value for value in values if value is not None]
        groups = [own] + ([list(baseline.values())] if isinstance(baseline, dict) else [])
        price = self._price(experiment, runs)
        prediction = _prediction(design, baseline, pooled_sd(groups))
        candidate: CandidateState = {
            "id": id, "hypothesis_id": experiment["hypothesis_id"],
            "mu1": prediction["mu1"], "mu0": prediction["mu0"], "sigma": prediction["sigma"], "tau": prediction["tau"],
            "cost": price["cost"], "p_fail": price["p_fail"], "n_seen": len(own) + sum(map(is_stopped, runs)),
            "n_pending": price["n_pending"],
        }  # fmt: skip
        if "model" in prediction:
            candidate["model"] = prediction["model"]
            return candidate
        candidate["sigma"], candidate["s0"] = None, prediction["sigma"] or 0.0
        if isinstance(design["baseline"], str) and isinstance(baseline, dict):
            candidate["baseline_id"], candidate["baseline_n"] = design["baseline"], len(baseline)
        elif (typed := design.get("baseline_runs")) is not None:
            candidate["baseline_n"] = typed
        return candidate

    def baseline(self, id: str, experiment: ExperimentRow, runs: Sequence[RunRow]) -> CandidateState:
        """Returns one more run of a baseline as a scorer sees it that weighs them."""
        row = {"id": id, "kind": "baseline", "baseline_id": experiment.id, **self._price(experiment.body, runs)}
        return cast("CandidateState", row)

    def _price(self, experiment: ExperimentBody | DraftBody, runs: Sequence[RunRow]) -> _Price:
        """Returns what one more run costs, how likely it gives no value, and how many are on their way."""
        seen = [run for run in runs if run.body["status"] == "done"]
        crashed = sum(run.body["status"] in ENDED and not is_stopped(run) for run in runs) - len(seen)
        declared = experiment["design"]["cost_run_hours"]
        assumed = self._ctx.config.methodology["default_cost_run_hours"] if declared is None else declared
        actual = [run.body["run_hours"] for run in seen if run.body["run_hours"]]
        return {
            "cost": learned_cost(assumed, [hours / assumed for hours in actual]) if assumed > 0 else 0.0,
            "p_fail": failure_probability(crashed, crashed + len(seen)),
            "n_pending": sum(run.body["status"] in LIVE for run in runs),
        }

    def state(self, candidates: Sequence[CandidateState], hypotheses: Sequence[HypothesisRow]) -> ScorerState:
        """Returns the scorer's state: hypotheses with their confidence, the candidates, and what chance derives from.

        The seed is the same as long as nothing is proposed or launched: the same record gives the same answer.
        """
        methodology = self._ctx.config.methodology
        state: ScorerState = {
            "hypotheses": [{"id": document.id, "confidence": document.body["confidence"]} for document in hypotheses],
            "candidates": [*candidates],
            "support": methodology["confidence_support_threshold"],
            "refute": methodology["confidence_refute_threshold"],
            "min_information_gain_bits": methodology["min_information_gain_bits"],
            "seed": self._seed(),
        }
        # At their defaults they leave it to the options of the scorer.
        if (explore := methodology["explore_fraction"]) != KEYS["explore_fraction"].default:
            state["explore_fraction"] = explore
        if (exponent := methodology["cost_exponent"]) != KEYS["cost_exponent"].default:
            state["cost_exponent"] = exponent
        return state

    def _seed(self) -> int:
        store = self._ctx.store
        drawn = f"{self._ctx.config.project_id}:{store.count('experiment')}:{store.count('run')}"
        return int.from_bytes(sha256(drawn.encode()).digest()[:8], "big") >> 1

    def score(self, state: ScorerState) -> dict[str, Score]:
        """Returns the scorer's scores by candidate id."""
        scores = self.scorer.score(state)
        return {candidate["id"]: score for candidate, score in zip(state["candidates"], scores, strict=True)}

    def pick(self, state: ScorerState, k: int) -> list[str]:
        """Returns at most `k` candidate ids, best first; a repeat is one more replicate."""
        return self.scorer.pick(state, k)


def _prediction(
    design: Mapping[str, Any], baseline: dict[int, float] | float | None, spread: float | None
) -> PredictionState:
    """Returns what the design's two predictions say of one replicate, in the words of `perpetual.science.propose`."""
    if design["kind"] == "binary":
        rate = math.fsum(baseline.values()) / len(baseline) if isinstance(baseline, dict) and baseline else baseline
        rate = rate if isinstance(rate, float) else 0.5
        expected = min(max(rate + design["mde"] if design["direction"] == "max" else rate - design["mde"], 0.0), 1.0)
        return {"model": "binary", "mu1": expected, "mu0": rate, "sigma": None, "tau": 0.0}
    if design["claim"] == "any" or design["mde"] is None:
        sd = spread or design["noise"] or 1.0  # only the ratio counts: the scale of the default test's own prior
        return {"mu1": _DEFAULT_EFFECT * sd, "mu0": 0.0, "sigma": sd, "tau": 0.0}
    sd = spread or design["noise"] or design["mde"]
    # A claim of more than the mde is planned for twice it: an effect of the mde itself is what it is tested against.
    null = design.get("null_effect") or 0.0
    return {"mu1": null + design["mde"], "mu0": null, "sigma": sd, "tau": design["tau"]}

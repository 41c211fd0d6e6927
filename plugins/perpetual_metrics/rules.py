"""Rule-based proposers beside the grid: a noise floor for baselines, cheap stand-ins, and what they still owe.

They need no model and no state: what was proposed already stands among the experiments that they are given. Only the
factories are imported from outside, by the kernel.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from perpetual.api import Draft, Experiment, Hypothesis, Proposer
from perpetual_metrics.proposer import TURNED_DOWN

__all__ = ["full_scale", "noise_floor", "proxies"]

_FLOOR_RUNS = 4  # three degrees of freedom: from there on the measured noise replaces a declared guess


def _claims(hypothesis: Hypothesis, experiments: Iterable[Experiment]) -> list[Experiment]:
    return [
        item
        for item in experiments
        if item.hypothesis_id == hypothesis.id
        and item.design.claim is not None
        and item.command is not None
        and item.status not in TURNED_DOWN
    ]


def _likeness(item: Experiment) -> tuple[object, ...]:
    """Returns what replicates of one baseline have in common."""
    return item.command, item.cwd, item.env, item.config, item.design.metric, item.design.claim


def _was_rejected(origin: Experiment, experiments: Iterable[Experiment]) -> bool:
    """Returns whether a person has rejected more runs of an experiment: they are not proposed again."""
    root = origin.extends or origin.id
    return any(item.extends == root and item.status == "rejected" for item in experiments)


class NoiseFloor(Proposer):
    """More runs of a baseline that too few runs stand behind; see `perpetual.slots.analyser` for the contract.

    A baseline needs a noise floor, and as many runs as the open claim with most of them that is compared with it: its
    error is soon all that is left of that claim's, and seeds are shared by pairs. Whether further ones are worth their
    price is the scorer's question.
    """

    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        """Returns one draft for each baseline of an open claim that ended with fewer runs than that."""
        known = {item.id: item for item in experiments}
        opened = {hypothesis.id for hypothesis in hypotheses}
        owners: dict[str, str] = {}
        most: dict[str, int] = {}
        for hypothesis in hypotheses:
            for claim in _claims(hypothesis, experiments):
                baseline = known.get(claim.design.baseline) if isinstance(claim.design.baseline, str) else None
                if baseline is None:
                    continue
                # Another claim's experiment may be the baseline: its further runs are that claim's, if it is open.
                owners.setdefault(baseline.id, baseline.hypothesis_id or hypothesis.id)
                measured = sum(item.runs.get("done", 0) for item in experiments if _likeness(item) == _likeness(claim))
                most[baseline.id] = max(most.get(baseline.id, _FLOOR_RUNS), measured)
        found = []
        for id, owner in owners.items():
            baseline = known[id]
            alike = [item for item in experiments if _likeness(item) == _likeness(baseline)]
            if owner not in opened or _was_rejected(baseline, alike):
                continue
            runs = sum(item.design.replicates for item in alike if item.status not in TURNED_DOWN)
            if baseline.status in ("complete", "analysed") and baseline.command is not None and runs < most[id]:
                needs = f"a noise floor needs {_FLOOR_RUNS}" if runs < _FLOOR_RUNS else f"a claim has {most[id]}"
                arguments = {"extends": id, "replicates": most[id] - runs}
                found.append(Draft(owner, arguments, f"{id} has {runs} runs, and {needs}"))
        return found


class Proxies(Proposer):
    """The declared cheap stand-in of a claim, after that of its baseline: like is compared with like."""

    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        """Returns one draft for each claim whose proxy was not proposed; its baseline's comes first."""
        known = {item.id: item for item in experiments}
        standing = {
            (item.design.proxy_of, item.command): item for item in experiments if item.design.proxy_of is not None
        }
        found = []
        for hypothesis in hypotheses:
            for claim in _claims(hypothesis, experiments):
                proxy = claim.design.proxy
                baseline = known.get(claim.design.baseline) if isinstance(claim.design.baseline, str) else None
                if proxy is None or baseline is None or baseline.command is None:
                    continue
                args, cost = proxy["args"], proxy["cost_run_hours"]
                below = standing.get((baseline.id, _with(baseline.command, args)))
                if below is None:
                    found.append(
                        _stand_in(hypothesis, baseline, args, cost, {"metric": claim.design.metric, "claim": "none"})
                    )
                elif below.status not in TURNED_DOWN and (claim.id, _with(claim.command, args)) not in standing:
                    found.append(_stand_in(hypothesis, claim, args, cost, _prediction(claim, proxy["tau"], below.id)))
        return found


class FullScale(Proposer):
    """For a hypothesis past a threshold on stand-ins only: the experiment that they stand in for."""

    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        """Returns more runs of an experiment that had proxies, where its own runs have ended without a decision."""
        found = []
        for hypothesis in hypotheses:
            if hypothesis.needs != "full_scale":
                continue
            claims = _claims(hypothesis, experiments)
            origins = {item.design.proxy_of for item in claims if item.design.proxy_of}
            waiting = any(
                item.status in ("proposed", "approved", "active") and not item.design.proxy_of for item in claims
            )
            ended = [item for item in claims if item.id in origins and item.status in ("complete", "analysed")]
            if ended and not waiting and not _was_rejected(ended[0], experiments):
                reason = f"only stand-ins speak for {hypothesis.id} so far"
                found.append(Draft(hypothesis.id, {"extends": ended[0].id, "replicates": 1}, reason))
        return found


def _with(command: str | None, more: str) -> str:
    return f"{command} {more}"


def _stand_in(
    hypothesis: Hypothesis, origin: Experiment, args: str, cost_run_hours: float | None, design: Mapping[str, object]
) -> Draft:
    command = _with(origin.command, args)
    arguments = {
        "command": command,
        "cwd": origin.cwd,
        "env": origin.env,
        "config": origin.config,
        "replicates": origin.design.replicates,
        "cost_run_hours": cost_run_hours or None,
        "gpus": origin.resources.gpus,
        "gpu_memory_bytes": origin.resources.gpu_memory_bytes,
        "cpus": origin.resources.cpus,
        "memory_bytes": origin.resources.memory_bytes,
        "nodes": origin.resources.nodes,
        "scheduler": origin.resources.scheduler,
        "engine": origin.resources.engine,
        "proxy_of": origin.id,
        "title": f"stand-in for {origin.id}: {' '.join(shlex.split(args))}"[:120],
        **design,
    }
    return Draft(hypothesis.id, arguments, f"a cheaper look at {origin.id} first")


def _prediction(claim: Experiment, tau: float | None, baseline_id: str) -> dict[str, object]:
    design = claim.design
    return {
        "metric": design.metric,
        "direction": design.direction,
        "mde": design.mde,
        "claim": design.claim,
        "noise": design.noise,
        "items": design.items,
        "tau": tau,
        "baseline": baseline_id,
    }


def noise_floor(options: Mapping[str, object]) -> NoiseFloor:
    """Builds the provider `noise-floor`."""
    return NoiseFloor()


def proxies(options: Mapping[str, object]) -> Proxies:
    """Builds the provider `proxies`."""
    return Proxies()


def full_scale(options: Mapping[str, object]) -> FullScale:
    """Builds the provider `full-scale`."""
    return FullScale()

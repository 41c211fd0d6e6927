"""Proposing: a specification is checked, compared with what was tried before, scored, and written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perpetual.errors import Conflict, UsageError, nearest
from perpetual.lab.experiments import argv_of, spec_hash
from perpetual.lab.flows import Desks
from perpetual.lab.flows.fold import baseline_values
from perpetual.lab.hypotheses import baseline_value, check_direction, check_metric, tags_of
from perpetual.records import Design, Experiment, Resources, Score, from_json, to_json
from perpetual.slots.store import Document, json_copy
from perpetual.toolkit.units import LONGEST_S, finite

__all__ = ["propose", "scored"]

_TAU_SHARE = 0.25  # of the mde: how much two implementations of one idea differ, unless the design says otherwise
_SMALLEST_WALL_S = 60.0
# Beyond these a number is a slip of the keyboard.
_MOST_REPLICATES = 10_000
_MOST_GPUS = 10_000
_MOST_CPUS = 100_000
_MOST_RUN_HOURS = 1e6


def propose(
    desks: Desks,
    hypothesis_id: str | None = None,
    *,
    command: str | None = None,
    title: str | None = None,
    config: Mapping[str, Any] | None = None,
    notes: str = "",
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    tags: Sequence[str] = (),
    priority: int = 0,
    metric: str | None = None,
    direction: str | None = None,
    mde: float | None = None,
    noise: float | None = None,
    tau: float | None = None,
    baseline: float | str | None = None,
    paired: bool = False,
    replicates: int = 1,
    cost_run_hours: float | None = None,
    gpus: int = 0,
    gpu_memory_bytes: int | None = None,
    cpus: int | None = None,
    wall_s: float | None = None,
    no_output_s: float | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> Experiment:
    """A new proposed experiment; what the design leaves out comes from its hypothesis's prediction.

    With a metric, a direction, an mde and a baseline the experiment makes a claim and its runs become evidence;
    without a claim it is a baseline or an exploration. The wall limit defaults to 1.5 times the declared cost, at
    least 60 s, or to the methodology's `default_wall_s`. A run that writes nothing for `no_output_s` is ended.

    Raises:
        UsageError: for a bad number, command or combination.
        Conflict: for a claim that was proposed before with the same specification (named, with its verdict).
    """
    ctx = desks.ctx
    hypothesis = ctx.need("hypothesis", hypothesis_id) if hypothesis_id is not None else None
    if command is not None:
        argv_of(command)
    design = _design(desks, hypothesis, metric=metric, direction=direction, mde=mde, noise=noise, tau=tau,
                     baseline=baseline, paired=paired, replicates=replicates, cost=cost_run_hours)  # fmt: skip
    resources = _resources(desks, design, gpus, gpu_memory_bytes, cpus, wall_s, no_output_s)
    _check_env(env or {})
    if cwd is not None and (cwd.startswith(("/", "~")) or ".." in cwd.split("/")):
        raise UsageError(f"the working directory must lie inside the project, not {cwd}", hint="a relative path")
    draft: dict[str, Any] = {
        "command": command,
        "env": dict(env or {}),
        "cwd": cwd,
        "config": json_copy(config or {}, "config"),
        "resources": to_json(resources),
        "design": to_json(design),
        "hypothesis_id": hypothesis.id if hypothesis else None,
    }
    _check_new(desks, draft, idempotency_key)
    score = _first_score(desks, draft, hypothesis)
    with ctx.store.transaction() as tx:
        made = ctx.recall(tx, idempotency_key, "experiment")
        if made is not None:
            return desks.experiments.get(made)
        if dry_run:
            return _preview(desks, draft, title or _title(hypothesis, command, draft["config"]), notes, tags, priority,
                            score)  # fmt: skip
        document = desks.experiments.create(
            tx,
            hypothesis_id=draft["hypothesis_id"],
            title=title or _title(hypothesis, command, draft["config"]),
            command=command,
            cwd=cwd,
            env=draft["env"],
            config=draft["config"],
            notes=notes,
            tags=tags_of(tags),
            priority=priority,
            resources=resources,
            design=design,
            score=score,
        )
        ctx.remember(tx, idempotency_key, "experiment", document.id)
    return desks.experiments.get(document.id)


def _design(
    desks: Desks,
    hypothesis: Document | None,
    *,
    metric: str | None,
    direction: str | None,
    mde: float | None,
    noise: float | None,
    tau: float | None,
    baseline: float | str | None,
    paired: bool,
    replicates: int,
    cost: float | None,
) -> Design:
    prediction: dict[str, Any] = hypothesis.body["prediction"] if hypothesis else {}
    metric = check_metric(metric) or prediction.get("metric")
    direction = check_direction(direction) or prediction.get("direction")
    if hypothesis is not None:
        mde = prediction.get("mde") if mde is None else mde
        baseline = prediction.get("baseline") if baseline is None else baseline
    for name, value, above in (("mde", mde, True), ("noise", noise, False), ("tau", tau, False)):
        if value is not None:
            finite(value, name, above=0.0 if above else None, minimum=None if above else 0.0)
    if cost is not None:
        finite(cost, "the cost", minimum=0.0, maximum=_MOST_RUN_HOURS)
    if not 1 <= replicates <= _MOST_REPLICATES:
        raise UsageError(f"replicates must be 1 to {_MOST_REPLICATES}, not {replicates}")
    against = baseline_value(desks.ctx, baseline)
    if mde is not None and hypothesis is None:
        raise UsageError("an mde belongs to a claim, and a claim to a hypothesis", hint="-h HYPOTHESIS")
    claim = None
    if mde is not None:
        lacking = [
            flag
            for flag, value in (("--metric", metric), ("--direction", direction), ("--baseline", against))
            if value is None
        ]
        if lacking:
            raise UsageError(
                f"a claim with an mde also needs {', '.join(lacking)}",
                hint="the metric's name, max or min, and what it is compared with: a number or an experiment",
            )
        claim = "at_least"
        if isinstance(against, str):
            _check_baseline(desks, against, str(metric))
    elif metric is not None and direction is None and against is not None:
        raise UsageError("a baseline without a direction says nothing", hint="--direction max or min, and --mde")
    if paired and not isinstance(against, str):
        raise UsageError("--paired needs a baseline experiment whose seeds are shared")
    return Design(
        metric=metric,
        direction=direction,
        baseline=against,
        claim=claim,
        mde=mde,
        noise=noise,
        tau=(_TAU_SHARE * mde if tau is None else tau) if mde is not None else tau,
        replicates=replicates,
        cost_run_hours=cost,
        paired=paired,
    )


def _check_baseline(desks: Desks, baseline_id: str, metric: str) -> None:
    design = desks.ctx.need("experiment", baseline_id).body["design"]
    if design["metric"] is not None and design["metric"] != metric:
        near = nearest(metric, [design["metric"]])
        raise UsageError(
            f"{baseline_id} measures {design['metric']}, not {metric}",
            hint=f"did you mean {near[0]}?" if near else None,
        )


def _resources(
    desks: Desks,
    design: Design,
    gpus: int,
    gpu_memory_bytes: int | None,
    cpus: int | None,
    wall_s: float | None,
    no_output_s: float | None,
) -> Resources:
    if cpus is not None and not 0 <= cpus <= _MOST_CPUS:
        raise UsageError(f"--cpus must be 0 to {_MOST_CPUS}, not {cpus}")
    if no_output_s is None:
        no_output_s = desks.ctx.config.methodology["no_output_s"]
    else:
        finite(no_output_s, "the time without output", minimum=1.0, maximum=LONGEST_S)
    if not 0 <= gpus <= _MOST_GPUS:
        raise UsageError(f"--gpus must be 0 to {_MOST_GPUS}, not {gpus}")
    if wall_s is not None:
        finite(wall_s, "the wall limit", above=0.0, maximum=LONGEST_S)
    elif design.cost_run_hours is not None:
        # cost is in run-hours, wall hours times GPUs: the limit is on the wall clock
        wall_s = max(_SMALLEST_WALL_S, 1.5 * design.cost_run_hours * 3600.0 / max(1, gpus))
    else:
        wall_s = desks.ctx.config.methodology["default_wall_s"]
    return Resources(gpus, gpu_memory_bytes, cpus, wall_s, no_output_s)


def _check_env(env: Mapping[str, str]) -> None:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            # The value stays out of the message: it may be a secret.
            raise UsageError(f"{name!r} cannot be set as a variable of the environment", hint="as in LR=0.1")


def _check_new(desks: Desks, draft: Mapping[str, Any], key: str | None) -> None:
    """The same claim with the same specification is a replicate, not a new experiment."""
    if draft["design"]["claim"] is None or draft["command"] is None:
        return
    for earlier in desks.ctx.store.find("experiment", spec_hash=spec_hash(draft)):
        if earlier.body["hypothesis_id"] != draft["hypothesis_id"] or earlier.body["status"] in (
            "rejected",
            "expired",
        ):
            continue
        if key is not None and desks.ctx.store.get("key", key) is not None:
            return  # the same request again; its key answers it
        hypothesis = desks.hypotheses.get(draft["hypothesis_id"])
        raise Conflict(
            f"tried before as {earlier.id} ({earlier.body['status']}); {hypothesis.id} is {hypothesis.status} "
            f"at confidence {hypothesis.confidence:.2f}",
            hint=f"perpetual experiments {earlier.id} shows it; change the specification (more replicates, say)",
            code="tried_before",
        )


def _first_score(desks: Desks, draft: Mapping[str, Any], hypothesis: Document | None) -> Score:
    cost = draft["design"]["cost_run_hours"]
    if hypothesis is None or draft["design"]["claim"] is None:
        return Score(
            None,
            cost,
            None,
            "no claim: a baseline or an exploration teaches nothing about a hypothesis by itself",
        )
    baseline = baseline_values(desks, draft["design"])
    candidate = desks.proposals.candidate("draft", draft, [], baseline)
    assert candidate is not None
    return desks.proposals.score(desks.proposals.state([candidate], [hypothesis]))["draft"]


def _preview(
    desks: Desks,
    draft: Mapping[str, Any],
    title: str,
    notes: str,
    tags: Sequence[str],
    priority: int,
    score: Score,
) -> Experiment:
    body = {
        **draft,
        "id": "(not written)",
        "title": title,
        "status": "proposed",
        "notes": notes,
        "tags": tags_of(tags),
        "priority": priority,
        "score": to_json(score),
        "runs": {},
        "proposed_by": desks.ctx.actor,
        "approved_by": None,
        "created_at": desks.ctx.now(),
        "spec_hash": spec_hash(draft),
    }
    return from_json(Experiment, body)


def _title(hypothesis: Document | None, command: str | None, config: Mapping[str, Any]) -> str:
    if command:
        return command if len(command) <= 80 else command[:77] + "..."
    if config:
        return ", ".join(f"{name}={value}" for name, value in list(config.items())[:6])
    return hypothesis.body["statement"][:80] if hypothesis else "exploration"


def scored(desks: Desks, hypotheses: Sequence[Document]) -> tuple[dict[str, Any], dict[str, Score]]:
    """The scorer's state over every launchable replicate of these hypotheses' experiments, and the scores."""
    candidates = []
    least = desks.ctx.config.methodology["min_replicates"]
    for hypothesis in hypotheses:
        for experiment in desks.ctx.store.find("experiment", hypothesis_id=hypothesis.id):
            if experiment.body["status"] not in ("approved", "active"):
                continue
            runs = desks.ctx.store.find("run", experiment_id=experiment.id)
            left = experiment.body["design"]["replicates"] - len({run.body["replicate"] for run in runs})
            baseline = baseline_values(desks, experiment.body["design"])
            candidate = desks.proposals.candidate(experiment.id, experiment.body, runs, baseline)
            if candidate is not None and left > 0 and baseline not in (None, {}):
                candidates.append(
                    {
                        **candidate,
                        "n_left": left,
                        "baseline_n": len(baseline) if isinstance(baseline, dict) else 0,
                    }
                )
    state = desks.proposals.state(candidates, hypotheses)
    for row, hypothesis in zip(state["hypotheses"], hypotheses, strict=True):
        row["missing_replicates"] = max(0, least - hypothesis.body.get("n_measured", 0))
    state["budget_left"] = desks.budget.room_run_hours()
    return state, desks.proposals.score(state)

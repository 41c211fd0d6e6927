"""Proposing: a specification is checked, compared with what was tried before, scored, and written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from perpetual.errors import Conflict, UsageError
from perpetual.lab.budget import Budget
from perpetual.lab.context import Context
from perpetual.lab.engines.schedulers import engine_options, named
from perpetual.lab.evidence.confidence import pools_with, prediction_of, predictions_of
from perpetual.lab.evidence.stale import baseline_values
from perpetual.lab.evidence.warnings import seen_before
from perpetual.lab.experiments.design import design_of
from perpetual.lab.experiments.feasibility import is_underpowered
from perpetual.lab.experiments.learned import candidate_of
from perpetual.lab.experiments.order import checked_needs
from perpetual.lab.experiments.shared import taken_over
from perpetual.lab.kinds import EXPERIMENT, HYPOTHESIS, KEY, RUN, ExperimentRow, HypothesisRow, RunRow
from perpetual.lab.ledger.experiments import ExperimentRecords, argv_of, design_key, sources_of, spec_hash
from perpetual.lab.ledger.hypotheses import HypothesisRecords, tags_of
from perpetual.lab.ledger.specification import LONGEST_GIVEN_TITLE, Specification
from perpetual.lab.proposals import Proposals
from perpetual.lab.provenance import isolation
from perpetual.records import ENDED, Experiment, Resources, Score, from_json, one_line, to_json
from perpetual.science.wording import leans
from perpetual.toolkit.jsoncopy import json_copy

if TYPE_CHECKING:
    from perpetual.documents.scorer import CandidateState, ScorerState
    from perpetual.lab.bodies import DesignBody, DraftBody, ExperimentBody

__all__ = ["as_weighed", "checked_draft", "ended_elsewhere", "first_score", "propose", "serves", "state_of", "title_of",
           "written"]  # fmt: skip

_SMALLEST_WALL_S = 60.0
_LONGEST_TITLE = 120  # of one that is made


def propose(
    ctx: Context,
    hypothesis_id: str | None,
    spec: Specification,
    *,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> Experiment:
    """Returns a new proposed experiment, as `Experiments.propose` says."""
    if dry_run:
        return _propose(ctx, hypothesis_id, spec, idempotency_key, dry_run)
    with ctx.store.transaction() as tx:  # or what it is compared with changes until it is written
        ExperimentRecords(ctx).alike.keep(tx)
        return _propose(ctx, hypothesis_id, spec, idempotency_key, dry_run)


def _propose(
    ctx: Context, hypothesis_id: str | None, spec: Specification, idempotency_key: str | None, dry_run: bool
) -> Experiment:
    if spec.title is not None:
        spec = replace(spec, title=one_line(spec.title)[:LONGEST_GIVEN_TITLE])
    hypothesis = ctx.need(HYPOTHESIS, hypothesis_id) if hypothesis_id is not None else None
    if spec.extends is not None:
        return _extend(ctx, spec, spec.extends, hypothesis, idempotency_key, dry_run)
    is_repeated = idempotency_key is not None and ctx.store.get(KEY, idempotency_key) is not None
    spec, draft = checked_draft(ctx, hypothesis, spec, repeats=is_repeated)
    spec = replace(spec, title=spec.title or title_of(hypothesis, spec.command, draft["config"]))
    made = written(ctx, draft, spec, hypothesis, idempotency_key, dry_run)
    owner = ctx.need(EXPERIMENT, spec.runs_of) if spec.runs_of is not None else None
    if owner is not None and not dry_run and made.id not in (known := owner.body.get("shared_by", [])):
        with ctx.store.transaction() as tx:
            tx.put(EXPERIMENT, owner.id, {**owner.body, "shared_by": [*known, made.id]})
    return made


def checked_draft(
    ctx: Context, hypothesis: HypothesisRow | None, spec: Specification, *, repeats: bool | str = False
) -> tuple[Specification, DraftBody]:
    """Returns the specification as it was completed, and the draft of it.

    Args:
        repeats: whether it was proposed before with the same key, or the experiment that it is to become.

    Raises:
        UsageError, Conflict: as `Experiments.propose` says.
    """
    owner = ctx.need(EXPERIMENT, spec.runs_of) if spec.runs_of is not None else None
    if owner is not None and repeats is not True:
        spec = replace(taken_over(owner, hypothesis, spec), runs_of=owner.id)
    ctx.redaction.refuse_secrets(spec.command, spec.env or {}, spec.engine, config=spec.config, cwd=spec.cwd)
    if spec.command is not None:
        argv_of(spec.command)
    design = design_of(ctx, hypothesis, spec)
    draft: DraftBody = {
        "command": spec.command,
        "env": dict(spec.env or {}),
        "cwd": spec.cwd,
        "config": json_copy({**(spec.config or {})}, "config"),
        "resources": owner.body["resources"] if owner is not None else to_json(_resources(ctx, spec, repeats)),
        "design": to_json(design),
        "hypothesis_id": hypothesis.id if hypothesis else None,
    }
    _check_new(ctx, draft, repeats)
    if repeats is not True and is_underpowered(ctx, hypothesis, draft["design"], allowed=spec.underpowered):
        draft["design"]["underpowered"] = True
        _check_new(ctx, draft, repeats)
    return spec, {**draft, **seen_before(ctx, draft)}


def _extend(
    ctx: Context, spec: Specification, source_id: str, asked_for: HypothesisRow | None, key: str | None, dry_run: bool
) -> Experiment:
    """Returns more replicates of an experiment whose own are used up: the same specification, for a person to approve.

    Their values are pooled with the source's (see `design_key`), so that asking again is no second opinion.

    Raises:
        UsageError: if anything else is asked for beside the number of replicates.
        Conflict: if the source still has replicates to run, or its hypothesis is decided for sure.
    """
    if spec.beside_extension():
        named = ", ".join(spec.beside_extension())
        raise UsageError(
            f"more replicates of {source_id} have its specification, and {named} would be another",
            hint="give --replicates alone",
        )
    source = ctx.need(EXPERIMENT, source_id)
    body = source.body
    hypothesis = ctx.need(HYPOTHESIS, body["hypothesis_id"]) if body["hypothesis_id"] else None
    if hypothesis is not None and asked_for is not None and asked_for.id != hypothesis.id:
        raise UsageError(f"{source.id} tests {hypothesis.id}, not {asked_for.id}", hint="leave out -h")
    known = hypothesis.body if hypothesis is not None else None
    decided = known is not None and known["status"] in ("supported", "refuted")
    if known is not None and decided and not leans(known["status"], known["false_alarm_bound"], known.get("effect")):
        way = "update {} --status open opens it again" if known.get("decided_by") not in (None, "evidence") else "add"
        raise Conflict(
            f"{known['id']} is {known['status']} at confidence {known['confidence']:.2f}",
            hint=f"perpetual hypotheses {way.format(known['id'])}",
            code="decided",
        )
    if body["status"] not in ("complete", "analysed"):
        raise Conflict(
            f"{source.id} is {body['status']}, and has replicates of its own to run", hint=f"perpetual run {source.id}"
        )
    draft = draft_like(body, replicates=spec.replicates)
    title = spec.title or one_line(f"more of {source.id}: {body['title']}")
    spec = replace(spec, title=title[:_LONGEST_TITLE])
    root = body.get("extends") or source.id
    with ctx.store.transaction() as tx:
        made = written(ctx, draft, spec, hypothesis, key, dry_run)
        if not dry_run:
            extension, first = ctx.need(EXPERIMENT, made.id), ctx.need(EXPERIMENT, root)
            tx.put(EXPERIMENT, extension.id, {**extension.body, "extends": root})
            others = first.body.get("extended_by", [])
            if made.id not in others:
                tx.put(EXPERIMENT, root, {**first.body, "extended_by": [*others, made.id]})
    return made


def draft_like(body: ExperimentBody, *, replicates: int) -> DraftBody:
    """Returns a draft with the specification of an experiment, in another number of replicates."""
    return {
        "command": body["command"],
        "env": body["env"],
        "cwd": body["cwd"],
        "config": body["config"],
        "resources": body["resources"],
        "design": {**body["design"], "replicates": replicates, "runs_of": None},
        "hypothesis_id": body["hypothesis_id"],
    }


def written(
    ctx: Context,
    draft: DraftBody,
    spec: Specification,
    hypothesis: HypothesisRow | None,
    key: str | None,
    dry_run: bool,
) -> Experiment:
    """Writes a checked draft as a proposed experiment, once for each idempotency key."""
    score = first_score(ctx, draft, hypothesis)
    with ctx.store.transaction() as tx:
        made = ctx.recall(tx, key, "experiment")
        if made is not None:
            return ExperimentRecords(ctx).get(made)
        body = ExperimentRecords(ctx).drafted(draft, replace(spec, tags=tags_of(spec.tags)), score)
        if dry_run:
            return from_json(Experiment, {**body, "id": "(not written)"})
        document = ExperimentRecords(ctx).create(tx, body)
        ctx.remember(tx, key, "experiment", document.id)
    return ExperimentRecords(ctx).get(document.id)


def _resources(ctx: Context, spec: Specification, repeats: bool | str) -> Resources:
    no_output_s, wall_s = spec.no_output_s, spec.wall_s
    if no_output_s is None:
        no_output_s = ctx.config.methodology["no_output_s"]
    if wall_s is None and spec.cost_run_hours is not None:
        # cost is in run-hours, wall hours times GPUs: the limit is on the wall clock
        wall_s = max(_SMALLEST_WALL_S, 1.5 * spec.cost_run_hours * 3600.0 / max(1, spec.gpus))
    elif wall_s is None:
        wall_s = ctx.config.methodology["default_wall_s"]
    scheduler, engine = _scheduler(ctx, spec)
    return Resources(
        gpus=spec.gpus,
        gpu_memory_bytes=spec.gpu_memory_bytes,
        cpus=spec.cpus,
        wall_s=wall_s,
        no_output_s=no_output_s,
        memory_bytes=spec.memory_bytes,
        nodes=spec.nodes,
        scheduler=scheduler,
        engine=engine,
        isolate=isolation.wanted(ctx, spec.isolate),
        worktree=isolation.worktree(ctx),
        needs_artifacts=checked_needs(ctx, spec.needs_artifacts, str(repeats)),
    )


def _scheduler(ctx: Context, spec: Specification) -> tuple[str | None, dict[str, object]]:
    """Returns the scheduler that the experiment keeps, None for the configured one; and its options, checked.

    Options are those of one scheduler: with some, the experiment keeps the one that is configured now.
    """
    if spec.scheduler is None and not spec.engine:
        return None, {}
    name = ctx.config["scheduler"] if spec.scheduler is None else spec.scheduler
    return name, engine_options(named(ctx, name), name, json_copy(spec.engine or {}, "engine options"))


def _check_new(ctx: Context, draft: DraftBody, repeats: bool | str) -> None:
    """Refuses a claim with the specification of an experiment that exists: that would be a replicate of it."""
    if draft["design"]["claim"] is None or draft["command"] is None:
        return
    for earlier in ctx.store.find(EXPERIMENT, spec_hash=spec_hash(draft)):
        is_over = earlier.body["status"] in ("rejected", "expired")
        if earlier.body["hypothesis_id"] != draft["hypothesis_id"] or is_over or earlier.id == repeats:
            continue
        if repeats is True:
            return  # the same request again; its key answers it
        hypothesis = HypothesisRecords(ctx).get(draft["hypothesis_id"] or "")
        raise Conflict(
            f"tried before as {earlier.id} ({earlier.body['status']}); {hypothesis.id} is {hypothesis.status} "
            f"at confidence {hypothesis.confidence:.2f}",
            hint=f"perpetual experiments {earlier.id} shows it; change the specification (more replicates, say)",
            code="tried_before",
        )


def first_score(ctx: Context, draft: DraftBody, hypothesis: HypothesisRow | None) -> Score:
    """Returns what the runs of a draft would teach for their cost."""
    cost = draft["design"]["cost_run_hours"]
    if hypothesis is None or draft["design"]["claim"] is None:
        return Score(None, cost, None, "none: a baseline or an exploration tests no hypothesis by itself")
    if owner := draft["design"].get("runs_of"):
        return Score(None, cost, None, f"none: it costs nothing beyond the runs of {owner}")
    first = prediction_of(ctx, hypothesis.id, draft)
    weighed = as_weighed(draft, first)
    if weighed is None:
        assert first is not None, hypothesis.id
        return Score(0.0, cost, 0.0, f"the same command was measured for {first.id}, whose prediction holds: it says "
                     "nothing by another number, or on other seeds")  # fmt: skip
    candidate = candidate_of(ctx, "draft", weighed, ended_elsewhere(ctx, draft, None))
    assert candidate is not None
    return ctx.cached(Proposals).score(ctx.cached(Proposals).state([candidate], [hypothesis]))["draft"]


def title_of(hypothesis: HypothesisRow | None, command: str | None, config: Mapping[str, object]) -> str:
    """Returns the title of an experiment that is proposed without one."""
    if command:
        command = one_line(command)
        return command if len(command) <= 80 else command[:77] + "..."
    if config:
        return one_line(", ".join(f"{name}={value}" for name, value in list(config.items())[:6]))
    return one_line(hypothesis.body["statement"])[:80] if hypothesis else "exploration"


def state_of(ctx: Context, hypotheses: Sequence[HypothesisRow]) -> ScorerState:
    """Returns the scorer's state over every launchable replicate of these hypotheses' experiments."""
    candidates: list[CandidateState] = []
    launched = dict.fromkeys((hypothesis.id for hypothesis in hypotheses), 0)
    least = ctx.config.methodology["min_replicates"]
    for hypothesis in hypotheses:
        firsts = predictions_of(ctx, hypothesis.id)
        for experiment in ctx.store.find(EXPERIMENT, hypothesis_id=hypothesis.id):
            launched[hypothesis.id] += sum(experiment.body["runs"].values())
            if experiment.body["status"] not in ("approved", "active") or experiment.body["design"].get("runs_of"):
                continue
            runs = ctx.store.find(RUN, experiment_id=experiment.id)
            left = experiment.body["design"]["replicates"] - len({run.body["replicate"] for run in runs})
            weighed = as_weighed(experiment.body, firsts.get(design_key(experiment.body)))
            if weighed is None:
                continue  # a person may still run it by hand
            baseline = baseline_values(ctx, weighed["design"])
            runs = [*runs, *ended_elsewhere(ctx, experiment.body, experiment.id)]
            candidate = candidate_of(ctx, experiment.id, weighed, runs)
            if candidate is not None and left > 0 and baseline not in (None, {}):
                needs = hypothesis.body.get("needs")
                if needs and not serves(experiment.body["design"], needs):
                    continue
                candidates.append({**candidate, "n_left": left})
    state = ctx.cached(Proposals).state(candidates, hypotheses)
    for row, hypothesis in zip(state["hypotheses"], hypotheses, strict=True):
        missing = max(0, least - hypothesis.body.get("n_measured", 0))
        row["missing_replicates"] = max(1, missing) if hypothesis.body.get("needs") else missing
        row["n_runs"] = launched[hypothesis.id]
    state["budget_left"] = Budget(ctx).room_run_hours()
    return state


def as_weighed(body: DraftBody, first: ExperimentRow | None) -> DraftBody | None:
    """Returns the experiment as its runs will be weighed: under the prediction that was measured `first` of its design.

    None where they will say nothing: in another metric.
    """
    if first is None:
        return body
    if not pools_with(body["design"], first.body["design"]):
        return None
    own = body["design"]
    design: DesignBody = {
        **first.body["design"],
        "replicates": own["replicates"],
        "cost_run_hours": own["cost_run_hours"],
    }
    return {**body, "design": design}


def serves(design: DesignBody, needs: str) -> bool:
    """Returns whether a run of this design is what a hypothesis past a threshold still lacks."""
    if needs == "confirmation":
        return bool(design.get("confirmation"))
    return needs != "full_scale" or not design.get("proxy_of")


def ended_elsewhere(ctx: Context, body: DraftBody, id: str | None) -> list[RunRow]:
    """Returns ended runs of the hypothesis's other experiments with the same design: they count as known."""
    key = design_key(body)
    return [
        run
        for other in ExperimentRecords(ctx).alike.of(body)
        if other.id != id and other.body["hypothesis_id"] == body["hypothesis_id"] and design_key(other.body) == key
        for source in sources_of(ctx, other)
        for run in ctx.store.find(RUN, experiment_id=source)
        if run.body["status"] in ENDED
    ]

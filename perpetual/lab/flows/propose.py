"""Proposing: a specification is checked, compared with what was tried before, scored, and written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perpetual.errors import Conflict, UsageError
from perpetual.lab.experiments import argv_of, design_key, spec_hash
from perpetual.lab.flows import Desks
from perpetual.lab.flows.cautions import seen_before
from perpetual.lab.flows.design import check_replicates, design_of
from perpetual.lab.flows.fold import baseline_values, pools_with, predictions_of
from perpetual.lab.hypotheses import tags_of
from perpetual.lab.states import ENDED
from perpetual.records import Design, Experiment, Resources, Score, from_json, to_json
from perpetual.slots.store import Document
from perpetual.toolkit.jsoncopy import json_copy
from perpetual.toolkit.units import LONGEST_S, bounded, finite

__all__ = ["as_weighed", "ended_elsewhere", "propose", "serves", "state_of"]

_SMALLEST_WALL_S = 60.0
# Beyond these a number is a slip of the keyboard.
_MOST_GPUS = 10_000
_MOST_CPUS = 100_000
_LONGEST_TITLE = 120  # of one that is made
_LONGEST_GIVEN_TITLE = 500
_LONGEST_NOTES = 16_000


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
    kind: str = "gaussian",
    claim: str | None = None,
    on_crash: str | None = None,
    confirmation: bool = False,
    proxy: Mapping[str, Any] | None = None,
    proxy_of: str | None = None,
    extends: str | None = None,
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

    Args:
        kind: `binary` for a metric that is 1 or 0; `baseline` is then the rate that the mde is added to.
        claim: `at_least` (by default, with an mde), `value`, `any` (some effect, without an mde) or `none`.
        on_crash: for a binary claim that it runs at all: whether a failed run `supports` or `refutes` it.
        confirmation: measured on data that no earlier experiment has looked at; see `require_confirmation`.
        proxy: a cheaper stand-in that may be tried first, {"args": more words of the command, "cost_run_hours", "tau"}.
        proxy_of: the experiment that this one stands in for.
        extends: an experiment of which this is more replicates; its specification is taken over.

    Raises:
        UsageError: for a bad number, command or combination.
        Conflict: for a claim that was proposed before with the same specification (named, with its verdict).
    """
    ctx = desks.ctx
    if extends is not None:
        others = (command, config, cwd, env, metric, direction, mde, noise, tau, baseline, claim,
                  on_crash, proxy, proxy_of, cost_run_hours, gpu_memory_bytes, cpus, wall_s, no_output_s)  # fmt: skip
        if any(other is not None for other in others) or paired or confirmation or gpus or kind != "gaussian":
            raise UsageError(f"more replicates of {extends} have its specification", hint="give --replicates alone")
        asked_for = None if hypothesis_id is None else ctx.need("hypothesis", hypothesis_id).id
        return _extend(desks, extends, asked_for, replicates, title=title, notes=notes, tags=tags, priority=priority,
                       key=idempotency_key, dry_run=dry_run)  # fmt: skip
    bounded(title or "", "the title", _LONGEST_GIVEN_TITLE)
    bounded(notes, "the text of the notes", _LONGEST_NOTES)
    hypothesis = ctx.need("hypothesis", hypothesis_id) if hypothesis_id is not None else None
    if command is not None:
        argv_of(command)
    design = design_of(
        desks, hypothesis, metric=metric, direction=direction, mde=mde, noise=noise, tau=tau, baseline=baseline,
        paired=paired, kind=kind, claim=claim, on_crash=on_crash, confirmation=confirmation, proxy=proxy,
        proxy_of=proxy_of, replicates=replicates, cost=cost_run_hours,
    )  # fmt: skip
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
    draft |= seen_before(desks, draft)
    title = title or _title(hypothesis, command, draft["config"])
    return _write(desks, draft, hypothesis, title, notes, tags, priority, idempotency_key, dry_run)


def _extend(
    desks: Desks,
    source_id: str,
    asked_for: str | None,
    replicates: int,
    *,
    title: str | None,
    notes: str,
    tags: Sequence[str],
    priority: int,
    key: str | None,
    dry_run: bool,
) -> Experiment:
    """More replicates of an experiment whose own are used up: the same specification, for a person to approve.

    Their values are pooled with the source's (see `design_key`), so that asking again is no second opinion.

    Raises:
        Conflict: if the source still has replicates to run, or its hypothesis is decided.
    """
    source = desks.ctx.need("experiment", source_id)
    body = source.body
    check_replicates(replicates)
    hypothesis = desks.ctx.need("hypothesis", body["hypothesis_id"]) if body["hypothesis_id"] else None
    if hypothesis is not None and asked_for not in (None, hypothesis.id):
        raise UsageError(f"{source.id} tests {hypothesis.id}, not {asked_for}", hint="leave out -h")
    if hypothesis is not None and hypothesis.body["status"] in ("supported", "refuted"):
        raise Conflict(
            f"{hypothesis.id} is {hypothesis.body['status']} at confidence {hypothesis.body['confidence']:.2f}",
            hint=f"perpetual hypotheses update {hypothesis.id} --status open opens it again",
            code="decided",
        )
    if body["status"] not in ("complete", "analysed"):
        raise Conflict(
            f"{source.id} is {body['status']}, and has replicates of its own to run",
            hint=f"perpetual run {source.id}",
        )
    draft = {key: body[key] for key in ("command", "env", "cwd", "config", "resources", "hypothesis_id")}
    draft["design"] = {**body["design"], "replicates": replicates}
    title = title or f"more of {source.id}: {body['title']}"
    root = body.get("extends") or source.id
    with desks.ctx.store.transaction() as tx:
        made = _write(desks, draft, hypothesis, title[:_LONGEST_TITLE], notes, tags, priority, key, dry_run)
        if not dry_run:
            extension, first = desks.ctx.need("experiment", made.id), desks.ctx.need("experiment", root)
            tx.put("experiment", extension.id, {**extension.body, "extends": root})
            others = first.body.get("extended_by", [])
            if made.id not in others:
                tx.put("experiment", root, {**first.body, "extended_by": [*others, made.id]})
    return made


def _write(
    desks: Desks,
    draft: Mapping[str, Any],
    hypothesis: Document | None,
    title: str,
    notes: str,
    tags: Sequence[str],
    priority: int,
    key: str | None,
    dry_run: bool,
) -> Experiment:
    ctx = desks.ctx
    score = _first_score(desks, draft, hypothesis)
    with ctx.store.transaction() as tx:
        made = ctx.recall(tx, key, "experiment")
        if made is not None:
            return desks.experiments.get(made)
        if dry_run:
            return _preview(desks, draft, title, notes, tags, priority, score)
        document = desks.experiments.create(
            tx,
            hypothesis_id=draft["hypothesis_id"],
            title=title,
            command=draft["command"],
            cwd=draft["cwd"],
            env=draft["env"],
            config=draft["config"],
            notes=notes,
            tags=tags_of(tags),
            priority=priority,
            resources=from_json(Resources, draft["resources"]),
            design=from_json(Design, draft["design"]),
            score=score,
        )
        told = {name: draft[name] for name in ("seen_before", "passed_over") if name in draft}
        if told:
            tx.put("experiment", document.id, {**document.body, **told}, expect_revision=document.revision)
        ctx.remember(tx, key, "experiment", document.id)
    return desks.experiments.get(document.id)


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
    first = predictions_of(desks, hypothesis.id).get(design_key(draft))
    weighed = as_weighed(draft, first)
    if weighed is None:
        assert first is not None, hypothesis.id
        return Score(0.0, cost, 0.0, f"the same command was measured for {first.id}, whose prediction holds: it says "
                     "nothing by another number, or on other seeds")  # fmt: skip
    baseline = baseline_values(desks, weighed["design"])
    candidate = desks.proposals.candidate("draft", weighed, ended_elsewhere(desks, draft, None), baseline)
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


def state_of(desks: Desks, hypotheses: Sequence[Document]) -> dict[str, Any]:
    """The scorer's state over every launchable replicate of these hypotheses' experiments."""
    candidates = []
    launched = dict.fromkeys((hypothesis.id for hypothesis in hypotheses), 0)
    least = desks.ctx.config.methodology["min_replicates"]
    for hypothesis in hypotheses:
        firsts = predictions_of(desks, hypothesis.id)
        for experiment in desks.ctx.store.find("experiment", hypothesis_id=hypothesis.id):
            launched[hypothesis.id] += sum(experiment.body["runs"].values())
            if experiment.body["status"] not in ("approved", "active"):
                continue
            runs = desks.ctx.store.find("run", experiment_id=experiment.id)
            left = experiment.body["design"]["replicates"] - len({run.body["replicate"] for run in runs})
            weighed = as_weighed(experiment.body, firsts.get(design_key(experiment.body)))
            if weighed is None:
                continue  # whoever wants to see it runs it by hand
            baseline = baseline_values(desks, weighed["design"])
            runs = [*runs, *ended_elsewhere(desks, experiment.body, experiment.id)]
            candidate = desks.proposals.candidate(experiment.id, weighed, runs, baseline)
            if candidate is not None and left > 0 and baseline not in (None, {}):
                needs = hypothesis.body.get("needs")
                if needs and not serves(experiment.body["design"], needs):
                    continue
                candidates.append(
                    {
                        **candidate,
                        "n_left": left,
                        "baseline_n": len(baseline) if isinstance(baseline, dict) else 0,
                    }
                )
    state = desks.proposals.state(candidates, hypotheses)
    for row, hypothesis in zip(state["hypotheses"], hypotheses, strict=True):
        missing = max(0, least - hypothesis.body.get("n_measured", 0))
        row["missing_replicates"] = max(1, missing) if hypothesis.body.get("needs") else missing
        row["n_runs"] = launched[hypothesis.id]
    state["budget_left"] = desks.budget.room_run_hours()
    return state


def as_weighed(body: Mapping[str, Any], first: Document | None) -> Mapping[str, Any] | None:
    """The experiment as its runs will be weighed: under the prediction that was measured `first` of its design.

    None where they will say nothing: in another metric, or on other seeds than a paired design's.
    """
    if first is None:
        return body
    if not pools_with(body["design"], first.body["design"]):
        return None
    own = {name: body["design"][name] for name in ("replicates", "cost_run_hours")}
    return {**body, "design": {**first.body["design"], **own}}


def serves(design: Mapping[str, Any], needs: str) -> bool:
    """Whether a run of this design is what a hypothesis past a threshold still lacks."""
    return bool(design.get("confirmation")) if needs == "confirmation" else not design.get("proxy_of")


def ended_elsewhere(desks: Desks, body: Mapping[str, Any], id: str | None) -> list[Document]:
    """Ended runs of the hypothesis's other experiments with the same design: what they taught is not taught again."""
    key = design_key(body)
    return [
        run
        for other in desks.ctx.store.find("experiment", hypothesis_id=body["hypothesis_id"])
        if other.id != id and design_key(other.body) == key
        for run in desks.ctx.store.find("run", experiment_id=other.id)
        if run.body["status"] in ENDED
    ]

"""Edits of a proposed experiment: checked as a proposal is, and an approval of what it was ends with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, cast

from perpetual.errors import Conflict, NotPermitted, UsageError, unknown
from perpetual.lab.experiments import propose
from perpetual.lab.experiments.shared import OF_A_CLAIM
from perpetual.lab.kinds import EXPERIMENT, HYPOTHESIS
from perpetual.lab.ledger.experiments import ExperimentRecords, spec_hash
from perpetual.lab.ledger.hypotheses import tags_of
from perpetual.lab.ledger.specification import Specification
from perpetual.lab.permissions import is_same, withholds
from perpetual.records import Experiment, one_line, to_json

if TYPE_CHECKING:
    from perpetual.lab.bodies import ExperimentBody
    from perpetual.lab.context import Context
    from perpetual.lab.kinds import ExperimentRow, LabTransaction

__all__ = ["APPROVAL", "check_no_circle", "edit", "voided"]

APPROVAL = ("approved_hash", "approved_at", "approved_code", "approved_mark")
_LABELS = {"title", "notes", "tags", "priority"}  # which no approval binds
_LIMITS = {"wall_s", "no_output_s", "cost_run_hours", "gpus", "gpu_memory_bytes", "cpus", "memory_bytes", "nodes",
           "replicates", "scheduler", "engine"}  # fmt: skip
_NOT_EDITED = {"extends", "runs_of"}  # what makes it another experiment
_EDITED = [each.name for each in fields(Specification) if each.name not in _NOT_EDITED]
_SMALLEST_WALL_S = 60.0
_specification: Callable[..., Specification] = Specification  # from names that were checked


def edit(ctx: Context, id: str, changes: Mapping[str, object]) -> Experiment:
    """Returns the experiment with other values, as `Experiments.edit` says."""
    if others := sorted(changes.keys() - {*_EDITED}):
        raise UsageError(unknown("field of an experiment", others[0], _EDITED))
    if not changes:
        raise UsageError("nothing to edit", hint=f"perpetual edit {id} --wall 30m")
    with ctx.store.transaction() as tx:
        document = ctx.need(EXPERIMENT, id)
        body = document.body
        _check_editor(ctx, document)
        if changes.keys() <= _LABELS:
            new: dict[str, object] = {}
            dependants: list[ExperimentRow] = []
            spec = _specification(**changes)
        else:
            dependants = _check_editable(tx, document, changes)
            spec, new = _specified(ctx, document, changes)
        fresh: dict[str, object] = {**body, **new, **{name: getattr(spec, name) for name in _LABELS & changes.keys()}}
        made = cast("ExperimentBody", fresh)
        fresh["tags"] = tags_of(made["tags"])
        fresh["title"] = one_line(made["title"] or propose.title_of(None, made["command"], made["config"]))
        changed = [name for name, value in fresh.items() if body.get(name) != value]
        if not changed:
            raise UsageError(f"{document.id} is so already, and nothing was changed")
        stale = [item.id for item in (document, *dependants) if new and "approved_hash" in item.body]
        was = {name: body.get(name) for name in changed if not name.startswith("approved_")}
        tx.put(EXPERIMENT, document.id, fresh, expect_revision=document.revision)
        for each in stale:
            tx.put(EXPERIMENT, each, voided(ctx.need(EXPERIMENT, each).body))
        if new:
            ExperimentRecords(ctx).alike.keep(tx, at_once=True)
            ExperimentRecords(ctx).alike.moved(tx, ctx.need(EXPERIMENT, document.id))
        ctx.emit(tx, "experiment_edited", document.id, {"changed": changed, "was": was, "voided": stale})
    return ExperimentRecords(ctx).get(document.id)


def voided(body: ExperimentBody) -> dict[str, object]:
    """Returns the experiment as it was before its approval."""
    kept = {name: value for name, value in body.items() if name not in APPROVAL}
    return {**kept, "status": "proposed", "approved_by": None}


def _check_editor(ctx: Context, document: ExperimentRow) -> None:
    """Raises NotPermitted for an agent, unless it is its own proposal that waits for approval."""
    own = is_same(ctx.actor, document.body["proposed_by"]) and document.body["status"] == "proposed"
    if withholds(ctx) and not own:
        raise NotPermitted(f"{document.id} is not a waiting proposal of yours; editing it is for a person",
                           hint="propose what you mean as an experiment of its own")  # fmt: skip


def _check_editable(tx: LabTransaction, document: ExperimentRow, changes: Mapping[str, object]) -> list[ExperimentRow]:
    """Returns the claims that are compared with it, whose approvals end with another command.

    Raises:
        Conflict: once it has runs, is turned down, or others rest on what is changed.
        UsageError: for what an extension or a renewed baseline takes over from another experiment.
    """
    id, body = document.id, document.body
    if body["status"] not in ("proposed", "approved") or tx.find("run", experiment_id=id):
        raise Conflict(f"{id} is {body['status']}: only its title, notes, tags and priority can be edited",
                       hint="propose what it should be: perpetual propose")  # fmt: skip
    source = body.get("extends") or body.get("renews")
    if source and (others := sorted(changes.keys() - _LABELS - {"replicates"})):
        raise UsageError(f"{id} has the specification of {source}, and takes no other {', '.join(others)}")
    if body.get("shared_by"):
        raise Conflict(f"{', '.join(body['shared_by'])} take the runs of {id}", hint="reject them first")
    if changes.keys() <= _LABELS | _LIMITS:
        return []
    users = [item for item in tx.find(EXPERIMENT) if item.body["status"] not in ("rejected", "expired")
             and id in (item.body["design"]["baseline"], item.body["design"].get("proxy_of"))]  # fmt: skip
    fixed = sorted(changes.keys() & {"metric", "direction", "kind", "stop_rule", "items"})
    if users and fixed:
        names = ", ".join(item.id for item in users)
        raise Conflict(f"{id} carries {names}: it keeps its {', '.join(fixed)}", hint=f"reject {names} first")
    return users


def _specified(
    ctx: Context, document: ExperimentRow, changes: Mapping[str, object]
) -> tuple[Specification, dict[str, object]]:
    """Returns the changed specification, and what of the row it makes new; checked as a proposal is."""
    body = document.body
    hypothesis = ctx.need(HYPOTHESIS, body["hypothesis_id"]) if body["hypothesis_id"] else None
    given = _as_given(body, changes)
    if body["design"].get("runs_of"):
        if others := sorted(changes.keys() - OF_A_CLAIM):
            raise UsageError(f"{document.id} has no runs of its own, and takes no {', '.join(others)}")
        given = {name: value for name, value in given.items() if name in OF_A_CLAIM}
    spec = _specification(**{**given, **changes})
    if body.get("extends") or body.get("renews"):
        design = {**body["design"], "replicates": spec.replicates}
        return spec, {"design": design, "spec_hash": spec_hash({**body, "design": design})}
    spec = replace(spec, runs_of=body["design"].get("runs_of"))
    checked, draft = propose.checked_draft(ctx, hypothesis, spec, repeats=document.id)
    check_no_circle(ctx, document.id, draft["design"]["baseline"])
    score = to_json(propose.first_score(ctx, draft, hypothesis))
    new: dict[str, object] = {**draft, "score": score, "spec_hash": spec_hash(draft)}
    if checked.title is None:
        new["title"] = None
    for name in {"seen_before", "passed_over"} & body.keys():
        new.setdefault(name, [])
    return checked, new


def check_no_circle(ctx: Context, id: str, against: float | str | None) -> None:
    """Raises UsageError if the baseline of an experiment, or what that is compared with in turn, is itself."""
    met = {id}
    while isinstance(against, str):
        if against in met:
            raise UsageError(f"{id} would be compared with itself", hint="name another --baseline")
        met.add(against)
        against = ctx.need(EXPERIMENT, against).body["design"]["baseline"]


def _as_given(body: ExperimentBody, changes: Mapping[str, object]) -> dict[str, object]:
    """Returns the stored specification as it would be asked for; what followed from other values is left out."""
    design, found = body["design"], {**body["resources"], **body["design"]}
    given: dict[str, object] = {name: found[name] for name in _EDITED if found.get(name) is not None}
    stored: Mapping[str, object] = body
    given |= {name: stored[name] for name in ("command", "env", "cwd", "config", *_LABELS)}
    given["guards"] = [
        f"{item['metric']}:{item['direction']}:{item['margin']!r}" for item in design.get("guards") or ()
    ]
    if design["claim"] is None or not isinstance(design["baseline"], str):
        given.pop("paired", None)
    if design["claim"] is None and "mde" not in changes:
        given["claim"] = "none"
    mde, cost = design["mde"], design["cost_run_hours"]
    if mde is not None and design["tau"] == 0.25 * mde:
        given.pop("tau", None)
    wall = body["resources"]["wall_s"]
    if cost is not None and wall == max(_SMALLEST_WALL_S, 1.5 * cost * 3600.0 / max(1, body["resources"]["gpus"])):
        given.pop("wall_s", None)
    if (design.get("stop_rule") or "").startswith("wall:"):
        given |= {"stop_rule": "wall", "wall_s": wall}
    if body["title"] == propose.title_of(None, body["command"], body["config"]):
        given["title"] = None  # made of the command
    return given

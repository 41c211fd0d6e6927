"""Sweeps as they are shown: the whole of one, and a line for each in a list. Functions over `Lab`.

Imported by `sweeps`, which offers them.
"""

from __future__ import annotations

import json
import math
import statistics
from hashlib import sha256
from typing import TYPE_CHECKING

from perpetual.toolkit.units import counted, shown_number
from perpetual_scorers.standing import Standing, standing
from perpetual_scorers.sweep_view import SWEEP, View, in_words, parameters_in, view_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_scorers.documents import SweepClaim, SweepDocument, SweepImportanceDocument, SweepLine, SweepSetting

__all__ = ["digest_of", "importance", "listed", "show"]

# What a person approves of a sweep: changed, it is approved anew.
_BOUND = ("command", "metric", "direction", "parameters", "settings", "rungs", "options")


def show(lab: Lab, id: str) -> SweepDocument:
    """Returns a sweep with all of its settings, as the record has them."""
    view = view_of(lab, id)
    record, recipe = view.record, view.recipe
    now = standing(view.state())
    settings = [_setting(view, one["id"], now) for one in record["settings"]]
    approval = record["approval"]
    is_valid = bool(approval) and approval["digest"] == digest_of(record) and record["runs"] <= approval["runs"]
    options = record["options"]
    return {
        "id": record.id,
        "command": recipe.command,
        "metric": recipe.metric,
        "direction": recipe.direction,
        "method": record["method"],
        "parameters": record["parameters"],
        "rungs": recipe.rungs,
        "noise": options["noise"],
        "mde": options["mde"],
        "cost_run_hours": options["cost_run_hours"],
        "settings": settings,
        "best": now.best,
        "best_parameters": None if now.best is None else view.values[now.best],
        "regret_bound": now.regret_bound,
        "sentence": _sentence(view, now),
        "runs": len(view.ended),
        "runs_pending": sum(trial.pending for trial in view.trials),
        "runs_budget": record["runs"],
        "runs_left": round(view.left, 9),
        "status": _status(view),
        "approved_by": approval["by"] if is_valid else None,
        "claim": _claim(record),
        "created_at": record.created_at,
        "created_by": record.created_by,
    }


def _claim(record: Record) -> SweepClaim | None:
    found = record["claim"]
    if not found:
        return None
    return {
        "setting": found["setting"],
        "hypothesis_id": found["hypothesis_id"],
        "experiment_id": found["experiment_id"],
    }


def _status(view: View) -> str:
    if view.record["claim"]:
        return "claimed"
    if not view.trials:
        return "new"
    return "open" if view.live or view.waiting or view.left >= view.recipe.share(0) else "complete"


def _setting(view: View, id: str, now: Standing) -> SweepSetting:
    values = view.seen(id)
    known = [value for value in values if value is not None]
    mean = math.fsum(known) / len(known) if known else None
    believed = now.settings.get(id)
    return {
        "id": id,
        "parameters": view.values[id],
        "n": len(known),
        "n_failed": len(values) - len(known),
        "mean": mean,
        "sd": statistics.stdev(known) if len(known) > 1 else None,
        "values": values,
        "curve": view.curve(id),
        "pending": sum(trial.pending for trial in view.of(id)),
        "expected": believed.mean if believed else None,
        "expected_sd": believed.sd if believed else None,
        "chance_best": believed.chance if believed else None,
        "experiments": [trial.experiment.id for trial in view.of(id)],
    }


def _sentence(view: View, now: Standing) -> str:
    """Returns the standing for a person without statistics."""
    if now.best is None:
        return f"no run of {view.id} has given {view.recipe.metric} yet"
    named = f"{now.best} ({in_words(view.values[now.best])})"
    if now.best not in now.settings:
        return f"{named} is ahead at the rung that was reached; no full run has ended"
    n = sum(value is not None for value in view.seen(now.best))
    expected = f"expected {view.recipe.metric} {shown_number(now.settings[now.best].mean)} after {counted(n, 'run')}"
    if now.regret_bound is None:
        return f"{named} is the pick: {expected}; too few runs to say what it may lose"
    if now.regret_bound <= 0:
        return f"{named} is the pick: {expected}; by the fitted model it is the best with 95 %"
    loss = shown_number(now.regret_bound)
    return f"{named} is the pick: {expected}; by the fitted model it is within {loss} of the best with 95 %"


def importance(lab: Lab, id: str) -> SweepImportanceDocument:
    """Returns how much each parameter of a sweep matters, by its full runs; see `sweep_importance`.

    Raises:
        NotFound: if there is no such sweep.
    """
    from perpetual_scorers.sweep_importance import importance_of

    view = view_of(lab, id)
    seen = [(values, view.seen(setting)) for setting, values in view.values.items()]
    key = f"{lab.config.project_id}:{view.id}"
    found = importance_of(parameters_in(view.record), seen, view.recipe.direction, key)
    return {"sweep_id": view.id, "metric": view.recipe.metric, "direction": view.recipe.direction, **found}


def listed(lab: Lab, *, limit: int = 100, cursor: str | None = None) -> tuple[list[SweepLine], str | None]:
    """Returns a page of sweeps, oldest first, and the cursor of the next one."""
    page = lab.records(SWEEP).list(limit=limit, cursor=cursor)
    return [_line(show(lab, record.id)) for record in page.items], page.next_cursor


def _line(found: SweepDocument) -> SweepLine:
    return {
        "id": found["id"],
        "command": found["command"],
        "metric": found["metric"],
        "direction": found["direction"],
        "method": found["method"],
        "settings": len(found["settings"]),
        "runs": found["runs"],
        "runs_budget": found["runs_budget"],
        "best": found["best"],
        "best_parameters": found["best_parameters"],
        "status": found["status"],
        "approved_by": found["approved_by"],
        "claim": found["claim"],
        "created_at": found["created_at"],
    }


def digest_of(record: Record) -> str:
    """Returns what stands for the sweep that a person has approved."""
    return sha256(json.dumps([record[name] for name in _BOUND], sort_keys=True).encode()).hexdigest()

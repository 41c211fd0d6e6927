"""The fold: what the ledger says of a hypothesis, computed anew from its rows. No other code writes a confidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from perpetual.lab.flows import Desks
from perpetual.science.evidence import confidence
from perpetual.slots.store import Document, Transaction

__all__ = ["add_evidence", "baseline_values", "refold", "refold_users_of"]

_FLOOR_DF = 3  # a noise floor with this many degrees of freedom replaces a declared guess
_GUESS_DF = 2.0


def baseline_values(desks: Desks, design: Mapping[str, Any]) -> dict[int, float] | float | None:
    """The number that a design is compared with, or its baseline experiment's values by replicate, or None."""
    baseline = design["baseline"]
    if not isinstance(baseline, str):
        return None if baseline is None else float(baseline)
    values: dict[int, float] = {}
    for run in desks.ctx.store.find("run", experiment_id=baseline):
        value = run.body["metrics"].get(design["metric"])
        if run.body["status"] == "done" and value is not None and _weight(run.body):
            values[run.body["replicate"]] = value
    return values


def _weight(run: Mapping[str, Any]) -> float:
    """A seed picked by hand, or a run that touched what judges it, weighs nothing."""
    return 0.0 if run["chosen_seed"] or run["tainted"] else 1.0


def _oriented(
    experiment: Document, baseline: dict[int, float] | float | None, rows: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """The design and its rows as the science wants them: differences from the baseline, bigger is better.

    None if they cannot be told yet: no claim, or a baseline that has not run.
    """
    design = experiment.body["design"]
    if design["claim"] is None or baseline is None or baseline == {}:
        return None
    sign = 1.0 if design["direction"] == "max" else -1.0
    model: dict[str, Any] = {
        "model": design["kind"],
        "mu1": design["mde"],
        "mu0": 0.0,
        "mde": design["mde"],
        "sigma": None,
        "tau": design["tau"],
        "s0": design["noise"],
        "nu0": 0.0 if design["noise"] is None else _GUESS_DF,
        "claim": design["claim"],
        "metric": design["metric"],
    }
    if isinstance(baseline, dict) and not design["paired"]:
        mean = math.fsum(baseline.values()) / len(baseline)
        model["baseline_n"] = len(baseline)
        # Exactly nil where the seeds made no difference: a rounding error would pass for a tiny measured noise.
        same = len(set(baseline.values())) == 1
        model["baseline_ss"] = 0.0 if same else math.fsum((value - mean) ** 2 for value in baseline.values())
        if len(baseline) - 1 >= _FLOOR_DF:
            model |= {"s0": None, "nu0": 0.0}  # the floor is measured: S_b carries it, counted once
    shifted = []
    for row in rows:
        against: float | None
        if isinstance(baseline, dict):
            against = baseline.get(row["replicate"]) if design["paired"] else mean
        else:
            against = baseline
        if against is not None:
            shifted.append({**row, "value": sign * (row["value"] - against)})
    return model, shifted


def _compute(desks: Desks, hypothesis: Document, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`perpetual.science.confidence` of the hypothesis, its experiments' designs and these rows."""
    designs: dict[str, Any] = {}
    ready: list[Mapping[str, Any]] = [row for row in rows if row["kind"] != "measured"]
    for experiment in desks.ctx.store.find("experiment", hypothesis_id=hypothesis.id):
        own = [row for row in rows if row["kind"] == "measured" and row["experiment_id"] == experiment.id]
        if own:
            oriented = _oriented(experiment, baseline_values(desks, experiment.body["design"]), own)
            if oriented is not None:
                designs[experiment.id] = oriented[0]
                ready += oriented[1]
    ready.sort(key=lambda row: row["no"])
    methodology = desks.ctx.config.methodology
    config = {
        "support": methodology["confidence_support_threshold"],
        "refute": methodology["confidence_refute_threshold"],
        "alpha": methodology["alpha"],
    }
    return confidence({"id": hypothesis.id, "prior": hypothesis.body["prior"]}, designs, ready, config)


def _rows(desks: Desks, hypothesis_id: str) -> list[dict[str, Any]]:
    rows = []
    for row in desks.ctx.store.find("evidence", hypothesis_id=hypothesis_id):
        body = {**row.body, "id": f"v{row.id}", "no": row.number, "design_id": row.body["experiment_id"]}
        if body["kind"] == "judged":
            body["judge"] = body["actor"]
        rows.append(body)
    return rows


def _status(desks: Desks, hypothesis: Document, result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    methodology = desks.ctx.config.methodology
    taken_back = {row["target"] for row in rows if row["kind"] == "retraction"}
    by_hand = [row for row in rows if row["kind"] == "manual" and row.get("verdict") and row["id"] not in taken_back]
    if by_hand and by_hand[-1]["verdict"] != "open":
        return str(by_hand[-1]["verdict"])
    if result["n_measured"] >= methodology["min_replicates"]:
        if result["confidence"] >= methodology["confidence_support_threshold"]:
            return "supported"
        if result["confidence"] <= methodology["confidence_refute_threshold"]:
            return "refuted"
    return "parked" if hypothesis.body["parked"] else "open"


def refold(desks: Desks, tx: Transaction, hypothesis_id: str) -> str:
    """Computes the hypothesis from its ledger, writes what changed, and answers its status."""
    hypothesis = tx.get("hypothesis", hypothesis_id)
    assert hypothesis is not None, hypothesis_id
    rows = _rows(desks, hypothesis_id)
    result = _compute(desks, hypothesis, rows)
    status = _status(desks, hypothesis, result, rows)
    decided = status in ("supported", "refuted")
    label = ["established"] if decided and result.get("established") else []
    body = {
        **hypothesis.body,
        "confidence": result["confidence"],
        "log_odds": result["log_odds"],
        "e_support": result["e_support"],
        "e_refute": result["e_refute"],
        "false_alarm_bound": result["false_alarm_bound"],
        "n_measured": result["n_measured"],
        "evidence_count": len(rows),
        "flags": sorted({flag for part in result["parts"] for flag in part["flags"]}) + label,
        "status": status,
    }
    if body != hypothesis.body:
        tx.put("hypothesis", hypothesis_id, body, expect_revision=hypothesis.revision)
    if status != hypothesis.body["status"]:
        payload = {
            "from": hypothesis.body["status"],
            "to": status,
            "confidence": body["confidence"],
            "false_alarm_bound": body["false_alarm_bound"],
        }
        desks.ctx.emit(tx, "hypothesis_status", hypothesis_id, payload)
        for experiment in tx.find("experiment", hypothesis_id=hypothesis_id):
            desks.experiments.fold(tx, experiment.id, decided=status in ("supported", "refuted"))
    return status


def refold_users_of(desks: Desks, tx: Transaction, baseline_id: str) -> list[str]:
    """Refolds every hypothesis that has an experiment compared with this baseline."""
    users = {
        experiment.body["hypothesis_id"]
        for experiment in tx.find("experiment")
        if experiment.body["design"]["baseline"] == baseline_id and experiment.body["hypothesis_id"]
    }
    for hypothesis_id in sorted(users):
        refold(desks, tx, hypothesis_id)
    return sorted(users)


def add_evidence(desks: Desks, tx: Transaction, hypothesis_id: str, row: Mapping[str, Any]) -> str:
    """Appends a row with the change in log odds that it makes, refolds, and answers its id."""
    hypothesis = tx.get("hypothesis", hypothesis_id)
    assert hypothesis is not None, hypothesis_id
    before = _rows(desks, hypothesis_id)
    number = tx.count("evidence") + 1
    new = {
        "weight": 1.0,
        "run_id": None,
        "experiment_id": None,
        "value": None,
        "actor": desks.ctx.actor,
        **row,
    }
    new |= {
        "id": f"v{number}",
        "no": number,
        "hypothesis_id": hypothesis_id,
        "design_id": new["experiment_id"],
    }
    new["judge"] = new["actor"]
    earlier = _compute(desks, hypothesis, before)["log_odds"]
    later = _compute(desks, hypothesis, [*before, new])["log_odds"]
    id = desks.evidence.append(tx, {**row, "hypothesis_id": hypothesis_id, "log_bayes_factor": later - earlier})
    payload = {"hypothesis_id": hypothesis_id, "kind": row["kind"], "log_bayes_factor": later - earlier}
    desks.ctx.emit(tx, "evidence_added", id, payload)
    refold(desks, tx, hypothesis_id)
    return id

"""The fold: what the ledger says of a hypothesis, computed anew from its rows. No other code writes a confidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from perpetual.lab.experiments import design_key
from perpetual.lab.flows import Desks
from perpetual.lab.flows.cautions import cautions
from perpetual.lab.rights import is_agent
from perpetual.science.evidence import confidence, live_rows
from perpetual.slots.store import Document, Transaction

__all__ = [
    "add_evidence",
    "baseline_values",
    "count_rows",
    "designs_of",
    "folded",
    "oriented",
    "pools_with",
    "predictions_of",
    "refold",
    "refold_users_of",
    "rows_of",
]

_COMPARED = "compared"  # the kept fold of who is compared with what
_FIGURES = ("confidence", "log_odds", "e_support", "e_refute", "false_alarm_bound", "n_measured")
_KEEP_EVERY = 64  # experiments
_FLOOR_DF = 3  # a noise floor with this many degrees of freedom replaces a declared guess
_GUESS_DF = 2.0
# What runs kept back for it must say by themselves before they confirm: as much as all opinions together may.
_CONFIRMING_NATS = math.log(3)
_PREDICTION = ("metric", "direction", "kind", "baseline", "claim", "mde", "paired")
# How far apart results are believed to lie. It is part of what was predicted: wider beliefs, had once the results are
# there, would unsay what speaks against a claim, as narrower ones would overstate what speaks for it.
_SPREAD = ("noise", "tau", "on_crash")
_NEEDS = {
    "full_scale": "past a threshold on proxies only: it needs a run at full scale",
    "confirmation": "past the threshold: it needs a confirmation (propose --confirmation)",
}


def baseline_values(desks: Desks, design: Mapping[str, Any]) -> dict[int, float] | float | None:
    """The number that a design is compared with, or its baseline experiment's values by replicate, or None.

    What extends a baseline adds replicates to it, numbered on; a paired design knows only the seeds that it shares.
    """
    baseline = design["baseline"]
    if not isinstance(baseline, str):
        return None if baseline is None else float(baseline)
    further = [] if design["paired"] else desks.ctx.need("experiment", baseline).body.get("extended_by", [])
    values: dict[int, float] = {}
    for id in (baseline, *further):
        start = max(values, default=0)
        for run in desks.ctx.store.find("run", experiment_id=id):
            value = run.body["metrics"].get(design["metric"])
            if run.body["status"] == "done" and value is not None and _weight(run.body):
                values[start + run.body["replicate"]] = value
    return values


def _weight(run: Mapping[str, Any]) -> float:
    """A seed picked by hand, or a run that touched what judges it, weighs nothing."""
    return 0.0 if run["chosen_seed"] or run["tainted"] else 1.0


def oriented(
    experiment: Document, baseline: dict[int, float] | float | None, rows: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """The design and its rows as the science wants them: differences from the baseline, bigger is better.

    None if they cannot be told yet: no claim, or a baseline that has not run.
    """
    design = experiment.body["design"]
    if design["claim"] is None or baseline is None or baseline == {}:
        return None
    sign = -1.0 if design["direction"] == "min" else 1.0  # some effect, of no direction, is told as it was measured
    model: dict[str, Any]
    if design["kind"] == "binary":
        assert isinstance(baseline, float), experiment.id
        rates = {"mu1": baseline + sign * design["mde"], "mu0": baseline}
        model = {"model": "binary", **rates, "metric": design["metric"], "on_crash": design.get("on_crash")}
        return model, [dict(row) for row in rows]
    if design["claim"] == "any":
        model = {"model": "any", "metric": design["metric"]}
        sampled = {} if design["paired"] else _sampled(baseline)
        return model | sampled, _shifted(rows, baseline, sign, paired=design["paired"])
    model = {
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
    if not design["paired"]:
        model |= _sampled(baseline)
        if model.get("baseline_n", 0) - 1 >= _FLOOR_DF:
            model |= {"s0": None, "nu0": 0.0}  # the floor is measured: S_b carries it, counted once
    return model, _shifted(rows, baseline, sign, paired=design["paired"])


def _sampled(baseline: dict[int, float] | float) -> dict[str, Any]:
    """How well a baseline that was run itself is known; nothing for a number."""
    if not isinstance(baseline, dict):
        return {}
    mean = math.fsum(baseline.values()) / len(baseline)
    # Exactly nil where the seeds made no difference: a rounding error would pass for a tiny measured noise.
    same = len(set(baseline.values())) == 1
    spread = 0.0 if same else math.fsum((value - mean) ** 2 for value in baseline.values())
    return {"baseline_n": len(baseline), "baseline_ss": spread}


def _shifted(
    rows: Sequence[Mapping[str, Any]], baseline: dict[int, float] | float, sign: float, *, paired: bool
) -> list[dict[str, Any]]:
    """The rows with their values as differences from the baseline; paired ones without their partner are left out."""
    shifted = []
    for row in rows:
        against: float | None
        if isinstance(baseline, dict):
            own = baseline.get(row["replicate"])
            against = own if paired else math.fsum(baseline.values()) / len(baseline)
        else:
            against = baseline
        if against is not None and row["value"] is not None:
            shifted.append({**row, "value": sign * (row["value"] - against)})
    return shifted


def designs_of(
    desks: Desks, hypothesis: Document, rows: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], list[Mapping[str, Any]], dict[str, str]]:
    """What `perpetual.science.confidence` takes: the designs that were measured, and the rows in their order.

    A design goes by the id of the experiment that was measured first of those that share it, and its prediction holds
    for all of them: once an implementation was seen, what is predicted of it comes too late, and another metric of it
    says nothing. If all that counts of it is taken back, the next one's holds. Also the sort of each design.
    """
    designs: dict[str, Any] = {}
    sorts: dict[str, str] = {}
    ready: list[Mapping[str, Any]] = [row for row in rows if row["kind"] != "measured"]
    for group in _groups(desks, hypothesis.id, rows).values():
        first = group.first
        told = (*_PREDICTION, *_SPREAD)
        late = {item.id for item in group.members if not _agree(item.body["design"], first.body["design"], told)}
        mute = {item.id for item in group.members if not pools_with(item.body["design"], first.body["design"])}
        own = [row for row in group.rows if row["experiment_id"] not in mute]
        seen = oriented(first, baseline_values(desks, first.body["design"]), own)
        if seen is not None:
            designs[first.id] = seen[0]
            if any(row["experiment_id"] in late for row in group.counting):
                designs[first.id]["told"] = [f"a later prediction of the same command: that of {first.id} holds"]
            sorts[first.id] = _sort(first.body["design"])
            ready += [_pooled(row, first.id) for row in seen[1]]
    ready.sort(key=lambda row: row["no"])
    return designs, ready, sorts


class _Group(NamedTuple):
    """Experiments of one hypothesis that share a design, and what was measured of them."""

    first: Document  # whose prediction holds
    members: list[Document]
    rows: list[Mapping[str, Any]]
    counting: list[Mapping[str, Any]]  # those that stand


def _groups(desks: Desks, hypothesis_id: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, _Group]:
    """The designs of a hypothesis of which something was measured, by their keys."""
    members_of: dict[str, list[Document]] = {}
    for experiment in desks.ctx.store.find("experiment", hypothesis_id=hypothesis_id):
        if experiment.body["design"]["claim"] is not None:  # without one its rows say nothing; there may be thousands
            members_of.setdefault(design_key(experiment.body), []).append(experiment)
    standing = {row["id"] for row in live_rows(rows, hypothesis_id)}
    groups = {}
    for key, members in members_of.items():
        known = {member.id: member for member in members}
        own = [row for row in rows if row["kind"] == "measured" and row["experiment_id"] in known]
        counting = [row for row in own if row["id"] in standing]
        if own:
            groups[key] = _Group(known[(counting or own)[0]["experiment_id"]], members, own, counting)
    return groups


def predictions_of(desks: Desks, hypothesis_id: str) -> dict[str, Document]:
    """By design key, the experiment whose prediction holds for whatever shares its design, once it was measured."""
    groups = _groups(desks, hypothesis_id, rows_of(desks, hypothesis_id))
    return {key: group.first for key, group in groups.items()}


def _compute(desks: Desks, hypothesis: Document, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`perpetual.science.confidence` of the hypothesis, its experiments' designs and these rows."""
    designs, ready, sorts = designs_of(desks, hypothesis, rows)
    methodology = desks.ctx.config.methodology
    config = {
        "support": methodology["confidence_support_threshold"],
        "refute": methodology["confidence_refute_threshold"],
        "alpha": methodology["alpha"],
    }
    return {
        **confidence({"id": hypothesis.id, "prior": hypothesis.body["prior"]}, designs, ready, config),
        "sorts": sorts,
    }


def pools_with(design: Mapping[str, Any], first: Mapping[str, Any]) -> bool:
    """Whether runs of a design say anything under the prediction that was measured first of the same command."""
    if first["paired"]:  # who predicts otherwise does not share the baseline's seeds either
        return _agree(design, first, _PREDICTION)
    return bool(design["metric"] == first["metric"])


def _agree(one: Mapping[str, Any], other: Mapping[str, Any], names: Sequence[str]) -> bool:
    return all(one.get(name) == other.get(name) for name in names)


def _sort(design: Mapping[str, Any]) -> str:
    if design.get("confirmation"):
        return "confirmation"
    return "proxy" if design.get("proxy_of") else "full"


def _pooled(row: Mapping[str, Any], design_id: str) -> dict[str, Any]:
    """The row as one of its design's; the same seed with the same value is the same run, seen again."""
    known = row.get("seed") is not None
    return {**row, "design_id": design_id, **({"content_hash": f"{row['seed']}={row['value']!r}"} if known else {})}


def rows_of(desks: Desks, hypothesis_id: str) -> list[dict[str, Any]]:
    """The hypothesis's ledger, oldest row first, as the fold takes it."""
    rows = []
    for row in desks.ctx.store.find("evidence", hypothesis_id=hypothesis_id):
        body = {**row.body, "id": f"v{row.id}", "no": row.number, "design_id": row.body["experiment_id"]}
        rows.append(_opined(body))
    return rows


def _opined(row: dict[str, Any]) -> dict[str, Any]:
    """The row with whose opinion it is. What an agent sets by hand is one, and all opinions together are bounded."""
    if row["kind"] == "judged":
        return {**row, "judge": row["actor"]}
    return {**row, "bounded": True} if row["kind"] == "manual" and is_agent(row["actor"]) else row


def _status(
    desks: Desks, hypothesis: Document, result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> tuple[str, str | None]:
    """The status, and what a hypothesis past a threshold still needs before it is decided."""
    methodology = desks.ctx.config.methodology
    taken_back = {row["target"] for row in rows if row["kind"] == "retraction"}
    by_hand = [row for row in rows if row["kind"] == "manual" and row.get("verdict") and row["id"] not in taken_back]
    if by_hand and by_hand[-1]["verdict"] != "open":
        return str(by_hand[-1]["verdict"]), None
    needs = None
    if result["n_measured"] >= methodology["min_replicates"]:
        reached = None
        if result["confidence"] >= methodology["confidence_support_threshold"]:
            reached = "supported"
        elif result["confidence"] <= methodology["confidence_refute_threshold"]:
            reached = "refuted"
        if reached is not None:
            needs = _needs(result, reached, confirm=methodology["require_confirmation"])
            if needs is None:
                return reached, None
    return "parked" if hypothesis.body["parked"] else "open", needs


def _needs(result: Mapping[str, Any], reached: str, *, confirm: bool) -> str | None:
    """What is missing before the verdict stands: a key of `_NEEDS`."""
    parts = [part for part in result["parts"] if "design_id" in part]
    sorts = [result["sorts"][part["design_id"]] for part in parts]
    if sorts and all(sort == "proxy" for sort in sorts):
        return "full_scale"
    if confirm and reached == "supported":
        own = [part["log_bayes_factor"] for part, sort in zip(parts, sorts, strict=True) if sort == "confirmation"]
        if math.fsum(own) < _CONFIRMING_NATS:
            return "confirmation"
    return None


def folded(desks: Desks, hypothesis: Document, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All that follows from a hypothesis's ledger: the figures, the status and what it lacks, the flags."""
    result = _compute(desks, hypothesis, rows)
    status, needs = _status(desks, hypothesis, result, rows)
    label = ["established"] if status in ("supported", "refuted") and result.get("established") else []
    label += [_NEEDS[needs]] if needs else []
    return {name: result[name] for name in _FIGURES} | {
        "evidence_count": len(rows),
        "flags": sorted({flag for part in result["parts"] for flag in part["flags"]}) + label,
        "status": status,
        "needs": needs,
    }


def refold(desks: Desks, tx: Transaction, hypothesis_id: str, rows: Sequence[Mapping[str, Any]] | None = None) -> str:
    """Computes the hypothesis from its ledger, writes what changed, and answers its status.

    Args:
        rows: the ledger, where the caller has read it.
    """
    hypothesis = tx.get("hypothesis", hypothesis_id)
    assert hypothesis is not None, hypothesis_id
    desks.ctx.config.refresh()  # under the thresholds of now: who sets one folds anew, and this fold may come after
    rows = rows_of(desks, hypothesis_id) if rows is None else rows
    found = folded(desks, hypothesis, rows)
    status: str = found["status"]
    body = {
        **hypothesis.body,
        "confidence": found["confidence"],
        "log_odds": found["log_odds"],
        "e_support": found["e_support"],
        "e_refute": found["e_refute"],
        "false_alarm_bound": found["false_alarm_bound"],
        "n_measured": found["n_measured"],
        "evidence_count": found["evidence_count"],
        "flags": found["flags"],
        "status": status,
    }
    later = {"needs": found["needs"], "cautions": cautions(desks, hypothesis, rows)}  # which older records do not have
    body |= {name: value for name, value in later.items() if value or name in body}
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
            desks.experiments.fold(tx, experiment.id)
    return status


def refold_users_of(desks: Desks, tx: Transaction, baseline_id: str) -> list[str]:
    """Refolds every hypothesis that has an experiment compared with this baseline, or with what it extends."""
    root = desks.ctx.need("experiment", baseline_id).body.get("extends") or baseline_id
    compared = _users(tx)
    users = sorted({*compared.get(baseline_id, ()), *compared.get(root, ())})
    for hypothesis_id in users:
        refold(desks, tx, hypothesis_id)
    return users


def _users(tx: Transaction) -> dict[str, list[str]]:
    """By baseline experiment, the hypotheses that have an experiment compared with it.

    What an experiment is compared with never changes, so what was found is kept, and only later experiments are looked
    at: reading thousands at each run's end would hold up who waits for it. The kept fold may be dropped.
    """
    total = tx.count("experiment")
    kept = tx.get("fold", _COMPARED)
    state: Mapping[str, Any] = kept.body if kept is not None else {"experiments": 0, "users": {}}
    users = {baseline: [*ids] for baseline, ids in state["users"].items()}
    for number in range(state["experiments"] + 1, total + 1):
        found = tx.get("experiment", f"e{number}")
        baseline, user = (found.body["design"]["baseline"], found.body["hypothesis_id"]) if found else (None, None)
        if isinstance(baseline, str) and user and user not in users.setdefault(baseline, []):
            users[baseline].append(user)
    if total - state["experiments"] >= _KEEP_EVERY:
        tx.put("fold", _COMPARED, {"experiments": total, "users": users})
    return users


def add_evidence(desks: Desks, tx: Transaction, hypothesis_id: str, row: Mapping[str, Any]) -> str:
    """Appends a row with the change in log odds that it makes, refolds, and answers its id."""
    hypothesis = tx.get("hypothesis", hypothesis_id)
    assert hypothesis is not None, hypothesis_id
    before = rows_of(desks, hypothesis_id)
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
    new = _opined(new)
    earlier = _compute(desks, hypothesis, before)["log_odds"]
    moved = _compute(desks, hypothesis, [*before, new])["log_odds"] - earlier
    id = desks.evidence.append(tx, {**row, "hypothesis_id": hypothesis_id, "log_bayes_factor": moved})
    payload = {"hypothesis_id": hypothesis_id, "kind": row["kind"], "log_bayes_factor": moved}
    desks.ctx.emit(tx, "evidence_added", id, payload)
    refold(desks, tx, hypothesis_id, [*before, new])
    return id


def count_rows(desks: Desks, tx: Transaction, hypothesis_id: str, added: int) -> None:
    """What the fold would change after rows without weight: their number, and nothing else.

    Thousands of them come at once, and folding anew after each hundred would read all of them again and again.
    """
    found = tx.get("hypothesis", hypothesis_id)
    assert found is not None, hypothesis_id
    count = found.body["evidence_count"] + added
    tx.put("hypothesis", hypothesis_id, {**found.body, "evidence_count": count}, expect_revision=found.revision)

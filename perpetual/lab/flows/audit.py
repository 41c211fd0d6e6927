"""`store verify`: the store's own files and order, and every derived figure against the ledgers it derives from.

What is derived is computed anew inside a transaction that is then given up: what it would have written is wrong now.
"""

from __future__ import annotations

from typing import Any

from perpetual.errors import PerpetualError
from perpetual.lab.flows import Desks
from perpetual.lab.flows.fold import refold
from perpetual.slots.store import Transaction

__all__ = ["examine"]


class _GivenUp(Exception):
    """Ends the transaction in which nothing may be written."""


def examine(desks: Desks) -> list[str]:
    """What is wrong with the record, each a sentence; nothing is changed."""
    problems = desks.storage.examine()
    if problems:
        return problems  # folds over a broken ledger tell nothing
    try:
        with desks.ctx.store.transaction() as tx:
            problems += _examine_folds(desks, tx)
            problems += _examine_budget(desks)
            raise _GivenUp
    except _GivenUp:
        return problems
    except PerpetualError as problem:
        if problem.code != "not_written":
            raise
        return problems  # a folder that may only be read: nobody could have spoilt what is derived here


def _examine_folds(desks: Desks, tx: Transaction) -> list[str]:
    problems = []
    for hypothesis in tx.find("hypothesis"):
        refold(desks, tx, hypothesis.id)
        problems += _differences("hypothesis", hypothesis.id, hypothesis.body, tx)
    decided = {item.id for item in tx.find("hypothesis") if item.body["status"] in ("supported", "refuted")}
    for experiment in tx.find("experiment"):
        if experiment.body["status"] in ("proposed", "approved", "rejected", "expired") and not tx.find(
            "run", experiment_id=experiment.id
        ):
            continue
        desks.experiments.fold(tx, experiment.id, decided=experiment.body["hypothesis_id"] in decided)
        problems += _differences("experiment", experiment.id, experiment.body, tx)
    return problems


def _differences(kind: str, id: str, before: dict[str, Any], tx: Transaction) -> list[str]:
    found = tx.get(kind, id)
    assert found is not None
    return [
        f"{kind} {id}: its {key} is {before[key]!r}, and the ledger says {value!r}"
        for key, value in found.body.items()
        if key in before and before[key] != value  # what was never folded is not there yet
    ]


def _examine_budget(desks: Desks) -> list[str]:
    """Every run is reserved and settled at most once, and the kept fold is the sum of its rows."""
    problems = []
    seen: set[tuple[str, str]] = set()
    settled: set[str] = set()
    for row in desks.ctx.store.rows("debit"):
        run, kind = row.body["run_id"], row.body["kind"]
        if (run, kind) in seen:
            problems.append(f"debit {row.id}: {run} has a second {kind}")
        if kind == "reserve" and run in settled:
            problems.append(f"debit {row.id}: {run} is reserved after it was settled")
        seen.add((run, kind))
        if kind == "settle":
            settled.add(run)
    kept = desks.ctx.store.get("fold", "budget")
    if kept is not None:
        anew = desks.budget.fold_anew(kept.body["rows"])
        problems += [
            f"the kept budget says {key} {kept.body[key]!r}, and its rows say {value!r}"
            for key, value in anew.items()
            if kept.body[key] != value
        ]
    return problems

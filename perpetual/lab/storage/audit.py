"""`store verify`: the store's own files and order, and every derived figure against the ledgers it derives from.

What is derived is computed anew inside a transaction that is then given up: what it would have written is wrong now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, isclose
from typing import TYPE_CHECKING, Any

from perpetual.errors import PerpetualError
from perpetual.lab.budget import USE, Budget, counted
from perpetual.lab.context import Context
from perpetual.lab.engines.sight import aside_folders
from perpetual.lab.evidence.confidence import refold
from perpetual.lab.kinds import DEBIT, EXPERIMENT, HYPOTHESIS, RUN, LabTransaction
from perpetual.lab.ledger.experiments import ExperimentRecords
from perpetual.lab.runs.time_limit import is_told
from perpetual.lab.storage import Storage
from perpetual.records import LIVE

if TYPE_CHECKING:
    from perpetual.documents.status import Spent
    from perpetual.lab.bodies import DebitBody, RunBody

__all__ = ["examine"]

_HOURS = {"gpu_hours": "GPU-hours", "run_hours": "run-hours"}
_ROUNDING = 1e-9  # sums in another order differ in the last digits


class _GivenUp(Exception):
    """Ends the transaction in which nothing may be written."""


def examine(ctx: Context) -> list[str]:
    """Returns what is wrong with the record, each a sentence; nothing is changed."""
    problems = Storage(ctx).examine()
    if problems:
        return problems  # folds over a broken ledger tell nothing
    try:
        with ctx.store.transaction() as tx:
            problems += _examine_folds(ctx, tx)
            problems += _examine_budget(ctx)
            problems += [
                f"runs/{name} holds the files of another record's run: look into it, then remove it"
                for name in aside_folders(ctx)
            ]
            raise _GivenUp
    except _GivenUp:
        return problems
    except PerpetualError as problem:
        if problem.code != "not_written":
            raise
        return problems  # a read-only folder: what is derived cannot have been spoilt here


def _examine_folds(ctx: Context, tx: LabTransaction) -> list[str]:
    problems = []
    for hypothesis in tx.find(HYPOTHESIS):
        refold(ctx, tx, hypothesis.id)
        problems += _differences("hypothesis", hypothesis.id, hypothesis.body, tx)
    for experiment in tx.find(EXPERIMENT):
        if experiment.body["status"] in ("proposed", "approved", "rejected", "expired") and not tx.find(
            RUN, experiment_id=experiment.id
        ):
            continue
        ExperimentRecords(ctx).fold(tx, experiment.id)
        problems += _differences("experiment", experiment.id, experiment.body, tx)
    return problems


def _differences(kind: str, id: str, before: Mapping[str, object], tx: LabTransaction) -> list[str]:
    found = tx.get(kind, id)
    assert found is not None
    return [
        f"{kind} {id}: its {key} is {before[key]!r}, and the ledger says {value!r}"
        for key, value in found.body.items()
        if key in before and not _is_alike(before[key], value)  # what was never folded is not there yet
    ]


def _is_alike(one: object, other: object) -> bool:
    """Returns whether two figures are the same but for rounding.

    A prior of 0.3 is 0.30000000000000004 once it was folded.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or isclose(one, other, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    return one == other


def _examine_budget(ctx: Context) -> list[str]:
    """Returns what is wrong with the books: runs against rows, sums against rows, the kept fold against both.

    That every row names a run which exists was looked at before.
    """
    runs = {run.id: run.body for run in ctx.store.find(RUN)}
    books: dict[str, list[DebitBody]] = {id: [] for id in runs}
    problems = []
    for row in ctx.store.rows(DEBIT):
        if row.body["kind"] == USE:
            continue
        problems += [f"debit {row.id}: {problem}" for problem in _examine_row(row.body, runs, books)]
        books[row.body["run_id"]].append(row.body)
    for id, run in runs.items():
        problems += [f"budget: {problem}" for problem in _examine_books(id, run, books[id])]
    return [*problems, *_examine_sums(ctx)]


def _examine_row(row: DebitBody, runs: Mapping[str, RunBody], books: Mapping[str, Sequence[DebitBody]]) -> list[str]:
    """Returns what is wrong with a row by itself, or with its coming after those of `books`."""
    id, kind = row["run_id"], row["kind"]
    problems = []
    earlier = [one["kind"] for one in books[id]]
    found_again = bool(runs[id].get("found_again"))  # by its scheduler, after it was taken for lost
    if kind == "reserve" and "reserve" in earlier and not (found_again or is_told(runs[id])):
        problems.append(f"{id} has a second reserve, and it never went past its limit")
    if kind == "reserve" and "settle" in earlier and not found_again:
        problems.append(f"{id} is reserved after it was settled")
    if kind == "settle" and "settle" in earlier:
        problems.append(f"{id} has a second settle")
    if kind == "correct" and "settle" not in earlier:
        problems.append(f"{id} is corrected, and it was not settled")
    if kind == "settle" and "reserve" not in earlier:
        problems.append(f"{id} is settled, and nothing was reserved for it")
    if counted(row) != (row["gpu_hours"], row["run_hours"]):
        problems.append(
            f"{id} has {row['gpu_hours']} GPU-hours and {row['run_hours']} run-hours, which cannot be: the row counts "
            f"as 0; if {id} used more, lower the limit by that: perpetual budget set HOURS"
        )
    problems += [
        f"it is booked on {row[key]}, and {id} belongs to {runs[id][key]}"
        for key in ("experiment_id", "hypothesis_id")
        if row[key] != runs[id].get(key)
    ]
    return problems


def _examine_books(id: str, run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns whether what was booked for a run is what the run says of itself."""
    settled = [row for row in rows if row["kind"] != "reserve"]
    booked = {key: fsum(row[key] for row in settled) for key in _HOURS}
    if run["status"] in LIVE:
        is_held = not settled or (run.get("found_again") and rows[-1]["kind"] == "reserve")
        problems = [] if is_held else [f"{id} is {run['status']}, and its reservation is closed"]
        return problems if rows else [f"{id} is {run['status']}, and nothing is reserved for it"]
    is_adopted = "adopted" in run  # it was paid for where it ran; what is charged here is what the source said
    if not settled or (run.get("found_again") and rows[-1]["kind"] == "reserve"):
        return [] if is_adopted else [f"{id} is {run['status']}, and its reservation is still open"]
    problems = [
        f"{id} was debited {booked[key]!r} {words}, and says {run[key]!r}"
        for key, words in _HOURS.items()
        if booked[key] != run[key] and (len(settled) == 1 or not isclose(booked[key], run[key], abs_tol=_ROUNDING))
    ]
    if run["duration_s"] is not None and not is_adopted:  # unknown of a lost run, whose charge is a bound
        lasted = run["duration_s"] / 3600.0
        gpus = len(run["gpus"])
        due = {"gpu_hours": lasted * gpus, "run_hours": lasted * max(1, gpus)}
        problems += [
            f"{id} lasted {run['duration_s']:g} s on {gpus} GPUs, which is not {run[key]!r} {words}"
            for key, words in _HOURS.items()
            if not isclose(due[key], run[key], rel_tol=_ROUNDING, abs_tol=_ROUNDING)
        ]
    return problems


def _hours_of(line: Spent) -> tuple[float, float]:
    return line["gpu_hours"], line["run_hours"]


def _examine_sums(ctx: Context) -> list[str]:
    shown = Budget(ctx).show()
    spent = {"gpu_hours": shown["spent_gpu_hours"], "run_hours": shown["run_hours"]}
    problems = []
    rows = [row.body for row in ctx.store.rows(DEBIT) if row.body["kind"] not in ("reserve", USE)]
    for key, words in _HOURS.items():
        place = [*_HOURS].index(key)
        sums = {"the settlements": fsum(counted(row)[place] for row in rows)}
        sums["by_experiment"] = fsum(_hours_of(line)[place] for line in shown["by_experiment"].values())
        sums["by_day"] = fsum(_hours_of(line)[place] for line in shown["by_day"].values())
        without = fsum(counted(row)[place] for row in rows if row["hypothesis_id"] is None)
        sums["by_hypothesis"] = fsum(_hours_of(line)[place] for line in shown["by_hypothesis"].values()) + without
        problems += [
            f"the budget says {spent[key]!r} {words}, and {name} add up to {total!r}"
            for name, total in sums.items()
            if not isclose(total, spent[key], rel_tol=_ROUNDING, abs_tol=_ROUNDING)
        ]
    kept = ctx.store.get("fold", "budget")
    if kept is not None:
        anew = Budget(ctx).fold_anew(kept.body["rows"])
        problems += [
            f"the kept budget says {key} {kept.body.get(key)!r}, and its rows say {value!r}"
            for key, value in anew.items()
            if key != "rules" and kept.body.get(key) != value
        ]
    return problems

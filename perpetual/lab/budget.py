"""`lab.budget`: a ledger of reservations and settlements, and the limit that a person set.

Double entry: `reserve` sets a run's worst case aside before it starts, and a further one adds to it where a run is let
go on beyond its limit; one `settle` debits what the run really used, and closes all that was reserved for it. A
`correct` adds to that or takes from it, where how a lost run ended came to be known later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from perpetual.errors import Conflict, CorruptData, Refused
from perpetual.lab.context import Context
from perpetual.lab.kinds import DEBIT, LabTransaction
from perpetual.lab.permissions import person_only
from perpetual.records import Debit, from_json
from perpetual.toolkit.units import finite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perpetual.documents.status import Budget as BudgetDocument
    from perpetual.documents.status import Spent, Totals
    from perpetual.lab.bodies import DebitBody, RunBody

__all__ = ["MOST_HOURS", "Budget", "counted"]

_ROUNDING = 1e-9  # hours: sums of amounts that fit exactly may be off in the last digit
_KEEP_EVERY = 16  # rows
# What a kept fold was computed by: one of other rules is computed anew.
_RULES = 2
# The most that a row can be: a thousand GPUs for a thousand years. Beyond, sums lose what is added to them.
MOST_HOURS = 1e10


class _Fold(TypedDict):
    """The ledger added up: of its first `rows` rows, by the rules of that number."""

    rows: int
    rules: int
    spent_gpu_hours: float
    run_hours: float
    reserved: dict[str, list[float]]  # run -> GPU-hours and run-hours


def counted(row: Mapping[str, object]) -> tuple[float, float]:
    """Returns the (GPU-hours, run-hours) of a row of the ledger: none where it holds what cannot have been used."""
    hours = []
    least = -MOST_HOURS if row["kind"] == "correct" else 0.0
    for key in ("gpu_hours", "run_hours"):
        value = row[key]
        hours.append(float(value) if isinstance(value, int | float) and least <= value <= MOST_HOURS else 0.0)
    return hours[0], hours[1]


_EMPTY: _Fold = {"rows": 0, "rules": _RULES, "spent_gpu_hours": 0.0, "run_hours": 0.0, "reserved": {}}


class Budget:
    """Every run reserves its worst case before it starts and is settled once when it has ended."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def set_limit(self, gpu_hours: float | None) -> Totals:
        """Sets the limit in GPU-hours; None is unlimited. Runs that hold a reservation go on.

        Raises:
            UsageError: for a number that is no amount of hours.
            NotPermitted: under a coding agent's shell: the limit is a person's (see `perpetual.lab.permissions`).
        """
        person_only(self._ctx, "setting the budget")
        return self._set(gpu_hours)

    def begin(self, gpu_hours: float) -> Totals:
        """Sets the first limit of a new project and returns `totals`; an agent may: there is none to loosen.

        Raises:
            Conflict: if a limit was set before.
        """
        with self._ctx.store.transaction() as tx:
            if tx.get("setting", "budget") is not None:
                raise Conflict("the budget has been set before", hint="perpetual budget set HOURS")
            return self._set(gpu_hours)

    def _set(self, gpu_hours: float | None) -> Totals:
        if gpu_hours is not None:
            finite(gpu_hours, "the budget", minimum=0.0)
        with self._ctx.store.transaction() as tx:
            if self.limit_gpu_hours() != gpu_hours:
                tx.put("setting", "budget", {"limit_gpu_hours": gpu_hours})
                self._ctx.emit(tx, "budget_set", "budget", {"limit_gpu_hours": gpu_hours})
        return self.totals()

    def limit_gpu_hours(self) -> float | None:
        """Returns the limit in force, in GPU-hours; None is unlimited."""
        found = self._ctx.store.get("setting", "budget")
        limit: float | None = None if found is None else found.body["limit_gpu_hours"]
        return limit

    def _state(self) -> _Fold:
        """Returns the fold of the whole ledger: a kept fold of its beginning, and the rows since."""
        kept = self._ctx.store.get("fold", "budget")
        if kept is None or (kept.body.get("rules") != _RULES and self._was_miscounted(kept.body["rows"])):
            return self._fold({**_EMPTY}, None)
        body = kept.body
        return self._fold(
            {
                "rows": body["rows"],
                "rules": _RULES,
                "spent_gpu_hours": body["spent_gpu_hours"],
                "run_hours": body["run_hours"],
                "reserved": body["reserved"],
            },
            None,
        )

    def _was_miscounted(self, rows: int) -> bool:
        """Returns whether an earlier version has folded the first rows with what cannot have been used."""
        hours = [(row.body, counted(row.body)) for row in self._ctx.store.rows(DEBIT, limit=rows)]
        return any((body["gpu_hours"], body["run_hours"]) != known for body, known in hours)

    def fold_anew(self, rows: int) -> _Fold:
        """Returns the fold of the ledger's first `rows` rows, from the first one on."""
        return self._fold({**_EMPTY}, rows)

    def _fold(self, state: _Fold, limit: int | None) -> _Fold:
        state["reserved"], state["rules"] = dict(state["reserved"]), _RULES
        for row in self._ctx.store.rows(DEBIT, since=state["rows"], limit=limit):
            body = row.body
            gpu_hours, run_hours = counted(body)
            if body["kind"] == "reserve":
                held = state["reserved"].get(body["run_id"], (0.0, 0.0))
                state["reserved"][body["run_id"]] = [held[0] + gpu_hours, held[1] + run_hours]
            else:
                state["reserved"].pop(body["run_id"], None)
                state["spent_gpu_hours"] += gpu_hours
                state["run_hours"] += run_hours
            state["rows"] = row.number
        return state

    def rows(self, *, limit: int | None = None) -> list[Debit]:
        """Returns the ledger's rows in their order, at most the first `limit`."""
        rows = self._ctx.store.rows(DEBIT, limit=limit)
        return [from_json(Debit, {**row.body, "id": f"d{row.number}"}) for row in rows]

    def totals(self) -> Totals:
        """Returns limit, spent, reserved and left GPU-hours (left is None without a limit), and run-hours used."""
        return self._totals(self._state())

    def _totals(self, state: _Fold) -> Totals:
        limit = self.limit_gpu_hours()
        reserved = sum(gpu for gpu, _ in state["reserved"].values())
        left = None if limit is None else max(0.0, limit - state["spent_gpu_hours"] - reserved)
        return {
            "limit_gpu_hours": limit,
            "spent_gpu_hours": state["spent_gpu_hours"],
            "reserved_gpu_hours": reserved,
            "left_gpu_hours": left,
            "run_hours": state["run_hours"],
        }

    def room_run_hours(self) -> float | None:
        """Returns the run-hours that `max_run_hours` of the methodology leaves to reserve; None without a bound."""
        return self._room_run_hours(self._state())

    def _room_run_hours(self, state: _Fold) -> float | None:
        bound: float | None = self._ctx.config.methodology["max_run_hours"]
        if bound is None:
            return None
        reserved: float = sum(run for _, run in state["reserved"].values())
        return max(0.0, bound - float(state["run_hours"]) - reserved)

    def reserved_for(self, run_id: str) -> tuple[float, float] | None:
        """Returns (GPU-hours, run-hours) that are set aside for a run; None if nothing is, or no longer."""
        held = self._state()["reserved"].get(run_id)
        return None if held is None else (held[0], held[1])

    def show(self) -> BudgetDocument:
        """Returns the totals, and what was spent by experiment, hypothesis and day."""
        by_experiment: dict[str, Spent] = {}
        by_hypothesis: dict[str, Spent] = {}
        by_day: dict[str, Spent] = {}
        for row in self._ctx.store.rows(DEBIT):
            body = row.body
            if body["kind"] == "reserve":
                continue
            lines = (
                (by_experiment, body["experiment_id"]),
                (by_hypothesis, body["hypothesis_id"]),
                (by_day, body["created_at"][:10]),
            )
            for table, key in lines:
                if key is not None:
                    line = table.setdefault(key, {"gpu_hours": 0.0, "run_hours": 0.0, "runs": 0})
                    gpu_hours, run_hours = counted(body)
                    line["gpu_hours"] += gpu_hours
                    line["run_hours"] += run_hours
                    line["runs"] += body["kind"] == "settle"
        return {**self.totals(), "by_experiment": by_experiment, "by_hypothesis": by_hypothesis, "by_day": by_day}

    def reserve(self, tx: LabTransaction, run: RunBody, *, gpu_hours: float, run_hours: float) -> Debit:
        """Sets aside a run's worst case, for which `require_room` has found room in this transaction.

        What is reserved for a run adds up: one that is let go on beyond its limit is charged in the end, whatever is
        left, so its reservation grows without asking for room.
        """
        return self._append(tx, run, "reserve", gpu_hours, run_hours)

    def require_room(self, *, gpu_hours: float, run_hours: float) -> None:
        """Checks that a run's worst case fits the GPU-hours and the run-hours left.

        Raises:
            Refused: with the numbers, if it does not.
        """
        state = self._state()
        left = self._totals(state)["left_gpu_hours"]
        # A run that needs none passes, also where runs beyond their limit have taken more than there was.
        if left is not None and gpu_hours > left + _ROUNDING:
            raise Refused(
                f"the run may need {gpu_hours:.3f} GPU-hours and {left:.3f} are left",
                hint="declare a smaller --wall or --cost, or raise the limit: perpetual budget set HOURS",
                code="budget",
            )
        room = self._room_run_hours(state)
        if room is not None and run_hours > room + _ROUNDING:
            raise Refused(
                f"the run may need {run_hours:.3f} run-hours and {room:.3f} of max_run_hours are left",
                hint="declare a smaller --wall or --cost, or: perpetual methodology set max_run_hours HOURS",
                code="budget",
            )

    def settle(self, tx: LabTransaction, run: RunBody, *, gpu_hours: float, run_hours: float) -> Debit | None:
        """Ends a run's reservation with what it really used; the second time is nothing."""
        rows = tx.find(DEBIT, run_id=run["id"])
        if any(row.body["kind"] == "settle" for row in rows):
            return None
        return self._append(tx, run, "settle", gpu_hours, run_hours)

    def correct(self, tx: LabTransaction, run: RunBody, *, gpu_hours: float, run_hours: float) -> Debit | None:
        """Changes what a settled run was debited to what it really used; None where that is the same.

        What is reserved for it again, since it was found to go on, is closed.
        """
        booked = [counted(row.body) for row in tx.find(DEBIT, run_id=run["id"]) if row.body["kind"] != "reserve"]
        change = [
            used - sum(each) for used, each in zip((gpu_hours, run_hours), zip(*booked, strict=True), strict=True)
        ]
        is_open = self.reserved_for(run["id"]) is not None
        return self._append(tx, run, "correct", *change) if is_open or any(change) else None

    def _append(self, tx: LabTransaction, run: RunBody, kind: str, gpu_hours: float, run_hours: float) -> Debit:
        row: DebitBody = {
            "kind": kind,
            "run_id": run["id"],
            "experiment_id": run["experiment_id"],
            "hypothesis_id": run.get("hypothesis_id"),
            "gpu_hours": gpu_hours,
            "run_hours": run_hours,
            "created_at": self._ctx.now(),
        }
        if counted(row) != (gpu_hours, run_hours):
            raise CorruptData(f"{run['id']} would be booked {gpu_hours} GPU-hours and {run_hours} run-hours")
        number = tx.append(DEBIT, row)
        if number % _KEEP_EVERY == 0:
            # The kept fold only shortens the next reading; it is derived from the rows and may be dropped.
            tx.put("fold", "budget", self._state())
        return from_json(Debit, {**row, "id": f"d{number}"})

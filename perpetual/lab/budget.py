"""`lab.budget`: a ledger of reservations and settlements, and the limit that a person set.

Double entry: `reserve` sets a run's worst case aside before it starts, and a further one adds to it where a run is let
go on beyond its limit; one `settle` debits what the run really used, and closes all that was reserved for it. A
`correct` adds to that or takes from it, where how a lost run ended came to be known later.

A `use` is what a request to a model may take at most, in calls, tokens and US dollars, and a second one of its key
changes that to what it took, on the same calendar day.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, TypedDict

from perpetual.errors import Conflict, CorruptData, NotFound, Refused, UsageError, unknown
from perpetual.lab.context import Context
from perpetual.lab.kinds import DEBIT, KEY, RUN, LabTransaction
from perpetual.lab.methodology import DAILY_CAPS
from perpetual.lab.permissions import person_only
from perpetual.records import Debit, from_json
from perpetual.toolkit.quiet import day_of
from perpetual.toolkit.units import finite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perpetual.documents.status import Budget as BudgetDocument
    from perpetual.documents.status import Spent, Totals
    from perpetual.lab.bodies import DebitBody, RunBody

__all__ = ["MOST_HOURS", "OF_DAY", "USE", "Budget", "counted"]

USE = "use"  # the kind of a row that belongs to no run
OF_DAY = "budget_of_day"  # the code of what a cap for each day refuses
_ROUNDING = 1e-9  # hours: sums of amounts that fit exactly may be off in the last digit
_KEEP_EVERY = 16  # rows
_PAGE = 200  # rows that are read at once, the newest first
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
            elif body["kind"] != USE:
                state["reserved"].pop(body["run_id"], None)
                state["spent_gpu_hours"] += gpu_hours
                state["run_hours"] += run_hours
            state["rows"] = row.number
        return state

    def rows(self, *, limit: int | None = None) -> list[Debit]:
        """Returns the ledger's rows of runs in their order, at most the first `limit`."""
        rows = [row for row in self._ctx.store.rows(DEBIT) if row.body["kind"] != USE][:limit]
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
            "limit_run_hours": self._ctx.config.methodology["max_run_hours"],
        }

    def room_run_hours(self) -> float | None:
        """Returns the run-hours that `max_run_hours` of the methodology leaves to reserve; None without a bound."""
        return self._room_run_hours(self._state())

    def _room_run_hours(self, state: _Fold) -> float | None:
        bound: float | None = self._ctx.config.methodology["max_run_hours"]
        reserved: float = sum(run for _, run in state["reserved"].values())
        return None if bound is None else max(0.0, bound - float(state["run_hours"]) - reserved)

    def room_of_day(self, currency: str) -> float | None:
        """Returns what is left of today's cap on `run_hours`, `calls`, `tokens` or `usd`; None where it has none."""
        if currency not in DAILY_CAPS:
            raise UsageError(unknown("currency", currency, DAILY_CAPS))
        cap: float | None = self._ctx.config.methodology[DAILY_CAPS[currency]]
        return None if cap is None else max(0.0, cap - self.used_of_day(currency))

    def left_of_day(self) -> dict[str, float]:
        """Returns what is left today, by the key of each cap that is set."""
        left = {key: self.room_of_day(currency) for currency, key in DAILY_CAPS.items()}
        return {key: room for key, room in left.items() if room is not None}

    def used_of_day(self, currency: str) -> float:
        """Returns what was used today, by the machine's calendar, and what is reserved."""
        today = day_of(self._ctx.clock())
        if currency != "run_hours":
            return sum(body["uses"].get(currency, 0.0) for body in self._since(today) if body.get("day") == today)
        ended = (body for body in self._since(today) if body["kind"] in ("settle", "correct"))
        # What is adopted was used elsewhere, and on other days.
        own = (body for body in ended if "adopted" not in self._ctx.need(RUN, body["run_id"]).body)
        return sum(run for _, run in self._state()["reserved"].values()) + sum(counted(body)[1] for body in own)

    def _since(self, day: str) -> Iterator[DebitBody]:
        """Yields the rows that were written on that day or later, the newest first."""
        cursor, is_more = None, True
        while is_more:
            page = self._ctx.store.page(DEBIT, limit=_PAGE, cursor=cursor, newest_first=True)
            cursor, is_more = page.next_cursor, page.next_cursor is not None
            for row in page.items:
                if day_of(datetime.fromisoformat(row.body["created_at"])) < day:
                    return
                yield row.body

    def debit(self, key: str, uses: Mapping[str, float]) -> bool:
        """Books what a request may use at most, before it is made; False where its key was booked before.

        It stays booked until `reconcile` says what was used, also where the process dies on the way.

        Args:
            key: any text that names this one request.
            uses: amounts of `calls`, `tokens` and `usd`.

        Raises:
            Refused: with the code `budget_of_day`, where less is left of a cap for the day.
            UsageError: for another currency, or no amount.
        """
        _check_uses(uses)
        with self._ctx.store.transaction() as tx:
            if self._ctx.recall(tx, key, USE) is not None:
                return False
            for currency, amount in uses.items():
                self._require_of_day("the request", currency, amount)
            self._ctx.remember(tx, key, USE, str(self._use(tx, key, day_of(self._ctx.clock()), uses)))
        return True

    def reconcile(self, key: str, uses: Mapping[str, float]) -> bool:
        """Changes what was booked under a key to what was used, on that day; False where that was said before.

        Raises:
            NotFound: where nothing was booked under that key.
            UsageError: as `debit`.
        """
        _check_uses(uses)
        with self._ctx.store.transaction() as tx:
            booked = self._ctx.recall(tx, key, USE)
            if booked is None:
                raise NotFound(f"nothing was booked under {key!r}")
            number, _, is_done = booked.partition(" ")
            if is_done:
                return False
            first = tx.rows(DEBIT, since=int(number) - 1, limit=1)[0].body
            change = {name: uses.get(name, 0.0) - first["uses"].get(name, 0.0) for name in {**first["uses"], **uses}}
            self._use(tx, key, first["day"], change)
            tx.put(KEY, key, {"deed": USE, "made": f"{number} done"})
        return True

    def _use(self, tx: LabTransaction, key: str, day: str, uses: Mapping[str, float]) -> int:
        row = {"kind": USE, "key": key, "day": day, "uses": dict(uses), "gpu_hours": 0.0, "run_hours": 0.0}
        return self._append(tx, {**row, "created_at": self._ctx.now()})

    def _require_of_day(self, what: str, currency: str, amount: float) -> None:
        left, key = self.room_of_day(currency), DAILY_CAPS[currency]
        if left is not None and amount > left + _ROUNDING:
            raise Refused(
                f"{what} may need {amount:.6g} {currency.replace('_', '-')}, and {left:.6g} of {key} are left today",
                hint=f"wait for tomorrow, or: perpetual methodology set {key} AMOUNT",
                code=OF_DAY,
            )

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
            if body["kind"] in ("reserve", USE):
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
        return self._book(tx, run, "reserve", gpu_hours, run_hours)

    def require_room(self, *, gpu_hours: float, run_hours: float) -> None:
        """Checks that a run's worst case fits the GPU-hours and the run-hours left, and those of the day.

        Raises:
            Refused: with the numbers, if it does not; with the code `budget_of_day` where it may tomorrow.
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
        self._require_of_day("the run", "run_hours", run_hours)

    def settle(self, tx: LabTransaction, run: RunBody, *, gpu_hours: float, run_hours: float) -> Debit | None:
        """Ends a run's reservation with what it really used; the second time is nothing."""
        rows = tx.find(DEBIT, run_id=run["id"])
        if any(row.body["kind"] == "settle" for row in rows):
            return None
        return self._book(tx, run, "settle", gpu_hours, run_hours)

    def correct(self, tx: LabTransaction, run: RunBody, *, gpu_hours: float, run_hours: float) -> Debit | None:
        """Changes what a settled run was debited to what it really used; None where that is the same.

        What is reserved for it again, since it was found to go on, is closed.
        """
        booked = [counted(row.body) for row in tx.find(DEBIT, run_id=run["id"]) if row.body["kind"] != "reserve"]
        change = [
            used - sum(each) for used, each in zip((gpu_hours, run_hours), zip(*booked, strict=True), strict=True)
        ]
        is_open = self.reserved_for(run["id"]) is not None
        return self._book(tx, run, "correct", *change) if is_open or any(change) else None

    def _book(self, tx: LabTransaction, run: RunBody, kind: str, gpu_hours: float, run_hours: float) -> Debit:
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
        return from_json(Debit, {**row, "id": f"d{self._append(tx, row)}"})

    def _append(self, tx: LabTransaction, row: Mapping[str, object]) -> int:
        number = tx.append(DEBIT, row)
        if number % _KEEP_EVERY == 0:
            # The kept fold only shortens the next reading; it is derived from the rows and may be dropped.
            tx.put("fold", "budget", self._state())
        return number


def _check_uses(uses: Mapping[str, float]) -> None:
    for name, amount in uses.items():
        if name not in DAILY_CAPS or name == "run_hours":
            raise UsageError(unknown("currency of a request", name, [*DAILY_CAPS][1:]))
        finite(amount, name, minimum=0.0, maximum=1e12)  # a day's sum stays a number

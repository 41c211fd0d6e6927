"""`lab.queue`: the runs that wait."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

from perpetual.errors import Conflict, NotFound, UsageError, unknown
from perpetual.lab.context import Context
from perpetual.lab.experiments.order import all_before
from perpetual.lab.kinds import EXPERIMENT, RUN, RunRow
from perpetual.lab.ledger.experiments import ExperimentRecords
from perpetual.lab.ledger.runs import QUEUE_STATES, RunRecords
from perpetual.lab.ledger.specification import HIGHEST_PRIORITY
from perpetual.lab.permissions import for_agent, is_agent, person_only
from perpetual.lab.runs.order import awaited, group_limits, keep_moving, movers
from perpetual.records import Listing, Run, from_json
from perpetual.toolkit.units import identifier, iso, start_of

if TYPE_CHECKING:
    from perpetual.documents.runs import Place
    from perpetual.lab.kinds import KindName
    from perpetual.slots.store_rows import Body

__all__ = ["Queue"]


def _first(own: int | None, otherwise: int) -> int:
    return otherwise if own is None else own


class Queue:
    """The runs that wait for room."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def state(self) -> str:
        """Returns `running`, `paused` or `draining`."""
        return RunRecords(self._ctx).queue_state()

    def moves(self) -> bool:
        """Returns whether what waits starts by itself: a live run will start it when it ends."""
        if not self._ctx.config["queue_moves"] or self.state() == "paused":
            return False
        return bool(movers(self._ctx, [run for run in RunRecords(self._ctx).live() if run.body["status"] != "queued"]))

    def awaited(self) -> float | None:
        """Returns when what waits moves next: a moment (POSIX seconds), infinity for the end of a run; None is never.

        The moment is the earliest until which a run is stashed.
        """
        return awaited(self._ctx)

    def keep_moving(self) -> None:
        """Has a process at work that starts what waits at the next end or moment; each scan and launch does so."""
        keep_moving(self._ctx)

    def waiting(self, *, limit: int = 100, cursor: str | None = None) -> Listing[Run]:
        """Returns a page of the runs that wait, in the order in which they will be started."""
        from perpetual.lab.runs import start

        shown = self._ctx.redaction.shown_record
        runs = [from_json(Run, shown("run", run.body)) for run in start.waiting(self._ctx)]
        first = start_of(cursor)
        return Listing(tuple(runs[first : first + limit]), str(first + limit) if len(runs) > first + limit else None)

    def places(self, runs: Sequence[Run], *, before: int = 0) -> list[Place]:
        """Returns where each of a page's runs stands, and what it waits for as the last `scan` found it.

        Args:
            runs: what `waiting` has answered.
            before: how many runs stand before the page.

        Returns:
            `{run_id, position, priority, score, waits_for, group, after, stashed, until}` each; runs of one priority
            start by score, then by age.
        """
        experiments = {run.experiment_id: ExperimentRecords(self._ctx).get(run.experiment_id) for run in runs}
        bodies = {id: self._ctx.need(EXPERIMENT, id).body for id in experiments}
        rows = {run.id: self._ctx.need(RUN, run.id).body for run in runs}
        return [
            {
                "run_id": run.id,
                "position": position,
                "priority": _first(rows[run.id].get("priority"), bodies[run.experiment_id]["priority"]),
                "score": experiments[run.experiment_id].score.score,
                "waits_for": run.reason,
                "group": bodies[run.experiment_id].get("group"),
                "after": [*bodies[run.experiment_id].get("after", ())],
                "stashed": rows[run.id].get("stashed") is not None,
                "until": rows[run.id].get("stashed") or None,
            }
            for position, run in enumerate(runs, before + 1)
        ]

    def set_state(self, state: str) -> str:
        """Pauses, drains or resumes the queue.

        Raises:
            UsageError: for an unknown state.
            NotPermitted: where an agent would lift what a person has set; its own pause it lifts.
        """
        if state not in QUEUE_STATES:
            raise UsageError(unknown("state of the queue", state, QUEUE_STATES))
        ctx = self._ctx
        ctx.trust.require("changing the queue")
        with ctx.store.transaction() as tx:
            before, by = RunRecords(self._ctx).queue_set()
            if before != state and before != "running" and not is_agent(by):
                person_only(ctx, f"changing a queue that a person has set to {before}")
            if before != state or (is_agent(by) and not for_agent(ctx)):  # a person may repeat what an agent set
                tx.put("setting", "queue", {"state": state, "by": ctx.actor})
            if before != state:
                ctx.emit(tx, "queue_changed", "queue", {"state": state, "was": before})
        return state

    # --- order ------------------------------------------------------------------------------------------------

    def after(self, id: str, first: Sequence[str]) -> None:
        """Has the runs of an experiment start once others are over: `e3` with success, or `e3:any`; none takes it back.

        Raises:
            UsageError: for another form, or where experiments would wait for one another.
            NotFound: for an experiment that is not there.
        """
        self._ctx.trust.require("changing the queue")
        entries = []
        with self._ctx.store.transaction():  # of two processes the second sees what the first has set
            for text in first:
                other, sign, how = text.partition(":")
                if sign and how != "any":
                    raise UsageError(f"an experiment that comes first is as in e3 or e3:any, not {text!r}")
                other = self._ctx.need(EXPERIMENT, other).id
                if self._ctx.need(EXPERIMENT, id).id in all_before(self._ctx, [other]):
                    hint = f"perpetual experiments {other}"
                    raise UsageError(f"{id} and {other} would wait for one another", hint=hint)
                entries.append(other + sign + how)
            self._refuse_agents(id)
            self._note(EXPERIMENT, id, {"after": [*dict.fromkeys(entries)]})

    def _refuse_agents(self, id: str) -> None:
        if self._ctx.need(EXPERIMENT, id).body["status"] != "proposed":
            person_only(self._ctx, f"changing the order of {id}, which was approved")

    def join(self, id: str, group: str | None) -> None:
        """Puts an experiment's runs into a group, or into none. Raises NotFound for a group that was not made."""
        if group is not None and group not in (known := group_limits(self._ctx)):
            hint = f"perpetual queue group {shlex.quote(group)} --parallel 1 makes it"
            raise NotFound(unknown("group", group, known) if known else f"no group {group!r}", hint=hint)
        self._refuse_agents(id)
        self._note(EXPERIMENT, id, {"group": group})

    def groups(self) -> dict[str, int]:
        """Returns how many runs each group takes at once."""
        return group_limits(self._ctx)

    def set_group(self, name: str, parallel: int) -> None:
        """Makes a group that takes so many runs at once, or changes it; 0 holds it.

        Raises:
            UsageError: for a name or number that does not fit.
            NotPermitted: where an agent would change what a person has set.
        """
        if not (name.isprintable() and 0 < len(name) <= 64) or not 0 <= parallel <= 100_000:
            raise UsageError("a group has a name of 1 to 64 characters, and takes from 0 to 100,000 runs")
        self._ctx.trust.require("changing the queue")
        with self._ctx.store.transaction() as tx:
            found = tx.get("setting", "queue_groups")
            limits = {} if found is None else dict(found.body["limits"])
            if name in limits and not is_agent(str(limits[name][1])):
                person_only(self._ctx, f"changing the group {name} that a person has made")
            tx.put("setting", "queue_groups", {"limits": {**limits, name: [parallel, self._ctx.actor]}})
            self._ctx.emit(tx, "queue_changed", name, {"parallel": parallel})

    def prioritise(self, id: str, priority: int) -> None:
        """Gives a waiting run, or all runs of an experiment, another priority; the higher starts first."""
        if not -HIGHEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
            raise UsageError(f"the priority lies between -{HIGHEST_PRIORITY:,} and {HIGHEST_PRIORITY:,}")
        if identifier(id).startswith("e"):
            self._note(EXPERIMENT, id, {"priority": priority})
            return
        self._need_queued(id)
        self._note(RUN, id, {"priority": priority})

    def stash(self, id: str, *, until: datetime | None = None) -> None:
        """Takes a waiting run out of the order of starting, until `enqueue` or a moment; it keeps its reservation.

        The process that moves the queue waits for that moment: `keep_moving`, or any scan, has it at work.
        """
        id = self._need_queued(id).id
        text = "" if until is None else iso(until.replace(microsecond=0))
        reason = f"it is stashed{' until ' + text if text else ''} (perpetual queue enqueue {id})"
        self._note(RUN, id, {"stashed": text, "stashed_by": self._ctx.actor, "reason": reason})

    def enqueue(self, id: str) -> None:
        """Puts a stashed run back. Raises NotPermitted where an agent would lift what a person has stashed."""
        body = self._need_queued(id).body
        if body.get("stashed") is not None and not is_agent(str(body.get("stashed_by"))):
            person_only(self._ctx, f"putting {id} back, which a person has stashed")
        self._note(RUN, id, {"stashed": None, "reason": None})

    def _need_queued(self, id: str) -> RunRow:
        run = self._ctx.need(RUN, id)
        if run.body["status"] != "queued":
            raise Conflict(f"{run.id} is {run.body['status']} and waits for nothing", hint="perpetual queue")
        return run

    def _note(self, kind: KindName[Body], id: str, values: Mapping[str, object]) -> None:
        self._ctx.trust.require("changing the queue")
        with self._ctx.store.transaction() as tx:
            row = self._ctx.need(kind, id)
            if kind == RUN:
                self._need_queued(id)
            tx.put(str(kind), row.id, {**cast("Mapping[str, object]", row.body), **values})
            shown = {name: value for name, value in values.items() if name not in ("reason", "stashed_by")}
            self._ctx.emit(tx, "queue_changed", row.id, shown)

"""`lab.queue`: the runs that wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.errors import PluginError, UsageError, unknown
from perpetual.lab.context import Context
from perpetual.lab.ledger.experiments import ExperimentRecords
from perpetual.lab.ledger.runs import QUEUE_STATES, RunRecords
from perpetual.lab.permissions import for_agent, is_agent, person_only
from perpetual.records import Listing, Run, from_json
from perpetual.toolkit.units import start_of

if TYPE_CHECKING:
    from perpetual.documents.runs import Place

__all__ = ["Queue"]


class Queue:
    """The runs that wait for room."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def state(self) -> str:
        """Returns `running`, `paused` or `draining`."""
        return RunRecords(self._ctx).queue_state()

    def moves(self) -> bool:
        """Returns whether what waits starts by itself: a live run will start it when it ends."""
        from perpetual.lab.engines.sight import scheduler_for

        if not self._ctx.config["queue_moves"] or self.state() == "paused":
            return False
        live = [run for run in RunRecords(self._ctx).live() if run.body["status"] != "queued"]
        try:
            return any(scheduler_for(self._ctx, run).moves_queue for run in live)
        except PluginError:
            return False

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
            `{run_id, position, priority, score, waits_for}` each; runs of one priority start by score, then by age.
        """
        experiments = {run.experiment_id: ExperimentRecords(self._ctx).get(run.experiment_id) for run in runs}
        return [
            {
                "run_id": run.id,
                "position": position,
                "priority": experiments[run.experiment_id].priority,
                "score": experiments[run.experiment_id].score.score,
                "waits_for": run.reason,
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
                ctx.emit(tx, "queue_changed", "queue", {"state": state})
        return state

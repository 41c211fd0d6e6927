"""`lab.queue`, with the deeds that cross departments attached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perpetual.errors import UsageError, unknown
from perpetual.lab.flows import Desks
from perpetual.lab.rights import for_agent, is_agent, person_only
from perpetual.lab.runs import QUEUE_STATES
from perpetual.records import Listing, Run, from_json
from perpetual.toolkit.units import start_of

__all__ = ["QueueDoor"]


class QueueDoor:
    """`lab.queue`."""

    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    def state(self) -> str:
        """`running`, `paused` or `draining`."""
        return self._desks.runs.queue_state()

    def waiting(self, *, limit: int = 100, cursor: str | None = None) -> Listing[Run]:
        """A page of the runs that wait, in the order in which they will be started."""
        from perpetual.lab.flows import start as _start

        shown = self._desks.ctx.redaction.shown_record
        runs = [from_json(Run, shown("run", run.body)) for run in _start.waiting(self._desks)]
        start = start_of(cursor)
        return Listing(tuple(runs[start : start + limit]), str(start + limit) if len(runs) > start + limit else None)

    def places(self, runs: Sequence[Run], *, before: int = 0) -> list[dict[str, Any]]:
        """Where each of a page's runs stands, and what it waits for as it was when somebody last looked (`scan`).

        Args:
            runs: what `waiting` has answered.
            before: how many runs stand before the page.

        Returns:
            `{run_id, position, priority, score, waits_for}` each; runs of one priority start by score, then by age.
        """
        experiments = {run.experiment_id: self._desks.experiments.get(run.experiment_id) for run in runs}
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
        ctx = self._desks.ctx
        ctx.trust.require("changing the queue")
        with ctx.store.transaction() as tx:
            before, by = self._desks.runs.queue_set()
            if before != state and before != "running" and not is_agent(by):
                person_only(ctx, f"changing a queue that a person has set to {before}")
            if before != state or (is_agent(by) and not for_agent(ctx)):  # a person may repeat what an agent set
                tx.put("setting", "queue", {"state": state, "by": ctx.actor})
            if before != state:
                ctx.emit(tx, "queue_changed", "queue", {"state": state})
        return state

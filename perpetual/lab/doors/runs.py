"""`lab.runs`, with the deeds that cross departments attached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from perpetual.lab.doors.connected import Connected
from perpetual.lab.runs import RunLedger
from perpetual.records import Run, from_json

if TYPE_CHECKING:
    from perpetual.slots.analyser import MetricValue

__all__ = ["RunsDoor"]


class RunsDoor(Connected, RunLedger):
    """`lab.runs`."""

    def launch(self, experiment_id: str, **options: Any) -> list[Run]:
        """See `perpetual.lab.flows.launch.launch`: command, every, seed, gpus, idempotency_key.

        What has ended is recorded first, and what waits goes first.
        """
        from perpetual.lab.flows import launch as _launch
        from perpetual.lab.flows import reconcile as _reconcile

        self._desks.ctx.trust.require(f"running {experiment_id}")
        _reconcile.catch_up(self._desks)
        return _launch.launch(self._desks, experiment_id, **options)

    def plan(self, experiment_id: str, **options: Any) -> dict[str, Any]:
        """What `launch` would do with the same options, or why not, without doing it."""
        from perpetual.lab.flows import launch as _launch

        return _launch.plan(self._desks, experiment_id, **options)

    def retry(self, run_id: str, *, idempotency_key: str | None = None) -> Run:
        """A new attempt of a run that ended without a result, with the same seed."""
        from perpetual.lab.flows import launch as _launch
        from perpetual.lab.flows import reconcile as _reconcile

        self._desks.ctx.trust.require(f"retrying {run_id}")
        _reconcile.catch_up(self._desks)
        return _launch.retry(self._desks, run_id, idempotency_key=idempotency_key)

    def plan_retry(self, run_id: str) -> dict[str, Any]:
        """What `retry` would do, or why not, without doing it."""
        from perpetual.lab.flows import launch as _launch

        return _launch.plan_retry(self._desks, run_id)

    def named(self, ids: Sequence[str]) -> list[Run]:
        """The runs that ids of runs and experiments name; of an experiment the newest attempt of each replicate."""
        from perpetual.lab.flows import wait as _wait

        shown = self._desks.ctx.redaction.shown_record
        return [from_json(Run, shown("run", run.body)) for run in _wait.named(self._desks, ids)]

    def look(self, run_id: str) -> tuple[str, str | None]:
        """A run's status and reason as its supervisor has them now; nothing is recorded."""
        from perpetual.lab.flows import reconcile as _reconcile

        return _reconcile.look(self._desks, run_id)

    def hints(self, run: Run) -> list[str]:
        """Returns ways out of what a run's annotations name, one for each kind that has one."""
        from perpetual.lab.flows import symptoms as _symptoms

        return _symptoms.hints(self._desks, run)

    def provenance(self, run_id: str) -> dict[str, Any]:
        """What a run was started from, as its `provenance.json` has it; see `perpetual.lab.flows.captures`."""
        from perpetual.lab.flows import captures as _captures

        return _captures.provenance(self._desks, run_id)

    def read_metrics(self, run_id: str) -> dict[str, MetricValue]:
        """What the metric readers find of a run now; see `perpetual.lab.flows.measure.read_again`."""
        from perpetual.lab.flows import measure as _measure

        return _measure.read_again(self._desks, run_id)

    def logs(self, run_id: str, **options: Any) -> dict[str, Any]:
        """See `perpetual.lab.flows.logs.logs`: stderr, tail."""
        from perpetual.lab.flows import logs as _logs

        return _logs.logs(self._desks, run_id, **options)

    def stream(self, run_id: str, **options: Any) -> Iterator[str]:
        """See `perpetual.lab.flows.logs.stream`: stderr, tail, follow."""
        from perpetual.lab.flows import logs as _logs

        return _logs.stream(self._desks, run_id, **options)

    def kill(self, run_id: str, *, grace_s: float | None = None) -> Run:
        """Ends a run and its whole process tree, and records it."""
        from perpetual.lab.flows import reconcile as _reconcile

        return from_json(Run, _reconcile.kill(self._desks, run_id, grace_s=grace_s).body)

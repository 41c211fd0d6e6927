"""`lab.runs`: runs, started, watched and ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perpetual.lab.context import Context
from perpetual.lab.ledger.runs import RunRecords
from perpetual.records import Listing, Run, from_json

if TYPE_CHECKING:
    from perpetual.slots.analyser import MetricValue

__all__ = ["Runs"]


class Runs:
    """`lab.runs`."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._records = ctx, RunRecords(ctx)

    def get(self, id: str) -> Run:
        """Returns the run; raises NotFound, naming the nearest ids."""
        return self._records.get(id)

    def list(
        self,
        *,
        status: str | None = None,
        experiment_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Listing[Run]:
        """Returns a page of runs, newest first."""
        return self._records.list(status=status, experiment_id=experiment_id, limit=limit, cursor=cursor)

    def live(self) -> Sequence[Run]:
        """Returns the runs that are queued, launching or running, oldest first."""
        shown = self._ctx.redaction.shown_record
        return [from_json(Run, shown("run", run.body)) for run in self._records.live()]

    def log_dir(self, run_id: str) -> Path:
        """Returns the folder with a run's files."""
        return self._records.log_dir(run_id)

    def launch(
        self,
        experiment_id: str,
        *,
        command: str | None = None,
        every: bool = False,
        seed: int | None = None,
        gpus: Sequence[int] = (),
        idempotency_key: str | None = None,
    ) -> Sequence[Run]:
        """Starts the next missing replicate of an experiment, or all of them: see `perpetual.lab.runs.launch.launch`.

        What has ended is recorded first, and what waits goes first.
        """
        from perpetual.lab.runs import launch, reconcile

        self._ctx.trust.require(f"running {experiment_id}")
        reconcile.catch_up(self._ctx)
        return launch.launch(self._ctx, experiment_id, command=command, every=every, seed=seed, gpus=gpus,
                             idempotency_key=idempotency_key)  # fmt: skip

    def plan(
        self,
        experiment_id: str,
        *,
        command: str | None = None,
        every: bool = False,
        seed: int | None = None,
        gpus: Sequence[int] = (),
    ) -> dict[str, Any]:
        """Returns what `launch` would do with the same options, or raises why not, without doing it."""
        from perpetual.lab.runs import launch

        return launch.plan(self._ctx, experiment_id, command=command, every=every, seed=seed, gpus=gpus)

    def retry(self, run_id: str, *, idempotency_key: str | None = None) -> Run:
        """Starts a new attempt of a run that ended without a result, with the same seed."""
        from perpetual.lab.runs import launch, reconcile

        self._ctx.trust.require(f"retrying {run_id}")
        reconcile.catch_up(self._ctx)
        return launch.retry(self._ctx, run_id, idempotency_key=idempotency_key)

    def plan_retry(self, run_id: str) -> dict[str, Any]:
        """Returns what `retry` would do, or raises why not, without doing it."""
        from perpetual.lab.runs import launch

        return launch.plan_retry(self._ctx, run_id)

    def named(self, ids: Sequence[str]) -> Sequence[Run]:
        """Returns the runs that ids of runs and experiments name; of an experiment each replicate's newest attempt."""
        from perpetual.lab.runs import wait

        shown = self._ctx.redaction.shown_record
        return [from_json(Run, shown("run", run.body)) for run in wait.named(self._ctx, ids)]

    def look(self, run_id: str) -> tuple[str, str | None]:
        """Returns a run's status and reason as its supervisor has them now; records nothing."""
        from perpetual.lab.runs import reconcile

        return reconcile.look(self._ctx, run_id)

    def hints(self, run: Run) -> Sequence[str]:
        """Returns ways out of what a run's annotations name, one for each kind that has one."""
        from perpetual.lab.runs import symptoms

        return symptoms.hints(self._ctx, run)

    def provenance(self, run_id: str) -> dict[str, Any]:
        """Returns what a run was started from, as its `provenance.json` has it.

        See `perpetual.lab.provenance.captures`.
        """
        from perpetual.lab.provenance import captures

        return captures.provenance(self._ctx, run_id)

    def read_metrics(self, run_id: str) -> dict[str, MetricValue]:
        """Returns what the metric readers find of a run now; see `perpetual.lab.runs.measure.read_again`."""
        from perpetual.lab.runs import measure

        return measure.read_again(self._ctx, run_id)

    def logs(self, run_id: str, *, stderr: bool = False, tail: int | None = None, raw: bool = False) -> dict[str, Any]:
        """Returns the end of a run's output; see `perpetual.lab.runs.logs.logs`."""
        from perpetual.lab.runs import logs

        return logs.logs(self._ctx, run_id, stderr=stderr, tail=tail, raw=raw)

    def stream(
        self, run_id: str, *, stderr: bool = False, tail: int | None = None, follow: bool = False, raw: bool = False
    ) -> Iterator[str]:
        """Yields a run's output piece by piece; see `perpetual.lab.runs.logs.stream`."""
        from perpetual.lab.runs import logs

        return logs.stream(self._ctx, run_id, stderr=stderr, tail=tail, follow=follow, raw=raw)

    def kill(self, run_id: str, *, grace_s: float | None = None) -> Run:
        """Ends a run and its whole process tree, and records it."""
        from perpetual.lab.runs import cancel

        return from_json(Run, cancel.kill(self._ctx, run_id, grace_s=grace_s).body)

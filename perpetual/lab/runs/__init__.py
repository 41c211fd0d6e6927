"""`lab.runs`: runs, started, watched and ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from perpetual.lab.context import Context
from perpetual.lab.ledger.runs import RunRecords
from perpetual.records import Listing, Paged, Run, from_json

if TYPE_CHECKING:
    from perpetual.documents.ledger import Leaderboard
    from perpetual.documents.provenance import Provenance
    from perpetual.documents.runs import Logs, RunPlan
    from perpetual.lab.runs.stop_early import Rung
    from perpetual.records.states import RunStatus
    from perpetual.slots.analyser import MetricHistory, MetricValue

__all__ = ["Runs"]


class Runs(Paged[Run]):
    """Runs, one process each: started, watched and ended."""

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
        tag: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Listing[Run]:
        """Returns a page of runs, newest first, as they are now: one that is over is not said to run.

        A run has the tags of its experiment.

        Args:
            status: of the record; None leaves a filter out.
        """
        from perpetual.toolkit.status_file import has_stopped

        folder = str(self._ctx.folder)
        page = self._records.list(status=status, experiment_id=experiment_id, tag=tag, limit=limit, cursor=cursor)
        if not any(run.status == "running" and has_stopped(folder, run.id) for run in page.items):
            return page
        from perpetual.lab.runs.reconcile import as_seen

        seen = [as_seen(self._ctx, run.id, run.status, run.reason) for run in page.items]
        items = [
            replace(run, status=cast("RunStatus", now), reason=why)
            for run, (now, why) in zip(page.items, seen, strict=True)
        ]
        return Listing(tuple(items), page.next_cursor)

    def df(self, *, library: str | None = None) -> Any:
        """Returns a data frame, one row a run with its experiment's parameters and its metrics, newest first.

        Args:
            library: `pandas` or `polars`; None takes pandas where it is installed, else polars.

        Raises:
            PerpetualError: (frames_missing) with the command that installs one, where there is none.
        """
        return self._ctx.part("frames").frame(self._ctx, library)

    def table(
        self,
        *,
        ids: Sequence[str] | None = None,
        sort: str | None = None,
        reverse: bool = False,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        since: str | None = None,
        best: int | None = None,
        tag: str | None = None,
        status: str | None = None,
        hypothesis_id: str | None = None,
    ) -> Leaderboard:
        """Returns experiments with the mean, sd and n of what their runs measured, and their parameters.

        Args:
            ids: these experiments alone; None is all of them.
            sort: a metric (best first by its declared direction), a parameter or a field; `-KEY` turns it round.
            reverse: turns the order round.
            where: an expression such as `lr<0.1 and opt=adam`; see docs/how-to/leaderboard.md.
            columns: the keys that the rows keep; by default the metrics that are declared and what differs.
            since: proposed since then: a time (ISO 8601), or so long ago: `12h`, `7d`.
            best: at most so many rows.
            tag, status, hypothesis_id: only those with it.

        Raises:
            UsageError: for a key, an expression or a time that means nothing, naming the place.
            NotFound: for an id that there is not.
        """
        from perpetual.lab.runs.table import TableSource

        answer: Leaderboard = self._ctx.part("board").table(
            TableSource(self._ctx), ids=ids, sort=sort, reverse=reverse, where=where, columns=columns, since=since,
            best=best, now=self._ctx.clock(), tag=tag, status=status, hypothesis_id=hypothesis_id,
        )  # fmt: skip
        return answer

    def live(self) -> Sequence[Run]:
        """Returns the runs that are queued, launching or running, oldest first."""
        shown = self._ctx.redaction.shown_record
        return [from_json(Run, shown("run", run.body)) for run in self._records.live()]

    def log_dir(self, run_id: str) -> Path:
        """Returns the folder of a run's files, whether it is there or not."""
        return self._records.log_dir(run_id)

    def launch(
        self,
        experiment_id: str,
        *,
        command: str | None = None,
        every: bool = False,
        seed: int | None = None,
        gpus: Sequence[int] = (),
        isolate: bool = False,
        idempotency_key: str | None = None,
    ) -> Sequence[Run]:
        """Starts the next missing replicate of an approved experiment, or `every` one; what must wait is queued.

        Runs that have ended are recorded first, and runs that wait go first. With `every`, runs that the budget holds
        are started and the rest stays missing.

        Args:
            command: for an experiment that has none: typed by a person it completes the specification and approves it.
            seed: picked by hand, which takes the run's weight as evidence away.
            gpus: indices of the GPUs to use, instead of any that are free.
            isolate: these runs start in a copy of the code as it lies now, also where the experiment is not isolated.

        Raises:
            NotPermitted: unless it is approved with the specification that it has.
            Conflict: if no replicate is missing, or `command` differs from the approved one.
            Refused: if the budget does not hold its worst case, or the queue is draining.
            LaunchError: if it can never start here; no run is made.
        """
        from perpetual.lab.runs import launch, reconcile

        self._ctx.trust.require(f"running {experiment_id}")
        reconcile.catch_up(self._ctx)
        return launch.launch(self._ctx, experiment_id, command=command, every=every, seed=seed, gpus=gpus,
                             isolate=isolate, idempotency_key=idempotency_key)  # fmt: skip

    def plan(
        self,
        experiment_id: str,
        *,
        command: str | None = None,
        every: bool = False,
        seed: int | None = None,
        gpus: Sequence[int] = (),
        isolate: bool = False,
    ) -> RunPlan:
        """Returns what `launch` would do with the same arguments, or raises what it would raise, without doing it.

        Returns:
            `{experiment_id, attempt, replicates, seeds, argv, cwd, wall_s, gpu_hours, run_hours, waits_for,
            code_changed}`; the hours are the worst case that each run reserves, `waits_for` what the first of them
            would wait for, or None, and `code_changed` what of the code has changed since the approval, or None; with
            `isolate` also `isolated`, the copy that would be made.
        """
        from perpetual.lab.runs import launch

        return launch.plan(
            self._ctx, experiment_id, command=command, every=every, seed=seed, gpus=gpus, isolate=isolate
        )

    def retry(self, run_id: str, *, idempotency_key: str | None = None) -> Run:
        """Starts a new attempt of a run that ended without a result, with the same seed.

        Raises:
            Conflict: if it has not ended, has a result, or has been retried already.
            NotPermitted, Refused, LaunchError: as `launch`.
        """
        from perpetual.lab.runs import launch, reconcile

        self._ctx.trust.require(f"retrying {run_id}")
        reconcile.catch_up(self._ctx)
        return launch.retry(self._ctx, run_id, idempotency_key=idempotency_key)

    def plan_retry(self, run_id: str) -> RunPlan:
        """Returns what `retry` would do, without doing it, as `plan` answers."""
        from perpetual.lab.runs import launch

        return launch.plan_retry(self._ctx, run_id)

    def named(self, ids: Sequence[str]) -> Sequence[Run]:
        """Returns the runs that ids of runs and experiments name; of an experiment each replicate's newest attempt."""
        from perpetual.lab.runs import wait

        shown = self._ctx.redaction.shown_record
        return [from_json(Run, shown("run", run.body)) for run in wait.named(self._ctx, ids)]

    def look(self, run_id: str) -> tuple[str, str | None]:
        """Returns (status, reason) of a run as its supervisor has them now; records nothing."""
        from perpetual.lab.runs import reconcile

        return reconcile.look(self._ctx, run_id)

    def hints(self, run: Run) -> Sequence[str]:
        """Returns ways out of what a run's annotations name, one for each kind that has one."""
        from perpetual.lab.runs import symptoms

        return symptoms.hints(self._ctx, run)

    def provenance(self, run_id: str) -> Provenance:
        """Returns what a run was started from, with `intact`: whether it is as it was written (None: not known).

        Raises:
            NotFound: if the run has none, saying why.
            CorruptData: if it is there and no JSON.
        """
        from perpetual.lab.provenance import captures

        return captures.provenance(self._ctx, run_id)

    def read_metrics(self, run_id: str) -> dict[str, MetricValue]:
        """Returns what the metric readers find of a run now, as they would for the record; records nothing."""
        from perpetual.lab.runs import measure

        return measure.read_again(self._ctx, run_id)

    def curves(
        self, run_id: str, metrics: Collection[str] = (), *, limit_bytes: int | None = None
    ) -> dict[str, MetricHistory]:
        """Returns the values of a run's metrics (none named: of all) with their steps, of a live run as they are now.

        Args:
            limit_bytes: of a longer file pieces are read, which bounds the cost; None is the readers' own limit.

        Raises:
            PerpetualError: if there is something that no reader can read, as a link in the place of the file.
        """
        from perpetual.lab.runs import measure

        return measure.histories(self._ctx, run_id, metrics, limit_bytes)

    def item_scores(self, run_id: str) -> Sequence[float] | None:
        """Returns the scores of the test items behind a run's metric, as recorded; None where it gave none."""
        from perpetual.lab.kinds import RUN
        from perpetual.toolkit.item_scores import unpack

        packed = self._ctx.need(RUN, run_id).body.get("items")
        return None if packed is None else unpack(packed)

    def logs(self, run_id: str, *, stderr: bool = False, tail: int | None = None, raw: bool = False) -> Logs:
        """Returns the last `tail` lines of a run's output (None: all), at most its last MiB, line ends as newlines.

        Args:
            raw: with the secrets that the run printed; for a person.

        Returns:
            `{run_id, stream, text, truncated}`; `truncated` says that the log holds more than the text.

        Raises:
            NotFound: for an unknown run, or one that has no output yet.
            NotPermitted: for an agent that asks for it raw.
        """
        from perpetual.lab.runs import logs

        return logs.logs(self._ctx, run_id, stderr=stderr, tail=tail, raw=raw)

    def stream(
        self, run_id: str, *, stderr: bool = False, tail: int | None = None, follow: bool = False, raw: bool = False
    ) -> Iterator[str]:
        """Yields a run's output, from its last `tail` lines or its beginning; with `follow` until it has ended.

        Raises:
            NotFound, NotPermitted: as `logs`, before the first piece.
        """
        from perpetual.lab.runs import logs

        return logs.stream(self._ctx, run_id, stderr=stderr, tail=tail, follow=follow, raw=raw)

    def kill(self, run_id: str, *, grace_s: float | None = None) -> Run:
        """Ends a run and its whole process tree; its status is `killed` once the processes are gone.

        Args:
            grace_s: seconds between asking the processes to end and killing them; None is the configured time.

        Raises:
            Conflict: if it has ended.
        """
        from perpetual.lab.runs import cancel

        return from_json(Run, cancel.kill(self._ctx, run_id, grace_s=grace_s).body)

    def rung(self, run_id: str, *, share: float, beside: Sequence[str] = ()) -> Rung | None:
        """Returns where a live run and those beside it stand at one step; None while complete runs tell no length.

        Args:
            share: of the steps of complete runs, at which the step lies where no run of its experiment was stopped yet.
            beside: experiments of one search, its own among them: their runs are its peers.

        Raises:
            Conflict: if it has ended.
            UsageError: if its metric is none that a curve can stand for, or its other values count too.
        """
        from perpetual.lab.runs import stop_early

        return stop_early.rung(self._ctx, run_id, share, beside)

    def stop_early(self, run_id: str, *, step: float, by: str, why: str, beside: Sequence[str] = ()) -> Run:
        """Ends a run whose metric has been logged up to a step; it counts by where its curve stood there.

        Args:
            step: of the metric's axis; the same for all runs of a claim.
            by: what decides it, from the curve up to that step and from earlier runs alone.
            why: in one line.
            beside: as for `rung`.

        Raises:
            Conflict: if it has ended, or too few runs of its claim are complete.
            NotPermitted: for an agent.
            UsageError: if its metric has no value at that step; and as for `rung`.
        """
        from perpetual.lab.runs import stop_early

        return from_json(Run, stop_early.stop_early(self._ctx, run_id, step=step, by=by, why=why, beside=beside).body)

"""Rows of runs: their seeds, folders and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from perpetual.errors import UsageError, unknown
from perpetual.lab.context import Context
from perpetual.lab.engines.sight import folder_of
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow, LabTransaction, RunRow
from perpetual.lab.ledger.tagged import tagged
from perpetual.lab.redaction import CHECKED
from perpetual.records import ENDED, LIVE, GitState, Json, Listing, Run, from_json, to_json
from perpetual.records.states import RunStatus

__all__ = ["QUEUE_STATES", "SEEDS", "STATUSES", "RunRecords", "is_stopped", "seed_of"]

# How many seeds there are. NumPy, PyTorch and readers of JSON in any language take all of them; runs of earlier
# versions keep the larger ones that they have.
SEEDS = 2**31

STATUSES = (*LIVE, *ENDED)
QUEUE_STATES = ("running", "paused", "draining")


def seed_of(project_id: str, group: str, replicate: int) -> int:
    """Returns the seed of a replicate: an integer in [0, 2^31), which follows from the three arguments alone.

    Runs of one seed group (an experiment, or its baseline where the design is paired) share seeds by replicate.
    """
    digest = sha256(f"{project_id}\n{group}\n{replicate}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1  # below SEEDS


class RunRecords:
    """Reads and writes the rows of runs."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def get(self, id: str) -> Run:
        """Returns the run; NotFound names the nearest ids."""
        return from_json(Run, self._ctx.redaction.shown_record("run", self._ctx.need(RUN, id).body))

    def list(
        self,
        *,
        status: str | None = None,
        experiment_id: str | None = None,
        tag: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Listing[Run]:
        """Returns a page of runs, newest first."""
        equals: dict[str, object] = {}
        if status is not None:
            if status not in STATUSES:
                raise UsageError(unknown("status", status, STATUSES))
            equals["status"] = status
        if experiment_id is not None:
            equals["experiment_id"] = self._ctx.need(EXPERIMENT, experiment_id).id
        page = tagged(self._ctx, RUN, tag, archived=True, limit=limit, cursor=cursor, newest_first=True, **equals)
        items = tuple(from_json(Run, self._ctx.redaction.shown_record("run", item.body)) for item in page.items)
        return Listing(items, page.next_cursor)

    def live(self) -> Sequence[RunRow]:
        """Returns the runs that are queued, launching or running, oldest first."""
        # Between two looks a run may go on to the next status, or back to the queue: it is seen, and returned once.
        looks = [self._ctx.store.find(RUN, status=status) for status in (*LIVE, LIVE[0])]
        found = {document.id: document for look in looks for document in look}
        return sorted(found.values(), key=lambda document: document.number)

    def log_dir(self, run_id: str) -> Path:
        """Returns where a run's files are."""
        return folder_of(self._ctx, run_id)

    def create(
        self,
        tx: LabTransaction,
        experiment: ExperimentRow,
        *,
        replicate: int,
        attempt: int,
        seed: int,
        chosen_seed: bool,
        scheduler: str,
        status: RunStatus,
        reason: str | None,
        wanted_gpus: Sequence[int],
        environment: str | None = None,
    ) -> RunRow:
        """Writes a new run, queued or launching."""
        number = tx.count("run") + 1
        run = Run(
            id=f"r{number}",
            experiment_id=experiment.id,
            attempt=attempt,
            replicate=replicate,
            status=status,
            seed=seed,
            scheduler=scheduler,
            native_id=None,
            pid=None,
            gpus=(),
            started_at=None,
            ended_at=None,
            duration_s=None,
            exit_code=None,
            signal=None,
            reason=reason,
            gpu_hours=None,
            run_hours=None,
            metrics={},
            log_dir=f".perpetual/runs/r{number}",
            git=GitState(),
            tainted=False,
        )
        body = {
            **to_json(run),
            CHECKED: True,
            "hypothesis_id": experiment.body["hypothesis_id"],
            "chosen_seed": chosen_seed,
            "wanted_gpus": list(wanted_gpus),
            "environment": environment,
            "created_at": self._ctx.now(),
            "created_by": self._ctx.actor,
            "spec_hash": experiment.body["spec_hash"],
            "analysed": False,
        }
        document = tx.create(RUN, body)
        payload = {"experiment_id": experiment.id, "replicate": replicate, "attempt": attempt, "seed": seed}
        self._ctx.emit(tx, "run_created", document.id, payload)
        return document

    def change(self, tx: LabTransaction, document: RunRow, values: Mapping[str, object]) -> RunRow:
        """Writes changed fields of a run; a new status is an event."""
        body = {**document.body, **values}
        stored = tx.put(RUN, document.id, body, expect_revision=document.revision)
        if body["status"] != document.body["status"]:
            payload = {
                "experiment_id": body["experiment_id"],
                "from": document.body["status"],
                "to": body["status"],
                "reason": body["reason"],
            }
            self._ctx.emit(tx, "run_status", document.id, payload)
        return stored

    def annotate(self, tx: LabTransaction, document: RunRow, added: Sequence[Json]) -> RunRow:
        """Notes beside a run what was seen of it, `{kind, text, source}` each; it decides nothing."""
        return self.change(tx, document, {"annotations": [*document.body.get("annotations", ()), *added]})

    def queue_state(self) -> str:
        """Returns `running`, `paused` (no run is started) or `draining` (queued runs are started, new ones refused)."""
        return self.queue_set()[0]

    def queue_set(self) -> tuple[str, str]:
        """Returns the state of the queue and the actor that set it.

        Empty for a record of an earlier version, which did not say.
        """
        found = self._ctx.store.get("setting", "queue")
        return ("running", "") if found is None else (str(found.body["state"]), str(found.body.get("by", "")))

    def hours(self, document: RunRow, duration_s: float) -> tuple[float, float]:
        """Returns (GPU-hours, run-hours) of a run that lasted `duration_s`."""
        gpus = len(document.body["gpus"])
        return duration_s / 3600.0 * gpus, duration_s / 3600.0 * max(1, gpus)


def is_stopped(run: RunRow) -> bool:
    """Returns whether a run was stopped early, and counts."""
    body = run.body
    is_mute = body["tainted"] or body["chosen_seed"]
    return body["status"] == "killed" and body.get("stopped") is not None and not is_mute

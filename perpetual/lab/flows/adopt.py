"""Adopting: earlier work, read by a plugin from another tool's files, becomes part of the record.

Nothing of it was declared before it was measured, so nothing of it counts: its measured rows weigh 0 and say why, its
experiments are approved by nobody, and a confidence that was typed is a manual row. Records are written some hundred
in a transaction, each with the key that its source gives it: an adoption that was cut off, or is done again over a
source that grew, goes on where it was. The files of a run are put into its folder once its record stands; a folder
that is missing then is made by the next adoption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from perpetual.errors import NotFound, PerpetualError, TransientError
from perpetual.lab.experiments import spec_hash
from perpetual.lab.flows import Desks
from perpetual.lab.flows.adopt_files import Files
from perpetual.lab.flows.fold import count_rows
from perpetual.lab.flows.judge import update as amend
from perpetual.lab.hypotheses import PRIORS, tags_of
from perpetual.lab.redaction import CHECKED
from perpetual.lab.rights import withholds
from perpetual.records import Design, Experiment, GitState, Resources, Run, Score, to_json
from perpetual.slots.store import Transaction
from perpetual.toolkit.adopted import AdoptedExperiment, AdoptedHypothesis, AdoptedNote, AdoptedRun, Skipped
from perpetual.toolkit.lock import FileLock
from perpetual.toolkit.redact import redact_command, redact_value
from perpetual.toolkit.steps import step

__all__ = ["Item", "adopt", "adopted_id"]

Item = AdoptedHypothesis | AdoptedExperiment | AdoptedRun | AdoptedNote | Skipped

TAG = "adopted"
SCHEDULER = "adopted"
_BATCH = 200  # records in one transaction: others wait for the store no longer than that takes
_LISTED = 200  # of what was skipped; the rest is counted
_DEED = "adopt"
_POST_HOC = "measured before it was predicted"
_NO_SCORE = Score(None, None, None, "adopted from earlier work: it was not weighed here")


def adopt(
    desks: Desks,
    items: Iterable[Item],
    *,
    kind: str,
    source: str,
    by: str,
    hypothesis_id: str | None = None,
    charge: bool = False,
    limit: int | None = None,
    dry_run: bool = False,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Takes over what is not in the record yet; items come in the order hypothesis, experiment, run.

    Args:
        kind: of the source, e.g. `mlflow`; the actor of `desks` is `adopt:<kind>`.
        source: its name, as events tell it.
        by: in whose name it is done.
        hypothesis_id: put every experiment under this hypothesis, and make none.
        charge: debit the budget with the GPU-hours that the runs used.
        limit: take over so many new experiments at most.
        dry_run: count, and write nothing.
        progress: called with the number of records seen, after each batch.

    Returns:
        `{hypotheses, experiments, runs, evidence, notes, known: {hypotheses, experiments, runs, notes}, skipped,
        gpu_hours, run_hours, debited_gpu_hours, is_complete, experiments_total}`: counts of what is new and what was
        known already; `experiments_total` counts all that the project has then.

    Raises:
        TransientError: while another adoption into this project goes on.
        NotFound: for an unknown hypothesis, or an item whose hypothesis or experiment was not handed over before it.
    """
    target = None if hypothesis_id is None else desks.ctx.need("hypothesis", hypothesis_id).id
    taking = _Taking(desks, kind, source, by, target, charge)
    if dry_run:
        for batch in _batches(_limited(taking, items, limit), _BATCH):
            taking.count(batch)
            taking.tell(progress)
        return taking.answer()
    desks.ctx.trust.require("adopting")
    lock = FileLock(desks.ctx.folder / "adopt.lock")
    if not lock.acquire(blocking=False):
        raise TransientError("another adoption into this project is going on", hint="wait until it has ended")
    try:
        taking.files.clear()
        for batch in _batches(_limited(taking, items, limit), _BATCH):
            taking.take(batch)
            taking.tell(progress)
    finally:
        taking.files.clear()
        lock.release()
    return taking.answer()


def adopted_id(desks: Desks, kind: str, key: str) -> str | None:
    """The id that a record of that source has here, or None."""
    found = desks.ctx.store.get("key", _name(kind, key))
    return None if found is None else str(found.body["made"])


def _name(kind: str, key: str) -> str:
    return f"adopt:{kind}:{key}"


def _batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    stream = iter(items)
    while batch := [*islice(stream, size)]:
        yield batch


def _limited(taking: _Taking, items: Iterable[Item], limit: int | None) -> Iterator[Item]:
    """The items up to the first new experiment beyond the limit."""
    new = 0
    for item in items:
        if limit is not None and isinstance(item, AdoptedExperiment) and taking.id_of(item.key) is None:
            if new >= limit:
                taking.is_complete = False
                return
            new += 1
        yield item


class _Taking:
    """One adoption under way: what was taken, what was known, what was skipped."""

    def __init__(self, desks: Desks, kind: str, source: str, by: str, target: str | None, charge: bool) -> None:
        self._desks, self._kind, self._source, self._by = desks, kind, source, by
        self._target, self._charge = target, charge
        self._new = dict.fromkeys(("hypotheses", "experiments", "runs", "evidence", "notes"), 0)
        self._known = dict.fromkeys(("hypotheses", "experiments", "runs", "notes"), 0)
        self._skipped: list[dict[str, str]] = []
        self._unlisted = self._seen = 0
        self._hours = {"gpu_hours": 0.0, "run_hours": 0.0, "debited_gpu_hours": 0.0}
        self.files = Files(desks)
        self.is_complete = True

    def answer(self) -> dict[str, Any]:
        """See `adopt`."""
        more = [{"what": f"{self._unlisted} more", "why": "not listed"}] if self._unlisted else []
        return {
            **self._new,
            "known": self._known,
            "skipped": [*self._skipped, *more],
            **self._hours,
            "is_complete": self.is_complete,
            "experiments_total": self._desks.ctx.store.count("experiment"),
        }

    def tell(self, progress: Callable[[int], None] | None) -> None:
        """Says how far it is."""
        if progress is not None:
            progress(self._seen)

    def id_of(self, key: str) -> str | None:
        """The id that a key has here."""
        return adopted_id(self._desks, self._kind, key)

    # --- counting -------------------------------------------------------------------------------------------

    def count(self, batch: Sequence[Item]) -> None:
        """What `take` would do, without doing it; nothing that goes through a gate is judged."""
        for item in batch:
            self._seen += 1
            if isinstance(item, Skipped):
                self._skip(item)
            elif not (isinstance(item, AdoptedHypothesis) and self._target is not None):
                self._note(item, self.id_of(item.key) is None)

    def _note(self, item: Item, is_new: bool) -> None:
        """Counts an item as taken or as known."""
        table = self._new if is_new else self._known
        table[_TABLES[type(item)]] += 1
        if isinstance(item, AdoptedRun):
            self._hours["gpu_hours"] += item.gpu_hours or 0.0
            self._hours["run_hours"] += item.run_hours or 0.0

    def _skip(self, item: Skipped) -> None:
        if len(self._skipped) < _LISTED:
            self._skipped.append({"what": item.what, "why": item.why})
        else:
            self._unlisted += 1

    # --- taking ---------------------------------------------------------------------------------------------

    def take(self, batch: Sequence[Item]) -> None:
        """Writes what is new of a batch, in one transaction, and then the runs' files and the notes."""
        self._seen += len(batch)
        runs = [item for item in batch if isinstance(item, AdoptedRun)]
        laid = {item.key: self.files.lay(item, self.id_of(item.key), n) for n, item in enumerate(runs)}
        made: dict[str, list[str]] = {"hypotheses": [], "experiments": [], "runs": []}
        counted: dict[str, int] = {}
        step("adopt:laid")
        with self._desks.ctx.store.transaction() as tx:
            for item in batch:
                if isinstance(item, AdoptedHypothesis):
                    self._hypothesis(tx, item, made)
                elif isinstance(item, AdoptedExperiment):
                    self._experiment(tx, item, made)
                elif isinstance(item, AdoptedRun):
                    self._run(tx, item, laid[item.key], made, counted)
            for id, rows in counted.items():
                count_rows(self._desks, tx, id, rows)
            if any(made.values()):
                payload = {"source": self._source, "by": self._by, **made, "evidence": sum(counted.values())}
                self._desks.ctx.emit(tx, "work_adopted", self._kind, payload)
        self._new["evidence"] += sum(counted.values())
        step("adopt:written")
        for key, folder in laid.items():
            self.files.place(self.id_of(key), folder)
        for item in batch:
            if isinstance(item, Skipped):
                self._skip(item)
            elif isinstance(item, AdoptedNote):
                self._remember(item)

    def _is_known(self, tx: Transaction, item: AdoptedHypothesis | AdoptedExperiment | AdoptedRun) -> bool:
        """Whether an earlier adoption took it; it is counted either way."""
        earlier = self._desks.ctx.recall(tx, _name(self._kind, item.key), _DEED)
        self._note(item, earlier is None)
        return earlier is not None

    def _hypothesis(self, tx: Transaction, item: AdoptedHypothesis, made: dict[str, list[str]]) -> None:
        if self._target is not None:
            return
        ctx = self._desks.ctx
        if self._is_known(tx, item):
            return
        bound = withholds(ctx)
        low, high = PRIORS
        id = self._desks.hypotheses.add(
            item.statement,
            prior=min(max(item.prior, low), high),
            metric=item.metric,
            direction=item.direction,
            tags=(*item.tags, TAG),
            created_at=item.created_at,
        ).id
        if item.parked:
            amend(self._desks, id, status="parked")
        ctx.remember(tx, _name(self._kind, item.key), _DEED, id)
        made["hypotheses"].append(id)
        verdict = None if bound else item.verdict
        if bound and item.verdict is not None:
            self._skip(Skipped(f"the verdict of {id}", f"that it is {item.verdict} by hand is for a person to say"))
        if not low <= item.prior <= high:
            self._skip(Skipped(f"the prior of {id}", f"{item.prior:g} counts as {min(max(item.prior, low), high):g}"))
        if item.confidence is not None or verdict is not None:
            amend(self._desks, id, confidence=item.confidence, status=verdict, why=item.why)

    def _experiment(self, tx: Transaction, item: AdoptedExperiment, made: dict[str, list[str]]) -> None:
        ctx = self._desks.ctx
        if self._is_known(tx, item):
            return
        record = Experiment(
            id="",
            hypothesis_id=self._target if self._target else self._needed(tx, item.hypothesis),
            title=item.title,
            status="rejected" if item.is_rejected else "proposed",
            command=None if item.command is None else redact_command(item.command),
            cwd=None,
            env={},
            config=redact_value(dict(item.config)),
            notes=item.notes,
            tags=(*tags_of((*item.tags, TAG)),),
            priority=0,
            resources=Resources(gpus=item.gpus, wall_s=ctx.config.methodology["default_wall_s"]),
            design=Design(metric=item.metric, direction=item.direction),
            spec_hash="",
            score=_NO_SCORE,
            runs={},
            proposed_by=ctx.actor,
            approved_by=None,
            created_at=item.created_at or ctx.now(),
        )
        body = {**to_json(record), CHECKED: True}
        body["spec_hash"] = spec_hash(body)
        id = tx.create("experiment", body).id
        payload = {"hypothesis_id": body["hypothesis_id"], "spec_hash": body["spec_hash"], "title": item.title}
        ctx.emit(tx, "experiment_proposed", id, payload)
        ctx.remember(tx, _name(self._kind, item.key), _DEED, id)
        made["experiments"].append(id)

    def _needed(self, tx: Transaction, key: str | None) -> str | None:
        """The id of what an item belongs to."""
        if key is None:
            return None
        found = self._desks.ctx.recall(tx, _name(self._kind, key), _DEED)
        if found is None:
            raise NotFound(f"the source names {key}, which it did not hand over before", hint="its reader is at fault")
        return found

    def _run(
        self,
        tx: Transaction,
        item: AdoptedRun,
        laid: Path | None,
        made: dict[str, list[str]],
        counted: dict[str, int],
    ) -> None:
        desks, ctx = self._desks, self._desks.ctx
        if self._is_known(tx, item):
            return
        experiment = tx.get("experiment", self._needed(tx, item.experiment) or "")
        assert experiment is not None, item.key
        number = tx.count("run") + 1
        metrics, sources = dict(item.metrics), dict(item.sources)
        if not metrics and laid is not None:
            metrics, sources, faults = self.files.measured(item, laid, experiment.body["design"]["metric"])
            for fault in faults:
                self._skip(fault)
        record = Run(
            id=f"r{number}",
            experiment_id=experiment.id,
            attempt=1,
            replicate=1 + sum(experiment.body["runs"].values()),
            status=item.status,
            seed=item.seed,
            scheduler=SCHEDULER,
            native_id=None,
            pid=None,
            gpus=item.gpus,
            started_at=item.started_at,
            ended_at=item.ended_at,
            duration_s=item.duration_s,
            exit_code=item.exit_code,
            signal=None,
            reason=item.reason,
            gpu_hours=item.gpu_hours,
            run_hours=item.run_hours,
            metrics=metrics,
            log_dir=f".perpetual/runs/r{number}",
            git=GitState(item.commit),
            tainted=False,
            annotations=item.annotations,
            # Whoever ran it chose the seed: nothing that is compared with it may lean on it.
            chosen_seed=True,
            metric_sources=sources,
        )
        origin = {"kind": self._kind, "source": self._source, "key": item.key, **item.origin}
        body = {
            **to_json(record),
            "hypothesis_id": experiment.body["hypothesis_id"],
            "wanted_gpus": [],
            "created_at": ctx.now(),
            "created_by": ctx.actor,
            "spec_hash": experiment.body["spec_hash"],
            # It was looked at where it ran: notes about each of its failures would be news of long ago.
            "analysed": True,
            "analysis": [],
            "is_seed_known": item.seed is not None,
            "adopted": origin,
        }
        run = tx.create("run", body)
        told = {"experiment_id": experiment.id, "replicate": record.replicate, "attempt": 1, "seed": record.seed}
        ctx.emit(tx, "run_created", run.id, told)
        ended = {"experiment_id": experiment.id, "from": None, "to": item.status, "reason": item.reason}
        ctx.emit(tx, "run_status", run.id, ended)
        ctx.remember(tx, _name(self._kind, item.key), _DEED, run.id)
        made["runs"].append(run.id)
        desks.experiments.fold(tx, experiment.id)
        if self._charge and item.gpu_hours:
            used = {"gpu_hours": item.gpu_hours, "run_hours": item.run_hours or 0.0}
            desks.budget.reserve(tx, run.body, **used)  # without asking for room: it is spent
            desks.budget.settle(tx, run.body, **used)
            self._hours["debited_gpu_hours"] += item.gpu_hours
        value = metrics.get(experiment.body["design"]["metric"] or "")
        hypothesis_id = experiment.body["hypothesis_id"]
        if item.status == "done" and value is not None and hypothesis_id is not None:
            self._evidence(tx, run.body, experiment.body["design"]["metric"], value, item.seed)
            counted[hypothesis_id] = counted.get(hypothesis_id, 0) + 1

    def _evidence(self, tx: Transaction, run: Mapping[str, Any], metric: str, value: float, seed: int | None) -> None:
        """A row that is shown and does not count."""
        id = self._desks.evidence.append(
            tx,
            {
                "hypothesis_id": run["hypothesis_id"],
                "experiment_id": run["experiment_id"],
                "run_id": run["id"],
                "kind": "measured",
                "metric": metric,
                "value": value,
                "status": "done",
                "weight": 0.0,
                "post_hoc": True,
                "log_bayes_factor": 0.0,
                "replicate": run["replicate"],
                "seed": seed,
                "spec_hash": run["spec_hash"],
                "source": run["metric_sources"].get(metric),
                "reason": _POST_HOC,
            },
        )
        payload = {"hypothesis_id": run["hypothesis_id"], "kind": "measured", "log_bayes_factor": 0.0}
        self._desks.ctx.emit(tx, "evidence_added", id, payload)

    # --- notes ----------------------------------------------------------------------------------------------

    def _remember(self, item: AdoptedNote) -> None:
        """Writes a note through the gates; what they refuse is told, and stays in the source."""
        is_new = self.id_of(item.key) is None
        try:
            answer = self._desks.notes.write(
                item.path, item.text, message=item.message, idempotency_key=f"{_name(self._kind, item.key)}:note"
            )
        except TransientError:
            raise  # not the note's fault: the next adoption takes it
        except PerpetualError as problem:
            self._skip(Skipped(f"note {item.path}", problem.message))
            return
        if is_new:
            with self._desks.ctx.store.transaction() as tx:
                self._desks.ctx.remember(tx, _name(self._kind, item.key), _DEED, answer["path"])
        self._note(item, is_new)


_TABLES: dict[type, str] = {
    AdoptedHypothesis: "hypotheses",
    AdoptedExperiment: "experiments",
    AdoptedRun: "runs",
    AdoptedNote: "notes",
}

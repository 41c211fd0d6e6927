"""Importing: foreign work, which a plugin reads from another tool's files, becomes part of the record.

Nothing of it was declared before it was measured, so nothing of it counts: its measured rows weigh 0 and say why, its
experiments are not approved, and a confidence that was entered by hand is a manual row. Records are written some
hundred in a transaction, each with the key that its source gives it: an import that was cut off, or is repeated over a
source that grew, goes on where it was. The files of a run are put into its folder after its record is written; a
folder that is missing then is made by the next import.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

from perpetual.errors import Conflict, NotFound, PerpetualError, TransientError, UsageError
from perpetual.lab.budget import Budget
from perpetual.lab.context import Context
from perpetual.lab.evidence.confidence import count_rows
from perpetual.lab.evidence.manual import update as amend
from perpetual.lab.hypotheses import Hypotheses
from perpetual.lab.imports.checks import check_record
from perpetual.lab.imports.files import Files
from perpetual.lab.kinds import EXPERIMENT, HYPOTHESIS, KEY, RUN, LabTransaction
from perpetual.lab.ledger.evidence import EvidenceRecords
from perpetual.lab.ledger.experiments import ExperimentRecords, spec_hash
from perpetual.lab.ledger.hypotheses import PRIORS, tags_of
from perpetual.lab.memory import Notes
from perpetual.lab.permissions import withholds
from perpetual.lab.redaction import CHECKED
from perpetual.records import Design, Experiment, GitState, Resources, Run, Score, to_json
from perpetual.slots.redactor import Redactor
from perpetual.toolkit.crashpoints import step
from perpetual.toolkit.import_records import (
    Batch,
    ImportedExperiment,
    ImportedHypothesis,
    ImportedNote,
    ImportedRecord,
    ImportedRun,
    Remark,
    Taken,
)
from perpetual.toolkit.lock import FileLock
from perpetual.toolkit.reserved import is_bundled

__all__ = ["check_batch", "imported_id", "take"]

TAG = "adopted"
SCHEDULER = "adopted"
_BATCH = 200  # records in one transaction: other writers wait for the store no longer than that takes
_LISTED = 200  # remarks; the rest is counted
_DEED = "adopt"
_POST_HOC = "measured before it was predicted"
_NO_SCORE = Score(None, None, None, "adopted from earlier work: it was not weighed here")
_LONGEST = 1_000  # characters of a batch's texts
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,49}")


def check_batch(ctx: Context, batch: Batch) -> None:
    """Raises UsageError for a wrong field of a batch, or a kind that is not its plugin's; NotFound for no plugin."""
    if type(batch) is not Batch:
        raise _bad_batch(f"{type(batch).__name__} is no Batch", hint="perpetual.toolkit.import_records has it")
    given: dict[str, object] = {spec.name: getattr(batch, spec.name) for spec in fields(batch)}
    for name in ("plugin", "kind", "source"):
        text = given[name]
        if not isinstance(text, str) or len(text) > _LONGEST:
            raise _bad_batch(f"{name} is no text", hint=f"it has at most {_LONGEST} characters")
    is_series = isinstance(given["records"], Iterable) and not isinstance(given["records"], str | bytes | Mapping)
    if not isinstance(given["folder"], Path | None) or not is_series:
        raise _bad_batch("folder is a Path or None, and records a series of records", hint="mend the batch")
    for name in ("charge", "dry_run"):
        if type(given[name]) is not bool:
            raise _bad_batch(f"{name} is neither True nor False", hint="mend the batch")
    info = ctx.registry.named(batch.plugin)
    is_own = is_bundled(info.qualified_name)
    owner, _, word = batch.kind.rpartition(".")
    if owner != ("" if is_own else info.name) or not _WORD.fullmatch(word):
        shown = "a bare word" if is_own else f"{info.name}.WORD"
        what = f"the kind of source {ctx.redactor.text(batch.kind)!r} is not the plugin {info.name}'s"
        raise _bad_batch(what, hint=f"name it {shown}")


def _bad_batch(message: str, *, hint: str) -> UsageError:
    return UsageError(message, hint=hint, code="bad_import")


def take(ctx: Context, batch: Batch, *, by: str) -> Taken:
    """Writes the records of a batch that are new; see `ImportsDoor.take`."""
    if batch.dry_run:
        taking = _Taking(ctx, batch, by)
        for rows in _chunks(ctx.redactor, batch.records):
            taking.count(rows)
        return taking.answer()
    ctx.trust.require("adopting")
    lock = FileLock(ctx.folder / "adopt.lock")
    if not lock.acquire(blocking=False):
        raise TransientError("another import into this project is going on", hint="wait until it has ended")
    taking = _Taking(ctx, batch, by)
    try:
        taking.files.clear()
        for rows in _chunks(ctx.redactor, batch.records):
            taking.take(rows)
    finally:
        taking.files.clear()
        lock.release()
    return taking.answer()


def imported_id(ctx: Context, kind: str, key: str) -> str | None:
    """Returns the id that a record of that source has here, or None."""
    found = ctx.store.get(KEY, _name(kind, key))
    return None if found is None else str(found.body["made"])


def _name(kind: str, key: str) -> str:
    return f"adopt:{kind}:{key}"


def _chunks(redactor: Redactor, records: Iterable[ImportedRecord]) -> Iterator[list[ImportedRecord]]:
    """Yields checked records, some hundred at a time."""
    stream = (check_record(redactor, record, row) for row, record in enumerate(records, 1))
    while chunk := [*islice(stream, _BATCH)]:
        yield chunk


class _Taking:
    """One import under way."""

    def __init__(self, ctx: Context, batch: Batch, by: str) -> None:
        self._ctx, self._kind, self._source, self._by = ctx, batch.kind, batch.source, by
        self._charge, self._redactor = batch.charge, ctx.redactor
        self._told = Taken()
        self._counted: dict[str, str] = {}  # key -> noun, of the records that a rehearsal saw
        self.files = Files(ctx, batch.folder)

    def answer(self) -> Taken:
        """Returns the counts."""
        self._told.experiments_total = self._ctx.store.count("experiment")
        return self._told

    def _remark(self, what: str, why: str) -> None:
        if len(self._told.remarks) < _LISTED:
            self._told.remarks.append(Remark(self._redactor.text(what), self._redactor.text(why)))
        else:
            self._told.unlisted_remarks += 1

    def _note(self, item: ImportedRecord, is_new: bool) -> None:
        """Counts a record as taken or as known."""
        noun = _NOUNS[type(item)]
        if is_new:
            setattr(self._told, noun, getattr(self._told, noun) + 1)
        else:
            self._told.known[noun] += 1
        if isinstance(item, ImportedRun):
            self._told.gpu_hours += item.gpu_hours or 0.0
            self._told.run_hours += item.run_hours or 0.0

    # --- counting -------------------------------------------------------------------------------------------

    def count(self, rows: Sequence[ImportedRecord]) -> None:
        """Checks and counts what `take` would write; gates, and the contents of files, are not asked."""
        for item in rows:
            noun = _NOUNS[type(item)]
            made = imported_id(self._ctx, self._kind, item.key)
            earlier = self._counted.get(item.key) if made is None else _noun_of(made)
            if earlier not in (None, noun):
                raise self._other_record(item.key)
            if isinstance(item, ImportedExperiment):
                if item.hypothesis_id is not None:
                    self._ctx.need(HYPOTHESIS, item.hypothesis_id)
                elif item.hypothesis is not None:
                    self._follow(item.key, item.hypothesis, "hypotheses")
            elif isinstance(item, ImportedRun):
                self._follow(item.key, item.experiment, "experiments")
                self.files.check(item)
            elif isinstance(item, ImportedNote) and earlier is None and self._is_taken(item):
                continue
            self._counted[item.key] = noun
            self._note(item, earlier is None)

    def _follow(self, key: str, wanted: str, noun: str) -> None:
        made = imported_id(self._ctx, self._kind, wanted)
        if (self._counted.get(wanted) if made is None else _noun_of(made)) != noun:
            raise self._missing(key, wanted, noun)

    # --- taking ---------------------------------------------------------------------------------------------

    def take(self, rows: Sequence[ImportedRecord]) -> None:
        """Writes the new ones of some records, in one transaction, and then the runs' files and the notes."""
        runs = [item for item in rows if isinstance(item, ImportedRun)]
        laid = {
            item.key: self.files.lay(item, imported_id(self._ctx, self._kind, item.key), n)
            for n, item in enumerate(runs)
        }
        made: dict[str, list[str]] = {"hypotheses": [], "experiments": [], "runs": []}
        counted: dict[str, int] = {}
        step("adopt:laid")
        with self._ctx.store.transaction() as tx:
            for item in rows:
                if isinstance(item, ImportedHypothesis):
                    self._hypothesis(tx, item, made)
                elif isinstance(item, ImportedExperiment):
                    self._experiment(tx, item, made)
                elif isinstance(item, ImportedRun):
                    self._run(tx, item, laid[item.key], made, counted)
            for id, number in counted.items():
                count_rows(self._ctx, tx, id, number)
            if any(made.values()):
                payload = {"source": self._source, "by": self._by, **made, "evidence": sum(counted.values())}
                self._ctx.emit(tx, "work_adopted", self._kind, payload)
        self._told.evidence += sum(counted.values())
        step("adopt:written")
        for key, folder in laid.items():
            self.files.place(imported_id(self._ctx, self._kind, key), folder)
        for item in rows:
            if isinstance(item, ImportedNote):
                self._remember(item)

    def _is_known(self, tx: LabTransaction, item: ImportedHypothesis | ImportedExperiment | ImportedRun) -> bool:
        """Returns whether an earlier import took it; it is counted either way."""
        earlier = self._ctx.recall(tx, _name(self._kind, item.key), _DEED)
        if earlier is not None and _noun_of(earlier) != _NOUNS[type(item)]:
            raise self._other_record(item.key)
        self._note(item, earlier is None)
        return earlier is not None

    def _hypothesis(self, tx: LabTransaction, item: ImportedHypothesis, made: dict[str, list[str]]) -> None:
        ctx = self._ctx
        if self._is_known(tx, item):
            return
        bound = withholds(ctx)
        low, high = PRIORS
        id = (
            Hypotheses(self._ctx)
            .add(
                item.statement,
                prior=min(max(item.prior, low), high),
                metric=item.metric,
                direction=item.direction,
                tags=(*item.tags, TAG),
                created_at=item.created_at,
            )
            .id
        )
        if item.parked:
            amend(self._ctx, id, status="parked")
        ctx.remember(tx, _name(self._kind, item.key), _DEED, id)
        made["hypotheses"].append(id)
        verdict = None if bound else item.verdict
        if bound and item.verdict is not None:
            self._remark(f"the verdict of {id}", f"that it is {item.verdict} by hand is for a person to say")
        if not low <= item.prior <= high:
            self._remark(f"the prior of {id}", f"{item.prior:g} counts as {min(max(item.prior, low), high):g}")
        if item.confidence is not None or verdict is not None:
            amend(self._ctx, id, confidence=item.confidence, status=verdict, why=item.why)

    def _experiment(self, tx: LabTransaction, item: ImportedExperiment, made: dict[str, list[str]]) -> None:
        ctx = self._ctx
        if self._is_known(tx, item):
            return
        record = Experiment(
            id="",
            hypothesis_id=self._hypothesis_of(tx, item),
            title=item.title,
            status="rejected" if item.is_rejected else "proposed",
            command=None if item.command is None else self._redactor.command(item.command),
            cwd=None,
            env={},
            config=self._redactor.values(item.config),
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
        id = tx.create(EXPERIMENT, body).id
        payload = {"hypothesis_id": body["hypothesis_id"], "spec_hash": body["spec_hash"], "title": item.title}
        ctx.emit(tx, "experiment_proposed", id, payload)
        ctx.remember(tx, _name(self._kind, item.key), _DEED, id)
        made["experiments"].append(id)

    def _hypothesis_of(self, tx: LabTransaction, item: ImportedExperiment) -> str | None:
        if item.hypothesis_id is not None:
            return self._ctx.need(HYPOTHESIS, item.hypothesis_id).id
        return None if item.hypothesis is None else self._needed(tx, item.key, item.hypothesis, "hypotheses")

    def _needed(self, tx: LabTransaction, key: str, wanted: str, noun: str) -> str:
        """Returns the id of the record that another one belongs to."""
        found = self._ctx.recall(tx, _name(self._kind, wanted), _DEED)
        if found is None or _noun_of(found) != noun:
            raise self._missing(key, wanted, noun)
        return found

    def _run(
        self,
        tx: LabTransaction,
        item: ImportedRun,
        laid: Path | None,
        made: dict[str, list[str]],
        counted: dict[str, int],
    ) -> None:
        ctx, ctx = self._ctx, self._ctx
        if self._is_known(tx, item):
            return
        experiment = tx.get(EXPERIMENT, self._needed(tx, item.key, item.experiment, "experiments"))
        if experiment is None:
            raise self._missing(item.key, item.experiment, "experiments")
        number = tx.count("run") + 1
        metrics, sources = dict(item.metrics), dict(item.sources)
        if not metrics and laid is not None:
            metrics, sources, faults = self.files.measured(item, laid, experiment.body["design"]["metric"])
            for fault in faults:
                self._remark(f"metrics of {item.key}", fault)
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
            annotations=(*({**one} for one in item.annotations),),
            # The seed was chosen outside the lab: nothing that is compared with it may lean on it.
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
        run = tx.create(RUN, body)
        payload = {"experiment_id": experiment.id, "replicate": record.replicate, "attempt": 1, "seed": record.seed}
        ctx.emit(tx, "run_created", run.id, payload)
        ended = {"experiment_id": experiment.id, "from": None, "to": item.status, "reason": item.reason}
        ctx.emit(tx, "run_status", run.id, ended)
        ctx.remember(tx, _name(self._kind, item.key), _DEED, run.id)
        made["runs"].append(run.id)
        ExperimentRecords(ctx).fold(tx, experiment.id)
        if self._charge and item.gpu_hours:
            used = {"gpu_hours": item.gpu_hours, "run_hours": item.run_hours or 0.0}
            Budget(ctx).reserve(tx, run.body, **used)  # without asking for room: it is spent
            Budget(ctx).settle(tx, run.body, **used)
            self._told.debited_gpu_hours += item.gpu_hours
        metric = experiment.body["design"]["metric"] or ""
        value = metrics.get(metric)
        hypothesis_id = experiment.body["hypothesis_id"]
        if item.status == "done" and value is not None and hypothesis_id is not None:
            self._evidence(tx, run.body, metric, value, item.seed)
            counted[hypothesis_id] = counted.get(hypothesis_id, 0) + 1

    def _evidence(
        self, tx: LabTransaction, run: Mapping[str, Any], metric: str, value: float, seed: int | None
    ) -> None:
        """Writes a row of evidence that is shown and does not count."""
        id = EvidenceRecords(self._ctx).append(
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
        self._ctx.emit(tx, "evidence_added", id, payload)

    # --- notes ----------------------------------------------------------------------------------------------

    def _remember(self, item: ImportedNote) -> None:
        """Writes a note through the gates; one that they refuse is a remark."""
        earlier = imported_id(self._ctx, self._kind, item.key)
        if earlier is not None and _noun_of(earlier) != _NOUNS[ImportedNote]:
            raise self._other_record(item.key)
        is_new = earlier is None
        if is_new and self._is_taken(item):
            return
        try:
            answer = self._ctx.cached(Notes).write(
                item.path, item.text, message=item.message, idempotency_key=f"{_name(self._kind, item.key)}:note"
            )
        except TransientError:
            raise  # not the note's fault: the next import takes it
        except PerpetualError as problem:
            self._remark(f"note {item.path}", problem.message)
            return
        if is_new:
            with self._ctx.store.transaction() as tx:
                self._ctx.remember(tx, _name(self._kind, item.key), _DEED, answer["path"])
        self._note(item, is_new)

    def _is_taken(self, item: ImportedNote) -> bool:
        """Returns whether another note has the path, which then stays as it is; says so."""
        store = self._ctx.store
        if store.get(KEY, f"{_name(self._kind, item.key)}:note") is not None:
            return False  # an import that was cut off wrote it
        try:
            found = self._ctx.cached(Notes).get(item.path)
        except PerpetualError:
            return False  # there is none, or no note can have this path, which writing it says
        who = f"{found.path} is another note, of {found.actor}, and stays as it is"
        self._remark(f"note {item.path}", f"{who}; perpetual memory write takes this one under another path")
        return True

    def _missing(self, key: str, wanted: str, noun: str) -> NotFound:
        return NotFound(
            self._redactor.text(f"{key} names {wanted}, which is none of the {noun} that were imported before"),
            hint="the plugin must hand over hypotheses before experiments, and experiments before runs",
        )

    def _other_record(self, key: str) -> Conflict:
        message = self._redactor.text(f"the key {key} was imported as another record")
        return Conflict(message, hint="a key names one record for ever")


_NOUNS: dict[type, str] = {
    ImportedHypothesis: "hypotheses",
    ImportedExperiment: "experiments",
    ImportedRun: "runs",
    ImportedNote: "notes",
}
_ID = re.compile(r"([her])\d+")


def _noun_of(made: str) -> str:
    """Returns what an id, or the path of a note, names."""
    found = _ID.fullmatch(made)
    return "notes" if found is None else {"h": "hypotheses", "e": "experiments", "r": "runs"}[found[1]]

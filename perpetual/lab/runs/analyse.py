"""Analysing: finished runs put into words, and what was learned written to memory, through the gates."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from perpetual.errors import PerpetualError, Refused
from perpetual.lab.context import Context
from perpetual.lab.kinds import HYPOTHESIS, RUN, HypothesisRow, RunRow
from perpetual.lab.ledger.evidence import EvidenceRecords
from perpetual.lab.ledger.experiments import ExperimentRecords
from perpetual.lab.ledger.hypotheses import HypothesisRecords
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.memory import Notes
from perpetual.records import ENDED, Run, every, from_json
from perpetual.slots.analyser import Analyser
from perpetual.toolkit.contained import limited

__all__ = ["analyse"]

PAGE_ITEMS = 1_000
_Record = TypeVar("_Record")


def analyse(ctx: Context) -> list[str]:
    """Returns every run that has ended and was not analysed.

    Then every verdict that has no note yet. Answers the runs' ids.
    """
    analysers: list[tuple[str, Analyser]] = ctx.parts("analyser")
    done = []
    for run in ctx.store.find(RUN, analysed=False):
        if run.body["status"] in ENDED:
            _analyse_run(ctx, analysers, run)
            done.append(run.id)
    if ctx.config.methodology["memory_write_on_completion"]:
        for status in ("supported", "refuted"):
            for hypothesis in ctx.store.find(HYPOTHESIS, status=status):
                if hypothesis.body.get("noted") != status:
                    _conclude(ctx, analysers, hypothesis)
    return done


def _analyse_run(ctx: Context, analysers: list[tuple[str, Analyser]], run: RunRow) -> None:
    experiment = ExperimentRecords(ctx).get(run.body["experiment_id"])
    hypothesis = HypothesisRecords(ctx).get(experiment.hypothesis_id) if experiment.hypothesis_id else None
    summaries = []
    for name, analyser in analysers:
        try:
            found = limited(name, partial(analyser.analyse, from_json(Run, run.body), experiment, hypothesis))
        except Exception as problem:  # noqa: BLE001 - evidence does not depend on words; the fault is kept where they would be
            summaries.append(f"the analyser {name} failed: {type(problem).__name__}: {problem}")
            continue
        if found is None:
            continue
        summaries.append(found.summary)
        if found.text and ctx.config.methodology["memory_write_on_completion"]:
            _note(ctx, f"{_folder(ctx)}/{run.id}.md", found.text, "failure_pattern", f"analysis:{run.id}")
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        if not fresh.body.get("analysed"):  # else another process was quicker
            RunRecords(ctx).change(tx, fresh, {"analysed": True, "analysis": summaries})
            ExperimentRecords(ctx).fold(tx, experiment.id)


def _conclude(ctx: Context, analysers: list[tuple[str, Analyser]], hypothesis: HypothesisRow) -> None:
    record = HypothesisRecords(ctx).get(hypothesis.id)
    if record.status != hypothesis.body["status"]:
        return  # it was opened again meanwhile, or its verdict has changed: the next look sees it
    evidence = [*every(EvidenceRecords(ctx).list, hypothesis_id=record.id)]
    experiments = [*every(ExperimentRecords(ctx).list, hypothesis_id=record.id)]
    path = f"{_folder(ctx)}/{record.id}.md"
    for name, analyser in analysers:
        try:
            found = limited(name, partial(analyser.conclude, record, evidence, experiments))
        except Exception as problem:  # noqa: BLE001 - as above: a verdict without words is one all the same, and is an event
            _tell_failed(ctx, path, f"the analyser {name} failed: {type(problem).__name__}: {problem}")
            continue
        if found is not None:
            key = f"verdict:{record.id}:{record.status}:{record.evidence_count}"
            _note(ctx, path, found.text, "episodic_case", key)
    with ctx.store.transaction() as tx:
        fresh = ctx.need(HYPOTHESIS, record.id)
        if fresh.body.get("noted") != record.status:
            tx.put(HYPOTHESIS, record.id, {**fresh.body, "noted": record.status}, expect_revision=fresh.revision)


def _folder(ctx: Context) -> str:
    return f"cases/{ctx.now()[:7]}"


def _note(ctx: Context, path: str, text: str, type: str, key: str) -> None:
    try:
        ctx.cached(Notes).write(path, text, type=type, idempotency_key=key)
    except Refused:
        return  # the verdict is on record: a rejected note is kept for audit and never shown
    except PerpetualError as problem:
        # What was learned is in the ledger; the words must not stop the research, and the feed says what is missing.
        _tell_failed(ctx, path, problem.message)


def _tell_failed(ctx: Context, path: str, error: str) -> None:
    with ctx.store.transaction() as tx:
        ctx.emit(tx, "note_failed", path, {"error": error.encode("utf-8", "backslashreplace").decode("utf-8")})

"""Analysing: finished runs put into words."""

from __future__ import annotations

from functools import partial

from perpetual.lab.context import Context
from perpetual.lab.kinds import RUN, RunRow
from perpetual.lab.ledger.experiments import ExperimentRecords
from perpetual.lab.ledger.hypotheses import HypothesisRecords
from perpetual.lab.ledger.runs import RunRecords
from perpetual.records import ENDED, Run, from_json
from perpetual.slots.analyser import Analyser
from perpetual.toolkit.contained import limited

__all__ = ["analyse"]


def analyse(ctx: Context) -> list[str]:
    """Puts every run into words that has ended and was not analysed; returns their ids."""
    analysers: list[tuple[str, Analyser]] = ctx.parts("analyser")
    done = []
    for run in ctx.store.find(RUN, analysed=False):
        if run.body["status"] in ENDED:
            _analyse_run(ctx, analysers, run)
            done.append(run.id)
    return done


def _analyse_run(ctx: Context, analysers: list[tuple[str, Analyser]], run: RunRow) -> None:
    experiment = ExperimentRecords(ctx).get(run.body["experiment_id"])
    hypothesis = HypothesisRecords(ctx).get(experiment.hypothesis_id) if experiment.hypothesis_id else None
    summaries, texts = [], {}
    for name, analyser in analysers:
        try:
            found = limited(name, partial(analyser.analyse, from_json(Run, run.body), experiment, hypothesis))
        except Exception as problem:  # noqa: BLE001 - evidence does not depend on words; the fault is kept where they would be
            summaries.append(f"the analyser {name} failed: {type(problem).__name__}: {problem}")
            continue
        if found is None:
            continue
        summaries.append(found.summary)
        if found.text:
            texts[name] = found.text
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        if not fresh.body.get("analysed"):  # else another process was quicker
            RunRecords(ctx).change(tx, fresh, {"analysed": True, "analysis": summaries})
            ExperimentRecords(ctx).fold(tx, experiment.id)
            if texts:
                ctx.emit(tx, "run_analysed", run.id, {"experiment_id": experiment.id, "texts": texts})

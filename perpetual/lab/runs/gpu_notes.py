"""Notes of a placement on live runs' GPUs, kept beside the runs, each sentence once. Used by `scan`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from perpetual.errors import PluginError
from perpetual.lab.context import Context
from perpetual.lab.engines.placing import Surveys, placement_by, placers, view_of
from perpetual.lab.kinds import RUN, RunRow
from perpetual.lab.ledger.runs import RunRecords
from perpetual.records import Json

__all__ = ["note_gpus"]


def note_gpus(ctx: Context, surveys: Surveys) -> None:
    """Writes what differs from the leases beside the live runs; placements whose runs have GPUs are asked."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for placer in placers(ctx, [run for run in ctx.store.find(RUN, status="running") if run.body["gpus"]]):
        try:
            notes = placement_by(ctx, placer).watch(view_of(ctx, placer), surveys.by(placer))
        except PluginError:
            continue  # the scan names the run whose scheduler is gone
        for note in notes:
            found[note.run_id].append(note.text)
    for run_id, texts in found.items():
        _note(ctx, ctx.need(RUN, run_id), texts)


def _note(ctx: Context, run: RunRow, texts: Sequence[str]) -> None:
    source = ctx.config["gpus"]
    if not _new(run, texts, source):
        return
    with ctx.store.transaction() as tx:
        fresh = ctx.need(RUN, run.id)
        added = _new(fresh, texts, source)
        if fresh.body["status"] != "running" or not added:
            return  # another process was quicker
        RunRecords(ctx).annotate(tx, fresh, added)
        for annotation in added:
            ctx.emit(tx, "run_annotated", run.id, annotation)


def _new(run: RunRow, texts: Sequence[str], source: str) -> list[Json]:
    known = {item["text"] for item in run.body.get("annotations", ()) if item["kind"] == "gpu"}
    return [{"kind": "gpu", "text": text, "source": source} for text in texts if text not in known]

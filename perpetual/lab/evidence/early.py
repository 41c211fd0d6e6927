"""Runs that were stopped early, as the evidence takes them: where they and the complete ones stood at one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.lab.context import Context
from perpetual.lab.evidence.stale import parts_of
from perpetual.lab.kinds import EXPERIMENT, RUN, RunRow
from perpetual.lab.ledger.runs import is_stopped
from perpetual.records import ENDED
from perpetual.science.versions import unlike

if TYPE_CHECKING:
    from perpetual.lab.bodies import DesignBody, Model, StoppedBody
    from perpetual.lab.evidence.stale import Comparison

__all__ = ["Early", "early_of", "stopped_runs", "where"]

_Points = list[tuple[int, float]]  # seed and value at the step where runs were stopped


class Early(NamedTuple):
    """What is known of a design's runs, and of its baseline's, at the step where some were stopped."""

    runs: frozenset[str]  # ids of those that were stopped
    sign: float  # -1 where smaller is better
    stopped: _Points
    rung: _Points
    baseline_stopped: _Points
    baseline_rung: _Points

    def over(self, mean: float) -> Model:
        """Returns them over a baseline's mean, better where larger, as parts of a design."""

        def oriented(found: _Points) -> _Points:
            return [(seed, self.sign * (value - mean)) for seed, value in found]

        return {
            "stopped": oriented(self.stopped),
            "rung": oriented(self.rung),
            "baseline_stopped": oriented(self.baseline_stopped),
            "baseline_rung": oriented(self.baseline_rung),
        }


def stopped_runs(ctx: Context, experiment_ids: Sequence[str], metric: str | None) -> list[RunRow]:
    """Returns the runs stopped early by this metric, at the step of the first, whose replicate gave no value."""
    found: list[RunRow] = []
    for id in experiment_ids:
        if ctx.need(EXPERIMENT, id).body["design"]["metric"] != metric:
            continue  # an experiment's runs are stopped by its own metric, whose values are none of another
        runs = ctx.store.find(RUN, experiment_id=id)
        others = [run for run in runs if run.body["status"] not in ENDED or run.body["status"] == "done"]
        taken = {run.body["replicate"] for run in others}
        found += [run for run in runs if is_stopped(run) and run.body["replicate"] not in taken]
    return [run for run in found if where(run)["step"] == where(found[0])["step"]]


def where(run: RunRow) -> StoppedBody:
    """Returns where a run was stopped; of one that was."""
    found = run.body.get("stopped")
    assert found is not None, run.id
    return found


def early_of(ctx: Context, sources: Sequence[str], design: DesignBody, compared: Sequence[Comparison]) -> Early | None:
    """Returns what is known where runs of a design or of its baseline were stopped early; None where none was.

    What is of another metric or version than the complete runs, or stopped at another step, is not pooled: it is lost.

    Args:
        sources: the experiments whose runs count for it.
        compared: its comparisons.
    """
    if design["kind"] != "gaussian" or len(compared) != 1:
        return None
    own, against = [ctx.need(RUN, id) for row in compared[0].rows if (id := row["run_id"])], compared[0].against
    stopped = _alike(stopped_runs(ctx, sources, design["metric"]), own)
    others = _alike(stopped_runs(ctx, parts_of(ctx, design), design["metric"]), against)
    step = next((where(run)["step"] for run in (*stopped, *others)), None)
    others = [run for run in others if where(run)["step"] == step]
    if step is None:
        return None
    at = {id: value for run in (*stopped, *others) for id, value in where(run)["at_step"].items()}
    return Early(
        frozenset(run.id for run in (*stopped, *others)),
        -1.0 if design["direction"] == "min" else 1.0,
        [(run.body["seed"], where(run)["value"]) for run in stopped],
        [(run.body["seed"], at[run.id]) for run in own if run.id in at],
        [(run.body["seed"], where(run)["value"]) for run in others],
        [(run.body["seed"], at[run.id]) for run in against if run.id in at],
    )


def _alike(stopped: list[RunRow], complete: Sequence[RunRow]) -> list[RunRow]:
    """Returns the stopped runs that are of the version of complete ones; none where nothing is complete."""
    if not complete:
        return []
    version = complete[0].body.get("versions")
    return [run for run in stopped if not unlike(run.body.get("versions"), version)]

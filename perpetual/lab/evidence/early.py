"""Runs that were stopped early, as the evidence takes them: where they and the complete ones stood at one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.lab.context import Context
from perpetual.lab.kinds import RUN, RunRow
from perpetual.records import ENDED

if TYPE_CHECKING:
    from perpetual.lab.bodies import DesignBody, Model, StoppedBody
    from perpetual.lab.evidence.stale import Comparison

__all__ = ["Early", "early_of", "is_stopped", "stopped_runs", "where"]


class Early(NamedTuple):
    """Seeds and values at the step where runs of a design were stopped, in the metric's own direction."""

    runs: frozenset[str]  # ids of those that were stopped
    sign: float  # -1 where smaller is better
    stopped: list[tuple[int, float]]
    rung: list[tuple[int, float]]
    baseline_rung: list[tuple[int, float]]

    def over(self, mean: float) -> Model:
        """Returns them over a baseline's mean, better where larger, as parts of a design."""

        def oriented(found: list[tuple[int, float]]) -> list[tuple[int, float]]:
            return [(seed, self.sign * (value - mean)) for seed, value in found]

        return {
            "stopped": oriented(self.stopped),
            "rung": oriented(self.rung),
            "baseline_rung": oriented(self.baseline_rung),
        }


def stopped_runs(ctx: Context, experiment_ids: Sequence[str]) -> list[RunRow]:
    """Returns the runs that were stopped early, at the step of the first of them, and whose replicate gave no value."""
    found: list[RunRow] = []
    for id in experiment_ids:
        runs = ctx.store.find(RUN, experiment_id=id)
        others = [run for run in runs if run.body["status"] not in ENDED or run.body["status"] == "done"]
        taken = {run.body["replicate"] for run in others}
        found += [run for run in runs if is_stopped(run) and run.body["replicate"] not in taken]
    return [run for run in found if where(run)["step"] == where(found[0])["step"]]


def is_stopped(run: RunRow) -> bool:
    """Returns whether a run was stopped early, and counts."""
    body = run.body
    is_mute = body["tainted"] or body["chosen_seed"]
    return body["status"] == "killed" and body.get("stopped") is not None and not is_mute


def where(run: RunRow) -> StoppedBody:
    """Returns where a run was stopped; of one that was."""
    found = run.body.get("stopped")
    assert found is not None, run.id
    return found


def early_of(ctx: Context, sources: Sequence[str], design: DesignBody, compared: Sequence[Comparison]) -> Early | None:
    """Returns what is known of a design's runs that were stopped early; None where none was.

    Runs of several versions are not pooled, and then those that were stopped are lost.

    Args:
        sources: the experiments whose runs count for it.
        compared: its comparisons.
    """
    runs = stopped_runs(ctx, sources)
    if not runs or design["kind"] != "gaussian" or len(compared) != 1:
        return None
    at = {id: value for run in runs for id, value in where(run)["at_step"].items()}
    own = [ctx.need(RUN, id) for row in compared[0].rows if (id := row["run_id"]) is not None and id in at]
    return Early(
        frozenset(run.id for run in runs),
        -1.0 if design["direction"] == "min" else 1.0,
        [(run.body["seed"], where(run)["value"]) for run in runs],
        [(run.body["seed"], at[run.id]) for run in own],
        [(run.body["seed"], at[run.id]) for run in compared[0].against if run.id in at],
    )

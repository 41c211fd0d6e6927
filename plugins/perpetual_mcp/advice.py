"""Warnings in answers: what an agent would find out too late. Used by `perpetual_mcp.write_tools`.

They hold ids and numbers and quote nothing, so they are this program's own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.toolkit.units import counted
from perpetual_mcp.news import LIVE, shown_seconds

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment

__all__ = ["of_proposal", "of_run"]

_ENOUGH = 3  # replicates that show the spread between seeds at all


def of_proposal(made: Experiment, *, has_wall: bool) -> list[str]:
    """Returns what is to be known of a proposal before a person approves it.

    Args:
        has_wall: the caller has set the time limit.
    """
    design, wall_s = made.design, made.resources.wall_s
    said = []
    is_spread = design.metric is not None and design.kind == "gaussian" and made.extends is None
    if is_spread and design.noise is None and design.runs_of is None and design.replicates < _ENOUGH:
        said.append(
            f"no noise is declared, and {counted(design.replicates, 'replicate')} cannot show how far seeds lie apart: "
            f"{_ENOUGH} or more can, unless the metric does not depend on the seed"
        )
    if not has_wall and wall_s is not None:
        why = (
            "1.5 times the time that its cost declares, 60 s at least"
            if design.cost_run_hours is not None
            else "the default"
        )
        said.append(f'a run is ended after {shown_seconds(wall_s)} ({why}); more={{"wall": "2h"}} sets another limit')
    return said


def of_run(lab: Lab, id: str) -> list[str]:
    """Returns what is to be known as an experiment is run: that what it is compared with is not measured yet."""
    baseline = lab.experiments.get(id).design.baseline
    if not isinstance(baseline, str):
        return []
    found = lab.experiments.get(baseline)
    if found.runs.get("done"):
        return []
    going = sum(found.runs.get(state, 0) for state in LIVE)
    then = f"{counted(going, 'run')} of it {'is' if going == 1 else 'are'} live" if going else "perpetual_run starts it"
    if not going and found.status == "proposed":
        then = "it waits for a person"
    return [f"the baseline {found.id} has no measured run yet, and without one nothing is compared: {then}"]

"""Claims on the runs of another experiment: declared before it runs, they need no runs of their own."""

from __future__ import annotations

from dataclasses import fields, replace

from perpetual.errors import Conflict, UsageError
from perpetual.lab.kinds import ExperimentRow, HypothesisRow
from perpetual.lab.ledger.experiments import require_unseen
from perpetual.lab.ledger.specification import Specification

__all__ = ["OF_A_CLAIM", "taken_over"]

OF_A_CLAIM = {"title", "notes", "tags", "priority", "metric", "direction", "mde", "noise", "tau", "baseline", "paired",
        "items", "baseline_runs", "guards", "kind", "claim", "confirmation", "changes", "runs_of"}  # fmt: skip


def taken_over(source: ExperimentRow, hypothesis: HypothesisRow | None, spec: Specification) -> Specification:
    """Returns a claim with the command of the experiment whose runs it takes.

    Raises:
        UsageError: for a command of its own, without a hypothesis of its own, or for runs that are another's.
        Conflict: if that experiment has run, so that the claim may have been made with its values in view.
    """
    id, body, design = source.id, source.body, source.body["design"]
    given = [
        each.name for each in fields(spec) if each.name not in OF_A_CLAIM and getattr(spec, each.name) != each.default
    ]
    if given:
        raise UsageError(f"a claim on the runs of {id} has its command, and takes no {', '.join(given)}")
    if hypothesis is None or hypothesis.id == body["hypothesis_id"]:
        raise UsageError(f"a claim on the runs of {id} needs a hypothesis of its own", hint="-h HYPOTHESIS, or --guard")
    if design.get("runs_of") or body["command"] is None:
        raise UsageError(f"{id} has no runs of its own", hint=f"--runs-of {design.get('runs_of') or 'EXPERIMENT'}")
    require_unseen(source)
    if body.get("extends") or body["status"] not in ("proposed", "approved"):
        raise Conflict(f"{id} is no experiment that will run anew", hint="propose the claim with a command: new runs")
    return replace(
        spec, command=body["command"], cwd=body["cwd"], env=body["env"], config=body["config"],
        replicates=design["replicates"], cost_run_hours=0.0, stop_rule=design.get("stop_rule"),
        wall_s=body["resources"]["wall_s"],
    )  # fmt: skip

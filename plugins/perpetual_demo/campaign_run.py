"""Running the demo's campaign: a project is set up, its hypotheses registered, and the loop turned until it stops.

Everything has an idempotency key, so a campaign that was cut off goes on where it was when it is started again.
Imported by the command and by the tests that swap its arms.
"""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from perpetual import Lab
from perpetual.api import Conflict
from perpetual.loop import Cycle
from perpetual.toolkit.atomic import write_atomic
from perpetual_daemon.daemon import Daemon, Settings
from perpetual_demo import campaign as data
from perpetual_demo.campaign import Claim

__all__ = ["METHODOLOGY", "open_lab", "register", "turn"]

METHODOLOGY: dict[str, object] = {
    "auto_approve": True,
    "min_information_gain_bits": 0.001,  # else the claim that no replicate decides is parked as soon as that shows
    "auto_propose": False,  # it is what it registers, so that it comes out the same however it was interrupted
    "max_concurrent_runs": data.MAX_CONCURRENT_RUNS,
    "min_replicates": data.MIN_REPLICATES,
    "confidence_support_threshold": data.SURE,
    "confidence_refute_threshold": round(1 - data.SURE, 6),
    "kill_grace_s": 2.0,
}


def open_lab(folder: Path) -> Lab:
    """Opens the demo's project in `folder`, made if it is not there, with the training script as the user's own file.

    Raises:
        Conflict: if the folder holds another project, or another `train.py`.
    """
    script = Path(__file__).with_name("train.py").read_bytes()
    target = folder / "train.py"
    if target.exists() and target.read_bytes() != script and not (folder / ".perpetual").exists():
        raise Conflict(f"{target} is not the demo's", hint="give the demo a folder of its own: perpetual demo DIR")
    lab = Lab.init(folder, name="perpetual-demo", project_id=data.FIXED_PROJECT_ID, methodology=METHODOLOGY)
    if lab.config.project_id != data.FIXED_PROJECT_ID:
        lab.close()
        raise Conflict(f"{folder} holds another project", hint="give the demo a folder of its own: perpetual demo DIR")
    if not target.exists():
        write_atomic(target, script, mode=0o644)
    return lab


def register(lab: Lab, claims: Sequence[Claim], *, replicates: int = data.REPLICATES) -> None:
    """Writes down hypotheses, baselines and treatments; what is there already stays as it is."""
    for claim in claims:
        hypothesis = lab.hypotheses.add(
            claim.statement,
            metric=data.METRIC,
            direction=data.DIRECTION,
            mde=claim.mde,
            tags=("demo",),
            idempotency_key=f"demo:{claim.key}:hypothesis",
        )
        baseline = lab.experiments.propose(
            command=_command(claim.baseline),
            title=f"baseline: {claim.baseline}",
            metric=data.METRIC,
            direction=data.DIRECTION,
            replicates=replicates,
            cost_run_hours=data.COST_RUN_HOURS,
            idempotency_key=f"demo:{claim.key}:baseline",
        )
        lab.experiments.propose(
            hypothesis.id,
            command=_command(claim.treatment),
            title=claim.treatment,
            baseline=baseline.id,
            paired=claim.paired,
            replicates=replicates,
            cost_run_hours=data.COST_RUN_HOURS,
            idempotency_key=f"demo:{claim.key}:treatment",
        )


def _command(arguments: str) -> str:
    return f"{shlex.quote(sys.executable)} train.py {arguments}"


def turn(lab: Lab, watch: Callable[[Cycle], None], *, max_cycles: int = 10_000) -> Cycle:
    """Has the daemon turn the loop in this process until it stops, showing each cycle to `watch`; answers the last one.

    Without the lock of the service: a second demo in the same folder may help the first, and an agent may watch one.
    """
    cycles: list[Cycle] = []

    def seen(done: Cycle) -> None:
        cycles[:] = [done]
        watch(done)

    daemon = Daemon(Settings(max_cycles=max_cycles), report=seen)
    daemon.run(lab, threading.Event())
    if daemon.end is None or daemon.end.reason == "max_cycles":
        raise Conflict(f"the campaign did not stop within {max_cycles} cycles")
    return replace(cycles[-1], reason=daemon.end.reason, explanation=daemon.end.explanation)

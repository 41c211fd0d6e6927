"""`make bench`: what a report of 1,000 runs costs, written as Markdown and as HTML, and verified.

A process each, as a user types it; wall and CPU seconds (user and system), the best of the rounds. The goal is of CPU
time, which depends least on what else the machine does: a report is one thread. Nothing here is a test: a figure over
its goal is said, not failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from perpetual import Lab
from perpetual.lab.budget import Budget
from perpetual.lab.evidence.confidence import add_evidence
from perpetual.lab.kinds import EXPERIMENT, LabTransaction
from perpetual.lab.ledger.runs import RunRecords
from perpetual.toolkit.agents import AGENT_VARIABLES

if TYPE_CHECKING:
    from perpetual.lab.bodies import NewEvidence

ROUNDS = 3
GOAL_S = 5.0
_ARMS = 4  # experiments of a hypothesis, its baseline among them
_REPLICATES = 5
_CLEARED = ("PYTHONDONTWRITEBYTECODE", "PERPETUAL_PROJECT", "PERPETUAL_OUTPUT", *AGENT_VARIABLES)


class Row(NamedTuple):
    """One line of the table."""

    command: str
    wall_s: float
    cpu_s: float
    goal_s: float | None


def project(folder: Path, runs: int) -> None:
    """Writes a project as a campaign leaves it, without processes: runs with logs, debits, evidence and events."""
    random.seed(1)
    methodology = {"auto_analyze": False, "memory_write_on_completion": False}
    with Lab.init(folder, name="bench", methodology=methodology) as lab:
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        for number in range(max(1, runs // (_ARMS * _REPLICATES))):
            base = lab.experiments.propose(command=f"python train.py --base {number}", metric="loss", direction="min",
                                           replicates=_REPLICATES, cost_run_hours=0.1)  # fmt: skip
            claim = lab.hypotheses.add(f"idea {number} lowers the loss", metric="loss", direction="min", mde=0.1,
                                       baseline=base.id)  # fmt: skip
            arms = [base.id]
            for arm in range(1, _ARMS):
                made = lab.experiments.propose(claim.id, command=f"python train.py --idea {number} --arm {arm}",
                                               replicates=_REPLICATES, cost_run_hours=0.1)  # fmt: skip
                arms.append(made.id)
            effect = random.choice((0.0, 0.05, 0.15))
            for arm, id in enumerate(arms):
                lab.experiments.approve(id)
                with lab.context.store.transaction() as tx:
                    for replicate in range(1, _REPLICATES + 1):
                        moment += timedelta(minutes=3)
                        loss = 2.0 - (effect if arm else 0.0) + random.gauss(0.0, 0.05)
                        _run(lab, tx, id, replicate, loss, moment)


def _run(lab: Lab, tx: LabTransaction, experiment_id: str, replicate: int, loss: float, moment: datetime) -> None:
    """Writes one finished run with its log, its debits and its evidence."""
    runs, budget = RunRecords(lab.context), Budget(lab.context)
    experiment = tx.get(EXPERIMENT, experiment_id)
    assert experiment is not None
    run = runs.create(tx, experiment, replicate=replicate, attempt=1, seed=random.getrandbits(62),
                            chosen_seed=False, scheduler="local", status="queued", reason=None,
                            wanted_gpus=())  # fmt: skip
    budget.reserve(tx, run.body, gpu_hours=0.1, run_hours=0.1)
    log = runs.log_dir(run.id)
    log.mkdir(parents=True)
    (log / "stdout.log").write_text(f"epoch 1 of 1\nloss={loss!r}\n", "utf-8")
    hours = random.uniform(0.02, 0.08)
    times = {
        "started_at": moment.isoformat().replace("+00:00", "Z"),
        "ended_at": (moment + timedelta(hours=hours)).isoformat().replace("+00:00", "Z"),
    }
    values = {"status": "done", "duration_s": hours * 3600.0, "exit_code": 0, "gpu_hours": hours, "run_hours": hours,
              "metrics": {"loss": loss}, "metric_sources": {"loss": "stdout.log:2"}, "analysed": True,
              "git": {"commit": "0" * 40, "dirty": False}, **times}  # fmt: skip
    run = runs.change(tx, run, values)
    budget.settle(tx, run.body, gpu_hours=hours, run_hours=hours)
    hypothesis = experiment.body["hypothesis_id"]
    if hypothesis is not None:
        row: NewEvidence = {"kind": "measured", "experiment_id": experiment_id, "run_id": run.id, "metric": "loss",
               "value": loss, "status": "done", "replicate": replicate, "seed": run.body["seed"],
               "source": "stdout.log:2"}  # fmt: skip
        add_evidence(lab.context, tx, hypothesis, row)


def measure(arguments: list[str], cwd: Path, environment: Mapping[str, str]) -> tuple[float, float]:
    """Returns wall and CPU seconds of a command; ends the benchmark if it fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(arguments, cwd=cwd, env=environment, capture_output=True, check=False)
    wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stdout.decode()}{done.stderr.decode()}")
    return wall_s, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Prints the table; `--json` prints one document instead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--keep", metavar="DIR", help="Make the project here and leave it.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, "HOME": scratch, "PERPETUAL_CACHE_DIR": os.path.join(scratch, "cache")}
        for name in _CLEARED:
            environment.pop(name, None)
            os.environ.pop(name, None)
        folder = Path(options.keep or os.path.join(scratch, "project"))
        project(folder, options.runs)
        program = [sys.executable, "-m", "perpetual"]
        commands: list[tuple[str, list[str], float | None]] = [
            ("report --format md", ["report", "-o", "report.md"], None),
            ("report --format html", ["report", "--format", "html", "-o", "report.html"], GOAL_S),
            ("verify report.md", ["verify", "report.md"], None),
            ("verify report.html", ["verify", "report.html"], None),
            ("compare e1 e2", ["compare", "e1", "e2"], None),
        ]
        rows = []
        for name, arguments, goal_s in commands:
            found = [measure([*program, *arguments], folder, environment) for _ in range(options.rounds)]
            rows.append(Row(name, round(min(w for w, _ in found), 2), round(min(c for _, c in found), 2), goal_s))
        size = (folder / "report.html").stat().st_size
    if options.json:
        print(json.dumps({"runs": options.runs, "html_bytes": size, "rows": [row._asdict() for row in rows]}))
        return
    print(f"{options.runs} runs, best of {options.rounds} rounds; the page is {size / 1e6:.2f} MB")
    for row in rows:
        verdict = (
            "" if row.goal_s is None else f"goal <= {row.goal_s} s: {'met' if row.cpu_s <= row.goal_s else 'MISSED'}"
        )
        print(f"{row.command:24} {row.wall_s:7.2f} s {row.cpu_s:7.2f} s CPU  {verdict}")


if __name__ == "__main__":
    main()

"""`make bench`: what the everyday commands cost, as ratios of CPU time to `python -c pass`.

CPU time (user and system, children included) does not depend on what else the machine does; each round runs the floor
and every command once, in turn, and the best of the rounds is shown. Nothing here is a test: a figure over its goal is
said, not failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from perpetual.toolkit.agents import AGENT_VARIABLES

ROUNDS = 15
_CLEARED = ("PYTHONDONTWRITEBYTECODE", "XDG_CONFIG_HOME", "PERPETUAL_PROJECT", "PERPETUAL_OUTPUT", *AGENT_VARIABLES)
PERPETUAL = str(Path(sys.executable).with_name("perpetual"))


BOARD_MS = 300  # of a leaderboard of 10,000 experiments, whatever has changed since the last one
_BEST = [PERPETUAL, "experiments", "--sort", "acc", "--best", "10"]
_BOARDS = (  # in this order: the floor of the last one is the commit's own opening of the store
    ("best 10 of 10,000", _BEST),
    ("best 10 of those where", [*_BEST, "--where", "lr<0.1 and opt=adam"]),
    ("a commit: hypotheses add", [PERPETUAL, "hypotheses", "add", "x"]),
    ("best 10 after that commit", _BEST),
    ("runs --limit 1: the floor of that", [PERPETUAL, "runs", "--limit", "1"]),
)


class Row(NamedTuple):
    """One line of the table; `ratio` and `goal` are in starts of an empty interpreter."""

    command: str
    cpu_ms: float
    ratio: float
    goal: float | None


def cpu_s(arguments: list[str], cwd: str, environment: dict[str, str]) -> float:
    """Returns User and system seconds of one run of a command; ends the benchmark if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(arguments, cwd=cwd, env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stdout.decode()}{done.stderr.decode()}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def project(folder: str, experiments: int, environment: dict[str, str]) -> str:
    """Returns a project with some hypotheses and experiments, made through Python."""
    code = f"""
from perpetual import Lab
lab = Lab.init({folder!r}, name="bench")
h = lab.hypotheses.add("bench", metric="loss", direction="min", mde=0.1, baseline=1.0)
for n in range(min({experiments}, 10)):
    lab.experiments.propose(h.id, command="python train.py", config={{"n": n}}, cost_run_hours=0.1)
store = lab.context.store  # more of the same, without the comparison of each with all before it
for start in range(10, {experiments}, 500):
    with store.transaction() as tx:
        like = tx.get("experiment", "e1").body
        for n in range(start, min(start + 500, {experiments})):
            tx.create("experiment", {{**like, "config": {{"n": n}}, "spec_hash": f"{{n:064x}}"}})
lab.status()
"""
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    return folder


def leaderboard(folder: str, store: str, environment: dict[str, str]) -> str:
    """Returns a project of 10,000 experiments with 3 runs each, as they stand once they are weighed."""
    code = f"""
import random
from perpetual import Lab
from perpetual.records import GitState, Run, to_json
lab = Lab.init({folder!r}, name="bench", store={store!r})
made = lab.experiments.propose(command="python t.py", metric="acc", direction="max", replicates=3, cost_run_hours=0.1)
like, now, draw = lab.context.store.get("experiment", made.id).body, lab.context.now(), random.Random(1)
done = to_json(Run(id="", experiment_id="", attempt=1, replicate=1, status="done", seed=1, scheduler="local",
                   native_id=None, pid=None, gpus=(), started_at=now, ended_at=now, duration_s=1.0, exit_code=0,
                   signal=None, reason=None, gpu_hours=0.0, run_hours=0.1, metrics={{}}, log_dir="",
                   git=GitState(), tainted=False))
done |= {{"checked_for_secrets": True, "hypothesis_id": None, "chosen_seed": False, "wanted_gpus": [], "analysed": True,
          "created_at": now, "created_by": "bench", "spec_hash": "", "metric_sources": {{"acc": "stdout.log:1"}}}}
for start in range(1, 10_000, 500):
    with lab.context.store.transaction() as tx:
        for n in range(start, min(start + 500, 10_000)):
            command = f"python t.py --lr {{draw.choice([0.1, 0.01, 0.001])}} --opt {{draw.choice(['adam', 'sgd'])}}"
            item = tx.create("experiment", {{**like, "command": command, "config": {{"n": n}}, "status": "analysed",
                                             "runs": {{"done": 3}}, "spec_hash": f"{{n:064x}}"}})
            for replicate in (1, 2, 3):
                metrics = {{"acc": draw.random(), "loss": draw.random()}}
                run = tx.create("run", {{**done, "experiment_id": item.id, "replicate": replicate,
                                         "seed": replicate, "metrics": metrics}})
                tx.put("run", run.id, {{**run.body, "id": run.id}})
                lab.context.emit(tx, "run_status", run.id, {{"from": "running", "to": "done"}})
"""
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    return folder


def curves_project(folder: str, environment: dict[str, str], runs: int = 20, steps: int = 10_000) -> str:
    """Returns a project with one experiment of so many runs, each with a curve of so many steps."""
    code = f"""
import json, sys
from perpetual import Lab
with Lab.init({folder!r}, name="curves") as lab:
    made = lab.experiments.propose(command="true", metric="acc", direction="max", replicates={runs}, wall_s=60.0)
    lab.experiments.approve(made.id)
    lab.runs.launch(made.id, every=True)
    lab.wait([made.id], timeout_s=300)
    for number in range(1, {runs} + 1):
        with (lab.runs.log_dir(f"r{{number}}") / "metrics.jsonl").open("w") as file:
            for step in range({steps}):
                acc = step / {steps} + number % 7 / 70 + step % 11 / 1000
                file.write(json.dumps({{"step": step, "loss": 1 - acc, "acc": acc}}) + chr(10))
"""
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    return folder


_PLUGIN = """
from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_commands():
    return [Provider(slot="command", name="bench-{0}", factory="bench_{0}:nothing", summary="Does nothing.")]


@hookimpl
def perpetual_metric_readers():
    return [Provider(slot="metric_reader", name="bench-{0}", factory="bench_{0}:nothing")]
"""


def plugins(folder: str, count: int) -> str:
    """Returns small plugins, each in a distribution of its own, as an installer would lay them."""
    for number in range(count):
        info = Path(folder, f"bench_{number}-1.0.dist-info")
        info.mkdir(parents=True)
        Path(folder, f"bench_{number}.py").write_text(_PLUGIN.format(number), "utf-8")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: bench-{number}\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text(f"[perpetual.plugins]\nbench-{number} = bench_{number}\n", "utf-8")
    return folder


def main() -> None:
    """Prints the table; `--json` prints one document instead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--large", action="store_true", help="a project of 10,000 experiments too; it takes a minute")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, "HOME": scratch, "PERPETUAL_CACHE_DIR": os.path.join(scratch, "cache")}
        # a user's interpreter keeps compiled modules, whatever this shell says
        for name in _CLEARED:
            environment.pop(name, None)
        folder = project(os.path.join(scratch, "project"), 10, environment)
        large = project(os.path.join(scratch, "large"), 10_000, environment) if options.large else None
        commands: list[tuple[str, list[str], float | None]] = [
            ("python -c pass (the floor)", [sys.executable, "-c", "pass"], None),
            ("perpetual --version", [PERPETUAL, "--version"], 2.5),
            ("perpetual brief", [PERPETUAL, "brief"], 2.5),
            ("perpetual hook session-start", [PERPETUAL, "hook", "session-start"], 2.5),
            ("perpetual --help", [PERPETUAL, "--help"], 2.5),
            ("perpetual status", [PERPETUAL, "status"], 5.0),
            ("perpetual status --json", [PERPETUAL, "status", "--json"], 5.0),
            ("perpetual hypotheses list", [PERPETUAL, "hypotheses", "list", "--json"], 6.0),
            ("python -c 'import click'", [sys.executable, "-c", "import click"], None),
            ("perpetual --help, 30 plugins", [PERPETUAL, "--help"], 2.5),
            ("perpetual hypotheses list, 30 plugins", [PERPETUAL, "hypotheses", "list", "--json"], 6.0),
        ]
        curved = curves_project(os.path.join(scratch, "curves"), environment)
        commands.append(("perpetual curves, 20 runs of 10,000 steps", [PERPETUAL, "curves", "e1"], None))
        if large:
            # to be compared with the status above: at most 1.5 times as dear
            commands.append(("perpetual status, 10,000 experiments", [PERPETUAL, "status"], 5.0))
        many = {**environment, "PYTHONPATH": plugins(os.path.join(scratch, "site"), 30)}
        environments = [many if name.endswith("30 plugins") else environment for name, _, _ in commands]
        places = [curved if "curves" in name else folder for name, _, _ in commands]
        if large:
            places[-1] = large
            for store in ("tinydb", "sqlite"):
                board = leaderboard(os.path.join(scratch, f"board-{store}"), store, environment)
                commands += [(f"{store}: {name}", words, None) for name, words in _BOARDS]
                environments += [environment] * len(_BOARDS)
                places += [board] * len(_BOARDS)
        best = [float("inf")] * len(commands)
        for place, own, (_, arguments, _) in zip(places, environments, commands, strict=True):
            cpu_s(arguments, place, own)  # warms the caches, whose first filling has no goal
        for _ in range(options.rounds):
            for index, (_, arguments, _) in enumerate(commands):
                best[index] = min(best[index], cpu_s(arguments, places[index], environments[index]))
    rows = [
        Row(name, round(1000 * seconds, 1), round(seconds / best[0], 2), goal)
        for (name, _, goal), seconds in zip(commands, best, strict=True)
    ]
    if options.json:
        document = {"python": platform.python_version(), "rounds": options.rounds, "rows": [r._asdict() for r in rows]}
        print(json.dumps(document))
        return
    print(f"Python {platform.python_version()}, CPU time with children, best of {options.rounds} interleaved rounds")
    for row in rows:
        verdict = "" if row.goal is None else f"goal <= {row.goal}: {'met' if row.ratio <= row.goal else 'MISSED'}"
        if "best 10" in row.command:
            verdict = f"goal <= {BOARD_MS} ms: {'met' if row.cpu_ms <= BOARD_MS else 'MISSED'}"
        print(f"{row.command:40} {row.cpu_ms:8.1f} ms {row.ratio:6.2f}x  {verdict}")


if __name__ == "__main__":
    main()

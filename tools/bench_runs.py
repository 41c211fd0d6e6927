"""`make bench`, runs: what starting, watching and recording runs costs.

Starting is compared in CPU time with the start of an empty interpreter, `scan` of a long history with `scan` of a short
one; both in turns, and the best of the rounds counts. How soon the end of a run is an event, what a live run weighs and
how fast many are started stand for themselves, with the load of the machine beside them. Nothing here is a test: a
figure over its goal is said.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from perpetual import Lab, hookimpl
from perpetual.records import Event, Run
from perpetual.registry import Registry
from perpetual.toolkit import lock, platform
from perpetual.toolkit.agents import AGENT_VARIABLES
from perpetual.toolkit.units import posix_of
from perpetual_supervisor import process_tree, rundir

ROUNDS = 15
LONG_S = 300.0
ENDED = ("done", "failed", "killed", "timeout", "lost")
EMPTY = [sys.executable, "-I", "-S", "-c", "pass"]
PERPETUAL = str(Path(sys.executable).with_name("perpetual"))


class Row(NamedTuple):
    """One figure: `figure` is what its goal bounds, or None where the value stands for itself."""

    what: str
    value: str
    figure: float | None = None
    goal: float | None = None


def cpu_s() -> float:
    """Returns User and system seconds of this process and of all its descendants that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def reap() -> None:
    """Waits until every child has ended; supervisors are ours, as their parents have left."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def best(rounds: int, deeds: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Returns CPU seconds of each deed with all that it starts, the best of so many rounds in turn."""
    found = dict.fromkeys(deeds, float("inf"))
    for _ in range(rounds):
        for name, deed in deeds.items():
            before = cpu_s()
            deed()
            found[name] = min(found[name], cpu_s() - before)
    return found


def starting(rounds: int, scratch: Path) -> list[Row]:
    """Returns a run of `true` from launch to exit record, and an empty interpreter."""
    numbers = iter(range(10**9))

    def empty() -> None:
        subprocess.run(EMPTY, check=True)

    def launched() -> None:
        folder = scratch / f"run-{next(numbers)}"
        rundir.launch(folder, argv=["true"], cwd=scratch, env=dict(os.environ), wall_s=60.0, grace_s=1.0)
        reap()

    found = best(rounds, {"empty": empty, "launched": launched})
    ratio = found["launched"] / found["empty"]
    value = f"{1e3 * found['launched']:.1f} ms, {1e3 * found['empty']:.1f} ms: {ratio:.2f}x"
    return [Row("CPU of a launch with its supervisor, to `python -I -S -c pass`", value, ratio, 3.0)]


class Ear:
    """Notes when observers heard of the end of each run."""

    def __init__(self) -> None:
        self.heard: dict[str, float] = {}

    @hookimpl
    def perpetual_event(self, event: Event) -> None:
        """Hears an event of the lab."""
        if event.kind == "run_status" and event.payload["to"] in ENDED:
            self.heard[event.subject] = time.perf_counter()


@contextlib.contextmanager
def lab_in(folder: Path, *, most: int, ear: Ear | None = None) -> Iterator[Lab]:
    """Yields a fresh project's lab that may have so many runs at once; ends the live ones."""
    with contextlib.suppress(FileExistsError):
        Lab.init(folder, name="bench").close()
    registry = Registry(extra=[("bench", "ear", "1", lambda: ear)]) if ear else None
    with Lab.open(folder, registry=registry) as lab:
        lab.config.methodology.set("max_concurrent_runs", str(most))
        lab.config.methodology.set("memory_write_on_completion", "false")
        try:
            yield lab
        finally:
            lab.queue.set_state("paused")
            for run in lab.runs.live():
                lab.runs.kill(run.id, grace_s=0.0)


def launched_all(lab: Lab, command: str, count: int) -> Sequence[Run]:
    """Starts that many replicates of a command."""
    experiment = lab.experiments.propose(command=command, replicates=count, wall_s=LONG_S)
    lab.experiments.approve(experiment.id)
    return lab.runs.launch(experiment.id, every=True)


def hearing(scratch: Path, live: int, ends: int = 100) -> list[Row]:
    """Measures the time from a command's end to its event, while a caller waits for all of them."""
    ear = Ear()
    latencies: list[float] = []
    with lab_in(scratch / f"hearing-{live}", most=live, ear=ear) as lab:
        lab.feed.deliver()
        while len(latencies) < ends:
            # `cat` ends, by itself and at once, when the last writer of its pipe is gone
            pipes = [scratch / f"pipe-{live}-{number}" for number in range(live)]
            for pipe in pipes:
                pipe.unlink(missing_ok=True)
                os.mkfifo(pipe)
            runs = [launched_all(lab, f"sh -c 'exec cat < {pipe}'", 1)[0] for pipe in pipes]
            writers = [os.open(pipe, os.O_WRONLY) for pipe in pipes]
            ended: dict[str, float] = {}

            def end(runs: list[Run] = runs, writers: list[int] = writers, ended: dict[str, float] = ended) -> None:
                for run, writer in zip(runs, writers, strict=True):
                    time.sleep(0.15)  # so that each end wakes a sleeping caller
                    ended[run.id] = time.perf_counter()
                    os.close(writer)

            thread = threading.Thread(target=end)
            thread.start()
            lab.wait([run.id for run in runs], timeout_s=LONG_S)
            thread.join()
            latencies += [ear.heard[id] - moment for id, moment in ended.items()]
    latencies.sort()
    p50, p95 = 1e3 * statistics.median(latencies), 1e3 * latencies[int(0.95 * len(latencies))]
    what = f"exit to event while {live} runs are waited for, p50 / p95 of {len(latencies)}"
    return [Row(f"{what}", f"{p50:.1f} / {p95:.1f} ms", p95, 50.0)]


def with_history(folder: Path, count: int) -> Lab:
    """Returns a lab in which so many runs have ended: one real one, and the rest written as it was."""
    with lab_in(folder, most=2) as lab:
        lab.wait([launched_all(lab, "true", 1)[0].id], timeout_s=LONG_S)
        store = lab.context.store
        body = lab.context.need("run", "r1").body
        events = [row.body for row in store.find("event", subject="r1")]
        for number in range(2, count + 1):
            with store.transaction() as tx:
                tx.create("run", {**body, "replicate": number})
                for row in store.find("debit", run_id="r1"):
                    tx.append("debit", {**row.body, "run_id": f"r{number}"})
                for event in events:
                    tx.append("event", {**event, "subject": f"r{number}"})
    return Lab.open(folder)


def scanning(rounds: int, scratch: Path) -> list[Row]:
    """Returns `scan` in which nothing has happened, after ten runs and after a thousand."""
    rows = []
    sizes = (10, 1000)
    labs = {size: with_history(scratch / f"scan-{size}", size) for size in sizes}
    for lab in labs.values():
        lab.scan()

    def repeatedly(lab: Lab) -> None:
        for _ in range(20):
            lab.scan()

    found = best(rounds, {str(size): lambda lab=lab: repeatedly(lab) for size, lab in labs.items()})  # type: ignore[misc]
    for lab in labs.values():
        lab.close()

    def command(size: int) -> None:
        subprocess.run([PERPETUAL, "scan"], cwd=scratch / f"scan-{size}", check=True, stdout=subprocess.DEVNULL)

    outside = best(rounds, {str(size): lambda size=size: command(size) for size in sizes})  # type: ignore[misc]
    for what, costs, calls in (("in this process", found, 20), ("as a command", outside, 1)):
        ratio = costs["1000"] / costs["10"]
        value = f"{1e3 * costs['1000'] / calls:.2f} ms, {1e3 * costs['10'] / calls:.2f} ms: {ratio:.2f}x"
        rows.append(Row(f"CPU of `scan` {what}, 1,000 ended runs to 10", value, ratio, 1.5))
    return rows


def weighing(scratch: Path, count: int = 20) -> list[Row]:
    """Returns memory of the supervisors of live runs, per run."""
    sizes: Counter[str] = Counter()
    with lab_in(scratch / "weighing", most=count) as lab:
        for run in launched_all(lab, "sleep 300", count):
            started = rundir.read_started(lab.runs.log_dir(run.id))
            assert started is not None
            rollup = Path(f"/proc/{started.supervisor.pid}/smaps_rollup").read_text()
            for line in rollup.splitlines():
                name, _, amount = line.partition(":")
                if name in ("Rss", "Pss", "Private_Dirty"):
                    sizes[name] += int(amount.split()[0])
    shares = ", ".join(f"{name} {sizes[name] / count / 1024:.1f}" for name in ("Pss", "Private_Dirty", "Rss"))
    return [Row(f"memory of a live run's supervisor, MiB, of {count}", shares)]


def crowd(scratch: Path, count: int) -> list[Row]:
    """Measures runs at once: how fast they start, and whether all are recorded as they ended."""
    with lab_in(scratch / "crowd", most=count) as lab:
        begun, cpu = time.perf_counter(), cpu_s()
        runs = launched_all(lab, "sh -c 'echo up; exec sleep 300'", count)
        took = time.perf_counter() - begun
        running = sum(run.status == "running" for run in runs)
        spent = cpu_s() - cpu
        lab.scan()
        begun, look = time.perf_counter(), time.process_time()
        lab.scan()
        look = time.process_time() - look
        for number, run in enumerate(runs):
            child = platform.identity_of(run.pid or 0)
            if number % 2 and child is not None:
                platform.signal_process(child, signal.SIGKILL)
        for run in runs[::2]:
            lab.part("scheduler").cancel(run.native_id, lab.runs.log_dir(run.id), by="bench", grace_s=0.0)
        begun = time.perf_counter()
        lab.wait([run.id for run in runs], timeout_s=LONG_S)
        recording = time.perf_counter() - begun
        ended = Counter(run.status for run in lab.runs.list(limit=10_000).items)
        problems = lab.storage.verify()
    kept = ", ".join(f"{ended[status]} {status}" for status in sorted(ended)) + (", BROKEN BOOKS" if problems else "")
    return [
        Row(f"{count} runs at once: started", f"{running} in {took:.1f} s, {count / took:.0f}/s"),
        Row(f"{count} runs at once: CPU of the launcher for one", f"{1e3 * spent / count:.1f} ms"),
        Row(f"{count} runs at once: CPU of a scan of them all", f"{1e3 * look:.1f} ms"),
        Row(f"{count} runs at once: recorded when all end", f"{kept} in {recording:.1f} s"),
    ]


def moving(scratch: Path, ends: int = 50) -> list[Row]:
    """Measures the time from the end of a run to the start of the next one, with no terminal open.

    A process is at work as long as runs wait, from the first end on. Where it was killed, the next end starts one.
    """
    rows = []
    os.environ["PERPETUAL_QUEUE_MOVES"] = "true"
    for what, linger_s, goal in (("at work since runs wait", 600, 300.0), ("a new process for each end", 0, None)):
        os.environ["PERPETUAL_QUEUE_LINGER_S"] = str(linger_s)
        folder = scratch / f"moving-{linger_s}"
        with lab_in(folder, most=1) as lab:
            ids = [run.id for run in launched_all(lab, "sleep 0.4", ends + 1)]
            while any(lab.runs.get(id).status not in ENDED for id in ids):
                time.sleep(0.2)
            runs = [lab.runs.get(id) for id in ids]
        while lock.is_locked(folder / ".perpetual" / "dispatch" / "lock"):
            time.sleep(0.1)
        pairs = pairwise(runs)
        late = sorted(1e3 * (posix_of(str(b.started_at)) - posix_of(str(a.ended_at))) for a, b in pairs)
        p50, p95 = statistics.median(late), late[int(0.95 * len(late))]
        value = f"{p50:.0f} / {p95:.0f} ms"
        rows.append(Row(f"end to start of the next run, {what}, p50 / p95 of {len(late)}", value, p95, goal))
    os.environ["PERPETUAL_QUEUE_MOVES"] = "false"
    return rows


TRAIN = """import os, random, sys
noise = random.Random(os.environ.get("PERPETUAL_SEED")).gauss(0, 0.002)
print("val_acc:", 0.9 + noise + (0.1 if len(sys.argv) > 1 else 0))
"""


def trying(rounds: int, scratch: Path) -> list[Row]:
    """Returns what `perpetual try` costs beyond its runs, for each replicate, at a terminal of a person."""
    folder = scratch / "trying"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN, "utf-8")
    numbers = iter(range(10**9))

    def at_terminal(*words: str) -> None:
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execv(PERPETUAL, [PERPETUAL, *words])
        with contextlib.suppress(OSError):  # a terminal whose last program has ended
            while os.read(terminal, 65_536):
                pass
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError(f"perpetual {words[0]} ended with {os.waitstatus_to_exitcode(status)}")
        reap()

    train = f"{sys.executable} train.py"

    def bare() -> None:
        subprocess.run(train.split(), check=True, cwd=folder, stdout=subprocess.DEVNULL)

    def trial(replicates: int) -> None:
        words = (f"{train} --warmup {next(numbers)}", "--against", "e1", "--replicates", str(replicates), "--yes")
        at_terminal("try", *words)

    at_terminal("init", "-H", "none")
    baseline = ("--metric", "val_acc", "--direction", "max", "--replicates", "4", "--wait")
    at_terminal("run", train, *baseline)
    found = best(rounds, {"bare": bare, "1": partial(trial, 1), "3": partial(trial, 3)})
    rows = []
    for replicates in (1, 3):
        over = found[str(replicates)] / replicates - found["bare"]
        what = f"CPU of `try` beyond the program, for each of {replicates} run{'s' * (replicates > 1)}"
        rows.append(Row(what, f"{over:.2f} s", over, 0.5))
    return rows


def main() -> None:
    """Prints the table; `--json` prints one document instead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--crowd", type=int, default=200, help="how many runs are started at once")
    options = parser.parse_args()
    for name in ("PYTHONDONTWRITEBYTECODE", "PERPETUAL_PROJECT", "PERPETUAL_OUTPUT", *AGENT_VARIABLES):
        os.environ.pop(name, None)
    process_tree.set_subreaper()
    load = os.getloadavg()[0]
    # on the disk of this checkout: a folder for temporary files may be memory
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent.parent, prefix=".bench-") as folder:
        scratch = Path(folder)
        # or each launch would note the state of this checkout as that of its code
        os.environ["GIT_CEILING_DIRECTORIES"] = folder
        os.environ["PERPETUAL_QUEUE_MOVES"] = "false"  # what is measured is recorded by this process
        rows = moving(scratch) + starting(options.rounds, scratch)
        for live in (1, 20):
            rows += hearing(scratch, live)
        os.environ["PERPETUAL_QUEUE_MOVES"] = "true"
        rows += trying(min(5, options.rounds), scratch)
        os.environ["PERPETUAL_QUEUE_MOVES"] = "false"
        rows += scanning(options.rounds, scratch) + weighing(scratch) + crowd(scratch, options.crowd)
    if options.json:
        print(json.dumps({"rounds": options.rounds, "load": load, "rows": [row._asdict() for row in rows]}))
        return
    print(f"runs: best of {options.rounds} rounds in turn; load of the machine before {load:.1f}")
    for row in rows:
        verdict = ""
        if row.goal is not None and row.figure is not None:
            verdict = f"goal <= {row.goal:g}: {'MISSED' if row.figure > row.goal else 'met'}"
        print(f"{row.what:72} {row.value:>34}  {verdict}")


if __name__ == "__main__":
    main()

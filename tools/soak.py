"""`make soak`: a project under programs that are killed midway, with supervisors that are killed and stopped.

Several workers run the command line at random on one project; each command may be killed (SIGKILL) while it works. In
the end all that was acknowledged must be there, no replicate may have run twice, the books must be equal, the store and
the folds must verify, and no process may be left. Exit status 1 if anything of that does not hold. The seed is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from perpetual.toolkit.agents import AGENT_VARIABLES

PERPETUAL = str(Path(sys.executable).with_name("perpetual"))
MARK = "PERPETUAL_SOAK_ID"
_SETTLED_S = 120.0
_COMMAND_S = 120.0


class Soak:
    """One project under attack."""

    def __init__(self, folder: Path, store: str, seed: int) -> None:
        self.folder, self.store, self.random = folder / "project", store, random.Random(seed)
        self.id = f"{os.getpid()}-{store}-{seed}"
        kept = {name: value for name, value in os.environ.items() if name not in AGENT_VARIABLES}
        kept = {name: value for name, value in kept.items() if not name.startswith("PERPETUAL_")}
        own = {"HOME": str(folder), "PERPETUAL_STATE_DIR": str(folder / "state"), MARK: self.id}
        self.environment = {**kept, **own, "PERPETUAL_CACHE_DIR": str(folder / "cache")}
        self.acknowledged: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.stopped: list[int] = []
        self.lock = threading.Lock()

    def call(self, *arguments: str, may_die: float = 0.0) -> dict[str, Any] | None:
        """Returns the document that a command answers; None for one that failed or was killed."""
        process = subprocess.Popen(
            [PERPETUAL, "--project", str(self.folder), *arguments, "--json"], env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder.parent,
        )  # fmt: skip
        with self.lock:
            self.counts["commands"] += 1
            delay = self.random.uniform(0.05, 1.0) if self.random.random() < may_die else None
        try:
            out, errors = process.communicate(timeout=_COMMAND_S if delay is None else delay)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            with self.lock:
                self.counts["killed commands"] += 1
                if delay is None:
                    self.problems.append(f"{' '.join(arguments)} had not ended after {_COMMAND_S:g} s")
            return None
        if b"Traceback" in errors or b"internal error" in out + errors:
            with self.lock:
                self.problems.append(f"{' '.join(arguments)}: {(out + errors).decode('utf-8', 'replace')[-500:]}")
        if process.returncode != 0:
            return None
        answer: dict[str, Any] = json.loads(out)
        return answer

    def begin(self) -> None:
        """Creates the project."""
        self.folder.mkdir()
        started = subprocess.run(
            [PERPETUAL, "init", "-t", str(self.folder), "--store", self.store, "--json"],
            env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if started.returncode:
            raise SystemExit(f"init failed: {started.stdout}{started.stderr}")
        self.call("methodology", "set", "max_concurrent_runs", "4")

    def work(self, number: int, until: float) -> None:
        """Runs one worker: commands at random until the time is over."""
        own = random.Random(f"{self.id}/{number}")
        turn = 0
        while time.monotonic() < until:
            turn += 1
            deed = own.choice(("add", "add", "run", "run", "scan", "status", "kill", "list", "note"))
            if deed == "add":
                made = self.call("hypotheses", "add", f"{number} {turn}", "--idempotency-key", f"{number}/{turn}",
                                 may_die=0.2)  # fmt: skip
                if made is not None:
                    with self.lock:
                        self.acknowledged.add(made["id"])
            elif deed == "run":
                length = own.choice(("0.1", "0.5", "2"))
                made = self.call("propose", "--command", f"sh -c 'sleep {length}; echo loss=0.5'", "--metric", "loss",
                                 "--cost", "0.001", "--replicates", "2", may_die=0.1)  # fmt: skip
                if made is not None and self.call("approve", made["id"], may_die=0.1) is not None:
                    self.call("run", made["id"], may_die=0.3)
                    self.call("run", made["id"], may_die=0.3)
            elif deed == "kill":
                live = self.call("runs", "--status", "running")
                if live is not None and live["items"]:
                    self.call("kill", own.choice(live["items"])["id"], "--grace", "1", may_die=0.2)
            elif deed == "note":
                self.call("memory", "write", f"n/{number}.md", f"turn {turn}", may_die=0.2)
            else:
                arguments = {"scan": ("scan",), "status": ("status",), "list": ("experiments", "--limit", "5")}[deed]
                self.call(*arguments, may_die=0.2)

    def attack(self, until: float) -> None:
        """Kills or stops a supervisor now and then."""
        own = random.Random(f"{self.id}/attack")
        while time.monotonic() < until:
            time.sleep(own.uniform(0.5, 2.0))
            pids = self._supervisors()
            if pids:
                pid, how = own.choice(pids), own.choice((signal.SIGKILL, signal.SIGSTOP))
                self._signal(pid, how)
                self.counts["supervisors killed" if how == signal.SIGKILL else "supervisors stopped"] += 1
                if how == signal.SIGSTOP:
                    self.stopped.append(pid)

    def processes(self) -> list[int]:
        """Returns the processes that descend from what this soak has started, by the mark in their environment."""
        mark, found = f"{MARK}={self.id}".encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def _supervisors(self) -> list[int]:
        """Returns the supervisors of the project's live runs, by their records and their working directories."""
        found = []
        for started in (self.folder / ".perpetual" / "runs").glob("*/started.json"):
            try:
                pid = int(json.loads(started.read_bytes())["supervisor"]["pid"])
                if os.path.samefile(f"/proc/{pid}/cwd", started.parent):
                    found.append(pid)
            except (OSError, ValueError, KeyError):
                continue  # it has ended, or is being written
        return found

    @staticmethod
    def _signal(pid: int, number: signal.Signals) -> None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return

    def settle(self) -> None:
        """Lets what was stopped go on, and waits until no run is live."""
        for pid in self.stopped:
            if pid in self._supervisors():
                self._signal(pid, signal.SIGCONT)
        deadline = time.monotonic() + _SETTLED_S
        while time.monotonic() < deadline:
            self.call("scan")
            status = self.call("status")
            if status is not None and not status["runs"]["active"] and not status["runs"]["queued"]:
                break
            time.sleep(1.0)
        else:
            self.problems.append(f"runs were live {_SETTLED_S:g} s after the end")
        while (self.processes() or self._supervisors()) and time.monotonic() < deadline:
            time.sleep(0.2)
        for pid in {*self.processes(), *self._supervisors()}:
            self.problems.append(f"process {pid} is left: {Path(f'/proc/{pid}/cmdline').read_bytes()[:100]!r}")
            self._signal(pid, signal.SIGKILL)

    def judge(self) -> None:
        """Compares the record with what was acknowledged, and with itself."""
        from perpetual import Lab

        os.environ["PERPETUAL_STATE_DIR"] = self.environment["PERPETUAL_STATE_DIR"]
        with Lab.open(self.folder) as lab:
            self.problems += lab.storage.verify()
            self.problems += [f"the fold differs: {item}" for item in lab.evidence.refold(check=True)]
            present, cursor = set(), None
            while True:
                page = lab.hypotheses.list(limit=500, cursor=cursor)
                present |= {item.id for item in page.items}
                if (cursor := page.next_cursor) is None:
                    break
            self.problems += [f"{id} was acknowledged and is lost" for id in sorted(self.acknowledged - present)]
            runs = lab.runs.list(limit=10_000).items
            seen = Counter((run.experiment_id, run.replicate, run.attempt) for run in runs)
            self.problems += [f"{key} ran {count} times" for key, count in seen.items() if count > 1]
            used = sum(run.run_hours or 0.0 for run in runs)
            booked = lab.budget.totals()["run_hours"]
            if abs(used - booked) > 1e-9:
                self.problems.append(f"the runs used {used} run-hours, and {booked} are booked")
            for run in runs:
                if (
                    run.status in ("done", "failed", "timeout")
                    and run.pid
                    and not (lab.runs.log_dir(run.id) / "exit.json").exists()
                ):
                    self.problems.append(f"{run.id} is {run.status} without its record")
            self.counts |= Counter({"runs": len(runs), "acknowledged hypotheses": len(self.acknowledged)})
            self.counts |= Counter({f"runs {run.status}": 0 for run in runs})
            self.counts.update(f"runs {run.status}" for run in runs)


def soak(store: str, seconds: float, workers: int, seed: int) -> bool:
    """Returns one soak; prints what it found and answers whether all held."""
    print(f"{store}: seed {seed}, {seconds:g} s, {workers} workers", flush=True)
    with tempfile.TemporaryDirectory(prefix="perpetual-soak-", ignore_cleanup_errors=True) as folder:
        one = Soak(Path(folder), store, seed)
        one.begin()
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=one.work, args=(number, until)) for number in range(workers)]
        threads.append(threading.Thread(target=one.attack, args=(until,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        one.settle()
        one.judge()
    print("  " + ", ".join(f"{count} {name}" for name, count in sorted(one.counts.items())))
    for problem in one.problems:
        print(f"  PROBLEM {problem}")
    print(f"  {'all held' if not one.problems else f'{len(one.problems)} problems'}", flush=True)
    return not one.problems


def main() -> int:
    """Soaks each store; 1 if anything did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--duration", type=float, default=120.0, metavar="S", help="seconds for each store")
    parser.add_argument("--store", choices=["tinydb", "sqlite", "both"], default="both")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.randrange(2**31) if options.seed is None else options.seed
    stores = ["tinydb", "sqlite"] if options.store == "both" else [options.store]
    held = [soak(store, options.duration, options.workers, seed) for store in stores]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())

"""`make bench`, the daemon: how soon an ended run is followed by the next one, and what an idle daemon costs.

The daemon is a process of its own; its runs are short programs. The time from the end of a run to the start of the next
one is read from the record of the supervisors, so it holds the analysis, the decision and the launch. Idle CPU is that
of the whole process, read from the kernel; over less than five minutes it is scaled, and the row says so. Nothing here
is a test: a figure over its goal is said.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from perpetual import Lab
from perpetual.toolkit.units import posix_of
from perpetual_daemon.testing import claim

_WORDS = [sys.executable, "-P", "-m", "perpetual", "daemon", "--json"]
_FULL_S = 300.0
_GOAL_S = {"next": 0.300, "idle": 0.20}


def following(scratch: Path, runs: int) -> list[float]:
    """Returns the seconds from the end of each run to the start of the next, one run at a time."""
    root = scratch / "follow"
    with Lab.init(root, name="follow") as lab:
        lab.settings.set_methodology("max_concurrent_runs", "1")
        for number in range(runs // 2):
            command = f"sh -c 'sleep 0.2; echo acc=1.5{number}$PERPETUAL_SEED'"
            claim(lab, command=command, statement=f"acc rises {number}")
    subprocess.run(_WORDS, cwd=root, stdout=subprocess.DEVNULL, check=True)
    with Lab.open(root) as lab:
        found = sorted(lab.runs.list(limit=1000).items, key=lambda run: run.id)
    spans = sorted((posix_of(run.started_at or ""), posix_of(run.ended_at or "")) for run in found)
    return [later[0] - earlier[1] for earlier, later in pairwise(spans)]


def idle(scratch: Path, seconds: float) -> tuple[float, float]:
    """Returns the CPU seconds of a daemon that waits for an approval, and its resident MB."""
    import psutil

    root = scratch / "idle"
    with Lab.init(root, name="idle") as lab:
        claim(lab, approve=False)
    process = subprocess.Popen([*_WORDS, "--wait"], cwd=root, stdout=subprocess.DEVNULL)
    try:
        time.sleep(10.0)  # until what a start costs is over
        watched = psutil.Process(process.pid)
        before = watched.cpu_times()
        time.sleep(seconds)
        after, memory = watched.cpu_times(), watched.memory_info().rss / 1e6
    finally:
        process.terminate()
        process.wait()
    return (after.user + after.system) - (before.user + before.system), memory


def main() -> None:
    """Prints the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--idle-s", type=float, default=_FULL_S)
    given = parser.parse_args()
    os.environ.pop("PERPETUAL_QUEUE_MOVES", None)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        os.environ["PERPETUAL_STATE_DIR"] = str(scratch / "state")
        load = os.getloadavg()[0]
        gaps = sorted(following(scratch, given.runs))
        late = gaps[min(len(gaps) - 1, round(0.95 * len(gaps)))]
        _row("end of a run -> next run started, p95", f"{late * 1000:.0f} ms", late, _GOAL_S["next"])
        _row("   median", f"{statistics.median(gaps) * 1000:.0f} ms (load {load:.1f}, {len(gaps)} gaps)")
        used, memory = idle(scratch, given.idle_s)
        scaled = used * _FULL_S / given.idle_s
        words = f"{scaled:.2f} s" + ("" if given.idle_s == _FULL_S else f" (from {given.idle_s:g} s, scaled)")
        _row("idle daemon, CPU in five minutes", words, scaled, _GOAL_S["idle"])
        _row("   memory", f"{memory:.0f} MB")


def _row(what: str, value: str, figure: float | None = None, goal: float | None = None) -> None:
    said = "" if figure is None or goal is None else f"  goal {goal:g} s: {'met' if figure <= goal else 'MISSED'}"
    print(f"{what:<46} {value}{said}", flush=True)


if __name__ == "__main__":
    main()

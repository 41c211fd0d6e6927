"""What the fault tests of runs share: approved experiments, the ends of what still runs, and the books of it all."""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perpetual import Lab
from perpetual.records import ENDED, LIVE, Run
from perpetual.toolkit import platform
from perpetual_supervisor import rundir

__all__ = [
    "LONG_S",
    "approved",
    "dead_process",
    "die",
    "end_all",
    "kinds",
    "opened",
    "single_books",
    "supervisor_of",
    "until",
]

LONG_S = 60.0  # for what takes milliseconds on a machine that has nothing else to do


def approved(lab: Lab, script: str, **design: Any) -> str:
    """The id of an approved experiment that runs a shell script."""
    given = {"command": f"sh -c {shlex.quote(script)}", "wall_s": 600.0, **design}
    return lab.experiments.approve(lab.experiments.propose(given.pop("hypothesis_id", None), **given).id).id


@contextmanager
def opened(project: Path, store: str = "tinydb", **methodology: str) -> Iterator[Lab]:
    """The project's lab with that store and these keys; what it has started has ended afterwards."""
    with Lab.open(project) as lab:
        lab.config.set("store", store)
        for key, value in methodology.items():
            lab.settings.set_methodology(key, value)
    with Lab.open(project) as lab:
        try:
            yield lab
        finally:
            end_all(lab)


def end_all(lab: Lab) -> None:
    """Ends whatever is live, also what the record cannot end any more."""
    lab.queue.set_state("paused")
    for run in lab.runs.live():
        lab.runs.kill(run.id, grace_s=0.0)


def supervisor_of(lab: Lab, run: Run) -> platform.Identity:
    """The process that supervises a run."""
    started = rundir.read_started(lab.runs.log_dir(run.id))
    assert started is not None
    return started.supervisor


def dead_process() -> platform.Identity:
    """A process that was, and is no more."""
    gone = subprocess.Popen(["sleep", "60"])
    identity = platform.identity_of(gone.pid)
    gone.kill()
    gone.wait()
    assert identity is not None
    return identity


def die(identity: platform.Identity) -> None:
    """Ends a process by SIGKILL and waits until it is gone."""
    assert platform.signal_process(identity, signal.SIGKILL)
    assert platform.wait_gone(identity, LONG_S)


def until(lab: Lab, run_id: str, word: str) -> None:
    """Waits until a run has written the word to its standard output."""
    log = lab.runs.log_dir(run_id) / "stdout.log"
    deadline = time.monotonic() + LONG_S
    while not (log.exists() and word in log.read_text("utf-8", "replace")):
        assert time.monotonic() < deadline, f"{run_id} never said {word}"
        time.sleep(0.01)


def kinds(lab: Lab, run_id: str) -> list[str]:
    """The kinds of a run's rows in the budget's ledger, in order."""
    return [row.body["kind"] for row in lab.context.store.find("debit", run_id=run_id)]


def single_books(lab: Lab) -> list[Run]:
    """Checks that every run is booked once and that nothing is there twice; answers the runs, oldest first."""
    problems = lab.storage.verify()
    assert not problems, problems
    runs = [*reversed(lab.runs.list(limit=1000).items)]
    assert len({(run.experiment_id, run.replicate, run.attempt) for run in runs}) == len(runs)
    for run in runs:
        assert run.status in (*LIVE, *ENDED)
        rows = kinds(lab, run.id)
        assert rows == (["reserve"] if run.status in LIVE else ["reserve", "settle"]), run.id
    measured = Counter(row.body["run_id"] for row in lab.context.store.find("evidence", kind="measured"))
    assert all(count == 1 for count in measured.values())
    return runs

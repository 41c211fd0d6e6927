"""Row 1: programs that write to the record are killed at random instants; nothing acknowledged is lost or half done.

The record's part of it, through `Lab`: deeds that touch several kinds at once, with compactions in between. That runs
are adopted again is the matter of test_demo_survives.py.
"""

from __future__ import annotations

import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from perpetual import Lab

SEED = 20
STORES = ("tinydb", "sqlite")
LONG_S = 60.0  # below the limit of a test, so that what is said at its end is seen

# Forks a writer for each line it reads; a writer that is forked has nothing to import, so that kills hit its deeds.
_WRITERS = """
import os, sys
from perpetual import Lab
from perpetual_tinydb import journal

def say(words):
    # In one piece: where PYTHONUNBUFFERED is set `print` writes a line's end by itself, and a kill may come between.
    os.write(1, f"{words}\\n".encode())

journal._LEAST_BYTES = 20_000  # so that compactions are hit too
with Lab.open() as lab:
    lab.status()
for line in sys.stdin:
    if child := os.fork():
        os.waitpid(child, 0)
        say("dead")
        continue
    say(os.getpid())
    lab = Lab.open()
    while True:
        hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0)
        say(hypothesis.id)
        experiment = lab.experiments.propose(hypothesis.id, command="echo acc=1.5", noise=0.05, cost_run_hours=0.001)
        say(experiment.id)
        lab.experiments.approve(experiment.id)
        say(f"approved {experiment.id}")
"""


class _Writers:
    """The program that forks the writers, and what it says, line by line."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self.program = program
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.program.stdout is not None
        for line in self.program.stdout:
            self._lines.put(line.strip())

    def fork(self) -> int:
        """Has a writer forked, and answers its pid."""
        assert self.program.stdin is not None
        self.program.stdin.write("go\n")
        self.program.stdin.flush()
        return int(self.line())

    def line(self) -> str:
        """The next line; a program that says nothing more is told with what it and its writers do."""
        try:
            return self._lines.get(timeout=LONG_S)
        except queue.Empty:
            family = [psutil.Process(self.program.pid), *psutil.Process(self.program.pid).children(recursive=True)]
            states = [(member.pid, member.status(), member.cmdline()[-1:]) for member in family]
            raise AssertionError(f"nothing was said for {LONG_S} s; {self.program.poll()}, {states}") from None

    def end(self) -> None:
        """Ends it with its writers."""
        os.killpg(self.program.pid, signal.SIGKILL)
        self.program.wait()
        self._reader.join()
        for stream in (self.program.stdin, self.program.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def _writers(project: Path) -> Iterator[_Writers]:
    program = subprocess.Popen(
        [sys.executable, "-c", _WRITERS], cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    writers = _Writers(program)
    try:
        yield writers
    finally:
        writers.end()


def _kill(writers: _Writers, delay_s: float) -> list[str]:
    """Lets a writer work for a while, kills it, and answers what it had acknowledged."""
    child = writers.fork()
    told = [writers.line()]
    time.sleep(delay_s)  # the instant is what is tried
    os.kill(child, signal.SIGKILL)
    while (line := writers.line()) != "dead":
        told.append(line)
    return told


def _survive(project: Path, store: str, kills: int) -> None:
    chance = random.Random(SEED)
    with Lab.open(project) as lab:
        lab.config.set("store", store)
    acknowledged: list[str] = []
    with _writers(project) as writers:
        for number in range(kills):
            acknowledged += _kill(writers, chance.uniform(0.0, 0.03))
            if number % 5 == 4 or number == kills - 1:
                _holds(project, acknowledged, number + 1)


def _holds(project: Path, acknowledged: list[str], kills: int) -> None:
    with Lab.open(project) as lab:
        assert lab.storage.verify() == []
        hypotheses = lab.hypotheses.list(limit=100_000).items
        experiments = lab.experiments.list(limit=100_000).items
        events = lab.events()
    made = [item.id for item in hypotheses] + [item.id for item in experiments]
    approved = [item.id for item in experiments if item.status == "approved"]
    done = [*made, *(f"approved {id}" for id in approved)]
    assert set(acknowledged) <= set(done)
    assert len(acknowledged) == len(set(acknowledged))
    assert len(done) - len(acknowledged) <= kills, "a writer did more than one deed that it did not tell of"
    assert [event.seq for event in events] == [*range(1, len(events) + 1)]
    for kind, ids in (("hypothesis_added", hypotheses), ("experiment_proposed", experiments)):
        assert sorted(event.subject for event in events if event.kind == kind) == sorted(item.id for item in ids)


@pytest.mark.parametrize("store", STORES)
def test_nothing_acknowledged_is_lost(project: Path, store: str) -> None:
    _survive(project, store, kills=10)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", STORES)
def test_nothing_acknowledged_is_lost_at_two_hundred_instants(project: Path, store: str) -> None:
    _survive(project, store, kills=200)

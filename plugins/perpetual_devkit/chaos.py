"""Whether a store survives kills: programs write to one of its kind, are killed again and again, and a judge looks.

`run_chaos` starts the writers (`chaos_writer`), ends them by SIGKILL at random instants and starts others instead. In
the end a fresh process (`chaos_judge`) compares what is in the store with what the writers' transactions answered.
Everything happens in a scratch folder. `perpetual chaos` and tests call it.

A kill leaves what was written in the operating system's memory, so this says nothing about a loss of power.
"""

from __future__ import annotations

import json
import mmap
import os
import platform
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict

from perpetual import __version__
from perpetual.api import PerpetualError, UsageError
from perpetual_devkit.chaos_writer import (
    BLOCK,
    COMMIT,
    COMPACTION,
    PHASES,
    SLOT_BYTES,
    SLOT_FORMAT,
    STARTING,
    build_store,
)
from perpetual_devkit.wire import to_wire

if TYPE_CHECKING:
    from perpetual.api import Inventory

__all__ = ["Certificate", "Target", "run_chaos"]

WRITERS = 8
_WRITER, _JUDGE = "perpetual_devkit.chaos_writer", "perpetual_devkit.chaos_judge"  # programs
_PATIENCE_S = 60.0  # without a sign of life of a writer before that is a fault
_JUDGE_S = 600.0
_LOOK_S = 0.0002
_AIM_S = 1.0  # how long a kill waits for the phase it is meant for
_AIMS: dict[int | None, float] = {None: 0.4, BLOCK: 0.2, COMMIT: 0.2, COMPACTION: 0.2}
_LONGEST_DELAY_S = {None: 0.05, BLOCK: 0.001, COMMIT: 0.0005, COMPACTION: 0.02}
_MOST_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Target:
    """The provider under test: its name, its plugin, its factory `module:callable` and the options it gets."""

    store: str
    provider: str
    factory: str
    options: Mapping[str, object]

    @classmethod
    def installed(cls, inventory: Inventory, name: str | None = None) -> Target:
        """Returns the installed store of that name with its options in force, by default the project's.

        Raises:
            PluginError: if there is no such store, or it cannot be loaded.
            UsageError: if one of its options is a secret.
        """
        offer = inventory.choose("store", name)
        inventory.load(offer)
        options = inventory.options(offer)
        if "<Secret " in repr(options):  # at any depth
            hint = "try it with options in which nothing is secret"
            raise UsageError(f"chaos would write the secrets of {offer.qualified_name} down", hint=hint)
        return cls(offer.provider.name, offer.qualified_name, offer.provider.factory, options)


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was done and what came of it; `killed_in` counts the kills by what the writer was doing.

    `present` are those of the acknowledged transactions that are there, `transactions` all that are there: one whose
    writer died before it could answer may be there too. `kept` is the scratch folder if something is wrong.
    """

    store: str
    provider: str
    version: str
    python: str
    platform: str
    file_system: str | None
    seed: int
    kills: int
    writers: int
    killed_in: dict[str, int]
    acknowledged: int
    present: int
    transactions: int
    problems: list[str]
    duration_s: float
    kept: str | None
    ok: bool


class _Judged(TypedDict):
    """A `chaos_judge.Judgement`, as its process answers it."""

    acknowledged: int
    present: int
    transactions: int
    problems: list[str]


class _Fault(Exception):
    """Why the storm cannot go on, in words."""


@dataclass(slots=True)
class _Writer:
    """A place among the writers, and the program that has it at present."""

    slot: int
    incarnation: int = 0
    process: subprocess.Popen[bytes] | None = None
    errors: Path = field(default_factory=Path)


def run_chaos(
    target: Target,
    *,
    kills: int,
    writers: int | None = None,
    seed: int | None = None,
    folder: Path | None = None,
    progress: Callable[[int, int], None] = lambda kills, acknowledged: None,
) -> Certificate:
    """Kills writers of a store of this kind `kills` times and judges what is left.

    Args:
        writers: programs that write at the same time; by default 8, or 1 where the store takes one writer.
        seed: decides who is killed when, as far as that can be decided; by default a new one each time.
        folder: where the scratch folder is made; by default with the system's temporary files. Removed afterwards
            unless something is wrong.
        progress: called after each kill with the number of kills and of acknowledged transactions so far.

    Raises:
        UsageError: for several writers and a store that takes one.
        PerpetualError: where processes cannot be killed as this needs it (Windows); if the store cannot be built.
    """
    if sys.platform == "win32":
        raise PerpetualError(
            "chaos ends processes by SIGKILL, which Windows does not have", hint="run it on Linux or macOS"
        )
    place = Path(tempfile.mkdtemp(prefix="perpetual-chaos-", dir=folder)).resolve()
    is_kept = False
    try:
        storm = _Storm(target, place, writers, random.randrange(2**32) if seed is None else seed)
        found = storm.run(kills, progress)
        is_kept = not found.ok  # what was interrupted, or never began, leaves nothing to look at
        return found
    finally:
        if not is_kept:
            shutil.rmtree(place, ignore_errors=True)


class _Storm:
    """One run of it."""

    def __init__(self, target: Target, place: Path, writers: int | None, seed: int) -> None:
        self._target, self._place, self._seed = target, place, seed
        self._writers = [_Writer(slot) for slot in range(self._count(writers))]
        self._chance = random.Random(seed)
        self._killed_in: Counter[str] = Counter()
        self._problems: list[str] = []
        self._before = 0  # acknowledged by writers that have ended
        self._acknowledgements = place / "acknowledgements"
        self._acknowledgements.mkdir()
        self._phases = place / "phases"
        self._phases.write_bytes(bytes(SLOT_BYTES * len(self._writers)))

    def _count(self, wanted: int | None) -> int:
        probe = build_store(self._target.factory, self._target.options, self._place / "probe" / "store")
        probe.close()
        if probe.capabilities.multiprocess:
            return WRITERS if wanted is None else wanted
        if wanted is not None and wanted > 1:
            raise UsageError(f"the store {self._target.store} takes one writer, not {wanted}", hint="--writers 1")
        return 1

    def run(self, kills: int, progress: Callable[[int, int], None]) -> Certificate:
        """Runs the storm and judges what is left."""
        began = time.monotonic()
        with open(self._phases, "r+b") as file, mmap.mmap(file.fileno(), 0) as slots:
            self._slots = slots
            try:
                for writer in self._writers:
                    self._start(writer)
                for number in range(1, kills + 1):
                    self._kill_one()
                    progress(number, self._acknowledged())
                # each must get through once more
                self._until(lambda: all(self._look(writer)[1] for writer in self._writers), "write")
                self._stop()
            except _Fault as fault:
                self._problems.append(str(fault))
            finally:
                self._end_all()
        judged = self._judge()
        problems = self._problems + judged["problems"]
        more = len(problems) - _MOST_PROBLEMS
        listed = [*problems[:_MOST_PROBLEMS], f"and {more} more"] if more > 0 else problems
        return Certificate(
            store=self._target.store,
            provider=self._target.provider,
            version=__version__,
            python=platform.python_version(),
            platform=platform.platform(),
            file_system=_file_system(self._place),
            seed=self._seed,
            kills=sum(self._killed_in.values()),
            writers=len(self._writers),
            killed_in={name: self._killed_in[name] for name in PHASES},
            acknowledged=judged["acknowledged"],
            present=judged["present"],
            transactions=judged["transactions"],
            problems=listed,
            duration_s=round(time.monotonic() - began, 3),
            kept=str(self._place) if problems else None,
            ok=not problems,
        )

    # --- the writers ----------------------------------------------------------------------------------------

    def _start(self, writer: _Writer) -> None:
        writer.incarnation += 1
        name = f"w{writer.slot}.{writer.incarnation}"
        task = {
            "factory": self._target.factory,
            "options": to_wire(dict(self._target.options)),
            "path": str(self._place / "store"),
            "slot": writer.slot,
            "name": name,
            "seed": self._seed,
            "compacts": writer.slot == 0,
            "phases": str(self._phases),
            "acknowledgements": str(self._acknowledgements / name),
        }
        struct.pack_into(SLOT_FORMAT, self._slots, writer.slot * SLOT_BYTES, STARTING, 0)
        writer.errors = self._place / f"errors-{name}"
        with open(writer.errors, "wb") as errors:
            writer.process = _program(_WRITER, self._place, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            _tell(writer.process, task)
        except BrokenPipeError as problem:  # it is dead already
            writer.process.wait()
            raise _Fault(self._obituary(writer)) from problem

    def _look(self, writer: _Writer) -> tuple[int, int]:
        """Returns the writer's phase, and how many transactions were acknowledged since its start."""
        phase, count = struct.unpack_from(SLOT_FORMAT, self._slots, writer.slot * SLOT_BYTES)
        return phase, count

    def _acknowledged(self) -> int:
        return self._before + sum(self._look(writer)[1] for writer in self._writers)

    def _until(self, condition: Callable[[], bool], deed: str, patience_s: float = _PATIENCE_S) -> None:
        """Waits for a sign of life.

        Raises:
            _Fault: if it does not come, or a writer has ended by itself.
        """
        deadline = time.monotonic() + patience_s
        while not condition():
            for writer in self._writers:
                if writer.process is not None and writer.process.poll() is not None:
                    raise _Fault(self._obituary(writer))
            if time.monotonic() > deadline:
                phases = ", ".join(PHASES[self._look(writer)[0]] for writer in self._writers)
                raise _Fault(f"no writer could {deed} for {patience_s:g} s; they are: {phases}")
            time.sleep(_LOOK_S)

    def _in_phase(self, aim: int | None) -> list[_Writer]:
        """Returns the writers that are in the phase; without one, those that have come up."""
        if aim is None:
            return [writer for writer in self._writers if self._look(writer)[0] != STARTING]
        return [writer for writer in self._writers if self._look(writer)[0] == aim]

    def _obituary(self, writer: _Writer) -> str:
        assert writer.process is not None
        said = writer.errors.read_text("utf-8", "replace").strip().splitlines() or ["it said nothing"]
        return f"writer {writer.slot} ended by itself with status {writer.process.returncode}: {said[-1]}"

    def _kill_one(self) -> None:
        """Kills one writer, aimed at a phase or at random, and starts another program in its place."""
        aim = self._chance.choices([*_AIMS], [*_AIMS.values()])[0]
        delay_s, draw = self._chance.uniform(0.0, _LONGEST_DELAY_S[aim]), self._chance.random()
        if aim is None:
            time.sleep(delay_s)  # the random instant itself
        self._until(lambda: bool(self._in_phase(None)), "start")
        deadline = time.monotonic() + _AIM_S
        while not (found := self._in_phase(aim)):
            if time.monotonic() > deadline:
                found = self._in_phase(None)
                break
            time.sleep(_LOOK_S)  # phases are in mapped memory, which wakes no process at a change
        writer = found[int(draw * len(found))]
        if aim is not None:
            time.sleep(delay_s)  # somewhere inside what is aimed at
        assert writer.process is not None
        writer.process.kill()
        if writer.process.wait() != -signal.SIGKILL:
            raise _Fault(self._obituary(writer))
        _close(writer.process)
        phase, count = self._look(writer)
        self._killed_in[PHASES[phase]] += 1
        self._before += count
        self._start(writer)

    def _stop(self) -> None:
        """Lets every writer end its last transaction."""
        for writer in self._writers:
            assert writer.process is not None
            _close(writer.process)
        for writer in self._writers:
            assert writer.process is not None
            try:
                if writer.process.wait(_PATIENCE_S) != 0:
                    raise _Fault(self._obituary(writer))
            except subprocess.TimeoutExpired as problem:
                raise _Fault(f"writer {writer.slot} does not end") from problem

    def _end_all(self) -> None:
        for writer in self._writers:
            if writer.process is not None:
                writer.process.kill()
                writer.process.wait()
                _close(writer.process)

    # --- the judgement --------------------------------------------------------------------------------------

    def _judge(self) -> _Judged:
        task = {
            "factory": self._target.factory,
            "options": to_wire(dict(self._target.options)),
            "path": str(self._place / "store"),
            "acknowledgements": str(self._acknowledgements),
        }
        judge = _program(_JUDGE, self._place, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, errors = judge.communicate(json.dumps(task).encode() + b"\n", timeout=_JUDGE_S)
            if judge.returncode == 0:
                judged: _Judged = json.loads(out)
                return judged
            said = errors.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
            why = f"the store cannot be judged: {said[-1]}"
        except subprocess.TimeoutExpired:
            why = f"the store could not be read within {_JUDGE_S:g} s"
        finally:
            judge.kill()
            judge.wait()
        return {"problems": [why], "acknowledged": self._before, "present": 0, "transactions": 0}


def _program(module: str, place: Path, *, stdout: int, stderr: int | BinaryIO) -> subprocess.Popen[bytes]:
    """Starts a fresh interpreter with this one's import path, beyond the reach of the terminal's Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        cwd=place,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)},
        start_new_session=True,
        stdout=stdout,
        stderr=stderr,
    )


def _tell(process: subprocess.Popen[bytes], words: Mapping[str, object]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(words).encode() + b"\n")
    process.stdin.flush()


def _close(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def _file_system(folder: Path) -> str | None:
    """Returns the kind of file system that holds the folder."""
    import psutil

    mounts = [(Path(part.mountpoint), part.fstype) for part in psutil.disk_partitions(all=True)]
    holding = [(len(point.parts), kind) for point, kind in mounts if folder == point or point in folder.parents]
    return max(holding)[1] if holding else None

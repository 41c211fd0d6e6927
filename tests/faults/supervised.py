"""Runs of the local scheduler as the fault tests need them: real processes, found again by a mark in their environment.

Used by the tests of rows 2, 3, 10, 12 and 14. Whatever a test does, nothing that it started outlives it.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from pathlib import Path
from typing import Any

from perpetual.slots.scheduler import Launched, LaunchSpec, Sighting
from perpetual.toolkit import platform
from perpetual_local.scheduler import build
from perpetual_supervisor import rundir
from tests.support import LONG_S

__all__ = ["Bench"]

_PATHS = [str(Path(platform.__file__).parents[2]), str(Path(rundir.__file__).parents[1])]
_MARK = "PERPETUAL_TEST_BENCH"


def _id(launched: Launched | None) -> str | None:
    return None if launched is None else launched.native_id


class Bench:
    """Runs below one folder."""

    def __init__(self, folder: Path, max_log_bytes: int = 100_000_000) -> None:
        self.folder = folder
        self.scheduler = build({"max_log_bytes": max_log_bytes})
        self._mark = uuid.uuid4().hex
        self._supervisors: list[platform.Identity] = []
        (folder / "cwd").mkdir()

    def spec(self, *argv: str, name: str = "run", **changes: Any) -> LaunchSpec:
        """A specification; its command finds its folder's path in `RUN`, and a pipe to wait on in `GATE`."""
        gate = self.folder / f"{name}.gate"
        if not gate.exists():
            os.mkfifo(gate)
        log_dir = self.folder / name
        log_dir.mkdir(exist_ok=True)
        env = {"PATH": os.environ["PATH"], "GATE": str(gate), "RUN": str(log_dir), _MARK: self._mark}
        given: dict[str, Any] = {"wall_s": None, "grace_s": 0.5, **changes}
        return LaunchSpec(name, argv, self.folder / "cwd", env, log_dir, **given)

    def launch(self, *argv: str, name: str = "run", **changes: Any) -> Launched:
        """A launched run."""
        launched = self.scheduler.launch(self.spec(*argv, name=name, **changes))
        self._remember(name)
        return launched

    def shell(self, script: str, **changes: Any) -> Launched:
        """A launched run of a shell's script."""
        return self.launch("sh", "-c", script, **changes)

    def python(self, program: str, *words: str, **changes: Any) -> Launched:
        """A launched run of a program in Python."""
        return self.launch(sys.executable, "-I", "-S", "-c", program, *words, **changes)

    def open(self, name: str = "run") -> None:
        """Lets pass whoever waits at the gate, or comes there; once."""
        with (self.folder / f"{name}.gate").open("w") as gate:
            gate.write("\n")

    def poll(self, launched: Launched | None = None, name: str = "run") -> Sighting:
        """How it is."""
        return self.scheduler.poll(_id(launched), self.folder / name)

    def wait(self, launched: Launched | None = None, name: str = "run") -> Sighting:
        """How it is once it runs no more."""
        seen = self.scheduler.wait(_id(launched), self.folder / name, LONG_S)
        assert seen.state != "running", seen
        return seen

    def cancel(self, launched: Launched | None = None, name: str = "run", grace_s: float = 0.5) -> bool:
        """Has it ended."""
        return self.scheduler.cancel(_id(launched), self.folder / name, by="the test", grace_s=grace_s)

    def started(self, name: str = "run") -> rundir.Started:
        """Who runs it."""
        found = rundir.read_started(self.folder / name)
        assert found is not None
        return found

    def text(self, file: str, name: str = "run") -> str:
        """What is in a file of its folder; nothing where there is none."""
        path = self.folder / name / file
        return path.read_text() if path.exists() else ""

    def ran(self, name: str = "run") -> int:
        """How often a command that begins with `COUNT` has run."""
        path = self.folder / "cwd" / f"{name}.ran"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def count(self, name: str = "run") -> str:
        """A shell's line by which a command is counted."""
        return f"echo once >> {name}.ran; "

    def identity(self, pid: int) -> platform.Identity:
        """A process that lives."""
        found = platform.identity_of(pid)
        assert found is not None, f"{pid} is gone"
        return found

    def alive(self) -> list[platform.Identity]:
        """Every process of any command of this bench, wherever it has gone to."""
        found = []
        for name in os.listdir("/proc"):
            try:
                is_one = name.isdigit() and self._mark.encode() in Path(f"/proc/{name}/environ").read_bytes()
            except OSError:
                continue  # gone meanwhile, or a kernel thread
            identity = platform.identity_of(int(name)) if is_one else None
            if identity is not None:
                found.append(identity)
        return found

    def supervise_with(self, patches: str) -> Path:
        """A supervisor's program in which something is replaced: `die()` ends it as a lost machine would."""
        program = self.folder / "shim.py"
        program.write_text(
            f"import os, sys\nsys.path[:0] = {_PATHS}\n"
            "from perpetual.toolkit import atomic, platform\n"
            "from perpetual_supervisor import process_tree, shim, supervisor\n"
            "def die(): os.kill(os.getpid(), 9)\n"
            f"{patches}\n"
            "os._exit(shim.main(sys.argv))\n"
        )
        return program

    def _remember(self, name: str) -> None:
        self._supervisors.append(self.started(name).supervisor)

    def close(self) -> None:
        """Ends all that is left; AssertionError if anything was: a test that passes leaves nothing."""
        for supervisor in self._supervisors:
            platform.signal_process(supervisor, signal.SIGTERM)
        patience = [platform.wait_gone(each, LONG_S) for each in self._supervisors]
        left = self.alive()
        for each in left:
            platform.signal_process(each, signal.SIGKILL)
        assert all(patience), "a supervisor did not end"
        assert not left, f"still running: {left}"

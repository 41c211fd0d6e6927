"""The local scheduler: every run is a process of its own supervisor, which outlives whoever launched it.

Only the factory `build` is imported from outside, by the kernel. The work is the toolkit's run directory; this file
says it in the slot's words.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perpetual.api import CorruptData, Launched, LaunchError, LaunchSpec, Scheduler, Sighting
from perpetual.toolkit import platform, rundir

__all__ = ["LocalScheduler", "build"]


class LocalScheduler(Scheduler):
    """See `perpetual.slots.scheduler` for the contract. Holds no state: everything is in the run's folder."""

    def __init__(self, *, max_log_bytes: int) -> None:
        self._max_log_bytes = max_log_bytes

    def check(self, spec: LaunchSpec) -> None:
        """A platform that can supervise, a working directory and a program that exist."""
        reason = platform.supports_runs()
        if reason is not None:
            raise LaunchError(reason, code="unsupported_platform")
        if not spec.cwd.is_dir():
            raise LaunchError(
                f"the working directory {spec.cwd} does not exist",
                hint="create it, or propose with another --cwd",
            )
        program = spec.argv[0]
        if os.sep in program:
            found = spec.cwd / program
            usable = found.is_file() and os.access(found, os.X_OK)
        else:
            usable = shutil.which(program, path=spec.env.get("PATH", os.defpath)) is not None
        if not usable:
            raise LaunchError(
                f"the program {program!r} was not found or cannot be executed (working directory {spec.cwd})",
                hint="check the spelling, or give its path; a script needs its interpreter before it",
                code="command_not_found",
            )

    def launch(self, spec: LaunchSpec) -> Launched:
        """Starts the supervisor and returns once the command executes."""
        try:
            started = rundir.launch(
                spec.log_dir,
                argv=spec.argv,
                cwd=spec.cwd,
                env=spec.env,
                wall_s=spec.wall_s,
                grace_s=spec.grace_s,
                max_log_bytes=self._max_log_bytes,
            )
        except rundir.LaunchFailed as problem:
            raise LaunchError(f"{spec.run_id} could not be started: {problem.reason}") from problem
        except (OSError, ValueError) as problem:
            raise LaunchError(f"{spec.run_id} could not be started: {problem}") from problem
        supervisor = started.supervisor
        native = f"{supervisor.boot_id}/{supervisor.pid}/{supervisor.start_ticks}"
        return Launched(native, started.child.pid if started.child else None, started.started_at)

    def poll(self, native_id: str | None, log_dir: Path) -> Sighting:
        """Reads the run's folder; an orphaned command (its supervisor was killed) still counts as running."""
        with _readable():
            return _sighting(rundir.observe(log_dir))

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        """TERM, `grace_s`, KILL, done by the supervisor."""
        with _readable():
            return rundir.cancel(log_dir, by=by, grace_s=grace_s)

    def wait(self, native_id: str | None, log_dir: Path, timeout_s: float) -> Sighting:
        """Waits on the supervisor's process."""
        with _readable():
            return _sighting(rundir.wait(log_dir, timeout_s))


@contextmanager
def _readable() -> Iterator[None]:
    """A record that cannot be read is an error of the lab's, named by its file."""
    try:
        yield
    except ValueError as problem:
        raise CorruptData(str(problem), hint="the run's folder was changed from outside") from problem


def _sighting(seen: rundir.Observation) -> Sighting:
    child = seen.started.child if seen.started else None
    pid = child.pid if child else None
    if seen.exit is not None:
        record = seen.exit
        return Sighting(
            "ended",
            reason=record.reason,
            detail=record.detail,
            exit_code=record.exit_code,
            signal=record.signal,
            started_at=record.started_at,
            ended_at=record.ended_at,
            duration_s=record.duration_s,
            max_rss_bytes=record.max_rss_bytes,
            cpu_s=record.cpu_s,
            pid=pid,
        )
    started_at = seen.started.started_at if seen.started else None
    if seen.state in ("running", "orphaned") or seen.detail == "launching":
        return Sighting("running", detail=seen.detail, started_at=started_at, pid=pid)
    return Sighting("absent" if seen.state == "absent" else "lost", detail=seen.detail, started_at=started_at, pid=pid)


def build(options: Mapping[str, Any]) -> LocalScheduler:
    """Factory of the provider `local`."""
    return LocalScheduler(max_log_bytes=int(options["max_log_bytes"]))

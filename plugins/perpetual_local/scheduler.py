"""The local scheduler: every run is a process of its own supervisor, which outlives whoever launched it.

Only the factory `build` is imported from outside, by the kernel. The work is the toolkit's run directory; this file
says it in the slot's words.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perpetual.api import CorruptData, Launched, LaunchError, LaunchSpec, Scheduler, Sighting, TransientError
from perpetual.toolkit import platform, rundir

__all__ = ["LocalScheduler", "build"]

_UNSEEN_POLL_S = 0.05
_FOLDERLESS = "its folder was removed; its supervisor goes on, and can record nothing"


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
                no_output_s=spec.no_output_s,
                max_log_bytes=self._max_log_bytes,
                held=spec.held,
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
            return _sighting(rundir.observe(log_dir), native_id)

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        """TERM, `grace_s`, KILL, done by the supervisor; with the grace of the start if its folder was spoilt."""
        supervisor = _supervisor(native_id)
        with _readable():
            try:
                if rundir.cancel(log_dir, by=by, grace_s=grace_s):
                    return True
            except ValueError:  # the record of the start was spoilt; who supervises is known all the same
                if supervisor is not None and rundir.cancel_supervisor(supervisor):
                    return True
                raise
            if supervisor is None or rundir.observe(log_dir).state != "absent":
                return False
            return rundir.cancel_supervisor(supervisor)

    def wait(self, native_id: str | None, log_dir: Path, timeout_s: float) -> Sighting:
        """Waits on the supervisor's process."""
        deadline = time.monotonic() + timeout_s
        supervisor = _supervisor(native_id)
        with _readable():
            try:
                seen = _sighting(rundir.wait(log_dir, timeout_s), native_id)
                if seen.detail != _FOLDERLESS:
                    return seen
            except ValueError:  # nothing says how it is, until the record of its end does
                if supervisor is None:
                    raise
            if supervisor is not None:
                platform.wait_gone(supervisor, deadline - time.monotonic())
            return _sighting(rundir.observe(log_dir), native_id)

    def wait_any(self, runs: Sequence[tuple[str | None, Path]], timeout_s: float) -> list[int]:
        """Waits on all their processes at once."""
        deadline = time.monotonic() + timeout_s
        looked_at: Sequence[int] = range(len(runs))
        keepers: dict[int, platform.Identity] = {}
        while True:
            over = []
            for number in looked_at:
                native_id, log_dir = runs[number]
                with _readable():
                    seen = rundir.observe(log_dir)
                if _sighting(seen, native_id).state != "running":
                    over.append(number)
                keeper = _keeper(seen, native_id)
                if keeper is not None and platform.is_alive(keeper):
                    keepers[number] = keeper
                else:
                    keepers.pop(number, None)
            left_s = deadline - time.monotonic()
            if over or left_s <= 0:
                return over
            # One that cannot be seen from here (it is in a container, or is just being started) is looked at again.
            unseen = [number for number in range(len(runs)) if number not in keepers]
            gone = platform.wait_any_gone([*keepers.values()], min(left_s, _UNSEEN_POLL_S) if unseen else left_s)
            looked_at = sorted([*([*keepers][place] for place in gone), *unseen])


def _keeper(seen: rundir.Observation, native_id: str | None) -> platform.Identity | None:
    """The process whose end is that of a running run."""
    if seen.started is None:
        return _supervisor(native_id)
    return seen.started.child if seen.state == "orphaned" else seen.started.supervisor


@contextmanager
def _readable() -> Iterator[None]:
    """A record that cannot be read is an error of the lab's, named by its file."""
    try:
        yield
    except ValueError as problem:
        hint = "the run's folder was changed from outside: mend or remove that file, then perpetual scan"
        raise CorruptData(str(problem), hint=hint) from problem
    except OSError as problem:  # of the file system, or of this process: another look may succeed
        raise TransientError(
            f"a run's folder cannot be looked at: {problem}", hint="the same again, later"
        ) from problem


def _supervisor(native_id: str | None) -> platform.Identity | None:
    """The supervisor that a native id names; None for none, or for one that is not ours."""
    try:
        boot_id, pid, start_ticks = (native_id or "").split("/")
        return platform.Identity(boot_id, int(pid), int(start_ticks))
    except ValueError:
        return None


def _sighting(seen: rundir.Observation, native_id: str | None) -> Sighting:
    supervisor = _supervisor(native_id)
    if seen.state == "absent" and seen.detail is None and supervisor is not None:
        # Something was started, so its folder was removed. Its record is lost with it.
        if platform.is_alive(supervisor):
            return Sighting("running", detail=_FOLDERLESS)
        same_boot = supervisor.boot_id == platform.boot_id()
        return Sighting("lost", detail="its folder was removed" if same_boot else "reboot; its folder was removed")
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
        return Sighting(
            "running", detail=seen.detail, started_at=started_at, pid=pid, age_s=seen.age_s, overdue=seen.overdue
        )
    return Sighting("absent" if seen.state == "absent" else "lost", detail=seen.detail, started_at=started_at, pid=pid)


def build(options: Mapping[str, Any]) -> LocalScheduler:
    """Factory of the provider `local`."""
    return LocalScheduler(max_log_bytes=int(options["max_log_bytes"]))

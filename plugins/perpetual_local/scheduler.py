"""The local scheduler: every run is a process of its own supervisor, which outlives the launcher.

Only the factory `build` is imported from outside, by the kernel. The work is the toolkit's run directory; this file
says it in the slot's words.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from perpetual.api import (
    CorruptData,
    EndUnreadable,
    Launched,
    LaunchError,
    LaunchSpec,
    Scheduler,
    Sighting,
    TransientError,
)
from perpetual.toolkit import platform
from perpetual.toolkit.confined import make_folder
from perpetual.toolkit.hosts import this_host
from perpetual.toolkit.run_folder import folder_of, is_locked, supervisor_here
from perpetual_supervisor import mover_start, rundir
from perpetual_supervisor.records import hash_of

__all__ = ["LocalScheduler", "build"]

UNSEEN_POLL_S = 0.05
_FOLDERLESS = "its folder was removed; its supervisor goes on, and can record nothing"
_CHANGED = "its records were changed; its supervisor goes on, and writes them anew"
_STRANGE = "its folder holds the records of another run"
# What the process that moves the queue gets of the launcher's environment: what Python, git, the state folder, the GPU
# driver and the desktop are found by. No run's own variable is among them, and none that may hold a secret.
_PASSED = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "LD_LIBRARY_PATH", "PYTHONPATH",
           "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS",
           "PERPETUAL_STATE_DIR", "PERPETUAL_CACHE_DIR", "PERPETUAL_BOOT_ID", "GIT_CONFIG_GLOBAL",
           "GIT_CONFIG_NOSYSTEM")  # fmt: skip
_PASSED_FAMILIES = ("LC_", "XDG_", *(f"PERPETUAL_{name.upper()}" for name in ("store", "gpu", "queue")))
_SLACK_S = 5.0  # between the supervisor's start and that of its clock, and for rounding


class LocalScheduler(Scheduler):
    """See `perpetual.slots.scheduler` for the contract. Holds no state: everything is in the run's folder."""

    binds_runs = True
    lost_is_final = True  # the supervisor writes the record, and it is gone
    inherits_env = True
    moves_queue = True

    def __init__(self, *, max_log_bytes: int, unseen_poll_s: float = UNSEEN_POLL_S) -> None:
        self._max_log_bytes, self._unseen_poll_s = max_log_bytes, unseen_poll_s

    def check(self, spec: LaunchSpec) -> None:
        """Checks that the platform can supervise, the machine has enough, and working directory and program exist."""
        reason = platform.supports_runs()
        if reason is not None:
            raise LaunchError(reason, code="unsupported_platform")
        self.check_this_machine(spec)
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
                nonce=spec.nonce,
                spec_hash=spec.spec_hash,
                mover=_mover(Path(spec.env["PERPETUAL_PROJECT"])) if spec.moves_queue else None,
            )
        except rundir.LaunchFailed as problem:
            raise LaunchError(f"{spec.run_id} could not be started: {problem.reason}") from problem
        except (OSError, ValueError) as problem:
            raise LaunchError(f"{spec.run_id} could not be started: {problem}") from problem
        supervisor = started.supervisor
        parts = (*supervisor, spec.nonce or "", this_host().id, started.end_hash or "")
        native = "/".join(map(str, parts))
        pid = started.child.pid if started.child else None
        return Launched(native, pid, started.started_at, host=started.host_name)

    def keep_moving(self, project: Path) -> None:
        """Starts what moves the queue, unless it is at work: so it has started by the time that a run ends."""
        with suppress(OSError):  # then the end of a run starts it
            mover_start.start(_mover(project))

    def poll(self, native_id: str | None, log_dir: Path) -> Sighting:
        """Reads the run's folder; an orphaned command (its supervisor was killed) still counts as running."""
        native = _Native.of(native_id)
        with _readable(native, log_dir):
            return _sighting(rundir.observe(log_dir), native, log_dir)

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        """Ends the run through its supervisor: TERM, `grace_s`, KILL; the start's grace if its folder was spoilt.

        Only what is proven to be of this folder is signalled: a native id alone proves nothing.
        """
        native = _Native.of(native_id)
        supervisor = native and native.supervisor
        with _readable(native, log_dir):
            try:
                if native is not None and _nonce_of(rundir.observe(log_dir)) not in (None, native.nonce or None):
                    return rundir.cancel_supervisor(native.supervisor, log_dir)
                if rundir.cancel(log_dir, by=by, grace_s=grace_s):
                    return True
            except ValueError:  # the record of the start was spoilt; its supervisor is known all the same
                if supervisor is not None and rundir.cancel_supervisor(supervisor, log_dir):
                    return True
                raise
            if supervisor is not None and rundir.cancel_supervisor(supervisor, log_dir):
                return True
            return rundir.end_leftovers(log_dir, grace_s=grace_s)

    def wait(self, native_id: str | None, log_dir: Path, timeout_s: float) -> Sighting:
        """Waits on the supervisor's process."""
        deadline = time.monotonic() + timeout_s
        native = _Native.of(native_id)
        with _readable(native, log_dir):
            try:
                seen = _sighting(rundir.wait(log_dir, timeout_s), native, log_dir)
                if seen.detail not in (_FOLDERLESS, _CHANGED) and not (seen.elsewhere and native):
                    return seen
            except ValueError:  # nothing says how it is, until the record of its end does
                if native is None:
                    raise
            if native is not None:
                platform.wait_gone(native.supervisor, deadline - time.monotonic())
            return _sighting(rundir.observe(log_dir), native, log_dir)

    def wait_any(self, runs: Sequence[tuple[str | None, Path]], timeout_s: float) -> list[int]:
        """Waits on all their processes at once."""
        deadline = time.monotonic() + timeout_s
        looked_at: Sequence[int] = range(len(runs))
        keepers: dict[int, platform.Identity] = {}
        while True:
            over = []
            for number in looked_at:
                native_id, log_dir = runs[number]
                native = _Native.of(native_id)
                with _readable(native, log_dir):
                    seen = rundir.observe(log_dir)
                    if _sighting(seen, native, log_dir).state != "running":
                        over.append(number)
                keeper = _keeper(seen, native)
                if keeper is not None and platform.is_alive(keeper):
                    keepers[number] = keeper
                else:
                    keepers.pop(number, None)
            left_s = deadline - time.monotonic()
            if over or left_s <= 0:
                return over
            # One that cannot be seen from here (it is in a container, or is just being started) is looked at again.
            unseen = [number for number in range(len(runs)) if number not in keepers]
            gone = platform.wait_any_gone([*keepers.values()], min(left_s, self._unseen_poll_s) if unseen else left_s)
            looked_at = sorted([*([*keepers][place] for place in gone), *unseen])


class _Native(NamedTuple):
    """What a native id says."""

    supervisor: platform.Identity
    nonce: str = ""
    host_id: str = ""
    end_hash: str = ""

    @classmethod
    def of(cls, native_id: str | None) -> _Native | None:
        """Parses a native id; None for none or a foreign one. An earlier version's names the process alone."""
        boot_id, pid, ticks, nonce, host_id, end_hash, *_ = [*(native_id or "").split("/"), *[""] * 6]
        if not (pid.isdecimal() and ticks.isdecimal() and len(pid) < 11 and len(ticks) < 20):
            return None
        return cls(platform.Identity(boot_id, int(pid), int(ticks)), nonce, host_id, end_hash)

    def vouches(self, record: rundir.ExitRecord) -> bool:
        """Returns whether a record of an end is the supervisor's: it holds the key whose hash is known since the start.

        Of an earlier version, of before a restart and of another machine the nonce alone has to do.
        """
        if not self.end_hash or self.supervisor.boot_id != platform.boot_id():
            return True
        return record.end_key is not None and hash_of(record.end_key) == self.end_hash


def _mover(project: Path) -> rundir.MoverDocument:
    """Returns what records the ends of runs, and starts what waits: a process that knows nothing of a run."""
    folder = project / ".perpetual" / "dispatch"
    make_folder(folder)
    env = {name: value for name, value in os.environ.items() if name in _PASSED or name.startswith(_PASSED_FAMILIES)}
    return {"argv": [sys.executable, "-P", "-m", "perpetual_dispatch"], "env": env, "folder": str(folder)}


def _nonce_of(seen: rundir.Observation) -> str | None:
    record = seen.exit or seen.started
    return None if record is None else record.nonce


def _keeper(seen: rundir.Observation, native: _Native | None) -> platform.Identity | None:
    """Returns the process whose end is that of a running run."""
    if seen.started is None or seen.state not in ("running", "orphaned"):
        return native and native.supervisor
    return seen.started.child if seen.state == "orphaned" else seen.started.supervisor


def _is_over(native: _Native | None, log_dir: Path) -> bool:
    """Returns whether all processes of a run with unreadable records have ended."""
    known = [native.supervisor] if native is not None else []
    try:
        started = rundir.read_started(log_dir)
        if started is not None:
            known += [started.supervisor, *([started.child] if started.child else [])]
        is_held = is_locked(log_dir)
    except ValueError:
        is_held = is_locked(log_dir)
    is_alive = any(platform.is_alive(each) or supervisor_here(each, log_dir) is not None for each in known)
    nonce = (native.nonce or None) if native is not None else None
    return not is_held and not is_alive and not [*rundir.processes_of(log_dir, nonce)]


@contextmanager
def _readable(native: _Native | None, log_dir: Path) -> Iterator[None]:
    """Raises the lab's error, naming the file, for a record that cannot be read."""
    try:
        yield
    except ValueError as problem:
        hint = "the run's folder was changed from outside: mend or remove that file, then perpetual scan"
        kind = EndUnreadable if _is_over(native, log_dir) else CorruptData
        raise kind(str(problem), hint=hint) from problem
    except OSError as problem:  # of the file system, or of this process: another look may succeed
        raise TransientError(
            f"a run's folder cannot be looked at: {problem}", hint="the same again, later"
        ) from problem


def _sighting(seen: rundir.Observation, native: _Native | None, log_dir: Path) -> Sighting:
    """Returns what the folder says of the run of this native id. Raises ValueError for an impossible record."""
    nonce = _nonce_of(seen)
    is_strange = native is not None and nonce is not None and nonce != native.nonce
    if native is not None and (seen.state not in ("running", "orphaned") or is_strange):
        said = _by_supervisor(seen, native, log_dir, is_strange=is_strange)
        if said is not None:
            return replace(said, nonce=native.nonce or None)
    started = seen.started
    pid = started.child.pid if started and started.child else None
    if seen.exit is not None:
        record = seen.exit
        if native is not None and not native.vouches(record):
            raise ValueError(f"{log_dir / 'exit.json'}: it was not written by the run's supervisor, which was killed")
        keepers = [native.supervisor] if native is not None else [started.supervisor] if started is not None else []
        age_s = platform.age_s(keepers[0]) if keepers else None
        if age_s is not None and record.duration_s > age_s + _SLACK_S:
            raise ValueError(f"{log_dir / 'exit.json'}: it lasted {record.duration_s:g} s, and began {age_s:g} s ago")
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
            nonce=record.nonce,
            spec_hash=record.spec_hash,
            host=started.host_name if started else None,
        )
    state = "running" if seen.state == "orphaned" or seen.detail == "launching" else seen.state
    return Sighting(
        state,
        detail=seen.detail,
        started_at=started.started_at if started else None,
        pid=pid,
        age_s=seen.age_s,
        overdue=seen.overdue,
        nonce=started.nonce if started else None,
        spec_hash=started.spec_hash if started else None,
        elsewhere=seen.elsewhere,
        left=seen.left,
        host=started.host_name if started else None,
    )


def _by_supervisor(seen: rundir.Observation, native: _Native, log_dir: Path, *, is_strange: bool) -> Sighting | None:
    """Returns what the run's supervisor says against its folder; None if nothing."""
    supervisor = native.supervisor
    is_missing = is_strange or (seen.state == "absent" and seen.detail is None)
    if supervisor_here(supervisor, log_dir) is not None:
        return Sighting("running", detail=_FOLDERLESS if is_missing else _CHANGED)
    if platform.is_alive(supervisor):
        where = f"runs in {folder_of(supervisor.pid) or 'another folder'}, and not here"
        if platform.is_alive(supervisor):  # else it has ended while its folder was looked up
            return Sighting("running", detail=where, elsewhere=where)
    if not is_missing:
        return None
    # Something was started, so its folder was removed, or another took its place. Its record is lost with it.
    same_boot = supervisor.boot_id == platform.boot_id()
    if native.host_id and not same_boot and native.host_id != this_host().id:
        return Sighting("running", detail="runs on another machine", elsewhere="runs on another machine")
    why = _STRANGE if is_strange else "its folder was removed"
    return Sighting("lost", detail=why if same_boot else f"reboot; {why}")


def build(options: Mapping[str, int]) -> LocalScheduler:
    """Builds the provider `local`."""
    return LocalScheduler(max_log_bytes=options["max_log_bytes"])

"""The scheduler slot: who starts a run's process, watches it and ends it.

The contract
------------
*Truth.* A run that was launched goes on when its launcher dies. How it ended is known from an exit record that the
supervisor of the run wrote itself; words in logs, ages of files and the absence of news decide nothing. Where the
record is lost for good, `poll` says `lost`.

*Identity.* A native id names one process of one boot for ever; a process that merely has the same pid is never
reported on and never signalled.

*Processes.* `poll`, `cancel` and `logs` work from any process of the same user, also after the launcher's death.
Methods may be called from several threads.

*Ownership.* `launch` writes only below `spec.log_dir`; the kernel makes that folder before.

*Raises.* `LaunchError` from `check` and `launch`, with a reason for people, if nothing was started; `TransientError`
where an engine is out of reach.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perpetual.errors import PerpetualError

__all__ = ["LaunchError", "LaunchSpec", "Launched", "Scheduler", "Sighting"]


class LaunchError(PerpetualError):
    """The run could not be started; nothing runs."""

    code = "launch_failed"


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything a scheduler needs to start one run."""

    run_id: str
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]  # the whole environment of the process
    log_dir: Path
    wall_s: float | None  # the run is ended when it has lasted this long
    grace_s: float  # between TERM and KILL
    gpus: int = 0
    gpu_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """A started run."""

    native_id: str
    pid: int | None
    started_at: str  # UTC, ISO 8601
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sighting:
    """What is known of a run now.

    `state`: `absent` (nothing was ever started for it), `running`, `ended` (the exit record is there: the fields
    below tell it), or `lost` (no record and no process; `detail` says what is known). `reason` of an ended run:
    `exited`, `signalled`, `timeout`, `killed` or `exec_failed`.
    """

    state: str
    reason: str | None = None
    detail: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    started_at: str | None = None
    ended_at: str | None = None
    duration_s: float | None = None
    max_rss_bytes: int | None = None
    cpu_s: float | None = None
    pid: int | None = None


class Scheduler(ABC):
    """Base of every scheduler; see the contract at the top of this module."""

    places_gpus = False  # the engine assigns GPUs itself
    queues = False  # a launched run may wait in the engine's own queue

    @abstractmethod
    def check(self, spec: LaunchSpec) -> None:
        """Raises `LaunchError` if the run could never start here: a missing program, folder or resource."""

    @abstractmethod
    def launch(self, spec: LaunchSpec) -> Launched:
        """Starts the run and returns at once; the run does not depend on the caller's life."""

    @abstractmethod
    def poll(self, native_id: str | None, log_dir: Path) -> Sighting:
        """Says what is known of the run, without waiting. `native_id` None: its launcher died before noting it."""

    @abstractmethod
    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        """Asks the run's supervisor to end the whole process tree: TERM, `grace_s`, KILL. False: nothing to end."""

    @abstractmethod
    def wait(self, native_id: str | None, log_dir: Path, timeout_s: float) -> Sighting:
        """Like `poll`, but waits up to `timeout_s` for the run to end."""

    def logs(self, log_dir: Path, *, stderr: bool = False) -> Path:
        """The file that holds the run's output; it may be absent or still growing."""
        return log_dir / ("stderr.log" if stderr else "stdout.log")

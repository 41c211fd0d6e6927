"""The scheduler slot: who starts a run's process, watches it and ends it.

The contract
------------
*Truth.* A run that was launched goes on when its launcher dies. How it ended is known from an exit record that the
supervisor of the run wrote itself; words in logs, ages of files and the absence of news decide nothing. `ended` is said
once every process of the run is gone, those that the command left behind included, and from then on for ever. Where
the record is lost for good, `poll` says `lost`, but not while the command lives: that one is `running`, and `cancel`
ends it.

*Identity.* A native id names one process of one boot for ever; a process that merely has the same pid is never
reported on and never signalled.

*One folder, one run.* The command of a `log_dir` is executed once at most, however many launchers try, at once or one
after another: where one was started `launch` raises and touches nothing; where a launcher died before that, `launch`
starts it. `native_id` None is answered from the folder alone.

*The command* gets `argv`, `cwd` and `env` as they are in the specification, and an empty standard input. A program
without a slash is looked up in the `PATH` of that `env`, one with a slash from `cwd`. Its output is in `stdout.log` and
`stderr.log` of `log_dir` byte by byte: while it runs where `logs` says, and complete when it has ended, for the metric
readers look there.

*Ending.* At `wall_s` and at `cancel` every process of the run gets TERM and, after the grace, KILL. The reason is then
`timeout` or `killed`, whatever the command answered, with a detail for people, which names who cancelled. A further
`cancel` can shorten the grace and never lengthens it.

*Processes.* `poll`, `cancel`, `wait` and `logs` work from any process of the same user, also after the launcher's
death. Methods may be called from several threads; one that waits holds up no other.

*Ownership.* `launch` writes only below `spec.log_dir`; the kernel makes that folder before, and its files in it stay as
they are. `check` starts and writes nothing, and the folder need not exist. Nor need it for `poll`, `wait` and `cancel`:
`absent`, and nothing to end.

*Raises.* `LaunchError` from `check` and `launch`, with a reason for people, if nothing was started, whatever is wrong
with the specification; `CorruptData` where its own records cannot be read, for nothing is invented; `TransientError`
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
    `exited`, `signalled`, `timeout`, `killed` or `exec_failed`; beside it `started_at`, `ended_at` (UTC, ISO 8601) and
    `duration_s` are always there, `exit_code` if it exited, `signal` if it was signalled. A `running` one has
    `started_at` as soon as its command is executed: without it the run is still being started, and may yet fail.
    `pid` is that of the command, on this machine.
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

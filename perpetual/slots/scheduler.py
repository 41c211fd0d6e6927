"""The scheduler slot: starts a run's process, watches it and ends it.

The contract
------------
*Truth.* A run that was launched goes on when its launcher dies. How it ended is known from an exit record that the
supervisor of the run wrote itself; words in logs, ages of files and the absence of news decide nothing. `ended` is said
once every process of the run is gone, those that the command left behind included, and from then on for ever. Where
the record is lost for good, `poll` says `lost`, but not while the command lives: that one is `running`, and `cancel`
ends it. What else a lost run has left behind is in `left`, and `cancel` ends that too.

*Identity.* A native id names one process of one boot for ever; a process that merely has the same pid is never
reported on and never signalled. Nor is one signalled that works for another folder: a copy of a run's folder, or a
native id in an imported record, names processes that are not its own. Another boot is a restart on the same machine
alone: a run of another machine is `running`, with `elsewhere`, until its record says how it ended.

*Records.* A run can write into its folder what it likes. Nothing there is taken for an exit record while the
supervisor lives, and nothing that no supervisor can have written: times are in UTC, durations finite and possible. The
nonce of the specification is in the records; a scheduler that `binds_runs` answers it with each sighting.

*One folder, one run.* The command of a `log_dir` is executed once at most, however many launchers try, at once or one
after another: where one was started `launch` raises and touches nothing; where a launcher died before that, `launch`
starts it. `native_id` None is answered from the folder alone.

*The command* gets `argv`, `cwd` and `env` as they are in the specification, and an empty standard input. A program
without a slash is looked up in the `PATH` of that `env`, one with a slash from `cwd`. Its output is in `stdout.log` and
`stderr.log` of `log_dir` byte by byte: while it runs where `logs` says, and complete when it has ended, for the metric
readers look there.

*Environment.* `env` is what the lab adds: the experiment's variables and those of the run. A scheduler that
`inherits_env` gets them over the launcher's environment, and the command has exactly `env`. One that does not, such as
that of a cluster, gets of the launcher's environment the variables named in `passes_env` alone, and the command has
`env` over what its machine offers. Tokens of the lab's servers are never in it.

*Requests.* `cpus`, `memory_bytes`, `nodes` and `options` are what the experiment asks for. What a scheduler cannot
honour it refuses, in `check` where it can know by then: nothing is dropped silently. `options` are those that it
declares in `engine_options`, checked, with their defaults; None is what the engine decides.

*Ending.* At `wall_s`, at `cancel`, and when it has been silent for `no_output_s`, every process of the run gets TERM
and, after the grace, KILL, stopped ones too. The reason is then `timeout` or `killed`, whatever the command answered,
with a detail for people, which names the canceller. A further `cancel` can shorten the grace and never lengthens it. A
run is silent while none of `stdout.log`, `stderr.log` and `metrics.jsonl` in `log_dir` grows; a scheduler that cannot
watch them refuses a specification with `no_output_s`.

*Runs of runs.* A run that is launched from inside a run has its own record and its own limits: it is no process of the
outer one, which neither waits for it nor ends it.

*Held files.* `held` is a descriptor of the launcher's with a lock on it, which says to other projects that the run has
its devices. A scheduler that runs commands on this machine keeps a copy open until every process of the run is gone,
from before the launcher may die, and out of the command's reach; one that does not leaves it alone. The launcher closes
its own after `launch`.

*Pending.* A run in the engine's own queue is `pending`, with the engine's reason in `detail`: it has no `started_at`,
no age, and no limit counts yet. `Launched.started_at` is None then. One that is cancelled there is `ended` with the
reason `killed`, a duration of 0 and no `started_at`.

*Many.* `launch_many` and `poll_many` answer each in its place, with its answer or its error: a failure of one is no
other's. They raise only where nothing was started or can be said of any. The lab hands over at most `batch` runs in one
`launch_many`, and asks for any number in one `poll_many`. A launcher that dies within leaves each started one to be
found from its folder alone, which has the nonce in `spec.json`.

*Remote logs.* `fetch_logs` brings what the run has written so far into `log_dir`, complete once it has ended. It may
wait, unlike `poll`; called again it changes nothing. Where it raises TransientError nothing is measured yet.

*Requeueing.* Where the engine starts a job anew, each sighting says how often in `requeued`, or has a new `native_id`.
The lab ends the attempt and records a new one, of the same nonce and folder.

*Late truth.* `ended` is final. `lost` is not, unless `lost_is_final`: an engine that remembers later how a run ended,
or that it goes on, is believed, for the newest lost runs, for some days.

*Limits without a supervisor.* A command whose supervisor is lost is kept to `wall_s` by its engine, or `poll` says from
then on that it is `overdue`; the caller then calls `cancel`.

*Processes.* `poll`, `cancel`, `wait` and `logs` work from any process of the same user, also after the launcher's
death. Methods may be called from several threads; one that waits holds up no other.

*Ownership.* `launch` writes only below `spec.log_dir`; the kernel makes that folder before, and its files in it stay as
they are. `check` starts and writes nothing, and the folder need not exist. Nor need it for `poll`, `wait` and `cancel`:
`absent`, and nothing to end. Where the folder of a started run was removed, what else is known of it is said.

*Raises.* `LaunchError` from `check` and `launch`, with a reason for people, if nothing was started, whatever is wrong
with the specification; `CorruptData` where its own records cannot be read, for nothing is invented (`EndUnreadable`
where no process of the run lives); `TransientError` where an engine is out of reach.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from perpetual.errors import CorruptData, PerpetualError
from perpetual.slots import Option

if TYPE_CHECKING:
    from perpetual.slots.placement import Placement

__all__ = ["EndUnreadable", "LIVING", "LaunchError", "LaunchSpec", "Launched", "Scheduler", "Sighting"]

LIVING = ("pending", "running")  # states of a run that goes on
_TURN_S = 0.1  # how long one round over several runs takes


class LaunchError(PerpetualError):
    """The run could not be started; nothing runs."""

    code = "launch_failed"


class EndUnreadable(CorruptData):
    """The run is over, all of its processes are gone, and how it ended cannot be read."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything a scheduler needs to start one run."""

    run_id: str
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]  # what the lab adds; over the launcher's environment for a scheduler that `inherits_env`
    log_dir: Path
    wall_s: float | None  # the run is ended when it has lasted this long
    grace_s: float  # between TERM and KILL
    gpus: int = 0
    gpu_memory_bytes: int | None = None
    cpus: int | None = None  # that the run keeps busy, on each node
    memory_bytes: int | None = None  # main memory, on each node
    nodes: int | None = None  # machines
    options: Mapping[str, object] = field(default_factory=dict)  # for the engine: see `engine_options`
    no_output_s: float | None = None  # the run is ended when it has written nothing for this long
    held: int | None = None  # an open file of the launcher's, whose lock is to last as long as the run
    nonce: str | None = None  # drawn for this run alone: to be in the records of its start and end
    spec_hash: str | None = None  # of the approved specification, for the same records
    moves_queue: bool = False  # its end starts what records it and starts what waits: see `Scheduler.moves_queue`


@dataclass(frozen=True, slots=True)
class Launched:
    """A started run, or one that the engine has in its queue."""

    native_id: str
    pid: int | None
    started_at: str | None  # UTC, ISO 8601; None while it is pending
    gpus: tuple[str, ...] = ()
    host: str | None = None  # the machine that it runs on, by its name; None where that is not known yet


@dataclass(frozen=True, slots=True)
class Sighting:
    """What is known of a run now.

    `state`: `absent` (nothing was ever started for it), `pending`, `running`, `ended` (the exit record is there: the
    fields below tell it), or `lost` (no record and no process; `detail` says what is known). `reason` of an ended run:
    `exited`, `signalled`, `timeout`, `killed` or `exec_failed`; beside it `started_at`, `ended_at` (UTC, ISO 8601) and
    `duration_s` are always there, `exit_code` if it exited, `signal` if it was signalled. A `running` one has
    `started_at` as soon as its command is executed: without it the run is still being started, and may yet fail.
    `pid` is that of the command, on this machine. `age_s` is how long a running command has lasted, by a clock that
    no user can set; None where that is unknown. `overdue`: it runs past its wall limit without a supervisor to end it.
    The duration of what is lost is unknown.
    `nonce` and `spec_hash` are those of the specification that the records in the folder were made from, where the
    scheduler `binds_runs`. `elsewhere` says in words where a running one lives that cannot be ended from here: on
    another machine, or in the folder of which this one is a copy. `left` are the processes that a lost one has left.
    `host` is the name of the machine that it runs or ran on, None where that is unknown. `gpus` are those that the
    engine has placed. `native_id` is that by which the engine knows it now, None where that of `Launched` holds;
    `requeued` is how often the engine has started it anew.
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
    age_s: float | None = field(default=None, compare=False)  # it differs at each look, and the run does not
    overdue: bool = False
    nonce: str | None = None
    spec_hash: str | None = None
    elsewhere: str | None = None
    left: tuple[int, ...] = field(default=(), compare=False)
    host: str | None = None
    gpus: tuple[str, ...] = ()
    native_id: str | None = None
    requeued: int = 0


class Scheduler(ABC):
    """Base of every scheduler; see the contract at the top of this module."""

    engine_options: Mapping[str, Option] = MappingProxyType({})  # that `propose --engine KEY=VALUE` takes
    inherits_env = False  # `LaunchSpec.env` holds the launcher's environment too
    passes_env: Sequence[str] = ()  # the variables of the launcher's environment that are in `env` all the same
    places_gpus = False  # the engine assigns GPUs itself: see `placement`
    queues = False  # a launched run may wait in the engine's own queue
    batch = 1  # how many runs one `launch_many` takes at most
    lost_is_final = False  # a lost run is never said to have ended later: it is not asked for again
    moves_queue = False  # the end of its runs starts what waits, where `LaunchSpec.moves_queue` asks for it
    binds_runs = False  # its sightings have the nonce of the specification; another one is not taken for the run

    def keep_moving(self, project: Path) -> None:
        """Has a process at work that starts what waits when a run ends, or a moment comes. It raises nothing."""
        return

    def placement(self) -> Placement | None:
        """Returns what places GPUs for this scheduler's runs; None, and the configuration chooses a placement."""
        from perpetual.slots.placement import EnginePlacement

        return EnginePlacement() if self.places_gpus else None

    @staticmethod
    def check_this_machine(spec: LaunchSpec) -> None:
        """Raises LaunchError for a request beyond this machine. For the `check` of a scheduler whose runs are here."""
        from perpetual.toolkit import platform
        from perpetual.toolkit.units import shown_bytes

        cpus, memory = platform.available_cpus(), platform.memory_bytes()
        if (spec.nodes or 1) > 1:
            problem, hint = f"it needs {spec.nodes} nodes, and its scheduler runs it on this machine", "without --nodes"
        elif (spec.cpus or 0) > cpus:
            problem, hint = f"it needs {spec.cpus} CPUs, and {cpus} may be used on this machine", "with fewer --cpus"
        elif memory is not None and (spec.memory_bytes or 0) > memory:
            needed = shown_bytes(spec.memory_bytes or 0)
            problem = f"it needs {needed} of memory, and this machine has {shown_bytes(memory)}"
            hint = "with less --memory"
        else:
            return
        raise LaunchError(problem, hint=f"propose it {hint}, or with another --scheduler", code="does_not_fit")

    @abstractmethod
    def check(self, spec: LaunchSpec) -> None:
        """Raises `LaunchError` if the run could never start here: a missing program, folder or resource."""

    @abstractmethod
    def launch(self, spec: LaunchSpec) -> Launched:
        """Starts the run and returns at once; the run does not depend on the caller's life."""

    @abstractmethod
    def poll(self, native_id: str | None, log_dir: Path) -> Sighting:
        """Says what is known of the run, without waiting. `native_id` None: its launcher died before noting it."""

    def launch_many(self, specs: Sequence[LaunchSpec]) -> list[Launched | PerpetualError]:
        """Starts several runs; answers each in its place, or why it was not started."""
        return [_answer(self.launch, spec) for spec in specs]

    def poll_many(self, runs: Sequence[tuple[str | None, Path]]) -> list[Sighting | Exception]:
        """Says what is known of several runs (native id, folder), each in its place, or why nothing can be said."""
        answers: list[Sighting | Exception] = []
        for native_id, log_dir in runs:
            try:
                answers.append(self.poll(native_id, log_dir))
            except Exception as problem:  # noqa: BLE001 - one run's fault must not hide the others; the caller raises it
                answers.append(problem)
        return answers

    def fetch_logs(self, native_id: str | None, log_dir: Path) -> None:
        """Brings what the run has written so far into its folder; nothing to do where it writes there itself.

        Raises:
            TransientError: where its machine is out of reach; what the folder holds stays as it is.
        """
        return

    @abstractmethod
    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        """Asks the run's supervisor to end the whole process tree: TERM, `grace_s`, KILL. False: nothing to end."""

    @abstractmethod
    def wait(self, native_id: str | None, log_dir: Path, timeout_s: float) -> Sighting:
        """Polls, but waits up to `timeout_s` seconds for the run to end."""

    def wait_any(self, runs: Sequence[tuple[str | None, Path]], timeout_s: float) -> list[int]:
        """Waits until one of the runs (native id, folder) is neither pending nor running, or for `timeout_s`.

        Answers the positions of those that are not. A scheduler that can watch many at once overrides it: here each
        is waited for in turn, a moment long.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            over = [number for number, run in enumerate(runs) if self.poll(*run).state not in LIVING]
            left_s = deadline - time.monotonic()
            if over or left_s <= 0:
                return over
            for native_id, log_dir in runs:
                self.wait(native_id, log_dir, min(left_s, _TURN_S) / len(runs))
            if not runs:
                time.sleep(left_s)

    def logs(self, log_dir: Path, *, stderr: bool = False) -> Path:
        """Returns the file that holds the run's output; it may be absent or still growing."""
        return log_dir / ("stderr.log" if stderr else "stdout.log")


def _answer(launch: Callable[[LaunchSpec], Launched], spec: LaunchSpec) -> Launched | PerpetualError:
    try:
        return launch(spec)
    except PerpetualError as problem:
        return problem
    except OSError as problem:
        return LaunchError(f"{spec.run_id} could not be started: {problem}")

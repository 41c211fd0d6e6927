"""The scheduler suite bites: each deliberately broken scheduler fails the test that holds its promise.

The sound scheduler that the twins are made of passes all of it in `tests/plugins/local`. Other processes import this
file to build the twins there.
"""

from __future__ import annotations

import inspect
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from perpetual.errors import PerpetualError
from perpetual.slots import Option
from perpetual.slots.scheduler import Launched, LaunchError, LaunchSpec, Scheduler, Sighting
from perpetual.testing.scheduler_site import Run, Site, make_site
from perpetual.testing.schedulers import SchedulerContract
from perpetual.testing.schedulers.commands import Commands
from perpetual.testing.schedulers.engines import Engines
from perpetual.testing.schedulers.records import Records
from perpetual.toolkit import platform
from perpetual.toolkit.units import iso, posix_of
from perpetual_local.scheduler import LocalScheduler
from perpetual_supervisor import process_tree, rundir

pytestmark = pytest.mark.slow

_LOG_BYTES = 100_000_000


class Sound(LocalScheduler):
    """The bundled one, in which every sighting passes one place."""

    elsewhere = False  # whether this is the suite's other process

    def __init__(self, *, max_log_bytes: int = _LOG_BYTES) -> None:
        super().__init__(max_log_bytes=max_log_bytes)

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return seen

    def poll(self, native_id: str | None, log_dir: Path) -> Sighting:
        return self.tell(super().poll(native_id, log_dir), native_id, log_dir)

    def wait(self, native_id: str | None, log_dir: Path, timeout_s: float) -> Sighting:
        return self.tell(super().wait(native_id, log_dir, timeout_s), native_id, log_dir)


# --- before anything runs -------------------------------------------------------------------------------------------


class TakesAbsenceForLoss(Sound):
    """Where nothing was started something was lost."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, state="lost") if seen.state == "absent" else seen


class WantsAFolder(Sound):
    """A folder that is not there makes it raise."""

    def poll(self, native_id: str | None, log_dir: Path) -> Sighting:
        [*log_dir.iterdir()]
        return super().poll(native_id, log_dir)


class PreparesAtTheCheck(Sound):
    """It makes the run's folder when it is only asked."""

    def check(self, spec: LaunchSpec) -> None:
        super().check(spec)
        spec.log_dir.mkdir(exist_ok=True)
        (spec.log_dir / "checked").touch()


class ChecksNothing(Sound):
    """What cannot start is found out later."""

    def check(self, spec: LaunchSpec) -> None:
        return


class SaysNoReason(Sound):
    """The refusal names nothing."""

    def check(self, spec: LaunchSpec) -> None:
        try:
            super().check(spec)
        except LaunchError as problem:
            raise LaunchError("it cannot be started") from problem


class CrashesOnNonsense(Sound):
    """What is wrong with a specification comes through as it is."""

    def launch(self, spec: LaunchSpec) -> Launched:
        if any("=" in name for name in spec.env):
            raise ValueError("illegal environment variable name")
        return super().launch(spec)


class CallsItARun(Sound):
    """A program that cannot be executed is a run like any other, as a shell has it: exit code 127."""

    def launch(self, spec: LaunchSpec) -> Launched:
        try:
            return super().launch(spec)
        except LaunchError:
            return Launched("x", None, "2000-01-01T00:00:00Z")

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, reason="exited") if seen.reason == "exec_failed" else seen


# --- what the command gets ------------------------------------------------------------------------------------------


class _Rewrites(Sound):
    """Starts something else than it was told."""

    def rewritten(self, spec: LaunchSpec) -> LaunchSpec:
        raise NotImplementedError

    def launch(self, spec: LaunchSpec) -> Launched:
        return super().launch(self.rewritten(spec))


class TidiesTheWords(_Rewrites):
    """Blanks around a word go."""

    def rewritten(self, spec: LaunchSpec) -> LaunchSpec:
        return replace(spec, argv=tuple(word.strip() for word in spec.argv))


class PassesItsEnvironmentOn(_Rewrites):
    """The launcher's variables come along."""

    def rewritten(self, spec: LaunchSpec) -> LaunchSpec:
        return replace(spec, env={**os.environ, **spec.env})


class OffersItsOwnMachine(PassesItsEnvironmentOn):
    """It says that runs do not inherit the launcher's environment, and they do."""

    inherits_env = False


class DropsRequests(Sound):
    """What it cannot honour is left out."""

    def check(self, spec: LaunchSpec) -> None:
        super().check(replace(spec, cpus=None, memory_bytes=None, nodes=None))


class CrashesOnARequest(Sound):
    """It knows of no nodes."""

    def check(self, spec: LaunchSpec) -> None:
        super().check(spec)
        if spec.nodes is not None:
            raise KeyError("nodes")


class DeclaresNonsense(Sound):
    """Its option has no type."""

    engine_options = MappingProxyType({"partition": Option("text", "short", "the queue")})


class DeclaresASecret(Sound):
    """A password that everyone who reads the experiment sees."""

    engine_options = MappingProxyType({"token": Option("str", None, "of an account", secret=True)})

    def check(self, spec: LaunchSpec) -> None:
        return


class ForgetsItsMachine(Sound):
    """The name is gone with the run."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, host=None) if seen.state == "ended" else seen


class StaysWhereItIs(_Rewrites):
    """The command begins in the launcher's folder."""

    def rewritten(self, spec: LaunchSpec) -> LaunchSpec:
        return replace(spec, cwd=Path.cwd())


class LooksInItsOwnPath(Sound):
    """Programs are looked up as the launcher would."""

    def check(self, spec: LaunchSpec) -> None:
        if shutil.which(spec.argv[0]) is None:
            raise LaunchError(f"no program {spec.argv[0]}")


class FeedsIt(_Rewrites):
    """There is something on standard input."""

    def rewritten(self, spec: LaunchSpec) -> LaunchSpec:
        return replace(spec, argv=("sh", "-c", 'printf x | "$@"', "sh", *spec.argv))


# --- how it ends ----------------------------------------------------------------------------------------------------


class WaitsForTheEnd(Sound):
    """`launch` returns when the run is over."""

    def launch(self, spec: LaunchSpec) -> Launched:
        launched = super().launch(spec)
        self.wait(launched.native_id, spec.log_dir, 10.0)
        return launched


class TellsTheWrongPid(Sound):
    """The supervisor's."""

    def launch(self, spec: LaunchSpec) -> Launched:
        launched = super().launch(spec)
        return replace(launched, pid=int(launched.native_id.split("/")[1]))


class ForgetsTheStart(Sound):
    """A running one has no start, so that it counts as one that may yet fail."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, started_at=None) if seen.state == "running" else seen


class AgesByTheClock(Sound):
    """How long a run has lasted is what the clock says, whoever has set it."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        known = seen.state == "running" and seen.started_at is not None
        return replace(seen, age_s=time.time() - posix_of(seen.started_at or "")) if known else seen


class AgesInMilliseconds(Sound):
    """The age is in another unit."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, age_s=seen.age_s * 1e6) if seen.age_s is not None else seen


class OnlyKnowsFailure(Sound):
    """Every code but 0 is 1."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, exit_code=min(seen.exit_code, 1)) if seen.exit_code else seen


class SpeaksAsAShell(Sound):
    """A signal is 128 and its number."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        if seen.reason != "signalled" or seen.signal is None:
            return seen
        return replace(seen, reason="exited", exit_code=128 + seen.signal, signal=None)


class ReadsTheLog(Sound):
    """A traceback is a failure."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        failed = seen.state == "ended" and b"Traceback" in (log_dir / "stderr.log").read_bytes()
        return replace(seen, exit_code=1) if failed else seen


class TakesSilenceForDeath(Sound):
    """A run whose log is old is lost."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        old = seen.state == "running" and (log_dir / "stdout.log").stat().st_mtime < time.time() - 3600
        return Sighting("lost", detail="silent for an hour") if old else seen


class CountsMilliseconds(Sound):
    """The duration is in another unit."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, duration_s=seen.duration_s * 1000) if seen.duration_s else seen


class LivesElsewhere(Sound):
    """It ended by a clock of another zone."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, ended_at=_an_hour_on(seen.ended_at)) if seen.ended_at else seen


def _an_hour_on(moment: str) -> str:
    return iso(datetime.fromtimestamp(posix_of(moment) + 3600.0, UTC))


class CountsKibibytes(Sound):
    """Memory is in another unit."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, max_rss_bytes=seen.max_rss_bytes // 1024) if seen.max_rss_bytes else seen


# --- output ---------------------------------------------------------------------------------------------------------


class CutsItShort(Sound):
    """Only the ends of a log are kept."""

    def __init__(self) -> None:
        super().__init__(max_log_bytes=4096)


class MergesTheStreams(Sound):
    """There is one log."""

    def logs(self, log_dir: Path, *, stderr: bool = False) -> Path:
        return log_dir / "stdout.log"


class ShowsItAtTheEnd(Sound):
    """The log appears when the run is over."""

    def logs(self, log_dir: Path, *, stderr: bool = False) -> Path:
        ended = self.poll(None, log_dir).state == "ended"
        return super().logs(log_dir, stderr=stderr) if ended else log_dir / "later.log"


# --- the launcher's death, and other processes ----------------------------------------------------------------------


class TakesItWithIt(Sound):
    """When the launcher dies its run does."""

    def launch(self, spec: LaunchSpec) -> Launched:
        launched = super().launch(spec)
        watch = (
            "import os, sys, time\n"
            "while os.getppid() == int(sys.argv[1]): time.sleep(0.005)\n"
            "os.kill(int(sys.argv[2]), 9)\n"
        )
        argv = [sys.executable, "-I", "-S", "-c", watch, str(os.getpid()), str(launched.pid)]
        self._watcher = subprocess.Popen(argv, start_new_session=True)
        return launched

    def poll(self, native_id: str | None, log_dir: Path) -> Sighting:
        started = rundir.read_started(log_dir)
        if started is not None and started.child is not None:
            platform.wait_gone(started.child, 20.0)  # what ends it may come late on a busy machine
        return super().poll(native_id, log_dir)


class RemembersIt(Sound):
    """What is known of a run is in the launcher's memory."""

    def __init__(self) -> None:
        super().__init__()
        self._mine: set[Path] = set()

    def launch(self, spec: LaunchSpec) -> Launched:
        self._mine.add(spec.log_dir)
        return super().launch(spec)

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        known = log_dir in self._mine or seen.state == "absent"
        return seen if known else Sighting("lost", detail="never heard of it")


class RemembersTheEnd(RemembersIt):
    """Only the launcher sees how it ended."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return seen if seen.state == "running" else super().tell(seen, native_id, log_dir)


class NeedsTheId(Sound):
    """Without the id nothing is known."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return seen if native_id else Sighting("absent")


class AnswersTwice(Sound):
    """A second launch answers the first one's run, as if it were new."""

    def launch(self, spec: LaunchSpec) -> Launched:
        started = rundir.read_started(spec.log_dir)
        return Launched("x", None, started.started_at) if started else super().launch(spec)


class BeginsANewLog(Sound):
    """A launch that is refused has emptied the log before."""

    def launch(self, spec: LaunchSpec) -> Launched:
        (spec.log_dir / "stdout.log").write_bytes(b"")
        return super().launch(spec)


class StartsForEach(Sound):
    """Each launcher gets a run of its own."""

    def launch(self, spec: LaunchSpec) -> Launched:
        try:
            return super().launch(spec)
        except LaunchError:
            again = spec.log_dir / f"again-{threading.get_ident()}"
            launched = super().launch(replace(spec, log_dir=again))
            rundir.wait(again, 30.0)
            return launched


class LeavesItsMark(Sound):
    """Who launches takes the folder for ever, also when it dies of it."""

    def launch(self, spec: LaunchSpec) -> Launched:
        try:
            (spec.log_dir / "taken").touch(exist_ok=False)
        except FileExistsError as problem:
            raise LaunchError("another launcher is at work") from problem
        if self.elsewhere:
            time.sleep(2.0)  # that process dies here
        return super().launch(spec)


# --- threads and waiting --------------------------------------------------------------------------------------------


class MixesThemUp(Sound):
    """The specification lies where another thread puts its own."""

    def launch(self, spec: LaunchSpec) -> Launched:
        self._spec = spec
        time.sleep(0.2)
        return super().launch(self._spec)


class NamesThemAlike(Sound):
    """The id is the launcher's pid."""

    def launch(self, spec: LaunchSpec) -> Launched:
        return replace(super().launch(spec), native_id=str(os.getpid()))


class WaitsItOut(Sound):
    """The whole time, whether the run has ended or not."""

    def wait(self, native_id: str | None, log_dir: Path, timeout_s: float) -> Sighting:
        time.sleep(timeout_s)
        return super().wait(native_id, log_dir, timeout_s)


class HoldsALock(Sound):
    """One method at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()

    def wait(self, native_id: str | None, log_dir: Path, timeout_s: float) -> Sighting:
        with self._lock:
            return super().wait(native_id, log_dir, timeout_s)

    def poll(self, native_id: str | None, log_dir: Path) -> Sighting:
        with self._lock:
            return super().poll(native_id, log_dir)


class DoesNotWait(Sound):
    """It looks, and that is it."""

    def wait(self, native_id: str | None, log_dir: Path, timeout_s: float) -> Sighting:
        return super().wait(native_id, log_dir, 0.0)


class WatchesTheFirst(Sound):
    """The others may end unseen."""

    def wait_any(self, runs: Sequence[tuple[str | None, Path]], timeout_s: float) -> list[int]:
        return super().wait_any(runs[:1], timeout_s)


class NamesThemAll(Sound):
    """One has ended, so it says all have."""

    def wait_any(self, runs: Sequence[tuple[str | None, Path]], timeout_s: float) -> list[int]:
        return [*range(len(runs))] if super().wait_any(runs, timeout_s) else []


class LooksInTurns(Sound):
    """As a scheduler that cannot watch many at once."""

    def wait_any(self, runs: Sequence[tuple[str | None, Path]], timeout_s: float) -> list[int]:
        return Scheduler.wait_any(self, runs, timeout_s)


# --- limits and cancelling ------------------------------------------------------------------------------------------


class KnowsNoLimit(_Rewrites):
    """A run may last for ever."""

    def rewritten(self, spec: LaunchSpec) -> LaunchSpec:
        return replace(spec, wall_s=None)


class CountsTheLimitInMilliseconds(_Rewrites):
    """A minute is over soon."""

    def rewritten(self, spec: LaunchSpec) -> LaunchSpec:
        return replace(spec, wall_s=spec.wall_s / 1000 if spec.wall_s else None)


class IsPatient(_Rewrites):
    """A run may be silent for ever."""

    def rewritten(self, spec: LaunchSpec) -> LaunchSpec:
        return replace(spec, no_output_s=None)


class TakesSilenceForALimit(_Rewrites):
    """Who may be silent for so long may not last longer."""

    def rewritten(self, spec: LaunchSpec) -> LaunchSpec:
        return replace(spec, no_output_s=None, wall_s=spec.no_output_s)


class HearsNoMetrics(_Rewrites):
    """Only what is in the logs counts as written."""

    def rewritten(self, spec: LaunchSpec) -> LaunchSpec:
        quiet = spec.no_output_s is not None and spec.argv[-1].endswith(".jsonl")
        return replace(spec, argv=(*spec.argv[:-1], f"talk:{spec.log_dir / 'other'}")) if quiet else spec


class EndsRunsOfRuns(Sound):
    """Whatever was started from inside a run is ended with it."""

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        started = rundir.read_started(log_dir)
        assert started is not None
        process_tree.signal_descendants(started.supervisor.pid, signal.SIGKILL)
        return super().cancel(native_id, log_dir, by=by, grace_s=grace_s)


class BelievesTheCode(Sound):
    """What was ended and answered with a code has exited."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, reason="exited") if seen.exit_code is not None and seen.reason != "exec_failed" else seen


class KillsAtOnce(Sound):
    """Nothing can be put in order before."""

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        os.kill(self.poll(None, log_dir).pid or 0, signal.SIGKILL)
        return super().cancel(native_id, log_dir, by=by, grace_s=grace_s)


class NamesNobody(Sound):
    """Who cancelled is not told."""

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        return super().cancel(native_id, log_dir, by="somebody", grace_s=grace_s)


class LeavesTheChildren(Sound):
    """Only the command itself is ended."""

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        started = rundir.read_started(log_dir)
        assert started is not None
        assert started.child is not None
        platform.signal_process(started.supervisor, signal.SIGKILL)
        platform.signal_process(started.child, signal.SIGKILL)
        return platform.wait_gone(started.supervisor, 5.0) and platform.wait_gone(started.child, 5.0)

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return Sighting("ended", reason="killed", detail="the suite", duration_s=0.0) if seen.state == "lost" else seen


class SaysItTooEarly(Sound):
    """Who was asked to end has ended."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        asked = seen.state == "running" and (log_dir / "cancel.json").exists()
        return Sighting("ended", reason="killed", detail="the suite", duration_s=0.0) if asked else seen


class HearsOnce(Sound):
    """The first grace stands."""

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        return (log_dir / "cancel.json").exists() or super().cancel(native_id, log_dir, by=by, grace_s=grace_s)


class AlwaysCancels(Sound):
    """Something was ended, whatever there was."""

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        return super().cancel(native_id, log_dir, by=by, grace_s=grace_s) or True


class ForgetsTheLeftovers(Sound):
    """A run has ended when its command has."""

    def wait(self, native_id: str | None, log_dir: Path, timeout_s: float) -> Sighting:
        started = rundir.read_started(log_dir)
        if started is not None and started.child is not None and platform.wait_gone(started.child, timeout_s):
            return Sighting("ended", reason="exited", exit_code=8, duration_s=0.0)
        return super().wait(native_id, log_dir, timeout_s)


# --- ownership ------------------------------------------------------------------------------------------------------


class KeepsAList(Sound):
    """Runs are noted in the user's home."""

    def launch(self, spec: LaunchSpec) -> Launched:
        Path("~/runs.txt").expanduser().write_text(spec.run_id)
        return super().launch(spec)


class UsesTheKernelsFiles(Sound):
    """It adds to what the kernel wrote."""

    def launch(self, spec: LaunchSpec) -> Launched:
        (spec.log_dir / "spec.json").write_text('{"mine": 1}')
        return super().launch(spec)


# --- when the supervisor is lost ------------------------------------------------------------------------------------


class MakesItUp(Sound):
    """What is lost has ended well."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return Sighting("ended", reason="exited", exit_code=0, duration_s=0.0) if seen.state == "lost" else seen


class GivesUpEarly(Sound):
    """A command without its supervisor counts as gone."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, state="lost") if "supervisor died" in str(seen.detail) else seen


class ForgetsTheLimit(Sound):
    """A command without its supervisor may last for ever."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, overdue=False)


class GivesItNoTime(Sound):
    """A command without its supervisor is overdue."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, overdue="supervisor died" in str(seen.detail))


class AsksTheDead(Sound):
    """A command without its supervisor cannot be ended."""

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        orphaned = rundir.observe(log_dir).state == "orphaned"
        return not orphaned and super().cancel(native_id, log_dir, by=by, grace_s=grace_s)


class TrustsThePid(Sound):
    """Whoever has the pid is the run."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        if seen.state == "lost" and seen.pid is not None and platform.start_ticks(seen.pid) is not None:
            return replace(seen, state="running", detail=None)
        return seen


class SignalsThePid(Sound):
    """Whoever has the pid is ended."""

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        seen = self.poll(None, log_dir)
        if seen.state == "lost" and seen.pid is not None and platform.start_ticks(seen.pid) is not None:
            os.kill(seen.pid, signal.SIGKILL)
        return super().cancel(native_id, log_dir, by=by, grace_s=grace_s)


class LetsErrorsThrough(Sound):
    """A record that cannot be read is Python's matter."""

    def wait(self, native_id: str | None, log_dir: Path, timeout_s: float) -> Sighting:
        rundir.observe(log_dir)
        return super().wait(native_id, log_dir, timeout_s)


class SeesNothingThere(Sound):
    """A record that cannot be read is none."""

    def poll(self, native_id: str | None, log_dir: Path) -> Sighting:
        try:
            rundir.observe(log_dir)
        except ValueError:
            return Sighting("absent")
        return super().poll(native_id, log_dir)


class BelievesTheFolder(Sound):
    """An exit record that lies there is the end."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        found = rundir.read_exit(log_dir) if seen.state == "running" else None
        if found is None:
            return seen
        return replace(seen, state="ended", reason=found.reason, exit_code=found.exit_code)


class ForgetsTheNonce(Sound):
    """Its sightings do not say whose they are."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, nonce=None)


class SignalsByTheId(Sound):
    """The native id is proof enough."""

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        if super().cancel(native_id, log_dir, by=by, grace_s=grace_s):
            return True
        words = (native_id or "").split("/")
        supervisor = platform.identity_of(int(words[1])) if len(words) > 1 else None
        return supervisor is not None and platform.signal_process(supervisor, signal.SIGTERM)


class BelievesTheVariable(Sound):
    """Another boot id is a reboot, whoever holds the lock."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, state="lost") if platform.BOOT_ID_VARIABLE in os.environ else seen


class TakesAnotherMachineForAReboot(Sound):
    """What it cannot see is lost."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        return replace(seen, state="lost", elsewhere=None) if seen.elsewhere is not None else seen


# --- several at once, and what an engine does by itself ---------------------------------------------------------------


class FailsTogether(Sound):
    """One that cannot be started fails the others."""

    def launch_many(self, specs: Sequence[LaunchSpec]) -> list[Launched | PerpetualError]:
        return [self.launch(spec) for spec in specs]


class LeavesThemOut(Sound):
    """What failed is not in the answer."""

    def launch_many(self, specs: Sequence[LaunchSpec]) -> list[Launched | PerpetualError]:
        return [answer for answer in super().launch_many(specs) if isinstance(answer, Launched)]


class SortsThem(Sound):
    """The answers come in an order of their own."""

    def poll_many(self, runs: Sequence[tuple[str | None, Path]]) -> list[Sighting | Exception]:
        return super().poll_many(runs)[::-1]


class ReadsAllOrNone(Sound):
    """One record that cannot be read spoils the answer."""

    def poll_many(self, runs: Sequence[tuple[str | None, Path]]) -> list[Sighting | Exception]:
        return [self.poll(*run) for run in runs]


class FetchesTwice(Sound):
    """What is fetched again is there twice."""

    def __init__(self) -> None:
        super().__init__()
        self._fetched: set[Path] = set()

    def fetch_logs(self, native_id: str | None, log_dir: Path) -> None:
        path = log_dir / "stdout.log"
        if self.poll(native_id, log_dir).state == "ended":
            path.write_bytes(path.read_bytes() * (2 if log_dir in self._fetched else 1))
            self._fetched.add(log_dir)


class ForgetsTheEnd(Sound):
    """Ended becomes lost some seconds later."""

    def __init__(self) -> None:
        super().__init__()
        self._ended: dict[Path, float] = {}

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        if seen.state != "ended":
            return seen
        is_old = time.monotonic() > self._ended.setdefault(log_dir, time.monotonic()) + 2.0
        return Sighting("lost", detail="it was purged") if is_old else seen


class Queued(Sound):
    """A queue before the sound one; a job may be started anew."""

    queues = True

    def __init__(self) -> None:
        super().__init__()
        self.is_held = False
        self.waiting: dict[str, str] = {}  # folders by what became of them
        self.anew: dict[Path, int] = {}

    def launch(self, spec: LaunchSpec) -> Launched:
        if not self.is_held:
            return super().launch(spec)
        self.waiting[str(spec.log_dir)] = "pending"
        return Launched(f"queue/{spec.run_id}", None, None)

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        state = self.waiting.get(str(log_dir))
        if state == "pending":
            return Sighting("pending", detail="PENDING (Priority)")
        if state == "killed":
            return Sighting("ended", reason="killed", ended_at="2026-01-01T00:00:00Z", duration_s=0.0)
        return replace(seen, requeued=self.anew.get(log_dir, 0))

    def wait_any(self, runs: Sequence[tuple[str | None, Path]], timeout_s: float) -> list[int]:
        return Scheduler.wait_any(self, runs, timeout_s)

    def cancel(self, native_id: str | None, log_dir: Path, *, by: str, grace_s: float) -> bool:
        if self.waiting.get(str(log_dir)) == "pending":
            self.waiting[str(log_dir)] = "killed"
            return True
        return super().cancel(native_id, log_dir, by=by, grace_s=grace_s)


class StartsInTheQueue(Queued):
    """What waits counts as started."""

    def launch(self, spec: LaunchSpec) -> Launched:
        return replace(super().launch(spec), started_at="2026-01-01T00:00:00Z")


class CallsItRunning(Queued):
    """What waits runs."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        seen = super().tell(seen, native_id, log_dir)
        return replace(seen, state="running") if seen.state == "pending" else seen


class ForgetsTheRequeue(Queued):
    """A job that was started anew and has ended is as it was."""

    def tell(self, seen: Sighting, native_id: str | None, log_dir: Path) -> Sighting:
        seen = super().tell(seen, native_id, log_dir)
        return replace(seen, requeued=0) if seen.state == "ended" else seen


BROKEN: list[tuple[type[Sound], str]] = [
    (FailsTogether, "test_many_are_launched_at_once"),
    (SortsThem, "test_many_are_looked_at_at_once"),
    (FetchesTwice, "test_logs_can_be_fetched"),
    (ForgetsTheEnd, "test_an_end_stays"),
    (StartsInTheQueue, "test_a_pending_run_has_not_started"),
    (ForgetsTheRequeue, "test_a_requeue_is_told"),
    (BelievesTheFolder, "test_no_end_is_believed_while_the_supervisor_lives"),
    (ForgetsTheNonce, "test_records_are_bound_to_the_run"),
    (SignalsByTheId, "test_a_copy_ends_nothing"),
    (BelievesTheVariable, "test_a_live_run_is_of_this_boot"),
    (TakesAnotherMachineForAReboot, "test_another_machine_loses_nothing"),
    (TakesAbsenceForLoss, "test_what_was_never_started_is_absent"),
    (PreparesAtTheCheck, "test_checking_starts_and_writes_nothing"),
    (ChecksNothing, "test_what_can_never_start_is_refused"),
    (CrashesOnNonsense, "test_a_launch_that_fails_leaves_nothing"),
    (TidiesTheWords, "test_words_folder_and_environment_are_the_spec_s"),
    (LooksInItsOwnPath, "test_a_program_is_looked_up_as_the_spec_says"),
    (FeedsIt, "test_standard_input_is_empty"),
    (DropsRequests, "test_a_request_is_honoured_or_refused"),
    (DeclaresNonsense, "test_engine_options_are_declared"),
    (ForgetsItsMachine, "test_its_machine_is_named"),
    (TellsTheWrongPid, "test_launching_returns_at_once"),
    (ForgetsTheStart, "test_a_running_one_is_seen_running"),
    (AgesByTheClock, "test_its_age_is_told_by_a_clock_that_nobody_sets"),
    (AgesInMilliseconds, "test_its_age_is_told_by_a_clock_that_nobody_sets"),
    (OnlyKnowsFailure, "test_an_exit_code_is_told"),
    (SpeaksAsAShell, "test_a_signal_is_told"),
    (ReadsTheLog, "test_only_the_record_decides"),
    (CountsMilliseconds, "test_times_are_those_of_the_run"),
    (CountsKibibytes, "test_resources_are_in_their_units"),
    (CutsItShort, "test_output_is_kept_as_it_is"),
    (ShowsItAtTheEnd, "test_output_is_there_while_it_runs"),
    (TakesItWithIt, "test_a_run_outlives_its_launcher"),
    (RemembersIt, "test_other_processes_see_it_and_end_it"),
    (NeedsTheId, "test_the_folder_alone_is_enough"),
    (AnswersTwice, "test_a_folder_has_one_run"),
    (StartsForEach, "test_launchers_at_once_start_it_once"),
    (MixesThemUp, "test_threads_get_their_own_runs"),
    (HoldsALock, "test_waiting_ends_with_the_run"),
    (DoesNotWait, "test_waiting_ends_at_its_limit"),
    (WatchesTheFirst, "test_waiting_for_any_ends_with_the_first"),
    (CountsTheLimitInMilliseconds, "test_a_run_within_its_limit_is_left_alone"),
    (IsPatient, "test_a_silent_run_is_ended"),
    (TakesSilenceForALimit, "test_a_run_that_writes_is_not_silent"),
    (HearsNoMetrics, "test_a_run_that_writes_is_not_silent"),
    (EndsRunsOfRuns, "test_a_run_of_a_run_lives_on"),
    (ForgetsTheLimit, "test_a_command_without_its_supervisor_is_kept_to_its_limit"),
    (GivesItNoTime, "test_a_command_without_its_supervisor_is_kept_to_its_limit"),
    (KillsAtOnce, "test_cancelling_lets_it_end_in_peace"),
    (LeavesTheChildren, "test_cancelling_ends_the_whole_tree"),
    (HearsOnce, "test_a_further_cancellation_only_shortens_the_grace"),
    (AlwaysCancels, "test_after_the_end_there_is_nothing_to_cancel"),
    (ForgetsTheLeftovers, "test_it_has_ended_when_all_of_it_is_gone"),
    (KeepsAList, "test_only_its_own_folder_is_written"),
    (MakesItUp, "test_a_lost_record_is_said_to_be_lost"),
    (GivesUpEarly, "test_a_command_without_its_supervisor_runs_and_can_be_ended"),
    (TrustsThePid, "test_a_stranger_with_the_same_pid_is_left_alone"),
    (LetsErrorsThrough, "test_from_unreadable_records_nothing_is_made_up"),
]
# Those that take long, and further ways to break the same promises.
BROKEN_TOO: list[tuple[type[Sound], str]] = [
    (LeavesThemOut, "test_many_are_launched_at_once"),
    (ReadsAllOrNone, "test_many_are_looked_at_at_once"),
    (CallsItRunning, "test_a_pending_run_has_not_started"),
    (LeavesItsMark, "test_a_launcher_that_dies_midway_is_followed"),
    (BelievesTheCode, "test_a_run_over_its_limit_is_ended"),
    (WantsAFolder, "test_what_was_never_started_is_absent"),
    (AlwaysCancels, "test_what_was_never_started_is_absent"),
    (SaysNoReason, "test_what_can_never_start_is_refused"),
    (CallsItARun, "test_a_launch_that_fails_leaves_nothing"),
    (PassesItsEnvironmentOn, "test_words_folder_and_environment_are_the_spec_s"),
    (OffersItsOwnMachine, "test_words_folder_and_environment_are_the_spec_s"),
    (CrashesOnARequest, "test_a_request_is_honoured_or_refused"),
    (DeclaresASecret, "test_engine_options_are_declared"),
    (StaysWhereItIs, "test_words_folder_and_environment_are_the_spec_s"),
    (WaitsForTheEnd, "test_launching_returns_at_once"),
    (TakesSilenceForDeath, "test_only_the_record_decides"),
    (LivesElsewhere, "test_times_are_those_of_the_run"),
    (MergesTheStreams, "test_output_is_kept_as_it_is"),
    (RemembersTheEnd, "test_a_run_outlives_its_launcher"),
    (BeginsANewLog, "test_a_folder_has_one_run"),
    (NamesThemAlike, "test_threads_get_their_own_runs"),
    (WaitsItOut, "test_waiting_ends_with_the_run"),
    (NamesThemAll, "test_waiting_for_any_ends_with_the_first"),
    (KnowsNoLimit, "test_a_run_over_its_limit_is_ended"),
    (NamesNobody, "test_cancelling_lets_it_end_in_peace"),
    (SaysItTooEarly, "test_cancelling_ends_the_whole_tree"),
    (UsesTheKernelsFiles, "test_only_its_own_folder_is_written"),
    (AsksTheDead, "test_a_command_without_its_supervisor_runs_and_can_be_ended"),
    (SignalsThePid, "test_a_stranger_with_the_same_pid_is_left_alone"),
    (SeesNothingThere, "test_from_unreadable_records_nothing_is_made_up"),
]


def build(options: Mapping[str, Any]) -> Sound:
    """The factory by which the other process builds a twin."""
    twin: type[Sound] = globals()[options["twin"]]
    built = twin()
    built.elsewhere = True
    return built


class WithAQueue(SchedulerContract):
    """The suite for the queue of the twins."""

    @contextmanager
    def hold(self, site: Site) -> Iterator[None]:
        """The queue starts nothing."""
        assert isinstance(site.scheduler, Queued)
        site.scheduler.is_held = True
        yield
        site.scheduler.is_held = False

    def requeue(self, site: Site, run: Run) -> None:
        """As far as can be seen it was."""
        assert isinstance(site.scheduler, Queued)
        site.scheduler.anew[run.spec.log_dir] = 1


class Impatient(WithAQueue):
    """The suite, which here waits for what never comes."""

    patience_s: ClassVar[float] = 0.4


class LessImpatient(WithAQueue):
    """The suite where a limit of time is waited for."""

    patience_s: ClassVar[float] = 2.0


SLOWLY_TOLD = {
    "test_logs_can_be_fetched",
    "test_a_run_over_its_limit_is_ended",
    "test_a_silent_run_is_ended",
    "test_a_run_that_writes_is_not_silent",
    "test_a_run_of_a_run_lives_on",
    "test_a_command_without_its_supervisor_is_kept_to_its_limit",
}


def _tests() -> dict[str, Callable[..., None]]:
    rooms = (Commands, Records, Engines, SchedulerContract)
    return {name: test for room in rooms for name, test in vars(room).items() if name.startswith("test_")}


def _run(suite: SchedulerContract, name: str, twin: type[Sound], folder: Path, patch: pytest.MonkeyPatch) -> None:
    test = _tests()[name]
    wanted = inspect.signature(test).parameters
    assert {*wanted} <= {"self", "site", "monkeypatch"}
    patch.syspath_prepend(str(Path(__file__).parent))
    factory, options = f"{Path(__file__).stem}:build", {"twin": twin.__name__}
    with make_site(folder, twin(), patience_s=suite.patience_s, factory=factory, options=options) as site:
        try:
            test(suite, site, **({"monkeypatch": patch} if "monkeypatch" in wanted else {}))
        finally:
            site.scheduler, site.patience_s = Sound(), 30.0  # which sees everything end


def test_there_is_a_broken_twin_for_every_promise() -> None:
    assert {name for _, name in (*BROKEN, *BROKEN_TOO)} == set(_tests())


def test_a_sound_scheduler_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here too, with its other process."""
    _run(SchedulerContract(), "test_a_run_outlives_its_launcher", Sound, tmp_path / "site", monkeypatch)


def test_looking_in_turns_is_sound_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the slot gives to a scheduler that cannot watch many at once."""
    name = "test_waiting_for_any_ends_with_the_first"
    _run(SchedulerContract(), name, LooksInTurns, tmp_path / "site", monkeypatch)


@pytest.mark.parametrize("name", ["test_a_pending_run_has_not_started", "test_a_requeue_is_told", "test_an_end_stays"])
def test_a_sound_queue_passes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twins' queue before it is broken."""
    _run(WithAQueue(), name, Queued, tmp_path / "site", monkeypatch)


@pytest.mark.parametrize(
    ("broken", "name"),
    [*BROKEN, *(pytest.param(*case, marks=pytest.mark.slow) for case in BROKEN_TOO)],
    ids=[f"{broken.__name__}-{name}" for broken, name in (*BROKEN, *BROKEN_TOO)],
)
def test_a_broken_scheduler_fails(
    broken: type[Sound], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = LessImpatient() if name in SLOWLY_TOLD else Impatient()
    with pytest.raises(AssertionError) as caught:
        _run(suite, name, broken, tmp_path / "site", monkeypatch)
    # By the fault itself: a twin that merely fell over would prove nothing.
    assert "the other process died" not in str(caught.value)

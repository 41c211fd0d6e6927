"""An overnight test of the daemon, compressed into minutes: a campaign with faults against the same one without.

`run_overnight` sets up two projects that train on the same seeds. In the one the daemon works in peace. In the other it
is ended by SIGKILL at random instants and at named steps and started again, runs are lost and preempted, the GPUs'
driver disappears, the disk is full and the model server down for a while. Both campaigns also have runs that crash,
hang, and run out of memory. In the end a fresh process (`overnight_judge`) compares the two. Everything happens in a
scratch folder.
"""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from perpetual import __version__
from perpetual.api import PerpetualError, UsageError
from perpetual.loop import EXITS
from perpetual.toolkit.agents import AGENT_VARIABLES
from perpetual.toolkit.crashpoints import STEPS
from perpetual_devkit.documents import PromiseKept
from perpetual_devkit.overnight_campaign import REPLICATES, Task
from perpetual_devkit.overnight_model import ModelServer
from perpetual_devkit.overnight_parts import DRIVER_VARIABLE

if sys.platform != "win32":
    import resource

if TYPE_CHECKING:
    import psutil

    from perpetual_devkit.chaos import Target

__all__ = ["FAULTS", "OvernightCertificate", "run_overnight"]

# What is done to the disturbed campaign beside the kills, in turns.
FAULTS = ("run lost", "model down", "disk full", "driver gone", "run preempted")
_CAMPAIGN, _JUDGE = "perpetual_devkit.overnight_campaign", "perpetual_devkit.overnight_judge"  # programs
_MARK = "OVERNIGHT_MARK"  # in the environment of every process of a test
_AIMED = [name for name in STEPS if name.startswith(("loop:", "launch:", "scan:", "note:")) and name != "loop:stopped"]
_AIM_SHARE = 0.4  # of the kills that are meant for a named step
_AIM_S = 2.5  # how long a kill waits for its step, before it comes as it comes
_RUN_S = 0.25  # of the campaign's runs
_FIRST_DELAY_S, _LEAST_DELAY_S, _MOST_DELAY_S = 1.6, 0.2, 6.0  # from a daemon's first turn to its kill, at most
_EARLY_SHARE, _START_S = 0.25, 1.5  # of the random instants: within so many seconds of the start
_LASTS_S, _BETWEEN_S = (0.5, 1.5), (0.1, 1.0)  # how long a fault lasts, and until the next
_MODEL_S = 6.0  # until a question has failed, at most
_SMALL_BYTES = 16 << 10
_SWEEP_S = "2s"  # where nothing wakes it: a lost run has no word, nor has a driver that is back
_TURNS_S = 120.0  # from the start of a daemon to its kill, whatever the machine does meanwhile
_LOOK_S = 0.02
_PATIENCE_S = 600.0  # for a campaign to come to its end
_PROGRAM_S = 300.0
_LEFT_S = 20.0  # for the last processes to end
_MOST_STARTS = 20  # of a daemon that stops although there is something to do
_FINAL = ("all_decided", "queue_empty")
_MOST_PROBLEMS = 50
_CAN_FILL = sys.platform.startswith("linux")  # elsewhere no limit can be set for a process that runs
_NO_MODEL = "model down: no plugin brings thinkers here"


@dataclass(frozen=True, slots=True)
class OvernightCertificate:
    """What was done and what came of it.

    `killed_in` counts the kills by the step that they were aimed at, `random` those at a random instant. `faults`
    counts the others, and `not_tried` says why some were left out. `stops` are the reasons for which a daemon of the
    disturbed campaign ended by itself. `answers` are those of the model that are stored. `kept` is the folder with both
    projects, where they were kept.
    """

    store: str
    version: str
    python: str
    platform: str
    seed: int
    kills: int
    killed_in: dict[str, int]
    faults: dict[str, int]
    not_tried: list[str]
    stops: dict[str, int]
    hypotheses: int
    runs: int
    retries: int
    evidence: int
    events: int
    answers: int
    run_hours: float
    reason: str | None
    promises: list[PromiseKept]
    problems: list[str]
    duration_s: float
    kept: str | None
    ok: bool

    @property
    def setting(self) -> str:
        """Returns the seed, and with what it was tried, in one line."""
        return f"seed {self.seed}, store {self.store}, Perpetual {self.version}, Python {self.python}, {self.platform}"


class _Judged(TypedDict):
    """What the judge's process answers."""

    promises: list[PromiseKept]
    runs: int
    retries: int
    hypotheses: int
    evidence: int
    events: int
    answers: int
    run_hours: float
    reason: str | None
    reference: list[str]


class _Fault(Exception):
    """Why the test cannot go on, in words."""


def run_overnight(
    target: Target,
    *,
    kills: int,
    seed: int | None = None,
    folder: Path | None = None,
    keep: Path | None = None,
    progress: Callable[[str], None] = lambda words: None,
    command: Callable[[Path], Sequence[str]] | None = None,
) -> OvernightCertificate:
    """Disturbs a campaign of the daemon, kills the daemon `kills` times, and judges what is left.

    Args:
        target: the store that both projects use, with its default options.
        seed: decides what is done when, as far as that can be decided; by default a new one each time.
        folder: where the scratch folder is made; by default with the system's temporary files. Removed afterwards
            unless something is wrong.
        keep: a new or empty folder in which both projects are made instead, and stay.
        progress: called now and then with how far it has come.
        command: returns the command that starts the daemon of the disturbed project; by default `perpetual daemon`.

    Raises:
        UsageError: if `keep` is no empty folder.
        PerpetualError: on Windows; if the projects cannot be set up.
    """
    if sys.platform == "win32":
        raise PerpetualError("the test ends processes by SIGKILL, which Windows does not have")
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise UsageError(f"{keep} is not empty", hint="--keep takes a new or an empty folder")
    place = (keep or Path(tempfile.mkdtemp(prefix="perpetual-overnight-", dir=folder))).resolve()
    is_kept = keep is not None
    try:
        seed = random.randrange(2**32) if seed is None else seed
        found = _Test(place, target.store, kills, seed, progress, command or _daemon, is_kept=is_kept).run()
        is_kept = is_kept or not found.ok  # what was interrupted, or never began, leaves nothing to look at
        return found
    finally:
        if not is_kept:
            shutil.rmtree(place, ignore_errors=True)


@dataclass(slots=True)
class _Campaign:
    """A project, and the daemon that works in it now."""

    folder: Path
    environment: Mapping[str, str]
    mark: str  # of its processes
    daemon: subprocess.Popen[bytes] | None = None
    starts: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    is_over: bool = False


class _Trouble:
    """The faults around the disturbed campaign, one after the other."""

    def __init__(self, campaign: _Campaign, model: ModelServer, chance: random.Random, rounds: int) -> None:
        self._campaign, self._model, self._chance, self._rounds = campaign, model, chance, rounds
        self._kinds = [*FAULTS]
        self._failed = 0  # questions of the model, when it went down last
        self.done: Counter[str] = Counter()
        self._turn, self._next_at = 0, 0.0
        self._heal_at: float | None = None
        self._limited: int | None = None  # the daemon whose files may not grow

    def tick(self, daemon: subprocess.Popen[bytes]) -> None:
        """Does what is due: lets a fault begin, or end."""
        now = time.monotonic()
        fault = self._kinds[self._turn % len(self._kinds)]
        if self._heal_at is not None:
            if now >= self._heal_at or (fault == "model down" and self._model.failed > self._failed):
                self.heal(daemon)
            elif fault == "disk full" and self._limited != daemon.pid:  # the next daemon finds it full, too
                self._fill(daemon)
        elif now >= self._next_at and self._turn < self._rounds * len(self._kinds) and self._begin(fault, daemon):
            self.done[fault] += 1
            lasts_s = 0.0 if fault.startswith("run ") else self._chance.uniform(*_LASTS_S)
            self._heal_at = now + (_MODEL_S if fault == "model down" else lasts_s)

    def untried(self) -> list[str]:
        """Returns the faults for which there was no occasion."""
        return [name for name in self._kinds if not self.done[name]]

    def leave_out(self, fault: str) -> None:
        """Leaves a fault out that cannot be tried here."""
        self._kinds.remove(fault)

    def heal(self, daemon: subprocess.Popen[bytes]) -> None:
        """Ends the present fault."""
        _driver(self._campaign).unlink(missing_ok=True)
        self._model.is_down = False
        if self._limited == daemon.pid:
            self._limit(daemon, None)
        self._heal_at, self._limited = None, None
        self._turn += 1
        self._next_at = time.monotonic() + self._chance.uniform(*_BETWEEN_S)

    def _begin(self, fault: str, daemon: subprocess.Popen[bytes]) -> bool:
        """Returns whether the fault has begun; a run can be hit only while one is live."""
        if fault == "driver gone":
            _driver(self._campaign).touch()
            return True
        if fault == "model down":
            self._model.is_down, self._failed = True, self._model.failed
            return True
        if fault == "disk full":
            return self._fill(daemon)
        return self._hit_a_run(fault)

    def _fill(self, daemon: subprocess.Popen[bytes]) -> bool:
        """Lets no file of the daemon grow, as a full disk does, but for those as small as the files of a run."""
        self._limited = daemon.pid
        return self._limit(daemon, _SMALL_BYTES)

    def _limit(self, daemon: subprocess.Popen[bytes], size: int | None) -> bool:
        if not sys.platform.startswith("linux"):
            return False
        with suppress(OSError):
            _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))
            return True
        return False  # it has ended meanwhile

    def _hit_a_run(self, fault: str) -> bool:
        """Ends a live run from outside: with its supervisor at once, or as a cluster preempts it."""
        import psutil

        starts = [*self._campaign.folder.glob(".perpetual/runs/*/checkpoints/starts")]
        for path in sorted(starts, key=lambda path: path.stat().st_mtime, reverse=True):
            line = path.read_text(encoding="utf-8").splitlines()[-1:]
            with suppress(psutil.Error, ValueError, IndexError):
                id, pid, parent = json.loads(line[0])
                program, supervisor = psutil.Process(pid), psutil.Process(parent)
                variables = program.environ()
                is_ours = (variables.get("PERPETUAL_RUN"), variables.get(_MARK)) == (id, self._campaign.mark)
                if not is_ours or "none" not in program.cmdline() or program.ppid() != parent:
                    continue  # the run that hangs is to be ended by its limit, the one without memory to end so
                if fault == "run preempted":
                    supervisor.terminate()
                else:
                    supervisor.kill()
                    program.kill()
                return True
        return False


class _Test:
    """One run of it."""

    def __init__(
        self,
        place: Path,
        store: str,
        kills: int,
        seed: int,
        progress: Callable[[str], None],
        command: Callable[[Path], Sequence[str]],
        *,
        is_kept: bool,
    ) -> None:
        self._place, self._store, self._kills, self._seed, self._is_kept = place, store, kills, seed, is_kept
        self._progress, self._command = progress, command
        self._chance = random.Random(seed)
        self._claims = 4 + max(0, kills - 5) * 4 // 5  # each daemon starts some runs before it is killed
        self._reference, self._found = (self._campaign(name) for name in ("reference", "disturbed"))
        self._models = ModelServer(), ModelServer()
        self._trouble = _Trouble(self._found, self._models[1], random.Random(f"{seed}/faults"), max(1, kills // 5))
        self._killed_in: Counter[str] = Counter()
        self._expected = self._claims * 2 * REPLICATES  # runs
        self._not_tried: list[str] = []
        self._problems: list[str] = []
        self._longest_s = _FIRST_DELAY_S
        self._last_word = 0.0
        if not _CAN_FILL:
            self._trouble.leave_out("disk full")
            self._not_tried.append("disk full: needs Linux, where a limit can be set for a process that runs")

    def run(self) -> OvernightCertificate:
        """Runs both campaigns and judges the disturbed one."""
        began = time.monotonic()
        judged: _Judged | None = None
        try:
            self._set_up()
            self._start(self._reference)
            self._disturb()
            self._finish(self._found)
            self._finish(self._reference)
            self._problems += [f"a process is left: {words}" for words in self._left(_LEFT_S)]
            judged = self._judge()
        except _Fault as fault:
            self._problems.append(str(fault))
        finally:
            self._end_all()
            for model in self._models:
                model.close()
        if judged is not None:
            self._not_tried += [f"{name}: the campaign was over before" for name in self._trouble.untried()]
        promises = judged["promises"] if judged else []
        problems = [*self._problems, *(judged["reference"] if judged else ())]
        ok = bool(promises) and not problems and all(promise["ok"] for promise in promises)
        return OvernightCertificate(
            store=self._store,
            version=__version__,
            python=platform.python_version(),
            platform=platform.platform(),
            seed=self._seed,
            kills=sum(self._killed_in.values()),
            killed_in=dict(sorted(self._killed_in.items())),
            faults={name: self._trouble.done[name] for name in FAULTS},
            not_tried=self._not_tried,
            stops=dict(sorted(self._found.reasons.items())),
            hypotheses=judged["hypotheses"] if judged else 0,
            runs=judged["runs"] if judged else 0,
            retries=judged["retries"] if judged else 0,
            evidence=judged["evidence"] if judged else 0,
            events=judged["events"] if judged else 0,
            answers=judged["answers"] if judged else 0,
            run_hours=judged["run_hours"] if judged else 0.0,
            reason=judged["reason"] if judged else None,
            promises=promises,
            problems=problems[:_MOST_PROBLEMS],
            duration_s=round(time.monotonic() - began, 3),
            kept=str(self._place) if self._is_kept or not ok else None,
            ok=ok,
        )

    # --- the two projects -----------------------------------------------------------------------------------

    def _campaign(self, name: str) -> _Campaign:
        """Returns a project that shares nothing with the user's own, nor with the other."""
        base = self._place / name
        kept = {key: value for key, value in os.environ.items()
                if key not in AGENT_VARIABLES and not key.startswith("PERPETUAL_")}  # fmt: skip
        environment = {
            **kept,
            _MARK: str(self._place),
            DRIVER_VARIABLE: str(base / "driver-gone"),
            "PERPETUAL_STATE_DIR": str(base / "state"),
            "PERPETUAL_CACHE_DIR": str(self._place / "cache"),
            "XDG_CONFIG_HOME": str(base / "config"),
            "PYTHONPATH": os.pathsep.join([str(self._place / "site"), *(path for path in sys.path if path)]),
            # A compiled module that a full disk cuts off would stay for other programs.
            **({"PYTHONDONTWRITEBYTECODE": "1"} if name == "disturbed" else {}),
        }
        return _Campaign(base / "project", environment, str(self._place))

    def _set_up(self) -> None:
        info = self._place / "site" / "perpetual_overnight-0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: perpetual-overnight\nVersion: 0\n")
        (info / "entry_points.txt").write_text("[perpetual.plugins]\novernight = perpetual_devkit.overnight_parts\n")
        programs = []
        for campaign, model in zip((self._reference, self._found), self._models, strict=True):
            campaign.folder.mkdir(parents=True)
            task = Task(str(campaign.folder), self._store, self._claims, _RUN_S, gpu=True, model=model.url)
            programs.append(self._program(_CAMPAIGN, campaign, asdict(task)))
        try:
            answers = [json.loads(self._answer(program, "a project cannot be set up")) for program in programs]
        finally:
            for program in programs:
                program.kill()
                program.communicate()
        for answer in answers:
            if not answer["asks"] and _NO_MODEL not in self._not_tried:
                self._not_tried.append(_NO_MODEL)
                self._trouble.leave_out("model down")

    def _program(self, module: str, campaign: _Campaign, words: Mapping[str, object]) -> subprocess.Popen[bytes]:
        """Starts a program of this package that reads one line of JSON."""
        program = subprocess.Popen(
            [sys.executable, "-P", "-m", module], cwd=self._place, env=campaign.environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert program.stdin is not None
        with suppress(BrokenPipeError):
            program.stdin.write(json.dumps(words).encode() + b"\n")
            program.stdin.flush()
        return program

    def _answer(self, program: subprocess.Popen[bytes], else_said: str) -> bytes:
        try:
            out, errors = program.communicate(timeout=_PROGRAM_S)
        except subprocess.TimeoutExpired as problem:
            raise _Fault(f"{else_said}: it took longer than {_PROGRAM_S:g} s") from problem
        finally:
            program.kill()
            program.wait()
        if program.returncode:
            raise _Fault(f"{else_said}: {_last_line(errors)}")
        return out

    # --- the daemons ----------------------------------------------------------------------------------------

    def _start(self, campaign: _Campaign, step: str | None = None) -> subprocess.Popen[bytes]:
        """Starts the daemon, which is to end itself at `step`."""
        campaign.starts += 1
        campaign.is_over = False  # until it says so itself
        environment = {**campaign.environment, **({"PERPETUAL_DIE_AT": step} if step else {})}
        words = (self._command if campaign is self._found else _daemon)(campaign.folder)
        with open(self._said(campaign, "err"), "wb") as errors, open(self._said(campaign, "out"), "wb") as out:
            campaign.daemon = subprocess.Popen(
                [*words], cwd=self._place, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
            )  # fmt: skip
        return campaign.daemon

    def _said(self, campaign: _Campaign, stream: str) -> Path:
        return campaign.folder.with_name(f"daemon-{campaign.starts}.{stream}")

    def _ended(self, campaign: _Campaign) -> None:
        """Notes why a daemon has ended by itself."""
        assert campaign.daemon is not None
        code = campaign.daemon.returncode
        errors = self._said(campaign, "err").read_bytes()
        said = self._said(campaign, "out").read_bytes()
        reason = _last_word(said) if code in EXITS.values() or _is_refused(said) else None
        if reason is None or b"Traceback" in errors:
            self._problems.append(f"a daemon ended by itself with status {code}: {_last_line(errors or said)}")
            reason = f"status {code}"
        campaign.reasons[reason] += 1
        campaign.is_over = reason in _FINAL

    def _finish(self, campaign: _Campaign) -> None:
        """Lets a campaign come to its end. A daemon that sees a reason to stop before is started again."""
        deadline = time.monotonic() + _PATIENCE_S
        for _ in range(_MOST_STARTS):
            if campaign.is_over:
                return
            daemon = campaign.daemon if campaign.daemon is not None else self._start(campaign)
            while daemon.poll() is None:
                if time.monotonic() > deadline:
                    raise _Fault(f"the campaign in {campaign.folder} did not end within {_PATIENCE_S:g} s")
                if campaign is self._found:
                    self._trouble.tick(daemon)
                self._say(campaign)
                time.sleep(_LOOK_S)
            self._ended(campaign)
            campaign.daemon = None
        if not campaign.is_over:
            reasons = ", ".join(campaign.reasons)
            raise _Fault(f"the campaign in {campaign.folder} did not end in {_MOST_STARTS} starts ({reasons})")

    # --- the faults -----------------------------------------------------------------------------------------

    def _disturb(self) -> None:
        """Kills one daemon after the other, at a named step or at a random instant, and starts the next."""
        for _ in range(2 * self._kills + _MOST_STARTS):
            if sum(self._killed_in.values()) == self._kills:
                return
            self._one_life(self._chance.choice(_AIMED) if self._chance.random() < _AIM_SHARE else None)
            self._pace()
        self._problems.append(f"only {sum(self._killed_in.values())} of {self._kills} kills met a living daemon")

    def _one_life(self, step: str | None) -> None:
        """Starts a daemon and kills it, some while it starts."""
        campaign = self._found
        daemon = self._start(campaign, step)
        began = time.monotonic()
        is_early = step is None and self._chance.random() < _EARLY_SHARE
        kill_at = time.monotonic() + self._chance.uniform(0.0, _START_S) if is_early else None
        while daemon.poll() is None:
            now = time.monotonic()
            if kill_at is None and self._has_turned(campaign):
                kill_at = now + (_AIM_S if step else self._chance.uniform(0.0, self._longest_s))
            if now - began > _TURNS_S:
                raise _Fault(f"a daemon made no turn within {_TURNS_S:g} s")
            if kill_at is not None and now >= kill_at:
                daemon.kill()
                daemon.wait()
                step = None
                break
            self._trouble.tick(daemon)
            self._say(campaign)
            time.sleep(_LOOK_S)
        if daemon.returncode == -signal.SIGKILL:
            self._killed_in[step or "random"] += 1
        else:
            self._ended(campaign)
        campaign.daemon = None

    def _has_turned(self, campaign: _Campaign) -> bool:
        """Returns whether the present daemon has reported a turn."""
        return self._said(campaign, "out").stat().st_size > 0

    def _pace(self) -> None:
        """Shortens or lengthens the lives of the daemons, so that the campaign lasts as long as the kills."""
        is_ahead = _ended_runs(self._found) / self._expected > sum(self._killed_in.values()) / self._kills
        self._longest_s = min(max(self._longest_s * (0.7 if is_ahead else 1.4), _LEAST_DELAY_S), _MOST_DELAY_S)

    # --- the end --------------------------------------------------------------------------------------------

    def _judge(self) -> _Judged:
        projects = {"found": str(self._found.folder), "reference": str(self._reference.folder),
                    "answered": self._models[1].answered}  # fmt: skip
        # Both projects are read with the trust of one: the state folders are put together.
        state = Path(self._found.environment["PERPETUAL_STATE_DIR"])
        shutil.copytree(self._reference.environment["PERPETUAL_STATE_DIR"], state, dirs_exist_ok=True)
        answer = self._answer(self._program(_JUDGE, self._found, projects), "the campaigns cannot be judged")
        judged: _Judged = json.loads(answer)
        return judged

    def _processes(self) -> list[psutil.Process]:
        """Returns the processes of this test that live, but for the daemons that it waits for."""
        import psutil

        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(_MARK) == str(self._place) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def _left(self, patience_s: float) -> list[str]:
        """Returns the command lines of processes that have not ended, though the campaigns have."""
        import psutil

        deadline = time.monotonic() + patience_s
        while left := self._processes():
            if time.monotonic() > deadline:
                words = []
                for process in left:
                    with suppress(psutil.Error):
                        words.append(f"{process.pid} {' '.join(process.cmdline())[:200]}")
                return words
            time.sleep(0.1)
        return []

    def _end_all(self) -> None:
        """Ends every process of the test, by its mark."""
        import psutil

        for campaign in (self._reference, self._found):
            if campaign.daemon is not None:
                campaign.daemon.kill()
                campaign.daemon.wait()
        for _ in range(20):  # what is killed may just have started another
            found = self._processes()
            for process in found:
                with suppress(psutil.Error):
                    process.kill()
            if not found:
                return
            time.sleep(0.1)

    def _say(self, campaign: _Campaign) -> None:
        if time.monotonic() - self._last_word < 2.0:
            return
        self._last_word = time.monotonic()
        kills = sum(self._killed_in.values())
        self._progress(f"{kills} of {self._kills} kills, {_ended_runs(campaign)} runs ended")


def _ended_runs(campaign: _Campaign) -> int:
    return sum(1 for _ in campaign.folder.glob(".perpetual/runs/*/exit.json"))


def _driver(campaign: _Campaign) -> Path:
    return Path(campaign.environment[DRIVER_VARIABLE])


def _last_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _daemon(folder: Path) -> list[str]:
    """Returns the command that starts the daemon of a project."""
    return [
        sys.executable,
        "-P",
        "-m",
        "perpetual",
        "--project",
        str(folder),
        "daemon",
        "--interval",
        _SWEEP_S,
        "--json",
    ]


def _last_word(said: bytes) -> str | None:
    """Returns the reason in the last line of a daemon that has ended by itself, or the code of its error."""
    with suppress(ValueError, LookupError, TypeError):
        words = json.loads(said.splitlines()[-1])
        return str(words["reason"] if "reason" in words else words["error"]["code"])
    return None


def _is_refused(said: bytes) -> bool:
    """Returns whether a daemon has said, before its first turn, that the disk is full: then it need not have begun."""
    return len(said.splitlines()) == 1 and _last_word(said) == "not_written"

"""Site of the scheduler suite's runs: folders like the kernel's, and a command that follows instructions.

For `perpetual.testing.schedulers` and for tests of that suite.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ParamSpec, TypedDict, TypeVar

import pytest

from perpetual.errors import PerpetualError
from perpetual.lab.options import asked, with_defaults
from perpetual.slots.scheduler import Launched, LaunchError, LaunchSpec, Scheduler, Sighting
from perpetual.toolkit import platform

__all__ = ["Noted", "KERNELS", "LONG_S", "Elsewhere", "Run", "Site", "make_site", "refused", "said"]

P = ParamSpec("P")
T = TypeVar("T")


class Noted(TypedDict, total=False):
    """What a process of a run noted about itself."""

    pid: int
    parent: int
    argv: list[str]
    cwd: str
    env: dict[str, str]


LONG_S = 600.0  # a limit or a grace that no test lives to see
_TICK_S = 0.005
KERNELS = ("config.json", "spec.json")  # what the kernel puts into a run's folder before
_OFFERED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")  # without these Python may not start

# A command that does as its arguments say. It ends by itself when its site is closed, whatever became of its scheduler.
_COMMAND = """\
import json, os, signal, sys, time
folder, steps = sys.argv[1], sys.argv[2:]

def note(name, *ignored):
    seen = {"pid": os.getpid(), "parent": os.getppid(), "argv": sys.argv, "cwd": os.getcwd(), "env": dict(os.environ)}
    with open(f"{folder}/{name}.tmp", "w") as file:
        json.dump(seen, file)
    os.rename(f"{folder}/{name}.tmp", f"{folder}/{name}")

def polite(name, *ignored):
    note(name)
    os._exit(0)

def burn(seconds):
    block = bytearray(os.urandom(1024)) * (64 * 1024)
    while time.process_time() < seconds:
        pass

for number, step in enumerate(steps):
    deed, _, value = step.partition(":")
    if deed == "--":
        break
    if deed == "note":
        note(value)
    elif deed == "hold":
        while not os.path.exists(f"{folder}/{value}"):
            if not os.path.exists(f"{folder}/open"):
                os._exit(99)
            time.sleep(0.005)
    elif deed in ("out", "err"):
        os.write(1 if deed == "out" else 2, value.encode())
    elif deed == "bytes":
        sys.stdout.buffer.write(bytes(range(256)) * int(value))
        sys.stdout.flush()
    elif deed == "read":
        print(len(sys.stdin.read()), flush=True)
    elif deed == "count":
        with open(f"{folder}/{value}", "a") as file:
            file.write("once\\n")
    elif deed == "talk":
        while os.path.exists(f"{folder}/open") and not os.path.exists(f"{folder}/go"):
            if value:
                with open(value, "a") as file:
                    file.write("{}\\n")
            else:
                os.write(1, b"word ")
            time.sleep(0.05)
    elif deed == "burn":
        burn(float(value))
    elif deed == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif deed == "polite":
        signal.signal(signal.SIGTERM, lambda *ignored, name=value or "polite": polite(name))
    elif deed in ("child", "session"):
        if os.fork() == 0:
            if deed == "session":
                os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            note(value)
            while os.path.exists(f"{folder}/open"):
                time.sleep(0.005)
            os._exit(0)
    elif deed == "exit":
        os._exit(int(value))
    elif deed == "die":
        os.kill(os.getpid(), int(value))
"""

_ELSEWHERE = """\
import json, sys
from importlib import import_module
paths, factory, options = json.loads(sys.stdin.readline())
sys.path[:] = paths
from dataclasses import asdict
from pathlib import Path
from perpetual.slots.scheduler import LaunchSpec
module, _, name = factory.partition(":")
scheduler = getattr(import_module(module), name)(options)
print('"ready"', flush=True)
for line in sys.stdin:
    deed, native_id, log_dir, given = json.loads(line)
    if deed == "launch":
        paths = {key: Path(given[key]) for key in ("cwd", "log_dir")}
        answer = asdict(scheduler.launch(LaunchSpec(**{**given, **paths, "argv": tuple(given["argv"])})))
    elif deed == "cancel":
        answer = scheduler.cancel(native_id, Path(log_dir), **given)
    elif deed == "logs":
        answer = scheduler.logs(Path(log_dir)).read_text()
    else:
        answer = asdict(getattr(scheduler, deed)(native_id, Path(log_dir), **given))
    print(json.dumps(answer), flush=True)
"""

# A run's command that is a launcher itself.
_LAUNCHER = """\
import json, os, sys, time
paths, factory, options, given, open_mark = json.loads(sys.argv[1])
sys.path[:] = paths
from importlib import import_module
from pathlib import Path
from perpetual.slots.scheduler import LaunchSpec
module, _, name = factory.partition(":")
scheduler = getattr(import_module(module), name)(options)
paths = {key: Path(given[key]) for key in ("cwd", "log_dir")}
scheduler.launch(LaunchSpec(**{**given, **paths, "argv": tuple(given["argv"])}))
while os.path.exists(open_mark):
    time.sleep(0.005)
"""


class Elsewhere:
    """The same scheduler in another process."""

    def __init__(self, factory: str, options: Mapping[str, object]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ELSEWHERE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._tell([sys.path, factory, dict(options)])
        assert self._hear() == "ready"

    def _tell(self, words: list[object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the other process died"
        return json.loads(line)

    def begin_launch(self, spec: LaunchSpec) -> None:
        """Asks it to launch, and does not wait for it."""
        self._tell(["launch", None, None, _plain(spec)])

    def launch(self, spec: LaunchSpec) -> Launched:
        """Launches there."""
        self.begin_launch(spec)
        answer = self._hear()
        return Launched(**{**answer, "gpus": tuple(answer["gpus"])})

    def ask(self, deed: str, native_id: str | None, log_dir: Path, **given: object) -> object:
        """Returns what a method answers there."""
        self._tell([deed, native_id, str(log_dir), given])
        answer: object = self._hear()
        return answer

    def look(self, deed: str, native_id: str | None, log_dir: Path, **given: object) -> Sighting:
        """Returns what `poll` or `wait` sees there."""
        self._tell([deed, native_id, str(log_dir), given])
        answer = self._hear()
        return Sighting(**{**answer, "gpus": tuple(answer["gpus"])})

    def kill(self) -> None:
        """Ends the process at once, and what stayed in its session."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def _plain(spec: LaunchSpec) -> dict[str, object]:
    return {**asdict(spec), "cwd": str(spec.cwd), "log_dir": str(spec.log_dir)}


@dataclass(frozen=True)
class Run:
    """A launched run."""

    scheduler: Scheduler
    spec: LaunchSpec
    launched: Launched
    patience_s: float

    def poll(self) -> Sighting:
        """Polls the run."""
        return self.scheduler.poll(self.launched.native_id, self.spec.log_dir)

    def cancel(self, grace_s: float, by: str = "the suite") -> bool:
        """Cancels the run."""
        return self.scheduler.cancel(self.launched.native_id, self.spec.log_dir, by=by, grace_s=grace_s)

    def output(self, *, stderr: bool = False) -> bytes:
        """Returns what the run has written."""
        path = self.scheduler.logs(self.spec.log_dir, stderr=stderr)
        return path.read_bytes() if path.exists() else b""

    def settled(self) -> Sighting:
        """Returns how it is after its end."""
        seen = self.scheduler.wait(self.launched.native_id, self.spec.log_dir, self.patience_s)
        assert seen.state != "running", f"it still runs after {self.patience_s:g} s: {seen}"
        return seen

    def end(self) -> Sighting:
        """Returns how it ended, as an exit record tells it."""
        seen = self.settled()
        assert seen.state == "ended", f"how it ended is not known: {seen}"
        assert seen.reason in ("exited", "signalled", "timeout", "killed", "exec_failed")
        assert (seen.reason != "exited") or (seen.exit_code is not None and seen.signal is None), seen
        assert (seen.reason != "signalled") or (seen.signal is not None and seen.exit_code is None), seen
        return seen


class Site:
    """Where a test's runs live: folders like the kernel's, and a command that follows instructions."""

    def __init__(
        self,
        folder: Path,
        scheduler: Scheduler,
        patience_s: float,
        factory: str,
        options: Mapping[str, object],
        engine: Mapping[str, object],
    ) -> None:
        self.folder, self.scheduler, self.patience_s = folder, scheduler, patience_s
        self._factory, self._options, self._engine = factory, options, engine
        self._others: list[Elsewhere] = []
        self._strangers: list[subprocess.Popen[bytes]] = []
        self._log_dirs: list[Path] = []
        self.work = folder / "the work"
        self.marks = folder / "marks"
        for made in (self.work, self.marks, folder / "runs"):
            made.mkdir(parents=True)
        (self.marks / "open").touch()

    def argv(self, *steps: str) -> tuple[str, ...]:
        """Returns the command's words for these steps."""
        return (sys.executable, "-I", "-S", "-c", _COMMAND, str(self.marks), *steps)

    def argv_launching(self, spec: LaunchSpec) -> tuple[str, ...]:
        """Returns the words of a command that launches this run, and goes on."""
        if not self._factory:
            pytest.skip("other processes build the scheduler by `factory`, which the test class does not set")
        given = [sys.path, self._factory, dict(self._options), _plain(spec), str(self.marks / "open")]
        return (sys.executable, "-c", _LAUNCHER, json.dumps(given))

    def spec(self, *steps: str, **changes: object) -> LaunchSpec:
        """Returns a specification as the kernel makes it, its folder included."""
        id = f"r{len(self._log_dirs) + 1}"
        env = {name: os.environ[name] for name in _OFFERED if name in os.environ}
        log_dir = self.folder / "runs" / id
        log_dir.mkdir(mode=0o700)
        for name in KERNELS:
            (log_dir / name).write_text("{}")
        self._log_dirs.append(log_dir)
        spec = LaunchSpec(id, self.argv(*steps), self.work, env, log_dir, wall_s=LONG_S, grace_s=0.2)
        values: dict[str, Any] = {"options": self.engine_options(), **changes}
        return replace(spec, **values)

    def engine_options(self) -> dict[str, object]:
        """Returns what the kernel gives for an experiment that asks for `engine`: the options with their defaults."""
        declared = self.scheduler.engine_options
        return with_defaults(declared, asked(declared, self._engine, "engine option"), "engine option")

    def launch(self, *steps: str, **changes: object) -> Run:
        """Returns a launched run of these steps."""
        spec = self.spec(*steps, **changes)
        return self.run(spec, self.scheduler.launch(spec))

    def run(self, spec: LaunchSpec, launched: Launched) -> Run:
        """Returns a run that was launched."""
        return Run(self.scheduler, spec, launched, self.patience_s)

    def elsewhere(self) -> Elsewhere:
        """Returns the scheduler in another process."""
        if not self._factory:
            pytest.skip("other processes build the scheduler by `factory`, which the test class does not set")
        self._others.append(Elsewhere(self._factory, self._options))
        return self._others[-1]

    def stranger(self) -> platform.Identity:
        """Returns a process that is no run."""
        self._strangers.append(subprocess.Popen([*self.argv("note:stranger", "hold:never")]))
        return self.process("stranger")

    def release(self, name: str = "go") -> None:
        """Lets go whatever holds for this."""
        (self.marks / name).touch()

    def noted(self, name: str) -> Noted:
        """Returns what a process of a run noted about itself, once it has."""
        path = self.marks / name
        self.until(path.exists, f"the command has not come so far ({name})")
        found: Noted = json.loads(path.read_text("utf-8"))
        return found

    def process(self, name: str) -> platform.Identity:
        """Returns the process that noted this, which lives."""
        identity = platform.identity_of(self.noted(name)["pid"])
        assert identity is not None, f"the process {name} is gone"
        return identity

    def came_to(self, name: str, run: Run) -> platform.Identity | None:
        """Returns the process of the run that noted this; None if the run has ended before, or as soon as that."""
        path = self.marks / name
        self.until(lambda: path.exists() or run.poll().state != "running", f"the command has not come so far ({name})")
        return platform.identity_of(self.noted(name)["pid"]) if path.exists() else None

    def left_something(self, log_dir: Path, limit_s: float) -> None:
        """Waits until there is more in the folder than the kernel puts there, or the time is over."""
        deadline = time.monotonic() + limit_s
        while {*os.listdir(log_dir)} <= {*KERNELS} and time.monotonic() < deadline:
            time.sleep(_TICK_S)

    def until(self, condition: Callable[[], bool], problem: str) -> None:
        """Waits for what comes soon."""
        deadline = time.monotonic() + self.patience_s
        while not condition():
            assert time.monotonic() < deadline, problem
            time.sleep(_TICK_S)

    def count(self, name: str = "count") -> int:
        """Returns how often commands have counted."""
        path = self.marks / name
        return len(path.read_text("utf-8").splitlines()) if path.exists() else 0

    def files(self, *but: Path) -> dict[str, bytes | None]:
        """Returns everything on the site, but for some folders."""
        return {
            str(path): path.read_bytes() if path.is_file() else None
            for path in sorted(self.folder.rglob("*"))
            if not any(path.is_relative_to(one) for one in but)
        }

    def close(self) -> None:
        """Ends everything that was started; returns when the scheduler has seen it."""
        for other in self._others:
            other.kill()
        (self.marks / "open").unlink()
        for stranger in self._strangers:
            stranger.kill()
            stranger.wait()
        deadline = time.monotonic() + self.patience_s
        for log_dir in self._log_dirs:
            # A record that a test spoiled is none that would be waited for.
            while getattr(said(self.scheduler.wait, None, log_dir, 1.0), "state", None) == "running":
                assert time.monotonic() < deadline, f"{log_dir.name} has not ended with its test"
                time.sleep(_TICK_S)


@contextmanager
def make_site(
    folder: Path,
    scheduler: Scheduler,
    *,
    patience_s: float,
    factory: str = "",
    options: Mapping[str, object] | None = None,
    engine: Mapping[str, object] | None = None,
) -> Iterator[Site]:
    """Yields a site that is closed at the end."""
    site = Site(folder, scheduler, patience_s, factory, options or {}, engine or {})
    try:
        yield site
    finally:
        site.close()


def refused(words: str, deed: Callable[..., object], *given: object) -> None:
    """Raises AssertionError unless it raises a LaunchError whose message has these words."""
    told = said(deed, *given)
    assert isinstance(told, LaunchError), f"no LaunchError but {told!r}"
    assert told.message.strip(), "no reason for people"
    assert words in told.message, f"it does not say what is wrong: {told.message}"


def said(deed: Callable[P, T], /, *given: P.args, **named: P.kwargs) -> T | PerpetualError:
    """Returns what it answers, or the error of Perpetual that it raises; another error is an AssertionError."""
    try:
        return deed(*given, **named)
    except PerpetualError as problem:
        return problem
    except Exception as problem:
        raise AssertionError(f"a {type(problem).__name__} instead of an error of Perpetual: {problem}") from problem

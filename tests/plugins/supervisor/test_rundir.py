"""Supervised runs, end to end: real commands, real supervisors, real kills; no test may leave a process."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perpetual.toolkit import atomic, lock, platform, run_folder
from perpetual.toolkit.platform import Identity
from perpetual_supervisor import log_capture, process_tree, processes, rundir, shim, supervisor
from perpetual_supervisor.rundir import LaunchFailed, Observation, Started
from tests.support import LONG_S, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")

PATHS = [str(Path(atomic.__file__).parents[2]), str(Path(rundir.__file__).parents[1])]
ENVIRONMENT = {"PATH": os.environ["PATH"]}
PYTHON = [sys.executable, "-I", "-S", "-c"]


def known(pid: int) -> Identity:
    identity = platform.identity_of(pid)
    assert identity is not None
    return identity


class Gate:
    """A named pipe on which a command waits with `read`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    def open(self) -> None:
        """Let one reader pass; waits until there is one."""
        self.path.write_text("\n")


class Runs:
    """Launches below one folder and remembers every process, to see that all are gone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[Identity] = []

    def launch(self, *argv: str, name: str = "run", **options: Any) -> Started:
        given = {"cwd": self.folder, "env": ENVIRONMENT, "wall_s": None, "grace_s": 10.0, **options}
        started = rundir.launch(self.folder / name, argv=argv, **given)
        assert started.child is not None
        self.processes += [started.supervisor, started.child]
        return started

    def waiting(self, script: str, name: str = "run", **options: Any) -> tuple[Started, Gate]:
        """A shell that runs `script`, in which `$GATE` names a pipe to read from."""
        gate = Gate(self.folder / f"{name.replace('/', '-')}.gate")
        environment = {**ENVIRONMENT, "GATE": str(gate.path)}
        return self.launch("sh", "-c", script, name=name, env=environment, **options), gate

    def wait(self, name: str = "run") -> Observation:
        return rundir.wait(self.folder / name, LONG_S)

    def observe(self, name: str = "run") -> Observation:
        return rundir.observe(self.folder / name)

    def text(self, file: str, name: str = "run") -> str:
        return (self.folder / name / file).read_text()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    yield made
    left = [each for each in made.processes if not platform.wait_gone(each, LONG_S)]
    for each in left:
        process_tree.signal_descendants(each.pid, signal.SIGKILL)
        platform.signal_process(each, signal.SIGKILL)
    assert not left, f"still running: {left}"
    assert not zombies(), "a launcher's child was not waited for"


def zombies() -> list[int]:
    """Dead children of this process that nobody has waited for."""
    own = os.getpid()
    found = []
    for children in Path(f"/proc/{own}/task").glob("*/children"):
        found += [int(pid) for pid in children.read_text().split()]
    return [pid for pid in found if b") Z " in Path(f"/proc/{pid}/stat").read_bytes()]


# --- the ordinary life of a run


@pytest.mark.parametrize("code", [0, 3])
def test_exit_code_logs_and_directory(runs: Runs, code: int) -> None:
    (runs.folder / "work").mkdir()
    started = runs.launch("sh", "-c", f"pwd; echo oops >&2; exit {code}", cwd=runs.folder / "work")
    seen = runs.wait()
    assert (seen.state, seen.started) == ("ended", started)
    assert seen.exit is not None
    assert (seen.exit.exit_code, seen.exit.signal, seen.exit.reason) == (code, None, "exited")
    assert seen.exit.detail is None
    assert runs.text("stdout.log") == f"{runs.folder / 'work'}\n"
    assert runs.text("stderr.log") == "oops\n"
    assert runs.text("supervisor.log") == ""
    assert rundir.read_exit(runs.folder / "run") == seen.exit
    assert rundir.read_started(runs.folder / "run") == started


def test_times_and_usage_are_recorded(runs: Runs) -> None:
    started = runs.launch(*PYTHON, "held = bytearray(50_000_000); sum(range(3_000_000))")
    record = runs.wait().exit
    assert record is not None
    assert record.started_at == started.started_at
    assert record.started_at < record.ended_at
    assert record.started_at.endswith("Z")
    assert record.max_rss_bytes > 50_000_000
    assert record.cpu_s > 0.01
    assert 0.01 < record.duration_s < LONG_S


def test_the_environment_is_exactly_the_given_one(runs: Runs) -> None:
    environment = {**ENVIRONMENT, "GREETING": "grüß dich", "LATIN": "caf\udce9", "EMPTY": ""}
    runs.launch("env", env=environment)
    runs.wait()
    lines = (runs.folder / "run" / "stdout.log").read_bytes().splitlines()
    assert sorted(lines) == sorted(os.fsencode(f"{name}={value}") for name, value in environment.items())


def test_a_command_ended_by_a_signal(runs: Runs) -> None:
    runs.launch("sh", "-c", "kill -9 $$")
    record = runs.wait().exit
    assert record is not None
    assert (record.exit_code, record.signal, record.reason) == (None, 9, "signalled")


def test_files_are_private_and_the_launch_file_is_gone_once_it_runs(runs: Runs) -> None:
    _, gate = runs.waiting("read x < $GATE", name="deep/er")
    folder = runs.folder / "deep" / "er"
    assert not (folder / "launch.json").exists()
    assert runs.observe("deep/er").state == "running"
    gate.open()
    runs.wait("deep/er")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    names = {"started.json", "exit.json", "stdout.log", "stderr.log", "supervisor.lock", "supervisor.log"}
    assert {each.name for each in folder.iterdir()} == names
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}


def test_the_command_inherits_nothing_but_three_descriptors_and_default_signals(runs: Runs) -> None:
    mine = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(mine, True)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])
    try:
        runs.launch("ls", "-l", "/proc/self/fd", name="descriptors")
        runs.launch("grep", "-E", "SigBlk|SigIgn", "/proc/self/status", name="signals")
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1, signal.SIGTERM])
        os.close(mine)
    assert (runs.wait("descriptors").state, runs.wait("signals").state) == ("ended", "ended")
    listing = dict(line.split()[-3::2] for line in runs.text("stdout.log", "descriptors").splitlines()[1:])
    assert listing.pop("3").startswith("/proc/"), "the listing itself"
    folder = runs.folder / "descriptors"
    assert listing == {"0": "/dev/null", "1": f"{folder}/stdout.log", "2": f"{folder}/stderr.log"}
    masks = dict(line.split() for line in runs.text("stdout.log", "signals").splitlines())
    # 32 and 33 belong to the C library, which lets no program change them: they are as the machine's shell left them
    reserved = 1 << 31 | 1 << 32
    assert {name: int(mask, 16) & ~reserved for name, mask in masks.items()} == {"SigBlk:": 0, "SigIgn:": 0}


def test_the_lock_is_held_by_the_supervisor_for_its_life(runs: Runs) -> None:
    started, gate = runs.waiting("read x < $GATE")
    assert lock.is_locked(runs.folder / "run" / "supervisor.lock")
    gate.open()
    runs.wait()
    assert platform.wait_gone(started.supervisor, LONG_S)
    assert not lock.is_locked(runs.folder / "run" / "supervisor.lock")


def test_the_out_of_memory_killer_is_offered_the_command_before_its_supervisor(runs: Runs) -> None:
    started, gate = runs.waiting("read x < $GATE")
    assert started.child is not None
    scores = [int(Path(f"/proc/{each.pid}/oom_score_adj").read_text()) for each in (started.supervisor, started.child)]
    assert scores[0] < scores[1] or scores == [1000, 1000]
    gate.open()
    runs.wait()


def test_wait_gives_up_at_its_timeout(runs: Runs) -> None:
    _, gate = runs.waiting("read x < $GATE")
    begin = time.monotonic()
    assert rundir.wait(runs.folder / "run", 0.05).state == "running"
    assert time.monotonic() - begin >= 0.05
    gate.open()
    assert runs.wait().state == "ended"


def test_a_run_survives_the_kill_of_its_launcher_and_its_session(runs: Runs) -> None:
    gate = Gate(runs.folder / "gate")
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from perpetual_supervisor import rundir\n"
        "rundir.launch(Path('run'), argv=['sh', '-c', 'read x < gate; echo done; exit 42'], cwd='.',\n"
        "              env=dict(os.environ), wall_s=None, grace_s=1.0)\n"
        "print('launched', flush=True)\n"
        "sys.stdin.read()\n"
    )
    launcher = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=runs.folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == b"launched\n"
        os.killpg(launcher.pid, signal.SIGKILL)
    seen = runs.observe()
    assert seen.state == "running"
    assert seen.started is not None
    assert seen.started.child is not None
    runs.processes += [seen.started.supervisor, seen.started.child]
    session_of = os.getsid(seen.started.supervisor.pid)
    assert session_of == seen.started.supervisor.pid
    gate.open()
    ended = runs.wait()
    assert ended.exit is not None
    assert ended.exit.exit_code == 42
    assert runs.text("stdout.log") == "done\n"


def test_twenty_runs_at_once_do_not_mix(runs: Runs) -> None:
    script = "read x < $GATE; echo $x; exit $x"

    def start(number: int) -> tuple[Started, Gate]:
        return runs.waiting(script, name=f"r{number}")

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(start, range(20)))
    assert {runs.observe(f"r{number}").state for number in range(20)} == {"running"}
    assert len({started.child for started, _ in made}) == 20
    for number, (_, gate) in enumerate(made):
        gate.path.write_text(f"{number}\n")
    for number in range(20):
        record = runs.wait(f"r{number}").exit
        assert record is not None
        assert (record.exit_code, record.reason) == (number, "exited")
        assert runs.text("stdout.log", f"r{number}") == f"{number}\n"


@pytest.mark.slow
def test_a_run_that_just_ended_is_never_lost(runs: Runs) -> None:
    for number in range(50):
        runs.launch("true", name=f"r{number}")
        states = ["running"]
        while states[-1] == "running":
            states.append(runs.observe(f"r{number}").state)
        assert states[-1] == "ended"


# --- commands that cannot start


@pytest.mark.parametrize(
    ("argv", "cwd", "reason"),
    [
        (["no-such-program-7"], ".", "cannot run no-such-program-7: No such file or directory"),
        (["./plain"], ".", "cannot run ./plain: Permission denied"),
        (["true"], "nowhere", "nowhere: No such file or directory"),
    ],
)
def test_a_command_that_cannot_start(runs: Runs, argv: list[str], cwd: str, reason: str) -> None:
    (runs.folder / "plain").write_text("not a program")
    with pytest.raises(LaunchFailed, match=reason) as caught:
        runs.launch(*argv, cwd=runs.folder / cwd)
    assert caught.value.reason in str(caught.value)
    seen = runs.wait()
    assert seen.state == "ended"
    assert seen.exit is not None
    assert (seen.exit.exit_code, seen.exit.signal, seen.exit.reason) == (127, None, "exec_failed")
    assert seen.exit.detail == caught.value.reason
    assert not (runs.folder / "run" / "launch.json").exists()


def test_a_directory_has_one_run_only(runs: Runs) -> None:
    _, gate = runs.waiting("read x < $GATE")
    with pytest.raises(FileExistsError, match="had its run"):
        runs.launch("true")
    gate.open()
    platform.wait_gone(runs.processes[0], LONG_S)
    for file in ("started.json", "exit.json"):
        with pytest.raises(FileExistsError, match="had its run"):
            runs.launch("true")
        (runs.folder / "run" / file).unlink()
    (runs.folder / "run" / "launch.json").touch()
    with pytest.raises(FileExistsError, match=r"launch\.json"):
        runs.launch("true")
    assert runs.observe() == Observation("absent")


@pytest.mark.parametrize(
    "options",
    [
        {"argv": []},
        {"argv": "true"},
        {"argv": ["a\0b"]},
        {"env": {"A=B": "x"}},
        {"env": {"": "x"}},
        {"env": {"A": "secret\0"}},
        {"wall_s": float("nan")},
        {"wall_s": -1.0},
        {"grace_s": float("inf")},
        {"max_log_bytes": 100},
        {"no_output_s": 0.0},
        {"no_output_s": float("inf")},
    ],
)
def test_arguments_that_can_never_work_are_refused_before_anything_is_made(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"argv": ["true"], "cwd": "/", "env": {}, "wall_s": None, "grace_s": 1.0}
    with pytest.raises(ValueError, match=r".") as caught:
        rundir.launch(tmp_path / "run", **{**given, **options})
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_broken_interpreter_is_a_failed_launch(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(runs.folder / "python"))
    with pytest.raises(LaunchFailed, match="cannot start"):
        runs.launch("true")
    (runs.folder / "python").write_text("#!/bin/sh\necho no python today >&2\n")
    (runs.folder / "python").chmod(0o700)
    with pytest.raises(LaunchFailed, match="no python today"):
        runs.launch("true", name="second")
    assert {runs.observe().state, runs.observe("second").state} == {"absent"}
    assert not list(runs.folder.glob("*/launch.json")), "it may hold secrets"


@pytest.mark.parametrize("timeout_ms", [0, 10, 25, 40, 55, 70])
def test_a_launcher_without_patience_leaves_nothing_running(runs: Runs, timeout_ms: int) -> None:
    """Wherever the start is when patience ends: afterwards nothing runs, and no secret lies about."""
    folder = runs.folder / "run"
    failure = ""
    try:
        runs.launch("sleep", "600", timeout_s=timeout_ms / 1000, grace_s=1.0)
    except LaunchFailed as exc:
        failure = exc.reason
    if failure:
        assert "did not answer" in failure
        until(lambda: not lock.is_locked(folder / "supervisor.lock"))
        seen = runs.observe()
        assert seen.state in ("absent", "ended")
        if seen.started is not None:
            assert seen.exit is not None
            assert seen.exit.reason == "killed"
            runs.processes += [each for each in (seen.started.supervisor, seen.started.child) if each is not None]
    else:
        assert rundir.cancel(folder, by="test", grace_s=1.0)
    assert not (folder / "launch.json").exists()


def test_a_launcher_that_gave_up_has_called_the_run_off(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(runs.folder / "gate")
    slow = runs.folder / "python"
    slow.write_text(f'#!/bin/sh\n(read x < {gate.path}; exec {sys.executable} "$@") &\n')
    slow.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(slow))
    with pytest.raises(LaunchFailed, match=r"did not answer within 0\.1 s"):
        runs.launch("touch", str(runs.folder / "ran"), timeout_s=0.1)
    left = sorted(each.name for each in (runs.folder / "run").iterdir())
    gate.open()
    assert left == ["cancel.json", "cancel.lock", "supervisor.lock", "supervisor.log"]
    assert json.loads(runs.text("cancel.json"))["by"] == "the launcher, which got no answer"
    until(lambda: "the launcher was gone" in runs.text("supervisor.log"))
    until(lambda: not lock.is_locked(runs.folder / "run" / "supervisor.lock"))
    assert runs.observe().state == "absent"
    assert not (runs.folder / "ran").exists()


@pytest.mark.parametrize(
    ("cancellation", "told_of_it"),
    [('{"by": "tester", "grace_s": 1.0}', "cancelled by tester before it started"),
     ("{", "cancelled before it started")],
    ids=["whole", "torn"],
)  # fmt: skip
def test_a_run_that_was_cancelled_before_it_started_never_runs(
    tmp_path: Path, cancellation: str, told_of_it: str
) -> None:
    spec = {"argv": ["touch", str(tmp_path / "ran")], "cwd": "/", "env": ENVIRONMENT}
    limits = {"wall_s": None, "grace_s": 1.0, "max_log_bytes": None}
    (tmp_path / "launch.json").write_text(json.dumps(spec | limits))
    (tmp_path / "cancel.json").write_text(cancellation)
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(shim.__file__), str(tmp_path)], capture_output=True, text=True
    )
    told, _, answer = done.stdout.partition(" ")
    assert (told, json.loads(answer)["reason"]) == ("error", "killed")
    seen = rundir.observe(tmp_path)
    assert seen.exit is not None
    assert (seen.exit.exit_code, seen.exit.signal, seen.exit.reason) == (None, None, "killed")
    assert seen.exit.detail == told_of_it
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "launch.json").exists()


def test_a_supervisor_does_not_wait_for_ever_for_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patched_shim(tmp_path, monkeypatch, "supervisor.LOCK_PATIENCE_S = 0.05\n")
    (tmp_path / "run").mkdir()
    spec = {"argv": ["touch", str(tmp_path / "ran")], "cwd": "/", "env": ENVIRONMENT}
    limits = {"wall_s": None, "grace_s": 1.0, "max_log_bytes": None}
    (tmp_path / "run" / "launch.json").write_text(json.dumps(spec | limits))
    with lock.FileLock(tmp_path / "run" / "supervisor.lock"):
        argv = [sys.executable, "-I", "-S", str(rundir.SHIM), str(tmp_path / "run")]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG_S)
    told, _, answer = done.stdout.partition(" ")
    assert (told, json.loads(answer)["reason"]) == ("error", "supervised")
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "run" / "launch.json").exists(), "it is for the one that has the lock"


# --- ends that the supervisor brings about


def test_a_run_over_its_wall_limit_is_ended_by_term(runs: Runs) -> None:
    runs.launch("sleep", "600", wall_s=0.2)
    record = runs.wait().exit
    assert record is not None
    assert (record.reason, record.signal, record.exit_code) == ("timeout", signal.SIGTERM, None)
    assert record.detail == "over its limit of 0.2 s"
    assert 0.2 <= record.duration_s < LONG_S


def test_a_silent_command_is_ended(runs: Runs) -> None:
    runs.launch("sh", "-c", "echo a word; exec sleep 600", no_output_s=0.3)
    record = runs.wait().exit
    assert record is not None
    assert (record.reason, record.signal, record.detail) == ("timeout", signal.SIGTERM, "wrote nothing for 0.3 s")
    assert 0.3 <= record.duration_s < LONG_S


def test_a_stopped_command_is_ended_and_hears_term(runs: Runs) -> None:
    """TERM waits until a stopped process goes on; children that ignore it get KILL."""
    child = 'trap "" TERM; kill -STOP $$; exec sleep 600'
    script = f"trap 'echo saved; exit 0' TERM; sh -c '{child}' & kill -STOP $$; sleep 600"
    started = runs.launch("sh", "-c", script)
    until(lambda: stopped(process_tree.descendants(started.supervisor.pid)) == 2)
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=LONG_S)
    until(lambda: runs.text("stdout.log") == "saved\n")
    assert runs.observe().state == "running", "a child has not heard"
    rundir.cancel(runs.folder / "run", by="tester", grace_s=0.0)
    record = runs.wait().exit
    assert record is not None
    assert (record.reason, record.exit_code, record.detail) == ("killed", 0, "cancelled by tester")


def stopped(pids: list[int]) -> int:
    """How many of these processes are stopped."""
    return sum(b") T " in Path(f"/proc/{pid}/stat").read_bytes() for pid in pids)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["/dev/stdout", "/dev/stderr", "run/metrics.jsonl"])
def test_a_command_that_writes_is_not_silent(runs: Runs, file: str) -> None:
    """For longer than it may be silent, whatever it writes; and its log is cut meanwhile."""
    script = f"for i in $(seq 1 30); do seq 1 500 >> {file}; sleep 0.4; done; exit 6"
    runs.launch("sh", "-c", script, no_output_s=10.0, max_log_bytes=4096)
    record = runs.wait().exit
    assert record is not None
    assert (record.reason, record.exit_code) == ("exited", 6)
    assert record.duration_s > 10.0


def test_limits_hold_for_a_command_without_its_supervisor(runs: Runs) -> None:
    started, gate = runs.waiting("read x < $GATE", wall_s=0.01 + LONG_S, grace_s=2.0)
    assert (started.wall_s, started.grace_s) == (0.01 + LONG_S, 2.0)
    seen = runs.observe()
    assert (seen.state, seen.overdue) == ("running", False)
    assert seen.age_s is not None
    assert 0.0 <= seen.age_s < LONG_S
    gate.open()
    assert runs.wait().age_s is None


def test_an_orphan_past_its_limit_is_overdue(runs: Runs) -> None:
    started, _ = runs.waiting("read x < $GATE", wall_s=100.0)
    kill_supervisor(started)
    seen = runs.observe()
    assert (seen.state, seen.overdue) == ("orphaned", False)
    assert seen.age_s is not None
    path = runs.folder / "run" / "started.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"wall_s": seen.age_s / 2}))
    seen = runs.observe()
    assert (seen.state, seen.overdue) == ("orphaned", True)
    assert "over its limit" in str(seen.detail)
    path.write_text(json.dumps({key: record[key] for key in ("supervisor", "child", "started_at")}))
    seen = runs.observe()
    assert (seen.state, seen.overdue) == ("orphaned", False), "an earlier version kept no limits"
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=1.0)
    assert (runs.observe().state, runs.observe().exit, runs.observe().overdue) == ("lost", None, False)


def test_a_stopped_orphan_can_be_ended(runs: Runs) -> None:
    started, _ = runs.waiting("trap 'echo saved; exit 0' TERM; echo up; read x < $GATE")
    until(lambda: runs.text("stdout.log") == "up\n")
    kill_supervisor(started)
    assert started.child is not None
    assert platform.signal_process(started.child, signal.SIGSTOP)
    status = Path(f"/proc/{started.child.pid}/stat")
    until(lambda: b") T " in status.read_bytes())
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=LONG_S)
    assert runs.observe().state == "lost"
    assert runs.text("stdout.log") == "up\nsaved\n"


def test_a_stopped_supervisor_can_be_asked(runs: Runs) -> None:
    started = runs.launch("sleep", "600")
    platform.signal_process(started.supervisor, signal.SIGSTOP)
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=LONG_S)
    record = runs.wait().exit
    assert record is not None
    assert record.reason == "killed"


@pytest.mark.parametrize(
    ("script", "counts", "detail"),
    [
        ("kill -9 $$", [{"on this machine": 4}, {"on this machine": 5}], "on this machine"),
        ("kill -9 $$", [{"in its control group": 0, "on this machine": 4},
                        {"in its control group": 1, "on this machine": 5}], "in its control group"),
        ("kill -9 $$", [{"on this machine": 4}, {"on this machine": 4}], None),
        ("kill -9 $$", [{}, {"on this machine": 4}], None),
        ("kill -15 $$", [{"on this machine": 4}, {"on this machine": 5}], None),
        ("exit 1", [{"on this machine": 4}, {"on this machine": 5}], None),
    ],
)  # fmt: skip
def test_a_kill_beside_the_kernel_s_own_is_named(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, script: str, counts: list[dict[str, int]], detail: str | None
) -> None:
    """A statement of what was seen: the reason stays, and what we killed ourselves has its own."""
    patched_shim(runs.folder, monkeypatch, f"counts = {counts}\nprocess_tree.oom_kills = lambda: counts.pop(0)\n")
    runs.launch("sh", "-c", script)
    record = runs.wait().exit
    assert record is not None
    told = f"killed by signal 9 while the kernel's out-of-memory killer was at work {detail}"
    assert record.detail == (detail and told)
    assert record.reason == ("exited" if "exit" in script else "signalled")


def test_a_kill_of_ours_is_not_blamed_on_the_kernel(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [{"on this machine": 4}, {"on this machine": 5}]
    patched_shim(runs.folder, monkeypatch, f"counts = {counts}\nprocess_tree.oom_kills = lambda: counts.pop(0)\n")
    runs.launch("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    until(lambda: runs.text("stdout.log") == "up\n")
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=0.0)
    record = runs.wait().exit
    assert record is not None
    assert (record.reason, record.signal, record.detail) == ("killed", signal.SIGKILL, "cancelled by tester")


def patched_shim(folder: Path, monkeypatch: pytest.MonkeyPatch, patches: str) -> None:
    """Has runs started by a supervisor in which something is replaced."""
    imports = "from perpetual.toolkit import atomic, platform\n"
    imports += "from perpetual_supervisor import process_tree, shim, supervisor"
    program = folder / "shim.py"
    program.write_text(f"import sys\nsys.path[:0] = {PATHS}\n{imports}\n{patches}shim.main(sys.argv)\n")
    monkeypatch.setattr(rundir, "SHIM", program)


# A command that has not come up yet is not ended at its limit: it would die of the TERM for which it wants to be ready.
_ONCE_UP = (
    "import os\n"
    "keep = supervisor.Run._keep_to_limits\n"
    "supervisor.Run._keep_to_limits = lambda run, now: os.path.getsize('stdout.log') and keep(run, now)\n"
)


def test_a_command_that_answers_term_with_success_has_still_timed_out(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    patched_shim(runs.folder, monkeypatch, _ONCE_UP)
    runs.waiting("trap 'echo saved; exit 0' TERM; echo up; read x < $GATE", wall_s=0.2)
    record = runs.wait().exit
    assert record is not None
    assert (record.reason, record.exit_code) == ("timeout", 0)
    assert runs.text("stdout.log") == "up\nsaved\n"


GRANDCHILD = """
import os, signal, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
if sys.argv[1] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(600)
"""


def grandchildren(runs: Runs, count: int) -> list[Identity]:
    """The double-forked, setsid processes that have written their pids."""
    path = runs.folder / "pids"
    until(lambda: path.exists() and len(path.read_text().splitlines()) == count)
    found = [known(int(pid)) for pid in path.read_text().split()]
    runs.processes += found
    return found


def test_a_stubborn_tree_is_ended_whole(runs: Runs) -> None:
    program = f"{sys.executable} -I -S grandchild.py stubborn"
    (runs.folder / "grandchild.py").write_text(GRANDCHILD)
    started, _ = runs.waiting(f"trap '' TERM; {program}; {program}; read x < $GATE")
    below = grandchildren(runs, 2)
    begin = time.monotonic()
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=0.3)
    record = runs.wait().exit
    assert record is not None
    assert 0.3 <= time.monotonic() - begin < LONG_S
    assert (record.reason, record.signal, record.detail) == ("killed", signal.SIGKILL, "cancelled by tester")
    assert not any(platform.is_alive(each) for each in (started.child, *below) if each is not None)


@pytest.mark.parametrize("temper", ["meek", "stubborn"])
def test_processes_that_outlive_the_command_are_ended(runs: Runs, temper: str) -> None:
    (runs.folder / "grandchild.py").write_text(GRANDCHILD)
    script = f"{sys.executable} -I -S grandchild.py {temper}; read x < $GATE; exit 4"
    _, gate = runs.waiting(script, grace_s=0.2 if temper == "stubborn" else LONG_S)
    (left,) = grandchildren(runs, 1)
    gate.open()
    record = runs.wait().exit
    assert record is not None
    assert (record.exit_code, record.reason) == (4, "exited")
    assert record.detail == "processes that outlived the command and were ended: 1"
    assert record.duration_s < LONG_S / 2
    assert not platform.is_alive(left)


def test_a_helper_that_leaves_by_itself_is_let_go(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the resource tracker of multiprocessing does: it ends when the pipe to the command closes."""
    # That it is given a moment is what is tested, and not whether this machine can start Python within that.
    patched_shim(runs.folder, monkeypatch, f"supervisor.SETTLE_S = {LONG_S}\n")
    helper = "import signal, sys; signal.signal(15, lambda *_: open('hit', 'w'));sys.stdin.read(); print('tidied')"
    program = (
        "import os, subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-I', '-S', '-c', {helper!r}], stdin=subprocess.PIPE)\n"
        "os._exit(0)\n"
    )
    runs.launch(*PYTHON, program)
    record = runs.wait().exit
    assert record is not None
    assert (record.exit_code, record.detail) == (0, None)
    assert runs.text("stdout.log") == "tidied\n"
    assert not (runs.folder / "hit").exists()


def test_each_process_gets_term_once(runs: Runs) -> None:
    """To many programs a second TERM means: leave without saving."""
    counting = "trap 'echo term' TERM; echo up; while :; do sleep 600 & wait; done"
    one = f'sh -c "{counting}" &'
    # Many of them, because two signals that come before the first is handled look like one.
    runs.launch("sh", "-c", f"{one * 7} setsid {one} {counting}")
    until(lambda: runs.text("stdout.log").count("up") == 9)
    rundir.cancel(runs.folder / "run", by="tester", grace_s=LONG_S)
    until(lambda: runs.text("stdout.log").count("term") >= 9)
    rundir.cancel(runs.folder / "run", by="tester", grace_s=0.0)
    record = runs.wait().exit
    assert record is not None
    assert record.signal == signal.SIGKILL
    assert runs.text("stdout.log").count("term") == 9


def test_a_second_cancellation_can_only_shorten_the_grace(runs: Runs) -> None:
    runs.launch("sh", "-c", "trap '' TERM; echo up; sleep 600")
    until(lambda: runs.text("stdout.log") == "up\n")
    assert rundir.cancel(runs.folder / "run", by="first", grace_s=LONG_S)
    until(lambda: (runs.folder / "run" / "cancel.json").exists())
    assert runs.observe().state == "running"
    # Where the supervisor comes late to read the first it reads this one too, and may have gone before it is signalled.
    rundir.cancel(runs.folder / "run", by="second", grace_s=0.0)
    record = runs.wait().exit
    assert record is not None
    assert record.duration_s < LONG_S / 2
    assert record.reason == "killed"


_FORGED = [
    '{"by": "x", "grace_s": 1' + 400 * "0" + "}",
    '{"by": "x", "grace_s": 1e999}',
    '{"by": "x", "grace_s": 1e300}',
    '{"by": "x", "grace_s": -1e9}',
    '{"by": "x", "grace_s": "1e9"}',
    '{"by": [], "grace_s": 1.0}',
    "[" * 100_000,
]


@pytest.mark.parametrize("forged", _FORGED, ids=range(len(_FORGED)))
def test_a_forged_cancellation_keeps_no_caller_from_ending_the_run(runs: Runs, forged: str) -> None:
    started = runs.launch("sh", "-c", "trap '' TERM; echo up; sleep 600", grace_s=0.05)
    until(lambda: runs.text("stdout.log") == "up\n")
    (runs.folder / "run" / "cancel.json").write_text(forged)
    os.kill(started.supervisor.pid, signal.SIGTERM)  # it reads the file, and goes on with the grace of the start
    record = runs.wait().exit
    assert record is not None
    assert (record.reason, record.signal, record.detail) == ("killed", signal.SIGKILL, "cancelled")


@pytest.mark.parametrize("forged", _FORGED, ids=range(len(_FORGED)))
def test_a_cancellation_replaces_a_forged_one(runs: Runs, forged: str) -> None:
    runs.launch("sh", "-c", "trap '' TERM; echo up; sleep 600", grace_s=LONG_S)
    until(lambda: runs.text("stdout.log") == "up\n")
    (runs.folder / "run" / "cancel.json").write_text(forged)
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=0.05)
    record = runs.wait().exit
    assert record is not None
    assert (record.reason, record.signal) == ("killed", signal.SIGKILL)
    assert record.duration_s < LONG_S


def test_a_long_grace_gives_no_run_more_time_than_its_limit(runs: Runs) -> None:
    """Who may end a run may not thereby let it last: neither an agent with a long grace, nor the run itself."""
    runs.launch("sh", "-c", "trap '' TERM; echo up; sleep 600", wall_s=0.3, grace_s=0.05)
    until(lambda: runs.text("stdout.log") == "up\n")
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=10 * LONG_S)
    record = runs.wait().exit
    assert record is not None
    assert (record.reason, record.signal) == ("killed", signal.SIGKILL)
    assert record.duration_s < LONG_S


def test_the_first_reason_of_an_end_is_kept(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who cancels what is being ended at its limit makes it quicker, and does not become the reason."""
    patched_shim(runs.folder, monkeypatch, _ONCE_UP)
    script = "trap 'echo term' TERM; echo up; while :; do sleep 0.05; done"
    runs.launch("sh", "-c", script, wall_s=0.2, grace_s=10 * LONG_S)
    until(lambda: runs.text("stdout.log") == "up\nterm\n")
    rundir.cancel(runs.folder / "run", by="tester", grace_s=0.0)
    record = runs.wait().exit
    assert record is not None
    assert (record.reason, record.signal, record.detail) == ("timeout", signal.SIGKILL, "over its limit of 0.2 s")


def test_a_supervisor_that_reads_late_reads_the_shortest_grace(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several have cancelled before it came to look; who was first is named."""
    runs.launch("sh", "-c", "trap '' TERM; echo up; sleep 600")
    until(lambda: runs.text("stdout.log") == "up\n")
    with monkeypatch.context() as unheard:
        unheard.setattr(platform, "signal_process", lambda identity, signum: True)
        for by, grace_s in (("first", 2 * LONG_S), ("second", 0.25), ("third", LONG_S)):
            assert rundir.cancel(runs.folder / "run", by=by, grace_s=grace_s)
        assert json.loads(runs.text("cancel.json")) == {"by": "first", "grace_s": 0.25}
        (runs.folder / "run" / "cancel.json").write_text("{")
        with ThreadPoolExecutor(4) as pool:
            graces = [LONG_S, 9.0, 0.25, 7.0] * 3
            assert all(pool.map(lambda grace_s: rundir.cancel(runs.folder / "run", by="x", grace_s=grace_s), graces))
        assert json.loads(runs.text("cancel.json"))["grace_s"] == 0.25
    assert rundir.cancel(runs.folder / "run", by="the one that is heard", grace_s=2 * LONG_S)
    record = runs.wait().exit
    assert record is not None
    assert (record.reason, record.signal, record.detail) == ("killed", signal.SIGKILL, "cancelled by x")


def test_a_plain_term_to_the_supervisor_ends_the_run(runs: Runs) -> None:
    started = runs.launch("sleep", "600")
    assert platform.signal_process(started.supervisor, signal.SIGHUP), "which is ignored"
    assert platform.signal_process(started.supervisor, signal.SIGTERM)
    record = runs.wait().exit
    assert record is not None
    assert (record.reason, record.detail) == ("killed", "ended by a signal to the supervisor")


def test_nothing_is_signalled_where_nothing_runs(runs: Runs) -> None:
    assert not rundir.cancel(runs.folder / "run", by="tester", grace_s=1.0)
    assert not (runs.folder / "run").exists()
    runs.launch("true")
    runs.wait()
    assert not rundir.cancel(runs.folder / "run", by="tester", grace_s=1.0)
    assert not (runs.folder / "run" / "cancel.json").exists()


# --- when the supervisor dies


def kill_supervisor(started: Started) -> None:
    assert platform.signal_process(started.supervisor, signal.SIGKILL)
    assert platform.wait_gone(started.supervisor, LONG_S)


def test_a_run_without_its_supervisor_is_orphaned_then_lost(runs: Runs) -> None:
    started, gate = runs.waiting("read x < $GATE")
    kill_supervisor(started)
    assert not lock.is_locked(runs.folder / "run" / "supervisor.lock")
    assert runs.observe().state == "orphaned"
    assert rundir.wait(runs.folder / "run", 0.02).state == "orphaned"
    gate.open()
    seen = runs.wait()
    assert (seen.state, seen.exit, seen.started) == ("lost", None, started)
    assert seen.detail == "the supervisor died without an exit record"


def test_an_orphan_can_be_cancelled_with_what_is_below_it(runs: Runs) -> None:
    started = runs.launch("sh", "-c", "trap '' TERM; setsid sleep 600 & echo $!; setsid -w sleep 600")
    until(lambda: runs.text("stdout.log"))
    assert started.child is not None
    until(lambda: len(process_tree.descendants(started.supervisor.pid)) >= 3)
    runs.processes += [known(pid) for pid in process_tree.descendants(started.child.pid)]
    kill_supervisor(started)
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=0.2)
    assert runs.observe().state == "lost"
    assert not rundir.cancel(runs.folder / "run", by="tester", grace_s=0.2)


def test_an_orphan_is_cancelled_with_what_has_left_its_tree(runs: Runs) -> None:
    stray = "trap '' TERM; echo $$; exec 3<&0; while :; do sleep 600; done"
    environment = {**ENVIRONMENT, "PERPETUAL_METRICS": str(runs.folder / "run" / "metrics.jsonl")}
    script = '(setsid sh -c "$0" &) ; (setsid sh -c "$0" &) ; sleep 600'
    started = runs.launch("sh", "-c", script, stray, env=environment)
    until(lambda: len(runs.text("stdout.log").split()) == 2)
    strays = [known(int(pid)) for pid in runs.text("stdout.log").split()]
    runs.processes += strays
    kill_supervisor(started)
    assert started.child is not None
    below = process_tree.descendants(started.child.pid)
    assert not {each.pid for each in strays} & {*below}, "they hang in no tree of ours"
    others = {**ENVIRONMENT, "PERPETUAL_METRICS": str(runs.folder / "bystander" / "metrics.jsonl")}
    bystander = runs.launch("sleep", "600", name="bystander", env=others)
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=0.2)
    assert not [each for each in strays if platform.is_alive(each)]
    assert bystander.child is not None
    assert platform.is_alive(bystander.child)
    assert rundir.cancel(runs.folder / "bystander", by="tester", grace_s=0.2)
    runs.wait("bystander")


def drifted(runs: Runs, script: str) -> tuple[Started, Identity]:
    """A run without its supervisor, and the process that runs `script` of it, below process 1; that has said a word."""
    environment = {**ENVIRONMENT, "PERPETUAL_METRICS": str(runs.folder / "run" / "metrics.jsonl")}
    started = runs.launch("sh", "-c", '(setsid sh -c "$0" &) ; sleep 600', f"{script}; sleep 600", env=environment)
    until(lambda: runs.text("stdout.log"))
    stray = known(int(runs.text("stdout.log")))
    runs.processes.append(stray)
    kill_supervisor(started)
    return started, stray


def test_a_process_without_an_environment_is_read_again(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that is executing a program just now: it gets its TERM with the others."""
    _, stray = drifted(runs, "trap 'echo saved; exit 0' TERM; echo $$; while :; do sleep 0.05; done")
    real, seen = processes.environment_of, []

    def at_first_blank(pid: int) -> bytes:
        seen.append(pid)
        return b"" if seen.count(pid) == 1 else real(pid)

    monkeypatch.setattr(processes, "environment_of", at_first_blank)
    assert [*processes.marked(runs.folder / "run", None, leave_out=lambda pid: False)].count(
        stray
    ) == 1  # by its output, and then by its marks
    seen.clear()
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=LONG_S)
    assert not platform.is_alive(stray)
    assert runs.text("stdout.log") == f"{stray.pid}\nsaved\n"


def test_one_look_that_finds_nothing_is_not_the_last(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who forks and leaves all the time is missed by some."""
    _, stray = drifted(runs, "echo $$")
    real, looks = processes.marked, []

    def at_first_blind(run_dir: Path, nonce: str | None, *, leave_out: Callable[[int], bool]) -> Iterator[Identity]:
        looks.append(run_dir)
        yield from real(run_dir, nonce, leave_out=leave_out) if len(looks) > 2 else ()

    monkeypatch.setattr(rundir, "marked", at_first_blind)
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=LONG_S)
    assert not platform.is_alive(stray)


def test_a_supervisor_that_dies_under_a_cancellation_leaves_nothing(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, _ = runs.waiting("read x < $GATE")
    observe = rundir.observe

    def then_it_dies(run_dir: Path) -> Observation:
        seen = observe(run_dir)
        if platform.is_alive(started.supervisor):
            kill_supervisor(started)
        return seen

    monkeypatch.setattr(rundir, "observe", then_it_dies)
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=LONG_S)
    assert runs.observe().state == "lost"


def test_the_lock_is_free_when_the_supervisor_dies_and_the_command_waits_still(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its gate, which it never passes."""
    gate = Gate(runs.folder / "gate")
    patches = (
        "import os\n"
        "read = os.read\n"
        f"os.read = lambda fd, most: (most == 1 and open({str(gate.path)!r}).read(), read(fd, most))[1]\n"
        "supervisor.Run._release = lambda *a: os.kill(os.getpid(), 9)\n"
    )
    patched_shim(runs.folder, monkeypatch, patches)
    folder = runs.folder / "run"
    folder.mkdir()
    spec = {"argv": ["touch", str(runs.folder / "ran")], "cwd": "/", "env": ENVIRONMENT}
    (folder / "launch.json").write_text(json.dumps(spec | {"wall_s": None, "grace_s": 1.0, "max_log_bytes": None}))
    argv = [sys.executable, "-I", "-S", str(rundir.SHIM), str(folder)]
    subprocess.run(argv, stdout=subprocess.DEVNULL, timeout=LONG_S, check=True)
    until((folder / "started.json").exists)
    started = rundir.read_started(folder)
    assert started is not None
    assert started.child is not None
    runs.processes += [started.supervisor, started.child]
    assert platform.wait_gone(started.supervisor, LONG_S)
    # Killed in the instant after the fork, the supervisor may be gone before the command has closed what it was given.
    until(lambda: runs.observe().state == "orphaned")
    gate.open()
    assert runs.wait().state == "lost"
    assert not (runs.folder / "ran").exists()


def test_pids_that_were_given_out_again_are_never_signalled(runs: Runs) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as innocent:
        other = known(innocent.pid)
        former = other._replace(start_ticks=other.start_ticks - 1)._asdict()
        record = {"supervisor": former, "child": former, "started_at": "2026-11-21T00:00:00.000Z"}
        (runs.folder / "run").mkdir()
        (runs.folder / "run" / "started.json").write_text(json.dumps(record))
        assert runs.observe().state == "lost"
        assert not rundir.cancel(runs.folder / "run", by="tester", grace_s=0.0)
        assert innocent.stdin is not None
        innocent.stdin.close()
        assert innocent.wait() == 0


def test_after_a_reboot_a_run_is_lost_and_nothing_is_signalled(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    started, _ = runs.waiting("read x < $GATE")
    kill_supervisor(started)
    assert started.child is not None
    assert platform.signal_process(started.child, signal.SIGKILL)
    assert platform.wait_gone(started.child, LONG_S)
    with monkeypatch.context() as rebooted:
        rebooted.setenv("PERPETUAL_BOOT_ID", "the next boot")
        seen = runs.observe()
        assert (seen.state, seen.detail) == ("lost", "reboot")
        assert not rundir.cancel(runs.folder / "run", by="tester", grace_s=0.0)


def test_the_variable_of_a_played_reboot_loses_no_live_run(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its supervisor holds the lock of its folder, and can be asked to end it."""
    started = runs.launch("sleep", "600")
    monkeypatch.setenv("PERPETUAL_BOOT_ID", "left in an environment")
    assert (runs.observe().state, runs.observe().elsewhere) == ("running", None)
    (runs.folder / "run" / "supervisor.lock").unlink()
    assert runs.observe().state == "running", "it works in this very folder"
    assert rundir.cancel(runs.folder / "run", by="tester", grace_s=LONG_S)
    monkeypatch.delenv("PERPETUAL_BOOT_ID")
    assert platform.wait_gone(started.supervisor, LONG_S)
    assert runs.wait().exit is not None


def test_a_supervisor_that_cannot_be_seen_but_holds_the_lock_is_at_work(runs: Runs) -> None:
    """As from another pid namespace, where its pid means nothing."""
    _, gate = runs.waiting("read x < $GATE")
    path = runs.folder / "run" / "started.json"
    true_record = path.read_text()
    unseen = json.loads(true_record)
    unseen["supervisor"]["start_ticks"] += 1
    path.write_text(json.dumps(unseen))
    assert runs.observe().state == "running"
    assert rundir.wait(runs.folder / "run", 0.05).state == "running"
    gate.open()
    assert runs.wait().state == "ended"


def test_a_directory_that_is_being_launched_says_so(tmp_path: Path) -> None:
    assert rundir.observe(tmp_path / "none") == Observation("absent")
    (tmp_path / "launch.json").touch()
    assert rundir.observe(tmp_path) == Observation("absent")
    with lock.FileLock(tmp_path / "supervisor.lock"):
        assert rundir.observe(tmp_path) == Observation("absent", detail="launching")


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_start_that_comes_between_two_looks_is_not_missed(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, has_ended: bool
) -> None:
    """Its record was looked for too early, and `launch.json` too late; or the lock, when all was over."""
    started = runs.launch("true")
    runs.wait()
    assert platform.wait_gone(started.supervisor, LONG_S)
    folder, aside = runs.folder / "run", runs.folder / "aside"
    folder.rename(aside)
    folder.mkdir()
    (folder / "launch.json").touch()
    read_started = rundir.read_started

    def then_it_starts(run_dir: Path) -> Started | None:
        found = read_started(run_dir)
        if found is None:
            (folder / "launch.json").unlink()
            if has_ended:
                folder.rmdir()
                aside.rename(folder)
        return found

    monkeypatch.setattr(rundir, "read_started", then_it_starts)
    if has_ended:
        assert runs.observe().state == "ended"
    else:
        with lock.FileLock(folder / "supervisor.lock"):
            assert runs.observe() == Observation("absent", detail="launching")


# --- records and logs


@pytest.mark.parametrize("file", ["exit.json", "started.json"])
@pytest.mark.parametrize("garbage", ["", "{", "[]", '"text"', "{}", '{"reason": "bored"}'])
def test_a_garbled_record_is_an_error_that_names_the_file(tmp_path: Path, file: str, garbage: str) -> None:
    (tmp_path / file).write_text(garbage)
    with pytest.raises(ValueError, match=file) as caught:
        rundir.observe(tmp_path)
    assert str(tmp_path / file) in str(caught.value)


def test_a_log_is_kept_to_its_limit_with_both_ends(runs: Runs) -> None:
    limit = 10_000
    # One write, so that the only cut is the one after the end, which loses nothing.
    program = "import os; os.write(1, b''.join(b'line %d\\n' % n for n in range(5000)) + b'last\\n')"
    runs.launch(*PYTHON, program, max_log_bytes=limit)
    assert runs.wait().state == "ended"
    text = runs.text("stdout.log")
    full = "".join(f"line {number}\n" for number in range(5000)) + "last\n"
    head, dropped, tail = text.partition("\n[... at least ")
    count, _, tail = tail.partition(" bytes dropped: this log is limited to 10000 bytes ...]\n")
    assert full.startswith(head)
    assert full.endswith(tail)
    assert dropped
    assert len(head) + len(tail) + int(count) == len(full)
    assert len(text) <= limit
    assert len(tail) > 1000


def test_a_log_is_cut_again_and_again_while_it_grows(tmp_path: Path) -> None:
    log = tmp_path / "log"
    before = (0, 0)
    written = b""
    with log.open("ab", buffering=0) as child, log.open("ab+", buffering=0) as mine:
        for turn in range(30):
            chunk = b"%05d" % turn * 300
            child.write(chunk)
            written += chunk
            before = log_capture.cut_log(mine.fileno(), 5000, before)
            assert log.stat().st_size <= 5000
    content = log.read_bytes()
    assert content[:2500] == written[:2500]
    assert content.endswith(written[-1000:])
    assert content.count(b"bytes dropped") == 1
    assert before[0] == len(written) - (len(content) - before[1])


def test_a_running_log_is_cut_within_a_tick(runs: Runs) -> None:
    started, gate = runs.waiting("yes | head -c 1000000; echo full >&2; read x < $GATE", max_log_bytes=4096)
    until(lambda: runs.text("stderr.log") == "full\n")
    until(lambda: (runs.folder / "run" / "stdout.log").stat().st_size <= 4096)
    assert started.child is not None
    assert platform.is_alive(started.child)
    gate.open()
    assert runs.wait().state == "ended"


@pytest.mark.parametrize("obstacle", ["mkdir -p exit.json/x", "mkfifo exit.json", "ln -s stdout.log exit.json"])
def test_anything_in_place_of_the_exit_record_is_set_aside(runs: Runs, obstacle: str) -> None:
    runs.launch("sh", "-c", f"cd {runs.folder}/run; {obstacle}; exit 5")
    record = runs.wait().exit
    assert record is not None
    assert record.exit_code == 5
    assert len([*(runs.folder / "run").glob("exit.json.aside-*")]) == 1
    assert "set aside" in runs.text("supervisor.log")


def test_an_exit_record_that_can_never_be_written_is_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: str, content: str) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(atomic, "write_atomic", refuse)
    monkeypatch.chdir(tmp_path)
    assert not supervisor.record_exit({"exit_code": 5}, waits_s=(0.0, 0.0), then_every_s=None)
    told = capfd.readouterr().err.splitlines()
    assert len(told) == 3
    assert all('it reads {"exit_code": 5}' in line for line in told)
    assert os.listdir(tmp_path) == []
    assert sum(supervisor.RECORD_RETRY_WAITS_S) < 60.0


def test_an_exit_record_is_tried_until_the_disk_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A disk that is full for a day must not cost the truth about a run; the complaints end long before."""
    monkeypatch.chdir(tmp_path)
    refusals = 50
    tries = 0

    def write(path: str, content: str) -> None:
        nonlocal tries
        tries += 1
        if tries <= refusals:
            raise OSError(errno.ENOSPC, "no space left")
        Path(path).write_text(content)

    monkeypatch.setattr(atomic, "write_atomic", write)
    assert supervisor.record_exit({"exit_code": 5}, waits_s=(0.0, 0.0), then_every_s=0.0)
    assert tries == refusals + 1
    assert Path("exit.json").read_text() == '{"exit_code": 5}\n'
    assert len(capfd.readouterr().err.splitlines()) == 3


def test_nothing_is_tried_for_ever_in_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert not supervisor.record_exit({"exit_code": 5}, waits_s=(), then_every_s=0.0)


def test_the_record_finds_its_place_when_the_folder_is_moved(runs: Runs) -> None:
    _, gate = runs.waiting("read x < $GATE", name="old")
    (runs.folder / "old").rename(runs.folder / "new")
    assert runs.observe("new").state == "running"
    gate.open()
    assert runs.wait("new").state == "ended"


def test_the_supervisor_alone_says_how_it_is_used() -> None:
    done = subprocess.run([sys.executable, "-I", "-S", str(shim.__file__)], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "usage: shim.py RUN_DIR\n"


def test_the_supervisor_imports_little_and_nothing_late(tmp_path: Path) -> None:
    """Each import is paid by every launch, and the installation may be gone when a long run ends."""
    script = "echo AT WORK > /proc/$PPID/fd/2; sleep 600 & exit 3"
    spec = {"argv": ["sh", "-c", script], "cwd": "/", "env": ENVIRONMENT}
    limits = {"wall_s": LONG_S, "grace_s": 1.0, "no_output_s": LONG_S, "max_log_bytes": 4096}
    (tmp_path / "launch.json").write_text(json.dumps(spec | limits))
    argv = [sys.executable, "-I", "-S", "-X", "importtime", str(shim.__file__), str(tmp_path)]
    # Standard error is open until the supervisor has ended, and its complaints would be there too.
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG_S)
    assert rundir.observe(tmp_path).state == "ended"
    early, _, late = done.stderr.partition("AT WORK\n")
    assert "perpetual_supervisor.supervisor" in early
    assert late == ""
    loaded = {line.rpartition("|")[2].strip() for line in early.splitlines()[1:]}
    dear = {"json", "re", "enum", "typing", "contextlib", "signal", "functools", "importlib", "subprocess", "threading"}
    assert not loaded & dear
    own = {
        f"perpetual_supervisor.{name}"
        for name in ("log_capture", "mover", "nested_runs", "plainjson", "process_tree", "supervisor")
    }
    own |= {f"perpetual.toolkit.{name}" for name in ("atomic", "confined", "platform")}
    assert {name for name in loaded if name.startswith("perpetual")} == own


def test_an_idle_supervisor_does_not_wake_up(runs: Runs) -> None:
    started, gate = runs.waiting("read x < $GATE", wall_s=1000.0)
    status = Path(f"/proc/{started.supervisor.pid}/status")

    def wakes() -> str:
        return status.read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0]

    until(lambda: "State:\tS" in status.read_text())
    time.sleep(0.1)  # not to wait for something, but to give it time for what it must not do
    before = wakes()
    time.sleep(0.3)
    assert wakes() == before
    gate.open()
    runs.wait()


def test_the_supervisor_finds_the_toolkit_beside_it(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an installation, where all packages lie in one folder; in a checkout the plugins have their own."""
    site = runs.folder / "site"
    for package, file in (("perpetual/toolkit", atomic.__file__), ("perpetual_supervisor", rundir.__file__)):
        shutil.copytree(Path(file).parent, site / package)
    monkeypatch.setattr(rundir, "SHIM", site / "perpetual_supervisor" / "shim.py")
    runs.launch("sh", "-c", "exit 3")
    seen = runs.wait()
    assert seen.exit is not None
    assert (seen.exit.reason, seen.exit.exit_code) == ("exited", 3)


def test_a_run_is_live_until_its_command_has_ended(runs: Runs) -> None:
    folder = runs.folder / "run"
    assert not processes.is_live(folder)
    started, gate = runs.waiting("read x < $GATE")
    assert processes.is_live(folder)
    assert platform.signal_process(started.supervisor, signal.SIGKILL)
    assert platform.wait_gone(started.supervisor, LONG_S)
    assert (rundir.observe(folder).state, processes.is_live(folder)) == ("orphaned", True)
    gate.open()
    assert runs.wait().state == "lost"
    assert not processes.is_live(folder)


def test_a_copied_record_is_not_of_this_folder(runs: Runs) -> None:
    runs.launch("sh", "-c", "exit 0")
    assert runs.wait().state == "ended"
    folder, copy = runs.folder / "run", runs.folder / "copy"
    shutil.copytree(folder, copy)
    assert (run_folder.is_ours(folder), run_folder.is_ours(copy)) == (True, False)
    assert not run_folder.is_ours(runs.folder / "none")


@pytest.mark.parametrize(
    "content",
    ["", "null", "[]", "{}", '"supervisor"', '{"supervisor": []}', '{"supervisor": {"boot_id": 1}}',
     '{"supervisor": {"boot_id": "b", "pid": true, "start_ticks": 1}}', "[" * 100_000,
     '{"supervisor": {"boot_id": "b", "pid": 0, "start_ticks": 1}}'],
    ids=range(10),
)  # fmt: skip
def test_a_folder_with_no_record_of_a_supervisor_is_not_ours(tmp_path: Path, content: str) -> None:
    (tmp_path / run_folder.STARTED).write_text(content)
    assert not run_folder.is_ours(tmp_path)

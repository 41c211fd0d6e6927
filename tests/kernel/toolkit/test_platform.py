"""Process identity and signals, on real processes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from perpetual.toolkit import platform
from perpetual.toolkit.platform import Identity

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

LONG_S = 30.0  # never reached, unless the test fails


@contextmanager
def process(*argv: str, group: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed at the end; by default one that waits for its stdin to close."""
    with subprocess.Popen(
        list(argv) or ["cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0 if group else None,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def line_of(started: subprocess.Popen[bytes]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().decode().strip()


def known(pid: int) -> Identity:
    identity = platform.identity_of(pid)
    assert identity is not None
    return identity


@pytest.fixture(params=["pidfd", "no pidfd"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Once as the kernel is, once as one without pidfds."""
    if request.param == "no pidfd":

        def missing(pid: int) -> int:
            raise OSError(errno.ENOSYS, "not implemented")

        monkeypatch.setattr(os, "pidfd_open", missing)
    return str(request.param)


def test_identity_is_boot_pid_and_start() -> None:
    mine = known(os.getpid())
    assert mine == Identity(platform.boot_id(), os.getpid(), mine.start_ticks)
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    assert 0 < mine.start_ticks <= uptime_s * ticks_per_s
    assert platform.is_alive(mine)
    with process() as later:
        assert known(later.pid).start_ticks >= mine.start_ticks


def test_a_command_name_with_blanks_and_parentheses_is_parsed(tmp_path: Path) -> None:
    odd = tmp_path / "a) R 7 (b"
    odd.symlink_to("/bin/sh")
    with process(str(odd), "-c", "echo up; read line") as named, process() as plain:
        assert line_of(named) == "up"
        assert b"a) R 7 (b" in Path(f"/proc/{named.pid}/stat").read_bytes()
        apart = known(plain.pid).start_ticks - known(named.pid).start_ticks
        assert 0 <= apart < 60 * os.sysconf("SC_CLK_TCK")
        assert platform.parent_of(named.pid) == os.getpid()


def test_a_zombie_is_dead(kernel: str) -> None:
    with process("true") as ended:
        identity = platform.identity_of(ended.pid) or Identity(platform.boot_id(), ended.pid, 0)
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{ended.pid}").exists(), "it must still be a zombie here"
        assert platform.start_ticks(ended.pid) is None
        assert platform.identity_of(ended.pid) is None
        assert not platform.is_alive(identity)
        assert not platform.signal_process(identity, signal.SIGTERM)
        assert platform.wait_gone(identity, 0.0)
        assert platform.parent_of(ended.pid) == os.getpid()


def test_a_process_whose_first_thread_ended_is_alive(kernel: str) -> None:
    program = (
        "import ctypes, sys, threading\n"
        "threading.Thread(target=sys.stdin.read).start()\n"
        "print('up', flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with process(sys.executable, "-I", "-S", "-c", program) as headless:
        assert line_of(headless) == "up"
        deadline = time.monotonic() + LONG_S
        while b") Z " not in Path(f"/proc/{headless.pid}/stat").read_bytes():
            assert time.monotonic() < deadline
        identity = known(headless.pid)
        assert platform.is_alive(identity)
        assert not platform.wait_gone(identity, 0.01)
        assert platform.signal_process(identity, signal.SIGKILL)
        assert platform.wait_gone(identity, LONG_S)


def test_a_pid_that_never_was_has_no_identity() -> None:
    for pid in (0, -1, 2**22 + 1):
        assert platform.start_ticks(pid) is None
        assert platform.identity_of(pid) is None
        assert platform.parent_of(pid) is None


def test_a_signal_reaches_the_process_and_its_end_is_noticed(kernel: str) -> None:
    with process() as target:
        identity = known(target.pid)
        assert not platform.wait_gone(identity, 0.01)
        assert platform.signal_process(identity, signal.SIGTERM)
        assert platform.wait_gone(identity, LONG_S)
        assert target.wait() == -signal.SIGTERM
        assert not platform.signal_process(identity, signal.SIGTERM)


def test_a_later_owner_of_the_pid_is_never_signalled(kernel: str) -> None:
    with process() as innocent:
        identity = known(innocent.pid)
        for former in (
            identity._replace(start_ticks=identity.start_ticks - 1),
            identity._replace(start_ticks=identity.start_ticks + 1),
            identity._replace(boot_id="another boot"),
        ):
            assert not platform.is_alive(former)
            assert not platform.signal_process(former, signal.SIGKILL)
            assert platform.wait_gone(former, LONG_S)
        assert platform.is_alive(identity)
        assert innocent.stdin is not None
        innocent.stdin.close()
        assert innocent.wait() == 0, "it must have left by itself"


def test_the_wait_wakes_at_the_end_and_not_at_its_timeout() -> None:
    with process() as target:
        identity = known(target.pid)
        begin = time.monotonic()
        assert target.stdin is not None
        target.stdin.close()
        assert platform.wait_gone(identity, 60.0)
        assert time.monotonic() - begin < 30.0


def test_wait_names_the_process_that_ended(kernel: str) -> None:
    with process() as first, process() as second, process() as third:
        identities = [known(each.pid) for each in (first, second, third)]
        begin = time.monotonic()
        assert platform.wait_any_gone(identities, 0.05) == []
        assert platform.wait_any_gone([], 0.05) == []
        assert 0.09 <= time.monotonic() - begin < 30.0
        assert second.stdin is not None
        second.stdin.close()
        assert platform.wait_any_gone(identities, 60.0) == [1]
        assert time.monotonic() - begin < 30.0
        # A later owner of the pid is another process: the one that was meant is gone.
        former = identities[0]._replace(start_ticks=identities[0].start_ticks - 1)
        assert platform.wait_any_gone([identities[2], former], 60.0) == [1]


@pytest.mark.skipif(sys.platform != "linux", reason="pidfds are Linux only")
def test_waiting_for_many_leaves_descriptors_for_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may have few of them waits for the rest by looking."""
    opened: list[int] = []
    open_pidfd = os.pidfd_open

    def counted(pid: int) -> int:
        opened.append(pid)
        return open_pidfd(pid)

    monkeypatch.setattr(os, "pidfd_open", counted)
    monkeypatch.setattr(os, "sysconf", lambda name: 4)
    with process() as first, process() as second, process() as third:
        identities = [known(each.pid) for each in (first, second, third)]
        assert third.stdin is not None
        third.stdin.close()
        assert platform.wait_any_gone(identities, 60.0) == [2]
    assert opened == [first.pid, second.pid]


def test_a_reboot_can_be_played(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = known(os.getpid())
    monkeypatch.setenv("PERPETUAL_BOOT_ID", "next")
    assert platform.boot_id() == "next"
    assert not platform.is_alive(mine)
    assert platform.is_alive(known(os.getpid()))


LOADER = (
    "import sys\n"
    "from importlib.machinery import SourceFileLoader\n"
    "platform = type(sys)('alone')\n"
    "SourceFileLoader('alone', sys.argv[1]).exec_module(platform)\n"
)


def alone(program: str) -> str:
    """What a program prints that loads the module by its path, as the supervisor does."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOADER + program, str(platform.__file__)],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def test_the_module_platform_loads_alone_and_light() -> None:
    loaded = set(alone("platform.identity_of(1)\nprint(*sys.modules)").split())
    heavy = {"perpetual", "psutil", "typing", "ctypes", "json", "re", "enum", "signal", "subprocess", "threading"}
    assert loaded.isdisjoint(heavy)
    assert "_signal" in loaded


def test_the_age_of_a_process_ignores_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    with process() as one:
        identity = known(one.pid)
        monkeypatch.setattr(time, "time", lambda: 0.0)
        first = platform.age_s(identity)
        assert first is not None
        assert 0.0 <= first < 30.0
        ticks = os.sysconf("SC_CLK_TCK")
        older = platform.age_s(identity._replace(start_ticks=identity.start_ticks - 5 * ticks))
        assert older is not None
        assert 5.0 <= older - first < 30.0
        assert platform.age_s(identity._replace(start_ticks=identity.start_ticks + 1000 * ticks)) == 0.0
        assert platform.age_s(identity._replace(boot_id="another boot")) is None


def test_a_platform_without_supervision_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert platform.supports_runs() is None
    monkeypatch.setattr(sys, "platform", "win32")
    reason = platform.supports_runs()
    assert reason is not None
    assert "win32" in reason


def test_many_processes_are_distinguished() -> None:
    with ExitStack() as stack:
        pids = [stack.enter_context(process()).pid for _ in range(10)]
        assert len({known(pid) for pid in pids}) == 10

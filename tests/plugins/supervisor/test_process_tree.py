"""The processes below another one, on real processes."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perpetual.toolkit import platform
from perpetual.toolkit.platform import Identity
from perpetual_supervisor import process_tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

LONG_S = 30.0  # never reached, unless the test fails


@contextmanager
def process(*argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed at the end."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
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


def printed(program: str) -> str:
    """What a program prints that has the module."""
    text = f"from perpetual_supervisor import process_tree\n{program}"
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True, timeout=LONG_S)
    return done.stdout.strip()


TREE = """
import os, signal, subprocess, sys, threading
def spawn():
    threads.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE))
threads = []
worker = threading.Thread(target=spawn)     # a child of a thread, in the list of that thread
worker.start(); worker.join()
nested = subprocess.Popen(
    ["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True)
gone = subprocess.Popen(["true"])
os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)  # a zombie
print(threads[0].pid, nested.pid, int(nested.stdout.readline()), flush=True)
sys.stdin.read()
threads[0].stdin.close()
"""


@contextmanager
def tree() -> Iterator[tuple[int, list[int]]]:
    """A process, and below it a thread's child, a session's leader and that one's child, and a zombie."""
    with process(sys.executable, "-I", "-S", "-c", TREE) as root:
        below = [int(pid) for pid in line_of(root).split()]
        identities = [known(pid) for pid in below]
        try:
            yield root.pid, below
        finally:
            for identity in identities:
                platform.signal_process(identity, signal.SIGKILL)
            for identity in identities:
                assert platform.wait_gone(identity, LONG_S)


def test_descendants_are_found_whole_in_both_ways() -> None:
    with tree() as (root, below):
        for found in (process_tree.descendants(root), process_tree.descendants_by_scan(root)):
            assert sorted(found) == sorted(below)
            assert found.index(below[1]) < found.index(below[2]), "parents come first"


def test_descendants_are_signalled_but_for_a_group() -> None:
    with tree() as (root, below):
        first, nested, inner = (known(pid) for pid in below)
        assert process_tree.signal_descendants(root, signal.SIGKILL, except_group=nested.pid) == 1
        assert platform.wait_gone(first, LONG_S)
        assert platform.is_alive(nested)
        assert platform.is_alive(inner)
        assert process_tree.signal_descendants(root, signal.SIGKILL) == 2
        assert platform.wait_gone(nested, LONG_S)
        assert platform.wait_gone(inner, LONG_S)
        assert process_tree.signal_descendants(root, signal.SIGKILL) == 0


def test_an_excluded_process_excludes_its_descendants() -> None:
    with tree() as (root, below):
        first, nested, _ = below

        def leave_out(pid: int) -> bool:
            return pid == nested

        assert process_tree.descendants(root, leave_out=leave_out) == [first]
        assert process_tree.descendants_by_scan(root, leave_out) == [first]
        assert process_tree.signal_descendants(root, signal.SIGKILL, leave_out=leave_out) == 1
        while first in process_tree.descendants(root):
            time.sleep(0.001)
        assert process_tree.descendants(root) == below[1:]


# In a process of its own: the children of a test's process are not only the test's.
CHILDREN = """
import os, sys, signal, time
from perpetual_supervisor import process_tree
if sys.argv[1] == "scan":
    process_tree._lists_children = lambda: False
counted = [process_tree.count_children(leave_out=lambda pid: False)]
lives, dies = os.pipe(), os.fork()
if dies == 0:
    os._exit(0)
os.waitid(os.P_PID, dies, os.WEXITED | os.WNOWAIT)
counted.append(process_tree.count_children(leave_out=lambda pid: True))
os.waitpid(dies, 0)
child = os.fork()
if child == 0:
    os.close(lives[1]); os.read(lives[0], 1); os._exit(0)
counted.append(process_tree.count_children(leave_out=lambda pid: False))
counted.append(process_tree.count_children(leave_out=lambda pid: pid == child))
found = process_tree._children, process_tree._children_by_scan
process_tree._children, process_tree._children_by_scan = lambda pid: [], lambda: {}
counted.append(process_tree.count_children(leave_out=lambda pid: True))
process_tree._children, process_tree._children_by_scan = found
os.close(lives[1]); os.waitpid(child, 0)
print(*counted, process_tree.count_children(leave_out=lambda pid: False))
"""


@pytest.mark.parametrize("how", ["list", "scan"])
def test_children_are_counted_until_they_are_waited_for(how: str) -> None:
    """Dead ones too, whoever is left out; of the living, those that are not left out, and one that is not found."""
    done = subprocess.run([sys.executable, "-c", CHILDREN, how], capture_output=True, text=True, timeout=LONG_S)
    assert (done.stdout, done.stderr) == ("0 1 1 0 1 0\n", "")


def test_hidden_processes_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another user below a run, where /proc is mounted with hidepid=1: no look at it ends the looker."""
    with tree() as (root, below):
        hidden = below[0]

        def guarded(path: Any, *given: Any, **named: Any) -> Any:
            if path == f"/proc/{hidden}/stat":
                raise PermissionError(errno.EPERM, "Operation not permitted")
            return open(path, *given, **named)

        monkeypatch.setattr(platform, "open", guarded, raising=False)
        assert platform.identity_of(hidden) is None
        assert process_tree.descendants(root) == below[1:]
        assert sorted(process_tree.descendants_by_scan(root)) == sorted(below[1:])


def test_a_subreaper_adopts_orphans() -> None:
    program = (
        "import os\n"
        "assert process_tree.set_subreaper()\n"
        "read_end, write_end = os.pipe()\n"
        "if not os.fork():\n"
        "    if not os.fork():\n"
        "        os.setsid()\n"
        "        os.write(write_end, b'x')\n"
        "        os._exit(7)\n"
        "    os._exit(0)\n"
        "os.read(read_end, 1)\n"
        "print(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)))\n"
    )
    assert printed(program) == "[0, 7]"


def test_a_process_can_offer_itself_to_the_oom_killer() -> None:
    before = int(Path("/proc/self/oom_score_adj").read_text())
    program = "print(process_tree.offer_to_oom_killer(), open('/proc/self/oom_score_adj').read())"
    assert printed(program) == f"True {min(before + 10, 1000)}"


OOM_FILES = {
    "proc/vmstat": "nr_free_pages 7\noom_kill 3\nunevictable_pgs 1\n",
    "cgroup/a b/memory.events": "low 0\noom 2\noom_kill 2\noom_group_kill 0\n",
    "cgroup/memory/v1/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 9\n",
}


@pytest.mark.parametrize(
    ("membership", "gone", "counted"),
    [
        ("0::/a b\n", "", {"in its control group": 2, "on this machine": 3}),
        ("4:cpu,memory:/v1\n0::/none\n", "", {"in its control group": 9, "on this machine": 3}),
        ("0::/none\n", "", {"on this machine": 3}),
        ("0::/a b\n", "proc/vmstat", {"in its control group": 2}),
        (None, "proc/vmstat", {}),
    ],
)
def test_the_kills_of_the_kernel_are_counted_where_they_can_be_read(
    tmp_path: Path, membership: str | None, gone: str, counted: dict[str, int]
) -> None:
    for name, content in OOM_FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    if membership is not None:
        (tmp_path / "proc/self").mkdir()
        (tmp_path / "proc/self/cgroup").write_text(membership)
    if gone:
        (tmp_path / gone).unlink()
    found = process_tree.oom_kills(str(tmp_path / "proc"), str(tmp_path / "cgroup"))
    assert [*found.items()] == [*counted.items()]


def test_this_machine_counts_the_kills_of_its_kernel() -> None:
    assert all(count >= 0 for count in process_tree.oom_kills().values())

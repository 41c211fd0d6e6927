"""Attacks on the start that a resident process serves: narrower senders, false listeners, floods, stale files."""

from __future__ import annotations

import ctypes
import json
import os
import pty
import resource
import select
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.toolkit.resident import READY, SOCKET, identity
from tests.plugins.mcp.clients import COMMAND, Raw, raw
from tests.plugins.mcp.test_warm import Resident, children, is_alive, listener, opened, serves_alone
from tests.support import LONG_S, until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="rests on /proc")]

PRIVILEGES = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); libc.prctl(38, 1, 0, 0, 0)"
LANDLOCK = f"""{PRIVILEGES}
import struct
rules = libc.syscall(444, struct.pack("Q", 1 << 8), 8, 0)  # landlock_create_ruleset: no regular file is made
assert rules >= 0 and libc.syscall(446, rules, 0) == 0  # landlock_restrict_self
"""
needs_landlock = pytest.mark.skipif(
    sys.platform != "linux" or ctypes.CDLL(None).syscall(444, None, 0, 1) < 1, reason="a kernel without Landlock"
)


class Warm(Resident):
    """The service, and what it has started."""

    def sessions(self) -> list[int]:
        """The processes that serve; one may end while it is looked at."""
        found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(child) for child in found if is_alive(int(child))]


class Confined(Warm):
    """A service that starts after these lines of Python."""

    def __init__(self, folder: Path, before: str) -> None:
        self.folder, self.socket = folder, folder / ".perpetual" / "services" / SOCKET
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{before}\nfrom perpetual import Lab; Lab.open('.').services.run('mcp')"],
            cwd=folder, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.wait()


@contextmanager
def ended(made: Warm) -> Iterator[Warm]:
    """Ends a service in any case."""
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def warm(project: Path) -> Iterator[Warm]:
    """A resident process of the project."""
    with ended(Warm(project)) as made:
        yield made


def starting(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    """Has every later client's server start after these lines of Python."""
    start = f"import os, sys\n{before}\nos.execv(sys.argv[1], sys.argv[1:])"
    monkeypatch.setattr("tests.plugins.mcp.clients.COMMAND", [sys.executable, "-c", start, *COMMAND])


def is_served_alone(folder: Path) -> bool:
    """Whether the server of a client's own process answers; asserts that one does."""
    with raw(folder) as server:
        opened(server)
        return serves_alone(server)


@needs_landlock
def test_a_sender_in_a_sandbox_that_proc_does_not_name_serves_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ended(Confined(project, PRIVILEGES)):  # so that what goes with such a sandbox does not tell them apart
        starting(monkeypatch, PRIVILEGES)
        assert not is_served_alone(project)
        starting(monkeypatch, LANDLOCK)
        assert is_served_alone(project)


FALSE_LISTENER = """
import os, socket, struct
with socket.socket(socket.AF_UNIX) as made:
    made.bind(os.path.relpath(".perpetual/services/mcp.socket"))
    made.listen()
    link, _ = made.accept()
    pid, *_ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    number = int(link.recv(10))
    try:
        os.open(f"/proc/{pid}/fd/{number}", os.O_PATH)
    except OSError as problem:
        print(type(problem).__name__)
    socket.send_fds(link, [b"%10d" % made.fileno()], [made.fileno()])
    print(socket.recv_fds(link, 100, 5)[:2])
"""


@needs_landlock
def test_a_listener_in_a_sandbox_is_sent_nothing(project: Path) -> None:
    """Variables hold secrets, and from a folder outside of a sandbox every file is reached."""
    services = project / ".perpetual" / "services"
    services.mkdir(exist_ok=True)
    fake = subprocess.Popen(
        [sys.executable, "-c", LANDLOCK + FALSE_LISTENER], cwd=project, stdout=subprocess.PIPE, text=True
    )
    until(lambda: (services / SOCKET).exists(), "it does not listen")
    assert is_served_alone(project)
    assert fake.communicate(timeout=LONG_S)[0].splitlines() == ["PermissionError", "(b'', [])"]


def test_a_session_is_under_the_limits_of_its_senders_control_group(
    warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path("/sys/fs/cgroup")
    place = next((place / kind for kind in ("", "pids") if (place / kind / "cgroup.procs").exists()), place)
    group = place / f"perpetual-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("only the superuser may make a control group")
    try:
        starting(monkeypatch, f"open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))")
        with raw(warm.folder) as server:
            opened(server)
            (session,) = warm.sessions()
            assert not serves_alone(server)
            assert {server.process.pid, session} <= {*map(int, (group / "cgroup.procs").read_text().split())}
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), "its processes go on")
        group.rmdir()


@pytest.mark.parametrize(
    ("before", "variables"),
    [
        ("os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))", {}),
        ("import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)", {}),
        ("import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])", {}),
        ("sys.argv[2:2] = ['-W', 'ignore::UserWarning']", {}),
        ("os.environ['PYTHONPATH'] = 'lib'; os.chdir('/')", {"PYTHONPATH": "lib", "PERPETUAL_PROJECT": "HERE"}),
    ],
    ids=["scheduling", "ignored", "blocked", "warnings", "path"],
)
@pytest.mark.soak
def test_a_sender_in_other_ways_than_the_residents_serves_alone(
    project: Path, before: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("HERE", str(project)))
    with ended(Warm(project)):
        assert not is_served_alone(project)
        starting(monkeypatch, before)
        assert is_served_alone(project)


@pytest.mark.soak
def test_a_service_that_was_started_in_the_background_serves_ordinary_senders(project: Path) -> None:
    before = "import signal; [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGHUP, signal.SIGINT)]"
    with ended(Confined(project, before)):
        assert not is_served_alone(project)


def test_a_variable_without_a_name_ends_nothing(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.plugins.mcp.clients.COMMAND", ["env", "=of=nothing", *COMMAND])
    assert not is_served_alone(warm.folder)


def test_a_start_by_a_person_at_a_terminal_serves_alone(warm: Warm) -> None:
    """A shell that stops it would share its input with the session."""
    near, far = pty.openpty()
    with os.fdopen(near, "wb", 0) as keys:
        server = subprocess.Popen(COMMAND, cwd=warm.folder, stdin=far, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(far)
        keys.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        assert server.stdout is not None
        assert json.loads(server.stdout.readline())["result"] == {}
        assert not warm.sessions()
        keys.write(b"\x04")
        assert server.communicate(timeout=LONG_S)[1] == b""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1"])
def test_a_signal_ends_a_start_as_it_ends_a_server(warm: Warm, name: str) -> None:
    server = Raw(warm.folder)
    opened(server)
    (session,) = warm.sessions()
    os.kill(server.process.pid, signal.Signals[name])
    out, errors = server.process.communicate(timeout=LONG_S)
    assert (server.process.returncode, out, errors) == (-signal.Signals[name], "", "")
    until(lambda: not is_alive(session), "the session goes on")


def test_a_start_says_nothing_where_python_is_strict(warm: Warm) -> None:
    words = [COMMAND[0], "-X", "dev", *COMMAND[1:]]
    found = subprocess.run(
        words, cwd=warm.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=LONG_S
    )
    assert "perpetual/toolkit/resident" not in found.stderr
    assert "perpetual/entry" not in found.stderr


@contextmanager
def proven(warm: Warm) -> Iterator[socket.socket]:
    """A connection over which a start may be asked for."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(LONG_S)
        link.connect(os.path.relpath(warm.socket))
        link.sendall(b"%10d" % link.fileno())
        number, (mine, *_), *_ = socket.recv_fds(link, 10, 1)
        assert os.path.sameopenfile(mine, link.fileno())
        proof = os.open(f"/proc/{warm.pid}/fd/{int(number)}", os.O_PATH)
        null = os.open(os.devnull, os.O_RDWR)
        socket.send_fds(link, [b"%10d" % 100_000], [null, null, null, proof, null])
        for file in (mine, proof, null):
            os.close(file)
        yield link


def test_a_request_that_trickles_in_is_given_up(warm: Warm) -> None:
    with proven(warm) as link:
        until(warm.sessions)
        while not select.select([link], [], [], 0.2)[0]:
            link.sendall(b"x")
        until(lambda: not warm.sessions(), "it is waited for")


def test_garbage_in_a_request_is_declined_in_silence(warm: Warm) -> None:
    for junk in (b"a\0bc", identity(), identity() + b"\0-1", identity() + b"\0" + b"9" * 5000, b"\0" * 50):
        with proven(warm) as link:
            link.sendall(junk.ljust(100_000, b"\0"))
            assert link.recv(1) == b"n"
    assert not is_served_alone(warm.folder)
    assert warm.end() == ""


@pytest.mark.soak
def test_a_lack_of_files_ends_nothing(warm: Warm) -> None:
    assert not is_served_alone(warm.folder)  # it has all that it opens
    until(lambda: not warm.sessions())
    before = resource.prlimit(warm.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(warm.pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{warm.pid}/fd")), before[1]))
    assert is_served_alone(warm.folder)
    resource.prlimit(warm.pid, resource.RLIMIT_NOFILE, before)
    until(lambda: not warm.sessions())
    assert not is_served_alone(warm.folder)


def test_a_flood_of_connections_does_no_lasting_harm(warm: Warm) -> None:
    loaded = warm.pid
    links = []
    for _ in range(300):
        link = socket.socket(socket.AF_UNIX)
        link.setblocking(False)
        with suppress(BlockingIOError):  # more than are taken in at once
            link.connect(os.path.relpath(warm.socket))
        links.append(link)
    with raw(warm.folder) as server:
        opened(server)
    until(lambda: not warm.sessions(), "what was never asked for is waited for")
    for link in links:
        link.close()
    assert not is_served_alone(warm.folder)
    assert warm.pid == loaded


def test_a_session_that_ends_before_it_has_the_streams_leaves_them_to_its_sender(project: Path) -> None:
    with listener(project) as made:
        server = Raw(project)
        link, _ = made.accept()
        proof = os.open(f"/proc/{server.process.pid}/fd/{int(link.recv(10))}", os.O_PATH)
        socket.send_fds(link, [b"%10d" % made.fileno()], [proof])
        size, files, _, _ = socket.recv_fds(link, 10, 5)
        for file in (proof, *files):
            os.close(file)
        left = int(size)
        while left:
            left -= len(link.recv(min(left, 65536)))
        link.sendall(READY)
        select.select([link], [], [], LONG_S)  # that it goes on has come, and is not read
        link.close()
        opened(server)
        assert serves_alone(server)
        server.process.communicate(timeout=LONG_S)
        assert server.process.returncode == 0


def test_processes_that_are_killed_at_any_instant_leave_nothing(warm: Warm) -> None:
    for number in range(12):
        server = Raw(warm.folder)
        until(warm.sessions, "it was not taken")
        for _ in range(number * 3000):  # a little later each time
            pass
        (session,) = warm.sessions() or (0,)
        is_sender = number % 2 == 0
        with suppress(ProcessLookupError):
            os.kill(server.process.pid if is_sender or not session else session, signal.SIGKILL)
        _, errors = server.process.communicate(timeout=LONG_S)
        assert server.process.returncode == (-9 if is_sender else 1) or (server.process.returncode, errors) == (0, "")
        until(lambda: not warm.sessions(), "its session goes on")
    assert not is_served_alone(warm.folder)


@pytest.mark.soak
def test_starts_while_the_resident_is_killed_are_all_answered(warm: Warm) -> None:
    servers = [Raw(warm.folder) for _ in range(6)]
    until(warm.sessions, "none was taken")
    os.kill(warm.pid, signal.SIGKILL)
    for server in servers:
        opened(server)
    for server in servers:
        assert server.process.communicate(timeout=LONG_S)[1] == ""
        assert server.process.returncode == 0


@pytest.mark.soak
def test_a_file_that_changes_while_it_is_loaded_is_loaded_again(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "victim.py").write_text("said = 1\n")
    (site / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'perpetual_mcp.resident' in sys.orig_argv:\n"
        "    import victim\n"
        "    open(os.path.dirname(__file__) + '/starts', 'a').write(f'{victim.said}\\n')\n"
        "    if victim.said == 1:\n"
        "        open(victim.__file__, 'w').write('said = 2\\n')\n"
        "        os.utime(victim.__file__, (1, 1))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with ended(Warm(project)):
        assert (site / "starts").read_text().split() == ["1", "2"]
        assert not is_served_alone(project)


@pytest.mark.parametrize("sort", ["alike", "archive"])
@pytest.mark.soak
def test_a_file_that_is_replaced_is_not_served(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    """One of the same size and time, and one in an archive."""
    site = tmp_path / "site"
    site.mkdir()
    place = site if sort == "alike" else site / "all.zip"

    def write(text: str) -> None:
        if sort == "alike":
            (site / "sitecustomize.py").write_text(text)
            os.utime(site / "sitecustomize.py", (1_700_000_000, 1_700_000_000))
        else:
            with zipfile.ZipFile(place, "w") as archive:
                archive.writestr("sitecustomize.py", text)

    write("said = 1\n")
    monkeypatch.setenv("PYTHONPATH", str(place))
    with ended(Warm(project)):
        assert not is_served_alone(project)
        write("said = 2\n")
        assert is_served_alone(project)


def test_the_end_of_a_moved_projects_resident_leaves_another_one_its_socket(
    warm: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = warm.folder.rename(tmp_path / "moved")
    assert not is_served_alone(moved)
    services = warm.folder / ".perpetual" / "services"
    services.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as other:
        monkeypatch.chdir(services)
        other.bind(SOCKET)
        os.kill(warm.process.pid, signal.SIGKILL)
        until(lambda: not (moved / ".perpetual" / "services" / SOCKET).exists(), "it goes on")
        assert (services / SOCKET).exists()


@pytest.mark.soak
def test_sessions_draw_differently(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import sys\n"
        "def hook(event, words):\n"
        "    if event == 'os.putenv' and words[0] == b'DRAWN':\n"
        "        import json, random, secrets, tempfile, uuid\n"
        "        named = tempfile.mktemp()\n"
        "        drawn = [uuid.uuid4().hex, uuid.uuid1().hex, random.random(), secrets.token_hex(), named]\n"
        "        open(words[1], 'w').write(json.dumps(drawn))\n"
        "if 'perpetual_mcp.resident' in sys.orig_argv:\n"
        "    import random, tempfile, uuid\n"
        "    random.random(), tempfile.mktemp(), uuid.uuid1()\n"
        "    sys.addaudithook(hook)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    drawn = []
    with ended(Warm(project)):
        for number in range(2):
            monkeypatch.setenv("DRAWN", str(tmp_path / str(number)))
            assert not is_served_alone(project)
            drawn.append(json.loads((tmp_path / str(number)).read_text()))
    assert all(one != other for one, other in zip(*drawn, strict=True))


@pytest.mark.soak
def test_what_a_session_starts_has_no_file_of_another_client(warm: Warm) -> None:
    listing = "python -c \"import os; print({*os.listdir('/proc/self/fd')} - {'0', '1', '2', '3'})\""
    said: list[str] = []
    for _ in range(2):
        with raw(warm.folder) as other, raw(warm.folder) as server, Lab.open(warm.folder) as lab:
            opened(other)
            opened(server)
            assert serves_alone(server) is bool(said)
            if not said:
                mine = {os.readlink(f"/proc/{other.process.pid}/fd/{number}") for number in range(3)}
                first, second = warm.sessions()
                held = [{os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir()} for pid in (first, second)]
                assert [not mine & files for files in held].count(True) == 1
            made = lab.experiments.propose(command=listing, metric="x", direction="max")
            lab.experiments.approve(made.id)
            ran = server.ask("tools/call", name="perpetual_run", arguments={"experiment": made.id})
            run = ran["result"]["structuredContent"]["items"][0]["id"]
            lab.wait([run], timeout_s=LONG_S)
            said.append(lab.runs.logs(run)["text"])
        if len(said) == 1:
            warm.end()
    assert said[0] == said[1]


def test_an_agent_neither_starts_nor_ends_the_service(warm: Warm) -> None:
    for deed in ("start", "stop"):
        found = subprocess.run(
            [sys.executable, "-m", "perpetual", "services", deed, "mcp"], cwd=warm.folder, check=False,
            env={**os.environ, "CLAUDECODE": "1"}, capture_output=True, text=True, timeout=LONG_S,
        )  # fmt: skip
        assert found.returncode != 0
        assert "person" in found.stderr
    assert children(warm.process.pid)
    assert not is_served_alone(warm.folder)

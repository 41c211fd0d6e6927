"""A start that a resident process serves: the same server, in the sender's name, and alone where it may not be."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Service
from perpetual.testing.services import ServiceContract
from perpetual.toolkit.resident import READY, SOCKET
from perpetual_mcp.resident import same_surroundings
from perpetual_mcp.warm import build
from tests.plugins.mcp.clients import COMMAND, Raw, initialize, raw
from tests.support import LONG_S, until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="rests on /proc")]


class TestWarmStart(ServiceContract):
    """The service keeps the promises of its slot."""

    @pytest.fixture
    def service(self) -> Service:
        return build({})


class Resident:
    """The service in a process of its own, and what it has started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / ".perpetual" / "services" / SOCKET
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from perpetual import Lab; Lab.open('.').services.run('mcp')"],
            cwd=folder, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.wait()

    def wait(self) -> None:
        """Returns once it listens."""
        until(lambda: self.listens() or self.process.poll() is not None, "it does not listen")
        assert self.process.poll() is None, self.process.stderr.read() if self.process.stderr else ""

    def listens(self) -> bool:
        """Whether it takes a start."""
        with socket.socket(socket.AF_UNIX) as link:
            try:
                link.connect(os.path.relpath(self.socket))  # a path has 107 bytes at most
            except OSError:
                return False
        return True

    @property
    def pid(self) -> int:
        """The process that has the modules."""
        (found,) = children(self.process.pid)
        return found

    def sessions(self) -> list[int]:
        """The processes that serve."""
        return children(self.pid)

    def end(self) -> str:
        """Ends it; returns what it said."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.communicate(timeout=LONG_S)[1]


def children(pid: int) -> list[int]:
    """The processes that a process has started, without those that have ended."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if is_alive(int(child))]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def resident(project: Path) -> Iterator[Resident]:
    """A resident process of the project."""
    made = Resident(project)
    try:
        yield made
    finally:
        made.end()


def opened(server: Raw) -> dict[str, object]:
    """The answer to `initialize`."""
    server.send(initialize("2025-06-18"))
    answer: dict[str, object] = server.receive()["result"]
    server.send({"method": "notifications/initialized"})
    return answer


def serves_alone(server: Raw) -> bool:
    """Whether the client's own process has the server's modules."""
    return "pydantic_core" in Path(f"/proc/{server.process.pid}/maps").read_text()


def test_it_answers_as_a_server_that_starts_alone(resident: Resident) -> None:
    answers = []
    for _ in range(2):
        with raw(resident.folder) as server:
            answers.append((opened(server), server.ask("tools/list"), server.ask("resources/list")))
            assert serves_alone(server) is (len(answers) == 2)
        if len(answers) == 1:
            until(lambda: not resident.sessions(), "the session goes on without its client")
            resident.end()
    assert answers[0] == answers[1]


def test_many_clients_each_have_a_session_of_their_own(resident: Resident) -> None:
    with raw(resident.folder) as one, raw(resident.folder, "--tools", "core") as other:
        opened(one)
        opened(other)
        assert len(resident.sessions()) == 2
        assert len(other.ask("tools/list")["result"]["tools"]) < len(one.ask("tools/list")["result"]["tools"])
        added = one.ask("tools/call", name="perpetual_hypotheses", arguments={"action": "add", "text": "a claim"})
        assert added["result"]["structuredContent"]["hypothesis"]["created_by"] == "mcp:raw/7"
        read = other.ask("tools/call", name="perpetual_hypotheses", arguments={"action": "list"})
        assert len(read["result"]["structuredContent"]["items"]) == 1


def test_a_session_has_the_variables_the_folder_and_the_umask_of_its_sender(
    resident: Resident, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = resident.folder / "below"
    below.mkdir()
    monkeypatch.setenv("OF_THE_SENDER", "yes")
    mask = os.umask(0o027)
    try:
        with raw(below) as server:
            opened(server)
            (session,) = resident.sessions()
            assert os.readlink(f"/proc/{session}/cwd") == str(below)
            assert "\nUmask:\t0027\n" in Path(f"/proc/{session}/status").read_text()
            with Lab.open(resident.folder) as lab:
                made = lab.experiments.propose(command="printenv OF_THE_SENDER", metric="x", direction="max")
                lab.experiments.approve(made.id)
                ran = server.ask("tools/call", name="perpetual_run", arguments={"experiment": made.id})
                run = ran["result"]["structuredContent"]["items"][0]["id"]
                lab.wait([run], timeout_s=LONG_S)
            said = server.ask("tools/call", name="perpetual_logs", arguments={"run": run})
            assert "yes" in said["result"]["content"][0]["text"]
    finally:
        os.umask(mask)


def test_a_sender_that_is_killed_takes_its_session_along(resident: Resident) -> None:
    server = Raw(resident.folder)
    opened(server)
    (session,) = resident.sessions()
    server.process.kill()  # its pipes are open yet
    until(lambda: not is_alive(session), "the session goes on")
    server.process.communicate()


def test_a_session_that_is_killed_ends_its_sender_with_a_word(resident: Resident) -> None:
    server = Raw(resident.folder)
    opened(server)
    (session,) = resident.sessions()
    os.kill(session, signal.SIGKILL)
    out, errors = server.process.communicate(timeout=LONG_S)
    assert (server.process.returncode, out) == (1, "")
    assert errors == "error: the process that served has ended without a status\n"


def test_sessions_outlive_the_resident_and_the_next_start_is_alone(resident: Resident) -> None:
    with raw(resident.folder) as server:
        opened(server)
        os.kill(resident.pid, signal.SIGKILL)
        assert "ended with status -9" in resident.process.communicate(timeout=LONG_S)[1]
        assert resident.socket.exists()  # it could not clear up
        with raw(resident.folder) as later:
            opened(later)
            assert serves_alone(later)
        assert server.ask("ping")["result"] == {}
    again = Resident(resident.folder)  # where the socket of the killed one lies yet
    try:
        with raw(resident.folder) as server:
            opened(server)
            assert not serves_alone(server)
    finally:
        again.end()


def test_the_resident_ends_with_its_service_however_that_ends(resident: Resident) -> None:
    loaded = resident.pid
    resident.process.kill()
    until(lambda: not is_alive(loaded), "the resident process goes on")
    assert not resident.socket.exists()


def test_a_resident_that_does_not_answer_keeps_no_client_waiting(resident: Resident) -> None:
    loaded = resident.pid
    os.kill(loaded, signal.SIGSTOP)
    try:
        with raw(resident.folder) as server:
            opened(server)
            assert serves_alone(server)
            os.kill(loaded, signal.SIGCONT)  # it takes the start that was given up
            until(lambda: not resident.sessions(), "its session waits")
            assert server.ask("ping")["result"] == {}
    finally:
        os.kill(loaded, signal.SIGCONT)


LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))"
CONFINED = "import ctypes; assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0"  # PR_SET_NO_NEW_PRIVS


@pytest.mark.parametrize(
    ("before", "variables"),
    [
        (LIMITED, {}),
        (CONFINED, {}),
        ("import os; os.nice(3)", {}),
        ("", {"LC_ALL": "POSIX"}),
        ("", {"PYTHONHASHSEED": "1"}),
        ("", {"PERPETUAL_DISPATCH": "turn"}),
    ],
    ids=["limits", "sandbox", "nice", "locale", "interpreter", "dispatch"],
)
def test_a_sender_in_other_surroundings_serves_alone(
    resident: Resident, before: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    start = f"import os, sys\n{before}\nos.execv(sys.argv[1], sys.argv[1:])"
    monkeypatch.setattr("tests.plugins.mcp.clients.COMMAND", [sys.executable, "-c", start, *COMMAND])
    with raw(resident.folder) as server:
        opened(server)
        assert serves_alone(server)
        until(lambda: not resident.sessions(), "its session waits")


def test_what_cannot_be_read_of_a_process_is_not_alike() -> None:
    assert same_surroundings(os.getpid())
    assert not same_surroundings(2**22 + 1)  # there is none


@pytest.mark.parametrize("is_known", [True, False], ids=["understood", "of another version"])
def test_a_changed_file_is_loaded_anew(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """Whatever the start that finds it: after an upgrade its request may not be understood."""
    site = tmp_path / "site"
    site.mkdir()
    module = site / "sitecustomize.py"
    module.write_text("said = 1\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    resident = Resident(project)
    try:
        before = resident.pid
        with raw(project) as server:
            opened(server)
            assert not serves_alone(server)
        module.write_text("said = 1234\n")
        if is_known:
            with raw(project) as server:
                opened(server)
                assert serves_alone(server)
        else:
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(os.path.relpath(resident.socket))
                link.sendall(b"another version")
        until(lambda: children(resident.process.pid) not in ([before], []), "no other process was started")
        resident.wait()
        with raw(project) as server:
            opened(server)
            assert not serves_alone(server)
    finally:
        resident.end()


def test_a_process_with_threads_is_not_forked(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import sys, threading\n"
        "if 'perpetual_mcp.resident' in sys.orig_argv:\n"
        "    threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    done = subprocess.run(
        [sys.executable, "-c", "from perpetual import Lab; Lab.open('.').services.run('mcp')"],
        cwd=project, capture_output=True, text=True, timeout=LONG_S, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "keeps 1 threads" in done.stderr
    with raw(project) as server:
        opened(server)


@pytest.mark.parametrize(
    "junk", [b"", b"x", b"         0", b"       100short", b"9999999999", b"        12no\0words at"], ids=repr
)
def test_garbage_on_the_socket_ends_nothing(resident: Resident, junk: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(LONG_S)
        link.connect(os.path.relpath(resident.socket))
        link.sendall(junk)
        with raw(resident.folder) as server:  # while that one waits
            opened(server)
            assert not serves_alone(server)
        link.shutdown(socket.SHUT_WR)
        until(lambda: link.recv(1) != READY, "it was taken for a start")


@contextmanager
def listener(project: Path) -> Iterator[socket.socket]:
    """A socket of the test's own in the place of the resident's."""
    folder = project / ".perpetual" / "services"
    folder.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(folder / SOCKET))
        made.listen()
        yield made


def test_a_listener_of_another_user_is_sent_nothing(project: Path) -> None:
    """The user is that of the moment when it listened."""
    if os.geteuid() != 0:
        pytest.skip("only the superuser can play another user")
    with listener(project) as made:
        os.seteuid(65534)
        try:
            made.listen()
        finally:
            os.seteuid(0)
        with raw(project) as server:
            opened(server)
            assert serves_alone(server)
        link, _ = made.accept()
        with link:
            assert link.recv(10) == b""


def test_a_listener_that_takes_a_start_and_drops_it_is_an_error(project: Path) -> None:
    with listener(project) as made:
        server = Raw(project)
        link, _ = made.accept()
        with link:
            proof = os.open(f"/proc/{server.process.pid}/fd/{int(link.recv(10))}", os.O_PATH)
            socket.send_fds(link, [b"%10d" % made.fileno()], [proof])
            (size, files, _, _) = socket.recv_fds(link, 10, 5)
            for file in (proof, *files):
                os.close(file)
            left = int(size)
            while left:
                left -= len(link.recv(min(left, 65536)))
            link.sendall(READY)
            assert link.recv(1) == b"g"
        out, errors = server.process.communicate(timeout=LONG_S)
        assert (server.process.returncode, out) == (1, "")
        assert "ended without a status" in errors


def test_a_failure_ends_both_with_its_status_and_its_words(resident: Resident) -> None:
    config = resident.folder / ".perpetual" / "config.yaml"
    config.write_text(config.read_text() + "\nno_such_key: 1\n")
    seen = []
    for _ in range(2):
        done = subprocess.run(
            COMMAND, cwd=resident.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG_S,
            check=False,
        )  # fmt: skip
        seen.append((done.returncode, done.stdout, done.stderr))
        resident.end()
    assert seen[0] == seen[1]
    assert seen[0][0] != 0

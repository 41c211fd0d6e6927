"""A daemon is seen, read and ended also where the project's files are garbage, and ends itself where trust is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_daemon.daemon import Daemon, Settings
from tests.support import LONG_S, until

GARBAGE = b"a: [\n\x00"
HOLDS = """
import fcntl, json, os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = open(sys.argv[1] + ".lock", "a")
fcntl.flock(held, fcntl.LOCK_EX)
with open(sys.argv[1] + ".json", "w") as file:
    json.dump({"pid": os.getpid() + int(sys.argv[2]), "started_at": "2030-01-01T00:00:00.000Z", "serves": True}, file)
print("ready", flush=True)
signal.pause()
"""


class Served:
    """A daemon in a thread of this process: as the service of its project, or until `stop` is set."""

    def __init__(self, project: Path, stop: threading.Event | None = None) -> None:
        self.stop = stop
        self.service, self.project = Daemon(Settings(stays=True, interval_s=0.0)), project
        self.failed: Exception | None = None
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        try:
            with Lab.open(self.project) as own:
                if self.stop is None:
                    own.services.run("daemon", self.service)
                else:
                    self.service.run(own, self.stop)
        except Exception as problem:  # noqa: BLE001 - raised again where the test waits for it
            self.failed = problem

    def ended(self) -> Daemon:
        """Returns the daemon once it has ended by itself."""
        self.thread.join(LONG_S)
        assert not self.thread.is_alive()
        if self.failed is not None:
            raise self.failed
        return self.service


def _begun(project: Path, stop: threading.Event | None = None) -> Served:
    found = Served(project, stop)
    found.thread.start()
    log = project / ".perpetual" / "services" / "daemon.jsonl"
    until(log.exists, "it has made no turn")  # which says what it waits for
    return found


@pytest.fixture
def served(project: Path) -> Iterator[Served]:
    """A daemon that is the project's service."""
    found = _begun(project)
    yield found
    (project / ".perpetual" / "services" / "daemon.stop").touch()
    found.thread.join(LONG_S)


@pytest.fixture
def turning(project: Path) -> Iterator[Served]:
    """A daemon that turns the loop, and is no service."""
    stop = threading.Event()
    found = _begun(project, stop)
    yield found
    stop.set()
    found.thread.join(LONG_S)


@pytest.mark.parametrize("name", ["config.yaml", pytest.param("methodology.yaml", marks=pytest.mark.slow)])
def test_a_person_ends_it_and_reads_its_log(
    served: Served, project: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / ".perpetual" / name
    whole = path.read_bytes()
    path.write_bytes(GARBAGE)
    assert run(["daemon", "status", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["schema"], shown["pid"]) == ("perpetual.daemon_status/1", os.getpid())
    assert run(["daemon", "logs", "-n", "1"]) == 0
    seen = capsys.readouterr()
    assert "queue_empty" in seen.out or "again in" in seen.out
    assert name in seen.err  # what is wrong, and which file
    assert run(["daemon", "stop", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "stopped"
    end = served.ended().end
    assert end is not None
    assert end.reason == "stop_requested"
    path.write_bytes(whole)
    with Lab.open(project) as lab:
        assert lab.feed.read()[-1].kind == "loop_stopped"


def test_an_agent_ends_none_where_no_methodology_can_be_read(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".perpetual" / "methodology.yaml").write_bytes(GARBAGE)
    monkeypatch.setenv("CLAUDECODE", "1")
    assert run(["daemon", "stop", "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "not_permitted"


@pytest.mark.parametrize(("other", "code"), [(0, 0), (1, 3)], ids=["its own process", "another's number"])
def test_what_does_not_answer_is_killed_only_if_it_holds_the_lock(
    project: Path, other: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".perpetual" / "config.yaml").write_bytes(GARBAGE)
    folder = project / ".perpetual" / "services"
    folder.mkdir(exist_ok=True)
    words = [sys.executable, "-S", "-c", HOLDS, str(folder / "daemon"), str(other)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            assert run(["daemon", "stop", "--grace", "0.1"]) == code
            assert (process.poll() is None) == bool(code)
        finally:
            process.kill()
    assert ("its process is not known" in capsys.readouterr().err) == bool(code)


def test_it_ends_where_trust_is_taken_back(turning: Served, project: Path) -> None:
    """Nothing of the project, or of its plugins, is run any longer; the log says why, and the way on."""
    assert run(["trust", "revoke"]) == 0
    end = turning.ended().end
    assert end is not None
    assert end.reason == "waiting_for_approval"
    assert "not created or trusted here" in end.explanation
    assert "perpetual trust" in end.explanation
    last = json.loads((project / ".perpetual" / "services" / "daemon.jsonl").read_text("utf-8").splitlines()[-1])
    assert (last["reason"], last["explanation"]) == (end.reason, end.explanation)
    with Lab.open(project) as lab:
        assert "loop_stopped" not in [event.kind for event in lab.feed.read()]  # nothing is written to what is held


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_process_ends_where_trust_is_taken_back(project: Path, is_kept: bool) -> None:
    program = [sys.executable, "-P", "-m", "perpetual"]
    log = project / ".perpetual" / "services" / "daemon.jsonl"
    if is_kept:
        subprocess.run([*program, "daemon", "--detach", "--stay"], check=True, timeout=LONG_S)
        until(log.exists)
        subprocess.run([*program, "trust", "revoke"], check=True, timeout=LONG_S)
        with Lab.open(project) as lab:
            until(lambda: lab.services.status("daemon-keeper")["state"] == "stopped", "the keeper goes on")
            assert lab.services.status("daemon")["state"] == "stopped"
        return
    words = [*program, "daemon", "--stay", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        until(log.exists)
        subprocess.run([*program, "trust", "revoke"], check=True, timeout=LONG_S)
        out, _ = process.communicate(timeout=LONG_S)
    last = json.loads(out.splitlines()[-1])
    assert (process.returncode, last["reason"], last["next"]) == (4, "waiting_for_approval", ["perpetual trust"])


@pytest.mark.slow
def test_a_detached_one_is_ended_though_the_configuration_is_garbage(project: Path) -> None:
    program = [sys.executable, "-P", "-m", "perpetual", "daemon"]
    subprocess.run([*program, "--detach", "--stay"], check=True, timeout=LONG_S)
    (project / ".perpetual" / "config.yaml").write_bytes(GARBAGE)
    done = subprocess.run([*program, "stop", "--json"], capture_output=True, text=True, timeout=LONG_S, check=True)
    shown = json.loads(done.stdout)
    assert (shown["state"], shown["keeper"]) == ("stopped", None)

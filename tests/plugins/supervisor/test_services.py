"""Services of plugins: started, shown, stopped, killed, one process for each project; and their suite, which bites."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from perpetual import Lab
from perpetual.api import Finding, Service, StopSignal
from perpetual.cli.app import run
from perpetual.cli.fastpath import status_text
from perpetual.errors import Conflict, NotFound, NotPermitted, PerpetualError, PluginError
from perpetual.testing.services import ServiceContract
from perpetual.toolkit.lock import FileLock
from perpetual.toolkit.service_state import path_of, state_of
from perpetual_devkit.server_check import ServerCheck
from tests.support import until

if TYPE_CHECKING:
    from perpetual.documents.machine import DoctorCheck
    from perpetual.documents.services import ServiceLine

PLUGIN = """
from perpetual.api import Provider, hookimpl

@hookimpl
def perpetual_services():
    return [Provider(slot="service", name=name, factory=f"acme_service:{name}", summary=f"the {name}")
            for name in ("bell", "deaf", "broken", "short", "sick")]

@hookimpl
def perpetual_event(event):
    import os
    with open(os.environ["ACME_HEARD"], "a") as file:
        file.write(f"{event.kind} {event.subject}\\n")
"""
SERVICES = """
import time
from perpetual.api import Finding, Service

class Bell(Service):
    def run(self, lab, stop):
        print("ringing", flush=True)
        while not stop.wait(0.05):
            pass
        lab.hypotheses.add("it was asked to stop")

class Deaf(Bell):
    def run(self, lab, stop):
        while True:
            time.sleep(1)

class Broken(Bell):
    def run(self, lab, stop):
        raise RuntimeError("no licence")

class Short(Bell):
    def run(self, lab, stop):
        lab.hypotheses.add("nothing to do")

class Sick(Bell):
    def health(self, lab):
        return Finding(False, "out of paper", "add some")

bell, deaf, broken, short, sick = (lambda options, cls=cls: cls() for cls in (Bell, Deaf, Broken, Short, Sick))
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A distribution with services on the import path of this process and of those it starts; what it heard."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "acme_plugin.py").write_text(PLUGIN, "utf-8")
    (site / "acme_service.py").write_text(SERVICES, "utf-8")
    info = site / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[perpetual.plugins]\nacme = acme_plugin\n", "utf-8")
    heard = tmp_path / "heard"
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("ACME_HEARD", str(heard))
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(site))
    yield heard
    for name in ("acme_plugin", "acme_service"):
        sys.modules.pop(name, None)


@pytest.fixture
def lab(project: Path, acme: Path) -> Iterator[Lab]:
    with Lab.open() as opened:
        yield opened
        for item in opened.services.list():
            if item["state"] == "running":
                opened.services.stop(item["name"], grace_s=0.5)


def finding_of(lab: Lab) -> DoctorCheck:
    """Returns what the doctor finds of services."""
    return next(found for found in lab.doctor() if found["check"] == "services")


def test_a_service_is_started_shown_and_stopped(lab: Lab) -> None:
    assert [(item["name"], item["state"]) for item in lab.services.list() if "daemon" not in item["name"]] == [
        (name, "stopped") for name in ("bell", "broken", "deaf", "short", "sick", "agents", "mcp")
    ]
    started = lab.services.start("bell")
    assert (started["state"], started["qualified_name"], started["summary"]) == ("running", "acme/bell", "the bell")
    assert started["pid"] != os.getpid()
    with pytest.raises(Conflict, match="runs already"):
        lab.services.start("bell")
    with pytest.raises(Conflict, match="runs already"):
        lab.services.run("bell")
    status = lab.status()
    assert [(item["name"], item["state"]) for item in status["services"]] == [("bell", "running")]
    assert "service bell: running" in status_text(status)
    until(lambda: lab.services.status("bell")["health"] is not None)
    assert finding_of(lab)["detail"] == "running: bell"
    stopped = lab.services.stop("bell")
    assert (stopped["state"], stopped["pid"], stopped["reason"]) == ("stopped", None, None)
    assert (stopped["ended_at"] or "") >= (stopped["started_at"] or "?")
    assert [item.statement for item in lab.hypotheses.list().items] == ["it was asked to stop"]
    assert Path(lab.services.log("bell")).read_text() == "ringing\n"
    assert lab.services.stop("bell")["state"] == "stopped"  # twice is once
    assert "service bell" not in status_text(lab.status())


@pytest.mark.slow
def test_observers_hear_at_once_while_a_service_runs(lab: Lab, acme: Path) -> None:
    lab.services.start("bell")
    lab.hypotheses.add("heard")
    until(lambda: acme.exists() and "hypothesis_added h1" in acme.read_text())
    lab.services.stop("bell")


@pytest.mark.slow
def test_a_killed_service_is_seen_at_once(lab: Lab) -> None:
    pid = lab.services.start("bell")["pid"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: lab.services.status("bell")["state"] != "running")
    assert lab.services.status("bell")["state"] == "failed"
    finding = finding_of(lab)
    assert (finding["ok"], finding["detail"]) == (
        False, "bell: it ended without saying why (killed, or the machine went down)",
    )  # fmt: skip
    assert lab.services.start("bell")["state"] == "running"
    assert lab.services.stop("bell")["state"] == "stopped"


@pytest.mark.slow
def test_a_service_that_does_not_hear_is_killed(lab: Lab) -> None:
    started = lab.services.start("deaf")
    ended = lab.services.stop("deaf", grace_s=0.2)
    assert (ended["state"], ended["pid"]) == ("failed", None)
    until(lambda: not psutil.pid_exists(started["pid"] or 0))


@pytest.mark.slow
def test_a_forged_process_is_not_killed(lab: Lab) -> None:
    """What a file says of the process is not believed: only the holder of the lock is signalled."""
    lab.services.start("deaf")
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    try:
        path = Path(path_of(str(lab.root / ".perpetual"), "deaf", "json"))
        said = json.loads(path.read_text())
        until(lambda: json.loads(path.read_text())["health"] is not None)
        path.write_text(json.dumps({**said, "pid": bystander.pid}))
        with pytest.raises(PerpetualError, match="its process is not known"):
            lab.services.stop("deaf", grace_s=0.2)
        assert bystander.poll() is None
        path.write_text(json.dumps(said))
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.slow
def test_a_service_that_fails_says_why(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    look = lab.services.status

    def late(name: str) -> ServiceLine:
        """Looks once the service is over: whether it is seen to run for a moment is chance."""
        until(lambda: look(name)["state"] not in ("starting", "running"))
        return look(name)

    monkeypatch.setattr(lab.services, "status", late)
    with pytest.raises(PerpetualError, match="the service broken did not start: RuntimeError: no licence") as caught:
        lab.services.start("broken")
    assert "broken.log" in str(caught.value.hint)
    assert lab.services.status("broken")["state"] == "failed"
    with pytest.raises(PerpetualError, match="did not start: it ended with exit status 0"):
        lab.services.start("short")
    assert lab.services.status("short")["state"] == "stopped"
    assert [item.statement for item in lab.hypotheses.list().items] == ["nothing to do"]


@pytest.mark.slow
def test_health_is_seen_by_the_doctor(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServerCheck, "examine", lambda *_: Finding(None, "not asked"))
    lab.services.start("sick")
    until(lambda: lab.services.status("sick")["health"] is not None)
    assert lab.services.status("sick")["health"] == {"ok": False, "detail": "out of paper", "hint": "add some"}
    (finding,) = [item for item in lab.doctor() if item["check"] == "services"]
    assert (finding["ok"], finding["detail"]) == (False, "sick: out of paper")
    assert "service sick: running: out of paper" in status_text(lab.status())


class Wordy(Service):
    """Says more than the file of its state may hold."""

    seen: Any = None

    def run(self, lab: Lab, stop: StopSignal) -> None:
        until(lambda: lab.services.status("sick")["health"])
        self.seen = lab.services.status("sick")["health"]
        raise RuntimeError("\N{GRINNING FACE}" * 300_000)

    def health(self, lab: Lab) -> Finding:
        return Finding(True, "\N{GRINNING FACE}" * 300_000, "x" * 300_000)


@pytest.mark.slow
def test_one_that_says_too_much_is_still_read(lab: Lab) -> None:
    service = Wordy()
    with pytest.raises(RuntimeError):
        lab.services.run("sick", service)
    assert service.seen["ok"]
    assert 0 < len(service.seen["detail"]) <= 1000
    after = lab.services.status("sick")
    assert (after["state"], (after["reason"] or "")[:15]) == ("failed", "RuntimeError: \N{GRINNING FACE}")


@pytest.mark.slow
def test_agents_neither_start_nor_stop_one(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.services.start("bell")
    monkeypatch.setenv("CLAUDECODE", "1")
    for deed in (lab.services.start, lab.services.stop, lab.services.run):
        with pytest.raises(NotPermitted):
            deed("bell")
    assert lab.services.status("bell")["state"] == "running"
    monkeypatch.delenv("CLAUDECODE")


def test_an_unknown_service_is_refused_by_the_nearest_name(lab: Lab) -> None:
    with pytest.raises(NotFound, match="bel"):
        lab.services.start("bel")


def test_nonsense_in_the_files_is_no_error(tmp_path: Path) -> None:
    folder = tmp_path / "services"
    folder.mkdir()
    for text in ("", "[]", "{", '{"started_at": 5, "health": 3}'):
        (folder / "bell.json").write_text(text)
        assert state_of(str(tmp_path), "bell")["state"] in ("stopped", "failed")
    with FileLock(folder / "bell.lock"):
        assert state_of(str(tmp_path), "bell")["state"] == "starting"


@pytest.mark.slow
def test_the_command_services_starts_lists_and_stops(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(*words: str, code: int = 0) -> Any:
        assert run([*words, "--json"]) == code
        return json.loads(capsys.readouterr().out)

    lab.close()
    assert answer("services", "start", "bell")["state"] == "running"
    assert answer("services", "start", "bell", code=6)["error"]["code"] == "conflict"
    assert {item["name"]: item["state"] for item in answer("services", "list")["items"]}["bell"] == "running"
    assert answer("status")["services"][0]["state"] == "running"
    assert answer("services", "stop", "bell", "--grace", "5")["state"] == "stopped"
    assert answer("services", "stop", "belt", code=5)["error"]["code"] == "not_found"
    assert answer("services", "start", "broken", code=1)["error"]["message"].endswith("no licence")
    assert answer("services", "start", "broken", "--foreground", code=1)["error"]["message"]
    assert run(["services"]) == 0
    assert "no licence" in capsys.readouterr().out


# --- the suite bites ------------------------------------------------------------------------------------------------


class Whole(Service):
    def run(self, lab: Lab, stop: StopSignal) -> None:
        while not stop.wait(0.02):
            lab.events(since=0, limit=1)


class EndsEarly(Whole):
    def run(self, lab: Lab, stop: StopSignal) -> None:
        stop.wait(0.05)


class IgnoresStop(Whole):
    def run(self, lab: Lab, stop: StopSignal) -> None:
        while not (stop.is_set() and getattr(lab, "let_go", False)):
            time.sleep(0.02)


class RunsOnce(Whole):
    ran = False

    def run(self, lab: Lab, stop: StopSignal) -> None:
        if not self.ran:
            self.ran = True
            super().run(lab, stop)


class LeavesAThread(Whole):
    def run(self, lab: Lab, stop: StopSignal) -> None:
        threading.Thread(target=time.sleep, args=(1.5,), daemon=True).start()
        super().run(lab, stop)


class NoFinding(Whole):
    def health(self, lab: Lab) -> Finding:
        return "fine"  # type: ignore[return-value]


class Fragile(Whole):
    def run(self, lab: Lab, stop: StopSignal) -> None:
        before = lab.feed.last()
        while not stop.wait(0.02):
            if lab.feed.last() != before:
                raise RuntimeError("the record has changed")


BROKEN: list[tuple[type[Service], str]] = [
    (EndsEarly, "test_it_serves_until_it_is_asked_to_stop"),
    (IgnoresStop, "test_it_ends_soon"),
    (RunsOnce, "test_it_may_run_again"),
    (LeavesAThread, "test_it_leaves_no_thread_behind"),
    (NoFinding, "test_its_health_is_a_finding_at_any_time"),
    (Fragile, "test_it_copes_with_others_that_write"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("twin", "name"), BROKEN)
def test_a_twin_with_one_broken_promise_fails(project: Path, twin: type[Service], name: str) -> None:
    class Quick(ServiceContract):
        serves_s = 0.2
        ends_s = 1.0

    with Lab.open() as lab:
        test = getattr(Quick(), name)
        test(Whole(), lab)
        with pytest.raises(AssertionError):
            test(twin(), lab)
        lab.let_go = True  # type: ignore[attr-defined]
        time.sleep(0.1)


def test_there_is_a_twin_for_every_promise() -> None:
    promises = {name for name, _ in inspect.getmembers(ServiceContract, inspect.isfunction) if name[:5] == "test_"}
    assert {name for _, name in BROKEN} == promises


def test_services_are_missed_in_words_where_the_plugin_is_left_out(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERPETUAL_WITHOUT", "supervisor")
    with Lab.open() as lab:
        assert lab.status()["hypotheses"] == []
        assert "services" not in [found["check"] for found in lab.doctor()]
        with pytest.raises(PluginError, match="no host of services is in force"):
            _ = lab.services

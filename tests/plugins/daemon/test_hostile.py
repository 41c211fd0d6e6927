"""A daemon among bad neighbours: hostile logs, companions that misbehave, strategies that answer nonsense."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from perpetual import Lab
from perpetual.api import PerpetualError, TransientError
from perpetual.cli.app import run
from perpetual.lab.events import Feed
from perpetual_daemon.beside import Beside
from perpetual_daemon.daemon import ACTOR, Daemon, Settings, log_path
from perpetual_daemon.wakes import QueueLock, Wakes
from tests.support import LONG_S, until

PLUGIN = """
from perpetual.api import Provider, hookimpl

@hookimpl(optionalhook=True)
def perpetual_companions():
    return [Provider("companion", name, f"acme_parts:{name}", "bad", requires=("daemon",)) for name in COMPANIONS]

@hookimpl(optionalhook=True)
def perpetual_loops():
    return [Provider("loop", "odd", "acme_parts:odd", "odd", requires=("daemon",))]
"""
PARTS = """
import os
import time
from dataclasses import replace
from pathlib import Path
from perpetual.api import PerpetualError
from perpetual_daemon.companion import Companion
from perpetual_daemon.strategy import DefaultLoop, LoopStrategy

class interrupted(Companion):
    def __init__(self, options): ...
    def run(self, lab, stop):
        raise KeyboardInterrupt

class wordy(interrupted):
    def run(self, lab, stop):
        stop.wait()
    def trouble(self):
        return "no licence " + "x" * 300000 + chr(10) + "second line"

class unsure(interrupted):
    fails, asked = 3, 0
    def run(self, lab, stop):
        stop.wait()
    def is_at_work(self, lab):
        self.asked += 1
        if self.asked <= self.fails:
            raise LookupError(f"not yet {self.asked}")
        return True

class holding(interrupted):
    def run(self, lab, stop):
        with lab.together():
            Path(lab.root, "held").touch()
            stop.wait()

class odd(LoopStrategy):
    def __init__(self, options): ...
    def turn(self, lab, *, number, waits_on=()):
        mode = os.environ["ACME_TURN"]
        if mode == "raises":
            raise LookupError("gone")
        if mode == "long":
            with lab.together():
                Path(lab.root, "held").touch()
                while not Path(lab.root, "go").exists():
                    time.sleep(0.05)
                lab.hypotheses.add("the transaction was finished")
        if mode.startswith("not yet"):
            self.calls = getattr(odd, "calls", 0) + 1
            odd.calls = self.calls
            if self.calls <= int(mode.split()[2]):
                raise PerpetualError("no space left", code=mode.split()[3])
        done = DefaultLoop().turn(lab, number=number, waits_on=("queue_empty",))
        if mode == "reason":
            return replace(done, reason="because", explanation="so")
        if mode == "time":
            return replace(done, reason=None, paused="rest", resumes_at="tomorrow")
        if mode == "disables":
            lab.settings.set_config("plugins.disabled", '["daemon"]')
            return replace(done, reason=None)
        if mode in ("idle", "long"):
            return done
        if mode == "past":
            return replace(done, reason=None, paused="rest", resumes_at="2001-01-01T00:00:00.000Z")
        return None
"""
Bringer = Callable[..., None]


class Hasty(threading.Event):
    """A stop on which no wait takes time."""

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(min(timeout or 0.0, 0.0005))


@pytest.fixture
def bring(install: Callable[..., None]) -> Bringer:
    """Installs a plugin with these companions, and the strategy `odd`."""

    def put(*companions: str) -> None:
        install("acme-parts", "acme_parts", PARTS + f"COMPANIONS = {companions!r}\n" + PLUGIN)

    return put


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as opened:
        yield opened


HOSTILE = {
    "escapes": '{"time": 1.0, "reason": "\\u001b[31mred\\u001b]0;title\\u0007", "explanation": "x"}',
    "escapes in a number": '{"time": 1.0, "error": "x", "retry_s": "\\u001b[2J"}',
    "a time of no calendar": '{"time": 1e300, "error": "x"}',
    "no number": '{"time": NaN, "error": "x"}',
    "deep": "[" * 200_000,
    "lists of anything": '{"time": 1.0, "turn": {"cycle": 1, "done": [[1], {"a": 1}], "reason": "\\ud800"}}',
}


@pytest.mark.parametrize("line", HOSTILE.values(), ids=[*HOSTILE])
def test_a_hostile_log_is_shown_harmlessly(lab: Lab, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(log_path(lab))
    path.parent.mkdir(exist_ok=True)
    path.write_text(line + '\n{"time": 2.0, "error": "the next line", "retry_s": 1.0}\n', "utf-8")
    for words in (["daemon", "logs"], ["daemon", "status"]):
        assert run(words) == 0
        shown = capsys.readouterr().out
        assert "the next line" in shown
        assert not {"\x1b", "\x07"} & {*shown}


def test_a_line_of_the_log_does_not_choose_its_schema(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(log_path(lab))
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"schema": "evil/9", "time": 1.0, "cycle": 1}\n', "utf-8")
    assert run(["daemon", "logs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "perpetual.daemon_log/1"


def test_of_a_huge_log_the_end_is_read(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(log_path(lab))
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.truncate(path, 1 << 34)  # sparse
    with path.open("ab") as file:
        file.write(b'\n{"time": 2.0, "error": "the end", "retry_s": 1.0}\n')
    assert run(["daemon", "logs"]) == 0
    assert "the end" in capsys.readouterr().out


def test_what_companions_say_is_one_short_line(lab: Lab, bring: Bringer) -> None:
    bring("interrupted", "wordy")
    with Lab.open(lab.root) as fresh:
        beside = Beside(fresh, lambda actor: Lab.open(lab.root, actor=actor))
        try:
            until(lambda: len(beside.troubles()) == 2, f"{beside.troubles()}")
            found = beside.troubles()
        finally:
            beside.close()
    assert "KeyboardInterrupt" in found["acme-parts/interrupted"]
    assert found["acme-parts/wordy"].startswith("no licence")
    assert all(len(said) <= 300 and "\n" not in said for said in found.values())


def test_a_companion_that_cannot_say_is_asked_again(lab: Lab, bring: Bringer) -> None:
    """After a while that doubles; once it answers, its trouble is over."""
    bring("unsure")
    now = 0.0
    with Lab.open(lab.root) as fresh:
        beside = Beside(fresh, lambda actor: Lab.open(lab.root, actor=actor), clock=lambda: now)
        try:
            for number, wait_s in ((1, 2.0), (2, 4.0), (3, 8.0)):
                assert not beside.is_at_work(fresh)
                now += wait_s - 0.5
                assert not beside.is_at_work(fresh)  # it is not asked again yet
                assert beside.troubles() == {"acme-parts/unsure": f"is_at_work: LookupError: not yet {number}"}
                now += 0.5
            assert beside.is_at_work(fresh)
            assert beside.troubles() == {}
        finally:
            beside.close()


def test_a_companion_that_never_can_say_is_asked_each_five_minutes(lab: Lab, bring: Bringer) -> None:
    bring("unsure")
    now = 0.0
    with Lab.open(lab.root) as fresh:
        beside = Beside(fresh, lambda actor: Lab.open(lab.root, actor=actor), clock=lambda: now)
        try:
            (part,) = [part for _, part in fresh.parts("companion") if type(part).__name__ == "unsure"]
            part.fails = 1 << 30
            for _ in range(2 * 3600):
                beside.is_at_work(fresh)
                now += 1.0
            assert 24 <= part.asked <= 24 + 9
        finally:
            beside.close()


@pytest.mark.slow
def test_a_companion_that_holds_the_record_does_not_hold_up_the_stop(project: Path, bring: Bringer) -> None:
    bring("holding")
    stop, service = threading.Event(), Daemon(Settings(stays=True))

    def serve() -> None:
        with Lab.open(project) as own:
            service.run(own, stop)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    until((project / "held").exists)
    stop.set()
    thread.join(20.0)  # less than the 30 s that a turn would wait for the record
    assert not thread.is_alive()
    assert service.end is not None
    assert service.end.reason == "stop_requested"


@pytest.mark.slow
def test_term_lets_a_long_transaction_finish(lab: Lab, bring: Bringer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the daemon has a keeper, which is what gets the signal."""
    bring()
    monkeypatch.setenv("ACME_TURN", "long")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path.endswith("site")))
    lab.settings.set_config("slots.loop", "odd")
    assert run(["daemon", "--detach", "--stay"]) == 0
    until((lab.root / "held").exists)
    daemon, keeper = (lab.services.status(name)["pid"] for name in ("daemon", "daemon-keeper"))
    assert isinstance(daemon, int)
    assert isinstance(keeper, int)
    os.kill(keeper, signal.SIGTERM)
    with pytest.raises(psutil.TimeoutExpired):
        psutil.Process(daemon).wait(12.0)  # it is given the time, more than any limit that the keeper had
    (lab.root / "go").touch()
    until(lambda: lab.services.status("daemon-keeper")["state"] == "stopped")
    assert lab.services.status("daemon")["state"] == "stopped"
    assert [item.statement for item in lab.hypotheses.list().items] == ["the transaction was finished"]
    assert lab.feed.read()[-1].payload["reason"] == "stop_requested"


@pytest.mark.slow
def test_stop_has_one_limit_for_the_keeper_and_the_daemon(
    lab: Lab, bring: Bringer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring()
    monkeypatch.setenv("ACME_TURN", "long")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path.endswith("site")))
    lab.settings.set_config("slots.loop", "odd")
    assert run(["daemon", "--detach", "--stay"]) == 0
    until((lab.root / "held").exists)
    began = time.monotonic()
    assert run(["daemon", "stop", "--grace", "3"]) == 0
    assert 3.0 <= time.monotonic() - began < 6.0
    assert {lab.services.status(name)["pid"] for name in ("daemon", "daemon-keeper")} == {None}
    assert lab.storage.verify() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("raises", "failed: LookupError: gone"),
        ("none", "answered NoneType"),
        ("reason", "answered the reason 'because'"),
        ("time", "answered resumes_at 'tomorrow'"),
    ],
)
def test_a_strategy_that_fails_is_named(
    lab: Lab, bring: Bringer, monkeypatch: pytest.MonkeyPatch, mode: str, said: str
) -> None:
    bring()
    monkeypatch.setenv("ACME_TURN", mode)
    lab.settings.set_config("slots.loop", "odd")
    with Lab.open(lab.root) as fresh, pytest.raises(PerpetualError, match=said) as caught:
        Daemon(Settings(stays=True)).run(fresh, threading.Event())
    assert "the loop strategy odd" in caught.value.message
    last = json.loads(Path(log_path(lab)).read_text("utf-8").splitlines()[-1])
    assert last["reason"] == "failed"
    assert caught.value.message in last["explanation"]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "interval_s"), [("past", 60.0), ("idle", 0.0)])
def test_nothing_makes_it_spin(
    lab: Lab, bring: Bringer, monkeypatch: pytest.MonkeyPatch, mode: str, interval_s: float
) -> None:
    bring()
    monkeypatch.setenv("ACME_TURN", mode)
    lab.settings.set_config("slots.loop", "odd")
    with Lab.open(lab.root) as fresh:
        Daemon(Settings(stays=True, max_cycles=2, interval_s=interval_s)).run(fresh, threading.Event())
    first, second = (json.loads(line)["time"] for line in Path(log_path(lab)).read_text("utf-8").splitlines()[:2])
    assert second - first >= 0.4
    assert second - first < LONG_S


@pytest.mark.slow
def test_it_ends_where_its_plugin_is_disabled(lab: Lab, bring: Bringer, monkeypatch: pytest.MonkeyPatch) -> None:
    bring()
    monkeypatch.setattr(Wakes, "sleep", lambda *_: None)
    monkeypatch.setenv("ACME_TURN", "disables")
    lab.settings.set_config("slots.loop", "odd")
    service = Daemon(Settings(stays=True))
    with Lab.open(lab.root) as fresh:
        service.run(fresh, threading.Event())
    assert service.end is not None
    assert (service.end.reason, service.end.cycles) == ("stop_requested", 1)
    assert "disabled" in service.end.explanation


@pytest.mark.parametrize("failures", [2, pytest.param(1100, marks=pytest.mark.slow)])
def test_a_disk_that_is_full_for_a_night_ends_nothing(
    lab: Lab, bring: Bringer, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    bring()
    monkeypatch.setattr(Wakes, "sleep", lambda *_: None)
    monkeypatch.setenv("ACME_TURN", f"not yet {failures} not_written")
    lab.settings.set_config("slots.loop", "odd")
    service = Daemon(Settings(max_cycles=1))
    with Lab.open(lab.root) as fresh, pytest.raises(PerpetualError, match="NoneType"):
        service.run(fresh, Hasty())
    lines = [json.loads(line) for line in Path(log_path(lab)).read_text("utf-8").splitlines()]
    assert [line["failures"] for line in lines[:-1]] == [*range(1, failures + 1)]
    assert all(0.0 < line["retry_s"] <= 60.0 for line in lines[:-1])


def test_an_agent_is_refused_before_anything_is_said(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    assert run(["daemon"]) == 4
    assert "turns the loop" not in capsys.readouterr().err


@pytest.mark.slow
def test_what_comes_while_its_lab_is_opened_anew_wakes_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    wait, is_due = Feed.wait, threading.Event()

    def moved(feed: Feed, since: int, *, timeout_s: float) -> None:
        if threading.current_thread().name == "daemon-_hear_record" and is_due.is_set():
            is_due.clear()
            lab.hypotheses.add("another process adds it")
            raise TransientError("the store was moved")
        wait(feed, since, timeout_s=min(timeout_s, 0.1))

    monkeypatch.setattr(Feed, "wait", moved)
    wakes = Wakes(lambda: Lab.open(lab.root, actor=ACTOR), QueueLock(lab.root / ".perpetual"), actor=ACTOR)
    try:
        wakes.sleep(0.0, lab.feed.last())
        is_due.set()
        began = time.monotonic()
        wakes.sleep(LONG_S, lab.feed.last())
        assert time.monotonic() - began < LONG_S / 2
        assert not is_due.is_set()
    finally:
        wakes.close()

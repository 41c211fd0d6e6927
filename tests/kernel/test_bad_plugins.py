"""Plugins of other distributions that raise, exit, hang, print or start threads: each fails alone, in time, by name."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from perpetual import Lab
from perpetual.catalogue import PluginInfo
from perpetual.cli.app import run
from perpetual.errors import PerpetualError, PluginError
from perpetual.registry import Registry
from perpetual.toolkit import contained, plugin_failures
from perpetual.toolkit.cache_files import commands
from perpetual.toolkit.deadline import OutOfTime
from perpetual.toolkit.helper_process import HelperEnded, HelperHung, HelperProcess
from perpetual.toolkit.plugin_failures import PluginFailures
from tests.support import finding

Install = Callable[..., None]

OFFERS = """
from perpetual.api import Provider, hookimpl

@hookimpl
def perpetual_{hook}():
    return [Provider("{slot}", "{name}", "{module}:build", "for tests")]
"""
GATE = (
    OFFERS.format(hook="gates", slot="gate", name="pii", module="acme_gate")
    + """
import os, time
from perpetual.api import Gate, GateVerdict

class Pii(Gate):
    def scan(self, text, provenance):
        print("scanning")
        if "hang" in text:
            time.sleep(600)
        if "exit" in text:
            raise SystemExit(3)
        if "die" in text:
            os._exit(3)
        if "None" in text:
            return None
        return GateVerdict("quarantine" if "odd" in text else "pass")

def build(options):
    if os.environ.get("ACME_BREAKS"):
        raise RuntimeError("no licence")
    return Pii()
"""
)
OBSERVER = """
import os, time
from perpetual.api import hookimpl

@hookimpl
def perpetual_event(event):
    mood = open(os.environ["ACME_MOOD"]).read()
    if mood == "hang":
        time.sleep(600)
    if mood == "exit":
        raise SystemExit("bye")
    with open(os.environ["ACME_EVENTS"], "a") as file:
        file.write(f"{event.seq}\\n")
"""


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cold cache, and no failure known."""
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures are counted however close together they are."""
    monkeypatch.setattr(plugin_failures, "RETRY_S", 0.0)


@pytest.fixture
def no_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PluginFailures, "__init__", _in(tmp_path / "failures"))


def _in(folder: Path) -> Callable[[PluginFailures, str], None]:
    def init(self: PluginFailures, scope: str) -> None:
        self._scope = scope
        self.path = str(folder / f"{scope.partition(' ')[0]}.json")

    return init


@pytest.fixture
def helper() -> Iterator[HelperProcess]:
    with Registry.helper() as made:
        yield made


def found(name: str, **how: float) -> PluginInfo:
    return Registry(**how).named(name)  # type: ignore[arg-type]


# --- discovery ------------------------------------------------------------------------------------------------------


BAD = {
    "raises": ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
    "exits": ("import sys; sys.exit('bye')", "SystemExit: bye"),
    "dies": ("import os; os._exit(3)", "it ended its process (status 3), while it was imported"),
    "hangs": ("import time; time.sleep(600)", "no answer in 0.4 s, while it was imported"),
    "waits": (
        "from perpetual.api import hookimpl\n@hookimpl\ndef perpetual_gates():\n    __import__('time').sleep(600)",
        "no answer in 0.4 s, in a hook",
    ),
}
LOUD = "import threading, time\nprint('{}')\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"


@pytest.mark.slow
def test_bad_plugins_are_named_and_the_others_are_found(install: Install, no_failures: None) -> None:
    for name, (source, _) in BAD.items():
        install(name, f"acme_{name}", source)  # a hyphen ends the name by which metadata is found
    good = OFFERS.format(hook="scorers", slot="scorer", name="coin", module="m")
    install("zeta-good", "acme_good", LOUD + good, name="good")
    registry = Registry(discovery_s=0.4)
    began = time.monotonic()
    found = {info.name: info for info in registry.plugins}
    assert time.monotonic() - began < 10
    for name, (_, reason) in BAD.items():
        assert found[name].state == "failed"
        assert str(found[name].reason).startswith(reason)
        assert f"acme_{name}" not in sys.modules
    assert found["good"].state == "loaded"
    assert "acme_good" not in sys.modules
    assert commands() is not None  # the catalogue is kept although some have failed
    assert {info.name: info.reason for info in Registry().plugins} == {name: one.reason for name, one in found.items()}


def test_a_plugin_is_left_out_after_three_failures_until_retry(
    install: Install, no_failures: None, at_once: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mood = tmp_path / "mood"
    tries = tmp_path / "tries"
    source = (
        f"import os\nopen({str(tries)!r}, 'a').write('x')\n"
        f"if not os.path.exists({str(mood)!r}):\n    raise ValueError('bad mood')"
    )
    install("acme-bad", "acme_bad", source, name="bad")
    reasons = [str(found("bad").reason) for _ in range(5)]
    assert reasons[:2] == ["ValueError: bad mood"] * 2
    assert reasons[2].startswith("left out after 3 failures: ValueError: bad mood (last at 20")
    assert reasons[4] == reasons[2]
    assert tries.read_text() == "xxx"
    assert run(["plugins", "list"]) == 0
    assert "left out after 3 failures" in capsys.readouterr().out
    assert run(["plugins", "retry", "bad"]) == 1
    mood.touch()
    assert run(["plugins", "retry", "acme-bad/bad"]) == 0
    assert found("bad").state == "loaded"


def test_failures_right_after_one_another_count_once(install: Install, no_failures: None, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    install("acme-bad", "acme_bad", f"open({str(tries)!r}, 'a').write('x')\nraise ValueError('no')", name="bad")
    for _ in range(5):
        assert found("bad").reason == "ValueError: no"
    assert tries.read_text() == "x"


def test_a_changed_plugin_is_tried_at_once(install: Install, no_failures: None, tmp_path: Path) -> None:
    install("acme-bad", "acme_bad", "raise ValueError('no')", name="bad")
    assert found("bad").state == "failed"
    (tmp_path / "site" / "acme_bad.py").write_text("# mended\n")
    assert found("bad").state == "loaded"


def test_failures_survive_a_broken_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
    failures = PluginFailures("here")
    assert failures.add("a/b", "no\nlicence \ud800").count == 1
    assert failures.read()["a/b"].reason == "no licence \\ud800"
    for text in ("", "{", "[]", '{"scope": "here"}', '{"scope": "here", "failures": {"a": 1}}'):
        Path(failures.path).write_text(text)
        assert failures.read() == {}
    assert failures.add("a/b", "again").count == 1
    assert failures.clear("a/b")
    assert not failures.clear("a/b")


@pytest.mark.slow
def test_times_of_plugins_are_measured(install: Install, no_failures: None, capsys: pytest.CaptureFixture[str]) -> None:
    install("acme-heavy", "acme_heavy", "import time; time.sleep(0.2)", name="heavy")
    assert found("heavy").state == "loaded"
    assert Registry().timing()["acme-heavy/heavy"]["import"] >= 0.2
    assert run(["plugins", "list", "--timing"]) == 0
    assert "import ms" in capsys.readouterr().out


def test_a_command_that_raises_is_named(
    install: Install, no_failures: None, capsys: pytest.CaptureFixture[str]
) -> None:
    command = OFFERS.format(hook="commands", slot="command", name="shout", module="acme_shout")
    install("acme-shout", "acme_shout", command + "import click\n@click.command()\ndef build():\n    1 / 0\n")
    assert run(["shout"]) == 1
    assert "the command acme-shout/shout failed: ZeroDivisionError" in capsys.readouterr().err


def test_a_part_of_another_distribution_is_interrupted() -> None:
    with pytest.raises(OutOfTime, match=r"stopped after 0\.1 s"):
        contained.limited("acme/slow", lambda: time.sleep(600), limit_s=0.1)
    with pytest.raises(contained.PartEnded):
        contained.limited("acme/leaves", sys.exit)


# --- left out by name -----------------------------------------------------------------------------------------------


def test_the_option_without_takes_bare_and_full_names(
    install: Install, no_failures: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install("acme-bad", "acme_bad", "raise ValueError('no')", name="bad")
    assert run(["--without", "bad", "--without", "perpetual-lab/report", "plugins", "list"]) == 0
    assert capsys.readouterr().out.count("left out by --without") == 2
    assert "PERPETUAL_WITHOUT" not in os.environ
    monkeypatch.setenv("PERPETUAL_WITHOUT", "bad, report")
    assert [info.name for info in Registry().plugins if info.state == "disabled"] == ["report", "bad"]


def test_the_option_without_names_an_unknown_plugin(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--without", "imune", "status"]) == 2
    assert "unknown plugin 'imune': did you mean immune?" in capsys.readouterr().err


def test_no_note_is_written_without_a_required_gate(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["--without", "immune", "memory", "write", "notes/a.md", "text"]) != 0
    monkeypatch.setenv("PERPETUAL_WITHOUT", "perpetual-lab/immune")
    with Lab.open() as lab, pytest.raises(PluginError, match="is required and is not active"):
        lab.memory.write("notes/a.md", "text")


# --- gates ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_gate_is_asked_in_a_helper_process(
    install: Install, no_failures: None, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    install("acme-gate", "acme_gate", GATE, name="gate")
    with Lab.open() as lab:
        lab.settings.set_config("plugin_gate_s", "1.0")
        assert lab.memory.write("notes/a.md", "good")["status"] == "candidate"
        assert lab.memory.write("notes/b.md", "odd")["status"] == "quarantined"
        assert "acme_gate" not in sys.modules
        for text in ("hang", "exit", "die", "None"):
            with pytest.raises(PerpetualError, match="gate_failed"):
                lab.memory.write(f"notes/{text}.md", text)
        assert lab.memory.write("notes/c.md", "good again")["status"] == "candidate"
    assert "scanning" not in capfd.readouterr().out


@pytest.mark.slow
def test_a_gate_that_cannot_be_built_is_left_out_unless_it_is_required(
    install: Install, no_failures: None, at_once: None, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme-gate", "acme_gate", GATE, name="gate")
    monkeypatch.setenv("ACME_BREAKS", "1")
    for _ in range(3):
        with Lab.open() as lab, pytest.raises(PerpetualError, match="acme-gate/pii"):
            lab.memory.write("notes/a.md", "text")
    with Lab.open() as lab:
        assert lab.memory.write("notes/a.md", "text")["status"] == "candidate"
        (item,) = [one for one in lab.inventory().plugins() if one["name"] == "gate"]
        assert item["state"] == "failed"
        assert str(item["reason"]).startswith(
            "left out after 3 failures: gate pii: gate: acme-gate/pii cannot be built"
        )
        assert "left out" in str(finding(lab, "plugins"))
        lab.settings.set_methodology("required_gates", "immune,acme-gate/pii")
    with Lab.open() as lab, pytest.raises(PerpetualError, match="acme-gate/pii"):
        lab.memory.write("notes/b.md", "text")
    monkeypatch.delenv("ACME_BREAKS")
    with Lab.open() as lab:
        assert lab.inventory().retry("gate")["state"] == "active"
        assert lab.memory.write("notes/b.md", "text")["status"] == "candidate"


# --- observers ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_observer_that_hangs_is_ended_and_hears_the_event_again(
    install: Install, no_failures: None, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme-ear", "acme_ear", OBSERVER, name="ear")
    mood, events = tmp_path / "mood", tmp_path / "events"
    monkeypatch.setenv("ACME_MOOD", str(mood))
    monkeypatch.setenv("ACME_EVENTS", str(events))
    with Lab.open() as lab:
        lab.settings.set_config("plugin_observer_s", "1.0")
        for word, reason in (("hang", "no answer in 1 s"), ("exit", "SystemExit: bye")):
            mood.write_text(word)
            assert lab.feed.deliver() == {"acme-ear/ear": reason if word == "hang" else f"PartEnded: {reason}"}
        mood.write_text("hear")
        assert lab.feed.deliver() == {}
        assert "acme_ear" not in sys.modules
        assert events.read_text().split() == [str(event.seq) for event in lab.events()]


def test_an_observer_is_left_out_after_three_failures(
    install: Install, no_failures: None, at_once: None, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme-ear", "acme_ear", OBSERVER, name="ear")
    mood, events = tmp_path / "mood", tmp_path / "events"
    monkeypatch.setenv("ACME_MOOD", str(mood))
    monkeypatch.setenv("ACME_EVENTS", str(events))
    mood.write_text("exit")
    with Lab.open() as lab:
        for _ in range(3):
            assert "bye" in str(lab.feed.deliver())
        mood.write_text("hear")
        assert "left out after 3 failures: observer:" in str(lab.feed.deliver())
        assert not events.exists()
        (item,) = [one for one in lab.inventory().plugins() if one["name"] == "ear"]
        assert item["state"] == "failed"
        lab.inventory().retry("ear")
        assert lab.feed.deliver() == {}
        assert events.read_text().split() == [str(event.seq) for event in lab.events()]


# --- the helper process ---------------------------------------------------------------------------------------------


def test_a_helper_answers_dies_and_is_started_again(helper: HelperProcess) -> None:
    others = {*psutil.Process().children()}  # of tests before this one
    assert "KeyError" in str(helper.ask("nothing", 10.0)["error"])
    (first,) = {*psutil.Process().children()} - others
    first.kill()
    first.wait()
    assert "error" in helper.ask("nothing", 10.0)
    (second,) = {*psutil.Process().children()} - others
    assert second.pid != first.pid
    with pytest.raises(HelperHung):
        helper.ask("build", 0.2, factory="time:sleep", options=600)
    with pytest.raises(HelperEnded):
        helper.ask("build", 10.0, factory="os:_exit", options=3)
    assert "error" in helper.ask("nothing", 10.0)


@pytest.mark.slow
def test_a_helper_leaves_with_the_process_that_started_it() -> None:
    code = (
        "import os\nfrom perpetual.registry import Registry\nhelper = Registry.helper()\n"
        "helper.ask('nothing', 10.0)\nprint(helper._process.pid, flush=True)\nos._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    for _ in range(100):
        try:
            os.kill(int(done.stdout), 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the helper is still there")

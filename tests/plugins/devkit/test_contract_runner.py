"""`perpetual plugins check` with the contract suites: what holds, what is broken, and what cannot be told."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from perpetual.cli.app import run
from perpetual.slots.table import SLOTS
from perpetual_devkit.commands import suite_text
from perpetual_devkit.contract_runner import SuiteResult, end_left, has_suite, run_suite
from perpetual_devkit.provider_checks import ProviderChecked

GOOD = """
class Words(Analyser):
    def analyse(self, run, experiment, hypothesis):
        return Analysis(f"{run.id} ended", "it ended")
"""
TWO_LINES = GOOD.replace(" ended", "\\n ended")
MODULE = "from perpetual.api import Analyser, Analysis\n{0}\n\ndef build(options) -> Analyser:\n    return Words()\n"

Suite = Callable[[str], SuiteResult]


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Runs the analysers' suite against a module of this source."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def try_it(source: str) -> SuiteResult:
        (tmp_path / "under_test.py").write_text(MODULE.format(source), "utf-8")
        return run_suite(SLOTS["analyser"], "acme/words", "under_test:build", {})

    return try_it


def test_a_provider_that_keeps_its_promises(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    result = suite(GOOD)
    assert (result.ok, result.suite, result.reason) == (True, "perpetual.testing.analysis.AnalyserContract", None)
    assert len(result.promises) > 4
    assert {(promise.ok, promise.detail) for promise in result.promises} == {(True, "")}
    assert "a summary is one line" in {promise.promise for promise in result.promises}


def test_a_broken_promise_is_named_and_the_others_are_tried(suite: Suite) -> None:
    result = suite(TWO_LINES)
    assert result.ok is False
    broken = {promise.promise: promise.detail for promise in result.promises if promise.ok is False}
    assert "one printable line" in broken["a summary is one line"]
    assert len(broken) < len(result.promises)


def test_a_provider_that_cannot_be_built_is_a_finding(suite: Suite) -> None:
    result = suite("1 / 0")
    assert result.ok is False
    assert all("division by zero" in promise.detail for promise in result.promises)
    assert result.promises


def test_a_provider_that_ends_the_process_is_a_finding(suite: Suite) -> None:
    result = suite("import os\nos._exit(0)")
    assert (result.ok, result.promises) == (False, ())
    assert "did not run to its end" in str(result.reason)


def test_no_verdict_is_given_without_a_suite_or_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_suite(SLOTS["command"])
    without = SuiteResult(None, None, "there is no contract suite for a command")
    assert run_suite(SLOTS["command"], "a/b", "x:y", {}) == without
    find = importlib.util.find_spec

    def without_pytest(name: str, package: str | None = None) -> Any:
        return None if name == "pytest" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_pytest)
    result = run_suite(SLOTS["analyser"], "a/b", "x:y", {})
    assert (result.ok, result.promises) == (None, ())
    assert "pytest is not installed" in str(result.reason)


@pytest.mark.slow
def test_the_command_shows_each_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "check", "harnesses", "--json"]) == 0
    items = [item for item in json.loads(capsys.readouterr().out)["items"] if item["suite"]]
    assert {item["slot"] for item in items} == {"dispatcher", "harness", "scaffolder", "thinker"}
    assert all(one["ok"] for item in items for one in item["promises"])
    assert all(len(item["promises"]) > 4 for item in items)
    assert run(["plugins", "check", "harnesses"]) == 0
    shown = capsys.readouterr().out
    assert "harness mcp, by perpetual.testing.harnesses.HarnessContract:" in shown
    assert "  holds    applying twice changes nothing\n" in shown


@pytest.mark.slow
def test_gpu_backends_are_held_to_their_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "check", "nvml", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert {(item["name"], item["suite"]) for item in items} == {
        ("nvml", "perpetual.testing.gpus.GpuContract"),
        ("none", "perpetual.testing.gpus.GpuContract"),
    }
    assert all(len(item["promises"]) > 10 for item in items)
    assert {one["verdict"] for item in items for one in item["promises"]} == {"holds", "vacuous"}


def test_a_gpu_backend_that_breaks_a_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "silent.py").write_text(
        "from perpetual.api import GpuBackend, GpuReading\n"
        "class Silent(GpuBackend):\n"
        "    def read(self, deadline_s=5.0): return GpuReading(None, (), None)\n"
        "def build(options): return Silent()\n"
    )
    result = run_suite(SLOTS["gpus"], "acme/silent", "silent:build", {})
    assert result.ok is False
    broken = {promise.promise: promise.detail for promise in result.promises if promise.ok is False}
    assert [*broken] == ["a reason stands where no devices are"]
    assert "0 devices, None" in broken["a reason stands where no devices are"]


@pytest.mark.slow
def test_the_local_scheduler_is_held_to_its_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "check", "local", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["suite"] == "perpetual.testing.schedulers.SchedulerContract"
    assert {one["ok"] for one in item["promises"]} == {True}
    assert "a run outlives its launcher" in {one["promise"] for one in item["promises"]}


@pytest.mark.slow
def test_a_scheduler_that_breaks_a_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite's other processes find the scheduler by its factory, too."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "forgetful.py").write_text(
        "from perpetual_local.scheduler import LocalScheduler\n"
        "class Forgetful(LocalScheduler):\n"
        "    def poll(self, native_id, log_dir): return super().poll(native_id or 1 / 0, log_dir)\n"
        "    def logs(self, log_dir, *, stderr=False): return log_dir / 'stdout.log'\n"
        "def build(options): return Forgetful(max_log_bytes=options['cap'])\n"
    )
    result = run_suite(SLOTS["scheduler"], "acme/forgetful", "forgetful:build", {"cap": 10_000_000})
    assert result.ok is False
    broken = {promise.promise: promise.detail for promise in result.promises if not promise.ok}
    assert {"the folder alone is enough", "what was never started is absent"} <= set(broken)
    assert "b'an error\\n'" in broken["output is kept as it is"], "the values are not told"
    assert "a run outlives its launcher" not in broken
    assert len(result.promises) >= 48


@pytest.mark.slow
def test_the_git_memory_is_held_to_its_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "check", "git", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    (item,) = [one for one in items if one["slot"] == "memory"]
    assert item["suite"] == "perpetual.testing.memories.MemoryContract"
    assert {one["ok"] for one in item["promises"]} == {True}
    assert "a commit is killed at any step" in {one["promise"] for one in item["promises"]}


@pytest.mark.slow
def test_a_memory_that_breaks_a_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite runs with its other processes, which find the memory by its factory as well."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "tidy.py").write_text(
        "from perpetual.testing.memory_notes import FolderMemory\n"
        "class Tidy(FolderMemory):\n"
        "    def read(self, path, commit=None):\n"
        "        text = super().read(path, commit)\n"
        "        return text and text.replace('\\r\\n', '\\n')\n"
        "def build(options, *, path): return Tidy(path / options['below'])\n"
    )
    result = run_suite(SLOTS["memory"], "acme/tidy", "tidy:build", {"below": "notes"})
    assert result.ok is False
    broken = [promise.promise for promise in result.promises if not promise.ok]
    assert broken == ["every text comes back as it was", "a megabyte comes back"]
    assert len(result.promises) > 30


@pytest.mark.slow
def test_suites_run_only_where_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["plugins", "check"], ["plugins", "check", "metrics", "--no-suites"]):
        assert run([*arguments, "--json"]) == 0
        items = json.loads(capsys.readouterr().out)["items"]
        assert {(item["suite"], item["suite_reason"]) for item in items} == {(None, "not asked for")}


GATE = """
import re
from perpetual.api import Gate, GateVerdict

class Odd(Gate):
    def scan(self, text, provenance):
        return GateVerdict("pass")
{0}

def build(options):
    return Odd()
"""


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


STUCK = """
import subprocess, time

def build(options):
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open({0!r}, "a") as file:
        file.write(str(child.pid) + " ")
    time.sleep(600)
"""
HANGS = """
    def redact(self, text, verdict):
        if text.startswith("[["):
            re.match(r"(a+)+$", "a" * 60 + "b")
        return text
"""


def test_a_vacuous_test_has_a_verdict_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "blind_gate.py").write_text(GATE.format(""), "utf-8")
    found = run_suite(SLOTS["gate"], "acme/blind", "blind_gate:build", {})
    assert (found.ok, found.reason) == (True, "5 promises vacuous: the suite found nothing to try them on")
    vacuous = {one.promise: (one.ok, one.detail) for one in found.promises if one.verdict == "vacuous"}
    nothing = "it found nothing in any text of the suite; name texts of its own in `Gate.examples`"
    assert vacuous["something is found"] == (None, nothing)
    assert {one.verdict for one in found.promises} == {"holds", "vacuous"}
    item = ProviderChecked("acme", "gate", "blind", "acme/blind", True, (), found.suite, found.reason, found.promises)
    assert f"\n  vacuous  something is found ({nothing})\n" in suite_text(item)


@pytest.mark.slow
def test_a_test_that_hangs_is_killed_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are tried all the same."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "hanging_gate.py").write_text(GATE.format(HANGS), "utf-8")
    found = run_suite(SLOTS["gate"], "acme/hanging", "hanging_gate:build", {}, test_limit_s=3.0)
    assert found.ok is False
    broken = {one.promise: one.detail for one in found.promises if one.verdict == "broken"}
    assert broken == {
        "a text without findings is left alone": "it ran past 3 s",
        "hostile texts are judged quickly": "it ran past 3 s",
    }
    assert len(found.promises) == 13


@pytest.mark.slow
def test_a_part_that_always_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has started in sessions of their own is ended with it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "stuck_scorer.py").write_text(STUCK.format(str(tmp_path / "children")), "utf-8")
    found = run_suite(SLOTS["scorer"], "acme/stuck", "stuck_scorer:build", {}, test_limit_s=1.0)
    assert (found.ok, {one.detail for one in found.promises}) == (False, {"it ran past 1 s"})
    assert "3 tests ran past 1 s: the others were not tried" in str(found.reason)
    children = [int(pid) for pid in (tmp_path / "children").read_text("utf-8").split()]
    assert len(children) == 3
    assert [pid for pid in children if is_alive(pid)] == []


def test_leftover_processes_have_ended_after_the_kill(tmp_path: Path) -> None:
    """A process that gives much memory back runs on for a moment after the signal."""
    large = "held = b'1' * 300_000_000; print('held', flush=True); import time; time.sleep(600)"
    environment = {**os.environ, "PERPETUAL_TEST_LEFT": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", large], env=environment, stdout=subprocess.PIPE) as left:
        assert left.stdout is not None
        left.stdout.readline()
        end_left("PERPETUAL_TEST_LEFT", "another")
        assert is_alive(left.pid)
        end_left("PERPETUAL_TEST_LEFT", str(tmp_path))
        assert not is_alive(left.pid)

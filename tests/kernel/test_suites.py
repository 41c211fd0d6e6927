"""`perpetual plugins check` with the contract suites: what holds, what is broken, and what cannot be told."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual.cli.app import run
from perpetual.suites import SuiteResult, has_suite, run_suite

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
        return run_suite("analyser", "acme/words", "under_test:build", {})

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


def test_without_a_suite_or_without_pytest_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_suite("command")
    assert run_suite("command", "a/b", "x:y", {}) == SuiteResult(None, None, "there is no contract suite for a command")
    find = importlib.util.find_spec

    def without_pytest(name: str, package: str | None = None) -> Any:
        return None if name == "pytest" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_pytest)
    result = run_suite("analyser", "a/b", "x:y", {})
    assert (result.ok, result.promises) == (None, ())
    assert "pytest is not installed" in str(result.reason)


def test_the_command_shows_each_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "check", "harnesses", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert {item["slot"] for item in items} == {"harness"}
    assert all(one["ok"] for item in items for one in item["promises"])
    assert all(len(item["promises"]) > 4 for item in items)
    assert run(["plugins", "check", "harnesses"]) == 0
    shown = capsys.readouterr().out
    assert "harness mcp, by perpetual.testing.harnesses.HarnessContract:" in shown
    assert "  holds   applying twice changes nothing\n" in shown


def test_suites_run_only_where_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["plugins", "check"], ["plugins", "check", "metrics", "--no-suites"]):
        assert run([*arguments, "--json"]) == 0
        items = json.loads(capsys.readouterr().out)["items"]
        assert {(item["suite"], item["suite_reason"]) for item in items} == {(None, "not asked for")}

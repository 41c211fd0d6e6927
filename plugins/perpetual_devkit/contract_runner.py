"""Running the contract suite of a slot against a provider that is installed; `plugins check` shows it.

Each provider gets a pytest of its own in a process of its own, so that a suite that hangs or dies is a finding and
no more. The suites themselves are those of `perpetual.testing`, which plugin authors subclass in their own tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perpetual.api import Slot, Suite
from perpetual.toolkit.agents import AGENT_VARIABLES

__all__ = ["Promise", "SuiteResult", "has_suite", "lab_environment", "run_suite"]

_TEST_LIMIT_S = 180.0  # of one test: a gate with a catastrophic expression ends nothing by itself
_LOOK_S = 0.5
_LIMIT_S = 900.0  # of one provider's suite; the store's, with its crashes of processes, takes some 20 s


_START = """\
import pytest
from importlib import import_module
pytest.register_assert_rewrite({package!r})
from {module} import {name} as Contract

options = {options!r}
Base = Contract.for_provider({factory!r}, options) if hasattr(Contract, "for_provider") else Contract
"""

# By how the suite gets what it tests.
_FORMS = {
    "part": """
class TestProvider(Base):
    @pytest.fixture
    def {fixture}(self):
        module, _, attribute = {factory!r}.partition(":")
        return getattr(import_module(module), attribute)(dict(options))
""",
    # Opened again and in other processes, so by its factory.
    "factory": """
class TestProvider(Base):
    factory = {factory!r}
    options = options
""",
    # The server is a process of its own, which finds its provider as the configuration names it.
    "command": """
import sys

class TestProvider(Base):
    @pytest.fixture
    def {fixture}(self, monkeypatch):
        monkeypatch.setenv("PERPETUAL_MCP", {provider!r})
        return [sys.executable, "-P", "-m", "perpetual", "mcp"]
""",
}


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise of a slot; `ok` is None where it could not be told, and `detail` says why unless it holds."""

    promise: str
    ok: bool | None
    detail: str


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What a suite found; `reason` says why it did not run, or not to its end (`ok` tells which)."""

    suite: str | None
    ok: bool | None
    reason: str | None = None
    promises: tuple[Promise, ...] = ()


def has_suite(slot: Slot) -> bool:
    """Returns whether there is a suite for the slot, and it is installed."""
    from importlib.util import find_spec

    try:
        return slot.suite is not None and find_spec(slot.suite.home.partition(":")[0]) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


def run_suite(slot: Slot, provider: str, factory: str, options: Mapping[str, object]) -> SuiteResult:
    """Runs the slot's suite against what `factory` (`module:callable`) of the provider builds with these options.

    Never raises for what the provider does: a suite that dies, hangs or cannot be collected is `ok` False with its
    reason. Without a suite, or without pytest, `ok` is None.
    """
    from importlib.util import find_spec
    from tempfile import TemporaryDirectory

    suite = slot.suite
    if suite is None or not has_suite(slot):
        return SuiteResult(None, None, f"there is no contract suite for a {slot.name}")
    if find_spec("pytest") is None:
        return SuiteResult(suite.label, None, "pytest is not installed: pip install pytest")
    with TemporaryDirectory(prefix="perpetual-suite-") as folder:
        place = Path(folder).resolve()
        (place / "test_provider.py").write_text(_source(suite, provider, factory, options), "utf-8")
        (place / "pytest.ini").write_text("[pytest]\n", "utf-8")
        results = place / "results.jsonl"
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "perpetual.testing.recorder", "-p", "no:cacheprovider",
             "--import-mode=importlib", "--basetemp", str(place / "tmp"), "-c", "pytest.ini", "test_provider.py"],
            cwd=place, env=lab_environment(place), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        code, output = _awaited(process, results)
        promises = _read(place / "results.jsonl", suite)
    return _result(suite.label, code, output, promises)


def _awaited(process: subprocess.Popen[str], results: Path) -> tuple[int, str]:
    """The exit code and output of a suite; one that takes too long, or one test of it, is killed and named."""
    began = moved = time.monotonic()
    size = 0
    while True:
        try:
            output, _ = process.communicate(timeout=_LOOK_S)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            now, present = time.monotonic(), results.stat().st_size if results.exists() else 0
            if present != size:
                size, moved = present, now
            if now - moved > _TEST_LIMIT_S or now - began > _LIMIT_S:
                limit = _TEST_LIMIT_S if now - moved > _TEST_LIMIT_S else _LIMIT_S
                process.kill()
                with suppress(subprocess.TimeoutExpired):  # what it started may hold the pipe
                    process.communicate(timeout=_LOOK_S)
                name = _running(results)
                at = f" in the test of {name!r}" if name else ""
                return -1, f"the suite had not ended after {limit:g} s{at}"


def _running(results: Path) -> str | None:
    """The test that began last."""
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    begun = [found["started"] for line in lines if "started" in (found := json.loads(line))]
    return begun[-1] if begun else None


def _source(suite: Suite, provider: str, factory: str, options: Mapping[str, object]) -> str:
    module, _, name = suite.home.partition(":")
    return (_START + _FORMS[suite.given]).format(
        package=module,
        module=module,
        name=name,
        fixture=suite.fixture,
        provider=provider,
        factory=factory,
        options=dict(options),
    )


def lab_environment(place: Path) -> dict[str, str]:
    """Returns this process's import path, and nothing that would make a lab behave otherwise than by default.

    Under a coding agent's variables nothing can be approved, which suites do.
    """
    kept = [name for name in os.environ if not name.startswith("PERPETUAL_") and name not in AGENT_VARIABLES]
    return {
        **{name: os.environ[name] for name in kept},
        "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PERPETUAL_CACHE_DIR": str(place / "cache"),
        "PERPETUAL_SUITE_RESULTS": str(place / "results.jsonl"),
    }


def _read(path: Path, suite: Suite) -> tuple[Promise, ...]:
    """Each promise once, in order; one of several cases that fails is a promise that does not hold."""
    grades = {"passed": 0, "skipped": 1, "failed": 2}
    worst: dict[str, tuple[int, str]] = {}
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    for line in lines:
        found = json.loads(line)
        if "outcome" not in found:
            continue
        grade = grades[found["outcome"]]
        if grade > worst.get(found["promise"], (-1, ""))[0]:
            worst[found["promise"]] = (grade, found["detail"])
    failure = None if suite.own_form else False
    holds: tuple[bool | None, ...] = (True, None, failure)
    return tuple(Promise(name, holds[grade], detail) for name, (grade, detail) in worst.items())


def _result(label: str, code: int, output: str, promises: tuple[Promise, ...]) -> SuiteResult:
    if code in (0, 1) and promises:
        ok = all(promise.ok is not False for promise in promises)
        untold = sum(promise.ok is None for promise in promises)
        reason = (
            f"{untold} promises could not be told: subclass the suite in the plugin's own tests" if untold else None
        )
        return SuiteResult(label, ok, reason, promises)
    said = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("E").strip() for line in said if line.startswith("E  ")]
    why = (errors or said or ["it said nothing"])[-1]
    return SuiteResult(label, False, f"the suite did not run to its end: {why}", promises)

"""Running the contract suite of a slot against a provider that is installed; `plugins check` shows it.

Each provider gets a pytest of its own in a process of its own, so that a suite that hangs or dies is a finding and no
more. A test that goes on past its limit is killed with all that it started, and the suite goes on with the next. The
suites themselves are those of `perpetual.testing`, which plugin authors subclass in their own tests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perpetual.api import Slot, Suite
from perpetual.toolkit import platform
from perpetual.toolkit.agents import AGENT_VARIABLES

__all__ = ["TEST_LIMIT_S", "Promise", "SuiteResult", "Verdict", "end_left", "has_suite", "lab_environment", "run_suite"]

Verdict = Literal["holds", "broken", "untold", "vacuous"]

TEST_LIMIT_S = 60.0  # of one test: a gate with a catastrophic expression ends nothing by itself
_STARTS_S = 60.0  # and until the first one begins
_LOOK_S = 0.2
_ENDS_S = 10.0  # within which a killed process ends, unless it hangs in the kernel
_OVERRUNS = 3  # tests that may go on past their limit before the others are not tried
_RESULTS = "PERPETUAL_SUITE_RESULTS"  # also what the suite left running is known by
_NO_TESTS = 5  # pytest's exit code where it ran none
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
    """One promise of a slot; `detail` says why unless it holds.

    `verdict` is `untold` where the suite could not try it, `vacuous` where it found nothing to try it on: then `ok` is
    None.
    """

    promise: str
    ok: bool | None
    detail: str
    verdict: Verdict


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


def run_suite(
    slot: Slot, provider: str, factory: str, options: Mapping[str, object], *, test_limit_s: float = TEST_LIMIT_S
) -> SuiteResult:
    """Runs the slot's suite against what `factory` (`module:callable`) of the provider builds with these options.

    Never raises for what the provider does: a suite that dies or cannot be collected is `ok` False with its reason, and
    a promise whose test goes on past `test_limit_s` seconds is broken. Without a suite or pytest, `ok` is None.
    """
    from importlib.util import find_spec
    from tempfile import TemporaryDirectory

    suite = slot.suite
    if suite is None or not has_suite(slot):
        return SuiteResult(None, None, f"there is no contract suite for a {slot.name}")
    if find_spec("pytest") is None:
        return SuiteResult(suite.label, None, "pytest is not installed: pip install pytest")
    with TemporaryDirectory(prefix="perpetual-suite-", ignore_cleanup_errors=True) as folder:
        place = Path(folder).resolve()
        (place / "test_provider.py").write_text(_source(suite, provider, factory, options), "utf-8")
        (place / "pytest.ini").write_text("[pytest]\n", "utf-8")
        ended = _ended(place, test_limit_s)
        promises = _read(place / "results.jsonl", suite)
    return _result(suite.label, *ended, promises)


def _ended(place: Path, test_limit_s: float) -> tuple[int, str]:
    """Returns the exit code and the output of the suite's last process; a test that overran has ended one before."""
    results, until = place / "results.jsonl", time.monotonic() + _LIMIT_S
    for _ in range(_OVERRUNS):
        with open(place / "output", "wb") as output:  # no pipe, which what it started may hold open
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", "-p", "perpetual.testing.recorder", "-p", "no:cacheprovider",
                 "--import-mode=importlib", "--basetemp", str(place / "tmp"), "-c", "pytest.ini", "test_provider.py"],
                cwd=place, env=lab_environment(place), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
            overrun = _overrun(process, results, until, test_limit_s)
        if overrun is None:
            said = (place / "output").read_text("utf-8", "replace")
            has_no_more = process.returncode == _NO_TESTS and results.exists()
            return (0 if has_no_more else process.returncode), said
        process.kill()
        process.wait()
        end_left(_RESULTS, str(results))
        name = _running(results)
        if name is None or time.monotonic() > until:
            return -1, f"the suite had not ended after {overrun:g} s" + (f", in the test of {name!r}" if name else "")
        line = {"promise": name, "outcome": "failed", "detail": f"it ran past {overrun:g} s"}
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return -1, f"{_OVERRUNS} tests ran past {test_limit_s:g} s: the others were not tried"


def _overrun(process: subprocess.Popen[bytes], results: Path, until: float, test_limit_s: float) -> float | None:
    """Waits for the process; returns the limit past which it or its test went on, None where it has ended."""
    moved, before = time.monotonic(), results.stat().st_size if results.exists() else 0
    size = before
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_S)
            return None
        now, present = time.monotonic(), results.stat().st_size if results.exists() else 0
        if present != size:
            size, moved = present, now
        limit_s = test_limit_s if size != before else max(test_limit_s, _STARTS_S)
        if now - moved > limit_s:
            return limit_s
        if now > until:
            return _LIMIT_S


def end_left(variable: str, value: str) -> None:
    """Kills what a check started and did not end: each process with this variable in its environment.

    Returns once they have ended, or after `_ENDS_S`: a killed process may run on for a moment. What one of them
    started while the others were looked for is found by the next look.
    """
    until = time.monotonic() + _ENDS_S
    while (found := _with_variable(variable, value)) and time.monotonic() < until:
        for process in found:
            with suppress(PermissionError):
                platform.signal_process(process, signal.SIGKILL)
        for process in found:
            platform.wait_gone(process, until - time.monotonic())


def _with_variable(variable: str, value: str) -> list[platform.Identity]:
    import psutil

    found = []
    for process in psutil.process_iter():
        identity = platform.identity_of(process.pid)  # read first: a later owner of the pid is another process
        with suppress(psutil.Error):
            if identity is not None and process.environ().get(variable) == value:
                found.append(identity)
    return found


def _running(results: Path) -> str | None:
    """Returns the test that began last."""
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    begun = [str(found["started"]) for line in lines if "started" in (found := json.loads(line))]
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
        "PERPETUAL_ASKS_NO_HARNESS": "1",  # which would cost its person money
        "PERPETUAL_CACHE_DIR": str(place / "cache"),
        _RESULTS: str(place / "results.jsonl"),
    }


def _read(path: Path, suite: Suite) -> tuple[Promise, ...]:
    """Returns each promise once, in order; a promise with one failed case is broken."""
    grades = ("passed", "vacuous", "skipped", "failed")
    worst: dict[str, tuple[int, str]] = {}
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    for line in lines:
        found = json.loads(line)
        if "outcome" not in found:
            continue
        grade = grades.index(found["outcome"])
        if grade > worst.get(found["promise"], (-1, ""))[0]:
            worst[found["promise"]] = (grade, found["detail"])
    verdicts: tuple[Verdict, ...] = ("holds", "vacuous", "untold", "untold" if suite.own_form else "broken")
    holds: dict[Verdict, bool | None] = {"holds": True, "broken": False}
    return tuple(
        Promise(name, holds.get(verdicts[grade]), detail, verdicts[grade]) for name, (grade, detail) in worst.items()
    )


def _result(label: str, code: int, output: str, promises: tuple[Promise, ...]) -> SuiteResult:
    if code in (0, 1) and promises:
        ok = all(promise.ok is not False for promise in promises)
        counts = Counter(promise.verdict for promise in promises)
        reasons = (
            (counts["untold"], "undecided: subclass the suite in the plugin's own tests"),
            (counts["vacuous"], "vacuous: the suite found nothing to try them on"),
        )
        said = [f"{_promises(count)} {why}" for count, why in reasons if count]
        return SuiteResult(label, ok, "; ".join(said) or None, promises)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("E").strip() for line in lines if line.startswith("E  ")]
    why = (errors or lines or ["it said nothing"])[-1]
    return SuiteResult(label, False, f"the suite did not run to its end: {why}", promises)


def _promises(count: int) -> str:
    return f"{count} promise{'' if count == 1 else 's'}"

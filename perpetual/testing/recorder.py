"""A pytest plugin that writes what became of each promise, one JSON line a phase, into the file that
`PERPETUAL_SUITE_RESULTS` names. Loaded by the runs that `perpetual_devkit.contract_runner` starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from typing import Any

import pytest

_LONGEST = 500


def _write(line: dict[str, Any]) -> None:
    with open(os.environ["PERPETUAL_SUITE_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def pytest_runtest_logstart(nodeid: str, location: tuple[str, int | None, str]) -> None:
    """Writes which test begins: the one that hangs is then known by its name."""
    _write({"started": nodeid.rpartition("::")[2].removeprefix("test_").replace("_", " ")})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Writes the test's name, its outcome and, unless it passed, why."""
    report = yield
    if report.when == "call" or not report.passed:
        name = str(getattr(item, "originalname", item.name)).removeprefix("test_").replace("_", " ")
        line = {"promise": name, "outcome": report.outcome, "detail": _detail(report)}
        _write(line)
    return report


def _detail(report: Any) -> str:
    """Why it did not pass, on one line."""
    if report.passed:
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longrepr[-1] if report.skipped else report.longreprtext
    return " ".join(str(text).split())[:_LONGEST]

"""A pytest plugin that writes what became of each promise.

It writes one JSON line a phase into the file that `PERPETUAL_SUITE_RESULTS` names. Loaded by the runs that
`perpetual_devkit.contract_runner` starts.

A test that the file names already is left out: the run before was killed in one of them, and this one goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from typing import Any

import pytest

from perpetual.testing.verdicts import Vacuous

_LONGEST = 500


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what an earlier run has begun."""
    path = os.environ["PERPETUAL_SUITE_RESULTS"]
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        begun = {json.loads(line).get("test") for line in file}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in begun])
    items[:] = [item for item in items if item.nodeid not in begun]


def _write(line: dict[str, object]) -> None:
    with open(os.environ["PERPETUAL_SUITE_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def pytest_runtest_logstart(nodeid: str, location: tuple[str, int | None, str]) -> None:
    """Writes which test begins: the one that hangs is then known by its name."""
    name = nodeid.rpartition("::")[2].partition("[")[0]
    _write({"started": name.removeprefix("test_").replace("_", " "), "test": nodeid})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, object]:
    """Writes the test's name, its outcome and, unless it passed, why."""
    report = yield
    if report.when == "call" or not report.passed:
        name = str(getattr(item, "originalname", item.name)).removeprefix("test_").replace("_", " ")
        line: dict[str, object] = {"promise": name, "outcome": report.outcome, "detail": _detail(report)}
        if call.excinfo is not None and isinstance(call.excinfo.value, Vacuous):
            line.update(outcome="vacuous", detail=str(call.excinfo.value))
        _write(line)
    return report


def _detail(report: Any) -> str:
    """Returns why it did not pass, on one line."""
    if report.passed:
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longrepr[-1] if report.skipped else report.longreprtext
    return " ".join(str(text).split()).removeprefix("Skipped: ")[:_LONGEST]

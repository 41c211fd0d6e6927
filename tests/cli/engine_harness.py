"""Engines of strangers' distributions, driven through the program: used by the tests of schedulers."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perpetual.cli.app import run
from tests.faults.run_harness import LONG_S

Json = dict[str, Any]
Call = Callable[..., Json]


@contextmanager
def installed(source: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distribution of a source folder is on the import path of this process."""
    name = source.name
    package = name.replace("-", "_")
    shutil.copytree(source / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[perpetual.plugins]\n{name} = {package}.plugin\n", "utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    importlib.invalidate_caches()
    yield
    for module in [module for module in sys.modules if module.startswith(package)]:
        del sys.modules[module]
    importlib.invalidate_caches()


def caller(capsys: pytest.CaptureFixture[str]) -> Call:
    """Returns what runs one command with --json and answers its document, an error's too."""

    def run_json(*arguments: str, code: int = 0) -> Json:
        capsys.readouterr()
        found = run([*arguments, "--json"])
        out, err = capsys.readouterr()
        assert found == code, (out + err)[-500:]
        document: Json = json.loads(out)
        return document

    return run_json


def until(call: Call, run_id: str, *statuses: str) -> Json:
    """The run once it has one of the statuses; what has ended is recorded on the way."""
    found: Json = {}

    def has_status() -> bool:
        call("scan")
        found.update(call("runs", run_id))
        return found["status"] in statuses

    happens(has_status, found)
    return found


def happens(condition: Callable[[], bool], shown: object = "it never happened") -> None:
    """Waits for a condition; a busy machine may take its time."""
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline, shown
        time.sleep(0.02)

"""Strangers' distributions and a new plugin, installed with pip beside the wheel: a lab on nothing but their parts."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.fixtures.registries import fetch

ROOT = Path(__file__).parents[2]
SLOTS = ("store", "scheduler", "gpus", "scorer", "memory", "gate", "metric_reader", "command", "mcp_tool", "mcp")

pytestmark = pytest.mark.slow


def load(path: Path) -> ModuleType:
    """A module of the tests that is no test."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


outside = load(ROOT / "tests" / "fixtures" / "outside_lab.py")


def wheel(source: Path, out: Path) -> None:
    """Builds a distribution as its author would, but with what is installed here."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)],
        check=True,
        stdout=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment with the wheel, the strangers' wheels and pytest."""
    wheels, environment = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("fresh") / "venv"
    for source in (ROOT, *(outside.THIRD_PARTY / name for name in outside.DISTRIBUTIONS)):
        wheel(source, wheels)
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    install(environment / "bin", *map(str, sorted(wheels.glob("*.whl"))), "pytest>=8.3")
    return environment / "bin"


def install(programs: Path, *what: str) -> None:
    """Installs with the environment's own pip."""
    command = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what]
    fetch(command, cwd=programs.parent, limit_s=400)


def program(programs: Path, folder: Path, **env: str) -> object:
    """`perpetual` of the fresh environment, in an environment of few variables."""
    keep = {name: os.environ[name] for name in ("LANG", "HOME") if name in os.environ}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    own = {**keep, "PATH": path, "PERPETUAL_CACHE_DIR": str(folder.parent / "cache"), **env}
    return outside.Program([str(programs / "perpetual")], folder, own, str(programs / "python"))


@pytest.mark.timeout(1800)
def test_a_whole_life_on_strangers_parts(programs: Path, tmp_path: Path) -> None:
    folder, events = tmp_path / "project", tmp_path / "events"
    folder.mkdir()
    outside.whole_life(program(programs, folder, ACME_EVENTS=str(events)), events, suites=True)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("slot", SLOTS)
def test_a_new_plugin_is_installed_tested_and_checked(programs: Path, tmp_path: Path, slot: str) -> None:
    perpetual = outside.Program([str(programs / "perpetual")], tmp_path, dict(os.environ), str(programs / "python"))
    name = f"fresh-{slot.replace('_', '-')}"
    made = perpetual("plugins", "new", name, "--slot", slot)
    wheel(Path(made["path"]), tmp_path / "wheels")
    install(programs, *map(str, (tmp_path / "wheels").glob("*.whl")))
    tested = subprocess.run(
        [str(programs / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=made["path"], capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    checked = perpetual("plugins", "check", name)
    assert checked["ok"], json.dumps(checked)
    assert [item["slot"] for item in checked["items"]] == [slot]

"""Names of the science that a plugin holds: they are reached as ever, and one that is not declared is named."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType

import pytest

import perpetual.science
from perpetual.science import of_plugin

DECLARED: dict[str, str] = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"][
    "entry-points"
]["perpetual.science"]


def _asked(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", DECLARED)
def test_a_module_of_a_plugin_is_itself_under_its_public_name(name: str) -> None:
    found = import_module(f"perpetual.science.{name}")
    assert isinstance(found, ModuleType)
    assert found is import_module(DECLARED[name])
    assert getattr(perpetual.science, name) is found


def test_every_name_is_found_by_a_process_that_imported_no_plugin() -> None:
    names = sorted(perpetual.science.__all__)
    assert _asked(f"from perpetual.science import {', '.join(names)}; print(best.__module__)").endswith(".sweep")


def test_a_name_of_a_module_is_found_whichever_is_imported_first() -> None:
    found = _asked("from perpetual.science.strategies import STRATEGIES as a, uniform as b\n"
                   "from perpetual.science import STRATEGIES as c\n"
                   "from perpetual.science.draws import uniform as d\nprint(a is c, b is d)")  # fmt: skip
    assert found == "True True"


def test_a_module_that_is_not_declared_is_named() -> None:
    with pytest.raises(ImportError, match=r"no plugin brings perpetual\.science\.astrology; pip install"):
        of_plugin("perpetual.science.astrology")


def test_a_source_tree_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    with pytest.raises(ImportError, match=r"perpetual\.science\.sweep is in a plugin of perpetual-lab"):
        of_plugin("perpetual.science.sweep")

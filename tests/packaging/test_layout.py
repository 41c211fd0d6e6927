"""The list of bundled plugins stands in three places; a name that is missing in one is a plugin that never ships."""

from __future__ import annotations

import ast
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PUBLIC = {"perpetual_agents"}


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def folders() -> set[str]:
    return {path.name for path in (ROOT / "plugins").iterdir() if path.is_dir() and not path.name.startswith("__")}


def test_plugin_folders_are_the_wheels_packages(pyproject: dict[str, Any]) -> None:
    packages = pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {Path(name).name for name in packages if name.startswith("plugins/")} == folders()
    assert {name for name in packages if not name.startswith("plugins/")} == {
        "perpetual",
        "harness_templates/perpetual_templates",
    }


def test_plugin_folders_are_the_entry_points(pyproject: dict[str, Any]) -> None:
    declared = pyproject["project"]["entry-points"]["perpetual.plugins"]
    assert declared == {name.removeprefix("perpetual_"): f"{name}.plugin" for name in folders()}


def test_installed_entry_points_are_the_declared_ones(pyproject: dict[str, Any]) -> None:
    installed = {point.name for point in entry_points(group="perpetual.plugins") if point.dist.name == "perpetual-lab"}  # type: ignore[union-attr]
    assert installed == set(pyproject["project"]["entry-points"]["perpetual.plugins"]), "reinstall: pip install -e ."


def test_installed_modules_of_the_science_are_the_declared_ones(pyproject: dict[str, Any]) -> None:
    declared = pyproject["project"]["entry-points"]["perpetual.science"]
    points = [point for point in entry_points(group="perpetual.science") if point.dist.name == "perpetual-lab"]  # type: ignore[union-attr]
    assert {point.name: point.value for point in points} == declared, "reinstall: pip install -e ."


def test_plugin_packages_hold_a_docstring_alone_at_the_top() -> None:
    """Importing a plugin's entry module runs its package: that must cost nothing.

    A public package may name what it imports at first use.
    """
    for folder in folders():
        if folder in PUBLIC:
            tree = ast.parse((ROOT / "plugins" / folder / "__init__.py").read_text())
            modules = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
            assert modules == {"__future__", "importlib", "typing"}, folder
            continue
        body = ast.parse((ROOT / "plugins" / folder / "__init__.py").read_text()).body
        assert [type(node) for node in body] == [ast.Expr], folder


def test_nothing_of_this_machine_is_in_the_tree() -> None:
    """No absolute path of a development machine, and no address of a package registry."""
    forbidden = ["/wo" + "rk/", "pypi" + ".org", "registry." + "npmjs"]
    # Not into what tools keep here: while it is walked through, they change it.
    ours = [top for top in ROOT.iterdir() if not top.name.startswith(".") or top.name == ".ci"]
    ours = [top for top in ours if top.name not in ("dist", "build", "perpetual-demo")]
    for path in [path for top in ours for path in (top, *top.rglob("*"))]:
        relative = path.relative_to(ROOT)
        if "__pycache__" in relative.parts:
            continue
        if path.is_file() and path.suffix in {".py", ".md", ".toml", ".yaml", ".json", ".j2", ""}:
            text = path.read_text(errors="replace")
            assert not [word for word in forbidden if word in text], relative

"""Every part of a lab replaced by strangers' distributions, and a plugin of API 1 as it was frozen: the quick version.

The distributions stand on the import path with metadata made by hand; `tests/slow/test_outside_distributions.py`
installs them.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from perpetual.slots.table import SLOTS
from perpetual_devkit.contract_runner import run_suite

FIXTURES = Path(__file__).parents[1] / "fixtures"
# The frozen distribution, by the checksum of its files: see its README.
FROZEN = "793984c2ed222bfe7882d59d7db9599e720932fdbfa441b8809008dc62a2de3f"


def load(path: Path) -> ModuleType:
    """A module of the tests that is no test."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


outside = load(FIXTURES / "outside_lab.py")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like site-packages, with the distributions in it."""
    folder = tmp_path_factory.mktemp("site")
    for name in outside.DISTRIBUTIONS:
        source = outside.THIRD_PARTY / name
        project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]
        for path in source.iterdir():
            if path.is_dir() and path.name != "__pycache__":
                shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
            elif path.suffix == ".py":
                shutil.copy(path, folder)
        info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        (info / "METADATA").write_text(metadata, "utf-8")
        points = project["entry-points"]["perpetual.plugins"]
        lines = [f"{key} = {value}" for key, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[perpetual.plugins]", *lines, ""]), "utf-8")
    return folder


@pytest.mark.slow
def test_a_whole_life_on_strangers_parts(site: Path, tmp_path: Path) -> None:
    folder, events = tmp_path / "project", tmp_path / "events"
    folder.mkdir()
    own = {"PYTHONPATH": str(site), "ACME_EVENTS": str(events), "PERPETUAL_CACHE_DIR": str(tmp_path / "cache")}
    program = outside.Program([sys.executable, "-m", "perpetual"], folder, {**os.environ, **own}, sys.executable)
    outside.whole_life(program, events, suites=False)


@pytest.mark.parametrize(
    ("slot", "provider", "factory"),
    [
        ("gpus", "acme-lab/acme-rack", "acme_lab.small:rack"),
        ("gate", "acme-lab/acme-words", "acme_lab.small:words"),
        ("scorer", "acme-lab/acme-thrift", "acme_lab.small:thrift"),
        ("memory", "acme-lab/acme-files", "acme_lab.memory:build"),
        pytest.param("scheduler", "acme-lab/acme-runner", "acme_lab.runner:build", marks=pytest.mark.slow),
        pytest.param("mcp", "acme-mcp/acme-mcp", "acme_mcp:build", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_strangers_parts_keep_their_promises(
    site: Path, monkeypatch: pytest.MonkeyPatch, slot: str, provider: str, factory: str
) -> None:
    """The small ones; `tests/slow` checks all of them by `perpetual plugins check`."""
    monkeypatch.syspath_prepend(str(site))
    result = run_suite(SLOTS[slot], provider, factory, {})
    assert [one for one in result.promises if one.verdict not in ("holds", "vacuous")] == []
    assert (result.ok, "not run" in str(result.reason)) == (True, False)


def test_strangers_import_public_names_only() -> None:
    public = {"perpetual", "perpetual.api", "perpetual.science", "perpetual.toolkit", "perpetual.loop"}
    seen = 0
    for path in outside.THIRD_PARTY.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            ours = [name for name in names if name.partition(".")[0] == "perpetual"]
            seen += len(ours)
            assert all(".".join(name.split(".")[:2]) in public for name in ours), (path, ours)
    assert seen


def test_the_frozen_plugin_is_as_it_was() -> None:
    """Whoever changes it breaks the promise that it stands for; a new API gets a folder of its own."""
    import hashlib

    digest = hashlib.sha256()
    folder = outside.THIRD_PARTY / "frozen_api_1"
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    assert digest.hexdigest() == FROZEN

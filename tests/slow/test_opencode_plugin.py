"""The package opencode-perpetual: type-checked strictly against the real interface, tested by node's own runner."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from perpetual.toolkit.lock import FileLock
from perpetual_harnesses.template import opencode
from tests.fixtures.registries import fetch

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "harness_templates" / "perpetual_templates" / "opencode" / "package"
TOOLS = ROOT / "tests" / "fixtures" / "opencode_plugin"
OUTSIDE = dict(os.environ)  # before a test clears it: npm needs the user's own configuration

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def tools() -> Path:
    """The folder `node_modules` with the compiler and the types, installed once for all sessions."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    version = hashlib.sha256((TOOLS / "package-lock.json").read_bytes()).hexdigest()[:12]
    cache = Path(OUTSIDE.get("XDG_CACHE_HOME") or Path(OUTSIDE["HOME"]) / ".cache")
    folder = cache / "perpetual-opencode-plugin" / version
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "installing.lock"):
        if not (folder / "installed").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(TOOLS / name, folder)
            quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--omit-lockfile-registry-resolved"]
            fetch([npm, "install", "--ignore-scripts", *quiet], cwd=folder, env=OUTSIDE, limit_s=300)
            (folder / "installed").touch()
    return folder / "node_modules"


@pytest.fixture
def package(tools: Path, tmp_path: Path) -> Path:
    """A copy of the package, with what it is built with beside it."""
    folder = tmp_path / "package"
    shutil.copytree(PACKAGE, folder)
    (folder / "node_modules").symlink_to(tools)
    return folder


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, env=OUTSIDE, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_package_is_built_and_its_tests_pass(package: Path) -> None:
    _run(package, "node", "node_modules/.bin/tsc")
    said = _run(package, "node", "--test", "dist/test/")
    assert "\n# fail 0\n" in said
    assert "\n# tests 0\n" not in said
    files = json.loads(_run(package, "npm", "pack", "--dry-run", "--json", "--ignore-scripts"))[0]["files"]
    packed = {item["path"] for item in files}
    assert {"dist/src/perpetual.js", "dist/src/perpetual.d.ts", "src/perpetual.ts", "README.md"} <= packed
    assert not [path for path in packed if path.startswith(("test", "dist/test", "node_modules"))]


def test_what_init_writes_passes_the_same_check(package: Path) -> None:
    plans = opencode({}).scaffold(project="p", command=("/opt/my tools/python", "-m", 'per"petual')).files
    (text,) = [plan.text for plan in plans if plan.path.endswith(".ts")]
    (package / "src" / "perpetual.ts").write_text(text)
    _run(package, "node", "node_modules/.bin/tsc", "--noEmit")

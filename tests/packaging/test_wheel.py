"""The wheel, built and installed into a fresh environment, works without the source tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.fixtures.registries import fetch

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (built,) = out.glob("*.whl")
    return built


def interpreters() -> list[str]:
    """The Python that runs the tests, and the newest other one on this machine that is new enough to differ."""
    for name in ("python3.14", "python3.13", "python3.12"):
        found = shutil.which(name)
        if found is not None and sys.version_info < tuple(map(int, name.removeprefix("python").split("."))):
            works = subprocess.run([found, "-c", "import venv, ssl"], capture_output=True, check=False)
            if works.returncode == 0:
                return [sys.executable, found]
    return [sys.executable]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Other interpreters are tried where slow tests are chosen: else every worker of a quick session waits for them."""
    if "installed" in metafunc.fixturenames:
        is_left_out = "not slow" in str(metafunc.config.getoption("markexpr"))
        found = [sys.executable] if is_left_out else interpreters()
        metafunc.parametrize("installed", found, indirect=True, ids=lambda path: Path(path).name, scope="module")


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment that holds the wheel and what it depends on."""
    environment = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([request.param, "-m", "venv", str(environment)], check=True)
    programs = environment / "bin"
    install = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    fetch(install, cwd=environment, limit_s=400)
    return programs


def command(programs: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    keep = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    return subprocess.run(
        [str(programs / "perpetual"), *arguments],
        cwd=cwd,
        env={**keep, "PERPETUAL_CACHE_DIR": str(cwd / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_wheel_holds_the_declared_packages_only(wheel: Path) -> None:
    packages = sorted(path.name for path in (ROOT / "plugins").iterdir() if path.name.startswith("perpetual_"))
    names = ",".join(["perpetual", "perpetual_templates", *packages])
    checker = Path(sys.executable).with_name("check-wheel-contents")
    done = subprocess.run([str(checker), "--toplevel", names, str(wheel)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_data_file_is_in_the_wheel(wheel: Path) -> None:
    """Templates (dotfiles too), schemas, the report's template and the demo's script.

    The packages that agents install by one line stand outside: the agents fetch them from the repository.
    """
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = [
        path
        for base in ("perpetual", "plugins", "harness_templates/perpetual_templates")
        for path in (ROOT / base).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert wanted
    missing = []
    for path in wanted:
        relative = path.relative_to(ROOT).as_posix().removeprefix("plugins/").removeprefix("harness_templates/")
        if relative not in inside:
            missing.append(relative)
    assert missing == []


def test_the_installed_wheel_serves_a_newcomer(installed: Path, tmp_path: Path) -> None:
    listed = json.loads(command(installed, tmp_path, "plugins", "list", "--json").stdout)
    assert {item["state"] for item in listed["items"]} <= {"active", "available"}
    done = command(installed, tmp_path, "init", "-p", "first", "-H", "claude-code", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / ".mcp.json").exists()
    doctor = command(installed, tmp_path, "doctor", "--json")
    assert doctor.returncode == 0, doctor.stdout
    added = command(installed, tmp_path, "hypotheses", "add", "the wheel works", "--json")
    assert json.loads(added.stdout)["id"] == "h1"
    assert "the wheel works" in command(installed, tmp_path, "status").stdout


def test_the_demo_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    done = command(installed, tmp_path, "demo", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["reason"] == "queue_empty"
    assert Path(document["report"]).read_text().startswith("# ")

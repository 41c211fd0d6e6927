"""Every test runs in a home of its own: no user configuration, no caches, no coding agent's variables."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import settings

from perpetual.toolkit.agents import AGENT_VARIABLES

# The same examples in every session: a change is judged by what it changes, and not by what happens to be drawn.
# `--hypothesis-profile explore` draws others each time.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("steady")

_IS_CI = bool(os.environ.get("PERPETUAL_CI"))  # before the variables of the outside are cleared
_CLEARED = (
    *AGENT_VARIABLES,
    "NO_COLOR",
    "FORCE_COLOR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "PYTHONDONTWRITEBYTECODE",  # else each program that a test starts compiles all that it imports
)


def pytest_configure(config: pytest.Config) -> None:
    """Without its entry points half of Perpetual is missing, and tests would fail in odd ways."""
    if not any(point.name == "tinydb" for point in entry_points(group="perpetual.plugins")):
        raise pytest.UsageError("perpetual-lab is not installed here: pip install -e '.[dev]'")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores it in what it starts in the background, and every program of the tests would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting makes a million objects that stay: looking for garbage among them is a tenth of its time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache folder for the session, with all its workers: what one of them has computed serves the others."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-cache"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def shared_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One state folder for the session, so that a project which is made once and copied is known to every test."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERPETUAL_STATE_DIR", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def hermetic(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, shared_cache: Path, shared_state: Path
) -> Iterator[None]:
    """Own HOME, no `PERPETUAL_*` from outside, no network proxy, and the working directory put back."""
    _hermetic(monkeypatch, tmp_path_factory, shared_cache, shared_state)
    before = Path.cwd()
    yield
    os.chdir(before)


def _hermetic(
    patch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, shared_cache: Path, shared_state: Path
) -> None:
    patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for name in [name for name in os.environ if name.startswith("PERPETUAL_")] + list(_CLEARED):
        patch.delenv(name, raising=False)
    patch.setenv("PERPETUAL_CACHE_DIR", str(shared_cache))
    patch.setenv("PERPETUAL_STATE_DIR", str(shared_state))
    patch.setenv("PERPETUAL_QUEUE_MOVES", "false")  # a test says itself when ends are recorded
    patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)


@pytest.fixture(scope="session")
def fresh_project(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path, shared_state: Path) -> Path:
    """What `init` writes, once for the session: a test gets a copy, for a twentieth of what it costs to write it."""
    from perpetual import Lab

    folder = tmp_path_factory.mktemp("fresh") / "project"
    with pytest.MonkeyPatch.context() as patch:
        _hermetic(patch, tmp_path_factory, shared_cache, shared_state)
        # Its seeds follow from the id: what a test draws is the same in every session.
        Lab.init(folder, name="test", project_id="0123456789abcdef").close()
    return folder


@pytest.fixture
def project(fresh_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh project's folder, which is also the working directory."""
    from perpetual.testing.projects import trust_project

    folder = tmp_path / "project"
    shutil.copytree(fresh_project, folder)
    trust_project(folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skipped test is a failure, unless what it lacks is a real GPU."""
    report = yield
    reason = str(getattr(report, "longrepr", ""))
    if _IS_CI and report.skipped and not hasattr(report, "wasxfail") and "real GPU" not in reason:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which CI counts as a failure: {reason}"
    return report


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs a distribution with one plugin: `install("acme", module, source)`; gone after the test."""
    folder = tmp_path / "site"
    folder.mkdir()
    # At the end: the first entry is the script's own folder, which discovery does not look at for its cache.
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    modules = set(sys.modules)

    def put(distribution: str, module: str, source: str, *, name: str | None = None, version: str = "1.2") -> None:
        (folder / f"{module}.py").write_text(source, "utf-8")
        info = folder / f"{distribution}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n", "utf-8")
        (info / "entry_points.txt").write_text(f"[perpetual.plugins]\n{name or distribution} = {module}\n", "utf-8")
        importlib.invalidate_caches()

    yield put
    for fresh in set(sys.modules) - modules:
        if fresh.startswith("acme"):
            del sys.modules[fresh]
    importlib.invalidate_caches()

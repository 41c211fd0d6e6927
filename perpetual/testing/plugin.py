"""Fixtures for the tests of plugin authors: a project, its lab, a distribution that is not installed, the program.

    pytest_plugins = ["perpetual.testing.plugin"]       # in the top conftest.py, or: pytest -p perpetual.testing.plugin

Nothing loads by itself. `perpetual_project` makes a test hermetic: its own home and caches, no `PERPETUAL_*` and no
coding agent's variables from outside. A failing test shows every command that it ran through `perpetual_command` with
its status, arguments, folder and whole output, and a failing contract suite shows the values that it compared.
A test of a suite that goes on for 60 seconds is named, and ends pytest; the setting `perpetual_test_limit_s` says when
(0 for never), and the attribute `test_limit_s` of a suite's subclass.
`write_distribution` may be called alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perpetual.testing.limits import TEST_LIMIT_S, TestLimits
from perpetual.toolkit.agents import AGENT_VARIABLES

if TYPE_CHECKING:
    from perpetual.lab import Lab

__all__ = [
    "AGENT_VARIABLES",
    "Command",
    "FakeDistribution",
    "Result",
    "fake_distribution",
    "perpetual_command",
    "perpetual_lab",
    "perpetual_project",
    "write_distribution",
]

_OTHER_VARIABLES = ("NO_COLOR", "FORCE_COLOR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
_GROUP = "perpetual.plugins"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the setting `perpetual_test_limit_s`."""
    help = "seconds until a test of a contract suite, and pytest with it, is ended; 0 for never"
    parser.addini("perpetual_test_limit_s", help, default=f"{TEST_LIMIT_S:g}")


def pytest_configure(config: pytest.Config) -> None:
    """Sets a limit in time for each test of a contract suite."""
    text = str(config.getini("perpetual_test_limit_s"))
    try:
        limit_s = float(text)
    except ValueError:
        raise pytest.UsageError(f"perpetual_test_limit_s is a number of seconds, not {text!r}") from None
    config.pluginmanager.register(TestLimits(limit_s), "perpetual-test-limits")


# --- the project ----------------------------------------------------------------------------------------------------


@pytest.fixture
def perpetual_project(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Returns a fresh project's folder, which is also the working directory, in an environment of its own."""
    from perpetual.lab import Lab

    home = tmp_path_factory.mktemp("home")
    for name in [name for name in os.environ if name.startswith("PERPETUAL_")]:
        monkeypatch.delenv(name)
    for name in (*AGENT_VARIABLES, *_OTHER_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))  # what Windows calls HOME
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(home / "cache"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    folder = tmp_path / "project"
    Lab.init(folder, name="test").close()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def perpetual_lab(perpetual_project: Path) -> Iterator[Lab]:
    """Yields the project's lab; what it started has ended when the test is over."""
    from perpetual.lab import Lab

    with Lab.open(perpetual_project) as lab:
        yield lab
        lab.queue.set_state("paused")
        for run in [*lab.runs.live()]:
            if lab.runs.get(run.id).status in ("queued", "launching", "running"):
                lab.runs.kill(run.id, grace_s=0.0)


# --- a distribution that is not installed ---------------------------------------------------------------------------


@dataclass(frozen=True)
class FakeDistribution:
    """What is in `folder`, which is an entry of the import path: modules and the metadata of a distribution."""

    folder: Path
    name: str
    version: str


def write_distribution(
    folder: Path,
    files: Mapping[str, str],
    entry_points: Mapping[str, str] | Mapping[str, Mapping[str, str]],
    *,
    name: str = "acme-plugin",
    version: str = "1.0",
) -> FakeDistribution:
    """Writes modules and metadata as an installer would leave them in `folder`; the import path is not changed.

    Args:
        files: text by path, e.g. `{"acme/__init__.py": "", "acme/plugin.py": "..."}`.
        entry_points: module by name for the group `perpetual.plugins`, or groups with theirs.
        name: of the distribution.
        version: of the distribution.
    """
    groups: dict[str, dict[str, str]] = {}
    for key, value in entry_points.items():
        if isinstance(value, str):
            groups.setdefault(_GROUP, {})[key] = value
        else:
            groups[key] = dict(value)
    lines = [line for group, points in groups.items() for line in (f"[{group}]", *_points(points), "")]
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    texts = {
        **{folder / path: text for path, text in files.items()},
        metadata / "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        metadata / "entry_points.txt": "\n".join(lines),
    }
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return FakeDistribution(folder, name, version)


def _points(points: Mapping[str, str]) -> list[str]:
    return [f"{name} = {module}" for name, module in points.items()]


@pytest.fixture
def fake_distribution(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., FakeDistribution]]:
    """Provides `write_distribution` without its folder: what it writes can be imported, also by subprocesses.

    After the test the path is as it was, and the modules that came from there are forgotten.
    """
    import importlib

    made: list[FakeDistribution] = []

    def make(
        files: Mapping[str, str],
        entry_points: Mapping[str, str] | Mapping[str, Mapping[str, str]],
        *,
        name: str = "acme-plugin",
        version: str = "1.0",
    ) -> FakeDistribution:
        folder = tmp_path_factory.mktemp("site")
        made.append(write_distribution(folder, files, entry_points, name=name, version=version))
        # Behind the first entry, as an installed distribution: that one is the script's own folder, which the cache
        # of discovered plugins leaves out.
        monkeypatch.setattr(sys, "path", [*sys.path[:1], str(folder), *sys.path[1:]])
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        importlib.invalidate_caches()
        return made[-1]

    yield make
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if file and any(Path(file).is_relative_to(item.folder) for item in made):
            del sys.modules[name]
    importlib.invalidate_caches()


# --- the program ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """How a command ended and what it said."""

    code: int
    argv: tuple[str, ...]
    cwd: Path
    stdout: str
    stderr: str

    @property
    def json(self) -> object:
        """Returns the one document on standard output.

        Raises:
            AssertionError: if it is none, or more than one.
        """
        try:
            return json.loads(self.stdout)
        except ValueError as problem:
            raise AssertionError(f"standard output is not one JSON document ({problem})\n{self.told()}") from problem

    def told(self) -> str:
        """Returns everything, for people."""
        return (
            f"code: {self.code}\nargv: {' '.join(self.argv)}\ncwd: {self.cwd}\n"
            f"stdout:\n{_indented(self.stdout)}stderr:\n{_indented(self.stderr)}"
        )


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines()) or "    (nothing)\n"


@dataclass
class Command:
    """Runs the program; `ran` holds every result so far."""

    ran: list[Result] = field(default_factory=list)

    def __call__(
        self,
        *words: str,
        input: str = "",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        subprocess: bool = False,
        timeout_s: float = 60.0,
    ) -> Result:
        """Runs `perpetual WORDS...` to its end, in this process or in one of its own.

        Args:
            words: the arguments after `perpetual`.
            input: standard input.
            cwd: the working directory; by default the present one.
            env: variables on top of the present ones.
            subprocess: in a process of its own, which takes about a second and reads everything anew.
            timeout_s: of a process of its own.
        """
        folder = Path.cwd() if cwd is None else cwd
        run = _in_a_process if subprocess else _here
        result = run(tuple(words), input, folder, dict(env or {}), timeout_s)
        self.ran.append(result)
        return result


def _in_a_process(words: tuple[str, ...], text: str, cwd: Path, env: dict[str, str], timeout_s: float) -> Result:
    import subprocess

    argv = (sys.executable, "-P", "-m", "perpetual", *words)
    done = subprocess.run(
        argv,
        input=text,
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="backslashreplace",
        timeout=timeout_s,
        check=False,
    )
    return Result(done.returncode, argv, cwd, done.stdout, done.stderr)


def _here(words: tuple[str, ...], text: str, cwd: Path, env: dict[str, str], timeout_s: float) -> Result:
    """Returns the installed program's own start, with its streams, arguments and folder put in place for the call."""
    import gc
    import io

    argv = ("perpetual", *words)
    streams = [io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="") for data in (text.encode("utf-8"), b"", b"")]
    before, was_collecting, code = Path.cwd(), gc.isenabled(), 0
    with pytest.MonkeyPatch.context() as patch:
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        patch.setattr(sys, "argv", [*argv])
        for name, value in env.items():
            patch.setenv(name, value)
        try:
            os.chdir(cwd)
            _program()()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        finally:
            os.chdir(before)
            if was_collecting:
                gc.enable()  # the program's quick answers switch it off and leave it to the end of their process
    said = []
    for stream in streams[1:]:
        stream.flush()
        stream.seek(0)
        said.append(stream.read())
    return Result(code, argv, cwd, *said)


def _program() -> Callable[[], None]:
    """Returns what the console script `perpetual` calls."""
    from importlib.metadata import entry_points

    points = entry_points(group="console_scripts", name="perpetual")
    for point in points:
        program: Callable[[], None] = point.load()
        return program
    raise pytest.UsageError("perpetual-lab is not installed here: pip install perpetual-lab")


_RAN = pytest.StashKey[list[Result]]()


@pytest.fixture
def perpetual_command(request: pytest.FixtureRequest) -> Command:
    """Runs `perpetual_command("status", "--json").json`; a failing test shows the output of its commands."""
    command = Command()
    request.node.stash[_RAN] = command.ran
    return command


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to a failure every command that its test ran: an assertion shows only the value that was wrong."""
    report = yield
    if report.failed:
        ran: list[Result] = item.stash.get(_RAN, [])
        for number, result in enumerate(ran, 1):
            report.sections.append((f"perpetual command {number}", result.told()))
    return report

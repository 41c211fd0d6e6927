"""What a command does not use it does not load: held by what is in `sys.modules`, not by milliseconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab

pytestmark = pytest.mark.slow  # an interpreter for each module

HEAVY = frozenset(
    {"mcp", "pydantic", "tinydb", "dulwich", "pynvml", "psutil", "rich", "jinja2", "ruamel", "importlib.metadata"}
)
# The program as it is installed, or the command line without the fast path; then what it loaded, on stderr.
_PROGRAM = "from perpetual.entry import main; main()"
_LONG_WAY = "from perpetual.cli.app import run; sys.exit(run(sys.argv[1:]))"
_REPORT = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "


def _python(code: str, *arguments: str, stdin: str = "", **environment: str) -> tuple[str, set[str]]:
    """What a fresh interpreter wrote, and which modules it had loaded at its end."""
    done = subprocess.run(
        [sys.executable, "-c", _REPORT + code, *arguments],
        capture_output=True,
        text=True,
        input=stdin,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, set(done.stderr.split())


def _loaded(modules: set[str], names: frozenset[str] | set[str]) -> set[str]:
    return {name for name in names if name in modules}


def test_importing_perpetual_is_free() -> None:
    _, before = _python("import __future__, typing")
    _, after = _python("import __future__, typing, perpetual")
    assert after - before == {"perpetual"}


def test_names_of_the_package_are_loaded_at_first_use() -> None:
    _, modules = _python("import perpetual; perpetual.log(loss=1.0)")
    assert "perpetual_export.run_log" in modules
    assert not _loaded(modules, {"perpetual.lab", "perpetual.registry", "pluggy", "click"})
    out, _ = _python(
        "import perpetual\nfor name in perpetual.__all__: getattr(perpetual, name)\n"
        "try: perpetual.lob\nexcept AttributeError as e: print(e)"
    )
    assert "lob" in out


def test_a_plugin_author_loads_no_command_line() -> None:
    _, modules = _python("import perpetual.api")
    assert not _loaded(modules, HEAVY | {"click", "pluggy", "perpetual.cli", "perpetual.lab", "perpetual.registry"})
    _, modules = _python("from perpetual.api import CliContext, json_option, pass_cli")
    assert {"click", "perpetual.commands"} <= modules
    assert not _loaded(modules, {"perpetual.lab", "rich"})


def test_the_kernel_loads_nothing_heavy() -> None:
    kernel = Path(__file__).parents[2] / "perpetual"
    names = [
        ".".join(("perpetual", *path.relative_to(kernel).with_suffix("").parts)).removesuffix(".__init__")
        for path in sorted(kernel.rglob("*.py"))
        if path.name not in ("__main__.py", "shim.py")
        and "testing" not in path.parts
        and "of_plugin(__name__)"
        not in path.read_text("utf-8")  # a plugin's module, which the kernel itself never loads
    ]
    assert len(names) > 50
    _, modules = _python(f"import importlib\nfor name in {names!r}: importlib.import_module(name)")
    assert not _loaded(modules, HEAVY | {"pytest"})


@pytest.mark.parametrize("where", ["in a project", "outside"])
def test_help_loads_little(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    if where == "outside":
        monkeypatch.chdir(tmp_path)
    cold, _ = _python(_PROGRAM, "--help")
    warm, modules = _python(_PROGRAM, "--help")
    assert warm == cold
    assert "More commands" in warm
    assert not _loaded(modules, HEAVY | {"pluggy", "perpetual.lab", "click"})
    for environment in ({"COLUMNS": "60"}, {"PERPETUAL_WITHOUT": "demo"}):  # another text each, not the one kept
        slow, _ = _python(_LONG_WAY, "--help", **environment)
        fast, _ = _python(_PROGRAM, "--help", **environment)
        assert fast == slow != warm


def test_a_plain_command_loads_what_it_needs(project: Path) -> None:
    _python(_LONG_WAY, "events", "--json")
    out, modules = _python(_LONG_WAY, "events", "--json")
    assert json.loads(out)["items"][0]["kind"] == "project_created"
    assert "tinydb" in modules  # the record is read
    assert not _loaded(modules, (HEAVY | {"pluggy"}) - {"tinydb"})


@pytest.fixture
def research(project: Path) -> Path:
    """A project with something to tell, one line of it odd."""
    with Lab.open(project) as lab:
        lab.hypotheses.add("warm-up helps, they say", tags=["a"])
        lab.hypotheses.add("a terminal \x1b[31mescape and a ü")
        lab.experiments.propose("h1", command="true")
        lab.memory.write("notes/one.md", "# What was seen\n")
    return project


_FAST: dict[str, list[str]] = {
    "version": ["--version"],
    "version, JSON": ["--version", "--json"],
    "status": ["status"],
    "status, JSON": ["status", "--json"],
    "JSON before": ["--json", "status"],
    "brief": ["brief"],
    "brief, JSON": ["brief", "--json"],
    "brief, short": ["brief", "--tokens", "40"],
    "hook": ["hook", "session-start"],
    "hook, JSON": ["hook", "user-prompt", "--json"],
}


@pytest.mark.parametrize("arguments", _FAST.values(), ids=_FAST)
def test_the_fast_path_loads_little_and_says_the_same(research: Path, arguments: list[str]) -> None:
    _python(_LONG_WAY, "status")  # warms what is kept
    fast, modules = _python(_PROGRAM, *arguments)
    assert not _loaded(modules, HEAVY | {"click", "pluggy", "perpetual.lab", "perpetual.registry", "perpetual.config"})
    slow, modules = _python(_LONG_WAY, *arguments)
    assert "click" in modules
    assert fast == slow
    assert fast.strip()


_CHANGES: dict[str, Callable[[Lab], Any]] = {
    "a deed": lambda lab: lab.hypotheses.add("something new"),
    "the configuration": lambda lab: lab.config.set("project", "renamed"),
    "the methodology": lambda lab: lab.settings.set_methodology("exploration_strategy", "information-gain"),
    "a lost status": lambda lab: (lab.root / ".perpetual" / "status.json").unlink(),
}


@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_the_fast_path_declines_what_is_stale(research: Path, change: Callable[[Lab], Any]) -> None:
    _python(_LONG_WAY, "status")
    with Lab.open(research) as lab:
        change(lab)
    stale, modules = _python(_PROGRAM, "status", "--json")
    assert "click" in modules
    with Lab.open(research) as lab:
        now = lab.status()
    shown = json.loads(stale)
    assert shown == {"schema": "perpetual.status/1", **{key: value for key, value in now.items() if key != "brief"}}
    again, modules = _python(_PROGRAM, "status", "--json")
    assert again == stale
    assert "click" not in modules


@pytest.mark.parametrize("variable", ["PERPETUAL_STORE", "XDG_CONFIG_HOME", "PERPETUAL_TRACE_HOOKS"])
def test_the_fast_path_leaves_what_it_does_not_know(research: Path, tmp_path: Path, variable: str) -> None:
    value = {"PERPETUAL_STORE": "tinydb", "XDG_CONFIG_HOME": str(tmp_path), "PERPETUAL_TRACE_HOOKS": "1"}[variable]
    _python(_LONG_WAY, "status")
    out, modules = _python(_PROGRAM, "brief", **{variable: value})
    assert "click" in modules
    assert out.startswith("# The state of the research")

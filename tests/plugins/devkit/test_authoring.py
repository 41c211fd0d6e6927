"""`perpetual plugins new`: what it writes works as it is, and it writes the whole of it or nothing."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from perpetual.cli.app import run
from perpetual.errors import Conflict, PerpetualError, UsageError
from perpetual.slots.table import SLOTS as ALL_SLOTS
from perpetual.testing.plugin import write_distribution
from perpetual_devkit.authoring import KINDS, PREFIX, new_plugin

SLOTS = [*(slot.name for slot in ALL_SLOTS.values() if slot.template is not None), *KINDS]
HOOKS = {"observer": "perpetual_event", "kinds": "perpetual_kinds", "family": "perpetual_slots"}
LONG = ("store", "scheduler", "mcp")  # their contract suites


def name_of(slot: str) -> str:
    return f"fresh-{slot.replace('_', '-')}"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A new plugin of each slot, by the slot."""
    folder = tmp_path_factory.mktemp("plugins")
    return {slot: Path(new_plugin(name_of(slot), slot, folder).path) for slot in SLOTS}


def test_every_slot_can_be_written() -> None:
    assert set(SLOTS) == {*ALL_SLOTS, "observer", "kinds", "family"}


@pytest.mark.parametrize("slot", SLOTS)
def test_a_new_plugin_is_whole(written: dict[str, Path], slot: str) -> None:
    folder, package = written[slot], name_of(slot).replace("-", "_")
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["name"] == folder.name == PREFIX + name_of(slot)
    points = project["project"]["entry-points"]["perpetual.plugins"]
    assert points == {name_of(slot): f"perpetual_{package}.plugin"}
    for path in ("README.md", ".gitignore", ".github/workflows/test.yml"):
        text = (folder / path).read_text("utf-8")
        assert text.endswith("\n")
        assert "{%" not in text
    assert "${{ matrix.python }}" in (folder / ".github/workflows/test.yml").read_text("utf-8")
    hook = HOOKS[slot] if slot in HOOKS else ALL_SLOTS[slot].hook
    assert f"def {hook}(" in (folder / f"perpetual_{package}" / "plugin.py").read_text("utf-8")
    for file in folder.rglob("*.py"):
        text = file.read_text("utf-8")
        assert file.name == "__init__.py" or ast.get_docstring(ast.parse(text)), file
        assert max(map(len, text.splitlines()), default=0) <= 120, file


@pytest.mark.slow
def test_the_tests_of_new_plugins_pass(written: dict[str, Path]) -> None:
    """All but those whose contract suites take long: they are installed and tested with the outside distributions."""
    folders = [folder for slot, folder in written.items() if slot not in LONG]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--import-mode=importlib",
         "--rootdir", str(folders[0].parent), "-c", os.devnull, *map(str, folders)],
        cwd=folders[0].parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.splitlines()[-1].split()[0]) > 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS])
def test_plugins_check_finds_nothing_wrong(written: dict[str, Path], kind: str, tmp_path: Path) -> None:
    name = name_of(kind)
    points = {name: f"perpetual_{name.replace('-', '_')}.plugin"}
    site = write_distribution(tmp_path, {}, points, name=PREFIX + name).folder
    done = subprocess.run(
        [sys.executable, "-m", "perpetual", "plugins", "check", name, "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (site, written[kind])))},
        cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(item["ok"] for item in json.loads(done.stdout)["items"])
    assert len(json.loads(done.stdout)["items"]) == 1


def test_the_store_is_built_and_keeps_what_was_written(
    written: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(written["store"]))
    from importlib import import_module

    build = import_module("perpetual_fresh_store.store").build
    with build({"timeout_s": 1.0}, path=tmp_path / "store").transaction() as tx:
        tx.create("hypothesis", {"statement": "x"})
    again = build({"timeout_s": 1.0}, path=tmp_path / "store")
    assert [document.id for document in again.find("hypothesis")] == ["h1"]


def test_the_scheduler_is_built_and_runs_a_command(
    written: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib import import_module

    from perpetual.slots.scheduler import LaunchSpec

    monkeypatch.syspath_prepend(str(written["scheduler"]))
    scheduler = import_module("perpetual_fresh_scheduler.scheduler").build({})
    argv = (sys.executable, "-c", "print('acc=0.9')")
    spec = LaunchSpec("r1", argv, tmp_path, dict(os.environ), tmp_path / "r1", wall_s=60.0, grace_s=1.0)
    spec.log_dir.mkdir()
    scheduler.check(spec)
    seen = scheduler.wait(scheduler.launch(spec).native_id, spec.log_dir, 30.0)
    assert (seen.state, seen.exit_code) == ("ended", 0)
    assert scheduler.logs(spec.log_dir).read_text("utf-8") == "acc=0.9\n"


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "Upper", "under_score", "-dash", "dash-", "a--b", "1st", "ü", "../x", "x" * 41])
def test_a_bad_name_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no name of a plugin"):
        new_plugin(name, "store", tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_the_prefix_is_not_said_twice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave perpetual-plugin- out"):
        new_plugin(f"{PREFIX}x", "store", tmp_path)


@pytest.mark.parametrize("slot", ["mpc", "sotre", ""])
def test_a_slot_that_cannot_be_written_names_those_that_can(tmp_path: Path, slot: str) -> None:
    with pytest.raises(UsageError) as told:
        new_plugin("x", slot, tmp_path)
    assert all(known in f"{told.value.hint}" for known in SLOTS)


def test_a_folder_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / f"{PREFIX}mine"
    folder.mkdir()
    (folder / "work").write_text("of weeks")
    with pytest.raises(Conflict, match="exists already"):
        new_plugin("mine", "store", tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == [folder.name, "work"]


def test_a_package_that_is_installed_is_not_hidden(tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="perpetual_tinydb is installed"):
        new_plugin("tinydb", "store", tmp_path)


def test_a_plugin_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(PerpetualError, match="cannot be written"):
        new_plugin("x", "store", tmp_path / "file")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(PerpetualError, match="No space left"):
        new_plugin("x", "store", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# --- the command --------------------------------------------------------------------------------------------


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["plugins", "new", "x", "--slot", "gate", "-t", str(tmp_path)]
    assert run([*line, "--dry-run", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned.pop("dry_run") is True
    assert [*tmp_path.iterdir()] == []
    assert run([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == planned
    folder = Path(planned["path"])
    assert (
        sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) == planned["files"]
    )
    assert run([*line, "--json"]) == 6
    capsys.readouterr()


def test_a_command_may_not_have_a_name_of_the_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "new", "status", "--slot", "command", "-t", str(tmp_path)]) == 2
    assert "is a command of Perpetual itself" in capsys.readouterr().err
    assert run(["plugins", "new", "status", "--slot", "gate", "-t", str(tmp_path)]) == 0
    assert "perpetual_status/plugin.py" in capsys.readouterr().out

"""The contract suite of mirrors fails on each mirror that breaks one promise, and on no other."""

from __future__ import annotations

import inspect
import json
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from perpetual_mirrors.base import Mirror, MirroredRun, safe_name
from perpetual_mirrors.testing import MirrorContract

NAMES = [name for name, _ in inspect.getmembers(MirrorContract, inspect.isfunction) if name.startswith("test_")]


class Files(Mirror):
    """Keeps the contract: a JSON file for each run."""

    def open(self, folder: Path) -> None:
        self.folder = folder

    def push(self, run: MirroredRun) -> None:
        (self.folder / f"{run.key}.json").write_text(json.dumps({"key": run.key, "metrics": run.finals()}))

    def keys(self) -> Sequence[str]:
        return [json.loads(path.read_text())["key"] for path in self.folder.glob("*.json")]


class InMemory(Files):
    """Keeps them as long as it is open."""

    def open(self, folder: Path) -> None:
        super().open(folder)
        (folder / "here").touch()
        self.held: dict[str, MirroredRun] = {}

    def push(self, run: MirroredRun) -> None:
        self.held[run.key] = run

    def keys(self) -> Sequence[str]:
        return [*self.held]


class Appends(Files):
    """Writes a further file at each push of the same content."""

    def push(self, run: MirroredRun) -> None:
        (self.folder / f"{run.key}-{len([*self.folder.iterdir()])}.json").write_text(json.dumps({"key": run.key}))


class NamedByTitle(Files):
    """Takes a run whose title has changed for another run."""

    def push(self, run: MirroredRun) -> None:
        name = safe_name(run.title, "a-z")
        (self.folder / f"{run.run}-{name}.json").write_text(json.dumps({"key": run.key}))


class Fussy(Files):
    """Takes no metric whose name it does not like."""

    def push(self, run: MirroredRun) -> None:
        if any(not name.isascii() for name in run.curves):
            raise ValueError("a bad name")
        super().push(run)


class ByMetric(Files):
    """Writes a file for each metric, by its name, wherever that leads."""

    def push(self, run: MirroredRun) -> None:
        super().push(run)
        if "../../out" in run.curves:
            (self.folder / "../out").write_text("1")


class AtHome(Files):
    """Leaves its settings in the home."""

    def open(self, folder: Path) -> None:
        super().open(folder)
        if folder.is_dir():
            Path(os.environ["HOME"], ".acme").write_text("seen")


class Telemetry(Files):
    """Tells its maker."""

    def push(self, run: MirroredRun) -> None:
        super().push(run)
        with socket.socket() as out:
            out.settimeout(0.01)
            try:
                out.connect(("192.0.2.1", 9))
            except OSError:
                return


class Rounds(Files):
    """Rounds the values that it was handed."""

    def push(self, run: MirroredRun) -> None:
        super().push(run)
        for curve in run.curves.values():
            assert isinstance(curve.values, list)
            curve.values[:] = [round(value, 1) for value in curve.values]


class Swallows(Files):
    """Says nothing where it could not write."""

    def push(self, run: MirroredRun) -> None:
        try:
            super().push(run)
        except OSError:
            return


BROKEN: dict[type[Files], set[str]] = {
    Files: set(),
    InMemory: {"test_a_pushed_run_is_held"},
    Appends: {"test_a_repeated_push_makes_no_second_run", "test_a_changed_run_takes_its_own_place"},
    NamedByTitle: {"test_a_changed_run_takes_its_own_place"},
    Fussy: {"test_bad_names_and_numbers_arrive", "test_everything_lies_in_its_folder"},
    ByMetric: {"test_everything_lies_in_its_folder"},
    AtHome: {"test_everything_lies_in_its_folder"},
    Telemetry: {"test_nothing_leaves_the_machine"},
    Rounds: {"test_the_run_is_not_changed"},
    Swallows: {"test_a_run_that_cannot_be_kept_raises"},
}


def holds(name: str, mirror: Files, tmp_path: Path, patch: pytest.MonkeyPatch) -> bool:
    """Whether a mirror passes one test of the suite."""
    for folder in ("mirror", "home", "cwd"):
        (tmp_path / folder).mkdir()
    patch.setenv("HOME", str(tmp_path / "home"))
    test: Callable[..., None] = getattr(MirrorContract(), name)
    wanted = inspect.signature(test).parameters
    given: dict[str, object] = {"mirror": mirror, "folder": tmp_path / "mirror", "monkeypatch": patch}
    try:
        if "opened" in wanted:
            mirror.open(tmp_path / "mirror")
            given["opened"] = mirror
        test(**{key: given[key] for key in wanted})
    except (AssertionError, ValueError, pytest.fail.Exception):
        return False
    return True


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_the_suite_bites(kind: type[Files], tmp_path: Path) -> None:
    failed = set()
    for name in NAMES:
        (tmp_path / name).mkdir()
        with pytest.MonkeyPatch.context() as patch:
            if not holds(name, kind(), tmp_path / name, patch):
                failed.add(name)
    assert failed == BROKEN[kind]


def test_every_test_of_the_suite_has_a_mirror_that_fails_it() -> None:
    assert set().union(*BROKEN.values()) == set(NAMES)

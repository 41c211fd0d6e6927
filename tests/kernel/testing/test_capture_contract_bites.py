"""The capture's contract suite fails on every capture that breaks one promise."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import pytest

from perpetual.slots.capture import Capture, CodeReader, CodeState, RunChanges, RunEnd, RunFacts, RunStart
from perpetual.testing.captures import SECRET, CaptureContract
from perpetual.testing.redactors import bundled_redactor


def _hashes(folder: Path) -> dict[str, str]:
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


class Whole(CodeReader):
    """Reads the program of a command by its content."""

    kinds: ClassVar[tuple[str, ...]] = ("whole",)

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, argv: Sequence[str], cwd: str | None) -> CodeState:
        path = self._root / "train.py"
        if not path.is_file():
            return CodeState(why="there is no program")
        return CodeState("whole", sha256(path.read_bytes()).hexdigest())

    def same(self, before: CodeState, now: CodeState) -> bool | None:
        return None if now.sha256 is None else before.sha256 == now.sha256

    def changed_since(self, before: CodeState, now: CodeState) -> Sequence[str] | None:
        return ["train.py"]


class Sound(Capture):
    """Keeps the contract: it hashes what is protected, and the program."""

    reader: type[Whole] = Whole

    def before(self, start: RunStart) -> RunFacts:
        found = _hashes(start.root / start.protected_paths[0]) if start.protected_paths else {}
        return RunFacts({"sound": found}, {"environment": "1"}, ("nothing else is looked at",))

    def after(self, end: RunEnd) -> RunChanges:
        if "sound" not in end.facts:
            return RunChanges()
        changed = end.facts["sound"] != _hashes(end.root / "eval")
        return RunChanges(("protected paths have changed",) if changed else (), compared_protected=True)

    def code_reader(self, root: Path, ignored: Sequence[str]) -> CodeReader | None:
        return self.reader(root)


class TakesTheKernelsName(Sound):
    """A fact of the kernel's own name."""

    def before(self, start: RunStart) -> RunFacts:
        found = super().before(start)
        return replace(found, facts={**found.facts, "seed": 1})


class AnswersAPath(Sound):
    """A fact that is no JSON when it is read back."""

    def before(self, start: RunStart) -> RunFacts:
        found = super().before(start)
        return replace(found, facts={**found.facts, "pair": (1, 2)})


class Counts(Sound):
    """Another version at each look."""

    seen = 0

    def before(self, start: RunStart) -> RunFacts:
        self.seen += 1
        return replace(super().before(start), versions={"environment": str(self.seen)})


class LeavesAMark(Sound):
    """It writes into the project."""

    def before(self, start: RunStart) -> RunFacts:
        (start.root / "captured").write_text(start.run_id)
        return super().before(start)


class WritesWhereItIs(Sound):
    """It writes into the working directory."""

    def after(self, end: RunEnd) -> RunChanges:
        Path("captured").write_text(end.run_id)
        return super().after(end)


class KeepsTheEnvironment(Sound):
    """Every variable with its value."""

    def before(self, start: RunStart) -> RunFacts:
        found = super().before(start)
        return replace(found, facts={**found.facts, "all": dict(start.env)})


class CopiesEverything(Sound):
    """Every file of the project as it is."""

    def before(self, start: RunStart) -> RunFacts:
        for path in start.root.iterdir():
            if path.is_file():
                (start.folder / path.name).write_bytes(path.read_bytes())
        return super().before(start)


class WantsAProgram(Sound):
    """It reads the program whether there is one or not."""

    def before(self, start: RunStart) -> RunFacts:
        (start.cwd / start.argv[-1]).read_bytes()
        return super().before(start)


class Suspects(Sound):
    """Every run is tainted."""

    def after(self, end: RunEnd) -> RunChanges:
        return RunChanges(("one never knows",))


class SaysSo(Sound):
    """It claims to have compared what it never saw."""

    def after(self, end: RunEnd) -> RunChanges:
        found: Mapping[str, str] = end.facts.get("sound", {})
        now = _hashes(end.root / "eval")
        return RunChanges(("changed",) if found and found != now else (), compared_protected=True)


class LooksAtOldFiles(Sound):
    """A file that was added is no change to it."""

    def after(self, end: RunEnd) -> RunChanges:
        now = _hashes(end.root / "eval")
        known: Mapping[str, str] = end.facts.get("sound", {})
        changed = any(now.get(path) != digest for path, digest in known.items())
        return RunChanges(("changed",) if changed else (), compared_protected="sound" in end.facts)


class Restless(Whole):
    """Each reading is other code."""

    def read(self, argv: Sequence[str], cwd: str | None) -> CodeState:
        return super().read(argv, cwd)._replace(sha256=os.urandom(4).hex())


class NeverTheSame(Sound):
    reader = Restless


class Sure(Whole):
    """It compares what is unknown."""

    def same(self, before: CodeState, now: CodeState) -> bool | None:
        return before.sha256 == now.sha256


class ComparesTheUnknown(Sound):
    reader = Sure


class Blind(Whole):
    """All code is the same."""

    def same(self, before: CodeState, now: CodeState) -> bool | None:
        return None if now.sha256 is None else True


class SeesNoChange(Sound):
    reader = Blind


_FACTS = "test_facts_are_json_under_names_of_their_own"
_ALONE = "test_files_are_written_into_the_runs_folder_alone"
_PROTECTED = "test_a_change_of_a_protected_path_is_a_taint"

BROKEN: list[tuple[type[Sound], str]] = [
    (TakesTheKernelsName, _FACTS),
    (AnswersAPath, _FACTS),
    (Counts, "test_the_same_project_has_the_same_versions"),
    (LeavesAMark, _ALONE),
    (WritesWhereItIs, _ALONE),
    (KeepsTheEnvironment, "test_no_secret_is_kept"),
    (CopiesEverything, "test_no_secret_is_kept"),
    (WantsAProgram, "test_odd_projects_raise_nothing"),
    (Suspects, "test_a_project_that_has_not_changed_has_no_taint"),
    (SaysSo, "test_what_was_not_captured_was_not_compared"),
    (LooksAtOldFiles, _PROTECTED),
    (NeverTheSame, "test_the_same_contents_are_the_same_code"),
    (ComparesTheUnknown, "test_the_same_contents_are_the_same_code"),
    (SeesNoChange, "test_other_contents_are_other_code"),
]
_CASES = {
    "odd": ("empty", "no folder", "no program", "odd names"),
    "deed": ("changed", "removed", "added"),
}


def _tests() -> dict[str, Callable[..., None]]:
    return {name: test for name, test in vars(CaptureContract).items() if name.startswith("test_")}


def _run(name: str, capture: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = _tests()[name]
    wanted = inspect.signature(test).parameters
    case = next((key for key in _CASES if key in wanted), None)
    for number, value in enumerate(_CASES[case] if case else (None,)):
        place = folder / str(number)
        place.mkdir(parents=True)
        given: dict[str, Any] = {"tmp_path": place, "monkeypatch": monkeypatch, case or "": value}
        test(CaptureContract(), capture, **{key: item for key, item in given.items() if key in wanted})


def test_there_is_a_broken_capture_for_every_promise() -> None:
    assert {name for _, name in BROKEN} == {*_tests()}


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_a_broken_capture_fails(
    broken: type[Sound], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(name, Sound(), tmp_path / "sound", monkeypatch)
    error = FileNotFoundError if broken is WantsAProgram else AssertionError
    with pytest.raises(error):
        _run(name, broken(), tmp_path / "broken", monkeypatch)


def test_the_secret_has_the_form_that_is_looked_for() -> None:
    assert bundled_redactor().text(SECRET) != SECRET

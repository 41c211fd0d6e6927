"""The scaffolder suite bites: each broken twin of the bundled scaffolder fails the test of its promise."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perpetual.errors import UsageError
from perpetual.slots.scaffolder import ScaffoldAnswer, Scaffolder, ScaffoldView
from perpetual.slots.sections import Finding
from perpetual.testing.scaffolders import Place, ScaffolderContract
from perpetual_harnesses.files import build


class Whole(Scaffolder):
    """The whole twin."""

    def __init__(self) -> None:
        self.inner = build({})

    def chosen(self, view: ScaffoldView, names: Sequence[str] = ()) -> list[str]:
        return self.inner.chosen(view, names)

    def scaffold(
        self,
        view: ScaffoldView,
        names: Sequence[str] = (),
        *,
        remove: Sequence[str] = (),
        command: Sequence[str] | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> ScaffoldAnswer:
        return self.inner.scaffold(view, names, remove=remove, command=command, dry_run=dry_run, force=force)

    def examine(self, view: ScaffoldView) -> list[tuple[str, Finding]]:
        return self.inner.examine(view)


class SortsNames(Whole):
    """The order of the names is lost."""

    def chosen(self, view: ScaffoldView, names: Sequence[str] = ()) -> list[str]:
        return sorted(super().chosen(view, names))


class PassesOverUnknown(Whole):
    """A name that is not offered is left out without a word."""

    def chosen(self, view: ScaffoldView, names: Sequence[str] = ()) -> list[str]:
        try:
            return super().chosen(view, names)
        except UsageError:
            return []


class ChoosesTheFirst(Whole):
    """No names are the first harness, whatever is there."""

    def chosen(self, view: ScaffoldView, names: Sequence[str] = ()) -> list[str]:
        return super().chosen(view, names or [view.harnesses[0].name])


class BuildsAll(Whole):
    """Every harness is imported by every call."""

    def scaffold(self, view: ScaffoldView, names: Sequence[str] = (), **asked: Any) -> ScaffoldAnswer:
        for offer in view.harnesses:
            offer.build()
        return super().scaffold(view, names, **asked)


class WritesJsonAnew(Whole):
    """A merged file is written in its own form."""

    def scaffold(self, view: ScaffoldView, names: Sequence[str] = (), **asked: Any) -> ScaffoldAnswer:
        answer = super().scaffold(view, names, **asked)
        path = view.root / "a.json"
        if path.exists() and not asked.get("remove"):
            path.write_text(json.dumps(json.loads(path.read_text()), indent=2))
        return answer


class AddsALine(Whole):
    """Each call leaves one more empty line."""

    def scaffold(self, view: ScaffoldView, names: Sequence[str] = (), **asked: Any) -> ScaffoldAnswer:
        answer = super().scaffold(view, names, **asked)
        with (view.root / "AGENTS.md").open("a") as file:
            file.write("\n")
        return answer


class LeavesAFolder(Whole):
    """What it made for its files stays behind."""

    def scaffold(self, view: ScaffoldView, names: Sequence[str] = (), **asked: Any) -> ScaffoldAnswer:
        answer = super().scaffold(view, names, **asked)
        (view.root / "deep").mkdir(exist_ok=True)
        return answer


class AlwaysForces(Whole):
    """A person's edit of a generated file is overwritten."""

    def scaffold(self, view: ScaffoldView, names: Sequence[str] = (), **asked: Any) -> ScaffoldAnswer:
        return super().scaffold(view, names, **{**asked, "force": True})


class MendsJson(Whole):
    """A file that is no JSON is replaced by one that is."""

    def scaffold(self, view: ScaffoldView, names: Sequence[str] = (), **asked: Any) -> ScaffoldAnswer:
        path = view.root / "a.json"
        if path.exists() and "not json" in path.read_text():
            path.write_text("{}")
        return super().scaffold(view, names, **asked)


class FollowsLinks(Whole):
    """A plan's path is written wherever it leads."""

    def scaffold(self, view: ScaffoldView, names: Sequence[str] = (), **asked: Any) -> ScaffoldAnswer:
        for offer in view.harnesses:
            for plan in offer.build().scaffold(project=view.project, command=("perpetual",)).files:
                if plan.path.startswith("link/"):
                    (view.root / plan.path).write_text("x")
        return super().scaffold(view, names, **asked)


class WritesAnyway(Whole):
    """A dry run is none."""

    def scaffold(self, view: ScaffoldView, names: Sequence[str] = (), **asked: Any) -> ScaffoldAnswer:
        planned = super().scaffold(view, names, **asked)
        return planned if not asked.get("dry_run") else {**super().scaffold(view, names), "files": planned["files"]}


class ForgetsTheCommand(Whole):
    """Each call starts from the default."""

    def scaffold(self, view: ScaffoldView, names: Sequence[str] = (), **asked: Any) -> ScaffoldAnswer:
        return super().scaffold(view, names, **{**asked, "command": asked.get("command") or ["perpetual"]})


class AcceptsNothing(Whole):
    """What a person accepted is not looked at."""

    def scaffold(self, view: ScaffoldView, names: Sequence[str] = (), **asked: Any) -> ScaffoldAnswer:
        return super().scaffold(replace(view, accepted=()), names, **asked)


class BelievesTheRecord(Whole):
    """It gives back what it once saw, whichever user has the project now."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[Path, bytes] = {}

    def scaffold(self, view: ScaffoldView, names: Sequence[str] = (), **asked: Any) -> ScaffoldAnswer:
        path = view.root / "AGENTS.md"
        if path.exists():
            self._seen.setdefault(path, path.read_bytes())
        answer = super().scaffold(view, names, **asked)
        if asked.get("remove") and path in self._seen:
            path.write_bytes(self._seen[path])
        return answer


class FindsNothing(Whole):
    """All is well, always."""

    def examine(self, view: ScaffoldView) -> list[tuple[str, Finding]]:
        return [(name, Finding(True, "well", None)) for name, _ in super().examine(view)]


BROKEN: list[tuple[type[Whole], str]] = [
    (SortsNames, "test_names_are_chosen_in_order"),
    (PassesOverUnknown, "test_what_is_not_offered_is_refused"),
    (ChoosesTheFirst, "test_no_names_mean_what_is_there"),
    (BuildsAll, "test_every_way_is_written"),
    (WritesJsonAnew, "test_what_others_have_stays"),
    (AddsALine, "test_a_second_call_changes_nothing"),
    (LeavesAFolder, "test_removal_gives_the_bytes_back"),
    (AlwaysForces, "test_what_a_person_edited_stays"),
    (MendsJson, "test_a_conflict_spares_the_rest"),
    (FollowsLinks, "test_no_file_lies_beyond_the_project"),
    (WritesAnyway, "test_a_dry_run_writes_nothing"),
    (ForgetsTheCommand, "test_the_command_is_kept"),
    (AcceptsNothing, "test_an_accepted_command_counts_first"),
    (BelievesTheRecord, "test_another_users_record_is_not_believed"),
    (FindsNothing, "test_what_stands_is_found"),
]


def _tests() -> dict[str, Callable[..., None]]:
    return {name: test for name, test in vars(ScaffolderContract).items() if name.startswith("test_")}


def _run(name: str, scaffolder: Scaffolder, request: pytest.FixtureRequest) -> None:
    test = _tests()[name]
    given = [each for each in inspect.signature(test).parameters if each not in ("self", "scaffolder")]
    test(ScaffolderContract(), scaffolder=scaffolder, **{each: request.getfixturevalue(each) for each in given})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made: Place = inspect.unwrap(ScaffolderContract.place)(ScaffolderContract(), tmp_path, monkeypatch)
    return made


def test_there_is_a_broken_twin_for_every_promise() -> None:
    assert {name for _, name in BROKEN} == set(_tests())


@pytest.mark.parametrize("name", [name for _, name in BROKEN])
def test_a_sound_scaffolder_passes(name: str, request: pytest.FixtureRequest) -> None:
    _run(name, Whole(), request)


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_a_broken_scaffolder_fails(broken: type[Whole], name: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        _run(name, broken(), request)

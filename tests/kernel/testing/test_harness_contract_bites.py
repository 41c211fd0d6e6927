"""The harness suite bites: each broken harness fails the test that holds its promise, the whole twin none."""

from __future__ import annotations

import inspect
import itertools
import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perpetual.slots.harness import FilePlan, Harness, ListCommand, Scaffold
from perpetual.testing.harnesses import HarnessContract


class Whole(Harness):
    """The whole twin: one file of each way."""

    def scaffold(self, *, project: str, command: tuple[str, ...]) -> Scaffold:
        server = {"command": command[0], "args": [*command[1:], "mcp"]}
        hook = f"{shlex.join(command)} hook session-start"
        return Scaffold(
            (
                FilePlan(".acme/servers.json", "json", keys=("servers", "perpetual"), value=server),
                FilePlan(".acme/servers.json", "json_items", keys=("hooks", "start"), value=[hook]),
                FilePlan(".acme/agents.toml", "toml", keys=("servers", "perpetual"), value=server),
                FilePlan(".acme/skill.md", "own", text="# Perpetual\n\nThe lab.\n"),
                FilePlan("AGENTS.md", "block", text=f"The lab of {project} is Perpetual.\n"),
                FilePlan("ACME.md", "block", text="@AGENTS.md\n", existing_only=True),
            ),
            ("Start acme once and trust the folder.",),
        )

    def detect(self, folder: Path) -> bool:
        return (folder / ".acme").exists()

    def program(self) -> str | None:
        return "acme"

    def listing(self) -> ListCommand | None:
        return ListCommand(("acme", "servers"), accepted="perpetual", waiting="asks")


class _Changed(Whole):
    """Whole, but for one thing."""

    def change(self, answer: Scaffold) -> Scaffold:
        raise NotImplementedError

    def scaffold(self, *, project: str, command: tuple[str, ...]) -> Scaffold:
        return self.change(super().scaffold(project=project, command=command))


def _with(answer: Scaffold, *plans: FilePlan) -> Scaffold:
    return replace(answer, files=(*answer.files, *plans))


class AsksForNothing(_Changed):
    """No file at all."""

    def change(self, answer: Scaffold) -> Scaffold:
        return Scaffold(())


class HasItsOwnWay(_Changed):
    """A way that nobody knows."""

    def change(self, answer: Scaffold) -> Scaffold:
        return _with(answer, FilePlan("x.ini", "ini", text="x = 1"))


class ReplacesTheDocument(_Changed):
    """A value without a path is the whole file."""

    def change(self, answer: Scaffold) -> Scaffold:
        return _with(answer, FilePlan("x.json", "json", value={"perpetual": 1}))


class LeavesTheProject(_Changed):
    """A file of the user's own."""

    def change(self, answer: Scaffold) -> Scaffold:
        return _with(answer, FilePlan("../.acme.md", "own", text="x"))


class WritesIntoTheLab(_Changed):
    """A file in the lab's folder."""

    def change(self, answer: Scaffold) -> Scaffold:
        return _with(answer, FilePlan(".perpetual/acme.md", "own", text="x"))


class WritesBackslashes(_Changed):
    """A path of another system."""

    def change(self, answer: Scaffold) -> Scaffold:
        return _with(answer, FilePlan(".acme\\notes.md", "own", text="x"))


class AnswersNoJson(_Changed):
    """A value that no JSON file can hold."""

    def change(self, answer: Scaffold) -> Scaffold:
        return _with(answer, FilePlan("x.json", "json", keys=("limit",), value=float("nan")))


class EndsLinesTwice(_Changed):
    """A text from a checkout with other line ends."""

    def change(self, answer: Scaffold) -> Scaffold:
        return replace(answer, files=tuple(replace(p, text=p.text.replace("\n", "\r\n")) for p in answer.files))


class StartsWhatItLikes(Whole):
    """The command that it was given is not used."""

    def scaffold(self, *, project: str, command: tuple[str, ...]) -> Scaffold:
        return super().scaffold(project=project, command=("perpetual",))


class LooksAround(_Changed):
    """What it asks for depends on the working directory."""

    def change(self, answer: Scaffold) -> Scaffold:
        return answer if not Path("AGENTS.md").exists() else replace(answer, files=answer.files[:-1])


class RepeatsAStep(_Changed):
    """The same step for a person, twice."""

    def change(self, answer: Scaffold) -> Scaffold:
        return replace(answer, trust=answer.trust * 2)


class WritesByItself(_Changed):
    """The file is there before anybody said yes."""

    def change(self, answer: Scaffold) -> Scaffold:
        Path(".acme").mkdir(exist_ok=True)
        return answer


class WritesIntoTheHome(Whole):
    """Looking is remembered."""

    def detect(self, folder: Path) -> bool:
        Path(os.environ["HOME"], ".acme-seen").touch()
        return super().detect(folder)


class SetsEverybodysServers(_Changed):
    """The entry is set with the object around it."""

    def change(self, answer: Scaffold) -> Scaffold:
        server = answer.files[0]
        return replace(
            answer, files=(replace(server, keys=("servers",), value={"perpetual": server.value}), *answer.files[1:])
        )


class SetsEverybodysTables(_Changed):
    """The table is set with the one around it."""

    def change(self, answer: Scaffold) -> Scaffold:
        plans = [
            replace(plan, keys=plan.keys[:-1], value={plan.keys[-1]: plan.value}) if plan.how == "toml" else plan
            for plan in answer.files
        ]
        return replace(answer, files=tuple(plans))


class LooksOutside(_Changed):
    """A file in place of another that is the user's own."""

    def change(self, answer: Scaffold) -> Scaffold:
        return _with(answer, FilePlan("x.md", "own", text="x", instead=("../x.md",)))


class AsksAStranger(Whole):
    """The listing is another program's."""

    def listing(self) -> ListCommand | None:
        return ListCommand(("rm", "-r", "."), accepted="perpetual")


class TakesEveryAnswer(Whole):
    """Nothing that is printed is a no."""

    def listing(self) -> ListCommand | None:
        return ListCommand(("acme", "servers"), accepted="")


class ContradictsItself(_Changed):
    """Two plans of different kinds for one file."""

    def change(self, answer: Scaffold) -> Scaffold:
        return _with(answer, FilePlan("AGENTS.md", "own", text="mine"))


class NeverWritesIt(_Changed):
    """Two plans that set the same folder as a file."""

    def change(self, answer: Scaffold) -> Scaffold:
        return _with(answer, FilePlan(".acme", "own", text="a file where a folder is"))


class ReplacesTheirList(_Changed):
    """A list is set as a value instead of its items being added."""

    def change(self, answer: Scaffold) -> Scaffold:
        plans = [replace(p, how="json") if p.how == "json_items" else p for p in answer.files]
        return replace(answer, files=tuple(plans))


class SetsWhatTheyChose(_Changed):
    """A value of the whole file that people choose themselves, and that removal cannot know."""

    def change(self, answer: Scaffold) -> Scaffold:
        return _with(answer, FilePlan(".acme/servers.json", "json", keys=("theirs",), value=2))


class Counts(_Changed):
    """Each answer is a new one."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def change(self, answer: Scaffold) -> Scaffold:
        return _with(answer, FilePlan(".acme/time.md", "own", text=f"written at {next(self._numbers)}\n"))


class DropsALeaflet(Whole):
    """Something is written on the way that no plan names, so removal leaves it."""

    def scaffold(self, *, project: str, command: tuple[str, ...]) -> Scaffold:
        for path in self.folder.iterdir():
            (path / "leaflet.txt").write_text("thank you for choosing acme")
        return super().scaffold(project=project, command=command)

    folder: Path  # where the test's projects are


class IsEverywhere(Whole):
    """Every folder is one of its own."""

    def detect(self, folder: Path) -> bool:
        return True


BROKEN: list[tuple[type[Harness], str]] = [
    (AsksForNothing, "test_it_asks_for_files"),
    (HasItsOwnWay, "test_it_asks_for_files"),
    (ReplacesTheDocument, "test_it_asks_for_files"),
    (LeavesTheProject, "test_paths_stay_in_the_project"),
    (WritesIntoTheLab, "test_paths_stay_in_the_project"),
    (WritesBackslashes, "test_paths_stay_in_the_project"),
    (AnswersNoJson, "test_texts_and_values_can_be_written"),
    (EndsLinesTwice, "test_texts_and_values_can_be_written"),
    (StartsWhatItLikes, "test_perpetual_is_started_as_it_was_told"),
    (LooksAround, "test_the_same_call_gives_the_same_answer"),
    (Counts, "test_the_same_call_gives_the_same_answer"),
    (RepeatsAStep, "test_what_is_left_to_a_person_is_said"),
    (WritesByItself, "test_it_touches_nothing"),
    (WritesIntoTheHome, "test_it_touches_nothing"),
    (AsksAStranger, "test_the_doctor_can_ask"),
    (TakesEveryAnswer, "test_the_doctor_can_ask"),
    (LooksOutside, "test_paths_stay_in_the_project"),
    (SetsEverybodysTables, "test_an_object_goes_under_a_key_of_our_own"),
    (SetsEverybodysTables, "test_what_others_have_stays"),
    (SetsEverybodysServers, "test_an_object_goes_under_a_key_of_our_own"),
    (ContradictsItself, "test_every_file_can_be_written"),
    (NeverWritesIt, "test_every_file_can_be_written"),
    (SetsEverybodysServers, "test_what_others_have_stays"),
    (ReplacesTheirList, "test_what_others_have_stays"),
    (SetsWhatTheyChose, "test_what_others_have_stays"),
    (Counts, "test_applying_twice_changes_nothing"),
    (DropsALeaflet, "test_removing_gives_the_earlier_bytes_back"),
    (IsEverywhere, "test_a_folder_without_its_files_is_not_detected"),
]


def _tests() -> dict[str, Callable[..., None]]:
    return {name: test for name, test in vars(HarnessContract).items() if name.startswith("test_")}


def _run(name: str, harness: Harness, folder: Path) -> None:
    test = _tests()[name]
    folder.mkdir()
    if isinstance(harness, DropsALeaflet):
        harness.folder = folder
    given: dict[str, Any] = {"harness": harness}
    with pytest.MonkeyPatch.context() as patch:
        if "tmp_path" in inspect.signature(test).parameters:
            given["tmp_path"] = folder
        if "monkeypatch" in inspect.signature(test).parameters:
            given["monkeypatch"] = patch
        test(HarnessContract(), **given)


def test_there_is_a_broken_twin_for_every_promise() -> None:
    assert {name for _, name in BROKEN} == set(_tests())


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[f"{broken.__name__}-{name}" for broken, name in BROKEN])
def test_a_broken_harness_fails(broken: type[Harness], name: str, tmp_path: Path) -> None:
    _run(name, Whole(), tmp_path / "whole")
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        _run(name, broken(), tmp_path / "broken")

"""The contract suite of the harness slot: every promise of `perpetual.slots.harness`, as tests to be subclassed.

    class TestAcmeHarness(HarnessContract):
        @pytest.fixture
        def harness(self):
            return acme.harness.build({})

The files are merged and taken out again by the bundled scaffolder, in folders that hold other people's entries. Nothing
but pytest is needed.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from perpetual.config import FOLDER
from perpetual.registry import Registry
from perpetual.slots.harness import WAYS, FilePlan, Harness, ListCommand, Scaffold
from perpetual.slots.scaffolder import OfferedHarness, Scaffolder, ScaffoldView
from perpetual.slots.table import SLOTS

__all__ = ["HarnessContract"]

_NAME = "under-test"
_COMMAND = ("/opt/acme tools/bin/perpetual", "--safe")
_NAMES = ("demo", "Größe & 'Gewicht' \"2\" {{program}} %s", "perpetual")


@cache
def _scaffolder() -> Scaffolder:
    """Returns the bundled scaffolder."""
    registry = Registry(safe=True)
    built: Scaffolder = registry.build(registry.choose("scaffolder", str(SLOTS["scaffolder"].default)), {})
    return built


def _project(folder: Path) -> Path:
    (folder / FOLDER).mkdir(parents=True)
    return folder


def _apply(root: Path, harness: Harness, *, remove: bool = False) -> dict[str, str]:
    """Returns what the scaffolder did to each file."""
    offered = OfferedHarness(_NAME, f"contract/{_NAME}", lambda: harness)
    view = ScaffoldView(root, root / FOLDER, root.name, (offered,), lambda name: offered)
    names, removed = ([], [_NAME]) if remove else ([_NAME], [])
    answer = _scaffolder().scaffold(view, names, remove=removed, command=_COMMAND)
    for item in answer["files"]:
        assert item["action"] != "conflict", f"{item['path']}: {item['reason']}"
    return {item["path"]: item["action"] for item in answer["files"]}


def _snapshot(root: Path) -> dict[str, bytes | None]:
    """Returns every file outside of `.perpetual/` with its bytes, every folder with None."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
        if FOLDER not in path.relative_to(root).parts
    }


def _plans(harness: Harness, project: str = "demo", command: tuple[str, ...] = _COMMAND) -> tuple[FilePlan, ...]:
    answer = harness.scaffold(project=project, command=command)
    assert isinstance(answer, Scaffold)
    return answer.files


def _shared(plan: FilePlan) -> bool:
    """Returns whether a JSON plan's key is one under which other people have entries too."""
    return "perpetual" not in plan.keys[-1].lower()


def _theirs(plans: Sequence[FilePlan]) -> str:
    """Returns what other people have in a file.

    In JSON and TOML an entry beside each of ours, in another one some lines.
    """
    if any(plan.how == "toml" for plan in plans):
        above = dict.fromkeys(".".join(map(json.dumps, [*plan.keys[:-1], "theirs"])) for plan in plans)
        tables = [f'[{name}]\ncommand = "é" # a comment\nargs = [ ]' for name in above]
        shared = [f"[{'.'.join(map(json.dumps, plan.keys))}.theirs]\ncommand = 'é'" for plan in plans if _shared(plan)]
        return "# Theirs\nlevel = 1.50\n\n" + "\n\n".join([*tables, *shared])  # no line end at the end
    document: dict[str, Any] = {"theirs": 1.50}
    is_json = False
    for plan in plans:
        if plan.how in ("json", "json_items"):
            is_json, here = True, document
            for key in plan.keys[:-1]:
                here = here.setdefault(key, {})
                here["theirs"] = {"command": "é\\n", "args": []}
            if plan.how == "json_items" or (_shared(plan) and isinstance(plan.value, (list, tuple))):
                here[plan.keys[-1]] = ["theirs"]
            elif _shared(plan) and isinstance(plan.value, dict):
                here.setdefault(plan.keys[-1], {})["theirs"] = {"command": "é"}
    if is_json:
        return json.dumps(document, indent=3)  # no line end at the end: it must be missing afterwards too
    return "# Theirs é\r\n\r\nSome lines,\r\nthe last one without an end"


def _with_theirs(root: Path, plans: Sequence[FilePlan]) -> dict[str, bytes | None]:
    """Writes other people's content into every shared file and returns the contents."""
    for path in dict.fromkeys(plan.path for plan in plans if plan.how != "own"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        content = _theirs([plan for plan in plans if plan.path == path])
        (root / path).write_bytes(content.encode("utf-8"))
    return _snapshot(root)


def _kept(before: object, after: Any, where: str) -> None:
    """Raises AssertionError unless everything of `before` is in `after`."""
    if isinstance(before, dict):
        assert isinstance(after, dict), f"{where} is no object any more"
        for key, value in before.items():
            assert key in after, f"{where}.{key} is gone"
            _kept(value, after[key], f"{where}.{key}")
    elif isinstance(before, list):
        assert [item for item in after if item in before] == before, f"{where} lost an item"
    else:
        assert after == before, where


class HarnessContract:
    """For every harness."""

    # --- the answer -----------------------------------------------------------------------------------------

    def test_it_asks_for_files(self, harness: Harness) -> None:
        """At least one, each with what its way needs."""
        plans = _plans(harness)
        assert plans, "it asks for nothing"
        for plan in plans:
            assert type(plan) is FilePlan
            assert plan.how in WAYS, f"{plan.path}: {plan.how!r} is no way of {WAYS}"
            if plan.how in ("own", "block"):
                assert plan.text.strip(), f"{plan.path}: {plan.how} without a text"
            else:
                assert plan.keys, f"{plan.path}: without keys the whole document would be replaced"
                assert all(type(key) is str for key in plan.keys), plan.path
            if plan.how == "json_items":
                assert isinstance(plan.value, (list, tuple)), f"{plan.path}: json_items takes a list"
                assert plan.value, plan.path
            if plan.how == "toml":
                assert isinstance(plan.value, dict), f"{plan.path}: toml takes a table"

    def test_paths_stay_in_the_project(self, harness: Harness) -> None:
        """Relative, with slashes, and not in the lab's own folder."""
        for path in (path for plan in _plans(harness) for path in (plan.path, *plan.instead)):
            parts = PurePosixPath(path).parts
            assert parts, "an empty path"
            assert "\\" not in path, path
            assert ":" not in parts[0], path
            assert not PurePosixPath(path).is_absolute(), path
            assert ".." not in parts, path
            assert parts[0] != FOLDER, path

    def test_texts_and_values_can_be_written(self, harness: Harness) -> None:
        """UTF-8 with plain line feeds, and JSON that is read back as it was."""
        for name in _NAMES:
            for plan in _plans(harness, project=name):
                assert plan.text.encode("utf-8", "replace").decode("utf-8") == plan.text, plan.path
                assert "\r" not in plan.text, f"{plan.path}: line ends are the scaffolder's business"
                try:
                    written = json.dumps(plan.value, allow_nan=False)
                except (TypeError, ValueError) as problem:
                    pytest.fail(f"{plan.path}: {problem}")
                value = list(plan.value) if isinstance(plan.value, tuple) else plan.value
                assert json.loads(written) == value, plan.path

    def test_perpetual_is_started_as_it_was_told(self, harness: Harness) -> None:
        """Every word of `command` is used, and a program of another name is not."""
        for command in (_COMMAND, ("uvx", "--from", "perpetual-lab", "perpetual")):
            plans = _plans(harness, command=command)
            # What is printed for a person, where the harness's configuration is outside of projects.
            printed = getattr(harness.scaffold(project="demo", command=command), "snippets", ())
            values = [plan.value for plan in plans] + [snippet.value for snippet in printed]
            told = "\n".join([plan.text for plan in plans] + [json.dumps(one, ensure_ascii=False) for one in values])
            for word in command:
                assert word in told, f"{word!r} of {command} is nowhere"
            if command[0] != _COMMAND[0]:
                assert _COMMAND[0] not in told

    def test_the_same_call_gives_the_same_answer(
        self, harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever the working directory holds, and whenever it is asked."""
        monkeypatch.chdir(tmp_path)
        first = harness.scaffold(project="demo", command=_COMMAND)
        _project(tmp_path / "project")
        _with_theirs(tmp_path / "project", first.files)
        monkeypatch.chdir(tmp_path / "project")
        assert harness.scaffold(project="demo", command=_COMMAND) == first

    def test_what_is_left_to_a_person_is_said(self, harness: Harness) -> None:
        """Each step once, in words."""
        trust = harness.scaffold(project="demo", command=_COMMAND).trust
        assert isinstance(trust, tuple)
        assert all(type(step) is str and step.strip() for step in trust)
        assert len(set(trust)) == len(trust)

    def test_the_doctor_can_ask(self, harness: Harness) -> None:
        """The program is a name to look up; a listing starts it, and its patterns can be searched."""
        program, listing = harness.program(), harness.listing()
        assert program is None or (program and not set(program) & set("/\\ ")), f"{program!r} is no program's name"
        if listing is not None:
            assert type(listing) is ListCommand
            assert listing.command[:1] == (program,), "a listing asks the harness's own program"
            assert listing.accepted, "every answer would be a yes"
            for pattern in (listing.accepted, listing.waiting):
                try:
                    re.compile(pattern)
                except re.error as problem:
                    pytest.fail(f"{pattern!r}: {problem}")

    def test_it_touches_nothing(self, harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Answering writes no file: neither in the working directory nor in the user's own."""
        folder, home = tmp_path / "project", tmp_path / "home"
        for place in (folder, home):
            place.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("HOME", str(home))
        harness.scaffold(project="demo", command=_COMMAND)
        harness.detect(folder)
        assert (_snapshot(folder), _snapshot(home)) == ({}, {})
        assert os.listdir(home) == []

    def test_an_object_goes_under_a_key_of_our_own(self, harness: Harness) -> None:
        """Setting it elsewhere would replace what others have there; so would a list."""
        for plan in _plans(harness):
            if plan.how == "toml" or (plan.how == "json" and isinstance(plan.value, (dict, list, tuple))):
                assert not _shared(plan), f"{plan.path}: {'.'.join(plan.keys)} is not Perpetual's own"

    # --- in a folder ----------------------------------------------------------------------------------------

    def test_every_file_can_be_written(self, harness: Harness, tmp_path: Path) -> None:
        """In a fresh folder, whatever the project is called; no two plans contradict each other."""
        root = _project(tmp_path / "project")
        actions = _apply(root, harness)
        needed = {plan.path for plan in _plans(harness) if not plan.existing_only}
        assert needed <= set(_snapshot(root)), "a file that is asked for was not written"
        assert set(actions.values()) <= {"created", "merged"}

    def test_what_others_have_stays(self, harness: Harness, tmp_path: Path) -> None:
        """Their entries in JSON files, their lines in texts."""
        root = _project(tmp_path / "project")
        before = _with_theirs(root, _plans(harness))
        _apply(root, harness)
        for path, content in before.items():
            after = (root / path).read_bytes() if content is not None else b""
            if content is not None and content.startswith(b"{"):
                _kept(json.loads(content), json.loads(after), path)
            elif content is not None and content.startswith(b"# Theirs\nlevel"):
                _kept(tomllib.loads(content.decode()), tomllib.loads(after.decode()), path)
                assert b"# a comment" in after, path
            elif content is not None:
                assert content in after, path

    def test_applying_twice_changes_nothing(self, harness: Harness, tmp_path: Path) -> None:
        """In a fresh folder, and in one with other people's content."""
        for place in ("fresh", "theirs"):
            root = _project(tmp_path / place)
            if place == "theirs":
                _with_theirs(root, _plans(harness))
            _apply(root, harness)
            once = _snapshot(root)
            assert set(_apply(root, harness).values()) == {"unchanged"}, place
            assert _snapshot(root) == once

    def test_removing_gives_the_earlier_bytes_back(self, harness: Harness, tmp_path: Path) -> None:
        """A fresh folder is empty again; other people's files are what they were."""
        fresh = _project(tmp_path / "fresh")
        _apply(fresh, harness)
        _apply(fresh, harness, remove=True)
        assert _snapshot(fresh) == {}
        theirs = _project(tmp_path / "theirs")
        before = _with_theirs(theirs, _plans(harness))
        _apply(theirs, harness)
        _apply(theirs, harness, remove=True)
        assert _snapshot(theirs) == before

    def test_a_folder_without_its_files_is_not_detected(self, harness: Harness, tmp_path: Path) -> None:
        """Otherwise `init` would choose it everywhere."""
        root = _project(tmp_path / "project")
        (root / "train.py").write_text("print('acc=1')\n")
        assert harness.detect(root) is False
        assert harness.detect(tmp_path / "missing") is False

"""`memory clone`: a working tree that a person edits and pushes from, without a git program to make it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.errors import Conflict, NotFound, NotPermitted, UsageError
from perpetual.slots.memory import Memory
from perpetual.testing.memory_notes import FolderMemory

Git = Callable[..., str]

pytestmark = pytest.mark.usefixtures("unsynced")


def test_a_clone_is_edited_and_pushed(project: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lab.open(project) as lab:
        lab.memory.write("notes/a.md", "one\n")
        lab.memory.write("notes/Ümlaut.md", "two\n")
        with monkeypatch.context() as patch:
            patch.setenv("PATH", str(tmp_path))  # where no git is
            how = lab.memory.clone(tmp_path / "deep" / "mine")
        assert "git push" in how
        assert "candidate" in how
        work = tmp_path / "deep" / "mine"
        assert (work / "notes/Ümlaut.md").read_text() == "two\n"
        assert git(work, "status", "--porcelain") == "", "index and tree are as git has them"
        assert git(work, "branch", "-vv").startswith("* main"), "it follows origin"
        assert [entry.name for entry in work.parent.iterdir()] == ["mine"]
        (work / "notes/b.md").write_text("by hand\n")
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", "by hand")
        git(work, "push", "-q")
        lab.scan()
        assert lab.memory.get("notes/b.md").actor == "git:Ada-Lovelace"
    assert git(work, "fsck", "--strict", "--no-dangling", errors=True).strip() == ""


def test_an_empty_memory_is_not_cloned(project: Path, tmp_path: Path) -> None:
    with Lab.open(project) as lab, pytest.raises(NotFound, match="no note yet"):
        lab.memory.clone(tmp_path / "mine")
    assert not (tmp_path / "mine").exists()
    assert not (project / ".perpetual" / "memory.git").exists(), "asking makes no repository"


@pytest.mark.parametrize("what", ["full", "file", "link", "dangling"])
def test_what_is_there_already_stays(project: Path, tmp_path: Path, what: str) -> None:
    place, other = tmp_path / "mine", tmp_path / "other"
    if what == "full":
        place.mkdir()
        (place / "x").write_text("x")
    elif what == "file":
        place.write_text("x")
    else:
        place.symlink_to(other)
        if what == "link":
            other.mkdir()
    before = sorted(tmp_path.rglob("*"))
    with Lab.open(project) as lab:
        lab.memory.write("notes/a.md", "one\n")
        with pytest.raises(Conflict, match="no empty folder"):
            lab.memory.clone(place)
    after = [path for path in sorted(tmp_path.rglob("*")) if project not in path.parents]
    assert after == [path for path in before if project not in path.parents]


def test_an_empty_folder_is_taken(project: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with Lab.open(project) as lab:
        lab.memory.write("notes/a.md", "one\n")
        lab.memory.clone(tmp_path / "mine")
    assert (tmp_path / "mine/notes/a.md").read_text() == "one\n"


def test_an_agent_clones_nothing(project: Path, tmp_path: Path) -> None:
    """A clone holds quarantined texts, which agents are not shown."""
    with Lab.open(project, actor="mcp:c/1") as lab, pytest.raises(NotPermitted):
        lab.memory.clone(tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_another_memory_says_that_it_cannot(tmp_path: Path) -> None:
    memory: Memory = FolderMemory(tmp_path / "notes")
    with pytest.raises(UsageError, match="cannot be cloned"):
        memory.clone(tmp_path / "mine")


def test_links_and_names_of_a_strangers_tree_stay_inside(project: Path, git: Git, tmp_path: Path) -> None:
    with Lab.open(project) as lab:
        lab.memory.write("notes/a.md", "one\n")
        lab.memory.clone(tmp_path / "first")
        work = tmp_path / "first"
        (work / "link.md").symlink_to(tmp_path / "secret")
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", "a link")
        git(work, "push", "-q")
        lab.scan()
        lab.memory.write("link.md", "a note in its place\n")
        lab.memory.clone(tmp_path / "second")
    assert (tmp_path / "second/link.md").read_text() == "a note in its place\n"
    assert not (tmp_path / "secret").exists()


def test_the_command_says_how_to_push(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Lab.open(project) as lab:
        lab.memory.write("notes/a.md", "one\n")
    place = os.path.join("..", "mine")
    assert run(["memory", "clone", place]) == 0
    said = capsys.readouterr().out
    assert place in said
    assert "git push" in said
    assert run(["memory", "clone", place]) == 6

"""Trouble with git: a note is written all the same, and the user's own repository is as it was.

A dirty tree, a detached head, a conflict, hooks that fail, a lock left behind, no identity, a huge file, a git that is
not there: notes are in a repository of their own, and no git program and no configuration of the user takes part.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.errors import TransientError
from perpetual_git.repository import NoteRepository

Git = Callable[..., str]
PROGRAM = shutil.which("git")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="git is not installed")


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": os.devnull, "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    named = [str(PROGRAM), "-c", "user.name=u", "-c", "user.email=u@example.org", *arguments]
    done = subprocess.run(named, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def state(project: Path) -> dict[str, object]:
    """Everything of the user's repository, and of the tree but `.perpetual`."""
    files = {
        str(path.relative_to(project)): path.read_bytes()
        for path in sorted(project.rglob("*"))
        if path.is_file()
        and path.stat().st_size < 2**20
        and ".perpetual" not in path.parts
        and ".git/objects" not in str(path)
    }
    return {"files": files, "objects": sorted(git(project, "count-objects", "-v").splitlines())}


def commit(project: Path, name: str, text: str) -> None:
    (project / name).write_text(text)
    git(project, "add", name)
    git(project, "commit", "-q", "--no-verify", "-m", name)


def dirty(project: Path) -> None:
    (project / "train.py").write_text("changed\n")
    (project / "new.py").write_text("new\n")
    git(project, "add", "new.py")


def detached(project: Path) -> None:
    git(project, "checkout", "-q", "--detach")


def conflict(project: Path) -> None:
    git(project, "checkout", "-q", "-b", "side")
    commit(project, "train.py", "one side\n")
    git(project, "checkout", "-q", "main")
    commit(project, "train.py", "other side\n")
    git(project, "merge", "side", check=False)
    assert (project / ".git" / "MERGE_HEAD").exists()


def failing_hooks(project: Path) -> None:
    memory = project / ".perpetual" / "memory.git"
    for hooks in (project / ".git" / "hooks", memory / "hooks"):
        hooks.mkdir(parents=True, exist_ok=True)
        for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "pre-receive"):
            (hooks / name).write_text(f"#!/bin/sh\ntouch '{project}/hook-ran'\nexit 1\n")
            (hooks / name).chmod(0o755)


def locked_index(project: Path) -> None:
    (project / ".git" / "index.lock").write_text("")
    (project / ".perpetual" / "memory.git" / "index.lock").write_text("")


def huge_file(project: Path) -> None:
    with (project / "checkpoint.bin").open("wb") as file:
        file.truncate(2**33)  # sparse


def no_commit_yet(project: Path) -> None:
    shutil.rmtree(project / ".git")
    git(project, "init", "-q", "-b", "main")


TROUBLES = [dirty, detached, conflict, failing_hooks, locked_index, no_commit_yet, huge_file]


@pytest.fixture
def repository(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a user's repository, with one note; no user is known to git."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(project / "no-home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    git(project, "init", "-q", "-b", "main")
    (project / ".git" / "info" / "exclude").write_text(".perpetual\n")
    commit(project, "train.py", "print('loss=1')\n")
    with Lab.open(project) as lab:
        lab.memory.write("notes/first", "the first")
    return project


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_a_note_is_written_and_the_users_repository_is_as_it_was(
    repository: Path, trouble: Callable[[Path], None]
) -> None:
    trouble(repository)
    before = state(repository)
    with Lab.open(repository) as lab:
        answer = lab.memory.write("notes/second", "the second")
        assert answer["commit"]
        lab.scan()
        assert lab.memory.read("notes/first") == "the first"
        assert len(lab.memory.history("notes/second")) == 1
    assert state(repository) == before
    assert not (repository / "hook-ran").exists()


def test_no_git_program_is_needed(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with Lab.open(repository) as lab:
        assert lab.memory.write("notes/second", "the second")["commit"]


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"])
def test_gits_variables_lead_nowhere_else(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    """As in a hook of the user's repository, where git sets them."""
    place = repository / ".git" if variable == "GIT_DIR" else tmp_path / "elsewhere"
    before = state(repository)
    with monkeypatch.context() as patch:
        patch.setenv(variable, str(place))
        with Lab.open(repository) as lab:
            commit_id = lab.memory.write("notes/second", "the second")["commit"]
            lab.memory.clone(tmp_path / "mine")
    assert state(repository) == before
    assert git(repository / ".perpetual" / "memory.git", "rev-parse", "main").strip() == commit_id
    assert (tmp_path / "mine" / "notes" / "second.md").read_text() == "the second"


def test_a_branch_that_a_push_holds_queues_the_note(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoteRepository, "open", lambda path: NoteRepository(path, lock_wait_s=0.1))
    lock = repository / ".perpetual" / "memory.git" / "refs" / "heads" / "main.lock"
    lock.write_text("")
    with Lab.open(repository) as lab:
        with pytest.raises(TransientError, match="could not be moved"):
            lab.memory.write("notes/second", "the second", idempotency_key="k")
        assert lab.memory.read("notes/second") == "the second", "it is in the store"
        assert lab.memory.get("notes/second").commit is None
        lock.unlink()
        lab.scan()
        assert lab.memory.get("notes/second").commit is not None
        assert lab.memory.write("notes/second", "the second", idempotency_key="k")["status"] == "candidate"
        assert len(lab.memory.history("notes/second")) == 1


def test_the_memorys_head_may_name_anything(repository: Path) -> None:
    """Detached, or on another branch: notes are on main."""
    memory = repository / ".perpetual" / "memory.git"
    (memory / "HEAD").write_text("ref: refs/heads/other\n")
    with Lab.open(repository) as lab:
        made = lab.memory.write("notes/second", "the second")["commit"]
    assert git(memory, "rev-parse", "main").strip() == made
    assert git(memory, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]

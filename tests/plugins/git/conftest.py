"""For this folder's tests: a git command line that reads nobody's configuration, and a note repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perpetual_git.repository import NoteRepository


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """`git(folder, *arguments)` runs the real git there and answers what it printed.

    `check=False` lets it fail and answers `failed: ` with its complaints; `errors=True` adds them to what
    a successful one printed.
    """
    program = shutil.which("git")
    if program is None:
        pytest.skip("git is not installed")
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
    }
    for role in ("AUTHOR", "COMMITTER"):
        environment[f"GIT_{role}_NAME"] = "Ada Lovelace"
        environment[f"GIT_{role}_EMAIL"] = "ada@example.org"
        environment[f"GIT_{role}_DATE"] = "2026-01-02T03:04:05+00:00"

    def run(folder: Path, *arguments: str, check: bool = True, errors: bool = False) -> str:
        done = subprocess.run(
            [program, *arguments], cwd=folder, env=environment, capture_output=True, timeout=60, check=False
        )
        said, complaints = (part.decode("utf-8", "backslashreplace") for part in (done.stdout, done.stderr))
        if done.returncode != 0:
            assert not check, f"git {' '.join(arguments)}: {said}{complaints}"
            return f"failed: {said}{complaints}"
        return said + complaints if errors else said

    return run


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spares the disk: what a process leaves to the page cache outlives the process, so only a test of the
    order of syncs can tell the difference."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the repository of a test stands."""
    return tmp_path / "project" / "memory.git"


@pytest.fixture
def notes(folder: Path) -> Iterator[NoteRepository]:
    """An empty repository in `folder`, closed afterwards."""
    with NoteRepository.open(folder, lock_wait_s=5.0) as repository:
        yield repository

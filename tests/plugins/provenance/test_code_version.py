"""The version of a folder's code: the same contents are the same version, and reading it has limits."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from perpetual.api import CodeState
from perpetual_provenance.code_version import HASHED_BYTES, Ignore, Reader

COMMAND = ("sh", "job.sh")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose project lies in a folder of it."""
    root = tmp_path / "repository/project"
    (root / "docs").mkdir(parents=True)
    for name in ("job.sh", "docs/text", "../shared.py"):
        (root / name).write_text("one\n")
    _git(root.parent, "init", "-q", ".")
    _commit(root)
    return root


def _git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=root, check=True)


def _commit(root: Path) -> None:
    _git(root, "add", "-A", "..")
    _git(root, "commit", "-qm", "more")


def _state(root: Path, command: tuple[str, ...] = COMMAND, hashed_bytes: int = HASHED_BYTES) -> CodeState:
    return Reader(root, ["docs/**", "*.md"], hashed_bytes=hashed_bytes).read(command, None)


def _changes(root: Path, before: CodeState, now: CodeState) -> list[str] | None:
    return Reader(root, ["docs/**", "*.md"]).changed_since(before, now)


def test_contents_decide_whichever_commit_holds_them(root: Path) -> None:
    first = _state(root)
    (root / "docs/text").write_text("two\n")
    (root / "READ.md").write_text("text")
    assert _state(root).sha256 == first.sha256
    (root.parent / "shared.py").write_text("two\n")
    os.symlink("job.sh", root / "link")
    _git(root, "add", "link")
    second = _state(root)
    assert (second.dirty, first.dirty) == (True, False)
    assert _changes(root, first, second) == ["project/link", "shared.py"]
    _commit(root)
    third = _state(root)
    assert (third.sha256, third.dirty, third.commit == first.commit) == (second.sha256, False, False)
    assert _changes(root, second, third) == []
    assert CodeState.of(second.document()) == second
    (root / "link").unlink()
    assert _changes(root, second, _state(root)) == ["project/link"]
    assert _changes(root, second._replace(commit="0" * 40), _state(root)) is None, "a commit that is gone"
    assert _changes(root, second._replace(commit="--output=x"), _state(root)) is None, "a record may be hostile"
    assert not (root / "x").exists()


def test_line_ends_that_git_converts_make_no_difference(root: Path) -> None:
    _git(root, "config", "core.autocrlf", "true")
    first = _state(root)
    (root / "job.sh").write_bytes(b"one\r\n")
    (root.parent / "shared.py").write_bytes(b"one\r\n")
    assert _state(root).tree == first.tree


def test_code_that_cannot_be_read_is_unknown(root: Path) -> None:
    (root.parent / "shared.py").write_text("two and more\n")
    state = _state(root, hashed_bytes=5)
    assert (state.sha256, state.tree, "bytes" in (state.why or "")) == (None, None, True)
    (root.parent / "shared.py").unlink()
    os.mkfifo(root.parent / "shared.py")
    os.mkfifo(root / "pipe.sh")
    started = time.monotonic()
    assert _state(root, ("sh", "pipe.sh")).kind == "git"
    assert time.monotonic() - started < 10.0, "a pipe is not waited for"


def test_programs_are_those_that_the_command_names_below_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    (root / "pkg").mkdir(parents=True)
    for name in ("a.py", "pkg/mod.py", "pkg/__main__.py", "data.csv", "../outside.py"):
        (root / name).write_text(name)
    os.symlink("../outside.py", root / "link.py")

    def named(*argv: str) -> list[str]:
        return sorted(Reader(root, ()).read(argv, None).programs)

    assert named("python", "a.py", "--data", "data.csv") == ["a.py"]
    assert named("sh", "-c", "exec python a.py") == ["a.py"]
    assert named("python", "-m", "pkg.mod") == ["pkg/mod.py"]
    assert named("python", "-m", "pkg") == ["pkg/__main__.py"]
    assert named("python", "--script=a.py") == ["a.py"]
    assert named("python", "link.py", "../outside.py", "missing.py", "\0.py", "x" * 10_000 + ".py") == []
    assert Reader(root, ()).read(("python", "link.py"), None).sha256 is None


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.md", "a/b.md", True),
        ("*.md", "a.mdx", False),
        ("docs/**", "docs/a/b", True),
        ("docs/**", "a/docs/b", False),
        ("docs", "a/docs/b", True),
        ("a/*/c", "a/b/c/d", True),
        ("a/*/c", "a/b/b/c", False),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/b/b/c", True),
        ("**/x.txt", "a/x.txt", True),
        ("**", "anything/at/all", True),
        ("/a", "b/a", False),
        ("", "a", False),
        ("../x", "x", False),
    ],
)
def test_an_ignored_glob_matches_its_paths(pattern: str, path: str, expected: bool) -> None:
    assert Ignore([pattern]).matches(path) is expected


def test_globs_take_bounded_time() -> None:
    hostile = ["a*" * 90 + "b", "**/a/" * 30 + "b", "[" * 200]
    started = time.monotonic()
    assert not Ignore(hostile).matches("/".join(["a" * 200] * 20))
    assert time.monotonic() - started < 2.0

"""The index of the history answers what the walk answers, whatever people's git does; it is only a cache."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perpetual_git import history_index
from perpetual_git.errors import RepositoryError
from perpetual_git.history_index import index_path
from perpetual_git.repository import NoteRepository

Git = Callable[..., str]
WHEN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of each test's own."""
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put(notes: NoteRepository, intent: int, path: str, content: bytes | None) -> str:
    when = WHEN + timedelta(minutes=intent)
    return notes.commit(path, content, message=f"Note {intent}", author="agent:codex", when=when, intent=intent)


def same(notes: NoteRepository, paths: list[str]) -> int:
    """Checks every path's history against the walk, whole and cut; answers how many versions there were."""
    total = 0
    for path in paths:
        walked = notes.walked_history(path, 10_000)
        assert notes.history(path, 10_000) == walked, path
        assert notes.history(path, 2) == walked[:2], path
        total += len(walked)
    return total


def refused(*_: object, **__: object) -> None:
    raise AssertionError("the walk was taken")


def is_indexed(notes: NoteRepository, path: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the index alone answers."""
    with monkeypatch.context() as patch:
        patch.setattr(NoteRepository, "walked_history", refused)
        try:
            notes.history(path, 5)
        except AssertionError:
            return False
        return True


PATHS = ["a.md", "b.md", "notes/c.md", "notes/d.md", "notes/deep/e.md", "other/f.md", "notes", "odd"]


def _edit(work: Path, random_: random.Random, git: Git) -> None:
    """Changes, adds, removes or turns around a few files of a clone, and commits."""
    for _ in range(random_.randint(1, 3)):
        file = work / random_.choice(PATHS[:6])
        turn = random_.random()
        if file.parent.is_symlink() or file.parent.is_file():
            file.parent.unlink()
        file.parent.mkdir(parents=True, exist_ok=True)
        if turn < 0.2 and file.is_file():
            file.unlink()
        elif turn < 0.3:
            file.unlink(missing_ok=True)
            file.symlink_to("elsewhere.md")
        else:
            if file.is_symlink():
                file.unlink()
            file.write_text(random_.choice(("one", "two", "three")), "utf-8")
            file.chmod(random_.choice((0o644, 0o755)))
    if random_.random() < 0.1:
        (work / "odd").write_text(str(random_.random()), "utf-8")
    git(work, "add", "-A")
    git(work, "commit", "-q", "--allow-empty", "-m", "by hand")


def _merge(work: Path, git: Git, random_: random.Random, other: str) -> None:
    how = random_.choice(("ours", "theirs"))
    said = git(work, "merge", "-q", "--no-edit", "-X", how, other, check=False)
    if said.startswith("failed"):  # a file against a folder, or one that was removed
        git(work, "add", "-A", check=False)
        git(work, "commit", "-q", "-m", "merged by hand", check=False)
        git(work, "merge", "--abort", check=False)
        git(work, "reset", "-q", "--hard", check=False)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.slow
def test_a_random_history_is_told_as_the_walk_tells_it(
    notes: NoteRepository, folder: Path, git: Git, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(seed)
    monkeypatch.setattr(history_index, "_BATCH", 7)
    monkeypatch.setattr(history_index, "_WIDEST", 6)  # so that some commits are too wide
    git(folder, "config", "receive.denyNonFastForwards", "false")
    put(notes, 1, "a.md", b"first")
    work = folder.parent / "work"
    git(folder.parent, "clone", "-q", str(folder), str(work))
    intent = 1
    for turn in range(60):
        deed = random_.random()
        if deed < 0.45:
            intent += 1
            put(notes, intent, random_.choice(PATHS[:6]), random_.choice((b"one", b"two", None)))
        elif deed < 0.6:
            git(work, "checkout", "-q", "-B", f"side{turn}", random_.choice(("HEAD", "HEAD~1")), check=False)
            _edit(work, random_, git)
        elif deed < 0.97:
            _edit(work, random_, git)
            git(work, "fetch", "-q", "origin")
            _merge(work, git, random_, "origin/main")
            branches = git(work, "branch", "--format=%(refname:short)").split()
            if random_.random() < 0.5:
                _merge(work, git, random_, random_.choice(branches))
            git(work, "push", "-q", "origin", "HEAD:main", check=False)
        else:
            git(work, "push", "-q", "--force", "origin", "HEAD:main", check=False)
        if random_.random() < 0.4:
            same(notes, random_.sample(PATHS, 2))
    assert same(notes, PATHS) > 20
    assert is_indexed(notes, "a.md", monkeypatch)
    with NoteRepository.open(folder) as later:
        assert same(later, PATHS) > 20
    os.unlink(index_path(folder))
    with NoteRepository.open(folder) as anew:
        assert same(anew, PATHS) > 20


def test_the_committer_adds_its_commits(
    notes: NoteRepository, folder: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    for intent in range(1, 8):
        put(notes, intent, f"notes/{intent % 2}", b"%d" % (intent // 3))
    monkeypatch.setattr(history_index.HistoryIndex, "_learn", refused)
    assert same(notes, ["notes/0.md", "notes/1.md", "notes/2.md"]) == 6


def test_a_force_pushed_branch_is_told_as_it_is_now(notes: NoteRepository, folder: Path, git: Git) -> None:
    first = put(notes, 1, "a", b"one")
    put(notes, 2, "a", b"two")
    assert len(notes.history("a.md", 9)) == 2
    git(folder, "update-ref", "refs/heads/main", first)
    assert [entry.commit for entry in notes.history("a.md", 9)] == [first]
    later = put(notes, 3, "a", b"three")
    assert [entry.commit for entry in notes.history("a.md", 9)] == [later, first]


@pytest.mark.parametrize("harm", ["garbage", "empty", "cut", "foreign", "version", "rows", "link"])
def test_a_damaged_or_foreign_index_is_made_anew(
    notes: NoteRepository, folder: Path, harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for intent in range(1, 60):
        put(notes, intent, f"notes/{intent % 5}", b"%d" % intent)
    notes.close()
    file = Path(index_path(folder))
    if harm == "garbage":
        file.write_bytes(random.Random(1).randbytes(file.stat().st_size))
    elif harm == "empty":
        file.write_bytes(b"")
    elif harm == "cut":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif harm == "link":
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    else:
        connection = sqlite3.connect(file)
        if harm == "foreign":
            for table in ("commits", "chains", "changes"):
                connection.execute(f"DROP TABLE {table}")
            connection.execute("CREATE TABLE commits (mine)")
        elif harm == "version":
            connection.execute("PRAGMA user_version = 99")
        else:
            connection.execute("UPDATE changes SET id = x'0102', blob = 'text'")
        connection.commit()
        connection.close()
    with NoteRepository.open(folder) as later:
        assert same(later, ["notes/0.md", "notes/4.md"]) == 23
        if harm != "link":
            assert is_indexed(later, "notes/0.md", monkeypatch)
            put(later, 60, "notes/0", b"more")
            assert len(later.history("notes/0.md", 99)) == 12


def test_the_index_of_another_repository_does_no_harm(notes: NoteRepository, folder: Path, tmp_path: Path) -> None:
    put(notes, 1, "a", b"one")
    with NoteRepository.open(tmp_path / "other" / "memory.git") as other:
        put(other, 1, "a", b"another")
        put(other, 2, "a", b"again")
    shutil.copyfile(index_path(tmp_path / "other" / "memory.git"), index_path(folder))
    assert same(notes, ["a.md"]) == 1


def test_a_folder_that_cannot_be_made_is_no_fault(
    notes: NoteRepository, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("a file in the cache's place")
    put(notes, 1, "a", b"one")
    assert same(notes, ["a.md"]) == 1
    assert not is_indexed(notes, "a.md", monkeypatch)


def test_an_index_that_is_locked_holds_up_no_question(
    notes: NoteRepository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_index, "_WAIT_S", 0.05)
    put(notes, 1, "a", b"one")
    with NoteRepository.open(folder) as other:
        holder = sqlite3.connect(index_path(folder), isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        put(other, 2, "a", b"two")
        assert same(other, ["a.md"]) == 2
        holder.execute("ROLLBACK")
        holder.close()
        assert is_indexed(other, "a.md", monkeypatch)


def test_a_damaged_commit_is_named_with_an_index_too(notes: NoteRepository, folder: Path) -> None:
    first = put(notes, 1, "a", b"one")
    put(notes, 2, "a", b"two")
    assert len(notes.history("a.md", 9)) == 2
    file = folder / "objects" / first[:2] / first[2:]
    file.chmod(0o644)
    file.write_bytes(b"garbage")
    with NoteRepository.open(folder) as later, pytest.raises(RepositoryError, match="damaged"):
        later.history("a.md", 9)


@pytest.mark.slow
def test_ten_thousand_commits_are_asked_in_a_millisecond(notes: NoteRepository, folder: Path) -> None:
    for intent in range(1, 10_001):
        put(notes, intent, f"notes/{intent % 200:03d}/{intent % 4000}", b"%d" % intent)
    with NoteRepository.open(folder) as later:
        later.history("notes/000/0.md", 5)
        best = min(_timed(later, f"notes/{n % 200:03d}/{n}.md") for n in range(100))
        assert best < 0.001, best
        assert same(later, ["notes/001/1.md"]) == 3


def _timed(notes: NoteRepository, path: str) -> float:
    begun = time.process_time()
    assert notes.history(path, 50)
    return time.process_time() - begun

"""One repository, one process: what a commit is, what git makes of it, and how it is read again."""

from __future__ import annotations

import os
import random
import stat
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dulwich.objects import ObjectID, Tree

from perpetual_git.commits import Entry, intent_of
from perpetual_git.errors import IntentConflict, RefBusy, RepositoryError, UnknownCommit
from perpetual_git.objects import replaced
from perpetual_git.paths import PathRefused
from perpetual_git.repository import NoteRepository

Git = Callable[..., str]
WHEN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
REAL_FSYNC = os.fsync

pytestmark = pytest.mark.usefixtures("unsynced")


def put(notes: NoteRepository, intent: int, path: str, content: bytes | None, *, author: str = "agent:codex") -> str:
    """Commit with a message and a time that follow from the intent."""
    return notes.commit(
        path,
        content,
        message=f"Note {intent}",
        author=author,
        when=WHEN + timedelta(minutes=intent),
        intent=intent,
    )


def check(git: Git, folder: Path) -> None:
    """git finds nothing to complain about; what a commit left behind unreferenced is no complaint."""
    assert git(folder, "fsck", "--strict", "--full", "--no-dangling", errors=True).strip() == ""


def commits(git: Git, folder: Path, *arguments: str) -> list[str]:
    return git(folder, "log", "--format=%H", "main", *arguments).split()


def clone(git: Git, folder: Path, name: str = "clone") -> Path:
    target = folder.parent / name
    git(folder.parent, "clone", "-q", str(folder), str(target))
    return target


# --- creating and opening ----------------------------------------------------------------------------------


def test_open_creates_a_private_bare_repository_on_main(folder: Path, git: Git) -> None:
    with NoteRepository.open(folder) as notes:
        assert notes.listing() == []
        assert notes.read("a.md") is None
        assert notes.history("a.md", 5) == []
        assert notes.last_intent() == 0
        assert notes.find_intent(1) is None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert git(folder, "symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert git(folder, "rev-parse", "--is-bare-repository").strip() == "true"
    assert [entry.name for entry in folder.parent.iterdir()] == ["memory.git"]


def test_open_takes_an_empty_folder_and_keeps_what_is_there(folder: Path) -> None:
    folder.mkdir(parents=True)
    with NoteRepository.open(folder) as notes:
        first = put(notes, 1, "a", b"one")
    with NoteRepository.open(folder) as notes:
        assert notes.read("a.md") == b"one"
        assert notes.find_intent(1) == first


def test_a_folder_that_is_no_bare_repository_is_refused_and_left_alone(tmp_path: Path, git: Git) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.txt").write_text("mine", encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q")
    file = tmp_path / "file"
    file.touch()
    for path in (full, work, work / ".git", file):
        with pytest.raises(RepositoryError) as error:
            NoteRepository.open(path)
        assert str(path) in str(error.value)
        assert error.value.path == path
    assert [entry.name for entry in full.iterdir()] == ["thesis.txt"]


def test_a_repository_in_another_format_is_refused(folder: Path, git: Git) -> None:
    git(folder.parents[1], "init", "-q", "--bare", "--object-format=sha256", str(folder))
    with pytest.raises(RepositoryError, match="SHA-1"):
        NoteRepository.open(folder)
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 99\n", encoding="utf-8")
    with pytest.raises(RepositoryError, match="cannot be read"):
        NoteRepository.open(folder)


def test_neither_the_users_configuration_nor_any_hook_takes_part(
    folder: Path, tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "another-home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[init]\n defaultBranch = trunk\n[user]\n name = Mallory\n email = m@example.org\n"
        "[core]\n hooksPath = /nonexistent\n[commit]\n gpgSign = true\n[this is no configuration\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Mallory")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z")
    with NoteRepository.open(folder) as notes:
        hooks = folder / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-update"):
            (hooks / name).write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\nexit 1\n", encoding="utf-8")
            (hooks / name).chmod(0o755)
        put(notes, 1, "a", b"one")
    assert not (tmp_path / "ran").exists()
    shown = git(folder, "log", "-1", "--format=%D|%an|%cn|%cI", "main").strip()
    assert shown == "HEAD -> main|agent:codex|Perpetual|2026-03-01T12:01:00+00:00"


# --- what a commit is --------------------------------------------------------------------------------------


def test_git_reads_what_was_committed(notes: NoteRepository, folder: Path, git: Git) -> None:
    first = put(notes, 1, "notes/adam", b"# Adam\n\nlr 3e-4 \xff\n")
    second = put(notes, 2, "caf\u00e9/m\u00fcsli.md", "größer\n".encode())
    third = put(notes, 3, "notes/adam.md", b"# Adam\n\nlr 1e-3\n", author="ada")
    assert commits(git, folder) == [third, second, first]
    shown = git(folder, "log", "-1", "--format=%an|%ae|%aI|%cn|%ce|%cI|%s", third).strip()
    when = "2026-03-01T12:03:00+00:00"
    assert shown == f"ada|ada@perpetual|{when}|Perpetual|memory@perpetual|{when}|Note 3"
    assert git(folder, "log", "--format=%(trailers:key=Perpetual-Intent,valueonly)", "main").split() == list("321")
    assert git(folder, "show", "main:notes/adam.md") == "# Adam\n\nlr 1e-3\n"
    assert git(folder, "show", f"{first}:notes/adam.md") == "# Adam\n\nlr 3e-4 \\xff\n"
    assert git(folder, "ls-tree", "-r", "-z", "main").split("\0")[:-1] == [
        f"100644 blob {blob}\t{path}" for path, blob in notes.listing()
    ]
    assert [path for path, _ in notes.listing()] == ["caf\u00e9/m\u00fcsli.md", "notes/adam.md"]
    assert (clone(git, folder) / "caf\u00e9" / "m\u00fcsli.md").read_text(encoding="utf-8") == "größer\n"
    assert notes.read("notes/adam.md") == b"# Adam\n\nlr 1e-3\n"
    assert notes.read("notes/adam.md", first) == b"# Adam\n\nlr 3e-4 \xff\n"
    assert notes.read("notes/adam.md", first.upper()) == b"# Adam\n\nlr 3e-4 \xff\n"
    check(git, folder)


def test_a_blob_id_is_gits(notes: NoteRepository, folder: Path, git: Git, tmp_path: Path) -> None:
    content = b"\0binary\r\n" * 500
    (tmp_path / "content").write_bytes(content)
    put(notes, 1, "a", content)
    wanted = git(folder, "hash-object", str(tmp_path / "content")).strip()
    assert NoteRepository.blob_id(content) == wanted
    assert notes.listing() == [("a.md", wanted)]


def test_deleting_the_last_note_of_a_folder_removes_the_folder(notes: NoteRepository, folder: Path, git: Git) -> None:
    put(notes, 1, "a/b/c/one.md", b"1")
    put(notes, 2, "a/two.md", b"2")
    put(notes, 3, "a/b/c/one.md", None)
    assert git(folder, "ls-tree", "-r", "-t", "--name-only", "main").split() == ["a", "a/two.md"]
    put(notes, 4, "a/two.md", None)
    assert git(folder, "ls-tree", "main") == ""
    assert notes.listing() == []
    put(notes, 5, "a/two.md", b"again")
    assert notes.read("a/two.md") == b"again"
    check(git, folder)


def test_a_commit_that_changes_nothing_still_carries_its_intent(notes: NoteRepository, folder: Path, git: Git) -> None:
    put(notes, 1, "gone.md", None)
    put(notes, 2, "a.md", b"same")
    put(notes, 3, "a.md", b"same")
    put(notes, 4, "x/y.md", None)
    assert len(commits(git, folder)) == 4
    assert notes.last_intent() == 4
    check(git, folder)


def test_no_note_blocks_the_path_of_another(notes: NoteRepository) -> None:
    put(notes, 1, "a.md", b"note")
    for path in ("a.md/c.md", "d.md/e.md"):
        with pytest.raises(PathRefused, match=r"a folder may not end in \.md"):
            put(notes, 2, path, b"inside a note")
    put(notes, 2, "a/c.md", b"beside it")
    assert [path for path, _ in notes.listing()] == ["a.md", "a/c.md"]


def test_a_refused_path_writes_nothing(notes: NoteRepository, folder: Path) -> None:
    for path in ("../../etc/passwd", ".git/config", "a\0.md", "/abs.md"):
        with pytest.raises(PathRefused):
            put(notes, 1, path, b"x")
    assert not (folder / "refs" / "heads" / "main").exists()
    assert [entry.name for entry in (folder / "objects").iterdir() if len(entry.name) == 2] == []


@pytest.mark.parametrize(
    ("actor", "shown"),
    [
        ("agent:claude-code", "agent:claude-code|agent:claude-code@perpetual"),
        ("Jörg Müller", "Jörg Müller|Jörg-Müller@perpetual"),
        (
            "evil <root@host>\nparent 0000\n\nPerpetual-Intent: 9",
            "evil root@host parent 0000 Perpetual-Intent: 9|",
        ),
        ("  \t\r\n ", "unknown|unknown@perpetual"),
        ("<>", "unknown|unknown@perpetual"),
        (".,;:", "unknown|unknown@perpetual"),
        ("nul\0 and \u202e reversed", "nul and reversed|nul-and-reversed@perpetual"),
        ("lone \udcff surrogate", "lone surrogate|lone-surrogate@perpetual"),
        ("x" * 500, "x" * 100 + "|" + "x" * 100 + "@perpetual"),
        ("研究者", "研究者|研究者@perpetual"),
        ("!!!", "!!!|unknown@perpetual"),
    ],
    ids=ascii,
)
def test_any_actor_makes_an_identity_that_git_accepts(
    notes: NoteRepository, folder: Path, git: Git, actor: str, shown: str
) -> None:
    put(notes, 1, "a", b"x", author=actor)
    assert git(folder, "log", "-1", "--format=%an|%ae", "main").startswith(shown)
    assert notes.history("a.md", 1)[0].author == shown.partition("|")[0]
    assert notes.last_intent() == 1
    check(git, folder)


@pytest.mark.parametrize(
    "message",
    [
        "",
        " \n\n",
        "two\r\nlines\r\n",
        "nul \0 inside",
        "lone \udcff",
        "Perpetual-Intent: 77",
        "x\n\nPerpetual-Intent: 77\n\n",
    ],
    ids=ascii,
)
def test_no_message_hides_or_forges_the_trailer(notes: NoteRepository, folder: Path, git: Git, message: str) -> None:
    made = notes.commit("a", b"x", message=message, author="a", when=WHEN, intent=5)
    assert notes.find_intent(5) == made
    assert notes.find_intent(77) is None
    assert notes.last_intent() == 5
    assert git(folder, "log", "-1", "--format=%(trailers:key=Perpetual-Intent,valueonly)", "main").split() == ["5"]
    assert git(folder, "log", "-1", "--format=%s", "main").strip() != ""
    check(git, folder)


def test_intent_of_reads_the_last_line_only() -> None:
    assert intent_of("a\n\nPerpetual-Intent: 12\n") == 12
    assert intent_of("Perpetual-Intent: 12\n\nafter") is None
    assert intent_of("a\n\nPerpetual-Intent: 0") is None
    assert intent_of("a\n\nPerpetual-Intent: 1 2") is None
    assert intent_of("") is None


def test_a_naive_or_early_time_and_a_bad_intent_are_refused(notes: NoteRepository) -> None:
    for when, intent in (
        (datetime(2026, 1, 1), 1),
        (datetime(1969, 12, 31, tzinfo=UTC), 1),
        (WHEN, 0),
        (WHEN, -3),
    ):
        with pytest.raises(ValueError, match="must be"):
            notes.commit("a", b"x", message="m", author="a", when=when, intent=intent)


# --- intents -----------------------------------------------------------------------------------------------


def test_an_intent_is_carried_out_once(notes: NoteRepository, folder: Path, git: Git) -> None:
    first = put(notes, 1, "a", b"one")
    second = put(notes, 2, "a", None)
    assert put(notes, 1, "a", b"one") == first
    assert put(notes, 2, "a", None) == second
    with NoteRepository.open(folder) as later:
        assert put(later, 1, "a", b"one") == first
    assert commits(git, folder) == [second, first]
    with pytest.raises(IntentConflict, match=first) as conflict:
        put(notes, 1, "a", b"another")
    assert (conflict.value.intent, conflict.value.commit) == (1, first)
    with pytest.raises(IntentConflict):
        put(notes, 1, "b", b"one")


def test_intents_out_of_order_are_each_found(notes: NoteRepository, folder: Path, git: Git) -> None:
    made = {intent: put(notes, intent, "a", b"%d" % intent) for intent in (1, 6, 5)}
    with NoteRepository.open(folder) as later:
        assert put(later, 6, "a", b"6") == made[6]
    assert {intent: notes.find_intent(intent) for intent in made} == made
    assert len(commits(git, folder)) == 3


def test_find_intent_looks_no_further_than_its_limit(notes: NoteRepository) -> None:
    made = [put(notes, intent, "a", b"%d" % intent) for intent in range(1, 6)]
    assert notes.find_intent(3, newest=3) == made[2]
    assert notes.find_intent(2, newest=3) is None
    assert notes.find_intent(2, newest=4) == made[1]


def test_the_same_intents_rebuild_the_same_history(tmp_path: Path) -> None:
    heads: list[list[str]] = []
    for name in ("one.git", "two.git"):
        with NoteRepository.open(tmp_path / name) as notes:
            heads.append(
                [
                    put(notes, 1, "cases/2026-03/a", b"one", author="Jörg <x>"),
                    put(notes, 2, "b", b"two"),
                    put(notes, 3, "cases/2026-03/a", None),
                    put(notes, 4, "cases/2026-03/a", b"four"),
                ]
            )
    assert heads[0] == heads[1]
    assert len(set(heads[0])) == 4


# --- reading -----------------------------------------------------------------------------------------------


def test_listing_is_recursive_and_narrows_by_prefix(notes: NoteRepository) -> None:
    for intent, path in enumerate(("b", "a/x", "a/y/z", "ab", "c/d"), start=1):
        put(notes, intent, path, path.encode())
    everything = ["a/x.md", "a/y/z.md", "ab.md", "b.md", "c/d.md"]
    assert [path for path, _ in notes.listing()] == everything
    for prefix in ("a", "a/", "a/y", "a/y/", "a/y/z.md", "c", "nothing"):
        assert [path for path, _ in notes.listing(prefix)] == [p for p in everything if p.startswith(prefix)]


def test_an_unknown_commit_is_named(notes: NoteRepository) -> None:
    put(notes, 1, "a", b"x")
    for commit in ("0" * 40, "main", "", "../../etc/passwd", NoteRepository.blob_id(b"x"), "\u0661" * 40):
        with pytest.raises(UnknownCommit) as error:
            notes.read("a.md", commit)
        assert error.value.commit == commit


def test_history_tells_deletion_and_return_as_git_does(notes: NoteRepository, folder: Path, git: Git) -> None:
    made = [
        put(notes, 1, "notes/a", b"one"),
        put(notes, 2, "notes/b", b"other"),
        put(notes, 3, "notes/a", b"two", author="ada"),
        put(notes, 4, "notes/a", None),
        put(notes, 5, "notes/b", None),
        put(notes, 6, "notes/a", b"one"),
        put(notes, 7, "notes/a", b"one"),
        put(notes, 8, "c", b"other"),
    ]
    told = notes.history("notes/a.md", 100)
    assert [entry.commit for entry in told] == commits(git, folder, "--", "notes/a.md")
    assert [entry.commit for entry in told] == [made[5], made[3], made[2], made[0]]
    assert [entry.blob for entry in told] == [
        NoteRepository.blob_id(b"one"),
        None,
        NoteRepository.blob_id(b"two"),
        NoteRepository.blob_id(b"one"),
    ]
    assert told[2] == Entry(
        commit=made[2],
        when=WHEN + timedelta(minutes=3),
        author="ada",
        message="Note 3\n\nPerpetual-Intent: 3\n",
        blob=NoteRepository.blob_id(b"two"),
    )
    assert notes.history("notes/a.md", 2) == told[:2]
    assert notes.history("notes/a.md", 0) == []
    assert notes.history("notes/none.md", 5) == []


def test_history_tells_a_folder_from_an_earlier_root_of_the_same_content(notes: NoteRepository) -> None:
    put(notes, 1, "a", b"one")
    made = put(notes, 2, "x/a", b"one")
    put(notes, 3, "b", b"other")
    assert [entry.commit for entry in notes.history("x/a.md", 9)] == [made]


def test_a_damaged_or_missing_object_is_named(notes: NoteRepository, folder: Path) -> None:
    put(notes, 1, "a", b"content")
    put(notes, 2, "b", b"other")
    for content, damage in ((b"content", b"no zlib stream"), (b"other", None)):
        blob = NoteRepository.blob_id(content)
        file = folder / "objects" / blob[:2] / blob[2:]
        whole = file.read_bytes()
        file.chmod(0o600)
        if damage is None:
            file.unlink()
        else:
            file.write_bytes(damage)
        with pytest.raises(RepositoryError, match=blob):
            notes.read("a.md" if damage else "b.md")
        file.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(RepositoryError, match=blob):
            notes.read("a.md" if damage else "b.md")
        file.write_bytes(b"")
        with pytest.raises(RepositoryError, match=blob):
            notes.read("a.md" if damage else "b.md")
    put(notes, 3, "a", b"content")
    assert notes.read("a.md") == b"content", "writing an object again makes it whole"


def test_a_branch_file_that_names_no_commit_is_not_taken_for_an_empty_memory(
    notes: NoteRepository, folder: Path
) -> None:
    put(notes, 1, "a", b"x")
    main = folder / "refs" / "heads" / "main"
    main.write_bytes(b"")
    with pytest.raises(RepositoryError, match="names no commit"):
        put(notes, 2, "b", b"y")
    main.unlink()
    main.mkdir()
    with pytest.raises(OSError, match="main"):
        put(notes, 2, "b", b"y")


# --- durability, and the lock of the branch ----------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to name a descriptor's file")
def test_every_object_is_on_disk_before_the_branch_names_it(
    notes: NoteRepository, folder: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(notes, 1, "deep/down/a", b"one")
    before = set(git(folder, "rev-list", "--objects", "--no-object-names", "main").split())
    steps: list[tuple[str, str]] = []
    replace = os.replace

    def seen_sync(descriptor: int) -> None:
        steps.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))
        REAL_FSYNC(descriptor)

    def seen_replace(source: Path, target: Path) -> None:
        is_cache = target.name == "perpetual-seen"  # after the branch has moved; what is lost of it is looked up anew
        assert is_cache or ("sync", str(source)) in steps or source.name == "main.lock", f"{source} renamed, not synced"
        steps.append(("rename", str(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", seen_sync)
    monkeypatch.setattr(os, "replace", seen_replace)
    put(notes, 2, "deep/down/b", b"two")
    new = set(git(folder, "rev-list", "--objects", "--no-object-names", "main").split()) - before
    assert len(new) == 5, "one blob, three trees, one commit"
    moved = steps.index(("rename", str(folder / "refs/heads/main")))
    for name in new:
        placed = steps.index(("rename", str(folder / "objects" / name[:2] / name[2:])))
        assert placed < steps.index(("sync", str(folder / "objects" / name[:2])), placed) < moved
    assert steps.index(("sync", str(folder / "objects"))) < moved
    assert steps.index(("sync", str(folder / "refs/heads/perpetual-main-next.lock"))) < moved
    assert ("sync", str(folder / "refs/heads")) in steps[moved:]


def test_a_lock_file_left_by_a_killed_git_is_named_after_a_bounded_wait(folder: Path) -> None:
    with NoteRepository.open(folder, lock_wait_s=0.2) as notes:
        first = put(notes, 1, "a", b"one")
        lock = folder / "refs" / "heads" / "main.lock"
        lock.write_bytes(b"")
        started_s = time.monotonic()
        with pytest.raises(RefBusy) as busy:
            put(notes, 2, "a", b"two")
        assert 0.2 <= time.monotonic() - started_s < 30
        assert str(lock) in str(busy.value)
        assert busy.value.lock_file == lock
        assert busy.value.waited_s >= 0.2
        assert lock.exists(), "it is not ours to remove"
        assert notes.read("a.md") == b"one"
        lock.unlink()
        second = put(notes, 2, "a", b"two")
        assert [entry.commit for entry in notes.history("a.md", 9)] == [second, first]


def test_a_commit_waits_for_a_push_that_holds_the_branch(notes: NoteRepository, folder: Path) -> None:
    put(notes, 1, "a", b"one")
    lock = folder / "refs" / "heads" / "main.lock"
    lock.write_bytes(b"")
    release = threading.Timer(0.1, lock.unlink)
    release.start()
    try:
        put(notes, 2, "a", b"two")
    finally:
        release.join()
    assert notes.read("a.md") == b"two"


def test_a_tree_changed_in_place_is_the_tree_written_anew() -> None:
    random_ = random.Random(5)
    names = [b"a", b"a.b", b"a-b", b"a0", b"b", b"b.md", "ü".encode(), b"zz", b"A", b"a\x01"]
    done = 0
    for _ in range(300):
        tree = Tree()
        for name in random_.sample(names, random_.randint(0, len(names))):
            tree[name] = (random_.choice((0o100644, 0o100755, 0o040000, 0o120000, 0o160000)), ObjectID(b"1" * 40))
        name, mode = random_.choice(names), random_.choice((0o100644, 0o040000))
        found = replaced(tree.as_raw_string(), name, mode, ObjectID(b"2" * 40))
        tree[name] = (mode, ObjectID(b"2" * 40))
        done += found is not None
        assert found in (None, tree.as_raw_string())
    assert done > 200


@pytest.mark.parametrize(
    "raw",
    [
        b"100644 b\0" + b"1" * 20 + b"100644 a\0" + b"1" * 20,
        b"100644 a\0" + b"1" * 20 + b"40000 a\0" + b"1" * 20,
        b"0100644 a\0" + b"1" * 20,
    ],
)
def test_an_odd_tree_is_not_changed_in_place(raw: bytes) -> None:
    assert replaced(raw, b"c", 0o100644, ObjectID(b"2" * 40)) is None

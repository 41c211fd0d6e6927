"""What a person's own git does to the repository: pushes between commits, merges, odd files, gc."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID

from perpetual_git.errors import RefBusy, RepositoryError
from perpetual_git.repository import NoteRepository

Git = Callable[..., str]
WHEN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

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


def push_file(git: Git, work: Path, name: str, content: str) -> str:
    """A person commits a file in their clone, brings in what is new, and pushes. Answers their commit."""
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    (work / name).write_text(content, encoding="utf-8")
    git(work, "add", "--", name)
    git(work, "commit", "-q", "-m", f"By hand: {name}")
    git(work, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
    git(work, "push", "-q", "origin", "HEAD:main")
    return git(work, "log", "-1", "--format=%H", "--", name).strip()


def test_pushes_between_commits_lose_nothing(notes: NoteRepository, folder: Path, git: Git) -> None:
    put(notes, 1, "auto/0", b"0")
    work = clone(git, folder)
    for turn in range(2, 7):
        put(notes, turn, f"auto/{turn}", b"%d" % turn)
        push_file(git, work, f"hand/{turn}.md", str(turn))
        put(notes, turn + 100, f"auto/{turn}", b"%d again" % turn)
    listed = dict(notes.listing())
    for turn in range(2, 7):
        assert listed[f"hand/{turn}.md"] == NoteRepository.blob_id(b"%d" % turn)
        assert listed[f"auto/{turn}.md"] == NoteRepository.blob_id(b"%d again" % turn)
    assert len(listed) == 11
    trailers = git(folder, "log", "--format=%(trailers:key=Perpetual-Intent,valueonly)", "main").split()
    assert sorted(map(int, trailers)) == [1, *range(2, 7), *range(102, 107)]
    check(git, folder)


def test_a_push_that_lands_while_a_commit_is_built_is_built_upon(
    notes: NoteRepository, folder: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(notes, 1, "a", b"one")
    work = clone(git, folder)
    pushed: list[str] = []
    link = os.link

    def push_first(source: Path, target: Path) -> None:
        if target.name == "main.lock" and len(pushed) < 2:
            pushed.append(push_file(git, work, f"hand{len(pushed)}.md", "by hand"))
        link(source, target)

    monkeypatch.setattr(os, "link", push_first)
    made = put(notes, 2, "a", b"two")
    assert commits(git, folder, "--first-parent")[:3] == [made, pushed[1], pushed[0]]
    assert [path for path, _ in notes.listing()] == ["a.md", "hand0.md", "hand1.md"]
    check(git, folder)


def test_a_branch_that_keeps_moving_ends_the_wait(folder: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    with NoteRepository.open(folder, lock_wait_s=0.0) as notes:
        put(notes, 1, "a", b"one")
        work = clone(git, folder)
        link = os.link

        def push_first(source: Path, target: Path) -> None:
            if target.name == "main.lock":
                push_file(git, work, "hand.md", "by hand")
            link(source, target)

        monkeypatch.setattr(os, "link", push_first)
        with pytest.raises(RefBusy, match=r"main\.lock"):
            put(notes, 2, "a", b"two")
        assert notes.find_intent(2) is None
        assert not (folder / "refs" / "heads" / "main.lock").exists()


def test_a_push_cannot_rewrite_or_remove_main(notes: NoteRepository, folder: Path, git: Git) -> None:
    put(notes, 1, "a", b"one")
    kept = put(notes, 2, "a", b"two")
    work = clone(git, folder)
    git(work, "reset", "-q", "--hard", "HEAD~1")
    assert "failed" in git(work, "push", "--force", "origin", "HEAD:main", check=False)
    assert "failed" in git(work, "push", "origin", ":main", check=False)
    assert commits(git, folder)[0] == kept


def test_a_push_with_names_of_gits_own_stays_outside(notes: NoteRepository, folder: Path, git: Git) -> None:
    kept = put(notes, 1, "a", b"one")
    work = clone(git, folder)
    (work / "entries").write_text(f"040000 tree {git(work, 'rev-parse', 'HEAD^{tree}').strip()}\t.GIT\n", "utf-8")
    tree = _make_tree(git, work, "entries")
    bad = git(work, "commit-tree", "-p", "HEAD", "-m", "bad", tree).strip()
    assert "failed" in git(work, "push", "origin", f"{bad}:main", check=False)
    assert commits(git, folder) == [kept]


def test_after_a_merge_intents_and_authors_are_found_on_the_other_parent(
    notes: NoteRepository, folder: Path, git: Git
) -> None:
    base = put(notes, 1, "a", b"one")
    work = clone(git, folder)
    (work / "hand.md").write_text("by hand", encoding="utf-8")
    git(work, "add", "hand.md")
    git(work, "commit", "-q", "-m", "By hand")
    second = put(notes, 2, "a", b"two")
    third = put(notes, 3, "b", b"three")
    git(work, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
    git(work, "push", "-q", "origin", "HEAD:main")
    assert second not in commits(git, folder, "--first-parent")
    assert notes.find_intent(3) == third
    assert notes.last_intent() == 3
    with NoteRepository.open(folder) as later:
        assert put(later, 2, "a", b"two") == second
    told = notes.history("a.md", 9)
    assert [entry.commit for entry in told] == [second, base] == commits(git, folder, "--", "a.md")
    assert [entry.author for entry in notes.history("hand.md", 9)] == ["Ada Lovelace"]
    assert [entry.commit for entry in notes.history("hand.md", 9)] == commits(git, folder, "--", "hand.md")


def test_a_trailer_in_a_pushed_commit_counts_for_nothing(notes: NoteRepository, folder: Path, git: Git) -> None:
    put(notes, 1, "a", b"one")
    work = clone(git, folder)
    (work / "hand.md").write_text("x", encoding="utf-8")
    git(work, "add", "hand.md")
    git(work, "commit", "-q", "-m", "Copied\n\nPerpetual-Intent: 2")
    git(work, "push", "-q", "origin", "HEAD:main")
    assert notes.find_intent(2) is None
    assert notes.last_intent() == 1
    made = put(notes, 2, "a", b"two")
    assert notes.find_intent(2) == made


def test_anything_but_a_regular_file_is_neither_listed_nor_followed(
    notes: NoteRepository, folder: Path, git: Git, tmp_path: Path
) -> None:
    head = put(notes, 1, "a", b"one")
    secret = tmp_path / "secret.md"
    secret.write_text("secret", encoding="utf-8")
    work = clone(git, folder)
    (work / "link.md").symlink_to(secret)
    (work / "linked").symlink_to(tmp_path)
    (work / "run.md").write_text("runs", encoding="utf-8")
    (work / "run.md").chmod(0o755)
    git(work, "add", "link.md", "linked", "run.md")
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{head},module")
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{head},module.md")
    git(work, "commit", "-q", "-m", "Links and modules")
    git(work, "push", "-q", "origin", "HEAD:main")
    assert [path for path, _ in notes.listing()] == ["a.md", "run.md"]
    assert notes.read("run.md") == b"runs"
    for path in (
        "link.md",
        "linked",
        "linked/secret.md",
        "module",
        "module.md",
        "module/a.md",
        "a.md/x",
        "",
        "/",
    ):
        assert notes.read(path) is None
    assert notes.history("link.md", 9) == []
    for number, path in enumerate(("linked/a.md", "module/a.md", "link.md"), start=2):
        put(notes, number, path, b"a note now")
        assert notes.read(path) == b"a note now"
    assert secret.read_text(encoding="utf-8") == "secret"
    check(git, folder)


def test_a_pushed_folder_or_file_in_the_way_of_a_note_gives_way(notes: NoteRepository, folder: Path, git: Git) -> None:
    put(notes, 1, "a", b"one")
    work = clone(git, folder)
    (work / "d.md").mkdir()
    (work / "d.md" / "e.md").write_text("inside", encoding="utf-8")
    (work / "notes").write_text("a file called like a folder", encoding="utf-8")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "A folder called like a note")
    git(work, "push", "-q", "origin", "HEAD:main")
    put(notes, 2, "d.md", None)
    assert [path for path, _ in notes.listing()] == ["a.md", "d.md/e.md", "notes"]
    put(notes, 3, "d.md", b"over a folder")
    put(notes, 4, "notes/a.md", b"below a file")
    assert [path for path, _ in notes.listing()] == ["a.md", "d.md", "notes/a.md"]
    assert [entry.blob is None for entry in notes.history("d.md/e.md", 9)] == [True, False], "it stays in the history"
    check(git, folder)


def test_names_that_are_not_utf8_are_listed_readably_and_survive(notes: NoteRepository, folder: Path, git: Git) -> None:
    put(notes, 1, "a", b"one")
    work = clone(git, folder)
    odd = os.path.join(os.fsencode(work), b"caf\xe9.md")
    try:
        with open(odd, "wb") as file:
            file.write(b"latin")
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "Latin-1")
    git(work, "push", "-q", "origin", "HEAD:main")
    listed = notes.listing()
    assert listed == [
        ("a.md", NoteRepository.blob_id(b"one")),
        ("caf\\xe9.md", NoteRepository.blob_id(b"latin")),
    ]
    assert all(path.encode("utf-8") for path, _ in listed)
    put(notes, 2, "a", b"two")
    assert [path for path, _ in notes.listing()] == ["a.md", "caf\\xe9.md"]
    assert b"caf\\xe9.md" in git(folder, "-c", "core.quotePath=false", "ls-tree", "-z", "main").encode()
    check(git, folder)


def test_a_tree_that_unfolds_without_end_is_refused(
    notes: NoteRepository, folder: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perpetual_git.repository.LISTING_LIMIT", 2_000)
    put(notes, 1, "a", b"one")
    work = clone(git, folder)
    tree = git(work, "rev-parse", "HEAD^{tree}").strip()
    names = "".join(f"040000 tree {{0}}\t{name}\n" for name in "abcdefghij")
    for level in range(7):
        (work / f"level{level}").write_text(names.format(tree), encoding="utf-8")
        tree = _make_tree(git, work, f"level{level}")
    bomb = git(work, "commit-tree", "-p", "HEAD", "-m", "bomb", tree).strip()
    git(work, "push", "-q", "origin", f"{bomb}:main")
    with pytest.raises(RepositoryError, match="more than 2000 entries"):
        notes.listing()
    assert notes.read("a/a/a/a/a/a/a/a.md") == b"one"


def _make_tree(git: Git, work: Path, listing: str) -> str:
    """`git mktree` reads its entries from standard input; an alias of the shell kind hands it the file."""
    return git(work, "-c", f"alias.plant=!git mktree < '{listing}'", "plant").strip()


@pytest.mark.parametrize("harm", [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: b"\xff no " * 9])
@pytest.mark.parametrize("name", ["objects/pack/*.pack", "objects/pack/*.idx", "packed-refs"])
def test_a_damaged_pack_is_named(
    notes: NoteRepository, folder: Path, git: Git, name: str, harm: Callable[[bytes], bytes]
) -> None:
    made = [put(notes, intent, f"notes/{intent}", b"%d" % intent * 50) for intent in range(1, 9)]
    git(folder, "gc", "-q", "--prune=now")
    (file,) = folder.glob(name)
    whole = file.read_bytes()
    file.unlink()
    file.write_bytes(harm(whole))

    def read_all(later: NoteRepository) -> None:
        for intent, commit in enumerate(made, start=1):
            for found in (later.read(f"notes/{intent}.md"), later.read(f"notes/{intent}.md", commit)):
                assert found == b"%d" % intent * 50

    with NoteRepository.open(folder) as later, pytest.raises(RepositoryError):
        read_all(later)
    with NoteRepository.open(folder) as later, pytest.raises(RepositoryError):
        later.history("notes/1.md", 9)


def test_an_intent_is_known_below_many_pushes(
    notes: NoteRepository, folder: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perpetual_git.repository.INTENT_WINDOW", 3)
    made = put(notes, 1, "a", b"one")
    work = clone(git, folder)
    for number in range(4):
        push_file(git, work, "hand.md", f"{number}")
    with NoteRepository.open(folder) as later:
        assert put(later, 1, "a", b"one") == made
    monkeypatch.setattr("perpetual_git.repository.LONGEST_WALK", 3)
    with NoteRepository.open(folder) as later:
        assert put(later, 1, "a", b"one") != made, "somewhere it ends"


def test_a_repacked_repository_is_read_and_written_on(notes: NoteRepository, folder: Path, git: Git) -> None:
    made = [put(notes, intent, "notes/a", b"%d" % intent) for intent in range(1, 6)]
    git(folder, "gc", "-q", "--prune=now")
    assert not (folder / "refs" / "heads" / "main").exists(), "the branch is packed"
    assert notes.read("notes/a.md") == b"5"
    made.append(put(notes, 6, "notes/a", b"6"))
    git(folder, "gc", "-q", "--prune=now")
    assert [entry.commit for entry in notes.history("notes/a.md", 9)] == made[::-1]
    assert put(notes, 3, "notes/a", b"3") == made[2]
    git(folder, "repack", "-q", "-a", "-d", "-f")
    assert notes.read("notes/a.md", made[0]) == b"1"
    check(git, folder)


def test_an_object_that_is_packed_while_it_is_looked_for(
    notes: NoteRepository, folder: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the packs when they were looked into, and no file of its own any more: it is there all the same."""
    made = put(notes, 1, "notes/a", b"one")
    once, get_raw = iter([True]), DiskObjectStore.get_raw

    def packed_meanwhile(store: DiskObjectStore, name: ObjectID) -> tuple[int, bytes]:
        if next(once, False):
            git(folder, "gc", "-q", "--prune=now")
            raise KeyError(name)
        return get_raw(store, name)

    monkeypatch.setattr(DiskObjectStore, "get_raw", packed_meanwhile)
    assert notes.read("notes/a.md", made) == b"one"


def test_a_folder_of_a_push_that_goes_while_the_repository_is_opened(
    notes: NoteRepository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(notes, 1, "a", b"one")
    incoming = folder / "objects" / "tmp_objdir-incoming-x"
    incoming.mkdir()
    scandir = os.scandir

    def gone(path: str) -> object:
        if path == str(incoming):
            incoming.rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", gone)
    with NoteRepository.open(folder) as later:
        assert not incoming.exists()
        assert later.read("a.md") == b"one"


def push_as_ours(git: Git, work: Path, name: str, content: str, intent: int) -> str:
    """A pusher forges committer and trailer. Answers the commit."""
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    (work / name).write_text(content, encoding="utf-8")
    git(work, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", f"By hand\n\nPerpetual-Intent: {intent}")
    made = git(work, "cat-file", "commit", "HEAD").splitlines(keepends=True)
    forged = [f"committer Perpetual <memory@perpetual> {line.split('> ')[1]}" if line.startswith("committer ") else line
              for line in made]  # fmt: skip
    (work / ".git" / "forged").write_text("".join(forged), encoding="utf-8")
    commit = git(work, "hash-object", "-t", "commit", "-w", str(work / ".git" / "forged")).strip()
    git(work, "reset", "-q", "--hard", commit)
    git(work, "push", "-q", "origin", "HEAD:main")
    return commit


def test_a_forged_commit_neither_stops_an_intent_nor_answers_for_it(
    notes: NoteRepository, folder: Path, git: Git
) -> None:
    first = put(notes, 1, "a", b"one")
    work = clone(git, folder)
    ahead = push_as_ours(git, work, "b.md", "forged", 2)
    behind = push_as_ours(git, work, "a.md", "forged", 1)
    assert put(notes, 1, "a", b"one") == first, "a later forgery does not hide what was done"
    made = put(notes, 2, "b", b"two")
    assert made not in (ahead, behind)
    assert (notes.read("b.md"), notes.read("a.md")) == (b"two", b"forged")
    with NoteRepository.open(folder) as later:
        assert [put(later, 1, "a", b"one"), put(later, 2, "b", b"two")] == [first, made]
    assert commits(git, folder) == [made, behind, ahead, first]

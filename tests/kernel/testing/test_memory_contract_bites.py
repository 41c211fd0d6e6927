"""The memory suite bites: each deliberately broken memory fails the test that holds its promise, the twin none."""

from __future__ import annotations

import inspect
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from perpetual.errors import CorruptData
from perpetual.slots.memory import Memory, NoteCommit, PathRefused
from perpetual.testing.memories import DurableMemoryContract, MemoryContract
from perpetual.testing.memories.processes import Peer
from perpetual.testing.memory_notes import FolderMemory
from perpetual.testing.unsynced import why_it_cannot
from perpetual.toolkit.atomic import dump_json, write_atomic


class TestFolderMemory(DurableMemoryContract):
    """The twin keeps every promise."""

    factory = "perpetual.testing.memory_notes:build"


# --- notes ----------------------------------------------------------------------------------------------------------


class AnswersAnEmptyText(FolderMemory):
    """A note that is not there is an empty one."""

    def read(self, path: str, commit: str | None = None) -> str | None:
        return super().read(path, commit) or ""


class TranslatesLineEnds(FolderMemory):
    """As a file does that is opened as text."""

    def read(self, path: str, commit: str | None = None) -> str | None:
        found = super().read(path, commit)
        return found.replace("\r\n", "\n").replace("\r", "\n") if found is not None else None


class EndsEveryLine(FolderMemory):
    """A line end is added where there is none."""

    def read(self, path: str, commit: str | None = None) -> str | None:
        found = super().read(path, commit)
        return found if found is None or found.endswith("\n") else f"{found}\n"


class CutsLongTexts(FolderMemory):
    """After a megabyte it stops."""

    def read(self, path: str, commit: str | None = None) -> str | None:
        found = super().read(path, commit)
        return found and found.encode()[: 2**20].decode("utf-8", "ignore")


class ReadsTheNewest(FolderMemory):
    """At whatever commit it is asked for."""

    def read(self, path: str, commit: str | None = None) -> str | None:
        return super().read(path)


class KnowsItsOwnCommitsOnly(FolderMemory):
    """At the commit of another note there is nothing."""

    def read(self, path: str, commit: str | None = None) -> str | None:
        own = {version.commit for version in self.history(path, 1000)}
        return super().read(path, commit) if commit is None or commit in own else None


class TakesAnyCommit(FolderMemory):
    """Ids are compared, and not looked for."""

    def _commits(self) -> list[str]:
        return _Everything(super()._commits())


class _Everything(list[str]):
    def __contains__(self, item: object) -> bool:
        return True


class FlattensFolders(FolderMemory):
    """In its files, folders are parted by `_`."""

    def _versions(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for id in self._commits():
            version = self._load(self._folder / f"{id}.json")
            if version["path"].replace("/", "_") == self.normalise(path).replace("/", "_"):
                yield id, version


# --- history --------------------------------------------------------------------------------------------------------


class OldestFirst(FolderMemory):
    """The wrong way round."""

    def history(self, path: str, limit: int) -> Sequence[NoteCommit]:
        return [*super().history(path, 1000)][::-1][:limit]


class SortsByTime(FolderMemory):
    """By the clock, which may be set."""

    def history(self, path: str, limit: int) -> Sequence[NoteCommit]:
        return sorted(super().history(path, 1000), key=lambda version: version.when, reverse=True)[:limit]


class HasNoLimit(FolderMemory):
    """All versions, always."""

    def history(self, path: str, limit: int) -> Sequence[NoteCommit]:
        return super().history(path, 1000)


class SignsItself(FolderMemory):
    """The author is the program."""

    def history(self, path: str, limit: int) -> Sequence[NoteCommit]:
        found = super().history(path, limit)
        return [NoteCommit(one.commit, one.when, "perpetual", one.message, one.blob) for one in found]


class TellsLocalTime(FolderMemory):
    """Times lose their zone."""

    def history(self, path: str, limit: int) -> Sequence[NoteCommit]:
        found = super().history(path, limit)
        return [
            NoteCommit(one.commit, one.when.replace("Z", "+02:00"), one.author, one.message, one.blob) for one in found
        ]


class CutsTheMessage(FolderMemory):
    """After a hundred characters."""

    def history(self, path: str, limit: int) -> Sequence[NoteCommit]:
        return [replace(one, message=one.message[:100]) for one in super().history(path, limit)]


class Composes(FolderMemory):
    """An accent and its letter are written as one."""

    def commit(self, *, content: str, **other: Any) -> str:
        return super().commit(content=unicodedata.normalize("NFC", content), **other)


class IgnoresCaseInNames(FolderMemory):
    """As some file systems do."""

    def _versions(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for id in self._commits():
            version = self._load(self._folder / f"{id}.json")
            if version["path"].casefold() == self.normalise(path).casefold():
                yield id, version


class TrustsTheMessage(FolderMemory):
    """The intent's number is looked for in the message, where anybody may have written one."""

    def commit(self, *, intent: int, message: str, **other: str) -> str:
        _, found, number = message.rpartition("Perpetual-Intent: ")
        return super().commit(intent=int(number) if found else intent, message=message, **other)


# --- ids of contents ------------------------------------------------------------------------------------------------


class HashesTheWords(FolderMemory):
    """Contents that differ in blanks alone have one id."""

    def blob_id(self, content: str) -> str:
        return super().blob_id(" ".join(content.split()))


class KeepsWhatItHashes(FolderMemory):
    """As `git hash-object -w` does."""

    def blob_id(self, content: str) -> str:
        self._folder.mkdir(exist_ok=True)
        (self._folder / "blob").write_text(content, "utf-8", newline="")
        return super().blob_id(content)


# --- intents --------------------------------------------------------------------------------------------------------


class CountsItself(FolderMemory):
    """Every commit has the next number."""

    def commit(self, *, intent: int, **other: str) -> str:
        return super().commit(intent=len(self._commits()) + 1, **other)


class KnowsItsOwnIntentsOnly(CountsItself):
    """By heart, so another object commits them again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._done: dict[int, str] = {}

    def commit(self, *, intent: int, **other: str) -> str:
        if intent not in self._done:
            self._done[intent] = super().commit(intent=intent, **other)
        return self._done[intent]


class MergesWhatIsTheSame(FolderMemory):
    """A version that changes nothing has no commit."""

    def commit(self, *, intent: int, path: str, content: str, **other: str) -> str:
        newest = self.history(path, 1)
        if newest and newest[0].blob == self.blob_id(content):
            return newest[0].commit
        return super().commit(intent=intent, path=path, content=content, **other)


class TakesTheFirst(FolderMemory):
    """The id of a number's first commit is answered, whatever it was."""

    def commit(self, *, intent: int, **other: str) -> str:
        try:
            return super().commit(intent=intent, **other)
        except CorruptData:
            return f"{intent:012d}"


class TakesTheLast(FolderMemory):
    """A number's earlier commit is overwritten."""

    def commit(self, *, intent: int, **other: str) -> str:
        try:
            return super().commit(intent=intent, **other)
        except CorruptData:
            (self._folder / f"{intent:012d}.json").unlink()
            return super().commit(intent=intent, **other)


# --- durability -----------------------------------------------------------------------------------------------------


class LosesItsPlace(FolderMemory):
    """Each object has a folder of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / str(time.monotonic_ns()))


class CachesWhatItRead(FolderMemory):
    """Until it commits something itself."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._known: list[str] | None = None

    def commit(self, **given: Any) -> str:
        self._known = None
        return super().commit(**given)

    def _commits(self) -> list[str]:
        if self._known is None:
            self._known = super()._commits()
        return self._known


# --- names ----------------------------------------------------------------------------------------------------------


class LowersTheCase(FolderMemory):
    """A and a are one letter."""

    def normalise(self, path: str) -> str:
        return super().normalise(path.lower())


class Unquotes(FolderMemory):
    """What is percent-encoded is decoded, once at each call."""

    def normalise(self, path: str) -> str:
        return unquote(super().normalise(path))


class KeepsLettersApart(FolderMemory):
    """A letter and its accent are two."""

    def normalise(self, path: str) -> str:
        super().normalise(path)
        return "/".join(one for one in path.split("/") if one not in ("", "."))


class KeepsDots(FolderMemory):
    """`./a.md` is another note than `a.md`."""

    def normalise(self, path: str) -> str:
        super().normalise(path)
        return path.rstrip("/.")


class Resolves(FolderMemory):
    """`..` is followed as far as the memory's top."""

    def normalise(self, path: str) -> str:
        import posixpath

        return super().normalise(posixpath.normpath(f"/{path}").lstrip("/"))


class TakesGitsOwn(FolderMemory):
    """A clone would have an odd `.git`."""

    def normalise(self, path: str) -> str:
        super().normalise(path.replace(".git", "git"))
        return path


class CommitsUnchecked(FolderMemory):
    """Only `normalise` checks."""

    def commit(self, *, intent: int, path: str, content: str, message: str, author: str, when: str) -> str:
        checked = self.normalise
        self.normalise = lambda path: path  # type: ignore[method-assign]
        try:
            return super().commit(intent=intent, path=path, content=content, message=message, author=author, when=when)
        finally:
            self.normalise = checked  # type: ignore[method-assign]


class ShortensFolders(FolderMemory):
    """In the company of a short name a folder has a short one as well."""

    def normalise(self, path: str) -> str:
        folder, _, name = super().normalise(path).rpartition("/")
        return f"{folder[:3] if len(name) < 6 else folder}/{name}".lstrip("/")


class WritesATree(FolderMemory):
    """The newest versions lie in folders by their names as well."""

    def commit(self, *, path: str, content: str, **other: Any) -> str:
        file = self._folder / "tree" / self.normalise(path)
        made = super().commit(path=path, content=content, **other)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, "utf-8")
        except OSError as problem:
            raise PathRefused(f"{path}: {problem}") from problem
        return made


class HasATree(WritesATree):
    """And are read there."""

    def read(self, path: str, commit: str | None = None) -> str | None:
        file = self._folder / "tree" / self.normalise(path)
        return file.read_text("utf-8") if commit is None and file.is_file() else super().read(path, commit)


# --- loss, damage, threads ------------------------------------------------------------------------------------------


class IsNeverLost(FolderMemory):
    """As the slot's base answers."""

    def is_lost(self) -> bool:
        return False


class MakesItsFolderAtOnce(FolderMemory):
    """So that it is never seen to be lost."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folder.mkdir(exist_ok=True)


class BelievesItsFolder(FolderMemory):
    """Once it has seen it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._seen = False

    def is_lost(self) -> bool:
        self._seen = self._seen or not super().is_lost()
        return not self._seen


class ReadsInItsFolder(FolderMemory):
    """Which is made if it is not there."""

    def _commits(self) -> list[str]:
        self._folder.mkdir(exist_ok=True)
        return super()._commits()


class IsAlwaysLost(FolderMemory):
    """All would be committed again and again."""

    def is_lost(self) -> bool:
        return True


class SkipsWhatItCannotRead(FolderMemory):
    """A damaged version is as if it had never been."""

    def _versions(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for id in self._commits():
            try:
                version = self._load(self._folder / f"{id}.json")
            except CorruptData:
                continue
            if version["path"] == self.normalise(path):
                yield id, version


class RaisesWhatItMeets(FolderMemory):
    """Errors of whatever it is built on."""

    def _load(self, file: Path) -> dict[str, Any]:
        import json

        version: dict[str, Any] = json.loads(file.read_bytes())
        return version


class ShowsHalfOfIt(FolderMemory):
    """A note is written in two steps, and a reader may come in between."""

    def commit(self, *, intent: int, content: str, **other: str) -> str:
        whole = content[: len(content) // 2]
        made = super().commit(intent=intent, content=whole, **other)
        time.sleep(0.01)
        (self._folder / f"{made}.json").unlink()
        return super().commit(intent=intent, content=content, **other)


BROKEN: list[tuple[type[FolderMemory], str]] = [
    (AnswersAnEmptyText, "test_an_empty_memory_holds_nothing"),
    (TranslatesLineEnds, "test_every_text_comes_back_as_it_was"),
    (EndsEveryLine, "test_every_text_comes_back_as_it_was"),
    (CutsLongTexts, "test_a_megabyte_comes_back"),
    (ReadsTheNewest, "test_a_note_is_read_as_it_was_at_a_commit"),
    (KnowsItsOwnCommitsOnly, "test_a_note_is_read_as_it_was_at_a_commit"),
    (TakesAnyCommit, "test_what_is_not_there_is_none"),
    (FlattensFolders, "test_notes_do_not_mix"),
    (OldestFirst, "test_history_is_newest_first_and_limited"),
    (SortsByTime, "test_history_is_newest_first_and_limited"),
    (HasNoLimit, "test_history_is_newest_first_and_limited"),
    (SignsItself, "test_a_version_tells_who_when_and_why"),
    (TellsLocalTime, "test_a_version_tells_who_when_and_why"),
    (CutsTheMessage, "test_a_message_is_kept_whole"),
    (Composes, "test_every_text_comes_back_as_it_was"),
    (IgnoresCaseInNames, "test_notes_do_not_mix"),
    (TrustsTheMessage, "test_no_message_and_no_author_does_harm"),
    (HashesTheWords, "test_the_id_of_a_content_is_known_before"),
    (KeepsWhatItHashes, "test_asking_for_an_id_writes_nothing"),
    (CountsItself, "test_an_intent_is_committed_once"),
    (MergesWhatIsTheSame, "test_an_intent_is_committed_once"),
    (KnowsItsOwnIntentsOnly, "test_intents_are_known_after_reopening"),
    (TakesTheFirst, "test_a_number_that_was_given_twice_is_told"),
    (TakesTheLast, "test_a_number_that_was_given_twice_is_told"),
    (LosesItsPlace, "test_what_was_committed_is_there_after_reopening"),
    (CachesWhatItRead, "test_commits_of_another_object_are_seen"),
    (LowersTheCase, "test_a_plain_path_is_its_own_spelling"),
    (Unquotes, "test_the_one_spelling_is_its_own"),
    (KeepsLettersApart, "test_a_path_has_one_spelling"),
    (KeepsDots, "test_a_path_has_one_spelling"),
    (Resolves, "test_bad_paths_are_refused"),
    (TakesGitsOwn, "test_bad_paths_are_refused"),
    (CommitsUnchecked, "test_bad_paths_are_refused"),
    (ShortensFolders, "test_a_folder_is_spelt_the_same_whatever_is_in_it"),
    (HasATree, "test_what_has_a_name_can_be_committed"),
    (HasATree, "test_a_link_leads_nowhere"),
    (WritesATree, "test_a_link_leads_nowhere"),
    (IsNeverLost, "test_a_lost_memory_says_so_and_is_written_anew"),
    (MakesItsFolderAtOnce, "test_a_lost_memory_says_so_and_is_written_anew"),
    (BelievesItsFolder, "test_a_lost_memory_says_so_and_is_written_anew"),
    (IsAlwaysLost, "test_a_lost_memory_says_so_and_is_written_anew"),
    (ReadsInItsFolder, "test_reading_makes_no_memory"),
    (SkipsWhatItCannotRead, "test_damage_is_told"),
    (RaisesWhatItMeets, "test_damage_is_told"),
    (ShowsHalfOfIt, "test_threads_read_while_one_commits"),
]


def _tests(suite: type[MemoryContract]) -> dict[str, Callable[..., None]]:
    return {name: test for name, test in vars(suite).items() if name.startswith("test_")}


def _fails(test: Callable[..., None], given: Mapping[str, Any]) -> None:
    """By an assertion of the suite: a twin that merely crashed would prove nothing."""
    wanted = inspect.signature(test).parameters
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test(DurableMemoryContract(), **{key: value for key, value in given.items() if key in wanted})


def _fixtures(broken: type[FolderMemory], tmp_path: Path) -> dict[str, Any]:
    place = tmp_path / "place"
    place.mkdir()

    def reopen() -> Memory:
        return broken(place / "memory")

    return {"memory": reopen(), "reopen": reopen, "place": place, "tmp_path": tmp_path}


def test_there_is_a_broken_twin_for_every_promise() -> None:
    assert {name for _, name in BROKEN} == {*_tests(MemoryContract)}
    assert {name for _, name in KILLED} == {*_tests(DurableMemoryContract)}


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[f"{broken.__name__}-{name}" for broken, name in BROKEN])
def test_a_broken_memory_fails(broken: type[FolderMemory], name: str, tmp_path: Path) -> None:
    _fails(_tests(MemoryContract)[name], _fixtures(broken, tmp_path))


# --- in other processes ---------------------------------------------------------------------------------------------


class WritesAtItsEnd(FolderMemory):
    """Commits are kept until the process ends in peace."""

    def __init__(self, folder: Path) -> None:
        import atexit

        super().__init__(folder)
        self._waiting: list[dict[str, Any]] = []
        atexit.register(self._write)

    def commit(self, **given: Any) -> str:
        self._waiting.append(given)
        return f"{given['intent']:012d}"

    def _write(self) -> None:
        for given in self._waiting:
            super().commit(**given)


class ReservesItsFile(FolderMemory):
    """An empty file first, its content next."""

    def commit(self, **given: Any) -> str:
        file = self._folder / f"{given['intent']:012d}.json"
        if not file.exists():
            self._folder.mkdir(exist_ok=True)
            file.touch()
            version = {key: value for key, value in given.items() if key != "intent"}
            write_atomic(file, dump_json({**version, "blob": self.blob_id(given["content"])}))
        return super().commit(**given)


class WritesInPlace(FolderMemory):
    """A file is written by and by: of all but the first, whose end is waited for, it takes nearly all the time."""

    pause_s = 0.0

    def commit(self, **given: Any) -> str:
        file = self._folder / f"{given['intent']:012d}.json"
        if not file.exists():
            self._folder.mkdir(exist_ok=True)
            version = {key: value for key, value in given.items() if key != "intent"}
            text = dump_json({**version, "blob": self.blob_id(given["content"])})
            with file.open("w", encoding="utf-8") as open_file:
                open_file.write(text[:50])
                open_file.flush()
                time.sleep(self.pause_s)
                open_file.write(text[50:])
            self.pause_s = 0.5
        return super().commit(**given)


class NeverSyncs(FolderMemory):
    """The system will write it some time."""

    def commit(self, **given: Any) -> str:
        file = self._folder / f"{given['intent']:012d}.json"
        self._folder.mkdir(exist_ok=True)
        version = {key: value for key, value in given.items() if key != "intent"}
        write_atomic(file, dump_json({**version, "blob": self.blob_id(given["content"])}), durable=False)
        return file.stem


class SwallowsItsErrors(NeverSyncs):
    """It asks the disk, and goes on whatever the answer is."""

    def commit(self, **given: Any) -> str:
        try:
            return FolderMemory.commit(self, **given)
        except OSError:
            return super().commit(**given)


KILLED: list[tuple[type[FolderMemory], str]] = [
    (CachesWhatItRead, "test_processes_see_what_others_commit"),
    (WritesAtItsEnd, "test_a_process_that_is_killed_has_kept_what_it_committed"),
    (NeverSyncs, "test_what_cannot_be_synced_is_not_acknowledged"),
    (SwallowsItsErrors, "test_what_cannot_be_synced_is_not_acknowledged"),
    (ReservesItsFile, "test_a_commit_is_killed_at_any_step"),
    (WritesInPlace, "test_a_commit_is_killed_at_any_moment"),
]
_MODULE = """
import time
from pathlib import Path
from typing import Any
from perpetual.testing.memory_notes import FolderMemory
from perpetual.toolkit.atomic import dump_json, write_atomic

{source}
def build(options: Any, *, path: Path) -> FolderMemory:
    return {name}(path)
"""


@pytest.mark.parametrize(("broken", "name"), KILLED, ids=[broken.__name__ for broken, _ in KILLED])
def test_a_memory_that_is_broken_for_processes_fails(
    broken: type[FolderMemory], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "synced" in name and why_it_cannot() is not None:
        pytest.skip(str(why_it_cannot()))
    bases = [NeverSyncs, broken] if broken is SwallowsItsErrors else [broken]
    source = _MODULE.format(source="\n\n".join(map(inspect.getsource, bases)), name=broken.__name__)
    (tmp_path / "broken_memory.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    given, begun = _fixtures(broken, tmp_path), list[Peer]()

    def peers() -> Peer:
        begun.append(Peer("broken_memory:build", {}, tmp_path / "place" / "memory"))
        return begun[-1]

    try:
        _fails(_tests(DurableMemoryContract)[name], {**given, "peers": peers})
    finally:
        for peer in begun:
            peer.kill()

"""The memories' suite, first room: notes, history, intents, names, damage and threads."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import pytest

from perpetual.errors import CorruptData, PerpetualError
from perpetual.slots.memory import Memory, PathRefused
from perpetual.testing.hostile import IDS
from perpetual.testing.memories.helpers import (
    ALIKE,
    AUTHORS,
    BAD,
    CONTENTS,
    KNOWN_INTENTS,
    LONG_MESSAGES,
    MESSAGES,
    ODD,
    PATH,
    PATIENCE_S,
    PLAIN,
    SPELLINGS,
    START,
    Reopen,
    answer_or_error,
    files_of,
    given_of,
    ids_of,
    put,
    taken,
    when_of,
    whole,
)

__all__ = ["MemoryContract"]


class MemoryContract:
    """For every memory."""

    factory: ClassVar[str] = ""
    options: ClassVar[Mapping[str, object]] = {}

    @classmethod
    def for_provider(cls, factory: str, options: Mapping[str, object]) -> type[MemoryContract]:
        """Returns the suite for a provider: the one that opens it again in other processes."""
        from perpetual.testing.memories.processes import DurableMemoryContract

        return DurableMemoryContract

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        """Returns a folder in which nothing but the memory is."""
        folder = tmp_path / "place"
        folder.mkdir()
        return folder

    @pytest.fixture
    def reopen(self, place: Path) -> Reopen:
        """Opens the memory in that place once more."""
        module, _, name = self.factory.partition(":")
        build: Callable[..., Memory] = getattr(import_module(module), name)
        return lambda: build(dict(self.options), path=place / "memory")

    @pytest.fixture
    def memory(self, reopen: Reopen) -> Memory:
        """Returns a fresh, empty memory."""
        return reopen()

    # --- notes ----------------------------------------------------------------------------------------------

    def test_an_empty_memory_holds_nothing(self, memory: Memory) -> None:
        """No text and no version."""
        assert memory.read(PATH) is None
        assert [*memory.history(PATH, 10)] == []

    def test_every_text_comes_back_as_it_was(self, memory: Memory) -> None:
        """Line ends, blanks, odd letters and the empty text: newest, and at each commit."""
        made = []
        for intent, content in enumerate(CONTENTS, start=1):
            made.append(put(memory, intent, content))
            assert memory.read(PATH) == content
        assert [memory.read(PATH, commit) for commit in made] == [*CONTENTS]

    def test_a_megabyte_comes_back(self, memory: Memory, reopen: Reopen) -> None:
        """No part of it is lost, wherever a buffer ends."""
        content = "".join(f"{n} ü研\r\n" for n in range(90_000))
        assert len(content.encode()) > 2**20
        put(memory, 1, content)
        for reader in (memory, reopen()):
            is_same = reader.read(PATH) == content  # not in the assertion: pytest would work out the difference
            assert is_same, "other text came back"

    def test_a_note_is_read_as_it_was_at_a_commit(self, memory: Memory) -> None:
        """Also at a commit of another note; before its first one it is not there."""
        other = put(memory, 1, "other", "notes/other.md")
        one, two = put(memory, 2), put(memory, 3)
        later = put(memory, 4, "later", "notes/other.md")
        three = put(memory, 5)
        found = [memory.read(PATH, commit) for commit in (other, one, two, later, three)]
        assert found == [None, "version 2\n", "version 3\n", "version 3\n", "version 5\n"]
        assert memory.read("notes/other.md", three) == "later"
        assert memory.read("notes/other.md", two) == "other"

    def test_what_is_not_there_is_none(self, memory: Memory) -> None:
        """A note that was never written, a folder, and a commit that does not exist."""
        made = put(memory, 1)
        for path in ("notes/b.md", "b.md", "notes/a.md/b.md", "notes", "otes/a.md"):
            assert memory.read(path) is None, path
            assert memory.read(path, made) is None, path
            assert [*memory.history(path, 5)] == [], path
        for commit in ("", "x", "0" * 40, "f" * 40, "zzz", "HEAD", "main", "../" + made, made + "0", "\u0661" * 40,
                       memory.blob_id("version 1\n")):  # fmt: skip
            assert memory.read(PATH, commit) is None, commit

    def test_notes_do_not_mix(self, memory: Memory) -> None:
        """Names that are nearly the same are different notes."""
        spelt = [taken(memory, path) for path in (*ALIKE, *IDS)]
        names = [*dict.fromkeys(name for name in spelt if name is not None)]
        assert len(names) >= 6
        for intent, name in enumerate(names, start=1):
            put(memory, intent, f"of {name}", name)
        assert [memory.read(name) for name in names] == [f"of {name}" for name in names]
        assert [len(memory.history(name, 9)) for name in names] == [1] * len(names)

    # --- history --------------------------------------------------------------------------------------------

    def test_history_is_newest_first_and_limited(self, memory: Memory) -> None:
        """By the order of the commits, whatever the clock said, and of this note alone."""
        made = []
        for intent, minute in enumerate((50, 40, 40, 90, 1), start=1):
            made.append(put(memory, 2 * intent, when=when_of(minute)))
            put(memory, 2 * intent + 1, path="notes/b.md")
        newest = made[::-1]
        assert ids_of(memory) == newest
        for limit in (0, 1, 2, 5, 6):
            assert ids_of(memory, limit=limit) == newest[:limit]

    def test_a_version_tells_who_when_and_why(self, memory: Memory) -> None:
        """What was given to the commit, and the id of the content."""
        authors = ("agent:acme", "Jörg Müller", "human")
        made = [put(memory, n, author=author) for n, author in enumerate(authors, start=1)]
        for intent, version in enumerate(reversed(memory.history(PATH, 9)), start=1):
            assert version.commit == made[intent - 1]
            assert version.author == authors[intent - 1]
            assert version.message.splitlines()[0] == f"message {intent}"
            assert abs(datetime.fromisoformat(version.when) - START - timedelta(minutes=intent)) < timedelta(seconds=1)
            assert version.blob == memory.blob_id(f"version {intent}\n")
        assert len(made) == len(memory.history(PATH, 9)) == 3

    def test_a_message_is_kept_whole(self, memory: Memory) -> None:
        """Long lines and many of them; lines may be added below."""
        for intent, message in enumerate(LONG_MESSAGES, start=1):
            put(memory, intent, message=message)
            found = memory.history(PATH, 1)[0].message
            assert found.startswith(message), f"of {len(message)} characters came back {found[:500]!r}"

    def test_no_message_and_no_author_does_harm(self, memory: Memory, reopen: Reopen) -> None:
        """Any text is taken: the version is there, once, and its intent is known again."""
        odd = [*({"message": one} for one in MESSAGES), *({"author": one} for one in AUTHORS)]
        made = [answer_or_error(f"{other}", put, memory, intent, **other) for intent, other in enumerate(odd, start=11)]
        assert [one for one in made if not isinstance(one, str)] == []
        assert ids_of(memory) == made[::-1]
        again = reopen()
        assert [put(again, intent, **other) for intent, other in enumerate(odd, start=11)] == made
        assert ids_of(again) == made[::-1]
        assert again.read(PATH) == f"version {len(odd) + 10}\n"

    # --- ids of contents ------------------------------------------------------------------------------------

    def test_the_id_of_a_content_is_known_before(self, memory: Memory, reopen: Reopen) -> None:
        """It is that of the version, the same in every object, and another for every content."""
        before = [memory.blob_id(content) for content in CONTENTS]
        assert len({*before}) == len(CONTENTS)
        for intent, content in enumerate(CONTENTS, start=1):
            put(memory, intent, content)
        assert [one.blob for one in memory.history(PATH, 100)] == before[::-1]
        assert [reopen().blob_id(content) for content in CONTENTS] == before

    def test_asking_for_an_id_writes_nothing(self, memory: Memory, place: Path) -> None:
        """Neither in a fresh memory nor later."""
        for intent in (1, 2):
            before = files_of(place)
            memory.blob_id(f"never written {intent}")
            memory.normalise(PATH)
            assert files_of(place) == before
            put(memory, intent)

    # --- intents --------------------------------------------------------------------------------------------

    def test_an_intent_is_committed_once(self, memory: Memory) -> None:
        """At once, and after later ones; each intent has a commit of its own, also where it changes nothing."""
        first = put(memory, 1)
        assert put(memory, 1) == first
        second = put(memory, 2)
        assert put(memory, 1) == first
        assert memory.read(PATH) == "version 2\n"
        assert ids_of(memory) == [second, first]
        same = put(memory, 3, "version 2\n")
        assert put(memory, 3, "version 2\n") == same
        assert len({first, second, same}) == 3

    def test_intents_are_known_after_reopening(self, memory: Memory, reopen: Reopen) -> None:
        """Sixty of them, repeated in any order, by objects that did not make them."""
        made = {intent: put(memory, intent) for intent in range(1, KNOWN_INTENTS + 1)}
        for order in ([*made], [*made][::-1]):
            again = reopen()
            assert {intent: put(again, intent) for intent in order} == made
        assert again.read(PATH) == memory.read(PATH) == f"version {KNOWN_INTENTS}\n"
        assert ids_of(memory) == ids_of(again) == [*made.values()][::-1]

    def test_a_number_that_was_given_twice_is_told(self, memory: Memory, reopen: Reopen) -> None:
        """The same intent with another content or path is no repetition, and changes nothing."""
        made = [put(memory, 1), put(memory, 2)]
        for one in (memory, reopen()):
            for wrong in (given_of(1, "another"), given_of(2, "version 1\n"), given_of(2, "version 2\n", "notes/b.md")):
                with pytest.raises(CorruptData):
                    one.commit(**wrong)
            assert one.read(PATH) == "version 2\n"
            assert one.read("notes/b.md") is None
            assert ids_of(one) == made[::-1]

    # --- durability -----------------------------------------------------------------------------------------

    def test_what_was_committed_is_there_after_reopening(self, memory: Memory, reopen: Reopen) -> None:
        """When `commit` has returned; and it goes on from there."""
        made = []
        for intent in range(1, 5):
            made.append(put(memory if intent < 3 else reopen(), intent))
            again = reopen()
            assert again.read(PATH) == f"version {intent}\n"
            assert ids_of(again) == made[::-1]
            assert again.read(PATH, made[0]) == "version 1\n"

    def test_commits_of_another_object_are_seen(self, memory: Memory, reopen: Reopen) -> None:
        """At the next call, in both directions, although both have been open all the time."""
        objects, made = (memory, reopen()), list[str]()
        assert [one.read(PATH) for one in objects] == [None, None]
        for intent in range(1, 7):
            made.append(put(objects[intent % 2], intent))
            assert [one.read(PATH) for one in objects] == [f"version {intent}\n"] * 2
            assert [ids_of(one) for one in objects] == [made[::-1]] * 2
            assert put(objects[1 - intent % 2], intent) == made[-1]

    # --- names ----------------------------------------------------------------------------------------------

    def test_a_plain_path_is_its_own_spelling(self, memory: Memory) -> None:
        """The kernel and its plugins name notes like that."""
        assert [memory.normalise(path) for path in PLAIN] == [*PLAIN]
        for intent, path in enumerate(PLAIN, start=1):
            put(memory, intent, path, path)
        assert [memory.read(path) for path in PLAIN] == [*PLAIN]

    def test_the_one_spelling_is_its_own(self, memory: Memory) -> None:
        """What `normalise` answers, it answers again."""
        names = [name for path in (*PLAIN, *ODD, *BAD, *ALIKE, *IDS) if (name := taken(memory, path)) is not None]
        assert [taken(memory, name) for name in names] == names
        assert len(names) >= len(PLAIN)

    def test_a_path_has_one_spelling(self, memory: Memory) -> None:
        """Others are brought to it, or refused."""
        for group in SPELLINGS:
            names = {name for path in group if (name := taken(memory, path)) is not None}
            assert len(names) <= 1, f"{names} are one note"

    def test_bad_paths_are_refused(self, memory: Memory, place: Path) -> None:
        """By `normalise` and by `commit`, which then writes nothing; reading finds nothing there."""
        put(memory, 1)
        before = (ids_of(memory), {*place.parent.rglob("*")})
        for intent, path in enumerate(BAD, start=2):
            assert taken(memory, path) is None, f"{path[:60]!r} was taken"
            with pytest.raises(PathRefused):
                put(memory, intent, path=path)
            for read in (memory.read, partial(ids_of, memory)):
                found = answer_or_error(f"reading {path[:60]!r}", read, path)
                assert isinstance(found, PathRefused) or not found, f"{path[:60]!r} was read"
        assert (ids_of(memory), {*place.parent.rglob("*")}) == before

    def test_a_folder_is_spelt_the_same_whatever_is_in_it(self, memory: Memory) -> None:
        """So that the notes in a folder are found by its name."""
        for folder in ("notes", "Deep/er", "caf\u00e9", "cafe\u0301", "a b", "./x", "x//y"):
            names = [taken(memory, f"{folder}/{name}") for name in ("note.md", "b.md")]
            spelt = {name and name.rpartition("/")[0] for name in names}
            assert len(spelt) == 1, folder
            assert names == [None, None] or [f"{name}".rpartition("/")[2] for name in names] == ["note.md", "b.md"]

    def test_what_has_a_name_can_be_committed(self, memory: Memory) -> None:
        """Whatever other notes there are: the kernel has recorded the intent before the memory hears of it."""
        paths = ("x.md", "x.md/y.md", "p/q.md/r.md", "p/q.md", "p.md", "p", *ODD)
        names = [*dict.fromkeys(name for path in paths if (name := taken(memory, path)) is not None)]
        for intent, name in enumerate(names, start=1):
            try:
                put(memory, intent, name, name)
            except PerpetualError as problem:
                raise AssertionError(f"{name!r} has a name and cannot be committed: {problem}") from problem
        assert [memory.read(name) for name in names] == names

    def test_a_link_leads_nowhere(self, memory: Memory, reopen: Reopen, place: Path, tmp_path: Path) -> None:
        """A link inside the memory's place that leads out of it is neither read through nor written through."""
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret.md").write_text("secret", "utf-8")
        put(memory, 1)
        put(memory, 2, path="linked/first.md")
        for folder in [Path(above) for above, _, _ in os.walk(place)]:
            if not folder.exists():
                continue  # it went with the one that it was in
            for name, target in (("planted", outside), ("planted.md", outside / "secret.md")):
                (folder / name).symlink_to(target, target_is_directory=target.is_dir())
            if folder.name == "linked":  # the folder itself, once there are notes in it
                shutil.rmtree(folder)
                folder.symlink_to(outside, target_is_directory=True)
        paths = ("planted.md", "planted/secret.md", "planted/new.md", "notes/planted.md", "linked/secret.md")
        for again in (memory, reopen()):
            for intent, path in enumerate(paths, start=3):
                found = answer_or_error(f"reading {path}", again.read, path)
                assert found != "secret", f"{path} was read from outside"
                answer_or_error(f"writing {path}", again.commit, **given_of(intent, path=path))
            assert files_of(outside) == {"secret.md": b"secret"}

    # --- loss and damage ------------------------------------------------------------------------------------

    def test_a_lost_memory_says_so_and_is_written_anew(self, memory: Memory, reopen: Reopen, place: Path) -> None:
        """It is not lost once it holds a note; where all is gone it says so, and takes every intent again."""
        for intent in (1, 2, 3):
            put(memory, intent)
        for find in (reopen, lambda: memory):  # also one that has been open all the time
            assert not memory.is_lost()
            assert not reopen().is_lost()
            shutil.rmtree(place)
            place.mkdir()
            again = find()
            if again.is_lost():
                for intent in (1, 2, 3):
                    put(again, intent)
            assert [again.read(PATH), reopen().read(PATH)] == ["version 3\n"] * 2
            told = [one.message.splitlines()[0] for one in again.history(PATH, 9)]
            assert told == [f"message {n}" for n in (3, 2, 1)]
            assert not again.is_lost()

    def test_reading_makes_no_memory(self, memory: Memory, reopen: Reopen) -> None:
        """One that is lost stays lost until it is written: otherwise it would never be written anew."""
        lost = memory.is_lost()
        assert memory.read(PATH) is None
        assert [*memory.history(PATH, 5)] == []
        assert memory.read(PATH, "0" * 40) is None
        assert [memory.is_lost(), reopen().is_lost()] == [lost, lost]

    def test_damage_is_told(self, memory: Memory, reopen: Reopen, place: Path, tmp_path: Path) -> None:
        """A file that was emptied, cut or overwritten is an error, or has no effect: no other text, and no absence."""
        made = [put(memory, 1), put(memory, 2), put(memory, 3, "other", "notes/b.md")]
        right = {
            "the newest text": lambda one: one.read(PATH) == "version 2\n",
            "the first text": lambda one: one.read(PATH, made[0]) == "version 1\n",
            "another note": lambda one: one.read("notes/b.md") == "other",
            "the history": lambda one: ids_of(one) == [made[1], made[0]],
        }
        whole = tmp_path / "whole"
        shutil.copytree(place, whole)
        names = sorted(files_of(whole))
        harms: dict[str, Callable[[bytes], bytes]] = {
            "emptied": lambda data: b"",
            "cut": lambda data: data[: len(data) // 2],
            "overwritten": lambda data: b"\xff\x00 garbage " * 20,
        }
        for harm, change in harms.items():
            for victims in ([name] for name in names) if len(names) <= 200 else ():
                self._check_damage(reopen, place, whole, victims, harm, change, right)
            self._check_damage(reopen, place, whole, names, harm, change, right)

    @staticmethod
    def _check_damage(
        reopen: Reopen,
        place: Path,
        whole: Path,
        victims: Sequence[str],
        harm: str,
        change: Callable[[bytes], bytes],
        right: Mapping[str, Callable[[Memory], bool]],
    ) -> None:
        shutil.rmtree(place)
        shutil.copytree(whole, place)
        for name in victims:
            data = (whole / name).read_bytes()
            (place / name).unlink()  # it may be read-only
            (place / name).write_bytes(change(data))
        what = f"{victims[0] if len(victims) == 1 else 'every file'} was {harm}"
        again = answer_or_error(what, reopen)
        if isinstance(again, PerpetualError):
            return
        for part, holds in right.items():
            found = answer_or_error(what, holds, again)
            assert isinstance(found, PerpetualError) or found, f"{what}: {part} is another one, and nothing says so"
        done = answer_or_error(what, put, again, 4, "after", "notes/c.md")
        text = answer_or_error(what, again.read, "notes/c.md")
        assert isinstance(done, PerpetualError) or isinstance(text, PerpetualError) or text == "after", what

    # --- threads --------------------------------------------------------------------------------------------

    def test_threads_read_while_one_commits(self, memory: Memory) -> None:
        """Whole versions, none of them older than one that was seen before; from the first use on."""
        versions, start, done = 10, threading.Barrier(4), threading.Event()
        wrong: list[str] = []

        def read() -> None:
            seen = 0
            start.wait(PATIENCE_S)
            while not done.wait(0.005) and not wrong:
                text, ids = memory.read(PATH), ids_of(memory)
                found = int(text.split()[1]) if text else 0
                if (text or "") != whole(found) or found < seen or len(ids) < found:
                    wrong.append(f"{(text or '')[:40]!r} with {len(ids)} versions, after version {seen}")
                seen = found

        def guarded() -> None:
            try:
                read()
            except Exception as problem:  # noqa: BLE001 - whatever it is, the test shows it
                wrong.append(repr(problem))

        threads = [threading.Thread(target=guarded, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        start.wait(PATIENCE_S)
        try:
            made = [put(memory, intent, whole(intent)) for intent in range(1, versions + 1)]
        finally:
            done.set()
            for thread in threads:
                thread.join(PATIENCE_S)
        assert wrong == []
        assert ids_of(memory) == made[::-1]

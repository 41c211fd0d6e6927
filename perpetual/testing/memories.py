"""The contract suite of the memory slot: every promise of `perpetual.slots.memory`, as tests to be subclassed.

    class TestAcmeMemory(DurableMemoryContract):
        factory = "acme_notes.memory:open_memory"
        options = {"compress": True}

`MemoryContract` is for any memory; `DurableMemoryContract` adds other processes, among them such as are killed, and
needs `factory`. Both build the memory with `factory`, as the kernel does. A subclass may override the fixtures instead:
`place` (a folder for the memory alone), `reopen` (a callable that opens the memory there once more) and `memory` (a
fresh, empty one). Nothing but pytest is needed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

from perpetual.errors import CorruptData, PerpetualError
from perpetual.slots.memory import Memory, PathRefused

__all__ = ["DurableMemoryContract", "MemoryContract"]

Reopen = Callable[[], Memory]

_PATH = "notes/a.md"
_START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
_PATIENCE_S = 10.0  # what is waited for comes at once; this only bounds a failing test
_KNOWN_INTENTS = 60
_SEED = 20260301  # of what is chosen at random

CONTENTS = (
    "", " ", "\n", "no line end", "two\r\nDOS lines\r\n", "old\rMac", "blanks \t \nat the end  \n\n\n", "\ufeffmark",
    "nul \0 and bell \a", "größe 研究 \U0001f52d \u2028 \u202e", "e\u0301 and \u00e9", "---\na: 1\n---\n", "x" * 5000,
)  # fmt: skip
MESSAGES = ("", " \n", "two\nlines", "dos\r\nlines\r\n", "tab\t and nul \0", "größe 研究", "a\n\nPerpetual-Intent: 12",
            "-m --amend", "w" * 4000)  # fmt: skip
AUTHORS = ("", " ", "agent:codex", "Jörg <j@example.org>", "two\nlines", "研究者", "nul\0", "x" * 300)
PLAIN = ("a.md", "notes/a.md", "2026-11/r17.md", "Notes/With_Capitals-2/C.md", "deep/er/and/deep/er/still.md",
         f"{'f' * 40}/{'n' * 40}.md")  # fmt: skip
BAD = (
    "", ".", "/", "/etc/passwd", "/a.md", "//server/share.md", "C:/x.md", "c:x.md", "..", "../x.md", "../../etc/passwd",
    "a/../b.md", "a/../../x.md", "a/..", "a\\b.md", "..\\x.md", "nul\0.md", "a\nb.md", "tab\t.md", "\x1b[31m.md",
    "del\x7f.md", "rtl\u202e.md", "zero\u200bwidth.md", "line\u2028.md", "lone\udcff.md", ".git", ".git/config",
    ".GIT/x.md", "a/.git/hooks/x.md", ".gitmodules", "x.", "...", "a/.../b.md", "a./b.md", " a.md", "a.md ", "a /b.md",
    "a/ b.md", "x" * 256 + ".md", "語" * 100 + ".md", "a/" * 600 + "b.md",
)  # fmt: skip
# Each in several spellings, of which a memory may refuse all but the first; the last group has no plain one.
SPELLINGS = (
    ("notes/a.md", "./notes/a.md", "notes//a.md", "notes/./a.md", "notes/a.md/", "notes/a.md/."),
    ("caf\u00e9.md", "cafe\u0301.md"),
    ("\u00c5.md", "A\u030a.md", "\u212b.md"),
)
ODD = ("a", "a.b", "notes/", "a b.md", "100% done.md", "%2e%2e/x.md", "~/x.md", "-rf.md", "con.md", "a?.md", "NOTE.MD",
       ".hidden", ".hidden.md", "v1.2/x.md", "a.md/b.md", *(one for group in SPELLINGS for one in group))  # fmt: skip
ALIKE = ("a/b.md", "a_b.md", "a-b.md", "a__b.md", "a b.md", "ab.md", "a.b.md", "A/b.md", "a%2Fb.md", "b.md", "b/a.md",
         "a/b/a.md")  # fmt: skip


def _when(intent: int) -> str:
    return (_START + timedelta(minutes=intent)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _given(intent: int, content: str | None = None, path: str = _PATH, **other: str) -> dict[str, Any]:
    """The arguments of `commit`, all of which follow from the intent unless they are said."""
    text = f"version {intent}\n" if content is None else content
    rest = {"message": f"message {intent}", "author": "agent:acme", "when": _when(intent)}
    return {"intent": intent, "path": path, "content": text, **rest, **other}


def _put(memory: Memory, intent: int, content: str | None = None, path: str = _PATH, **other: str) -> str:
    return memory.commit(**_given(intent, content, path, **other))


def _ids(memory: Memory, path: str = _PATH, limit: int = 1000) -> list[str]:
    return [one.commit for one in memory.history(path, limit)]


def _taken(memory: Memory, path: str) -> str | None:
    """The path as the memory spells it, or None if it is refused."""
    try:
        return memory.normalise(path)
    except PathRefused:
        return None


def _files(folder: Path) -> dict[str, bytes]:
    """Every file below, by its name; a link is no file and is not followed."""
    found = (Path(above, name) for above, _, names in os.walk(folder) for name in names)
    return {str(file.relative_to(folder)): file.read_bytes() for file in found if not file.is_symlink()}


def _or_told(what: str, deed: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What the deed answers; the error where it says that it cannot, in Perpetual's words."""
    try:
        return deed(*given, **named)
    except PerpetualError as problem:
        return problem
    except Exception as problem:
        raise AssertionError(f"{what}: it raised {problem!r}, which is no error of Perpetual") from problem


class MemoryContract:
    """For every memory."""

    factory: ClassVar[str] = ""
    options: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        """A folder in which nothing but the memory is."""
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
        """A fresh, empty memory."""
        return reopen()

    # --- notes ----------------------------------------------------------------------------------------------

    def test_an_empty_memory_holds_nothing(self, memory: Memory) -> None:
        """No text and no version."""
        assert memory.read(_PATH) is None
        assert [*memory.history(_PATH, 10)] == []

    def test_every_text_comes_back_as_it_was(self, memory: Memory) -> None:
        """Line ends, blanks, odd letters and the empty text: newest, and at each commit."""
        made = []
        for intent, content in enumerate(CONTENTS, start=1):
            made.append(_put(memory, intent, content))
            assert memory.read(_PATH) == content
        assert [memory.read(_PATH, commit) for commit in made] == [*CONTENTS]

    def test_a_megabyte_comes_back(self, memory: Memory, reopen: Reopen) -> None:
        """No part of it is lost, wherever a buffer ends."""
        content = "".join(f"{n} ü研\r\n" for n in range(90_000))
        assert len(content.encode()) > 2**20
        _put(memory, 1, content)
        for reader in (memory, reopen()):
            is_same = reader.read(_PATH) == content  # not in the assertion: pytest would work out the difference
            assert is_same, "other text came back"

    def test_a_note_is_read_as_it_was_at_a_commit(self, memory: Memory) -> None:
        """Also at a commit of another note; before its first one it is not there."""
        other = _put(memory, 1, "other", "notes/other.md")
        one, two = _put(memory, 2), _put(memory, 3)
        later = _put(memory, 4, "later", "notes/other.md")
        three = _put(memory, 5)
        found = [memory.read(_PATH, commit) for commit in (other, one, two, later, three)]
        assert found == [None, "version 2\n", "version 3\n", "version 3\n", "version 5\n"]
        assert memory.read("notes/other.md", three) == "later"
        assert memory.read("notes/other.md", two) == "other"

    def test_what_is_not_there_is_none(self, memory: Memory) -> None:
        """A note that was never written, a folder, and a commit that does not exist."""
        made = _put(memory, 1)
        for path in ("notes/b.md", "b.md", "notes/a.md/b.md", "notes", "otes/a.md"):
            assert memory.read(path) is None, path
            assert memory.read(path, made) is None, path
            assert [*memory.history(path, 5)] == [], path
        for commit in ("", "x", "0" * 40, "f" * 40, "zzz", "HEAD", "main", "../" + made, made + "0", "\u0661" * 40,
                       memory.blob_id("version 1\n")):  # fmt: skip
            assert memory.read(_PATH, commit) is None, commit

    def test_notes_do_not_mix(self, memory: Memory) -> None:
        """Names that are nearly the same are different notes."""
        spelt = [_taken(memory, path) for path in ALIKE]
        names = [*dict.fromkeys(name for name in spelt if name is not None)]
        assert len(names) >= 6
        for intent, name in enumerate(names, start=1):
            _put(memory, intent, f"of {name}", name)
        assert [memory.read(name) for name in names] == [f"of {name}" for name in names]
        assert [len(memory.history(name, 9)) for name in names] == [1] * len(names)

    # --- history --------------------------------------------------------------------------------------------

    def test_history_is_newest_first_and_limited(self, memory: Memory) -> None:
        """By the order of the commits, whatever the clock said, and of this note alone."""
        made = []
        for intent, minute in enumerate((50, 40, 40, 90, 1), start=1):
            made.append(_put(memory, 2 * intent, when=_when(minute)))
            _put(memory, 2 * intent + 1, path="notes/b.md")
        newest = made[::-1]
        assert _ids(memory) == newest
        for limit in (0, 1, 2, 5, 6):
            assert _ids(memory, limit=limit) == newest[:limit]

    def test_a_version_tells_who_when_and_why(self, memory: Memory) -> None:
        """What was given to the commit, and the id of the content."""
        authors = ("agent:acme", "Jörg Müller", "human")
        made = [_put(memory, n, author=author) for n, author in enumerate(authors, start=1)]
        for intent, version in enumerate(reversed(memory.history(_PATH, 9)), start=1):
            assert version.commit == made[intent - 1]
            assert version.author == authors[intent - 1]
            assert version.message.splitlines()[0] == f"message {intent}"
            assert abs(datetime.fromisoformat(version.when) - _START - timedelta(minutes=intent)) < timedelta(seconds=1)
            assert version.blob == memory.blob_id(f"version {intent}\n")
        assert len(made) == len(memory.history(_PATH, 9)) == 3

    def test_no_message_and_no_author_does_harm(self, memory: Memory, reopen: Reopen) -> None:
        """Any text is taken: the version is there, once, and its intent is known again."""
        odd = [*({"message": one} for one in MESSAGES), *({"author": one} for one in AUTHORS)]
        made = [_or_told(f"{other}", _put, memory, intent, **other) for intent, other in enumerate(odd, start=11)]
        assert [one for one in made if not isinstance(one, str)] == []
        assert _ids(memory) == made[::-1]
        again = reopen()
        assert [_put(again, intent, **other) for intent, other in enumerate(odd, start=11)] == made
        assert _ids(again) == made[::-1]
        assert again.read(_PATH) == f"version {len(odd) + 10}\n"

    # --- ids of contents ------------------------------------------------------------------------------------

    def test_the_id_of_a_content_is_known_before(self, memory: Memory, reopen: Reopen) -> None:
        """It is that of the version, the same in every object, and another for every content."""
        before = [memory.blob_id(content) for content in CONTENTS]
        assert len({*before}) == len(CONTENTS)
        for intent, content in enumerate(CONTENTS, start=1):
            _put(memory, intent, content)
        assert [one.blob for one in memory.history(_PATH, 100)] == before[::-1]
        assert [reopen().blob_id(content) for content in CONTENTS] == before

    def test_asking_for_an_id_writes_nothing(self, memory: Memory, place: Path) -> None:
        """Neither in a fresh memory nor later."""
        for intent in (1, 2):
            before = _files(place)
            memory.blob_id(f"never written {intent}")
            memory.normalise(_PATH)
            assert _files(place) == before
            _put(memory, intent)

    # --- intents --------------------------------------------------------------------------------------------

    def test_an_intent_is_committed_once(self, memory: Memory) -> None:
        """At once, and after later ones; each intent has a commit of its own, also where it changes nothing."""
        first = _put(memory, 1)
        assert _put(memory, 1) == first
        second = _put(memory, 2)
        assert _put(memory, 1) == first
        assert memory.read(_PATH) == "version 2\n"
        assert _ids(memory) == [second, first]
        same = _put(memory, 3, "version 2\n")
        assert _put(memory, 3, "version 2\n") == same
        assert len({first, second, same}) == 3

    def test_intents_are_known_after_reopening(self, memory: Memory, reopen: Reopen) -> None:
        """Sixty of them, repeated in any order, by objects that did not make them."""
        made = {intent: _put(memory, intent) for intent in range(1, _KNOWN_INTENTS + 1)}
        for order in ([*made], [*made][::-1]):
            again = reopen()
            assert {intent: _put(again, intent) for intent in order} == made
        assert again.read(_PATH) == memory.read(_PATH) == f"version {_KNOWN_INTENTS}\n"
        assert _ids(memory) == _ids(again) == [*made.values()][::-1]

    def test_a_number_that_was_given_twice_is_told(self, memory: Memory, reopen: Reopen) -> None:
        """The same intent with another content or path is no repetition, and changes nothing."""
        made = [_put(memory, 1), _put(memory, 2)]
        for one in (memory, reopen()):
            for wrong in (_given(1, "another"), _given(2, "version 1\n"), _given(2, "version 2\n", "notes/b.md")):
                with pytest.raises(CorruptData):
                    one.commit(**wrong)
            assert one.read(_PATH) == "version 2\n"
            assert one.read("notes/b.md") is None
            assert _ids(one) == made[::-1]

    # --- durability -----------------------------------------------------------------------------------------

    def test_what_was_committed_is_there_after_reopening(self, memory: Memory, reopen: Reopen) -> None:
        """When `commit` has returned; and it goes on from there."""
        made = []
        for intent in range(1, 5):
            made.append(_put(memory if intent < 3 else reopen(), intent))
            again = reopen()
            assert again.read(_PATH) == f"version {intent}\n"
            assert _ids(again) == made[::-1]
            assert again.read(_PATH, made[0]) == "version 1\n"

    def test_commits_of_another_object_are_seen(self, memory: Memory, reopen: Reopen) -> None:
        """At the next call, in both directions, although both have been open all the time."""
        objects, made = (memory, reopen()), list[str]()
        assert [one.read(_PATH) for one in objects] == [None, None]
        for intent in range(1, 7):
            made.append(_put(objects[intent % 2], intent))
            assert [one.read(_PATH) for one in objects] == [f"version {intent}\n"] * 2
            assert [_ids(one) for one in objects] == [made[::-1]] * 2
            assert _put(objects[1 - intent % 2], intent) == made[-1]

    # --- names ----------------------------------------------------------------------------------------------

    def test_a_plain_path_is_its_own_spelling(self, memory: Memory) -> None:
        """The kernel and its plugins name notes like that."""
        assert [memory.normalise(path) for path in PLAIN] == [*PLAIN]
        for intent, path in enumerate(PLAIN, start=1):
            _put(memory, intent, path, path)
        assert [memory.read(path) for path in PLAIN] == [*PLAIN]

    def test_the_one_spelling_is_its_own(self, memory: Memory) -> None:
        """What `normalise` answers, it answers again."""
        names = [name for path in (*PLAIN, *ODD, *BAD, *ALIKE) if (name := _taken(memory, path)) is not None]
        assert [_taken(memory, name) for name in names] == names
        assert len(names) >= len(PLAIN)

    def test_a_path_has_one_spelling(self, memory: Memory) -> None:
        """Others are brought to it, or refused."""
        for group in SPELLINGS:
            names = {name for path in group if (name := _taken(memory, path)) is not None}
            assert len(names) <= 1, f"{names} are one note"

    def test_bad_paths_are_refused(self, memory: Memory, place: Path) -> None:
        """By `normalise` and by `commit`, which then writes nothing; reading finds nothing there."""
        _put(memory, 1)
        before = (_ids(memory), {*place.parent.rglob("*")})
        for intent, path in enumerate(BAD, start=2):
            assert _taken(memory, path) is None, f"{path[:60]!r} was taken"
            with pytest.raises(PathRefused):
                _put(memory, intent, path=path)
            for read in (memory.read, partial(_ids, memory)):
                found = _or_told(f"reading {path[:60]!r}", read, path)
                assert isinstance(found, PathRefused) or not found, f"{path[:60]!r} was read"
        assert (_ids(memory), {*place.parent.rglob("*")}) == before

    def test_a_folder_is_spelt_the_same_whatever_is_in_it(self, memory: Memory) -> None:
        """So that the notes in a folder are found by its name."""
        for folder in ("notes", "Deep/er", "caf\u00e9", "cafe\u0301", "a b", "./x", "x//y"):
            names = [_taken(memory, f"{folder}/{name}") for name in ("note.md", "b.md")]
            spelt = {name and name.rpartition("/")[0] for name in names}
            assert len(spelt) == 1, folder
            assert names == [None, None] or [f"{name}".rpartition("/")[2] for name in names] == ["note.md", "b.md"]

    def test_what_has_a_name_can_be_committed(self, memory: Memory) -> None:
        """Whatever other notes there are: the kernel has recorded the intent before the memory hears of it."""
        paths = ("x.md", "x.md/y.md", "p/q.md/r.md", "p/q.md", "p.md", "p", *ODD)
        names = [*dict.fromkeys(name for path in paths if (name := _taken(memory, path)) is not None)]
        for intent, name in enumerate(names, start=1):
            try:
                _put(memory, intent, name, name)
            except PerpetualError as problem:
                raise AssertionError(f"{name!r} has a name and cannot be committed: {problem}") from problem
        assert [memory.read(name) for name in names] == names

    def test_a_link_leads_nowhere(self, memory: Memory, reopen: Reopen, place: Path, tmp_path: Path) -> None:
        """A link inside the memory's place that leads out of it is neither read through nor written through."""
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret.md").write_text("secret", "utf-8")
        _put(memory, 1)
        _put(memory, 2, path="linked/first.md")
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
                found = _or_told(f"reading {path}", again.read, path)
                assert found != "secret", f"{path} was read from outside"
                _or_told(f"writing {path}", again.commit, **_given(intent, path=path))
            assert _files(outside) == {"secret.md": b"secret"}

    # --- loss and damage ------------------------------------------------------------------------------------

    def test_a_lost_memory_says_so_and_is_written_anew(self, memory: Memory, reopen: Reopen, place: Path) -> None:
        """It is not lost once it holds a note; where all is gone it says so, and takes every intent again."""
        for intent in (1, 2, 3):
            _put(memory, intent)
        for find in (reopen, lambda: memory):  # also one that has been open all the time
            assert not memory.is_lost()
            assert not reopen().is_lost()
            shutil.rmtree(place)
            place.mkdir()
            again = find()
            if again.is_lost():
                for intent in (1, 2, 3):
                    _put(again, intent)
            assert [again.read(_PATH), reopen().read(_PATH)] == ["version 3\n"] * 2
            told = [one.message.splitlines()[0] for one in again.history(_PATH, 9)]
            assert told == [f"message {n}" for n in (3, 2, 1)]
            assert not again.is_lost()

    def test_reading_makes_no_memory(self, memory: Memory, reopen: Reopen) -> None:
        """One that is lost stays lost until it is written: otherwise nobody would write it anew."""
        lost = memory.is_lost()
        assert memory.read(_PATH) is None
        assert [*memory.history(_PATH, 5)] == []
        assert memory.read(_PATH, "0" * 40) is None
        assert [memory.is_lost(), reopen().is_lost()] == [lost, lost]

    def test_damage_is_told(self, memory: Memory, reopen: Reopen, place: Path, tmp_path: Path) -> None:
        """A file that was emptied, cut or overwritten is an error, or has no effect: no other text, and no absence."""
        made = [_put(memory, 1), _put(memory, 2), _put(memory, 3, "other", "notes/b.md")]
        right = {
            "the newest text": lambda one: one.read(_PATH) == "version 2\n",
            "the first text": lambda one: one.read(_PATH, made[0]) == "version 1\n",
            "another note": lambda one: one.read("notes/b.md") == "other",
            "the history": lambda one: _ids(one) == [made[1], made[0]],
        }
        whole = tmp_path / "whole"
        shutil.copytree(place, whole)
        names = sorted(_files(whole))
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
        again = _or_told(what, reopen)
        if isinstance(again, PerpetualError):
            return
        for part, holds in right.items():
            found = _or_told(what, holds, again)
            assert isinstance(found, PerpetualError) or found, f"{what}: {part} is another one, and nothing says so"
        done = _or_told(what, _put, again, 4, "after", "notes/c.md")
        text = _or_told(what, again.read, "notes/c.md")
        assert isinstance(done, PerpetualError) or isinstance(text, PerpetualError) or text == "after", what

    # --- threads --------------------------------------------------------------------------------------------

    def test_threads_read_while_one_commits(self, memory: Memory) -> None:
        """Whole versions, none of them older than one that was seen before; from the first use on."""
        versions, start, done = 10, threading.Barrier(4), threading.Event()
        wrong: list[str] = []

        def read() -> None:
            seen = 0
            start.wait(_PATIENCE_S)
            while not done.wait(0.005) and not wrong:
                text, ids = memory.read(_PATH), _ids(memory)
                found = int(text.split()[1]) if text else 0
                if (text or "") != _whole(found) or found < seen or len(ids) < found:
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
        start.wait(_PATIENCE_S)
        try:
            made = [_put(memory, intent, _whole(intent)) for intent in range(1, versions + 1)]
        finally:
            done.set()
            for thread in threads:
                thread.join(_PATIENCE_S)
        assert wrong == []
        assert _ids(memory) == made[::-1]


def _whole(intent: int) -> str:
    return f"version {intent}\n" * 400 if intent else ""


# Another process: reads one JSON line with the factory, its options and the path, then obeys one line at a time. In
# `dying` it kills itself before its n-th change to a file in the place, and otherwise says how many changes there were.
_PEER = """
import json, os, signal, sys
from importlib import import_module
from pathlib import Path
factory, options, path = json.loads(sys.stdin.readline())
module, _, name = factory.partition(":")
memory = getattr(import_module(module), name)(options, path=Path(path))
memory.read("notes/a.md")
print(json.dumps("ready"), flush=True)
place, changes, last = str(Path(path).parent), 0, None
NAMES = {"os.rename", "os.link", "os.symlink", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
WRITING = os.O_CREAT | os.O_WRONLY | os.O_RDWR | os.O_TRUNC

def die():
    os.kill(os.getpid(), signal.SIGKILL) if hasattr(signal, "SIGKILL") else os._exit(1)

def watch(event, given):
    global changes
    if last is None or not (event in NAMES or event == "open" and given[2] & WRITING):
        return
    if any(os.path.abspath(str(one)).startswith(place) for one in given[:2] if isinstance(one, (str, os.PathLike))):
        changes += 1
        if changes == last:
            die()

for line in sys.stdin:
    deed, given = json.loads(line)
    if deed == "dying":
        last = given.pop("last")
        sys.addaudithook(watch)
        memory.commit(**given)
        answer, last = changes, None
    elif deed == "commits":
        for one in given:
            print(json.dumps(memory.commit(**one)), flush=True)
        continue
    else:
        answer = getattr(memory, deed)(**given)
        answer = [one.commit for one in answer] if deed == "history" else answer
    print(json.dumps(answer), flush=True)
"""


class _Peer:
    """The same memory in another process, which has read in it before it is asked anything."""

    def __init__(self, factory: str, options: Mapping[str, Any], path: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.tell(factory, dict(options), str(path))
        self._is_ready = False

    def tell(self, *words: Any) -> None:
        """Says something, and does not wait for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        """The next answer; None if it has died."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def be_ready(self) -> None:
        """Waits until it has started."""
        if not self._is_ready:
            assert self.hear() == "ready", "the memory could not be opened in another process"
            self._is_ready = True

    def ask(self, deed: str, **given: Any) -> Any:
        """What it answers."""
        self.be_ready()
        self.tell(deed, given)
        return self.hear()

    def kill(self) -> list[Any]:
        """Ends the process, whatever it is doing; what it had still said."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        # Not by communicate, which passes over the lines that the reader has buffered.
        said = [] if self._process.stdout.closed else self._process.stdout.readlines()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        return [json.loads(line) for line in said if line.endswith("\n")]


class DurableMemoryContract(MemoryContract):
    """With other processes, some of which are killed; needs `factory`."""

    @pytest.fixture
    def peers(self, place: Path) -> Iterator[Callable[[], _Peer]]:
        """Opens the same memory in another process."""
        begun: list[_Peer] = []

        def begin() -> _Peer:
            begun.append(_Peer(self.factory, self.options, place / "memory"))
            return begun[-1]

        yield begin
        for peer in begun:
            peer.kill()

    def test_processes_see_what_others_commit(self, memory: Memory, peers: Callable[[], _Peer]) -> None:
        """At the next call, in both directions, and each intent is known in both."""
        peer, made = peers(), list[str]()
        for intent in range(1, 7):
            given = _given(intent)
            ours = intent % 2 == 0
            made.append(memory.commit(**given) if ours else peer.ask("commit", **given))
            assert memory.read(_PATH) == peer.ask("read", path=_PATH) == f"version {intent}\n"
            assert (peer.ask("commit", **given) if ours else memory.commit(**given)) == made[-1]
        assert _ids(memory) == peer.ask("history", path=_PATH, limit=99) == made[::-1]

    def test_a_process_that_is_killed_has_kept_what_it_committed(
        self, memory: Memory, reopen: Reopen, peers: Callable[[], _Peer]
    ) -> None:
        """Right after the answer, and read by an object of later; the next intent goes on."""
        peer = peers()
        made = [peer.ask("commit", **_given(intent)) for intent in (1, 2)]
        peer.kill()
        for one in (memory, reopen()):
            assert one.read(_PATH) == "version 2\n"
            assert _ids(one) == made[::-1]
        assert [_put(reopen(), intent) for intent in (1, 2)] == made
        assert _ids(memory) == made[::-1]

    def test_a_commit_is_killed_at_any_step(self, memory: Memory, reopen: Reopen, peers: Callable[[], _Peer]) -> None:
        """Before any change of a file: the old state or the new one is there, and the intent is committed once."""
        made = [_put(memory, 1)]
        counter = peers()
        steps = counter.ask("dying", **_given(2), last=0)
        made.append(_put(memory, 2))
        assert isinstance(steps, int)
        chosen = sorted({1, steps, *random.Random(_SEED).sample(range(1, steps + 1), min(4, steps))}) if steps else []
        victims = [(last, peers()) for last in chosen]
        for intent, (last, victim) in enumerate(victims, start=3):
            victim.ask("dying", **_given(intent), last=last)
            victim.kill()
            self._check_killed(reopen, made, intent)

    def test_a_commit_is_killed_at_any_moment(self, memory: Memory, reopen: Reopen, peers: Callable[[], _Peer]) -> None:
        """While a process commits one intent after the other: what it had answered is there, and of the next one all
        or nothing."""
        chance, made = random.Random(_SEED), [_put(memory, 1)]
        for victim in [peers() for _ in range(4)]:
            victim.be_ready()
            first = len(made) + 1
            victim.tell("commits", [_given(intent) for intent in range(first, first + 500)])
            answered = [victim.hear()]
            time.sleep(chance.uniform(0, 0.02))
            made += [one for one in [*answered, *victim.kill()] if one is not None]
            assert len(made) >= first, "it died by itself"
            self._check_killed(reopen, made, len(made) + 1)

    @staticmethod
    def _check_killed(reopen: Reopen, made: list[str], intent: int) -> None:
        """After a kill in `intent`: everything made before is whole, and the intent can be committed, once."""
        after = reopen()
        found = [_or_told("after a kill", after.read, _PATH, commit) for commit in made[-3:]]
        assert found == [f"version {n}\n" for n in range(1, intent)][-3:]
        ids = _or_told("after a kill", _ids, after)
        assert isinstance(ids, list), ids
        assert ids[-len(made) :] == made[::-1], "what was committed before is not there as it was"
        newest = _or_told("after a kill", after.read, _PATH)
        assert (newest, len(ids)) in [(f"version {n}\n", n) for n in (intent - 1, intent)], "neither old nor new"
        once = _or_told("committing what was killed", _put, after, intent)
        assert isinstance(once, str), once
        assert _or_told("committing it again", _put, reopen(), intent) == once
        assert ids in (made[::-1], [once, *made[::-1]]), "the killed intent was committed twice"
        assert _ids(reopen()) == [once, *made[::-1]]
        assert reopen().read(_PATH) == f"version {intent}\n"
        made.append(once)

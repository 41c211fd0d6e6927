"""The contract suite of retrievers fails on each one that breaks one promise, and on no other."""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Listing, Note, NoteHit
from perpetual.toolkit.units import start_of
from perpetual_recall.linear import Linear
from perpetual_recall.shown import every_note
from perpetual_recall.testing import RetrieverContract

NAMES = [name for name, _ in inspect.getmembers(RetrieverContract, inspect.isfunction) if name.startswith("test_")]


class FindsAll(Linear):
    """Finds every note, whatever was asked."""

    def search(self, lab: Lab, query: str, *, limit: int = 20, cursor: str | None = None) -> Listing[NoteHit]:
        found = super().search(lab, query, limit=limit, cursor=cursor)
        if query != "shuffle data":
            return found
        return Listing(tuple(NoteHit(note, "") for note in every_note(lab)), None)


class Repeats(Linear):
    """Begins every page at the first hit."""

    def search(self, lab: Lab, query: str, *, limit: int = 20, cursor: str | None = None) -> Listing[NoteHit]:
        start_of(cursor)
        return super().search(lab, query, limit=limit)


class Lenient(Linear):
    """Takes a query without a word for one that finds nothing."""

    def search(self, lab: Lab, query: str, *, limit: int = 20, cursor: str | None = None) -> Listing[NoteHit]:
        if not any(letter.isalnum() for letter in query):
            return Listing((), None)
        return super().search(lab, query, limit=limit, cursor=cursor)


class Indiscreet(Linear):
    """Searches what persons see for every reader."""

    def search(self, lab: Lab, query: str, *, limit: int = 20, cursor: str | None = None) -> Listing[NoteHit]:
        if lab.actor.startswith("mcp:"):
            return Listing(tuple(NoteHit(note, "") for note in every_note(lab)), None)
        return super().search(lab, query, limit=limit, cursor=cursor)


class OffersAll(Linear):
    """Offers what was not promoted."""

    def offer(self, lab: Lab, *, limit: int) -> list[Note]:
        return [note for note in every_note(lab) if note.status != "rejected"][:limit]


class Remembers(Linear):
    """Answers a query as it did the first time."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str | None], Listing[NoteHit]] = {}

    def search(self, lab: Lab, query: str, *, limit: int = 20, cursor: str | None = None) -> Listing[NoteHit]:
        if query != "zebra":
            return super().search(lab, query, limit=limit, cursor=cursor)
        if (query, cursor) not in self.kept:
            self.kept[query, cursor] = super().search(lab, query, limit=limit, cursor=cursor)
        return self.kept[query, cursor]


class Generous(Linear):
    """Offers more than was asked for."""

    def offer(self, lab: Lab, *, limit: int) -> list[Note]:
        return super().offer(lab, limit=limit + 1)


class Inventive(Linear):
    """Offers a note that there is not."""

    def offer(self, lab: Lab, *, limit: int) -> list[Note]:
        made = Note("notes/made.md", "note", "candidate", "made up", "user:x", None, "0" * 40, "2026-01-01T00:00:00Z")
        return super().offer(lab, limit=limit) or [made]


class Writes(Linear):
    """Keeps what was searched in the record."""

    def search(self, lab: Lab, query: str, *, limit: int = 20, cursor: str | None = None) -> Listing[NoteHit]:
        if query == "adam" and not lab.actor.startswith("mcp:"):
            lab.hypotheses.add(f"{query} was searched")
        return super().search(lab, query, limit=limit, cursor=cursor)


class Moody(Linear):
    """Turns its offer round each time."""

    def __init__(self) -> None:
        self.count = 0

    def offer(self, lab: Lab, *, limit: int) -> list[Note]:
        self.count += 1
        return super().offer(lab, limit=limit)[:: 1 if self.count % 2 else -1]


BROKEN: dict[type[Linear], set[str]] = {
    Linear: set(),
    FindsAll: {"test_a_search_finds_what_holds_its_words"},
    Repeats: {"test_pages_follow_one_another"},
    Lenient: {"test_what_cannot_be_searched_is_refused"},
    Indiscreet: {"test_agents_find_only_what_they_may_be_shown"},
    OffersAll: {"test_agents_are_offered_only_what_they_may_be_shown"},
    Remembers: {"test_a_change_is_seen_at_once"},
    Generous: {"test_an_offer_is_as_long_as_asked"},
    Inventive: {"test_an_empty_memory_offers_nothing"},
    Writes: {"test_the_record_is_not_changed"},
    Moody: {"test_the_same_record_gives_the_same_answers"},
}
CASES = {
    "test_what_cannot_be_searched_is_refused": ({"query": "", "cursor": None}, {"query": "adam", "cursor": "soon"})
}


def holds(name: str, kind: type[Linear], folder: Path) -> bool:
    """Whether a retriever passes one test of the suite."""
    Lab.init(folder, name="contract").close()
    with ExitStack() as stack:

        def opened(actor: str) -> Lab:
            return stack.enter_context(Lab.open(folder, actor=actor))

        suite = RetrieverContract()
        wanted = inspect.signature(getattr(suite, name)).parameters
        given: dict[str, object] = {"retriever": kind(), "opened": opened}
        if "lab" in wanted:
            given["lab"] = suite.filled(opened)
        try:
            for case in CASES.get(name, ({},)):
                getattr(suite, name)(**{key: given[key] for key in wanted if key in given}, **case)
        except (AssertionError, pytest.fail.Exception):
            return False
        return True


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_the_suite_bites(kind: type[Linear], tmp_path: Path) -> None:
    assert {name for name in NAMES if not holds(name, kind, tmp_path / name)} == BROKEN[kind]


def test_every_test_of_the_suite_has_a_retriever_that_fails_it() -> None:
    assert set().union(*BROKEN.values()) == {*NAMES}

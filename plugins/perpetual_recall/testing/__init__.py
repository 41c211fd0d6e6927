"""The contract suite of retrievers: the promises of `perpetual_recall.retriever` as tests.

    class TestAcme(RetrieverContract):
        @pytest.fixture
        def retriever(self):
            return acme.retriever.build({})

The suite makes its own labs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import NoteHit, UsageError
from perpetual_recall.retriever import Retriever

__all__ = ["RetrieverContract"]

AGENT = "mcp:contract/1"
Opener = Callable[[str], Lab]


class RetrieverContract:
    """For every retriever; see the module."""

    @pytest.fixture
    def opened(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
        """Yields what opens a lab of a new project in the name of an actor."""
        for name in ("STATE", "CACHE", "CONFIG"):
            monkeypatch.setenv(f"PERPETUAL_{name}_DIR", str(tmp_path / name.lower()))
        Lab.init(tmp_path / "project", name="contract").close()
        with ExitStack() as stack:
            yield lambda actor: stack.enter_context(Lab.open(tmp_path / "project", actor=actor))

    @pytest.fixture
    def lab(self, opened: Opener) -> Lab:
        """Returns a person's lab with three notes."""
        return self.filled(opened)

    @staticmethod
    def filled(opened: Opener) -> Lab:
        """Returns a person's lab into which three notes were written."""
        lab = opened("user:contract")
        lab.memory.write("notes/adam.md", "# Adam needs warm-up\nbeta2 matters most at the beginning\n")
        lab.memory.write("notes/sgd.md", "# SGD needs momentum\nbeta2 is not a part of it at all\n")
        lab.memory.write("notes/data.md", "# Shuffle the data\nonce for each epoch\n")
        return lab

    def test_a_search_finds_what_holds_its_words(self, retriever: Retriever, lab: Lab) -> None:
        """The notes whose titles hold the words are found, and a word that is nowhere finds nothing."""
        assert {hit.note.path for hit in retriever.search(lab, "shuffle data").items} == {"notes/data.md"}
        found = retriever.search(lab, "needs").items
        assert {hit.note.path for hit in found} == {"notes/adam.md", "notes/sgd.md"}
        assert all(type(hit) is NoteHit and hit.note == lab.memory.get(hit.note.path) for hit in found)
        assert retriever.search(lab, "nowhere").items == ()

    def test_pages_follow_one_another(self, retriever: Retriever, lab: Lab) -> None:
        """With the cursor of each page the next one begins where it ended: nothing twice, nothing left out."""
        whole = [hit.note.path for hit in retriever.search(lab, "needs").items]
        paths: list[str] = []
        cursor: str | None = None
        for _ in range(len(whole) + 1):
            page = retriever.search(lab, "needs", limit=1, cursor=cursor)
            paths += [hit.note.path for hit in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert (paths, cursor) == (whole, None)

    @pytest.mark.parametrize(("query", "cursor"), [("", None), ("?!", None), ("adam", "soon")])
    def test_what_cannot_be_searched_is_refused(
        self, retriever: Retriever, lab: Lab, query: str, cursor: str | None
    ) -> None:
        """A query without a word and a cursor that is none raise UsageError."""
        with pytest.raises(UsageError):
            retriever.search(lab, query, cursor=cursor)

    def test_agents_find_only_what_they_may_be_shown(self, retriever: Retriever, lab: Lab, opened: Opener) -> None:
        """A note that waits for a promotion is found by persons, and by no agent."""
        lab.memory.write("skills/adam.md", "# Adam card\nraise beta2\n", type="skill_card")
        agent = opened(AGENT)
        assert "skills/adam.md" in {hit.note.path for hit in retriever.search(lab, "adam").items}
        assert "skills/adam.md" not in {hit.note.path for hit in retriever.search(agent, "adam").items}

    def test_agents_are_offered_only_what_they_may_be_shown(
        self, retriever: Retriever, lab: Lab, opened: Opener
    ) -> None:
        """In a person's lab too: the brief is computed once for every reader."""
        lab.memory.write("skills/adam.md", "# Adam card\nraise beta2\n", type="skill_card")
        for reader in (lab, opened(AGENT)):
            assert "skills/adam.md" not in {note.path for note in retriever.offer(reader, limit=100)}

    def test_a_change_is_seen_at_once(self, retriever: Retriever, lab: Lab) -> None:
        """A note that was written, changed or rejected since the last search."""
        assert retriever.search(lab, "zebra").items == ()
        lab.memory.write("notes/new.md", "# Zebra\nstripes\n")
        assert [hit.note.path for hit in retriever.search(lab, "zebra").items] == ["notes/new.md"]
        lab.memory.write("notes/new.md", "# Horse\nno stripes\n")
        assert retriever.search(lab, "zebra").items == ()
        lab.memory.reject("notes/new.md", "a test")
        assert "notes/new.md" not in {note.path for note in retriever.offer(lab, limit=100)}

    def test_an_offer_is_as_long_as_asked(self, retriever: Retriever, lab: Lab) -> None:
        """At most `limit` notes, each once; without a note none."""
        paths = [note.path for note in retriever.offer(lab, limit=2)]
        assert len(paths) == len({*paths}) == 2

    def test_an_empty_memory_offers_nothing(self, retriever: Retriever, opened: Opener) -> None:
        """And a search of it finds nothing."""
        lab = opened("user:contract")
        assert [*retriever.offer(lab, limit=5)] == []
        assert retriever.search(lab, "adam").items == ()

    def test_the_record_is_not_changed(self, retriever: Retriever, lab: Lab) -> None:
        """Neither by a search nor by an offer: the status rests on the record's state."""
        before = lab.storage.changes(0)
        retriever.search(lab, "adam")
        retriever.offer(lab, limit=5)
        assert lab.storage.changes(0) == before

    def test_the_same_record_gives_the_same_answers(self, retriever: Retriever, lab: Lab) -> None:
        """In the same order."""
        first = retriever.search(lab, "needs").items, [*retriever.offer(lab, limit=3)]
        assert (retriever.search(lab, "needs").items, [*retriever.offer(lab, limit=3)]) == first

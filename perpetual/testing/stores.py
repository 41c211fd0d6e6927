"""The contract suite of the store slot: every promise of `perpetual.slots.store`, as tests to be subclassed.

    class TestAcmeStore(SharedStoreContract):
        factory = "acme_store.store:open_store"
        options = {"timeout_s": 30.0}

`StoreContract` is for any store, `DurableStoreContract` for one that outlives its object, `SharedStoreContract` for one
that several processes may write (`capabilities.multiprocess`). Both build the store with `factory`, as the kernel does;
a subclass may override the fixture `store` (a fresh, empty store) and `reopen` (a callable that opens the same place
once more) instead. Nothing but pytest is needed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

from perpetual.errors import RevisionConflict, UsageError
from perpetual.slots.store import Document, Kind, StoreBase, Transaction

__all__ = ["DurableStoreContract", "SharedStoreContract", "StoreContract"]

Reopen = Callable[[], StoreBase]

_PATIENCE_S = 10.0  # what is waited for comes at once; this only bounds a failing test
_MOMENT_S = 0.15  # how long something that must not happen is given to happen


class _Abandoned(Exception):
    """Leaves a block."""


@contextmanager
def _abandoned(store: StoreBase, problem: BaseException | None = None) -> Iterator[Transaction]:
    """A block that raises at its end; the exception must come through."""
    leaving = problem or _Abandoned()
    try:
        with store.transaction() as tx:
            yield tx
            raise leaving
    except type(leaving):
        return
    raise AssertionError("the exception of the block was lost")


@contextmanager
def _refused(store: StoreBase, error: type[Exception] = UsageError) -> Iterator[Transaction]:
    """A block of which something is refused; checked by the error's type."""
    try:
        with store.transaction() as tx:
            yield tx
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def _bodies(documents: list[Document] | tuple[Document, ...]) -> list[Any]:
    return [document.body["n"] for document in documents]


def _in_thread(deed: Callable[[], Any]) -> Any:
    """What another thread gets, which has no part in an open transaction and does not wait for it."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(deed()), daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    assert not thread.is_alive(), "a reader waits for an open transaction"
    return answers[0]


def _fill(store: StoreBase, count: int) -> None:
    with store.transaction() as tx:
        for n in range(1, count + 1):
            tx.create("hypothesis", {"n": n, "status": "open" if n % 2 else "parked"})


class StoreContract:
    """For every store."""

    factory: ClassVar[str] = ""
    options: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Iterator[Reopen]:
        """Opens the same place once more; what was opened is closed at the end."""
        module, _, name = self.factory.partition(":")
        build = getattr(import_module(module), name)
        opened: list[StoreBase] = []

        def again() -> StoreBase:
            opened.append(build(dict(self.options), path=tmp_path / "store"))
            return opened[-1]

        yield again
        for store in opened:
            store.close()

    @pytest.fixture
    def store(self, reopen: Reopen) -> StoreBase:
        """A fresh, empty store."""
        return reopen()

    # --- documents ------------------------------------------------------------------------------------------

    def test_an_empty_store_holds_nothing(self, store: StoreBase) -> None:
        """No commit, no document, no row, no change."""
        assert store.seq() == 0
        assert store.get("hypothesis", "h1") is None
        assert store.find("hypothesis") == []
        assert store.rows("event") == []
        assert store.count("hypothesis") == store.count("event") == 0
        assert store.changes(0) == []
        page = store.page("hypothesis", limit=5)
        assert (page.items, page.next_cursor) == ((), None)

    def test_what_was_written_is_read(self, store: StoreBase) -> None:
        """Every JSON value comes back as it was, whatever its nesting and its letters."""
        body = {"n": 1, "text": "ü \u2028 \x00 \U0001f52d", "none": None, "yes": True, "half": 0.5, "tiny": 1e-300,
                "big": 2**63, "list": [1, [2, {"deep": []}]], "map": {"": {}, "a.b": 1, "$x": 2}}  # fmt: skip
        with store.transaction() as tx:
            made = tx.create("hypothesis", body)
            tx.put("setting", "a name/with: odd letters ü", {"n": 2})
        assert (made.kind, made.id, made.revision, made.number) == ("hypothesis", "h1", 1, 1)
        found = store.get("hypothesis", "h1")
        assert found is not None
        assert found.body == {**body, "id": "h1"}
        assert type(found.body["yes"]) is bool
        assert found == made
        assert store.find("hypothesis") == [found]
        other = store.get("setting", "a name/with: odd letters ü")
        assert other is not None
        assert other.body == {"n": 2}

    def test_nothing_is_lost(self, store: StoreBase) -> None:
        """A block with many writes of many kinds keeps each of them; so do many blocks."""
        with store.transaction() as tx:
            for n in range(25):
                tx.create("hypothesis", {"n": n})
                tx.append("event", {"n": n})
                tx.put("setting", f"s{n}", {"n": n})
        for n in range(25, 40):
            with store.transaction() as tx:
                tx.create("hypothesis", {"n": n})
        assert _bodies(store.find("hypothesis")) == [*range(40)]
        assert _bodies(store.rows("event")) == [*range(25)]
        assert sorted(_bodies(store.find("setting"))) == [*range(25)]
        assert (store.count("hypothesis"), store.count("event"), store.count("setting")) == (40, 25, 25)

    def test_ids_are_generated_in_order(self, store: StoreBase) -> None:
        """`create` numbers from 1 with the kind's prefix, and puts the id into the body."""
        with store.transaction() as tx:
            assert [tx.create("run", {}).id for _ in range(3)] == ["r1", "r2", "r3"]
        with store.transaction() as tx:
            made = tx.create("run", {"id": "mine"})
        assert (made.id, made.body["id"], made.number) == ("r4", "r4", 4)

    def test_a_put_replaces_the_whole_document(self, store: StoreBase) -> None:
        """Keys that are not written again are gone; the place in the order of creation stays."""
        _fill(store, 3)
        with store.transaction() as tx:
            tx.put("hypothesis", "h1", {"n": 9})
        found = store.get("hypothesis", "h1")
        assert found is not None
        assert (found.body, found.number) == ({"n": 9}, 1)
        assert _bodies(store.find("hypothesis")) == [9, 2, 3]
        assert store.count("hypothesis") == 3
        assert store.find("hypothesis", status="open") == [store.get("hypothesis", "h3")]

    # --- revisions ------------------------------------------------------------------------------------------

    def test_revisions_grow_by_one(self, store: StoreBase) -> None:
        """From 1, at each write, and no faster."""
        seen = []
        for n in range(4):
            with store.transaction() as tx:
                seen.append(tx.put("setting", "x", {"n": n}).revision)
            found = store.get("setting", "x")
            assert found is not None
            seen.append(found.revision)
        assert seen == [1, 1, 2, 2, 3, 3, 4, 4]

    def test_an_expected_revision_is_checked(self, store: StoreBase) -> None:
        """A write with the present revision goes through; any other is refused and changes nothing."""
        with store.transaction() as tx:
            tx.put("setting", "x", {"n": 1}, expect_revision=0)
        with store.transaction() as tx:
            tx.put("setting", "x", {"n": 2}, expect_revision=1)
        for wrong in (0, 1, 3):
            with _refused(store, RevisionConflict) as tx:
                tx.put("setting", "x", {"n": 99}, expect_revision=wrong)
        with _refused(store, RevisionConflict) as tx:
            tx.put("setting", "absent", {"n": 99}, expect_revision=1)
        found = store.get("setting", "x")
        assert found is not None
        assert (found.body, found.revision) == ({"n": 2}, 2)
        assert store.get("setting", "absent") is None
        assert store.seq() == 2

    def test_a_write_of_the_same_block_counts(self, store: StoreBase) -> None:
        """Inside a block the revision is that of the block's own writes."""
        with store.transaction() as tx:
            tx.put("setting", "x", {"n": 1}, expect_revision=0)
            with pytest.raises(RevisionConflict):
                tx.put("setting", "x", {"n": 2}, expect_revision=0)
            assert tx.put("setting", "x", {"n": 3}, expect_revision=1).revision == 2

    # --- ledgers --------------------------------------------------------------------------------------------

    def test_ledgers_are_dense(self, store: StoreBase) -> None:
        """Rows are numbered 1, 2, 3, ... over all blocks, those that failed leaving no gap."""
        numbers = []
        for block in range(4):
            with store.transaction() as tx:
                numbers += [tx.append("event", {"n": 10 * block + n}) for n in range(3)]
            with _abandoned(store) as tx:
                tx.append("event", {"n": -1})
        assert numbers == [*range(1, 13)]
        rows = store.rows("event")
        assert [row.number for row in rows] == numbers
        assert [row.id for row in rows] == [str(n) for n in numbers]
        assert _bodies(rows) == [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32]
        assert store.count("event") == 12

    def test_rows_since(self, store: StoreBase) -> None:
        """Those with a greater number, in order, at most so many; by number too, and inside a block."""
        with store.transaction() as tx:
            for n in range(1, 13):
                tx.append("event", {"n": n})
            assert _bodies(tx.rows("event", since=9)) == [10, 11, 12]
        assert _bodies(store.rows("event", since=9)) == [10, 11, 12]
        assert _bodies(store.rows("event", since=2, limit=3)) == [3, 4, 5]
        assert store.rows("event", since=12) == []
        row = store.get("event", "11")
        assert row is not None
        assert row.body == {"n": 11}
        assert store.get("event", "13") is None

    def test_ledgers_only_grow(self, store: StoreBase) -> None:
        """A row cannot be put, created or overwritten; a document cannot be appended."""
        with store.transaction() as tx:
            tx.append("event", {"n": 1})
        deeds: list[Callable[[Transaction], object]] = [
            lambda tx: tx.put("event", "1", {"n": 2}),
            lambda tx: tx.create("event", {"n": 2}),
            lambda tx: tx.append("hypothesis", {"n": 2}),
        ]
        for deed in deeds:
            with _refused(store) as tx:
                deed(tx)
        with pytest.raises(UsageError):
            store.rows("hypothesis")
        assert _bodies(store.rows("event")) == [1]
        assert store.find("hypothesis") == []

    # --- transactions ---------------------------------------------------------------------------------------

    def test_nothing_is_visible_before_the_end(self, store: StoreBase) -> None:
        """The block sees its own writes, nobody else does, and then everybody does."""
        _fill(store, 1)

        def outside() -> list[Any]:
            return [
                store.get("hypothesis", "h2"),
                store.get("event", "1"),
                [item.body["n"] for item in store.find("hypothesis")],
                len(store.rows("event")),
                store.count("hypothesis"),
                store.seq(),
                len(store.changes(1)),
            ]

        before = _in_thread(outside)
        with store.transaction() as tx:
            tx.create("hypothesis", {"n": 2, "status": "open"})
            tx.put("hypothesis", "h1", {"n": 7, "status": "open"})
            tx.append("event", {"n": 1})
            assert _bodies(tx.find("hypothesis", status="open")) == [7, 2]
            assert _bodies(store.find("hypothesis")) == [7, 2]  # the store answers as the open transaction does
            assert store.count("hypothesis") == tx.count("hypothesis") == 2
            assert _bodies(store.rows("event")) == [1]
            assert _in_thread(outside) == before
        assert before == [None, None, [1], 0, 1, 1, 0]
        assert _in_thread(outside)[2:] == [[7, 2], 1, 2, 2, 3]

    def test_a_block_that_raises_leaves_no_trace(self, store: StoreBase) -> None:
        """Whatever it had written, and however it was left."""
        _fill(store, 2)
        before = (store.find("hypothesis"), store.seq(), store.count("event"), store.changes(0))
        for problem in (_Abandoned(), KeyboardInterrupt(), UsageError("no")):
            with _abandoned(store, problem) as tx:
                tx.create("hypothesis", {"n": 3})
                tx.put("hypothesis", "h1", {"n": 4})
                tx.append("event", {"n": 5})
            assert (store.find("hypothesis"), store.seq(), store.count("event"), store.changes(0)) == before
        with store.transaction() as tx:  # and the store is not stuck
            assert tx.create("hypothesis", {"n": 3}).id == "h3"

    def test_nested_blocks_are_one(self, store: StoreBase) -> None:
        """An inner block commits with the outer one, or not at all."""
        with store.transaction() as outer:
            outer.create("hypothesis", {"n": 1})
            with store.transaction() as inner:
                assert _bodies(inner.find("hypothesis")) == [1]
                inner.create("hypothesis", {"n": 2})
            assert _in_thread(lambda: store.find("hypothesis")) == []
            assert _bodies(outer.find("hypothesis")) == [1, 2]
        assert (store.seq(), _bodies(store.find("hypothesis"))) == (1, [1, 2])
        with _abandoned(store), store.transaction() as inner:
            inner.create("hypothesis", {"n": 3})
        assert (store.seq(), _bodies(store.find("hypothesis"))) == (1, [1, 2])

    def test_an_inner_block_that_raises_takes_its_writes_with_it(self, store: StoreBase) -> None:
        """The outer block may go on without them, and no number is used up."""
        with store.transaction() as tx:
            tx.append("event", {"n": 1})
            with _abandoned(store) as inner:
                inner.append("event", {"n": 2})
                inner.put("setting", "x", {"n": 2})
            tx.append("event", {"n": 3})
        assert _bodies(store.rows("event")) == [1, 3]
        assert store.get("setting", "x") is None

    def test_a_transaction_is_over_with_its_block(self, store: StoreBase) -> None:
        """A late write is refused: it would be lost."""
        with store.transaction() as tx:
            tx.append("event", {"n": 1})
        with pytest.raises(UsageError):
            tx.append("event", {"n": 2})
        assert _bodies(store.rows("event")) == [1]

    def test_blocks_of_two_threads_do_not_overlap(self, store: StoreBase) -> None:
        """What a block read is still true when it commits."""
        with store.transaction() as tx:
            tx.put("setting", "x", {"n": 0})
        entered = threading.Event()

        def other() -> None:
            with store.transaction() as tx:
                entered.set()
                found = tx.get("setting", "x")
                assert found is not None
                tx.put("setting", "x", {"n": found.body["n"] + 1})

        thread = threading.Thread(target=other)
        with store.transaction() as tx:
            seen = tx.get("setting", "x")
            assert seen is not None
            thread.start()
            assert not entered.wait(_MOMENT_S)
            tx.put("setting", "x", {"n": seen.body["n"] + 10})
        thread.join(_PATIENCE_S)
        found = store.get("setting", "x")
        assert found is not None
        assert found.body == {"n": 11}

    def test_threads_lose_nothing(self, store: StoreBase) -> None:
        """Many threads that create, append and count up at once."""
        with store.transaction() as tx:
            tx.put("setting", "x", {"n": 0})

        def work(worker: int) -> list[str]:
            made = []
            for n in range(8):
                with store.transaction() as tx:
                    made.append(tx.create("hypothesis", {"n": 100 * worker + n}).id)
                    tx.append("event", {"n": n})
                    found = tx.get("setting", "x")
                    assert found is not None
                    tx.put("setting", "x", {"n": found.body["n"] + 1}, expect_revision=found.revision)
            return made

        with ThreadPoolExecutor(6) as pool:
            ids = [id for made in pool.map(work, range(6)) for id in made]
        assert sorted(ids) == sorted(f"h{n}" for n in range(1, 49))
        assert sorted(_bodies(store.find("hypothesis"))) == sorted(100 * w + n for w in range(6) for n in range(8))
        assert [row.number for row in store.rows("event")] == [*range(1, 49)]
        found = store.get("setting", "x")
        assert found is not None
        assert (found.body, store.seq()) == ({"n": 48}, 49)

    def test_a_reader_sees_all_of_a_commit_or_nothing(self, store: StoreBase) -> None:
        """Two documents that are always written together are always found alike."""
        ended = threading.Event()

        def write() -> None:
            for n in range(40):
                with store.transaction() as tx:
                    for name in ("a", "b", "c"):
                        tx.put("setting", name, {"n": n})
            ended.set()

        thread = threading.Thread(target=write)
        thread.start()
        torn = []
        while not ended.is_set():
            values = _bodies(store.find("setting"))
            if len(set(values)) > 1 or len(values) not in (0, 3):
                torn.append(values)
        thread.join(_PATIENCE_S)
        assert torn == []
        assert _bodies(store.find("setting")) == [39, 39, 39]

    # --- ownership ------------------------------------------------------------------------------------------

    def test_what_is_handed_in_may_be_changed(self, store: StoreBase) -> None:
        """Before the commit and after it."""
        body: dict[str, Any] = {"n": 1, "list": [1], "map": {"a": 1}}
        with store.transaction() as tx:
            tx.put("setting", "x", body)
            tx.append("event", body)
            body["list"].append(2)
            body["map"]["a"] = 2
            body["new"] = 1
        body["n"] = 3
        for found in (store.get("setting", "x"), store.get("event", "1"), store.find("setting")[0]):
            assert found is not None
            assert found.body == {"n": 1, "list": [1], "map": {"a": 1}}

    def test_what_is_handed_out_may_be_changed(self, store: StoreBase) -> None:
        """From every method, inside a block and outside."""
        with store.transaction() as tx:
            tx.append("event", {"n": 1, "list": [1]})
            made = tx.put("setting", "x", {"n": 1, "list": [1]})
            inside = tx.get("setting", "x")
            assert inside is not None
            for document in (made, inside, tx.find("setting")[0], tx.rows("event")[0]):
                document.body["list"].append(9)
                document.body["n"] = 9
        reads: list[Callable[[], Document | None]] = [
            lambda: store.get("setting", "x"),
            lambda: store.find("setting")[0],
            lambda: store.page("setting", limit=1).items[0],
            lambda: store.rows("event")[0],
            lambda: store.get("event", "1"),
        ]
        for read in [*reads, *reads]:
            found = read()
            assert found is not None
            assert found.body == {"n": 1, "list": [1]}
            found.body["list"].append(9)
            found.body["n"] = 9

    # --- finding and paging ---------------------------------------------------------------------------------

    def test_finding_is_in_order_of_creation(self, store: StoreBase) -> None:
        """By number, not by the text of the id, whatever was changed since."""
        _fill(store, 12)
        for n in (3, 11):
            with store.transaction() as tx:
                tx.put("hypothesis", f"h{n}", {"n": n, "status": "open"})
        assert _bodies(store.find("hypothesis")) == [*range(1, 13)]
        assert _bodies(store.find("hypothesis", status="open")) == [1, 3, 5, 7, 9, 11]
        assert store.find("hypothesis", status="refuted") == []

    def test_finding_by_two_fields(self, store: StoreBase) -> None:
        """All of them must be equal; a field that is missing equals nothing but null."""
        with store.transaction() as tx:
            for n, (subject, kind) in enumerate([("h1", "a"), ("h1", "b"), ("h2", "a")], 1):
                tx.append("evidence", {"n": n, "hypothesis_id": subject, "kind": kind, "run_id": None})
        assert _bodies(store.find("evidence", hypothesis_id="h1", kind="a")) == [1]
        assert _bodies(store.find("evidence", kind="a")) == [1, 3]
        assert _bodies(store.find("evidence", run_id=None)) == [1, 2, 3]
        assert store.find("evidence", experiment_id="e1") == []

    def test_a_changed_document_is_found_by_its_new_fields(self, store: StoreBase) -> None:
        """And no more by its old ones, inside the block and after it."""
        _fill(store, 2)
        with store.transaction() as tx:
            tx.put("hypothesis", "h1", {"n": 1, "status": "parked"})
            assert _bodies(tx.find("hypothesis", status="parked")) == [1, 2]
            assert tx.find("hypothesis", status="open") == []
        assert _bodies(store.find("hypothesis", status="parked")) == [1, 2]
        assert store.find("hypothesis", status="open") == []

    def test_only_declared_indexes_are_searched(self, store: StoreBase) -> None:
        """A field that is no index is refused by name, also where there is nothing to find."""
        for read in (
            lambda: store.find("hypothesis", statement="x"),
            lambda: store.page("hypothesis", limit=1, statement="x"),
            lambda: store.find("setting", n=1),
        ):
            with pytest.raises(UsageError) as caught:
                read()
            assert "index" in caught.value.message
        with _refused(store) as tx:
            tx.find("hypothesis", statement="x")

    def test_paging_goes_through_everything_once(self, store: StoreBase) -> None:
        """In order of creation, or the newest first, with and without a filter."""
        _fill(store, 23)
        cases: list[tuple[dict[str, Any], list[int]]] = [
            ({}, [*range(1, 24)]),
            ({"newest_first": True}, [*range(23, 0, -1)]),
            ({"status": "open"}, [*range(1, 24, 2)]),
            ({"status": "open", "newest_first": True}, [*range(23, 0, -2)]),
        ]
        for given, expected in cases:
            for limit in (1, 5, 12, 23, 50):
                seen: list[int] = []
                cursor: str | None = None
                while True:
                    page = store.page("hypothesis", limit=limit, cursor=cursor, **given)
                    assert 0 < len(page.items) <= limit
                    seen += _bodies(page.items)
                    cursor = page.next_cursor
                    if cursor is None:
                        break
                assert seen == expected

    def test_paging_does_not_slip(self, store: StoreBase) -> None:
        """What is created between two pages neither repeats nor hides anything."""
        _fill(store, 4)
        first = store.page("hypothesis", limit=2, newest_first=True)
        with store.transaction() as tx:
            tx.create("hypothesis", {"n": 5})
        second = store.page("hypothesis", limit=2, newest_first=True, cursor=first.next_cursor)
        assert _bodies([*first.items, *second.items]) == [4, 3, 2, 1]
        oldest = store.page("hypothesis", limit=4)
        assert _bodies(store.page("hypothesis", limit=4, cursor=oldest.next_cursor).items) == [5]

    def test_a_wrong_page_is_refused(self, store: StoreBase) -> None:
        """A limit below one, or what is no cursor."""
        _fill(store, 1)
        for wrong in ({"limit": 0}, {"limit": -1}, {"limit": 1, "cursor": "h1"}, {"limit": 1, "cursor": "-1"}):
            with pytest.raises(UsageError):
                store.page("hypothesis", **wrong)

    # --- what is refused ------------------------------------------------------------------------------------

    def test_what_is_no_json_is_refused(self, store: StoreBase) -> None:
        """Wherever it stands, and nothing of the block remains."""
        wrong: list[Any] = [float("nan"), float("inf"), float("-inf"), {1, 2}, b"x", object(), 1j, "\ud800"]
        for value in wrong:
            for body in ({"n": value}, {"n": [{"deep": [value]}]}):
                deeds: list[Callable[[Transaction, Any], object]] = [
                    lambda tx, body: tx.put("setting", "x", body),
                    lambda tx, body: tx.append("event", body),
                    lambda tx, body: tx.create("hypothesis", body),
                ]
                for deed in deeds:
                    with _refused(store) as tx:
                        tx.put("setting", "before", {"n": 1})
                        deed(tx, body)
        for keyed in ({1: "a"}, {None: "a"}, {"deep": {2.5: "a"}}, {"_id": "mine"}, {"_rev": 7}, {"\udcff": 1}):
            with _refused(store) as tx:
                tx.put("setting", "x", keyed)  # type: ignore[arg-type]
        assert store.seq() == 0
        assert store.find("setting") == []

    def test_unknown_kinds_are_refused(self, store: StoreBase) -> None:
        """By every method, naming the nearest; until they are declared."""
        for read in (
            lambda: store.get("hypotheses", "h1"),
            lambda: store.find("hypotheses"),
            lambda: store.count("hypotheses"),
            lambda: store.rows("events"),
            lambda: store.page("hypotheses", limit=1),
        ):
            with pytest.raises(UsageError):
                read()
        with pytest.raises(UsageError) as caught, store.transaction() as tx:
            tx.put("hypotheses", "h1", {})
        assert "hypothesis" in caught.value.message

    def test_a_plugin_declares_its_own_kinds(self, store: StoreBase) -> None:
        """Documents and ledgers, with their prefix and indexes; twice is nothing new."""
        for _ in range(2):
            store.declare(Kind("acme_sample", prefix="s", indexes=("colour",)))
            store.declare(Kind("acme_log", ledger=True, indexes=("subject",)))
        with store.transaction() as tx:
            assert tx.create("acme_sample", {"n": 1, "colour": "red"}).id == "s1"
            assert tx.append("acme_log", {"n": 1, "subject": "s1"}) == 1
        assert _bodies(store.find("acme_sample", colour="red")) == [1]
        assert _bodies(store.find("acme_log", subject="s1")) == [1]
        assert {change.kind for change in store.changes(0)} == {"acme_sample", "acme_log"}

    # --- the feed -------------------------------------------------------------------------------------------

    def test_commits_are_numbered(self, store: StoreBase) -> None:
        """Each one more than the last; a block that wrote nothing, or failed, has no number."""
        for n in range(1, 5):
            with store.transaction() as tx:
                assert tx.seq == n
                assert tx.append("event", {"n": n}) == n
                tx.put("setting", "x", {"n": n})
            assert store.seq() == n
            with store.transaction() as tx:
                tx.find("hypothesis")
            with _abandoned(store) as tx:
                tx.append("event", {"n": 0})
            assert store.seq() == n

    def test_changes_are_told_once_in_order(self, store: StoreBase) -> None:
        """Each document and row that was written later, by its latest commit."""
        _fill(store, 2)
        with store.transaction() as tx:
            tx.append("event", {"n": 1})
        with store.transaction() as tx:
            tx.put("hypothesis", "h1", {"n": 3})
            tx.put("setting", "x", {"n": 3})
        with store.transaction() as tx:
            tx.put("hypothesis", "h1", {"n": 4})

        def told(since: int) -> list[tuple[int, str, str]]:
            return [(change.seq, change.kind, change.id) for change in store.changes(since)]

        assert told(0) == [(1, "hypothesis", "h2"), (2, "event", "1"), (3, "setting", "x"), (4, "hypothesis", "h1")]
        assert told(2) == [(3, "setting", "x"), (4, "hypothesis", "h1")]
        assert told(4) == []
        assert [document.seq for document in store.find("hypothesis")] == [4, 1]

    def test_waiting_for_a_commit(self, store: StoreBase) -> None:
        """Returns at once if there is one, when one comes, and when the time is over."""
        _fill(store, 1)
        began = time.monotonic()
        assert store.wait(0, _PATIENCE_S) == 1
        assert store.wait(1, 0.05) == 1
        assert time.monotonic() - began >= 0.05
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.wait, 1, _PATIENCE_S)
            _fill(store, 1)
            assert waiting.result(_PATIENCE_S) == 2
        assert time.monotonic() - began < _PATIENCE_S

    # --- what it does by itself -----------------------------------------------------------------------------

    def test_a_sound_store_finds_no_fault_with_itself(self, store: StoreBase) -> None:
        """`verify` answers sentences, and none here: empty, filled, and filled again."""
        assert store.verify() == []
        for _ in range(2):
            _fill(store, 3)
            with store.transaction() as tx:
                tx.append("event", {"n": 1})
            assert store.verify() == []

    def test_compacting_changes_nothing_that_is_kept(self, store: StoreBase) -> None:
        """Documents, revisions, rows, numbers and the feed are as before, and it goes on from there."""
        store.compact()
        _fill(store, 12)
        with store.transaction() as tx:
            tx.put("hypothesis", "h3", {"n": 99, "status": "parked", "text": "ü"})
            tx.append("event", {"n": 1})

        def all_of_it() -> list[Any]:
            return [store.find("hypothesis"), store.find("hypothesis", status="parked"), store.rows("event"),
                    store.seq(), store.changes(0), store.changes(1), store.count("hypothesis")]  # fmt: skip

        before = all_of_it()
        for _ in range(2):
            store.compact()
            assert all_of_it() == before
        with store.transaction() as tx:
            assert tx.create("hypothesis", {"n": 13}).id == "h13"
            assert tx.put("hypothesis", "h3", {"n": 3}, expect_revision=2).revision == 3
        assert store.seq() == 3

    def test_what_it_says_of_itself_is_json(self, store: StoreBase) -> None:
        """`describe`, whose `mode` and `why` are words where they are there."""
        _fill(store, 1)
        told = store.describe()
        assert json.loads(json.dumps(told, allow_nan=False)) == told
        for key in ("mode", "why"):
            assert told.get(key) is None or isinstance(told[key], str)

    def test_a_fence_keeps_writers_out(self, store: StoreBase) -> None:
        """Called before each outer block, with the lock held; what it raises comes through, and nothing is written."""
        _fill(store, 1)
        asked: list[int] = []

        def fence() -> None:
            asked.append(store.seq())
            if len(asked) > 1:
                raise _Abandoned

        store.fence = fence
        with store.transaction() as tx, store.transaction():
            tx.create("hypothesis", {"n": 2})
        with pytest.raises(_Abandoned), store.transaction() as tx:
            tx.create("hypothesis", {"n": 3})
        store.fence = None
        assert (asked, store.seq(), _bodies(store.find("hypothesis"))) == ([1, 2], 2, [1, 2])

    # --- capabilities ---------------------------------------------------------------------------------------

    def test_what_the_store_promises_is_tested(self, store: StoreBase) -> None:
        """A store that says `multiprocess` runs the suite that holds it to that."""
        if store.capabilities.multiprocess:
            assert isinstance(self, SharedStoreContract), "subclass SharedStoreContract"


class DurableStoreContract(StoreContract):
    """For a store that outlives its object."""

    def test_what_was_committed_is_there_after_reopening(self, store: StoreBase, reopen: Reopen) -> None:
        """Documents with their revisions, rows, counters and commits; and it can be written on."""
        _fill(store, 3)
        with store.transaction() as tx:
            tx.put("hypothesis", "h2", {"n": 9, "status": "parked", "text": "ü\u2028"})
            tx.append("event", {"n": 1})
        before = (store.find("hypothesis"), store.rows("event"), store.seq(), store.changes(0))
        store.close()
        again = reopen()
        assert (again.find("hypothesis"), again.rows("event"), again.seq(), again.changes(0)) == before
        assert _bodies(again.find("hypothesis", status="parked")) == [9]
        with again.transaction() as tx:
            assert tx.create("hypothesis", {"n": 4}).id == "h4"
            assert tx.append("event", {"n": 2}) == 2
            assert tx.seq == 3

    def test_what_failed_is_not_there_after_reopening(self, store: StoreBase, reopen: Reopen) -> None:
        """A block that raised left no trace on the disk either."""
        _fill(store, 1)
        with _abandoned(store) as tx:
            tx.create("hypothesis", {"n": 2})
        store.close()
        again = reopen()
        assert (_bodies(again.find("hypothesis")), again.seq()) == ([1], 1)

    def test_each_commit_is_on_the_disk_when_its_block_ends(self, store: StoreBase, reopen: Reopen) -> None:
        """Not only when the store is closed."""
        for n in range(1, 4):
            with store.transaction() as tx:
                tx.append("event", {"n": n})
            if store.capabilities.multiprocess:
                assert _bodies(reopen().rows("event")) == [*range(1, n + 1)]
        store.close()
        assert _bodies(reopen().rows("event")) == [1, 2, 3]

    def test_opening_and_reading_change_nothing(self, store: StoreBase, reopen: Reopen, tmp_path: Path) -> None:
        """No file that is there changes or goes; a reader may have files of its own beside them."""
        _fill(store, 3)
        with store.transaction() as tx:
            tx.append("event", {"n": 1})
        store.close()

        def files() -> dict[str, tuple[int, bytes]]:
            found = [path for path in tmp_path.rglob("*") if path.is_file()]
            return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}

        before = files()
        again = reopen()
        read = [again.get("hypothesis", "h1"), again.find("hypothesis", status="open"), again.rows("event"),
                again.page("hypothesis", limit=1), again.changes(0), again.seq(), again.count("event")]  # fmt: skip
        assert all(read)
        again.close()
        after = files()
        assert {path: after.get(path) for path in before} == before


# Another process: reads one JSON line with the factory, its options and the path, then obeys one line at a time.
_PEER = """
import json, sys
from importlib import import_module
from pathlib import Path
factory, options, path = json.loads(sys.stdin.readline())
module, _, name = factory.partition(":")
store = getattr(import_module(module), name)(options, path=Path(path))
print("ready", flush=True)
held = None
for line in sys.stdin:
    deed, kind, n = json.loads(line)
    if deed == "create":
        with store.transaction() as tx:
            answer = tx.create(kind, {"n": n}).id
    elif deed == "find":
        answer = [item.body["n"] for item in store.find(kind)]
    elif deed == "begin":
        held = store.transaction()
        tx = held.__enter__()
        tx.create(kind, {"n": n})
        answer = "held"
    elif deed == "end":
        held.__exit__(None, None, None)
        answer = tx.seq
    print(json.dumps(answer), flush=True)
"""


class _Peer:
    """The same store in another process."""

    def __init__(self, factory: str, options: Mapping[str, Any], path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._tell([factory, dict(options), str(path)])
        assert self._hear() == "ready"

    def _tell(self, words: list[Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self, deed: str, kind: str = "hypothesis", n: int = 0) -> Any:
        """What it answers."""
        self._tell([deed, kind, n])
        return json.loads(self._hear())

    def end(self) -> None:
        """Ends the process, whatever it is doing."""
        self._process.kill()
        self._process.communicate()


class SharedStoreContract(DurableStoreContract):
    """For a store that several processes may write; needs `factory`."""

    @pytest.fixture
    def peer(self, store: StoreBase, tmp_path: Path) -> Iterator[_Peer]:
        """The same store in another process."""
        other = _Peer(self.factory, self.options, tmp_path / "store")
        yield other
        other.end()

    def test_it_says_that_processes_may_share_it(self, store: StoreBase) -> None:
        """Otherwise the kernel would refuse the second one."""
        assert store.capabilities.multiprocess

    def test_another_process_s_writes_are_seen(self, store: StoreBase, peer: _Peer) -> None:
        """At the next read, in both directions, with ids that never clash."""
        for n in range(1, 4):
            _fill(store, 0)
            with store.transaction() as tx:
                assert tx.create("hypothesis", {"n": 10 * n}).id == f"h{2 * n - 1}"
            assert peer.ask("create", n=10 * n + 1) == f"h{2 * n}"
            expected = [value for m in range(1, n + 1) for value in (10 * m, 10 * m + 1)]
            assert _bodies(store.find("hypothesis")) == expected
            assert peer.ask("find") == expected
            assert store.seq() == 2 * n
        found = store.get("hypothesis", "h6")
        assert found is not None
        assert found.body["n"] == 31

    def test_blocks_of_two_processes_do_not_overlap(self, store: StoreBase, peer: _Peer) -> None:
        """While one writes, the other reads what was committed and waits with its own writes."""
        _fill(store, 1)
        assert peer.ask("begin", n=2) == "held"
        assert _bodies(store.find("hypothesis")) == [1]
        entered = threading.Event()

        def write() -> None:
            with store.transaction() as tx:
                entered.set()
                tx.create("hypothesis", {"n": 3})

        thread = threading.Thread(target=write)
        thread.start()
        assert not entered.wait(_MOMENT_S)
        assert peer.ask("end") == 2
        thread.join(_PATIENCE_S)
        assert [(item.id, item.body["n"]) for item in store.find("hypothesis")] == [("h1", 1), ("h2", 2), ("h3", 3)]

    def test_a_process_that_dies_in_a_block_leaves_no_trace(self, store: StoreBase, peer: _Peer) -> None:
        """And holds nobody up."""
        _fill(store, 1)
        assert peer.ask("begin", n=2) == "held"
        peer.end()
        with store.transaction() as tx:
            assert tx.create("hypothesis", {"n": 3}).id == "h2"
        assert _bodies(store.find("hypothesis")) == [1, 3]

    def test_a_commit_of_another_process_ends_the_waiting(self, store: StoreBase, peer: _Peer) -> None:
        """`wait` hears of it."""
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.wait, 0, _PATIENCE_S)
            peer.ask("create", n=1)
            assert waiting.result(_PATIENCE_S) == 1

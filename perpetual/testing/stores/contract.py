"""The stores' suite, second room: blocks, threads, the feed and upkeep; with the fixtures that every test is given."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

from perpetual.errors import UsageError
from perpetual.slots.store import Document, StoreBase
from perpetual.testing.stores import helpers
from perpetual.testing.stores.documents import Documents
from perpetual.testing.stores.extremes import Extremes
from perpetual.testing.stores.helpers import PATIENCE_S, Abandoned, Reopen, abandoned, bodies, fill, in_thread

__all__ = ["StoreContract"]


class StoreContract(Documents, Extremes):
    """For every store."""

    factory: ClassVar[str] = ""
    options: ClassVar[Mapping[str, object]] = {}

    @classmethod
    def for_provider(cls, factory: str, options: Mapping[str, object]) -> type[StoreContract]:
        """Returns the suite for a provider, as its store says: for a server, for many processes, or for one."""
        from tempfile import TemporaryDirectory

        from perpetual.testing.stores.processes import DurableStoreContract, SharedStoreContract
        from perpetual.testing.stores.remote import RemoteStoreContract

        module, _, name = factory.partition(":")
        with TemporaryDirectory() as folder:
            store: StoreBase = getattr(import_module(module), name)(dict(options), path=Path(folder) / "store")
            store.close()
        if type(store).location is not StoreBase.location:
            return RemoteStoreContract
        return SharedStoreContract if store.capabilities.multiprocess else DurableStoreContract

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
        """Returns a fresh, empty store."""
        return reopen()

    # --- transactions ---------------------------------------------------------------------------------------

    def test_nothing_is_visible_before_the_end(self, store: StoreBase) -> None:
        """The block alone sees its own writes; after its end every reader does."""
        fill(store, 1)

        def outside() -> list[object]:
            return [
                store.get("hypothesis", "h2"),
                store.get("event", "1"),
                [item.body["n"] for item in store.find("hypothesis")],
                len(store.rows("event")),
                store.count("hypothesis"),
                store.seq(),
                len(store.changes(1)),
            ]

        before = in_thread(outside)
        with store.transaction() as tx:
            tx.create("hypothesis", {"n": 2, "status": "open"})
            tx.put("hypothesis", "h1", {"n": 7, "status": "open"})
            tx.append("event", {"n": 1})
            assert bodies(tx.find("hypothesis", status="open")) == [7, 2]
            assert bodies(store.find("hypothesis")) == [7, 2]  # the store answers as the open transaction does
            assert store.count("hypothesis") == tx.count("hypothesis") == 2
            assert bodies(store.rows("event")) == [1]
            assert in_thread(outside) == before
        assert before == [None, None, [1], 0, 1, 1, 0]
        assert in_thread(outside)[2:] == [[7, 2], 1, 2, 2, 3]

    def test_a_block_that_raises_leaves_no_trace(self, store: StoreBase) -> None:
        """Whatever it had written, and however it was left."""
        fill(store, 2)
        before = (store.find("hypothesis"), store.seq(), store.count("event"), store.changes(0))
        for problem in (Abandoned(), KeyboardInterrupt(), UsageError("no")):
            with abandoned(store, problem) as tx:
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
                assert bodies(inner.find("hypothesis")) == [1]
                inner.create("hypothesis", {"n": 2})
            assert in_thread(lambda: store.find("hypothesis")) == []
            assert bodies(outer.find("hypothesis")) == [1, 2]
        assert (store.seq(), bodies(store.find("hypothesis"))) == (1, [1, 2])
        with abandoned(store), store.transaction() as inner:
            inner.create("hypothesis", {"n": 3})
        assert (store.seq(), bodies(store.find("hypothesis"))) == (1, [1, 2])

    def test_an_inner_block_that_raises_takes_its_writes_with_it(self, store: StoreBase) -> None:
        """The outer block may go on without them, and no number is used up."""
        with store.transaction() as tx:
            tx.append("event", {"n": 1})
            with abandoned(store) as inner:
                inner.append("event", {"n": 2})
                inner.put("setting", "x", {"n": 2})
            tx.append("event", {"n": 3})
        assert bodies(store.rows("event")) == [1, 3]
        assert store.get("setting", "x") is None

    def test_a_transaction_is_over_with_its_block(self, store: StoreBase) -> None:
        """A late write is refused: it would be lost."""
        with store.transaction() as tx:
            tx.append("event", {"n": 1})
        with pytest.raises(UsageError):
            tx.append("event", {"n": 2})
        assert bodies(store.rows("event")) == [1]

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
            assert not entered.wait(helpers.MOMENT_S)
            tx.put("setting", "x", {"n": seen.body["n"] + 10})
        thread.join(PATIENCE_S)
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
        assert sorted(bodies(store.find("hypothesis"))) == sorted(100 * w + n for w in range(6) for n in range(8))
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
            values = bodies(store.find("setting"))
            if len(set(values)) > 1 or len(values) not in (0, 3):
                torn.append(values)
        thread.join(PATIENCE_S)
        assert torn == []
        assert bodies(store.find("setting")) == [39, 39, 39]

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
            with abandoned(store) as tx:
                tx.append("event", {"n": 0})
            assert store.seq() == n

    def test_changes_are_told_once_in_order(self, store: StoreBase) -> None:
        """Each document and row that was written later, by its latest commit."""
        fill(store, 2)
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
        fill(store, 1)
        began = time.monotonic()
        assert store.wait(0, PATIENCE_S) == 1
        assert store.wait(1, 0.05) == 1
        assert time.monotonic() - began >= 0.05
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.wait, 1, PATIENCE_S)
            fill(store, 1)
            assert waiting.result(PATIENCE_S) == 2
        assert time.monotonic() - began < PATIENCE_S

    # --- what it does by itself -----------------------------------------------------------------------------

    def test_a_sound_store_finds_no_fault_with_itself(self, store: StoreBase) -> None:
        """`verify` answers sentences, and none here: empty, filled, and filled again."""
        assert store.verify() == []
        for _ in range(2):
            fill(store, 3)
            with store.transaction() as tx:
                tx.append("event", {"n": 1})
            assert store.verify() == []

    def test_compacting_changes_nothing_that_is_kept(self, store: StoreBase) -> None:
        """Documents, revisions, rows, numbers and the feed are as before, and it goes on from there."""
        store.compact()
        fill(store, 12)
        with store.transaction() as tx:
            tx.put("hypothesis", "h3", {"n": 99, "status": "parked", "text": "ü"})
            tx.append("event", {"n": 1})

        def all_of_it() -> list[object]:
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
        fill(store, 1)
        told = store.describe()
        assert json.loads(json.dumps(told, allow_nan=False)) == told
        for key in ("mode", "why"):
            assert told.get(key) is None or isinstance(told[key], str)

    def test_a_fence_keeps_writers_out(self, store: StoreBase) -> None:
        """Called before each outer block, with the lock held; what it raises comes through, and nothing is written."""
        fill(store, 1)
        asked: list[int] = []

        def fence() -> None:
            asked.append(store.seq())
            if len(asked) > 1:
                raise Abandoned

        store.fence = fence
        with store.transaction() as tx, store.transaction():
            tx.create("hypothesis", {"n": 2})
        with pytest.raises(Abandoned), store.transaction() as tx:
            tx.create("hypothesis", {"n": 3})
        store.fence = None
        assert (asked, store.seq(), bodies(store.find("hypothesis"))) == ([1, 2], 2, [1, 2])

    # --- capabilities ---------------------------------------------------------------------------------------

    def test_what_the_store_promises_is_tested(self, store: StoreBase) -> None:
        """A store that says `multiprocess` runs the suite that holds it to that."""
        if store.capabilities.multiprocess:
            from perpetual.testing.stores.processes import SharedStoreContract  # which is built on this one

            assert isinstance(self, SharedStoreContract), "subclass SharedStoreContract"

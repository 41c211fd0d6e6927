"""The stores' suite, first room: what is kept, how it is found, and what is refused. A base of `StoreContract`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perpetual.errors import RevisionConflict, UsageError
from perpetual.slots.store import StoreBase, StoreKind, Transaction
from perpetual.testing.stores.helpers import abandoned, bodies, fill, refused

__all__ = ["Documents"]


class Documents:
    """One block after the other, by one thread."""

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
        assert bodies(store.find("hypothesis")) == [*range(40)]
        assert bodies(store.rows("event")) == [*range(25)]
        assert sorted(bodies(store.find("setting"))) == [*range(25)]
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
        fill(store, 3)
        with store.transaction() as tx:
            tx.put("hypothesis", "h1", {"n": 9})
        found = store.get("hypothesis", "h1")
        assert found is not None
        assert (found.body, found.number) == ({"n": 9}, 1)
        assert bodies(store.find("hypothesis")) == [9, 2, 3]
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
            with refused(store, RevisionConflict) as tx:
                tx.put("setting", "x", {"n": 99}, expect_revision=wrong)
        with refused(store, RevisionConflict) as tx:
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
            with abandoned(store) as tx:
                tx.append("event", {"n": -1})
        assert numbers == [*range(1, 13)]
        rows = store.rows("event")
        assert [row.number for row in rows] == numbers
        assert [row.id for row in rows] == [str(n) for n in numbers]
        assert bodies(rows) == [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32]
        assert store.count("event") == 12

    def test_rows_since(self, store: StoreBase) -> None:
        """Those with a greater number, in order, at most so many; by number too, and inside a block."""
        with store.transaction() as tx:
            for n in range(1, 13):
                tx.append("event", {"n": n})
            assert bodies(tx.rows("event", since=9)) == [10, 11, 12]
            assert bodies(tx.rows("event", since=2, limit=3)) == [3, 4, 5]
        assert bodies(store.rows("event", since=9)) == [10, 11, 12]
        assert bodies(store.rows("event", since=2, limit=3)) == [3, 4, 5]
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
            with refused(store) as tx:
                deed(tx)
        with pytest.raises(UsageError):
            store.rows("hypothesis")
        assert bodies(store.rows("event")) == [1]
        assert store.find("hypothesis") == []

    # --- finding and paging ---------------------------------------------------------------------------------

    def test_finding_is_in_order_of_creation(self, store: StoreBase) -> None:
        """By number, not by the text of the id, whatever was changed since."""
        fill(store, 12)
        for n in (3, 11):
            with store.transaction() as tx:
                tx.put("hypothesis", f"h{n}", {"n": n, "status": "open"})
        assert bodies(store.find("hypothesis")) == [*range(1, 13)]
        assert bodies(store.find("hypothesis", status="open")) == [1, 3, 5, 7, 9, 11]
        assert store.find("hypothesis", status="refuted") == []

    def test_finding_by_two_fields(self, store: StoreBase) -> None:
        """All of them must be equal; a field that is missing equals nothing but null."""
        with store.transaction() as tx:
            for n, (subject, kind) in enumerate([("h1", "a"), ("h1", "b"), ("h2", "a")], 1):
                tx.append("evidence", {"n": n, "hypothesis_id": subject, "kind": kind, "run_id": None})
        assert bodies(store.find("evidence", hypothesis_id="h1", kind="a")) == [1]
        assert bodies(store.find("evidence", kind="a")) == [1, 3]
        assert bodies(store.find("evidence", run_id=None)) == [1, 2, 3]
        assert store.find("evidence", experiment_id="e1") == []

    def test_a_changed_document_is_found_by_its_new_fields(self, store: StoreBase) -> None:
        """And not by its old ones, inside the block and after it."""
        fill(store, 2)
        with store.transaction() as tx:
            tx.put("hypothesis", "h1", {"n": 1, "status": "parked"})
            assert bodies(tx.find("hypothesis", status="parked")) == [1, 2]
            assert tx.find("hypothesis", status="open") == []
        assert bodies(store.find("hypothesis", status="parked")) == [1, 2]
        assert store.find("hypothesis", status="open") == []

    def test_counting_what_matches(self, store: StoreBase) -> None:
        """As many as are found, inside a block and outside of it, whatever was changed since."""
        fill(store, 5)
        with store.transaction() as tx:
            tx.put("hypothesis", "h2", {"n": 2, "status": "open"})
            tx.create("hypothesis", {"n": 6, "status": "parked"})
            for field, n in (("a", 1), ("b", 1), ("a", None)):
                tx.append("evidence", {"kind": field, "hypothesis_id": "h1", "run_id": n})
            assert (tx.count("hypothesis", status="open"), store.count("hypothesis", status="parked")) == (4, 2)
        for status in ("open", "parked", "refuted"):
            assert store.count("hypothesis", status=status) == len(store.find("hypothesis", status=status))
        assert store.count("hypothesis", status="open") == 4
        assert store.count("hypothesis") == 6
        assert store.count("evidence", kind="a", hypothesis_id="h1") == 2
        assert store.count("evidence", kind="a", hypothesis_id="h2") == 0
        assert (store.count("evidence", run_id=None), store.count("evidence", run_id=1)) == (1, 2)

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
        with refused(store) as tx:
            tx.find("hypothesis", statement="x")

    def test_paging_goes_through_everything_once(self, store: StoreBase) -> None:
        """In order of creation, or the newest first, with and without a filter."""
        fill(store, 23)
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
                    seen += bodies(page.items)
                    cursor = page.next_cursor
                    if cursor is None:
                        break
                assert seen == expected

    def test_paging_does_not_slip(self, store: StoreBase) -> None:
        """What is created between two pages neither repeats nor hides anything."""
        fill(store, 4)
        first = store.page("hypothesis", limit=2, newest_first=True)
        with store.transaction() as tx:
            tx.create("hypothesis", {"n": 5})
        second = store.page("hypothesis", limit=2, newest_first=True, cursor=first.next_cursor)
        assert bodies([*first.items, *second.items]) == [4, 3, 2, 1]
        oldest = store.page("hypothesis", limit=4)
        assert bodies(store.page("hypothesis", limit=4, cursor=oldest.next_cursor).items) == [5]

    def test_a_wrong_page_is_refused(self, store: StoreBase) -> None:
        """A limit below one, or what is no cursor."""
        fill(store, 1)
        for wrong in ({"limit": 0}, {"limit": -1}, {"limit": 1, "cursor": "h1"}, {"limit": 1, "cursor": "-1"}):
            with pytest.raises(UsageError):
                store.page("hypothesis", **wrong)

    # --- what is refused ------------------------------------------------------------------------------------

    def test_what_is_no_json_is_refused(self, store: StoreBase) -> None:
        """Wherever it stands, and nothing of the block remains."""
        wrong: list[object] = [float("nan"), float("inf"), float("-inf"), {1, 2}, b"x", object(), 1j, "\ud800"]
        for value in wrong:
            for body in ({"n": value}, {"n": [{"deep": [value]}]}):
                deeds: list[Callable[[Transaction, Any], object]] = [
                    lambda tx, body: tx.put("setting", "x", body),
                    lambda tx, body: tx.append("event", body),
                    lambda tx, body: tx.create("hypothesis", body),
                ]
                for deed in deeds:
                    with refused(store) as tx:
                        tx.put("setting", "before", {"n": 1})
                        deed(tx, body)
        for keyed in ({1: "a"}, {None: "a"}, {"deep": {2.5: "a"}}, {"_id": "mine"}, {"_rev": 7}, {"\udcff": 1}):
            with refused(store) as tx:
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
            store.declare(StoreKind("acme_sample", prefix="s", indexes=("colour",)))
            store.declare(StoreKind("acme_log", ledger=True, indexes=("subject",)))
        with store.transaction() as tx:
            assert tx.create("acme_sample", {"n": 1, "colour": "red"}).id == "s1"
            assert tx.append("acme_log", {"n": 1, "subject": "s1"}) == 1
        assert bodies(store.find("acme_sample", colour="red")) == [1]
        assert bodies(store.find("acme_log", subject="s1")) == [1]
        assert {change.kind for change in store.changes(0)} == {"acme_sample", "acme_log"}

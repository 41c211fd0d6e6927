"""TinyDB is the document and query engine, and the parts of it that the store leans on still have their shape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from tinydb import TinyDB, where
from tinydb.operations import increment
from tinydb.storages import MemoryStorage, Storage
from tinydb.table import Document, Table
from tinydb.utils import LRUCache

from perpetual.errors import UsageError
from perpetual_tinydb.store import TinyStore
from perpetual_tinydb.tables import JournalTable
from tests.plugins.tinydb.helpers import append, fresh, ns


@pytest.fixture
def store(folder: Path) -> Iterator[TinyStore]:
    """A store with three hypotheses and two events."""
    opened = fresh(folder)
    with opened.transaction() as tx:
        for n, status in enumerate(("open", "parked", "open"), 1):
            tx.create("hypothesis", {"n": n, "status": status})
        for n in (1, 2):
            tx.append("event", {"n": n, "kind": "a"})
    yield opened
    opened.close()


# --- what TinyDB is used for ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_compacted", [False, True])
def test_the_tables_are_queried_with_tinydb(store: TinyStore, is_compacted: bool) -> None:
    """Any of its queries, over all that is committed, in order."""
    if is_compacted:
        store.compact()
    table = store.database.table("hypothesis")
    assert isinstance(table, JournalTable)
    found = table.search((where("status") == "open") & (where("n") > 1))
    assert [(row.doc_id, row["_id"], row["n"]) for row in found] == [(3, "h3", 3)]
    assert table.count(where("n") >= 2) == 2
    assert table.contains(doc_id=2)
    assert not table.contains(doc_id=4)
    assert [row["n"] for row in table] == [1, 2, 3]
    assert len(table) == len(table.all()) == 3
    one = table.get(where("n") == 2)
    assert isinstance(one, Document)
    assert (one.doc_id, one["status"]) == (2, "parked")
    assert [row.doc_id for row in table.get(doc_ids=[3, 1]) or []] == [1, 3]
    assert store.database.tables() == {"hypothesis", "event"}


def test_a_query_sees_other_processes_commits(folder: Path, store: TinyStore) -> None:
    """TinyDB answers from its cache where the same question was asked before."""
    table = store.database.table("hypothesis")
    query = where("status") == "open"
    assert len(table.search(query)) == 2
    with fresh(folder).transaction() as tx:
        tx.create("hypothesis", {"n": 4, "status": "open"})
    assert store.seq() == 2
    assert len(table.search(query)) == 3


def test_finding_is_done_with_tinydb_queries(store: TinyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is found are its documents."""
    asked: list[Any] = []

    def spied(self: JournalTable, numbers: Any, equals: Any) -> Any:
        asked.append((self.name, [*numbers], dict(equals)))
        yield from among(self, numbers, equals)

    among = JournalTable.among
    monkeypatch.setattr(JournalTable, "among", spied)
    assert [item.body["n"] for item in store.find("hypothesis", status="open")] == [1, 3]
    assert [(name, numbers) for name, numbers, _ in asked] == [("hypothesis", [1, 3])]
    assert [item.body["n"] for item in store.find("event", kind="a", subject=None)] == [1, 2]
    rows = list(among(store.table("hypothesis"), [2, 3, 9, 1], {"status": "open"}))
    assert [(type(row), row.doc_id) for row in rows] == [(Document, 3), (Document, 1)]


def test_updates_of_tinydb_touch_what_they_change(store: TinyStore) -> None:
    """Staged beside the journal, and nothing of it is seen in the file."""
    table = store.database.table("hypothesis")
    staged = store.storage.staged
    assert table.update({"status": "refuted"}, doc_ids=[2]) == [2]
    assert {key: row["status"] for key, row in staged.items()} == {("hypothesis", 2): "refuted"}
    assert table.update(increment("n"), where("n") == 3) == [3]
    assert staged["hypothesis", 3]["n"] == 4
    assert table.insert({"n": 9}) == 4
    assert table.insert_multiple([{"n": 10}, {"n": 11}]) == [5, 6]
    assert {number: row["n"] for (_, number), row in staged.items()} == {1: 1, 2: 2, 3: 4, 4: 9, 5: 10, 6: 11}
    assert ns(fresh(Path(str(store.folder))), "hypothesis") == [1, 2, 3]
    staged.clear()
    assert ns(store, "hypothesis") == [1, 2, 3]


def test_an_update_that_fails_stages_nothing(store: TinyStore) -> None:
    table = store.database.table("hypothesis")

    def fails(row: Any) -> None:
        row["n"] = 99
        if row["_id"] == "h3":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        table.update(fails, doc_ids=[1, 2, 3])
    assert store.storage.staged == {}
    assert ns(store, "hypothesis") == [1, 2, 3]


def test_nothing_is_removed_and_ledgers_only_grow(store: TinyStore) -> None:
    """Through none of TinyDB's doors."""
    hypotheses, events = store.database.table("hypothesis"), store.database.table("event")
    deeds: list[Callable[[], object]] = [
        lambda: hypotheses.remove(doc_ids=[1]),
        lambda: hypotheses.remove(where("n") == 1),
        hypotheses.truncate,
        lambda: store.database.drop_table("hypothesis"),
        store.database.drop_tables,
        lambda: events.update({"n": 9}, doc_ids=[1]),
        lambda: events.upsert(Document({"n": 9}, doc_id=1)),
        lambda: store.table("event").replace(Document({"n": 9}, doc_id=2)),
    ]
    for deed in deeds:
        with pytest.raises(UsageError):
            deed()
        assert store.storage.staged == {}
    assert (ns(store), ns(store, "hypothesis")) == ([1, 2], [1, 2, 3])
    append(store, 3)
    assert ns(store) == [1, 2, 3]


def test_rows_of_a_table_are_the_caller_s_own(store: TinyStore) -> None:
    """TinyDB's documents are shallow copies: nested values must not be the store's."""
    with store.transaction() as tx:
        tx.put("setting", "x", {"n": 1, "deep": {"list": [1]}})
    for _ in range(2):
        row = store.database.table("setting").get(doc_id=1)
        assert isinstance(row, Document)
        assert row["deep"] == {"list": [1]}
        row["deep"]["list"].append(2)
        store.compact()


# --- the shape of TinyDB --------------------------------------------------------------------------------------------


def _parameters(function: Callable[..., Any]) -> list[str]:
    return [*inspect.signature(function).parameters]


def test_the_methods_that_are_overridden_have_their_shape() -> None:
    """Names with a leading underscore, which TinyDB may change without saying so."""
    assert _parameters(Table._read_table) == ["self"]
    assert _parameters(Table._update_table) == ["self", "updater"]
    assert _parameters(Table._get_next_id) == ["self"]
    assert _parameters(Table.__init__)[:3] == ["self", "storage", "name"]
    for name in ("_read_table", "_update_table", "_get_next_id"):
        assert _parameters(getattr(JournalTable, name)) == _parameters(getattr(Table, name))
    assert Storage.__abstractmethods__ == {"read", "write"}
    assert (_parameters(Storage.read), _parameters(Storage.write)) == (["self"], ["self", "data"])
    assert TinyDB.table_class is Table
    assert Table.document_class is Document
    assert Table.document_id_class is int


def test_the_methods_that_are_overridden_are_asked() -> None:
    """Every read goes through the first, every write through the second, and a new id comes from the third."""
    asked: list[str] = []

    class Watched(Table):
        def _read_table(self) -> Any:
            asked.append("read")
            return super()._read_table()

        def _update_table(self, updater: Any) -> None:
            def seen(table: MutableMapping[int, Any]) -> None:
                assert all(type(key) is int for key in table)
                updater(table)

            asked.append("update")
            super()._update_table(seen)

        def _get_next_id(self) -> int:
            asked.append("id")
            number: int = super()._get_next_id()  # type: ignore[no-untyped-call]
            return number

    def deed_asks(deed: Callable[[], object], *expected: str) -> None:
        asked.clear()
        deed()
        assert set(asked) == set(expected), asked

    table = Watched(MemoryStorage(), "t")  # type: ignore[no-untyped-call]
    deed_asks(lambda: table.insert({"n": 1}), "id", "read", "update")
    deed_asks(lambda: table.insert({"n": 2}), "id", "update")
    deed_asks(lambda: table.insert_multiple([{"n": 3}]), "id", "update")
    deed_asks(lambda: table.insert(Document({"n": 7}, doc_id=7)), "update")
    deed_asks(lambda: table.update({"m": 1}), "update")
    deed_asks(lambda: table.update({"m": 2}, where("n") == 1), "update")
    deed_asks(lambda: table.update({"m": 3}, doc_ids=[1]), "update")
    deed_asks(lambda: table.remove(doc_ids=[7]), "update")
    deed_asks(table.truncate, "update")
    for read in (
        lambda: table.get(doc_id=1),
        lambda: table.get(doc_ids=[1]),
        lambda: table.get(where("n") == 1),
        lambda: table.search(where("m") == 1),
        lambda: table.contains(doc_id=1),
        lambda: table.all(),
        lambda: len(table),
        lambda: [*table],
    ):
        deed_asks(read, "read")


def test_a_search_is_answered_from_the_cache_unless_it_is_cleared() -> None:
    """Which is why the store's tables clear it: another process's commit does not."""
    table = Table(MemoryStorage(), "t")  # type: ignore[no-untyped-call]
    query = where("n") == 1
    table.insert({"n": 1})
    assert isinstance(table._query_cache, LRUCache)
    assert len(table.search(query)) == 1
    assert table._query_cache.get(query) is not None
    table._read_table()["2"] = {"n": 1}  # behind TinyDB's back
    assert len(table.search(query)) == 1
    table.clear_cache()
    assert table._query_cache.get(query) is None
    assert len(table.search(query)) == 2


def test_a_document_is_a_dictionary_with_a_number() -> None:
    """And a shallow copy."""
    inner: list[int] = []
    document = Document({"n": inner}, doc_id=3)
    assert isinstance(document, dict)
    assert (document, document.doc_id) == ({"n": []}, 3)
    assert document["n"] is inner
    assert _parameters(Document.__init__) == ["self", "value", "doc_id"]


def test_a_query_is_a_test_of_one_row() -> None:
    """Which `among` calls by itself; a field that is missing equals nothing, not even None."""
    query = where("status") == "open"
    assert query({"status": "open"})
    assert not query({"status": "parked"})
    assert not query({})
    assert not (where("status") == None)({})  # noqa: E711 - a query, not a comparison
    assert (where("a.b") == 1)({"a.b": 1}), "a name is one name, dots and all"

"""Kinds and indexes that plugins declare later or change, and values that are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual.api import StoreKind
from perpetual.errors import UsageError
from perpetual_tinydb.store import TinyStore
from tests.plugins.tinydb.helpers import append, fresh, ns


@pytest.mark.parametrize("is_compacted", [False, True])
def test_rows_of_a_kind_that_is_declared_later_are_kept(folder: Path, store: TinyStore, is_compacted: bool) -> None:
    """A plugin was disabled for a time: what it wrote stays, through compactions too."""
    sample = StoreKind("acme_sample", prefix="s", indexes=("colour",))
    store.declare(sample)
    with store.transaction() as tx:
        tx.create("acme_sample", {"n": 1, "colour": "red"})
    without = fresh(folder)
    with pytest.raises(UsageError):
        without.find("acme_sample")
    append(without, 1)
    if is_compacted:
        without.compact()
        append(without, 2)
    assert without.verify() == []
    for seen in (without, fresh(folder)):
        seen.declare(sample)
        assert ns(seen, "acme_sample") == [1]
        assert [item.id for item in seen.find("acme_sample", colour="red")] == ["s1"]
        assert seen.find("acme_sample", colour="blue") == []
        assert ("acme_sample", "s1") in [(change.kind, change.id) for change in seen.changes(0)]
        with seen.transaction() as tx:
            made = tx.create("acme_sample", {"n": 2, "colour": "red"})
        assert [item.id for item in seen.find("acme_sample", colour="red")] == ["s1", made.id]
        with seen.transaction() as tx:
            tx.put("acme_sample", made.id, {"n": 2, "colour": "blue"})
        assert [item.id for item in seen.find("acme_sample", colour="red")] == ["s1"]
        break


def test_a_kind_that_is_declared_once_the_journal_is_read_is_searched_by_its_index(
    folder: Path, store: TinyStore
) -> None:
    """As each process does: what the record says is read before the kinds of plugins are known."""
    sample = StoreKind("acme_sample", prefix="s", indexes=("colour", "shape"))
    store.declare(sample)
    with store.transaction() as tx:
        for number in range(50):
            tx.create("acme_sample", {"n": number, "colour": "red" if number == 7 else "blue", "shape": "round"})
        tx.put("acme_sample", "s9", {"n": 8, "colour": "red", "shape": "round"})
    seen = fresh(folder)
    assert seen.meta().commit  # which reads the journal
    seen.declare(sample)
    assert [item.id for item in seen.find("acme_sample", colour="red", shape="round")] == ["s8", "s9"]
    assert seen.journal.candidates("acme_sample", {"colour": "red", "shape": "round"}) == ([8, 9], "colour")
    with seen.transaction() as tx:
        tx.put("acme_sample", "s8", {"n": 7, "colour": "blue", "shape": "round"})
        tx.create("acme_sample", {"n": 51, "colour": "red", "shape": "flat"})
    assert seen.journal.candidates("acme_sample", {"colour": "red"}) == ([9, 51], "colour")
    assert seen.verify() == []


@pytest.mark.parametrize("old", ["in the journal", "in the snapshot", "in both"])
def test_a_field_that_becomes_an_index_later_is_searched(folder: Path, store: TinyStore, old: str) -> None:
    """By a plugin's next version: rows written before are found as well, and by two fields of which one is new."""
    store.declare(StoreKind("acme_log", ledger=True, indexes=("subject",)))
    for n in range(1, 7):
        with store.transaction() as tx:
            tx.append("acme_log", {"n": n, "subject": f"s{n % 2}", "level": "high" if n > 3 else "low"})
        if (n, old) in ((4, "in both"), (6, "in the snapshot")):
            store.compact()
    for seen in (store, fresh(folder)):
        seen.declare(StoreKind("acme_log", ledger=True, indexes=("subject", "level")))
        assert [item.body["n"] for item in seen.find("acme_log", level="high")] == [4, 5, 6]
        assert [item.body["n"] for item in seen.find("acme_log", level="high", subject="s0")] == [4, 6]
        assert seen.find("acme_log", level=None) == []
    with store.transaction() as tx:
        tx.append("acme_log", {"n": 7, "subject": "s1", "level": "high"})
    assert [item.body["n"] for item in store.find("acme_log", level="high")] == [4, 5, 6, 7]
    store.compact()
    assert [item.body["n"] for item in store.find("acme_log", level="high")] == [4, 5, 6, 7]
    assert store.verify() == []


def test_values_that_are_equal_are_found_alike(folder: Path, store: TinyStore) -> None:
    """Numbers of both sorts, lists, mappings in another order; before and after a compaction."""
    values = [1, 1.0, True, "1", None, [1], [1.0], {"a": 1, "b": 2}, {"b": 2, "a": 1.0}, "[1]", 0, False, -0.0]
    with store.transaction() as tx:
        for n, value in enumerate(values):
            tx.append("event", {"n": n, "kind": value})
        tx.append("event", {"n": len(values)})
    for _ in range(2):
        for value in values:
            expected = [n for n, other in enumerate([*values, None]) if other == value]
            assert [row.body["n"] for row in store.find("event", kind=value)] == expected, value
        store.compact()

"""The stores' suite: values, ids and amounts at which careless stores lose something. A base of `StoreContract`."""

from __future__ import annotations

from perpetual.slots.store import StoreBase, StoreKind
from perpetual.testing.hostile import IDS, NUMBERS, TEXTS, same

__all__ = ["Extremes"]

_MANY = 1500  # rows: more than a page, a cache or a batch of the usual size


class Extremes:
    """What is legal and rare."""

    def test_numbers_come_back_exactly(self, store: StoreBase) -> None:
        """With their type: seeds have 63 bits, and a float has 53."""
        with store.transaction() as tx:
            tx.put("setting", "numbers", {"all": [*NUMBERS]})
            for number, value in enumerate(NUMBERS):
                tx.put("setting", f"n{number}", {"value": value})
        found = store.get("setting", "numbers")
        assert found is not None
        for number, value in enumerate(NUMBERS):
            alone = store.get("setting", f"n{number}")
            assert alone is not None
            assert same(found.body["all"][number], value), (
                f"{value!r} in a list came back as {found.body['all'][number]!r}"
            )
            assert same(alone.body["value"], value), f"{value!r} came back as {alone.body['value']!r}"

    def test_texts_come_back_exactly(self, store: StoreBase) -> None:
        """Control characters, letters in two forms, long ones; as values and as keys."""
        with store.transaction() as tx:
            tx.put("setting", "texts", {"all": [*TEXTS], "keys": {text: number for number, text in enumerate(TEXTS)}})
        found = store.get("setting", "texts")
        assert found is not None
        for text, kept in zip(TEXTS, found.body["all"], strict=True):
            assert kept == text, f"{text[:40]!r} came back as {kept[:40]!r}"
        assert found.body["keys"] == {text: number for number, text in enumerate(TEXTS)}

    def test_each_id_is_its_own(self, store: StoreBase) -> None:
        """Ids that differ by case, composition, blanks or their thousandth character are two; none is a path."""
        with store.transaction() as tx:
            for number, id in enumerate(IDS):
                tx.put("setting", id, {"n": number}, expect_revision=0)
        for number, id in enumerate(IDS):
            found = store.get("setting", id)
            assert found is not None, f"{id[:40]!r} is not there"
            assert (found.id, found.body["n"]) == (id, number), f"{id[:40]!r} is another document"
        assert store.count("setting") == len(IDS)

    def test_many_rows_stay(self, store: StoreBase) -> None:
        """In one block and in several: the first is still there, and the feed names each."""
        with store.transaction() as tx:
            for n in range(_MANY - 100):
                tx.append("event", {"n": n})
        for start in range(_MANY - 100, _MANY, 20):
            with store.transaction() as tx:
                for n in range(start, start + 20):
                    tx.append("event", {"n": n})
        assert store.count("event") == _MANY
        assert [row.body["n"] for row in store.rows("event")] == [*range(_MANY)]
        assert [row.body["n"] for row in store.rows("event", since=_MANY - 3)] == [_MANY - 3, _MANY - 2, _MANY - 1]
        assert len([change for change in store.changes(0) if change.kind == "event"]) == _MANY

    def test_finding_minds_the_type(self, store: StoreBase) -> None:
        """The text 1 is not the number 1, null is not empty; a field that is not there equals null."""
        values = ["1", 1, "", None, "a", "A", "e\u0301", "\u00e9"]
        store.declare(StoreKind("acme.odd", prefix="odd-", indexes=("field",)))
        with store.transaction() as tx:
            for value in values:
                tx.create("acme.odd", {"field": value})
        for number, value in enumerate(values, 1):
            found = [item.id for item in store.find("acme.odd", field=value)]
            assert found == [f"odd-{number}"], f"{value!r} finds {found}"
            assert store.count("acme.odd", field=value) == 1

    def test_compacting_keeps_what_nobody_declared(self, store: StoreBase) -> None:
        """A plugin that is switched off finds its records when it is switched on."""
        kind = StoreKind("acme.kept", prefix="kept-")
        store.declare(kind)
        with store.transaction() as tx:
            tx.create("acme.kept", {"n": 1})
        del store.kinds["acme.kept"]
        store.compact()
        with store.transaction() as tx:
            tx.put("setting", "later", {})
        store.declare(kind)
        found = store.get("acme.kept", "kept-1")
        assert found is not None, "its rows are gone"
        assert found.body["n"] == 1
        assert store.count("acme.kept") == 1

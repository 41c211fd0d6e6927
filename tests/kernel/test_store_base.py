"""What the base class of stores leaves to its subclasses: every name of their own."""

from __future__ import annotations

import pytest

from perpetual.errors import RevisionConflict
from perpetual.testing.memory_store import InMemoryStore


class Named(InMemoryStore):
    """A store with names that the base class uses for itself."""

    def _open(self) -> str:
        return "mine"

    def _watch(self) -> str:
        return "mine"


def test_a_store_may_have_any_private_name() -> None:
    store = Named()
    with store.transaction() as tx:
        assert store.in_transaction
        tx.create("hypothesis", {"n": 1})
        with store.transaction() as inner:
            inner.put("hypothesis", "h1", {"n": 2}, expect_revision=1)
    assert not store.in_transaction
    found = store.get("hypothesis", "h1")
    assert found is not None
    assert (found.body["n"], store.wait(0, 0.1), store._open(), store._watch()) == (2, 1, "mine", "mine")
    with pytest.raises(RevisionConflict), store.transaction() as tx:
        tx.put("hypothesis", "h1", {}, expect_revision=1)
    store.close()

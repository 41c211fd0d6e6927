"""The contract suite on the SQLite store, in the journal mode that is safe here and in WAL mode."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from perpetual.slots.store import StoreBase
from perpetual.testing.stores import Reopen, SharedStoreContract
from perpetual_sqlite import opening


class TestSqliteStore(SharedStoreContract):
    """The suite."""

    factory: ClassVar[str] = "perpetual_sqlite.store:open_store"
    options: ClassVar[dict[str, Any]] = {"lock_timeout_s": 30.0}


@pytest.mark.slow
class TestSqliteStoreInWalMode(TestSqliteStore):
    """Once more in the other mode, which other processes keep because this one has the file open."""

    @pytest.fixture
    def store(self, reopen: Reopen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreBase]:
        """A fresh, empty store in WAL mode."""
        monkeypatch.setattr(opening, "choose_mode", lambda folder: ("wal", "the test says so"))
        store = reopen()
        with store.transaction():
            pass
        assert store.describe()["mode"] == "wal"
        yield store
        with sqlite3.connect(tmp_path / "store" / "store.sqlite") as raw:
            assert raw.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
        raw.close()

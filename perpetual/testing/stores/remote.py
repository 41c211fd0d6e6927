"""The stores' suite, fourth room: a record that is not in files of its folder, but on a server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from perpetual.slots.store import StoreBase
from perpetual.testing.stores.helpers import bodies, fill
from perpetual.testing.stores.processes import Peer, SharedStoreContract
from perpetual.toolkit.secret import Secret

__all__ = ["RemoteStoreContract"]

_PASSWORD = re.compile(r"://[^/\s:]*:([^/\s@]+)@")
At = Callable[[Path], StoreBase]


class RemoteStoreContract(SharedStoreContract):
    """For a store with a `location`."""

    @pytest.fixture
    def at(self) -> Iterator[At]:
        """Opens a store at a path; what was opened is closed at the end."""
        module, _, name = self.factory.partition(":")
        build = getattr(import_module(module), name)
        opened: list[StoreBase] = []

        def place(path: Path) -> StoreBase:
            opened.append(build(dict(self.options), path=path))
            return opened[-1]

        yield place
        for store in opened:
            store.close()

    def test_it_names_its_place_and_no_password(self, store: StoreBase) -> None:
        """In `location` and in `describe`."""
        fill(store, 1)
        place = store.location()
        assert place, "a record that was written to has no location"
        assert place == store.location()
        given = [value.reveal() if isinstance(value, Secret) else str(value) for value in self.options.values()]
        passwords = [found[1] for found in map(_PASSWORD.search, given) if found]
        for said in (place, repr(store.describe())):
            assert not _PASSWORD.search(said), "an address with a password is shown"
            assert not any(password in said for password in passwords), "a password of the options is shown"

    def test_it_says_how_much_it_takes(self, store: StoreBase) -> None:
        """In bytes, of the record that is elsewhere."""
        fill(store, 3)
        size = store.size_bytes()
        assert size is not None, "the files of the folder are not the record"
        assert size > 0

    def test_a_folder_that_is_renamed_takes_its_record_along(self, at: At, tmp_path: Path) -> None:
        """A migration renames the new store's folder, and keeps the old one's as a backup."""
        store = at(tmp_path / "store.new")
        fill(store, 3)
        place = store.location()
        store.close()
        (tmp_path / "store.new").rename(tmp_path / "elsewhere")
        again = at(tmp_path / "elsewhere")
        assert bodies(again.find("hypothesis")) == [1, 2, 3]
        assert again.location() == place

    def test_each_folder_has_a_record_of_its_own(self, at: At, tmp_path: Path) -> None:
        """Also where a folder of the same name was there before."""
        one, two = at(tmp_path / "one"), at(tmp_path / "two")
        fill(one, 2)
        assert two.find("hypothesis") == []
        fill(two, 1)
        assert (bodies(one.find("hypothesis")), bodies(two.find("hypothesis"))) == ([1, 2], [1])
        places = (one.location(), two.location())
        assert places[0] != places[1]
        one.close()
        (tmp_path / "one").rename(tmp_path / "aside")
        fresh = at(tmp_path / "one")
        assert fresh.find("hypothesis") == []
        fill(fresh, 1)
        assert bodies(fresh.find("hypothesis")) == [1]
        assert fresh.location() not in (None, *places)

    def test_the_head_differs_with_each_commit_and_each_record(
        self, store: StoreBase, peer: Peer, at: At, tmp_path: Path
    ) -> None:
        """Answers are kept while it is the same; another process's commit changes it too."""
        seen = set()
        for n in range(3):
            with store.transaction() as tx:
                tx.append("event", {"n": n})
            seen.add(store.head())
            assert store.head() in seen, "the head changed without a commit"
        peer.ask("create", n=1)
        seen.add(store.head())
        other = at(tmp_path / "other")
        for n in range(4):
            with other.transaction() as tx:
                tx.append("event", {"n": n})
            seen.add(other.head())
        assert None not in seen
        assert len(seen) == 8, "two states have one head"

    def test_a_replaced_record_says_so_to_every_writer(
        self, store: StoreBase, peer: Peer, at: At, tmp_path: Path
    ) -> None:
        """Within the lock, in other processes and after reopening; and it can be put in force again."""
        fill(store, 1)
        assert store.retired() is None
        assert peer.ask("retired") is None
        with store.exclusive():
            store.retire("backups/one")
            assert at(tmp_path / "store").retired() == "backups/one", "the mark waits for the lock"
        assert peer.ask("retired") == "backups/one"
        store.close()
        again = at(tmp_path / "store")
        with again.exclusive():
            assert again.retired() == "backups/one"
            again.retire(None)
        assert (again.retired(), peer.ask("retired")) == (None, None)

    def test_the_mark_changes_no_row(self, store: StoreBase) -> None:
        """Nor the number of the last commit: a replaced record can be read, compared and put back."""
        fill(store, 2)
        before = (store.find("hypothesis"), store.seq(), store.meta(), store.changes(0))
        with store.exclusive():
            store.retire("backups/one")
        assert (store.find("hypothesis"), store.seq(), store.meta(), store.changes(0)) == before
        with store.exclusive():
            store.retire(None)
        assert (store.find("hypothesis"), store.seq(), store.meta(), store.changes(0)) == before

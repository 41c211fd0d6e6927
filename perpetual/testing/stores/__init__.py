"""The contract suite of the store slot: every promise of `perpetual.slots.store`, as tests to be subclassed.

    class TestAcmeStore(SharedStoreContract):
        factory = "acme_store.store:open_store"
        options = {"timeout_s": 30.0}

`StoreContract` is for any store, `DurableStoreContract` for one that outlives its object, `SharedStoreContract` for one
that several processes may write (`capabilities.multiprocess`), `RemoteStoreContract` for one with a `location`. The
last three build the store with `factory`, as the kernel does; a subclass of the first two may override the fixture
`store` (a fresh, empty store) and `reopen` (a callable that opens the same place once more) instead. Nothing but pytest
is needed.
"""

from __future__ import annotations

from perpetual.testing.stores.contract import StoreContract
from perpetual.testing.stores.helpers import Reopen
from perpetual.testing.stores.processes import DurableStoreContract, SharedStoreContract
from perpetual.testing.stores.remote import RemoteStoreContract

__all__ = ["DurableStoreContract", "RemoteStoreContract", "Reopen", "SharedStoreContract", "StoreContract"]

"""The contract suite of the memory slot: every promise of `perpetual.slots.memory`, as tests to be subclassed.

    class TestAcmeMemory(DurableMemoryContract):
        factory = "acme_notes.memory:open_memory"
        options = {"compress": True}

`MemoryContract` is for any memory; `DurableMemoryContract` adds other processes, among them such as are killed, and
needs `factory`. Both build the memory with `factory`, as the kernel does. A subclass may override the fixtures instead:
`place` (a folder for the memory alone), `reopen` (a callable that opens the memory there once more) and `memory` (a
fresh, empty one). Nothing but pytest is needed.
"""

from __future__ import annotations

from perpetual.testing.memories.contract import MemoryContract
from perpetual.testing.memories.processes import DurableMemoryContract

__all__ = ["DurableMemoryContract", "MemoryContract"]

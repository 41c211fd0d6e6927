"""The git memory keeps every promise of its slot."""

from __future__ import annotations

import pytest

from perpetual.testing.memories import DurableMemoryContract

# No test can pull the plug: what syncs are for is held by `test_repository.py`, which watches their order.
pytestmark = pytest.mark.usefixtures("unsynced")


class TestGitMemory(DurableMemoryContract):
    """The bundled memory."""

    factory = "perpetual_git.memory:open_memory"

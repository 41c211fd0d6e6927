"""A project for tests of agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A fresh project of this user."""
    with Lab.init(tmp_path / "project", name="agents") as opened:
        yield opened


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of coroutine tests."""
    return "asyncio"

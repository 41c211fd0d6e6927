"""Opens the project of a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open() as made:
        yield made

"""What every test of the TinyDB store is given."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual_tinydb.store import TinyStore
from tests.plugins.tinydb.helpers import fresh


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[TinyStore]:
    """A fresh store."""
    opened = fresh(folder)
    yield opened
    opened.close()


@pytest.fixture
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    """For thousands of stores in one test: the order of what is on the disk is not what it looks at."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None, raising=False)

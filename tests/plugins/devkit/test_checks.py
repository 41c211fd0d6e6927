"""The doctor's checks of a project's folder keep the contract of checks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Check
from perpetual.testing.sections import CheckContract
from perpetual_devkit import checks


class TestPermissions(CheckContract):
    @pytest.fixture
    def check(self) -> Check:
        return checks.permissions({})


class TestDisk(CheckContract):
    @pytest.fixture
    def check(self) -> Check:
        return checks.disk({})


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as opened:
        yield opened


def test_too_little_room_is_named(lab: Lab) -> None:
    found = checks.DiskCheck(least_free_bytes=1 << 80).examine(lab)
    assert (found.ok, found.hint) == (False, "free some space")


def test_a_folder_that_cannot_be_written_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = checks.permissions({}).examine(lab)
    assert (found.ok, found.detail) == (False, f"{lab.config.folder} cannot be written")

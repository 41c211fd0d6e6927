"""What the doctor says of the store: its mode with the reason, and where it stands badly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perpetual import Lab
from perpetual.toolkit import filesystems

if TYPE_CHECKING:
    from perpetual.documents.machine import DoctorCheck

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "tinydb"])
def lab(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A fresh lab with either store, on a local disk that tells capitals from small letters."""
    monkeypatch.setattr(filesystems, "file_system", lambda path: "ext4")
    monkeypatch.setattr(filesystems, "is_case_insensitive", lambda folder: False)
    with Lab.init(tmp_path / "project", name="test", store=request.param) as opened:
        yield opened


def _store(lab: Lab) -> DoctorCheck:
    (found,) = [check for check in lab.doctor() if check["check"] == "store"]
    return found


def test_a_store_that_is_well(lab: Lab) -> None:
    found = _store(lab)
    assert found["ok"] is True
    assert "records, commit 1" in found["detail"]
    if lab.config["store"] == "sqlite":
        assert "truncate mode: " in found["detail"] or "wal mode: " in found["detail"]
        assert "SQLite" in found["detail"]


def test_a_folder_of_another_machine(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystems, "file_system", lambda path: "nfs4")
    found = _store(lab)
    assert found["ok"] is None
    assert "nfs4" in found["detail"]
    assert "local disk" in str(found["hint"])


def test_a_folder_that_knows_no_case(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystems, "is_case_insensitive", lambda folder: True)
    found = _store(lab)
    assert found["ok"] is None
    assert "capital letters" in found["detail"]


def test_the_doctor_names_a_store_that_outgrows_tinydb(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    store = type(lab.context.store)
    monkeypatch.setattr(store, "capabilities", replace(store.capabilities, most_records=0))
    found = _store(lab)
    assert (found["ok"], found["hint"]) == (None, "perpetual store migrate sqlite")
    monkeypatch.setattr(store, "capabilities", replace(store.capabilities, most_records=None))
    assert (_store(lab)["ok"], _store(lab)["hint"]) == (True, None)

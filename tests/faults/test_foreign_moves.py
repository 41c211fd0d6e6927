"""A `moving.json` that came with the project moves nothing; one of this user's is finished wherever its folder went."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import CorruptData
from perpetual.lab import store_migration


class _Cut(Exception):
    """Stands for a kill."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    with Lab.init(tmp_path / "p") as lab:
        lab.hypotheses.add("kept")
    return tmp_path / "p"


@pytest.fixture
def cut_off(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A move of one's own to another store, killed right after it was decided."""

    def cut(name: str) -> None:
        if name == "move:decided":
            raise _Cut

    with monkeypatch.context() as patched, Lab.open(project) as lab:
        patched.setattr(store_migration, "step", cut)
        with pytest.raises(_Cut):
            lab.storage.migrate("sqlite")
    assert (project / ".perpetual" / "moving.json").exists()
    return project


def _statements(project: Path) -> list[str]:
    with Lab.open(project) as lab:
        return [item.statement for item in lab.hypotheses.list().items]


def _everything(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if path.name not in ("moving.lock", "moving.json")
    }


@pytest.mark.parametrize("way", ["in place", "renamed"])
def test_a_move_of_ones_own_is_finished_by_the_next_command(cut_off: Path, way: str) -> None:
    if way == "renamed":
        cut_off = cut_off.rename(cut_off.with_name("q"))
    assert _statements(cut_off) == ["kept"]
    assert not (cut_off / ".perpetual" / "moving.json").exists()
    with Lab.open(cut_off) as lab:
        assert lab.config["store"] == "sqlite"


def test_a_copy_of_a_project_in_the_middle_of_a_move_moves_nothing(cut_off: Path, tmp_path: Path) -> None:
    shutil.copytree(cut_off, tmp_path / "copy")
    before = _everything(tmp_path / "copy")
    with pytest.raises(CorruptData, match="begun here by you") as caught:
        _statements(tmp_path / "copy")
    assert caught.value.code == "foreign_move"
    assert _everything(tmp_path / "copy") == before


_CHANGES: list[dict[str, Any]] = [
    {"backup": "OUTSIDE"},
    {"backup": "../../outside"},
    {"backup": "backups/../../outside"},
    {"backup": "backups/."},
    {"backup": "backups/other"},
    {"backup": 3},
    {"config": {"scheduler": "x"}},
    {"config": {"store": ["x"]}},
    {"config": {"store": "tinydb"}},
    {"config": None},
    {"nonce": "0" * 32},
    {"nonce": "../place"},
    {"nonce": None},
    {"format": 2},
]


def test_a_plan_that_was_not_decided_here_moves_nothing(cut_off: Path, tmp_path: Path) -> None:
    """Whatever of it was changed, a field of another kind included: the project stays as it is, byte by byte."""
    plan = cut_off / ".perpetual" / "moving.json"
    decided = json.loads(plan.read_text())
    before = _everything(cut_off)
    for each in _CHANGES:
        change = {key: str(tmp_path / "outside") if value == "OUTSIDE" else value for key, value in each.items()}
        plan.write_text(json.dumps({**decided, **change}))
        with pytest.raises(CorruptData) as caught:
            _statements(cut_off)
        assert str(plan) in caught.value.message, change
        assert caught.value.hint
        assert not (tmp_path / "outside").exists()
        assert _everything(cut_off) == before
    plan.unlink()
    assert _statements(cut_off) == ["kept"]


def test_a_plan_that_is_no_file_is_named_at_once(project: Path, tmp_path: Path) -> None:
    plan = project / ".perpetual" / "moving.json"
    (tmp_path / "there").write_text("{}")
    kinds: list[Callable[[], object]] = [
        lambda: os.mkfifo(plan),
        lambda: plan.symlink_to(tmp_path / "there"),
        lambda: plan.symlink_to(tmp_path / "not there"),
        lambda: plan.write_text("[" * 200_000),
        plan.mkdir,
    ]
    for make in kinds:
        plan.unlink(missing_ok=True)
        make()
        with pytest.raises(CorruptData, match=r"moving\.json"):
            _statements(project)


def test_no_folder_of_a_move_is_a_link(cut_off: Path, tmp_path: Path) -> None:
    for place in ("backups", "store.new"):
        inside = cut_off / ".perpetual" / place
        elsewhere = tmp_path / f"outside {place}"
        if inside.exists():
            inside.rename(elsewhere)
        else:
            elsewhere.mkdir()
        inside.symlink_to(elsewhere)
        before = _everything(elsewhere)
        with pytest.raises(CorruptData, match="it is a link"):
            _statements(cut_off)
        assert _everything(elsewhere) == before

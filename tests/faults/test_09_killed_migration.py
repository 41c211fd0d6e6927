"""Row 9: moving the record to another store is killed half way: the old store or the new one is in force, whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import TransientError
from perpetual.toolkit.crashpoints import STEPS

pytestmark = pytest.mark.slow

MOVES = [name for name in STEPS if name.startswith("move:")]
DECIDED = MOVES[MOVES.index("move:decided") :]


def _program(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perpetual", *arguments, "--json"],
        cwd=project,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def _fill(project: Path, store: str) -> None:
    with Lab.open(project) as lab:
        lab.config.set("store", store)
    with Lab.open(project) as lab:
        for n in range(5):
            made = lab.hypotheses.add(f"acc rises {n}", metric="acc", direction="max", mde=0.1, baseline=1.0)
            lab.experiments.propose(made.id, command=f"echo acc={n}", noise=0.05, cost_run_hours=0.001)


def _record(project: Path) -> dict[str, Any]:
    """All that is recorded, with its place in the order of things."""
    with Lab.open(project) as lab:
        store = lab.context.store
        assert lab.storage.verify() == []
        held = {kind: store.find(kind) for kind in sorted(store.kinds)}
        changes = [(change.seq, change.kind, change.id) for change in store.changes(0)]
        return {"held": held, "seq": store.seq(), "changes": changes}


def _store(project: Path) -> str:
    with Lab.open(project) as lab:
        name: str = lab.config["store"]
        return name


def test_the_steps_of_a_move_are_tried() -> None:
    assert "move:built" in MOVES
    assert len(DECIDED) >= 3


@pytest.mark.parametrize("step", MOVES)
def test_a_migration_that_is_killed(project: Path, step: str) -> None:
    """And the command, given once more, does what is left to do."""
    _fill(project, "tinydb")
    before = _record(project)
    killed = _program(project, "store", "migrate", "sqlite", PERPETUAL_DIE_AT=step)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert _record(project) == before  # whoever comes by finishes what was decided
    moved = step in DECIDED
    assert _store(project) == ("sqlite" if moved else "tinydb")
    folder = project / ".perpetual"
    backups = [*folder.glob("backups/*")]
    assert len(backups) == moved
    again = _program(project, "store", "migrate", "sqlite")
    if moved:
        assert again.returncode == 6, "it is there already"
        assert (backups[0] / "journal.jsonl").is_file()
    else:
        assert again.returncode == 0, again.stdout
        assert json.loads(again.stdout)["rows"] == sum(map(len, before["held"].values()))
    assert (_store(project), _record(project)) == ("sqlite", before)
    assert sorted(path.name for path in folder.glob("store*")) == ["store"]
    assert not (folder / "moving.json").exists()
    with Lab.open(project) as lab:
        assert lab.hypotheses.add("on", metric="acc", direction="max", mde=0.1, baseline=1.0).id == "h6"


def test_a_backup_is_a_store_that_can_be_put_back(project: Path) -> None:
    _fill(project, "tinydb")
    before = _record(project)
    told = json.loads(_program(project, "store", "migrate", "sqlite").stdout)
    folder = project / ".perpetual"
    with Lab.open(project) as lab:
        lab.hypotheses.add("after", metric="acc", direction="max", mde=0.1, baseline=1.0)
    (folder / "store").rename(folder / "away")
    Path(told["backup"]).rename(folder / "store")
    with Lab.open(project) as lab:
        lab.config.set("store", "tinydb")
    assert _record(project) == before


def test_a_writer_that_was_open_before_the_move(project: Path) -> None:
    """Its next deed goes into the new store; what is still at the old one is refused, and nothing is written there."""
    _fill(project, "tinydb")
    with Lab.open(project) as lab:
        assert len(lab.hypotheses.list(limit=9).items) == 5
        old = lab.context.store
        told = json.loads(_program(project, "store", "migrate", "sqlite").stdout)
        journal = Path(told["backup"]) / "journal.jsonl"
        data = journal.read_bytes()
        with pytest.raises(TransientError) as caught, old.transaction() as tx:
            tx.append("event", {})
        assert (caught.value.code, caught.value.exit) == ("store_moved", 3)
        assert lab.hypotheses.add("late", metric="acc", direction="max", mde=0.1, baseline=1.0).id == "h6"
        assert journal.read_bytes() == data
    with Lab.open(project) as lab:
        assert lab.hypotheses.get("h6").statement == "late"
        assert lab.config["store"] == "sqlite"


@pytest.mark.slow
@pytest.mark.parametrize("step", MOVES)
def test_the_way_back_that_is_killed(project: Path, step: str) -> None:
    _fill(project, "sqlite")
    before = _record(project)
    killed = _program(project, "store", "migrate", "tinydb", PERPETUAL_DIE_AT=step)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert _record(project) == before
    assert _store(project) == ("tinydb" if step in DECIDED else "sqlite")

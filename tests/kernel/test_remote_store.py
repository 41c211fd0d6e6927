"""A record on a server, through the program: its place, its secret, kept answers, and migrations that writers see."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import TransientError

VAULT = Path(__file__).parents[1] / "fixtures" / "third_party" / "acme-vault" / "acme_vault"
Program = Callable[..., Any]


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """The folder that is the server."""
    found = tmp_path / "server"
    found.mkdir()
    return found


@pytest.fixture
def program(tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program in a project whose record is on the server."""
    site, project = tmp_path / "site", tmp_path / "project"
    shutil.copytree(VAULT, site / "acme_vault", ignore=shutil.ignore_patterns("__pycache__"))
    info = site / "acme_vault-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-vault\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[perpetual.plugins]\nacme-vault = acme_vault.plugin\n", "utf-8")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ACME_VAULT", f"vault://lab:hunter2-hunter2@{server}")
    Lab.init(project, name="served").close()

    def call(*words: str, code: int = 0, **environment: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "perpetual", *words, "--json"], cwd=project, env={**os.environ, **environment},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr + done.stdout
        assert "hunter2" not in done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout else None

    call("hypotheses", "add", "one")
    call("store", "migrate", "vault")
    return call


@pytest.mark.slow
def test_a_remote_store_names_its_location(program: Program, server: Path, tmp_path: Path) -> None:
    """And how much it takes there; the folder holds what leads to it."""
    stats = program("store", "stats")
    database = next(server.glob("*.sqlite3"))
    assert stats["location"] == f"vault://{database}"
    assert stats["bytes"] == database.stat().st_size
    assert [*stats["files"]] == ["record.json"]
    assert program("hypotheses", "add", "two")["id"] == "h2"
    assert program("store", "verify")["ok"] is True
    assert sorted(item["id"] for item in program("status")["hypotheses"]) == ["h1", "h2"]
    server.rename(tmp_path / "away")
    assert program("hypotheses", "list", code=3)["error"]["code"] == "busy"


@pytest.mark.slow
def test_the_status_is_kept_while_the_head_is_the_same(program: Program, tmp_path: Path) -> None:
    """A commit from another machine, which changes no file here, makes it anew."""
    project = tmp_path / "project"
    with Lab.open(project) as lab:
        lab.status()
        kept = (project / ".perpetual" / "status.json").read_bytes()
        lab.status()
        assert (project / ".perpetual" / "status.json").read_bytes() == kept
        before = sorted((project / ".perpetual" / "store").iterdir())
        with Lab.open(project) as other:
            other.hypotheses.add("from elsewhere")
        assert sorted((project / ".perpetual" / "store").iterdir()) == before
        assert sorted(item["id"] for item in lab.status()["hypotheses"]) == ["h1", "h2"]


def test_a_writer_on_another_machine_is_refused_once_the_record_was_replaced(
    program: Program, tmp_path: Path, server: Path
) -> None:
    """It sees no folder renamed: its project is on a file system that still shows the old one."""
    project = tmp_path / "project"
    stale = tmp_path / "stale"
    shutil.copytree(project / ".perpetual" / "store", stale)
    with Lab.open(project) as lab:
        lab.storage.migrate("sqlite")
        vault = import_module("acme_vault.store").VaultStore
        old = vault(server, stale / "record.json")
        assert str(old.retired()).startswith("backups/store-")
        lab.hypotheses.add("two")
    backup = next((project / ".perpetual" / "backups").glob("store-*/record.json")).parent
    assert vault(server, backup / "record.json").location() == old.location()


@pytest.mark.slow
def test_a_lab_that_was_open_goes_on_in_the_new_record(program: Program, tmp_path: Path) -> None:
    """What it held is let go of; the write that was refused succeeds when it is repeated."""
    project = tmp_path / "project"
    with Lab.open(project) as one, Lab.open(project) as other:
        first = one.hypotheses.get("h1")
        other.storage.migrate("sqlite")
        try:
            made = one.hypotheses.add("two")
        except TransientError:
            made = one.hypotheses.add("two")
        assert (made.id, other.hypotheses.get("h2").statement, first.id) == ("h2", "two", "h1")


@pytest.mark.slow
@pytest.mark.parametrize("step", ["move:built", "move:retired", "move:decided", "move:aside", "move:renamed"])
def test_a_migration_that_is_killed_leaves_one_record_in_force(program: Program, step: str) -> None:
    """Either the old one, whose mark the next writer takes off, or the new one."""
    program("store", "migrate", "sqlite", code=-signal.SIGKILL, PERPETUAL_DIE_AT=step)
    assert program("hypotheses", "add", "two")["id"] == "h2"
    assert program("store", "verify")["ok"] is True
    moved = step not in ("move:built", "move:retired")
    assert program("store", "stats")["store"] == ("sqlite" if moved else "vault")
    if not moved:
        assert program("store", "migrate", "sqlite")["rows"] > 0
    assert [item["id"] for item in program("hypotheses", "list")["items"]] == ["h1", "h2"]


@pytest.mark.slow
def test_a_migration_that_was_killed_can_be_repeated_at_once(program: Program) -> None:
    """Without a write in between."""
    program("store", "migrate", "sqlite", code=-signal.SIGKILL, PERPETUAL_DIE_AT="move:retired")
    assert program("store", "migrate", "sqlite")["to"] == "sqlite"
    assert program("store", "verify")["ok"] is True


@pytest.mark.slow
def test_a_backup_that_is_put_back_is_in_force(program: Program, tmp_path: Path) -> None:
    """Its mark is taken off by the first write."""
    folder = tmp_path / "project" / ".perpetual"
    with Lab.open(folder.parent) as lab:
        backup = Path(lab.storage.migrate("sqlite")["backup"] or "")
    shutil.move(folder / "store", tmp_path / "away")
    backup.rename(folder / "store")
    with Lab.open(folder.parent) as lab:
        lab.config.set("store", "vault")
    with Lab.open(folder.parent) as lab:
        assert lab.hypotheses.add("two").id == "h2"
        assert lab.hypotheses.add("three").id == "h3"
        assert lab.storage.verify() == []

"""Row 7: a project behind a link, on a server, or one that takes `A` for `a`: safe, and told by the doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.toolkit import filesystems
from perpetual_sqlite import opening

pytestmark = pytest.mark.slow

ADD = "lab.hypotheses.add(f'{worker} {n}', metric='acc', direction='max', mde=0.1, baseline=1.0)"


def _doctor(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What the doctor says of the store."""
    run(["doctor", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    found: dict[str, Any] = next(check for check in checks if check["check"] == "store")
    return found


@pytest.mark.parametrize("store", ["tinydb", "sqlite"])
def test_one_record_by_two_names(project: Path, tmp_path: Path, store: str) -> None:
    """Who comes through a link and who does not hold the same lock, and neither loses what the other wrote."""
    with Lab.open(project) as lab:
        lab.config.set("store", store)
        lab.hypotheses.add("first", metric="acc", direction="max", mde=0.1, baseline=1.0)
    other = tmp_path / "other"
    other.symlink_to(project, target_is_directory=True)
    code = f"""
import os, sys
from perpetual import Lab
children = []
for worker, place in enumerate(sys.argv[1:]):
    if child := os.fork():
        children.append(child)
        continue
    with Lab.open(place) as lab:
        for n in range(10):
            {ADD}
            if n == 5:
                lab.storage.compact()
    os._exit(0)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(project), str(other)], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[0, 0]\n", "")
    for place in (project, other):
        with Lab.open(place) as lab:
            found = [item.statement for item in lab.hypotheses.list(limit=100).items]
            assert sorted(found) == sorted(["first", *(f"{worker} {n}" for worker in (0, 1) for n in range(10))])
            assert lab.storage.verify() == []


def test_a_link_in_the_place_of_a_file_leads_nowhere(project: Path, tmp_path: Path) -> None:
    """A link that somebody put where the store makes a file: what it points at is not written."""
    with Lab.open(project) as lab:
        lab.hypotheses.add("first", metric="acc", direction="max", mde=0.1, baseline=1.0)
        store = project / ".perpetual" / "store"
        target = tmp_path / "target"
        target.write_text("mine")
        for name in ("snapshot-2.jsonl", "snapshot-2.index", "quarantine-1-0"):
            os.symlink(target, store / name)
        lab.storage.compact()
        assert lab.storage.verify() == [f"{store / 'quarantine-1-0'} cannot be read: it is a link"]
        (store / "quarantine-1-0").unlink()
        assert lab.storage.verify() == []
        assert len(lab.hypotheses.list(limit=9).items) == 1
    assert target.read_text() == "mine"


@pytest.mark.parametrize(("store", "kind"), [("tinydb", "nfs4"), ("sqlite", "nfs4"), ("sqlite", "fuse.sshfs")])
def test_a_folder_on_a_server_is_named_and_works(
    project: Path, store: str, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No memory is shared there: the database keeps the journal that needs none. Deeds go on as ever."""
    monkeypatch.setattr(filesystems, "file_system", lambda path: kind)
    monkeypatch.setattr(opening, "file_system", lambda path: kind)
    with Lab.open(project) as lab:
        lab.config.set("store", store)
    with Lab.open(project) as lab:
        for n in range(3):
            lab.hypotheses.add(f"{n}", metric="acc", direction="max", mde=0.1, baseline=1.0)
        stats = lab.storage.stats()
        assert lab.storage.verify() == []
    assert stats["mode"] == {"tinydb": "journal", "sqlite": "truncate"}[store]
    found = _doctor(capsys)
    assert found["ok"] is None
    assert kind in found["detail"]
    assert "local disk" in found["hint"]
    assert run(["status"]) == 0
    assert kind not in capsys.readouterr().err, "once, by the doctor, and not at every command"


def test_a_case_insensitive_folder_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(filesystems, "is_case_insensitive", lambda folder: True)
    with Lab.open(project) as lab:
        for name in ("Alpha", "alpha"):  # ids are the record's and no names of files
            with lab.context.store.transaction() as tx:
                tx.put("setting", name, {"n": name})
    with Lab.open(project) as lab:
        store = lab.context.store
        assert [item.body["n"] for item in store.find("setting") if item.id in ("Alpha", "alpha")] == ["Alpha", "alpha"]
    found = _doctor(capsys)
    assert found["ok"] is None
    assert "capital letters" in found["detail"]

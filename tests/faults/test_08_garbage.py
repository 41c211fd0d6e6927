"""Row 8: files of the record that are cut short, full of garbage, missing, or of a newer version.

Every command names the file and a way out, with the right status, and overwrites nothing; the doctor says the same.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_tinydb.journal_format import seal

pytestmark = pytest.mark.slow

Damage = Callable[[bytes], bytes]

ADD = ["hypotheses", "add", "acc rises", "--metric", "acc", "--direction", "max", "--mde", "0.1", "--baseline", "1.0"]
LOOKS = (["hypotheses", "list"], ["experiments"], ["events"], ["store", "stats"])
DEEDS = (ADD, ["approve", "e1"], ["store", "compact"], ["scan"])

DAMAGES: dict[str, Damage] = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "zeros": lambda data: b"\x00" * len(data),
    "garbage": lambda data: random.Random(20).randbytes(len(data)),
    "text": lambda data: b"<html>404 not found</html>\n",
    "the first page gone": lambda data: b"\x00" * 512 + data[512:],
    "the middle gone": lambda data: data[:600] + b"\x00" * 512 + data[1112:],
}


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, Any]]]:
    """A command line's exit status and document."""

    def asked(*arguments: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        status = run([*arguments, "--json"])
        return status, json.loads(capsys.readouterr().out)

    return asked


Ask = Callable[..., tuple[int, dict[str, Any]]]


def _fill(project: Path, store: str) -> Path:
    """A record with something in every corner; its folder."""
    with Lab.open(project) as lab:
        lab.config.set("store", store)
    with Lab.open(project) as lab:
        for n in range(4):
            made = lab.hypotheses.add(f"acc rises {n}", metric="acc", direction="max", mde=0.1, baseline=1.0)
            lab.experiments.propose(made.id, command=f"echo acc={n}", noise=0.05, cost_run_hours=0.001)
            if n == 1:
                lab.storage.compact()
    return project / ".perpetual" / "store"


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _refuses(ask: Ask, folder: Path, file: Path, *, code: str, status: int) -> None:
    """All that looks and all that writes; and nothing in the folder is another than before."""
    before = _contents(folder)
    for command in (*LOOKS, *DEEDS):
        found, document = ask(*command)
        error = document.get("error")
        assert error is not None, (command, document)
        assert (found, error["code"]) == (status, code), (command, error)
        assert str(file) in error["message"], (command, error)
        assert error["hint"], command
    _, document = ask("doctor")
    finding = next(check for check in document["checks"] if check["check"] == "store")
    assert finding["ok"] is False
    assert str(file) in finding["detail"]
    assert finding["hint"]
    left = _contents(folder)
    left.pop("lock", None)
    before.pop("lock", None)
    assert left == before


@pytest.mark.parametrize(
    ("name", "damage"),
    # half a journal is what a crash leaves, and no damage: see tests/plugins/tinydb/test_journal.py
    [("journal.jsonl", damage) for damage in DAMAGES if damage != "half"]
    + [("snapshot-2.jsonl", damage) for damage in DAMAGES],
)
def test_a_journal_or_snapshot_that_is_broken(project: Path, ask: Ask, name: str, damage: str) -> None:
    folder = _fill(project, "tinydb")
    file = folder / name
    good = file.read_bytes()
    file.write_bytes(DAMAGES[damage](good))
    if name == "snapshot-2.jsonl" and damage in ("zeros", "garbage", "the first page gone", "the middle gone"):
        before = _contents(folder)  # of the right length: what is sound is shown
        status, document = ask("store", "compact")
        assert (status, document["error"]["code"]) == (1, "corrupt")
        assert str(file) in document["error"]["message"]
        assert _contents(folder) == before
    else:
        _refuses(ask, folder, file, code="corrupt", status=1)
    status, document = ask("store", "verify")
    assert status == 1
    assert str(file) in json.dumps(document)
    file.write_bytes(good)
    assert ask("store", "verify") == (0, {"schema": "perpetual.store_verify/1", "ok": True, "problems": []})
    assert ask(*ADD)[0] == 0


@pytest.mark.parametrize("damage", ["zeros", "garbage", "text", "the first page gone"])
def test_a_database_that_is_broken(project: Path, ask: Ask, damage: str) -> None:
    folder = _fill(project, "sqlite")
    file = max(folder.iterdir(), key=lambda path: path.stat().st_size)
    good = file.read_bytes()
    file.write_bytes(DAMAGES[damage](good))
    _refuses(ask, folder, file, code="corrupt", status=1)
    file.write_bytes(good)
    assert ask("store", "verify")[0] == 0
    assert ask(*ADD)[0] == 0


def test_a_journal_of_a_newer_version(project: Path, ask: Ask) -> None:
    folder = _fill(project, "tinydb")
    file = folder / "journal.jsonl"
    good = file.read_bytes()
    file.write_bytes(seal('{"format":99') + b"more\n")
    _refuses(ask, folder, file, code="foreign_project", status=6)
    file.write_bytes(good)
    assert ask(*ADD)[0] == 0


def test_a_snapshot_that_is_missing(project: Path, ask: Ask) -> None:
    folder = _fill(project, "tinydb")
    file = folder / "snapshot-2.jsonl"
    good = file.read_bytes()
    file.unlink()
    _refuses(ask, folder, folder, code="corrupt", status=1)
    assert "snapshot-2.jsonl is missing" in ask("hypotheses", "list")[1]["error"]["message"]
    file.write_bytes(good)
    assert ask(*ADD)[0] == 0


def test_a_journal_that_is_missing(project: Path, ask: Ask) -> None:
    """The project does not begin anew as an empty one."""
    folder = _fill(project, "tinydb")
    file = folder / "journal.jsonl"
    good = file.read_bytes()
    file.unlink()
    _refuses(ask, folder, file, code="corrupt", status=1)
    file.write_bytes(good)
    assert ask(*ADD)[0] == 0


def test_an_index_that_is_broken_is_no_harm(project: Path, ask: Ask) -> None:
    """It is derived: everything works, and verify names the way to a new one."""
    folder = _fill(project, "tinydb")
    file = folder / "snapshot-2.index"
    for damage in DAMAGES.values():
        file.write_bytes(damage(file.read_bytes()))
        status, document = ask("hypotheses", "list")
        assert (status, len(document["items"])) == (0, 4)
    status, document = ask("store", "verify")
    assert status == 1
    assert "store compact" in document["problems"][0]
    assert ask("store", "compact")[0] == 0
    assert ask("store", "verify")[0] == 0


def test_a_torn_end_is_no_harm(project: Path, ask: Ask) -> None:
    """What a crash leaves: what was acknowledged is there, and the next deed mends it."""
    folder = _fill(project, "tinydb")
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b'{"k":"hypothesis","r":{"_id":"h5"')
    assert len(ask("hypotheses", "list")[1]["items"]) == 4
    assert ask("store", "verify")[0] == 0
    status, document = ask(*ADD)
    assert (status, document["id"]) == (0, "h5")
    assert [path.name for path in folder.glob("quarantine-*")]
    assert ask("store", "verify")[0] == 0

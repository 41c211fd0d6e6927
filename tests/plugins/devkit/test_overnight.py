"""`perpetual chaos --daemon`: the daemon keeps its promises through a bad night, and one that does not is found out."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from perpetual.cli.app import run
from perpetual_devkit.chaos import Target
from perpetual_devkit.overnight import FAULTS, run_overnight
from perpetual_devkit.overnight_judge import PROMISES

SEED = 5
LONG_S = 60.0
TINYDB = Target("tinydb", "perpetual-lab/tinydb", "perpetual_tinydb.store:open_store", {})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--writers 2", "--writers are those of a store"),
        ("--folder . --keep kept", "--folder and --keep both say where"),
        ("--keep .", "is not empty"),
        ("--store nosuch", "unknown provider 'nosuch'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file").touch()
    assert run(["chaos", "--daemon", *arguments.split()]) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]


def test_keep_belongs_to_the_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chaos", "--keep", str(tmp_path / "kept")]) == 2
    assert "--keep belongs to --daemon" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kills", "store"),
    [
        pytest.param(5, "tinydb", marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
        pytest.param(5, "sqlite", marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
        pytest.param(50, "tinydb", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
        pytest.param(50, "sqlite", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    ],
)
def test_the_daemon_survives_the_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kills: int, store: str
) -> None:
    arguments = ["--kills", str(kills), "--store", store, "--seed", str(SEED), "--folder", str(tmp_path), "--json"]
    code = run(["chaos", "--daemon", *arguments])
    document = json.loads(capsys.readouterr().out)
    assert {item["promise"]: item["found"] for item in document["promises"] if not item["ok"]} == {}
    assert (code, document["problems"], document["ok"], document["kept"]) == (0, [], True, None)
    assert [item["promise"] for item in document["promises"]] == [*PROMISES]
    assert (document["kills"], document["seed"], document["store"]) == (kills, SEED, store)
    assert sum(document["killed_in"].values()) == kills
    assert all(document["faults"][name] for name in FAULTS), document
    assert document["not_tried"] == []
    assert document["answers"] > 0
    assert document["retries"] >= 3  # one lost, one preempted, one without memory
    assert [*tmp_path.iterdir()] == []


# A daemon that does its work, and then counts a result twice: the same evidence again under another id.
_CHEAT = """
import sys
from perpetual import Lab
from perpetual.cli.app import run

code = run(["--project", sys.argv[1], "daemon", "--interval", "2", "--json"])
with Lab.open(sys.argv[1]) as lab, lab.context.store.transaction() as tx:
    rows = [row for row in lab.context.store.rows("evidence") if row.body["kind"] == "measured"]
    tx.append("evidence", {**rows[0].body})
sys.exit(code)
"""


def _cheating(project: Path) -> Sequence[str]:
    return [sys.executable, "-P", "-c", _CHEAT, str(project)]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_daemon_that_breaks_a_promise_is_found_out(tmp_path: Path) -> None:
    """Its projects are kept, and what shows it is named."""
    keep = tmp_path / "kept"
    found = run_overnight(TINYDB, kills=1, seed=SEED, keep=keep, command=_cheating)
    broken = {item["promise"]: item["found"] for item in found.promises if not item["ok"]}
    assert not found.ok
    assert any("more than once" in words for words in broken["evidence"]), broken
    assert found.kept == str(keep)
    assert (keep / "disturbed" / "project" / ".perpetual").is_dir()


@pytest.mark.slow
def test_ctrl_c_ends_every_process_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perpetual", "chaos", "--daemon", "--kills", "50", "--folder", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert " of 50 kills, " in process.stderr.readline()
        (place,) = tmp_path.iterdir()
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=LONG_S)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (130, ""), said
    assert said.endswith("error: interrupted\n")
    assert [*tmp_path.iterdir()] == []
    assert _marked(str(place)) == []


def _marked(place: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("OVERNIGHT_MARK") == place:
                found.append(process.pid)
    return found

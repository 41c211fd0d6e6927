"""A project of an earlier version is opened while a run of it lives: its supervisor's records have no nonce.

`tests/fixtures/live_projects` holds it as it was, with r1 running and r2 queued. The process that its records name is
long gone, so another one takes its part here: it works in the run's folder, holds its lock, and writes the record of
the end in the form of then.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.lab.kinds import RUN
from perpetual.lab.ledger.runs import RunRecords
from perpetual.testing.projects import trust_project
from perpetual.toolkit import platform
from tests.faults.run_harness import LONG_S, approved, end_all

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")

KEPT = Path(__file__).parents[1] / "fixtures" / "live_projects" / "1-tinydb" / "perpetual"
_SUPERVISOR = """
import fcntl, os, sys
os.chdir(sys.argv[1])
lock = os.open("supervisor.lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
print("up", flush=True)
record = sys.stdin.readline()
if record:
    with open("exit.new", "w") as file:
        file.write(record)
    os.replace("exit.new", "exit.json")
"""


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Lab, subprocess.Popen[str]]]:
    """The project, and the process that supervises r1."""
    shutil.copytree(KEPT, tmp_path / ".perpetual")
    trust_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".perpetual" / "runs" / "r1"
    argv = [sys.executable, "-I", "-S", "-c", _SUPERVISOR, str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        identity = platform.identity_of(process.pid)
        assert identity is not None
        record = json.loads((folder / "started.json").read_text())
        gone = {**record["child"], "boot_id": identity.boot_id}
        (folder / "started.json").write_text(json.dumps({**record, "supervisor": identity._asdict(), "child": gone}))
        with Lab.open(tmp_path) as lab:
            with lab.context.store.transaction() as tx:
                run = lab.context.need(RUN, "r1")
                assert "nonce" not in run.body
                native_id = f"{identity.boot_id}/{identity.pid}/{identity.start_ticks}"
                RunRecords(lab.context).change(tx, run, {"native_id": native_id})
            yield lab, process
            end_all(lab)
        process.kill()


def _end(lab: Lab, **changes: object) -> str:
    times = {"started_at": lab.runs.get("r1").started_at, "ended_at": "2026-11-22T20:00:00.000Z", "duration_s": 0.01}
    record = {"exit_code": 0, "signal": None, "reason": "exited", "detail": None, "max_rss_bytes": 1, "cpu_s": 0.0}
    return json.dumps({**record, **times, **changes})


def test_a_live_run_of_an_earlier_version_ends_as_it_ended(old: tuple[Lab, subprocess.Popen[str]]) -> None:
    """It is believed by its lock and its identity, and the next one starts in the form of today."""
    lab, supervisor = old
    assert lab.scan()["changes"] == []
    (lab.runs.log_dir("r1") / "exit.json").write_text(_end(lab, exit_code=9))  # the run's own word
    assert lab.scan()["changes"] == []
    supervisor.communicate(_end(lab) + "\n", timeout=LONG_S)
    assert lab.wait(["r1"], timeout_s=LONG_S) == {"r1": "done"}
    assert (lab.runs.get("r1").metrics, lab.runs.get("r1").exit_code) == ({"score": 5.0}, 0)
    assert [row.run_id for row in lab.evidence.list().items] == ["r1"]
    assert lab.runs.get("r2").status == "queued", "its approval was made elsewhere"
    (later,) = lab.runs.launch(approved(lab, "exit 0"))
    assert lab.wait([later.id], timeout_s=LONG_S) == {later.id: "done"}
    assert json.loads((lab.runs.log_dir(later.id) / "exit.json").read_text())["nonce"]
    assert lab.storage.verify() == []


def test_a_live_run_of_an_earlier_version_can_be_ended(old: tuple[Lab, subprocess.Popen[str]]) -> None:
    lab, supervisor = old
    assert lab.runs.kill("r1", grace_s=0.0).status == "lost"
    assert supervisor.wait(LONG_S) < 0, "it got its signal, and left no record"


def test_an_old_run_without_its_supervisor_is_lost(tmp_path: Path) -> None:
    shutil.copytree(KEPT, tmp_path / ".perpetual")
    trust_project(tmp_path)
    with Lab.open(tmp_path) as lab:
        lab.queue.set_state("paused")
        (change,) = lab.scan()["changes"]
        assert (change["run_id"], change["to"]) == ("r1", "lost")

"""What is told of a run beside its end: what it left behind, who supervises it no more, why it is not recorded yet."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perpetual.cli.app import run
from perpetual.errors import NotFound
from perpetual.toolkit import platform
from perpetual_supervisor import rundir
from tests.faults.run_harness import LONG_S, approved, die, opened, single_books, supervisor_of
from tests.faults.run_harness import until as says
from tests.support import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")

# Obeys one command line where no file may grow, as on a full disk.
_ON_FULL_DISK = """
import resource, signal, sys
from perpetual.cli.app import run
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
sys.exit(run(sys.argv[1:]))
"""


def test_processes_that_outlived_the_command_are_named(project: Path) -> None:
    """The run lasted longer than its command did, and nothing else says why."""
    with opened(project, kill_grace_s="0.1") as lab:
        left = "(trap '' TERM; echo up; exec sleep 600) &"
        script = f"{left} until grep -q up $PERPETUAL_RUN_DIR/stdout.log; do sleep 0.01; done; exit 0"
        (made,) = lab.runs.launch(approved(lab, script))
        assert lab.wait([made.id], timeout_s=LONG_S) == {made.id: "done"}
        (told,) = lab.runs.get(made.id).annotations
        assert told == {
            "kind": "leftover",
            "text": "processes that outlived the command and were ended: 1",
            "source": "exit record",
        }


def test_a_run_without_its_supervisor_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(project) as lab:
        (made,) = lab.runs.launch(approved(lab, "echo up; sleep 600"))
        says(lab, made.id, "up")
        supervisor = supervisor_of(lab, made)
        assert lab.runs.look(made.id) == ("running", None)
        assert platform.signal_process(supervisor, signal.SIGSTOP)
        until(lambda: platform.is_stopped(supervisor), "it was never stopped")
        assert lab.runs.look(made.id) == (
            "running",
            f"its supervisor was stopped, and keeps it to no limit: kill -CONT {supervisor.pid}",
        )
        assert run(["runs", made.id]) == 0
        assert f"kill -CONT {supervisor.pid}" in capsys.readouterr().out
        die(supervisor)
        assert lab.runs.look(made.id) == ("running", "the supervisor died; the command goes on unrecorded")
        assert run(["runs", made.id]) == 0
        assert "goes on unrecorded" in capsys.readouterr().out


def test_a_log_that_was_removed_is_not_said_to_be_of_a_run_that_never_started(project: Path) -> None:
    with opened(project) as lab:
        (made,) = lab.runs.launch(approved(lab, "rm $PERPETUAL_RUN_DIR/stdout.log; exit 0"))
        lab.wait([made.id], timeout_s=LONG_S)
        with pytest.raises(NotFound) as told:
            lab.runs.logs(made.id)
        assert told.value.hint == f"{lab.runs.log_dir(made.id) / 'stdout.log'} was removed, or is no file any more"


@pytest.mark.parametrize("store", ["tinydb", "sqlite"])
def test_a_full_disk_saves_no_run_from_being_ended(project: Path, store: str) -> None:
    """What fills the disk must not live on because that it was ended cannot be written down."""
    with opened(project, store) as lab:
        (made,) = lab.runs.launch(approved(lab, "echo up; sleep 600"))
        says(lab, made.id, "up")
        done = subprocess.run(
            [sys.executable, "-c", _ON_FULL_DISK, "kill", made.id, "--grace", "0", "--json"],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=LONG_S,
        )
        error = json.loads(done.stdout)["error"]
        assert (done.returncode, error["code"]) == (1, "not_written")
        assert error["message"].startswith(f"{made.id} ")  # has ended, or on a slow machine was told to
        assert ", and that is not recorded yet: " in error["message"]
        assert rundir.wait(lab.runs.log_dir(made.id), LONG_S).state == "ended"
        assert [item["to"] for item in lab.scan()["changes"]] == ["killed"]
        single_books(lab)

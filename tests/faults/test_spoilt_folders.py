"""Runs that spoil their own folder: none holds up a command, the exit record decides, and the others are recorded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.errors import CorruptData
from perpetual_supervisor import rundir
from tests.faults.run_harness import LONG_S, approved, opened, single_books
from tests.faults.run_harness import until as says
from tests.support import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")

_PIPE = "cd $PERPETUAL_RUN_DIR; rm -f {0}; mkfifo {0}"
_LOOP = "cd $PERPETUAL_RUN_DIR; rm -f {0}; ln -s {0} {0}"


def _launched(lab: Lab, script: str) -> str:
    (made,) = lab.runs.launch(approved(lab, script))
    return made.id


def _ended(lab: Lab, id: str) -> tuple[str, int | None]:
    """How it ended, once its supervisor has left, whatever can be read of it before."""
    run = lab.runs.get(id)
    lab.part("scheduler").wait(run.native_id, lab.runs.log_dir(id), LONG_S)
    assert lab.scan()["problems"] == []
    run = lab.runs.get(id)
    return run.status, run.exit_code


@pytest.mark.slow
@pytest.mark.parametrize("file", ["supervisor.lock", "metrics.jsonl", "stdout.log", "results.json", "cancel.json"])
def test_a_pipe_in_the_place_of_a_file_blocks_no_reader(project: Path, file: str) -> None:
    with opened(project) as lab:
        assert _ended(lab, _launched(lab, f"{_PIPE.format(file)}; exit 3")) == ("failed", 3)
        single_books(lab)


@pytest.mark.parametrize("script", [_PIPE, _LOOP], ids=["pipe", "loop"])
def test_records_that_cannot_be_read(project: Path, script: str) -> None:
    """What stands in the place of the exit record gives way to it, and that of the start is not needed beside it."""
    with opened(project) as lab:
        spoilt = f"{script.format('exit.json')}; {script.format('started.json')}; exit 3"
        assert _ended(lab, _launched(lab, spoilt)) == ("failed", 3)
        single_books(lab)


def test_a_command_that_is_quicker_than_its_launcher(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of the start was spoilt before the launcher could look: it was told all the same."""
    with opened(project) as lab:
        folder = lab.runs.log_dir("r1")

        def spoil(name: str) -> None:
            if name == "launch:forked":
                until((folder / "spoilt").exists, "the command never came")

        monkeypatch.setattr(rundir, "step", spoil)
        id = _launched(lab, "cd $PERPETUAL_RUN_DIR; rm started.json; mkfifo started.json; touch spoilt; exit 3")
        assert _ended(lab, id) == ("failed", 3)


def test_provenance_that_became_a_pipe_is_a_taint(project: Path) -> None:
    with opened(project) as lab:
        id = _launched(lab, f"{_PIPE.format('provenance.json')}; exit 0")
        assert _ended(lab, id) == ("done", 0)
        assert lab.runs.get(id).tainted
        with pytest.raises(CorruptData, match=r"provenance\.json: not a file"):
            lab.runs.provenance(id)


def test_a_folder_in_the_place_of_the_exit_record(project: Path) -> None:
    """The supervisor sets it aside."""
    with opened(project) as lab:
        id = _launched(lab, "mkdir -p $PERPETUAL_RUN_DIR/exit.json/full; exit 3")
        assert _ended(lab, id) == ("failed", 3)
        assert len([*lab.runs.log_dir(id).glob("exit.json.aside-*")]) == 1
        single_books(lab)


def test_a_run_whose_start_was_spoilt_can_be_ended(project: Path) -> None:
    """Its supervisor is known by the record, and its exit record is as good as any."""
    with opened(project) as lab:
        id = _launched(lab, "echo '{}' > $PERPETUAL_RUN_DIR/started.json; echo up; sleep 600")
        says(lab, id, "up")
        assert lab.runs.kill(id, grace_s=0.0).status == "killed"
        single_books(lab)

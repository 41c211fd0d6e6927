"""Artifacts are listed as they are on the disk, checkpoints outlive an attempt, and the policy removes what it says."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from perpetual import Lab
from perpetual.api import NotPermitted, RunEnd
from perpetual.cli.app import run as command
from perpetual.records import Run
from perpetual_artifacts import listing, report_section, retention
from tests.support import until

Start = Callable[..., Run]


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    """The project's lab."""
    with Lab.open(project) as opened:
        yield opened


@pytest.fixture
def start(lab: Lab) -> Start:
    """Runs a Python program, by default waits for it, and returns its run."""

    def begin(program: str, *, waits: bool = True) -> Run:
        (lab.root / "job.py").write_text("import os, pathlib, sys, time\n" + program)
        experiment = lab.experiments.approve(lab.experiments.propose(command=f"{sys.executable} job.py").id)
        (made,) = lab.runs.launch(experiment.id)
        if waits:
            lab.wait([made.id], timeout_s=30)
        return lab.runs.get(made.id)

    return begin


def test_artifacts_are_listed_with_size_and_hash(lab: Lab, start: Start) -> None:
    """Links and special files are left out and named; nothing outside of the folder is read."""
    found = start(
        "a = pathlib.Path(os.environ['PERPETUAL_ARTIFACTS'])\n"
        "(a / 'deep').mkdir(); (a / 'deep' / 'w.bin').write_bytes(b'w' * 5000); (a / 'a.txt').write_text('')\n"
        "os.symlink('/etc/passwd', a / 'link'); os.mkfifo(a / 'pipe'); os.symlink('/etc', a / 'folder')\n"
    )
    assert found.artifacts == (
        {"path": "artifacts/a.txt", "size_bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()},
        {"path": "artifacts/deep/w.bin", "size_bytes": 5000, "sha256": hashlib.sha256(b"w" * 5000).hexdigest()},
    )
    assert [item["text"] for item in found.annotations] == [
        "2 of its artifacts are links or no files, and are not listed"
    ]


def test_a_folder_that_was_replaced_by_a_link_lists_nothing(lab: Lab, start: Start) -> None:
    """What lies behind the link is another's, however many files there are."""
    found = start("a = os.environ['PERPETUAL_ARTIFACTS']; os.rmdir(a); os.symlink('/etc', a)\n")
    assert (found.status, found.artifacts) == ("done", ())


def test_a_name_forges_no_line(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    found = start("(pathlib.Path(os.environ['PERPETUAL_ARTIFACTS']) / 'a\\nr9  done').write_text('')\n")
    assert command(["runs", found.id]) == 0
    shown = capsys.readouterr().out
    assert "artifacts/a r9 done: 0 bytes" in shown


def test_hostile_names_and_too_many_files_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record can hold every name, the list is bounded, and what was not read in time has no hash."""
    folder = tmp_path / "artifacts"
    folder.mkdir()
    for name in (b"\xff\x1b[31m", b"plain", "ünïcode".encode()):
        (folder / os.fsdecode(name)).write_text("x")
    end = RunEnd("r1", tmp_path, tmp_path, {})
    monkeypatch.setattr(listing, "MOST_FILES", 2)
    monkeypatch.setattr(listing, "HASH_S", 0.0)
    found = listing.build({}).after(end)
    assert len(found.artifacts) == 2
    assert [item.sha256 for item in found.artifacts] == [None, None]
    assert len(found.notes) == 2
    monkeypatch.setattr(listing, "MOST_FILES", 10)
    paths = [item.path for item in listing.build({}).after(end).artifacts]
    assert "artifacts/\\xff\x1b[31m" in paths
    assert json.loads(json.dumps(paths).encode()) == paths


def test_a_retry_goes_on_from_the_checkpoints_of_the_attempt_before(lab: Lab, start: Start) -> None:
    """Attempts of one replicate share a folder; another replicate's is empty."""
    first = start(
        "c = pathlib.Path(os.environ['PERPETUAL_CHECKPOINT_DIR']) / 'step'\n"
        "seen = c.exists(); c.write_text('1'); print('goes on:', int(seen)); sys.exit(0 if seen else 3)\n"
    )
    assert first.status == "failed"
    second = lab.runs.retry(first.id)
    lab.wait([second.id], timeout_s=30)
    third = start("print(os.listdir(os.environ['PERPETUAL_CHECKPOINT_DIR']))\n")
    assert lab.runs.get(second.id).status == "done"
    assert lab.runs.logs(second.id)["text"] == "goes on: 1\n"
    assert lab.runs.logs(third.id)["text"] == "[]\n"


WARNED = """
import signal
folder = pathlib.Path(os.environ['PERPETUAL_CHECKPOINT_DIR'])
signal.signal(signal.SIGUSR1, lambda *_: (folder / 'warned').write_text(str(os.getpid())))
helper = os.fork()
if helper == 0:
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    time.sleep(60)
(folder / 'ready').write_text('')
while True:
    time.sleep(0.01)
    if (folder / 'warned').exists() and not (folder / 'seen').exists():
        (folder / 'seen').write_text(str(os.waitpid(helper, os.WNOHANG)))
"""


def test_a_preempted_run_is_warned_ended_and_tried_again(lab: Lab, start: Start) -> None:
    """The supervisor passes the warning on to the command alone; the end is noted, and the retry is automatic."""
    lab.settings.set_methodology("auto_retry", "preempted")
    live = start(WARNED, waits=False)
    folder = lab.runs.log_dir(live.id) / "checkpoints"
    until(lambda: (folder / "ready").exists())
    supervisor = json.loads((lab.runs.log_dir(live.id) / "started.json").read_text())["supervisor"]["pid"]
    os.kill(supervisor, signal.SIGUSR1)
    until((folder / "seen").exists)
    until(lambda: (folder / "seen").read_text())
    assert (folder / "warned").read_text() == str(live.pid)
    assert (folder / "seen").read_text() == "(0, 0)", "the helper, which would have died of it, lives"
    os.kill(supervisor, signal.SIGTERM)
    lab.wait([live.id], timeout_s=30)
    ended = lab.runs.get(live.id)
    assert ended.status == "killed"
    assert [item["kind"] for item in ended.annotations] == ["preempted"]
    (again,) = lab.runs.live()
    assert (again.attempt, again.seed) == (2, ended.seed)
    lab.runs.kill(again.id, grace_s=0)
    assert not lab.runs.live(), "what a caller ends is not tried again"


def test_the_policy_removes_what_it_says_and_nothing_of_a_live_replicate(
    lab: Lab, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each removal is an event; the record keeps the hash."""
    program = (
        "open(os.environ['PERPETUAL_CHECKPOINT_DIR'] + '/c', 'w').write('cc')\n"
        "open(os.environ['PERPETUAL_ARTIFACTS'] + '/a', 'w').write('a')\n"
    )
    done, failed = start(program), start(program + "sys.exit(1)\n")
    folder = {run.id: lab.runs.log_dir(run.id) for run in (done, failed)}

    def after(days: float, *, dry_run: bool = False) -> list[tuple[str, str]]:
        now = datetime.now(UTC) + timedelta(days=days)
        return [(item["run_id"], item["what"]) for item in retention.collect(lab, dry_run=dry_run, now=now)["removed"]]

    assert after(6) == []
    assert after(8, dry_run=True) == [(done.id, "checkpoints")]
    assert (folder[done.id] / "checkpoints" / "c").exists()
    again = lab.runs.retry(failed.id)
    lab.wait([again.id], timeout_s=30)
    (lab.root / "job.py").write_text("import time; time.sleep(60)")
    live = lab.runs.retry(again.id)
    assert after(400, dry_run=True) == [(done.id, "checkpoints")]
    assert after(400) == [(done.id, "checkpoints")]
    assert after(400) == [], "nothing is removed twice"
    lab.runs.kill(live.id, grace_s=0)
    assert after(29) == []
    assert after(31) == [(failed.id, "checkpoints")]
    lab.settings.set_config("plugins.artifacts.artifact_days", "1")
    assert sorted(after(2)) == [(done.id, "artifacts"), (failed.id, "artifacts"), (again.id, "artifacts")]
    events = [(event.subject, event.payload["what"]) for event in lab.events() if event.kind == "artifacts.removed"]
    assert len(events) == 5
    assert {
        item["removed"] for item in cast("list[dict[str, object]]", report_section.build({}).data(lab)["items"])
    } == {True}
    capsys.readouterr()
    assert command(["runs", done.id]) == 0
    assert "its artifacts are not there any longer" in capsys.readouterr().out
    assert lab.runs.get(done.id).artifacts[0]["sha256"] == hashlib.sha256(b"a").hexdigest()
    assert not [name for name in os.listdir(folder[done.id]) if name.startswith(".gc-")]
    assert lab.storage.verify() == []


def test_an_interrupted_removal_is_finished(lab: Lab, start: Start) -> None:
    """What a killed `gc` had renamed goes at the next one."""
    run = start("")
    left = lab.runs.log_dir(run.id) / ".gc-checkpoints-00000000"
    left.mkdir()
    (left / "c").write_text("c")
    retention.collect(lab)
    assert not left.exists()


def test_gc_is_for_a_person(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An agent sees what would go; without a terminal the command wants --yes."""
    assert command(["gc"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert command(["gc", "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema": "perpetual.gc/1", "removed": [], "freed_bytes": 0, "kept": {}, "dry_run": False,
    }  # fmt: skip
    monkeypatch.setenv("CLAUDECODE", "1")
    assert command(["gc", "--yes"]) == 4
    assert command(["gc", "--dry-run"]) == 0
    with Lab.open(project, actor="user:me") as lab, pytest.raises(NotPermitted):
        retention.collect(lab)

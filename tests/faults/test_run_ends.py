"""A run's end is its supervisor's word: not the run's own, not that of another record, a copy or another machine."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import perpetual
from perpetual import Lab
from perpetual.errors import Conflict, CorruptData, NotPermitted
from perpetual.lab.kinds import RUN
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.runs import start
from perpetual.slots.scheduler import LaunchError
from perpetual.testing.projects import trust_project
from perpetual.toolkit import platform
from perpetual_supervisor import rundir
from tests.faults.run_harness import LONG_S, approved, dead_process, die, opened, single_books, supervisor_of
from tests.faults.run_harness import until as says
from tests.support import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")

_HELD = "echo up; while [ ! -e go ]; do sleep 0.05; done"
_END = {
    "exit_code": 0,
    "signal": None,
    "reason": "exited",
    "detail": None,
    "started_at": "2026-11-21T00:00:00.000Z",
    "ended_at": "2026-11-21T00:00:01.000Z",
    "duration_s": 1.0,
    "max_rss_bytes": 1,
    "cpu_s": 0.0,
}

# A supervisor that is killed before it has answered its launcher makes a launch that failed, and no lost run.
AFTER_THE_LAUNCH = "while [ ! -e go ]; do sleep 0.02; done"


def _launched(lab: Lab, script: str = _HELD, **design: object) -> str:
    (made,) = lab.runs.launch(approved(lab, script, **design))
    return made.id


def _forge(lab: Lab, id: str, **changes: object) -> None:
    """An exit record as the run can write it, bound to the run as its supervisor's would be."""
    folder = lab.runs.log_dir(id)
    bound = {
        key: json.loads((folder / "started.json").read_text())[key] for key in ("nonce", "spec_hash", "started_at")
    }
    (folder / "exit.json").write_text(json.dumps({**_END, **bound, **changes}))


def _kill_both(lab: Lab, id: str) -> None:
    """Kills supervisor and program, and waits for what the program had started."""
    folder = lab.runs.log_dir(id)
    started = rundir.read_started(folder)
    assert started is not None
    assert started.child is not None
    die(started.supervisor)
    die(started.child)
    nonce = json.loads((folder / "started.json").read_text())["nonce"]
    until(lambda: not [*rundir.processes_of(folder, nonce)])


@pytest.mark.parametrize(
    "forged",
    [
        {},
        *(
            pytest.param(forged, marks=pytest.mark.slow)
            for forged in ({"started_at": "not a time"}, {"duration_s": -3.6e7}, {"duration_s": 1e300}, {"nonce": None})
        ),
    ],
)
def test_no_end_counts_while_the_supervisor_lives(project: Path, forged: dict[str, object]) -> None:
    with opened(project) as lab:
        id = _launched(lab)
        _forge(lab, id, **forged)
        assert lab.scan() == {"changes": [], "debits": [], "evidence": [], "problems": []}
        other = _launched(lab, "exit 0")
        assert lab.wait([other], timeout_s=LONG_S) == {other: "done"}
        Path("go").touch()
        assert lab.wait([id], timeout_s=LONG_S) == {id: "done"}
        assert 0.0 <= (lab.runs.get(id).duration_s or -1.0) < LONG_S
        single_books(lab)


@pytest.mark.parametrize(
    "forged",
    [
        {"started_at": "not a time"},
        {"ended_at": "yesterday"},
        {"ended_at": "2026-11-21T00:00:00+02:00"},
        {"started_at": "1990-01-01T00:00:00.000Z"},
        {"duration_s": -3.6e7},
        {"duration_s": 1e300},
        {"duration_s": 500.0},
        {"duration_s": 10**400},
        {"cpu_s": -1},
        {"detail": 3},
        {},
        {"end_key": None},
        {"end_key": "0" * 32},
        {"end_key": 7},
    ],
)
def test_an_end_that_cannot_have_been_is_a_problem_of_that_run_alone(project: Path, forged: dict[str, object]) -> None:
    """Its supervisor was killed, and the record is none that can have been, or has not its key; `kill` gives it up."""
    with opened(project) as lab:
        id = _launched(lab)
        _kill_both(lab, id)
        _forge(lab, id, **forged)
        other = _launched(lab, "exit 0")
        assert lab.wait([other], timeout_s=LONG_S) == {other: "done"}
        (problem,) = lab.scan()["problems"]
        assert (problem["run_id"], problem["code"]) == (id, "corrupt")
        assert lab.runs.get(id).status == "running"
        with pytest.raises(CorruptData):
            lab.wait([id], timeout_s=LONG_S)
        ended = lab.runs.kill(id, grace_s=0.0)
        assert ended.status == "lost"
        assert 0.0 <= (ended.run_hours or 0.0) <= 600.0 / 3600.0
        single_books(lab)


def test_files_of_another_record_are_no_evidence(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older store is restored, and a launcher dies between `launching` and the start."""
    with Lab.open(project) as lab:
        lab.hypotheses.add("it matters", metric="score", direction="max", mde=1.0, baseline=0.0)
        store, backup = project / ".perpetual" / "store", project / "backup"
        lab.close()
        shutil.copytree(store, backup)
    design = {"hypothesis_id": "h1", "noise": 0.5, "replicates": 1}
    with Lab.open(project) as lab:
        id = _launched(lab, "echo score: 5", **design)
        assert lab.wait([id], timeout_s=LONG_S) == {id: "done"}
    shutil.rmtree(store)
    backup.rename(store)
    trust_project(project)
    with Lab.open(project) as lab:
        experiment = approved(lab, "echo score: 0", **design)
        with monkeypatch.context() as dying:

            def die_there(name: str) -> None:
                if name == "launch:launching":
                    raise KeyboardInterrupt

            gone = dead_process()
            dying.setattr(start, "step", die_there)
            dying.setattr(platform, "identity_of", lambda pid: gone)
            with pytest.raises(KeyboardInterrupt):
                lab.runs.launch(experiment)
        assert lab.runs.get("r1").status == "launching"
        assert lab.scan()["evidence"] == []
        assert lab.wait(["r1"], timeout_s=LONG_S) == {"r1": "done"}
        run = lab.runs.get("r1")
        assert run.metrics == {"score": 0.0}
        (aside,) = (item["source"] for item in run.annotations if item["kind"] == "aside")
        assert (project / ".perpetual" / "runs" / aside / "stdout.log").read_text() == "score: 5\n"
        assert any(aside in problem for problem in lab.storage.verify())


def test_a_copy_ends_nothing_of_its_original(project: Path, tmp_path: Path) -> None:
    with opened(project) as lab:
        id = _launched(lab)
        says(lab, id, "up")
        shutil.copytree(project, tmp_path / "copy", symlinks=True)
        with Lab.open(tmp_path / "copy") as held, pytest.raises(NotPermitted):
            held.runs.kill(id, grace_s=0.0)
        trust_project(tmp_path / "copy")
        with Lab.open(tmp_path / "copy") as copy:
            (found,) = copy.scan()["elsewhere"]
            assert found["run_id"] == id
            assert str(project) in found["where"]
            with pytest.raises(Conflict, match="runs in"):
                copy.runs.kill(id, grace_s=0.0)
            assert copy.runs.get(id).status == "running"
        assert lab.runs.look(id)[0] == "running"
        Path("go").touch()
        assert lab.wait([id], timeout_s=LONG_S) == {id: "done"}


def test_an_imported_record_ends_nothing_of_its_original(project: Path, tmp_path: Path) -> None:
    with opened(project) as lab:
        id = _launched(lab)
        lab.storage.export_file(tmp_path / "export.jsonl")
        with Lab.init(tmp_path / "other", name="other") as other:
            other.storage.import_file(tmp_path / "export.jsonl")
            with pytest.raises(Conflict, match="runs in"):
                other.runs.kill(id, grace_s=0.0)
        assert lab.runs.look(id)[0] == "running"


def test_a_moved_project_is_followed(project: Path, tmp_path: Path) -> None:
    with opened(project) as lab:
        id = _launched(lab)
        says(lab, id, "up")
        lab.close()
        project.rename(tmp_path / "moved")
        with Lab.open(tmp_path / "moved") as moved:
            assert moved.scan().get("elsewhere") is None
            assert moved.runs.kill(id, grace_s=0.0).status == "killed"
        (tmp_path / "moved").rename(project)


@pytest.mark.parametrize("left", ["sleep 600", "env -i sleep 600", "env PERPETUAL_RUN_DIR=/ setsid sleep 600"])
def test_processes_of_a_lost_run_are_named_and_can_be_killed(project: Path, left: str) -> None:
    """Also without the marks in its environment: it writes to the logs."""
    with opened(project, auto_retry="lost") as lab:
        id = _launched(lab, f"{AFTER_THE_LAUNCH}; {left} & echo $!; kill -9 $PPID; exit 0")
        Path("go").touch()
        until(lambda: lab.runs.look(id)[0] == "lost", "its supervisor lives")
        sleeper = int((lab.runs.log_dir(id) / "stdout.log").read_text())
        process = platform.identity_of(sleeper)
        assert process is not None
        lab.scan()
        run = lab.runs.get(id)
        assert (run.status, str(sleeper) in str(run.reason)) == ("lost", True)
        (retry,) = [other for other in lab.runs.list().items if other.id != id]
        assert (retry.status, str(sleeper) in str(retry.reason)) == ("queued", True)
        assert platform.is_alive(process), "it was named, and not ended"
        assert lab.runs.kill(id, grace_s=1.0).status == "lost"
        assert not platform.is_alive(process)
        with pytest.raises(Conflict, match="nothing to kill"):
            lab.runs.kill(id)


def _dying_before_its_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has runs supervised by a process that is killed once the command has written, before the launcher hears of it."""
    program = folder / "shim.py"
    paths = [str(Path(perpetual.__file__).parents[1]), str(Path(rundir.__file__).parents[1])]
    program.write_text(
        f"import os, sys, time\nsys.path[:0] = {paths}\n"
        "from perpetual_supervisor import shim, supervisor\n"
        "def answer(line, null):\n"
        "    while not os.path.getsize('stdout.log'):\n        time.sleep(0.01)\n"
        "    os.kill(os.getpid(), 9)\n"
        "supervisor.answer = answer\nshim.main(sys.argv)\n"
    )
    monkeypatch.setattr(rundir, "SHIM", program)


@pytest.mark.parametrize(
    "script",
    [
        "sleep 600 & echo $!; exit 0",
        "sleep 600 & echo $!; wait",
        'rm "$PERPETUAL_RUN_DIR/started.json"; setsid sleep 600 & echo $!; exit 0',
        'echo x > "$PERPETUAL_RUN_DIR/started.json"; setsid sleep 600 & echo $!; exit 0',
    ],
    ids=["the command has ended", "it goes on", "its record is gone", "its record is spoilt"],
)
def test_a_supervisor_that_dies_before_its_answer_leaves_nothing(
    project: Path, tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its command has started is found by its marks like that of a lost run, is ended, and is named."""
    with opened(project) as lab:
        _dying_before_its_answer(tmp_path, monkeypatch)
        with pytest.raises(LaunchError, match="died at its start"):
            lab.runs.launch(approved(lab, script))
        monkeypatch.undo()
        (run,) = lab.runs.list().items
        pid = (lab.runs.log_dir(run.id) / "stdout.log").read_text().strip()
        assert (run.status, pid in str(run.reason)) == ("failed", True)
        left = platform.identity_of(int(pid))
        assert left is None or not platform.is_alive(left)
        assert not (lab.runs.log_dir(run.id) / "launch.json").exists()


def test_no_retry_by_hand_starts_beside_what_is_left(project: Path) -> None:
    with opened(project) as lab:
        id = _launched(lab, f"{AFTER_THE_LAUNCH}; sleep 600 & kill -9 $PPID; exit 0")
        Path("go").touch()
        until(lambda: lab.runs.look(id)[0] == "lost", "its supervisor lives")
        lab.scan()
        with pytest.raises(Conflict, match="left processes") as caught:
            lab.runs.retry(id)
        assert caught.value.hint == f"perpetual kill {id}"
        lab.runs.kill(id, grace_s=0.0)
        Path("go").unlink()
        assert lab.runs.retry(id).attempt == 2


def _abroad(lab: Lab, id: str) -> None:
    """As if another machine, which shares the folder, had started it."""
    path = lab.runs.log_dir(id) / "started.json"
    record = json.loads(path.read_text()) | {"host_id": "of another machine", "host_name": "node7"}
    for key in ("supervisor", "child"):
        record[key]["boot_id"] = "of another machine"
    path.write_text(json.dumps(record))
    with lab.context.store.transaction() as tx:
        run = lab.context.need(RUN, id)
        assert run.body["native_id"] is not None
        native = f"of another machine/{run.body['native_id'].split('/', 1)[1]}"
        RunRecords(lab.context).change(tx, run, {"native_id": native})


def test_a_run_of_another_machine_is_not_lost(project: Path) -> None:
    with opened(project, auto_retry="lost") as lab:
        id = _launched(lab)
        _kill_both(lab, id)
        kept = (lab.runs.log_dir(id) / "started.json").read_text()
        _abroad(lab, id)
        found = lab.scan()
        assert (found["changes"], found["elsewhere"]) == ([], [{"run_id": id, "where": "runs on node7"}])
        assert lab.runs.look(id) == ("running", "runs on node7")
        with pytest.raises(Conflict, match="runs on node7"):
            lab.runs.kill(id)
        assert [run.status for run in lab.runs.list().items] == ["running"]
        started_at = json.loads(kept)["started_at"]
        _forge(lab, id, started_at=started_at, duration_s=1.0)  # there its supervisor ends, and its record comes
        assert lab.wait([id], timeout_s=LONG_S) == {id: "done"}


def test_the_variable_of_a_played_reboot_loses_no_live_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(project, auto_retry="lost") as lab:
        id = _launched(lab)
        monkeypatch.setenv(platform.BOOT_ID_VARIABLE, "left in an environment")
        assert lab.scan()["changes"] == []
        assert lab.runs.kill(id, grace_s=0.0).status == "killed"


def test_a_live_run_is_asked_through_the_scheduler_that_started_it(project: Path) -> None:
    """Whichever one is configured since; and where that is gone it stays as it is."""
    with opened(project) as lab:
        id = _launched(lab)
        with lab.context.store.transaction() as tx:
            RunRecords(lab.context).change(tx, lab.context.need(RUN, id), {"scheduler": "gone"})
        other = _launched(lab, "exit 0")
        assert lab.wait([other], timeout_s=LONG_S) == {other: "done"}
        (problem,) = lab.scan()["problems"]
        assert (problem["run_id"], problem["code"]) == (id, "plugin_missing")
        assert "gone" in problem["message"]
        assert lab.runs.get(id).status == "running"
        with lab.context.store.transaction() as tx:
            RunRecords(lab.context).change(tx, lab.context.need(RUN, id), {"scheduler": "local"})


@pytest.mark.parametrize("error", [OverflowError, RecursionError, KeyError, UnicodeDecodeError, PermissionError])
def test_a_folder_that_raises_anything_holds_up_no_other(
    project: Path, monkeypatch: pytest.MonkeyPatch, error: Callable[..., Exception]
) -> None:
    with opened(project) as lab:
        broken = _launched(lab)
        scheduler = lab.part("scheduler")
        poll = scheduler.poll

        def poll_one(native_id: str | None, log_dir: Path) -> object:
            if log_dir.name == broken:
                raise error("utf-8", b"", 0, 1, "odd") if error is UnicodeDecodeError else error("odd")
            return poll(native_id, log_dir)

        with monkeypatch.context() as odd:
            odd.setattr(scheduler, "poll", poll_one)
            other = _launched(lab, "exit 0")
            assert lab.wait([other], timeout_s=LONG_S) == {other: "done"}
            assert [item["run_id"] for item in lab.scan()["problems"]] == [broken]


def test_a_supervisor_that_is_killed_is_no_way_to_write_an_end(project: Path) -> None:
    """While the command lives nothing that it has written is its end."""
    with opened(project) as lab:
        id = _launched(lab)
        says(lab, id, "up")
        supervisor = supervisor_of(lab, lab.runs.get(id))
        assert platform.signal_process(supervisor, signal.SIGKILL)
        assert platform.wait_gone(supervisor, LONG_S)
        _forge(lab, id)
        assert lab.runs.look(id)[0] == "running"
        assert lab.runs.kill(id, grace_s=0.0).status in ("lost", "done")


def test_a_run_that_kills_its_supervisor_has_no_say_in_its_end(project: Path, tmp_path: Path) -> None:
    """It knows all that is in its folder and its environment, and writes the record that its supervisor would write."""
    forger = tmp_path / "forger.py"
    forger.write_text(
        "import json, os, time\n"
        "while not os.path.exists('go'):\n    time.sleep(0.02)\n"
        "folder = os.environ['PERPETUAL_RUN_DIR']\n"
        "started = json.load(open(f'{folder}/started.json'))\n"
        f"record = {_END!r} | {{key: started[key] for key in ('nonce', 'spec_hash', 'started_at')}}\n"
        "found = {name: open(f'{folder}/{name}').read() for name in os.listdir(folder) if name.endswith('.json')}\n"
        "record['end_key'] = next((json.loads(text)['end_key'] for text in found.values() if 'end_key' in text),\n"
        "                         started['end_hash'])\n"
        "print('score: 5', flush=True)\n"
        "os.kill(os.getppid(), 9)\n"
        "json.dump(record | {'duration_s': 0.01}, open(f'{folder}/exit.json', 'w'))\n"
    )
    with opened(project) as lab:
        lab.hypotheses.add("it matters", metric="score", direction="max", mde=1.0, baseline=0.0)
        design = {"hypothesis_id": "h1", "noise": 0.5, "replicates": 1}
        id = _launched(lab, f"exec {sys.executable} {forger}", **design)
        started = rundir.read_started(lab.runs.log_dir(id))
        assert started is not None
        assert started.child is not None
        Path("go").touch()
        for process in (started.child, started.supervisor):  # which was killed first, and may run on for a moment
            assert platform.wait_gone(process, LONG_S)
        found = lab.scan()
        assert [(item["run_id"], item["code"]) for item in found["problems"]] == [(id, "corrupt")]
        assert (lab.runs.get(id).status, lab.evidence.list().items) == ("running", ())
        assert lab.runs.kill(id, grace_s=0.0).status == "lost"
        assert lab.evidence.list().items == ()

"""The queue moves by itself: real runs, real supervisors, no terminal; and kill -9 of what moves it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.testing.projects import trust_project
from perpetual.toolkit import trust_record
from perpetual_dispatch.check import build, build_section
from tests.support import LONG_S, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")

ENDED = {"done", "failed", "killed", "lost"}
SECRET = "ghp_" + "q8Z1x7Wv3Kd5Rt9Yb2Nc4Mh6Jf0Lp1Sg7Ua"


@pytest.fixture(autouse=True)
def moving(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends move the queue, one run at a time, and what moves it leaves at once."""
    monkeypatch.setenv("PERPETUAL_QUEUE_MOVES", "true")
    monkeypatch.setenv("PERPETUAL_QUEUE_LINGER_S", "0")
    with Lab.open(project) as lab:
        lab.config.methodology.set("max_concurrent_runs", "1")
    yield
    with Lab.open(project) as lab:
        lab.queue.set_state("paused")
        for each in lab.runs.live():
            lab.runs.kill(each.id, grace_s=0.0)
    until(lambda: not dispatchers(project), "what moves the queue is still there")


def dispatchers(project: Path) -> list[int]:
    """Returns the processes that move this project's queue."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                b"perpetual_dispatch" in (folder / "cmdline").read_bytes()
                and project in (folder / "cwd").resolve().parents
            ):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def queued(project: Path, command: str, count: int) -> list[str]:
    """Starts one replicate of a command and queues the others; returns their ids."""
    with Lab.open(project) as lab:
        experiment = lab.experiments.propose(command=command, replicates=count, wall_s=LONG_S)
        lab.experiments.approve(experiment.id)
        return [each.id for each in lab.runs.launch(experiment.id, every=True)]


def statuses(project: Path, ids: list[str]) -> list[str]:
    """Returns what the record says of the runs."""
    with Lab.open(project) as lab:
        return [lab.runs.get(id).status for id in ids]


def all_end(project: Path, ids: list[str]) -> None:
    """Waits until the record has the end of each; nothing scans meanwhile."""
    until(lambda: set(statuses(project, ids)) <= ENDED, "the queue stands still")


def test_what_waits_starts_by_itself_and_is_recorded(project: Path) -> None:
    ids = queued(project, "sh -c 'echo $PERPETUAL_RUN >> ran'", 4)
    all_end(project, ids)
    assert (project / "ran").read_text("utf-8").split() == ids
    with Lab.open(project) as lab:
        began = [e for e in lab.events() if e.kind == "run_status" and e.payload["to"] == "running"]
        assert [e.actor for e in began[1:]] == ["queue"] * 3
    assert not [*(project / ".perpetual" / "environments").iterdir()]


def test_each_gets_the_environment_in_which_it_was_queued(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shows = "sh -c 'echo $COLOUR; while ! test -e go; do sleep 0.02; done'"
    monkeypatch.setenv("COLOUR", "red")
    first = queued(project, shows, 1)
    monkeypatch.setenv("COLOUR", "green\udcff")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    others = [*queued(project, shows, 1), *queued(project, "env", 1)]
    folder = project / ".perpetual" / "environments"
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o600"}
    monkeypatch.setenv("COLOUR", "blue")
    (project / "go").touch()
    all_end(project, [*first, *others])
    out = [(project / ".perpetual" / "runs" / id / "stdout.log").read_bytes() for id in [*first, *others]]
    assert out[:2] == [b"red\n", b"green\xff\n"]
    assert b"PYTHONDONTWRITEBYTECODE=1\n" in out[2]
    assert b"\nPERPETUAL_RUN=" + others[1].encode() in b"\n" + out[2]


def test_secrets_are_kept_by_name_and_read_at_the_start(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    first, second = queued(project, "sh -c 'echo $HF_TOKEN'", 2)
    for path in [*(project / ".perpetual").rglob("*")]:
        assert path.is_dir() or "runs" in path.parts or SECRET.encode() not in path.read_bytes(), path
    monkeypatch.delenv("HF_TOKEN")
    until(lambda: statuses(project, [first]) == ["done"])
    until(lambda: not dispatchers(project))
    with Lab.open(project) as lab:
        lab.scan()
        held = lab.runs.get(second)
        assert (held.status, "HF_TOKEN" in str(held.reason), SECRET in str(held.reason)) == ("queued", True, False)
        (project / "token").write_text(SECRET + "\n", "utf-8")
        monkeypatch.setenv("PERPETUAL_RUN_SECRETS", f"HF_TOKEN=file:{project / 'token'}")
    with Lab.open(project) as lab:
        assert lab.wait([second], timeout_s=LONG_S) == {second: "done"}
    log = project / ".perpetual" / "runs" / second / "stdout.log"
    assert log.read_text("utf-8") == SECRET + "\n"


def test_what_moves_the_queue_has_nothing_of_the_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    monkeypatch.setenv("COLOUR", "red")
    monkeypatch.setenv("PERPETUAL_QUEUE_LINGER_S", "30")
    queued(project, "sh -c 'sleep 0.3'", 1)
    queued(project, "sh -c 'sleep 60'", 3)
    until(lambda: dispatchers(project) and Path(f"/proc/{dispatchers(project)[0]}/environ").read_bytes())
    seen = Path(f"/proc/{dispatchers(project)[0]}/environ").read_bytes()
    assert SECRET.encode() not in seen
    assert b"COLOUR" not in seen
    assert b"PERPETUAL_RUN=" not in seen


def test_a_planted_environment_counts_for_nothing(project: Path) -> None:
    first, second = queued(project, "sh -c 'while ! test -e go; do sleep 0.02; done; echo $COLOUR'", 2)
    (path,) = (project / ".perpetual" / "environments").iterdir()
    document = json.loads(path.read_bytes())
    kept = json.loads(document["kept"])
    kept["values"] |= {"COLOUR": "planted", "LD_PRELOAD": "/nowhere.so"}
    path.write_text(json.dumps({**document, "kept": json.dumps(kept)}), "utf-8")
    (project / "go").touch()
    until(lambda: statuses(project, [first]) == ["done"])
    until(lambda: not dispatchers(project))
    with Lab.open(project) as lab:
        lab.scan()
        assert lab.runs.get(second).status == "queued"
        assert f"perpetual retry {second}" in str(lab.runs.get(second).reason)
        assert lab.runs.kill(second).status == "killed"
        made = lab.runs.retry(second)
        assert lab.wait([made.id], timeout_s=LONG_S) == {made.id: "done"}


@pytest.mark.parametrize("off", ["false", "paused"])
def test_it_can_be_switched_off(project: Path, monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    if off == "false":
        monkeypatch.setenv("PERPETUAL_QUEUE_MOVES", "false")
    first, second = queued(project, "sh -c 'while ! test -e go; do sleep 0.02; done'", 2)
    with Lab.open(project) as lab:
        assert lab.queue.moves() is (off == "paused")
        if off == "paused":
            lab.queue.set_state("paused")
            assert not lab.queue.moves()
    (project / "go").touch()
    folder = project / ".perpetual" / "runs" / first
    until((folder / "exit.json").exists)
    if off == "paused":
        until(lambda: statuses(project, [first]) == ["done"])
    time.sleep(0.3)
    assert statuses(project, [second]) == ["queued"]
    with Lab.open(project) as lab:
        page = {each.id: each.status for each in lab.runs.list().items}
        assert page[first] == "done", "an ended run is never shown as running"


def test_a_dead_run_is_not_shown_as_running(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (only,) = queued(project, "sleep 600", 1)
    assert run(["status"]) == 0
    assert f"{only}    running" in capsys.readouterr().out
    started = json.loads((project / ".perpetual" / "runs" / only / "started.json").read_bytes())
    for who in ("supervisor", "child"):
        os.kill(started[who]["pid"], signal.SIGKILL)
    until(lambda: not Path(f"/proc/{started['supervisor']['pid']}").exists())
    for command in (["status"], ["runs"]):
        assert run(command) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "lost" in shown
        assert "running" not in shown
    assert statuses(project, [only]) == ["running"], "showing records nothing"


KILLED_AT = ["launch:launching", "launch:prepared", "launch:spec", "launch:forked", "launch:started", "launch:noted",
             "scan:ended", "scan:measured", "scan:evidence", "scan:settled"]  # fmt: skip
QUICK = ("launch:forked", "scan:evidence")


@pytest.mark.parametrize("place", [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in KILLED_AT])
def test_killed_at_any_step_it_loses_nothing(project: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """The next one goes on; nothing starts twice."""
    monkeypatch.setenv("PERPETUAL_QUEUE_MOVES", "false")
    ids = queued(project, "sh -c 'echo $PERPETUAL_RUN >> ran'", 3)
    until(lambda: (project / ".perpetual" / "runs" / ids[0] / "exit.json").exists())
    monkeypatch.setenv("PERPETUAL_QUEUE_MOVES", "true")
    folder = project / ".perpetual" / "dispatch"
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-P", "-m", "perpetual_dispatch"]
    died = subprocess.run(command, cwd=folder, env={**os.environ, "PERPETUAL_DIE_AT": place}, check=False)
    assert died.returncode == -signal.SIGKILL
    assert subprocess.run(command, cwd=folder, check=False).returncode == 0
    all_end(project, ids)
    assert statuses(project, ids) == ["done"] * 3
    assert sorted((project / "ran").read_text("utf-8").split()) == ids
    with Lab.open(project) as lab:
        assert lab.storage.verify() == []


def test_a_killed_and_a_failed_one_are_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queued(project, "sleep 600", 1)
    folder = project / ".perpetual" / "dispatch"
    (folder / "wake-1-1").touch()
    assert "was ended before it was done" in _found(project)
    (project / ".perpetual" / "methodology.yaml").write_text("max_concurrent_runs: many\n", "utf-8")
    done = subprocess.run([sys.executable, "-P", "-m", "perpetual_dispatch"], cwd=folder, check=False)
    assert done.returncode == 1
    (project / ".perpetual" / "methodology.yaml").write_text("max_concurrent_runs: 1\n", "utf-8")
    assert "has failed: " in _found(project)
    assert run(["status"]) == 0
    assert "perpetual doctor" in capsys.readouterr().out
    assert subprocess.run([sys.executable, "-P", "-m", "perpetual_dispatch"], cwd=folder, check=False).returncode == 0
    assert "a run that ends starts what waits" in _found(project)


def _found(project: Path) -> str:
    with Lab.open(project) as lab:
        return build({}).examine(lab).detail


def test_ends_at_once_start_one_process_and_nothing_twice(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.config.methodology.set("max_concurrent_runs", "6")
    ids = queued(project, "sh -c 'while ! test -e go; do sleep 0.02; done; echo $PERPETUAL_RUN >> ran'", 12)
    (project / "go").touch()
    most = 0

    def is_over() -> bool:
        nonlocal most
        most = max(most, len(dispatchers(project)))
        return len((project / "ran").read_text("utf-8").split()) == len(ids) if (project / "ran").exists() else False

    until(is_over, "the queue stands still")
    all_end(project, ids)
    assert sorted((project / "ran").read_text("utf-8").split()) == sorted(ids)
    assert most <= 2, "one holds the lock; another may be about to leave"
    assert statuses(project, ids) == ["done"] * len(ids)


def test_a_held_project_starts_nothing(project: Path) -> None:
    first, second = queued(project, "sh -c 'while ! test -e go; do sleep 0.02; done'", 2)
    trust_record.remove(str(project))
    (project / "go").touch()
    until(lambda: statuses(project, [first]) == ["done"])
    until(lambda: not dispatchers(project))
    assert statuses(project, [second]) == ["queued"]
    assert not (project / ".perpetual" / "dispatch" / "failed.json").exists()
    trust_project(project)


def test_the_desktop_hears_once_that_an_experiment_has_ended(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the desktop's program, which needs a display: one word, in ids and counts."""
    programs = project.parent / "programs"
    programs.mkdir()
    (programs / "notify-send").write_text(f'#!/bin/sh\nprintf "%s|" "$@" >> {project}/heard\n', "utf-8")
    (programs / "notify-send").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":0")
    ids = queued(project, "true", 3)
    all_end(project, ids)
    until((project / "heard").exists)
    heard = (project / "heard").read_text("utf-8")
    assert heard.count("has ended: 3 done") == 1
    assert "\x1b" not in heard
    monkeypatch.delenv("DISPLAY")
    (project / "heard").unlink()
    until(lambda: not dispatchers(project))
    all_end(project, queued(project, "false", 1))
    until(lambda: not dispatchers(project))
    assert not (project / "heard").exists()


def test_the_status_names_runs_that_wait_for_a_secret(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERPETUAL_QUEUE_MOVES", "false")
    assert run(["queue", "pause"]) == 0
    monkeypatch.setenv("LOOK_API_TOKEN", SECRET)
    assert run(["run", "true", "--replicates", "2"]) == 0
    monkeypatch.delenv("LOOK_API_TOKEN")
    assert run(["queue", "resume"]) == 0
    with Lab.open(project) as lab:
        assert build_section({}).show(lab) is None  # that the queue does not move is what was asked for
        lab.scan()
    monkeypatch.setenv("PERPETUAL_QUEUE_MOVES", "true")
    with Lab.open(project) as lab:
        section = build_section({}).show(lab)
        assert section is not None
        assert section.lines == ["r1, r2: needs LOOK_API_TOKEN, which is kept by name only (perpetual scan where it is "
                                 "exported, or set run_secrets)"]  # fmt: skip
        assert section.data == {"lacking": ["r1", "r2"]}
        lab.runs.kill("r1", grace_s=0.0)
        lab.runs.kill("r2", grace_s=0.0)
        assert build_section({}).show(lab) is None

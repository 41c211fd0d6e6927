"""Row 15, between projects: two that share a machine never share a GPU by mistake, whoever is killed and when."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Finding
from perpetual.cli.app import run as perpetual
from perpetual.lab.kinds import RUN
from perpetual.lab.ledger.runs import RunRecords
from perpetual.records import Run
from perpetual.slots.placement import PlacementProject
from perpetual.toolkit.lock import FileLock, open_locked
from perpetual_devkit.server_check import ServerCheck
from perpetual_gpus.claims import Claim, deciding, home_of, living
from perpetual_supervisor import rundir
from tests.faults.run_harness import dead_process, die, end_all, supervisor_of
from tests.faults.supervised import Bench
from tests.fixtures.gpu_machine import (
    NEEDS_THE_STUB,
    GpuMachine,
    driver,
    gpu_lab,
    gpus,
    launch,
    machine,
    train,
)
from tests.support import until

__all__ = ["driver", "gpu_lab", "machine"]
pytestmark = NEEDS_THE_STUB
GIB = 2**30
SLEEP = "sleep 600"
LONG_S = 60.0

# A machine that is slow is no driver that hangs.
_LAUNCH = """
import sys
from perpetual import Lab
from perpetual_nvml.devices import NvmlBackend, read_devices
NvmlBackend.read = lambda self: read_devices(60.0)
with Lab.open(sys.argv[1]) as lab:
    lab.runs.launch(sys.argv[2])
"""


@pytest.fixture
def other_lab(tmp_path: Path, gpu_lab: Lab) -> Iterator[Lab]:
    """A second project of the same user; what it has started has ended when the test is over."""
    Lab.init(tmp_path / "other", name="other").close()
    with Lab.open(tmp_path / "other") as lab:
        yield lab
        end_all(lab)


def approved(lab: Lab, **given: Any) -> str:
    made = lab.experiments.propose(command=SLEEP, title=os.urandom(4).hex(), wall_s=600.0, gpus=1, **given)
    return lab.experiments.approve(made.id).id


def launched(lab: Lab, experiment_id: str, **environment: str) -> int:
    """The status of a process that launches, and may be told to die over it."""
    env = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _LAUNCH, str(lab.root), experiment_id]
    return subprocess.run(command, cwd=lab.root, env=env, timeout=120).returncode


def seen(lab: Lab, run_id: str = "r1") -> Run:
    """The run after a look."""
    lab.scan()
    return lab.runs.get(run_id)


def comes_to_run(lab: Lab, run_id: str = "r1") -> None:
    until(lambda: seen(lab, run_id).status == "running")


def held_by(lab: Lab, run_id: str = "r1") -> str:
    return f"needs 1 GPU, 0 of 1 are free: GPU 0 is held by {run_id} of {lab.root}"


# --- one device ------------------------------------------------------------------------------------------------------


def test_two_projects_start_at_once(machine: GpuMachine, gpu_lab: Lab, other_lab: Lab) -> None:
    """Neither program holds any memory yet: what the driver says would let both in."""
    machine.becomes(gpus(1))
    labs = gpu_lab, other_lab
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(launched, labs, map(approved, labs))] == [0, 0]
    by_status = {lab.runs.get("r1").status: lab for lab in labs}
    assert sorted(by_status) == ["queued", "running"]
    winner, loser = by_status["running"], by_status["queued"]
    assert seen(loser).reason == held_by(winner)
    winner.runs.kill("r1", grace_s=0.0)
    comes_to_run(loser)
    assert launch(winner, SLEEP, gpus=1).reason == held_by(loser)


@pytest.mark.slow
@pytest.mark.parametrize(("memory_gib", "most"), [(None, 2), (30, 4)], ids=["alone", "shared"])
def test_three_projects_race_for_the_last_devices(
    machine: GpuMachine, gpu_lab: Lab, other_lab: Lab, tmp_path: Path, memory_gib: int | None, most: int
) -> None:
    """No device is given twice, no memory promised twice, and none is wasted."""
    machine.becomes(gpus(2))
    Lab.init(tmp_path / "third", name="third").close()
    with Lab.open(tmp_path / "third") as third, ExitStack() as stack:
        stack.callback(end_all, third)
        labs = [gpu_lab, other_lab, third]
        for lab in labs:
            lab.settings.set_methodology("max_concurrent_runs", "16")
        ids = [approved(lab, gpu_memory_bytes=memory_gib and memory_gib * GIB) for lab in labs * 2]
        with ThreadPoolExecutor(6) as pool:
            assert [*pool.map(launched, labs * 2, ids)] == [0] * 6
        for expected in (most, min(most, 6 - most)):  # and once more when those have ended
            for lab in labs:
                lab.scan()
            running = [(lab, run) for lab in labs for run in lab.runs.list(status="running").items]
            assert len(running) == expected
            assert max(Counter(uuid for _, run in running for uuid in run.gpus).values()) <= most // 2
            for lab, run in running:
                lab.runs.kill(run.id, grace_s=0.0)
            until(lambda: living() == [])


DEATHS = [
    ("launch:reserved", False),
    ("launch:launching", False),
    ("launch:prepared", False),
    ("launch:spec", False),
    ("launch:forked", True),
    ("launch:started", True),
    ("launch:noted", True),
]


@pytest.mark.parametrize(
    ("step", "starts"),
    [pytest.param(step, starts, marks=() if step == "launch:forked" else pytest.mark.slow) for step, starts in DEATHS],
)
def test_a_dead_launcher_holds_its_device_only_with_a_supervisor(
    machine: GpuMachine, gpu_lab: Lab, other_lab: Lab, step: str, starts: bool
) -> None:
    """From the moment that its supervisor exists the device is its run's; before, it is free."""
    machine.becomes(gpus(1))
    assert launched(gpu_lab, approved(gpu_lab), PERPETUAL_DIE_AT=step) == -signal.SIGKILL
    theirs = launch(other_lab, SLEEP, gpus=1)
    if starts:
        assert (theirs.status, theirs.reason) == ("queued", held_by(gpu_lab))
        comes_to_run(gpu_lab)
        assert gpu_lab.runs.get("r1").gpus == ("GPU-0",)
        assert seen(other_lab).reason == held_by(gpu_lab)
        gpu_lab.runs.kill("r1", grace_s=0.0)
        comes_to_run(other_lab)
    else:
        assert (theirs.status, theirs.gpus) == ("running", ("GPU-0",))
        until(lambda: seen(gpu_lab).reason == held_by(other_lab))
        other_lab.runs.kill("r1", grace_s=0.0)
        comes_to_run(gpu_lab)
    assert len(living()) == 1


@pytest.mark.slow
def test_a_claim_lasts_as_long_as_the_command_of_a_dead_supervisor(
    machine: GpuMachine, gpu_lab: Lab, other_lab: Lab
) -> None:
    """The command goes on, and so does the claim; it is over when the command is."""
    machine.becomes(gpus(1))
    run = launch(gpu_lab, SLEEP, gpus=1)
    die(supervisor_of(gpu_lab, run))
    theirs = launch(other_lab, SLEEP, gpus=1)
    assert theirs.reason == held_by(gpu_lab)
    gpu_lab.runs.kill(run.id, grace_s=0.0)
    comes_to_run(other_lab)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["_fork", "_record_start", "_release"])
def test_a_supervisor_that_dies_before_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """What waits at the gate leaves, and lets go of the device."""
    (tmp_path / "bench").mkdir()
    bench = Bench(tmp_path / "bench")
    patch = f"f = supervisor.Run.{method}\nsupervisor.Run.{method} = lambda *a: (f(*a), die())"
    if method == "_release":  # before it is done
        patch = "supervisor.Run._release = lambda *a: die()"
    monkeypatch.setattr(rundir, "SHIM", bench.supervise_with(patch))
    held = open_locked(tmp_path / "claim")
    assert held is not None
    with pytest.raises(rundir.LaunchFailed, match="the supervisor died"):
        rundir.launch(tmp_path / "run", argv=["sleep", "600"], cwd="/", env={"PATH": os.environ["PATH"]}, wall_s=LONG_S,
                      grace_s=0.0, held=held)  # fmt: skip
    os.close(held)
    guard = FileLock(tmp_path / "claim")
    assert guard.acquire(timeout_s=LONG_S)
    guard.release()
    bench.close()


@pytest.mark.slow
def test_a_supervisor_that_turns_up_late_keeps_the_device_for_its_run(machine: GpuMachine, gpu_lab: Lab) -> None:
    """Its launcher died, the run went back to the queue, and it has not started the command yet."""
    machine.becomes(gpus(2))
    gpu_lab.queue.set_state("paused")
    run = launch(gpu_lab, SLEEP, gpus=1)
    ctx = gpu_lab.context
    with ctx.store.transaction() as tx:
        RunRecords(gpu_lab.context).change(tx, ctx.need(RUN, run.id), {"launcher": [*dead_process()]})
    run_dir = gpu_lab.runs.log_dir(run.id)
    with deciding() as board:
        held = board.make(
            Claim(
                str(gpu_lab.root),
                home_of(PlacementProject(gpu_lab.root, gpu_lab.config.project_id)),
                run.id,
                str(run_dir),
                {"GPU-1": None},
                None,
            )
        )
    assert held is not None
    gpu_lab.queue.set_state("running")
    assert seen(gpu_lab).reason == "an earlier launch of it is still under way"
    started = rundir.launch(run_dir, argv=["sleep", "600"], cwd="/", env={"PATH": os.environ["PATH"]}, wall_s=LONG_S,
                            grace_s=0.0, held=held)  # fmt: skip
    os.close(held)
    found = seen(gpu_lab)
    assert started.child is not None
    assert (found.status, found.gpus, found.pid) == ("running", ("GPU-1",), started.child.pid)
    assert launch(gpu_lab, SLEEP, gpus=1).gpus == ("GPU-0",)


# --- shared ----------------------------------------------------------------------------------------------------------


def test_projects_that_declare_their_memory_share(machine: GpuMachine, gpu_lab: Lab, other_lab: Lab) -> None:
    """What the other has declared is not free, whether or not it is taken yet, and its processes are no strangers."""
    machine.becomes(gpus(1))
    assert launch(gpu_lab, train(1000), gpus=1, gpu_memory_bytes=50 * GIB).status == "running"
    machine.claimed(1)
    much = launch(other_lab, SLEEP, gpus=1, gpu_memory_bytes=31 * GIB)
    told = f"GPU 0 has 30 GiB free (r1 of {gpu_lab.root} holds 50 GiB)"
    assert much.reason == f"needs 31 GiB on one GPU; {told}"
    little = launch(other_lab, SLEEP, gpus=1, gpu_memory_bytes=20 * GIB)
    assert (little.status, little.gpus) == ("running", ("GPU-0",))
    both = f"r1 holds 50 GiB, {little.id} of {other_lab.root} holds 20 GiB"
    more = launch(gpu_lab, SLEEP, gpus=1, gpu_memory_bytes=11 * GIB)
    assert more.reason == f"needs 11 GiB on one GPU; GPU 0 has 10 GiB free ({both})"
    alone = launch(other_lab, SLEEP, gpus=1)
    assert f"GPU 0 is held by {little.id}, r1 of {gpu_lab.root}" in (alone.reason or "")


@pytest.mark.slow
def test_gpu_status_names_the_other_project(
    machine: GpuMachine, gpu_lab: Lab, other_lab: Lab, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    machine.becomes(gpus(2, more="mig 1 20480 MIG-a\nmig 2 10240 MIG-b\n"))
    launch(gpu_lab, train(1000), gpus=1, gpu_memory_bytes=30 * GIB)
    launch(gpu_lab, SLEEP, use=(1,))
    machine.claimed(1)
    mine = [{"project": str(gpu_lab.root), "run_id": run_id, "memory_bytes": memory_bytes}
            for run_id, memory_bytes in (("r1", 30 * GIB), ("r2", None))]  # fmt: skip
    for place in (other_lab.root, tmp_path):  # in the other project, and outside of any
        monkeypatch.chdir(place)
        assert perpetual(["gpu-status", "--json"]) == 0
        whole, cut = json.loads(capsys.readouterr().out)["gpus"]
        assert (whole["state"], whole["run_ids"], whole["claims"]) == ("leased", [], mine[:1])
        (process,) = whole["processes"]
        assert (process["owner"], process["run_id"], process["claim"]) == ("foreign", None, f"r1 of {gpu_lab.root}")
        assert (cut["claims"], cut["mig"][0]["claims"], cut["mig"][1]["claims"]) == (mine[1:], mine[1:], [])
        assert perpetual(["gpu-status"]) == 0
        assert capsys.readouterr().out.count(f"leased by r1 of {gpu_lab.root.name}") == 1
    monkeypatch.chdir(gpu_lab.root)
    assert perpetual(["gpu-status", "--json"]) == 0
    whole, _ = json.loads(capsys.readouterr().out)["gpus"]
    assert (whole["run_ids"], whole["claims"], whole["processes"][0]["claim"]) == (["r1"], [], None)


# --- where there is nothing to claim, or no place for it -------------------------------------------------------------


@pytest.mark.slow
def test_no_claim_file_is_made_without_gpus(machine: GpuMachine, gpu_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert launch(gpu_lab, SLEEP).status == "running"
    machine.becomes(gpus(1))
    gpu_lab.scan()
    gpu_lab.inventory().devices()
    monkeypatch.setattr(gpu_lab.part("scheduler"), "places_gpus", True, raising=False)
    assert launch(gpu_lab, SLEEP, gpus=1).status == "running"
    assert not (Path.home() / ".local").exists()


@contextmanager
def spoilt_home() -> Iterator[Path]:
    place = Path.home() / ".local"
    place.write_text("no folder")
    try:
        yield place
    finally:
        place.unlink()


def test_a_home_that_cannot_be_written_holds_nothing_up(
    machine: GpuMachine, gpu_lab: Lab, other_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.becomes(gpus(1))
    # Starting a server says nothing of GPUs.
    monkeypatch.setattr(ServerCheck, "examine", lambda *_: Finding(None, "not asked"))

    def told() -> str:
        (found,) = [check["detail"] for check in gpu_lab.doctor() if check["check"] == "gpus"]
        return str(found)

    assert told() == "1 healthy GPUs, driver 570.86.15"
    with spoilt_home() as place:
        run = launch(gpu_lab, SLEEP, gpus=1)
        assert (run.status, run.gpus) == ("running", ("GPU-0",))
        (note,) = run.annotations
        assert (note["kind"], note["source"]) == ("gpu", "claims")
        assert str(note["text"]).startswith("other projects on this machine do not see what it has leased: [Errno ")
        assert f"do not see our leases: {place} is no folder" in told()
        assert launch(other_lab, SLEEP, gpus=1).status == "running"  # as if nobody had claimed anything


# --- nobody waits for ever -------------------------------------------------------------------------------------------


def test_a_small_run_does_not_overtake_a_large_one_that_it_would_hold_up(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(2))
    assert launch(gpu_lab, SLEEP, gpus=1, wall_s=300.0).status == "running"
    large = launch(gpu_lab, SLEEP, gpus=2)
    assert large.reason == "needs 2 GPUs, 1 of 2 are free: GPU 0 is held by r1"
    long = launch(gpu_lab, SLEEP, gpus=1, wall_s=301.0)
    assert long.reason == "needs 1 GPU, 0 of 2 are free: GPU 0 is held by r1, GPU 1 is kept free for e2"
    planned = gpu_lab.experiments.propose(command=SLEEP, wall_s=600.0, gpus=1)
    gpu_lab.experiments.approve(planned.id)
    assert gpu_lab.runs.plan(planned.id)["waits_for"] == long.reason
    short = launch(gpu_lab, SLEEP, gpus=1, wall_s=10.0)
    assert (short.status, short.gpus) == ("running", ("GPU-1",))
    for run in (short, gpu_lab.runs.get("r1")):
        gpu_lab.runs.kill(run.id, grace_s=0.0)
    changed = {change["run_id"] for change in gpu_lab.scan()["changes"] if change["to"] == "running"}
    assert changed == {large.id}
    gpu_lab.runs.kill(large.id, grace_s=0.0)
    assert seen(gpu_lab, long.id).status == "running"


@pytest.mark.slow
def test_an_earlier_run_is_not_held_back(machine: GpuMachine, gpu_lab: Lab) -> None:
    """Devices are kept from those behind in the queue; a run of a higher priority is none of them."""
    machine.becomes(gpus(2))
    launch(gpu_lab, SLEEP, gpus=1)
    launch(gpu_lab, SLEEP, gpus=2)
    urgent = launch(gpu_lab, SLEEP, gpus=1, priority=5)
    assert (urgent.status, urgent.gpus) == ("running", ("GPU-1",))
    named = launch(gpu_lab, SLEEP, use=(1,), priority=9)
    assert named.reason == f"needs 1 GPU, 0 of 1 are free: GPU 1 is held by {urgent.id}"

"""Row 15: GPUs that vanish, fail, hang, are not there or belong to others; and the last one, wanted by many at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import PerpetualError
from perpetual.records import Run
from perpetual_gpus import placement
from perpetual_nvml.devices import NvmlBackend, read_devices
from tests.fixtures.gpu_machine import (
    HUNG,
    NEEDS_THE_STUB,
    GpuMachine,
    driver,
    gpu_lab,
    gpus,
    launch,
    machine,
    train,
)

__all__ = ["driver", "gpu_lab", "machine"]
pytestmark = NEEDS_THE_STUB

GIB = 2**30
SLEEP = "sleep 600"


def propose(lab: Lab, count: int, **given: Any) -> list[str]:
    """So many approved experiments."""
    ids = [lab.experiments.propose(command=SLEEP, config={"n": n}, wall_s=600.0, **given).id for n in range(count)]
    return [experiment.id for experiment in lab.experiments.approve_all(ids)]


def texts(run: Run) -> list[str]:
    return [str(item["text"]) for item in run.annotations]


# --- a device under a run --------------------------------------------------------------------------------------------


OTHER_LOSSES = [
    (gpus(2).replace("uuid GPU-0\n", "uuid GPU-0\nerror 999\n"), "is gone: Unknown Error"),
    ("driver 1\ngpu H100\nuuid GPU-1\n", "is gone: the driver does not list it"),
    ("driver 1\n", "is gone: the NVIDIA driver lists no GPU"),
    ("init_error 18\n", "is gone: the loaded NVIDIA driver and its library are of different versions"),
]


@pytest.mark.parametrize(
    ("then", "told"),
    [
        (gpus(2).replace("uuid GPU-0\n", "uuid GPU-0\nerror 15\n"), "is gone: GPU is lost"),
        *(pytest.param(*loss, marks=pytest.mark.slow) for loss in OTHER_LOSSES),
    ],
)
def test_a_device_that_vanishes_under_a_run(
    machine: GpuMachine, gpu_lab: Lab, monkeypatch: pytest.MonkeyPatch, then: str, told: str
) -> None:
    """The run is told of, once, and goes on; the device goes to nobody, and comes back when it is well."""
    monkeypatch.setattr(placement, "EVERY_S", 0.0)
    machine.becomes(gpus(2))
    run, other = (launch(gpu_lab, SLEEP, gpus=1) for _ in range(2))
    assert (run.gpus, other.gpus) == (("GPU-0",), ("GPU-1",))
    machine.becomes(then)
    for _ in range(2):
        gpu_lab.scan()
    (text,) = texts(gpu_lab.runs.get(run.id))
    assert text.startswith(f"GPU 0 (GPU-0), which it leased, {told}")
    assert gpu_lab.runs.get(run.id).status == "running"
    (event,) = [event for event in gpu_lab.events() if (event.kind, event.subject) == ("run_annotated", run.id)]
    assert event.payload["text"] == text
    gpu_lab.runs.kill(run.id, grace_s=0.0)
    machine.becomes(gpus(2))
    assert launch(gpu_lab, SLEEP, gpus=1).gpus == ("GPU-0",)


def test_a_sick_device_is_not_leased(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(2, more="error 15\n"))
    assert launch(gpu_lab, SLEEP, gpus=1).gpus == ("GPU-0",)
    waits = launch(gpu_lab, SLEEP, gpus=1)
    assert waits.reason == "needs 1 GPU, 0 of 2 are free: GPU 0 is held by r1, GPU 1 is sick: GPU is lost"
    named = launch(gpu_lab, SLEEP, use=(1,))
    assert named.reason == "needs 1 GPU, 0 of 1 are free: GPU 1 is sick: GPU is lost"
    machine.becomes(gpus(2))
    assert len(gpu_lab.scan()["changes"]) == 1
    assert gpu_lab.runs.get(waits.id).gpus == ("GPU-1",)


def test_a_killed_program_frees_its_device(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(1))
    run = launch(gpu_lab, train(40_000), gpus=1)
    machine.claimed(1)
    assert gpu_lab.inventory().devices()["gpus"][0]["memory_used_bytes"] == 40_000 * 2**20
    gpu_lab.runs.kill(run.id, grace_s=0.0)
    machine.claimed(0)
    (device,) = gpu_lab.inventory().devices()["gpus"]
    assert (device["state"], device["memory_used_bytes"], device["run_ids"]) == ("free", 0, [])


# --- a driver that is not there --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (None, "not loaded into the kernel"),
        ("driver 570.86.15\n", "lists no GPU"),
        ("init_error 18\ngpu A\n", "of different versions"),
    ],
)
def test_a_gpu_run_is_refused_at_once_without_devices(
    machine: GpuMachine, gpu_lab: Lab, state: str | None, told: str
) -> None:
    if state is not None:
        machine.becomes(state)
    with pytest.raises(PerpetualError, match="e1 needs 1 GPU and this machine has 0: ") as caught:
        launch(gpu_lab, SLEEP, gpus=1)
    assert caught.value.code == "does_not_fit"
    assert told in caught.value.message
    assert gpu_lab.runs.list().items == ()
    assert launch(gpu_lab, "true").status == "running"  # CPU work does not care


@pytest.mark.slow
def test_a_queued_run_outlasts_a_driver_that_went_away(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(1))
    first = launch(gpu_lab, SLEEP, gpus=1)
    second = launch(gpu_lab, SLEEP, gpus=1)
    gpu_lab.runs.kill(first.id, grace_s=0.0)
    machine.becomes("init_error 18\n")
    gpu_lab.scan()
    waits = gpu_lab.runs.get(second.id)
    assert waits.status == "queued"
    assert (waits.reason or "").startswith("needs 1 GPU, and there is none: the loaded NVIDIA driver and its library")
    machine.becomes(gpus(1))
    gpu_lab.scan()
    assert gpu_lab.runs.get(second.id).status == "running"


# --- a driver that hangs ---------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(machine: GpuMachine, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A driver that hangs is given up after a fifth of a second; each question is noted."""
    asked: list[float] = []

    def read(_: NvmlBackend) -> object:
        asked.append(0.2 if machine.state.read_text() == HUNG else 60.0)
        return read_devices(asked[-1])

    monkeypatch.setattr(NvmlBackend, "read", read)
    return asked


def test_a_run_waits_for_a_driver_that_hangs(machine: GpuMachine, gpu_lab: Lab, impatient: list[float]) -> None:
    """It is asked once, and not again by each who looks; another process, or later, finds it well."""
    machine.becomes(HUNG)
    ids = propose(gpu_lab, 3, gpus=1)
    runs = [*(gpu_lab.runs.launch(id)[0] for id in ids[:2]), *gpu_lab.runs.launch(ids[2], gpus=(0,))]
    assert [run.status for run in runs] == ["queued"] * 3
    assert {run.reason for run in runs} == {"the NVIDIA driver did not answer within 0.2 s"}
    before = gpu_lab.status()["seq"]
    gpu_lab.scan()
    gpu_lab.wait([runs[0].id], timeout_s=0.0)
    assert gpu_lab.status()["seq"] == before  # the same reason is not written again and again
    assert len(impatient) == 1
    machine.becomes(gpus(1))
    with Lab.open(gpu_lab.root) as other:
        other.scan()
    assert [gpu_lab.runs.get(run.id).status for run in runs] == ["running", "queued", "queued"]


def test_a_hang_under_a_run_says_nothing_of_its_device(
    machine: GpuMachine, gpu_lab: Lab, impatient: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "EVERY_S", 0.0)
    machine.becomes(gpus(1))
    with Lab.open(gpu_lab.root) as patient:
        backend = patient.part("gpus")
        monkeypatch.setattr(backend, "read", read_devices, raising=False)
        run = launch(patient, SLEEP, gpus=1)
    machine.becomes(HUNG)
    assert gpu_lab.scan()["problems"] == []
    assert gpu_lab.runs.get(run.id).annotations == ()
    assert impatient == [0.2]


@pytest.mark.parametrize(
    "deed", ["loop", "scan", *(pytest.param(deed, marks=pytest.mark.slow) for deed in ("launch", "plan"))]
)
def test_a_hung_driver_is_asked_outside_of_transactions(
    machine: GpuMachine, gpu_lab: Lab, monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    """Else everybody who writes would wait with it."""
    machine.becomes(HUNG)
    gpu_lab.queue.set_state("paused")
    first, second = propose(gpu_lab, 2, gpus=1)
    monkeypatch.setattr(NvmlBackend, "read", lambda _: read_devices(0.2))
    gpu_lab.runs.launch(first)
    gpu_lab.queue.set_state("running")
    wrote: list[str] = []

    def read(_: NvmlBackend) -> object:
        with Lab.open(gpu_lab.root, actor="other") as other:  # would wait for the lock that this very thread holds
            wrote.append(other.hypotheses.add("written meanwhile").id)
        return read_devices(0.2)

    monkeypatch.setattr(NvmlBackend, "read", read)
    with Lab.open(gpu_lab.root) as lab:
        if deed == "loop":
            assert lab.loop.launch().failed == ()
        elif deed == "scan":
            assert lab.scan()["changes"] == []
        elif deed == "launch":
            assert lab.runs.launch(second)[0].status == "queued"
        else:
            assert lab.runs.plan(second)["waits_for"] == "the NVIDIA driver did not answer within 0.2 s"
    assert wrote == ["h1"]
    assert {run.status for run in gpu_lab.runs.list().items} == {"queued"}


@pytest.mark.slow
def test_no_command_is_blocked_by_a_driver_that_hangs(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(HUNG)
    (id,) = propose(gpu_lab, 1, gpus=1)
    for command in (["run", id], ["scan"], ["gpu-status"], ["status"], ["queue"], ["kill", "r1"]):
        began_s = time.monotonic()
        done = perpetual(gpu_lab.root, *command)
        assert done.returncode == 0, done.stderr
        assert time.monotonic() - began_s < 25.0, command  # not even one of the driver's calls
    assert gpu_lab.runs.get("r1").status == "killed"


# --- the last device -------------------------------------------------------------------------------------------------


def perpetual(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perpetual", *command, "--json"], cwd=root, capture_output=True, text=True, timeout=100
    )


def test_two_labs_race_for_the_last_device(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(1))
    first, second = propose(gpu_lab, 2, gpus=1)
    with Lab.open(gpu_lab.root) as other, ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(lab.runs.launch, id) for lab, id in ((gpu_lab, first), (other, second))]
        runs = [answer.result(timeout=60)[0] for answer in answers]
    assert sorted(run.status for run in runs) == ["queued", "running"]
    assert sorted(run.gpus for run in runs) == [(), ("GPU-0",)]


@pytest.mark.slow
@pytest.mark.parametrize(("given", "most"), [({}, 2), ({"gpu_memory_bytes": 30 * GIB}, 4)], ids=["alone", "shared"])
def test_processes_race_for_the_last_devices(
    machine: GpuMachine, gpu_lab: Lab, given: dict[str, int], most: int
) -> None:
    """Six commands at once on two devices: no device is given twice, no memory promised twice, and none is wasted."""
    machine.becomes(gpus(2))
    ids = propose(gpu_lab, 6, gpus=1, **given)
    with ThreadPoolExecutor(6) as pool:
        done = [*pool.map(partial(perpetual, gpu_lab.root), ["run"] * 6, ids)]
    assert [each.returncode for each in done] == [0] * 6, [each.stderr for each in done]
    # As recorded at the end: a command may answer before another one has started the run that it queued.
    running = gpu_lab.runs.list(status="running").items
    assert len(running) == most
    assert sorted(uuid for run in running for uuid in run.gpus) == sorted(["GPU-0", "GPU-1"] * (most // 2))
    for run in running:
        gpu_lab.runs.kill(run.id, grace_s=0.0)
    with ThreadPoolExecutor(3) as pool:  # and those that wait, when several look at once
        scans = [*pool.map(partial(perpetual, gpu_lab.root), ["scan"] * 3)]
    assert [each.returncode for each in scans] == [0] * 3, [each.stderr for each in scans]
    again = gpu_lab.runs.list(status="running").items
    assert len(again) == 2
    assert len({run.id for run in again} & {run.id for run in running}) == 0


@pytest.mark.slow
def test_a_launcher_that_dies_with_a_lease_gives_it_back(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(1))
    first, second = propose(gpu_lab, 2, gpus=1)
    died = subprocess.run(
        [sys.executable, "-m", "perpetual", "run", first], cwd=gpu_lab.root, capture_output=True, timeout=100,
        env={**os.environ, "PERPETUAL_DIE_AT": "launch:launching"},
    )  # fmt: skip
    assert died.returncode == -9
    assert gpu_lab.runs.get("r1").gpus == ("GPU-0",)
    gpu_lab.scan()
    run = gpu_lab.runs.get("r1")
    assert (run.status, run.gpus) == ("running", ("GPU-0",))
    assert gpu_lab.runs.launch(second)[0].status == "queued"

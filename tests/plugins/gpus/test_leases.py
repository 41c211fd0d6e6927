"""Leases of GPUs: real runs of a real lab, real NVML bindings, imitated hardware (tests/fixtures/gpu_machine.py)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run as perpetual
from perpetual.errors import PerpetualError, UsageError
from perpetual_gpus import placement
from tests.fixtures.gpu_machine import (
    NEEDS_THE_STUB,
    NO_SUCH_PID,
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
MIB = 2**20


def visible(lab: Lab, run_id: str) -> str:
    """What the run's program was told."""
    out = lab.runs.log_dir(run_id) / "stdout.log"
    until(lambda: out.exists() and out.read_text().endswith("\n"))
    return out.read_text().strip()


TELL = "sh -c 'echo $CUDA_VISIBLE_DEVICES; exec sleep 600'"


# --- alone and shared ------------------------------------------------------------------------------------------------


def test_a_killed_run_gives_its_gpu_to_the_one_that_waits(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(1))
    first = launch(gpu_lab, train(), gpus=1)
    machine.claimed(1)
    second = launch(gpu_lab, TELL, gpus=1)
    assert (first.status, first.gpus) == ("running", ("GPU-0",))
    assert (second.status, second.reason) == ("queued", "needs 1 GPU, 0 of 1 are free: GPU 0 is held by r1")
    gpu_lab.runs.kill(first.id, grace_s=0.0)
    machine.claimed(0)
    assert [(change["run_id"], change["to"]) for change in gpu_lab.scan()["changes"]] == [(second.id, "running")]
    assert visible(gpu_lab, second.id) == "GPU-0"


def test_runs_that_declare_their_memory_share(machine: GpuMachine, gpu_lab: Lab) -> None:
    """Also before they have taken it: what is free at the start of a run says little."""
    machine.becomes(gpus(1))
    first = launch(gpu_lab, TELL, gpus=1, gpu_memory_bytes=50 * GIB)
    second = launch(gpu_lab, TELL, gpus=1, gpu_memory_bytes=25 * GIB)
    third = launch(gpu_lab, TELL, gpus=1, gpu_memory_bytes=10 * GIB)
    alone = launch(gpu_lab, TELL, gpus=1)
    assert [first.gpus, second.gpus, third.gpus, alone.gpus] == [("GPU-0",), ("GPU-0",), (), ()]
    assert third.reason == "needs 10 GiB on one GPU; GPU 0 has 5 GiB free (r1 holds 50 GiB, r2 holds 25 GiB)"
    assert alone.reason == "needs 1 GPU, 0 of 1 are free: GPU 0 is held by r1, r2"
    gpu_lab.runs.kill(first.id, grace_s=0.0)
    assert [change["run_id"] for change in gpu_lab.scan()["changes"]] == [third.id]


@pytest.mark.slow
def test_a_shared_run_that_takes_more_than_it_declared_is_believed(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(1))
    launch(gpu_lab, train(60 * 1024), gpus=1, gpu_memory_bytes=10 * GIB)
    machine.claimed(1)
    late = launch(gpu_lab, TELL, gpus=1, gpu_memory_bytes=30 * GIB)
    assert late.reason == "needs 30 GiB on one GPU; GPU 0 has 20 GiB free (r1 holds 10 GiB)"


@pytest.mark.parametrize(
    ("state", "given", "told"),
    [
        (gpus(2), {"gpus": 1, "gpu_memory_bytes": 82 * GIB}, "needs 82 GiB on one GPU, and the largest here has 80"),
        (gpus(2), {"gpus": 3}, "needs 3 GPUs and this machine has 2"),
        (gpus(2, more="compute_mode 2\n"), {"gpus": 2}, "1 of the 2 here could serve it: GPU 1 takes no program"),
        (gpus(1, more="mig 1 20000 MIG-a\nmig 2 20000 MIG-b\n"), {"gpus": 2}, "0 of the 2 here could serve it: a MIG"),
        (gpus(1, more="mig 1 20480 MIG-a\n"), {"gpus": 1, "gpu_memory_bytes": 30 * GIB}, "largest here has 20 GiB"),
        (gpus(1), {"cpus": 100_000}, "needs 100000 CPUs, and"),
    ],
)
def test_a_request_that_can_never_fit_fails_at_once(
    machine: GpuMachine, gpu_lab: Lab, state: str, given: dict[str, Any], told: str
) -> None:
    machine.becomes(state)
    with pytest.raises(PerpetualError, match="e1 needs") as caught:
        launch(gpu_lab, "true", **given)
    assert caught.value.code == "does_not_fit"
    assert told in caught.value.message
    assert caught.value.hint
    assert gpu_lab.runs.list().items == ()


# --- whose processes -------------------------------------------------------------------------------------------------


def test_a_stranger_keeps_runs_off_until_he_is_allowed(machine: GpuMachine, gpu_lab: Lab) -> None:
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            machine.becomes(gpus(1, more=f"proc C {stranger.pid} 4000\n"))
            run = launch(gpu_lab, TELL, gpus=1)
            assert run.status == "queued"
            assert f"GPU 0 is used by pid {stranger.pid} of " in (run.reason or "")
            gpu_lab.settings.set_config("gpu_foreign", "allow")
            gpu_lab.scan()
            assert gpu_lab.runs.get(run.id).gpus == ("GPU-0",)
        finally:
            stranger.kill()


def test_the_children_of_a_run_are_its_own(machine: GpuMachine, gpu_lab: Lab) -> None:
    """As those of torchrun, of a data loader, and of a program that goes into a session of its own."""
    child = 'mkdir -p "$NVML_STUB_STATE.d"; echo "GPU-0 1000" >"$NVML_STUB_STATE.d/$$"; exec sleep 600'
    machine.becomes(gpus(1))
    launch(gpu_lab, f"sh -c 'setsid sh -c \"$0\" & sh -c \"$0\" & wait' '{child}'", gpus=1, gpu_memory_bytes=9 * GIB)
    machine.claimed(2)
    beside = launch(gpu_lab, TELL, gpus=1, gpu_memory_bytes=9 * GIB)
    assert beside.status == "running"
    document = gpu_lab.inventory().devices()["gpus"][0]
    assert [(one["owner"], one["run_id"]) for one in document["processes"]] == [("run", "r1")] * 2
    assert (document["state"], document["run_ids"], document["note"]) == ("leased", ["r1", "r2"], None)


@pytest.mark.slow
def test_a_program_that_left_its_tree_is_known_by_its_variables(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(1))
    run = launch(gpu_lab, TELL, gpus=1)
    env = {**os.environ, "PERPETUAL_RUN": run.id, "PERPETUAL_PROJECT": str(gpu_lab.root)}
    for changed, owner in (({}, "run"), ({"PERPETUAL_RUN": "r99"}, "foreign"), ({"PERPETUAL_PROJECT": "/"}, "foreign")):
        with subprocess.Popen(["sleep", "600"], env={**env, **changed}) as program:
            try:
                machine.becomes(gpus(1, more=f"proc C {program.pid} 100\n"))
                (process,) = gpu_lab.inventory().devices()["gpus"][0]["processes"]
                assert (process["owner"], process["run_id"]) == (owner, run.id if owner == "run" else None)
            finally:
                program.kill()


def test_memory_of_a_run_that_has_ended_is_not_yet_free(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(1))
    first = launch(gpu_lab, "true", gpus=1)
    gpu_lab.wait([first.id], timeout_s=30)
    machine.becomes(gpus(1, more=f"proc C {gpu_lab.runs.get(first.id).pid} 30000\n"))
    second = launch(gpu_lab, TELL, gpus=1)
    pid = gpu_lab.runs.get(first.id).pid
    assert second.reason == (f"needs 1 GPU, 0 of 1 are free: GPU 0 is still held by pid {pid} of r1, which has ended")
    machine.becomes(gpus(1))
    gpu_lab.scan()
    assert gpu_lab.runs.get(second.id).status == "running"


@pytest.mark.slow
def test_runs_of_a_container_share_although_their_pids_are_the_host_s(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(1))
    launch(gpu_lab, TELL, gpus=1, gpu_memory_bytes=30 * GIB)
    machine.becomes(gpus(1, more=f"proc C {NO_SUCH_PID} 20000\n"))
    assert launch(gpu_lab, TELL, gpus=1, gpu_memory_bytes=30 * GIB).status == "running"
    machine.becomes(gpus(1, more=f"proc C {NO_SUCH_PID} 70000\n"))
    third = launch(gpu_lab, TELL, gpus=1, gpu_memory_bytes=1 * GIB)
    assert f"pid {NO_SUCH_PID}, which cannot be seen from here" in (third.reason or "")


# --- excluded, numbered, cut -----------------------------------------------------------------------------------------


def test_excluded_devices_are_not_given(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(3))
    gpu_lab.settings.set_config("gpus_excluded", "0, GPU-2")
    assert launch(gpu_lab, TELL, gpus=1).gpus == ("GPU-1",)
    with pytest.raises(PerpetualError, match="e2 needs 2 GPUs, and 1 of the 3 here could serve it: GPU 0 is excluded"):
        launch(gpu_lab, TELL, gpus=2)
    with pytest.raises(PerpetualError, match="asks for GPU 2: GPU 2 is excluded by gpus_excluded") as caught:
        launch(gpu_lab, TELL, use=(2,))
    assert caught.value.code == "does_not_fit"
    with pytest.raises(UsageError, match="there is no GPU 3"):
        launch(gpu_lab, TELL, use=(3,))
    assert [gpu["state"] for gpu in gpu_lab.inventory().devices()["gpus"]] == ["excluded", "leased", "excluded"]


@pytest.mark.parametrize(
    ("ids", "told"), [pytest.param("uuid", "GPU-2,GPU-0", marks=pytest.mark.slow), ("index", "2,0")]
)
def test_a_program_sees_the_devices_chosen_by_number(machine: GpuMachine, gpu_lab: Lab, ids: str, told: str) -> None:
    machine.becomes(gpus(3))
    gpu_lab.settings.set_config("gpu_ids", ids)
    run = launch(gpu_lab, TELL, use=(2, 0))
    assert run.gpus == ("GPU-2", "GPU-0")
    assert visible(gpu_lab, run.id) == told


def test_instances_are_leased_one_by_one(machine: GpuMachine, gpu_lab: Lab) -> None:
    machine.becomes(gpus(2, more="mig 1 20480 MIG-a\nmig 2 10240 MIG-b\n"))
    gpu_lab.settings.set_config("gpu_ids", "index")
    small = launch(gpu_lab, TELL, gpus=1, gpu_memory_bytes=9 * GIB)
    named = launch(gpu_lab, TELL, use=(1,))
    more = launch(gpu_lab, TELL, use=(1,))
    assert [small.gpus, named.gpus] == [("MIG-b",), ("MIG-a",)]
    assert visible(gpu_lab, small.id) == "MIG-b"  # an instance has no index
    assert more.reason == ("needs 1 GPU, 0 of 2 are free: MIG 0 of GPU 1 is held by r2, MIG 1 of GPU 1 is held by r1")
    with pytest.raises(UsageError, match="GPU 1 is cut into MIG instances, and a run gets one of them"):
        launch(gpu_lab, TELL, use=(0, 1))
    whole, cut = gpu_lab.inventory().devices()["gpus"]
    assert (whole["state"], cut["state"], cut["run_ids"]) == ("free", "cut", ["r1", "r2"])
    assert [(part["state"], part["run_ids"]) for part in cut["mig"]] == [("leased", ["r2"]), ("leased", ["r1"])]


def test_cpus_are_counted(machine: GpuMachine, gpu_lab: Lab) -> None:
    """No driver is asked for them: this machine has none."""
    usable = len(os.sched_getaffinity(0))
    first = launch(gpu_lab, TELL, cpus=usable)
    second = launch(gpu_lab, TELL, cpus=1)
    undeclared = launch(gpu_lab, TELL)
    assert [first.status, second.status, undeclared.status] == ["running", "queued", "running"]
    assert second.reason == f"needs 1 CPUs; 0 of {usable} are free (r1 holds {usable})"
    gpu_lab.runs.kill(first.id, grace_s=0.0)
    gpu_lab.scan()
    assert gpu_lab.runs.get(second.id).status == "running"


# --- what comes of a lease -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_that_goes_elsewhere_is_noted_once(
    machine: GpuMachine, gpu_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "EVERY_S", 0.0)
    machine.becomes(gpus(3))
    run = launch(gpu_lab, train(where="GPU-2"), gpus=1)
    good = launch(gpu_lab, train(), gpus=1)
    machine.claimed(2)
    for _ in range(3):
        gpu_lab.scan()
    (note,) = gpu_lab.runs.get(run.id).annotations
    assert note == {"kind": "gpu", "text": "uses GPU 2 (GPU-2), which it did not lease", "source": "nvml"}
    assert [event.payload for event in gpu_lab.events() if event.kind == "run_annotated"] == [note]
    assert gpu_lab.runs.get(good.id).annotations == ()
    assert gpu_lab.runs.get(run.id).status == "running"
    waits = launch(gpu_lab, TELL, gpus=1)
    assert (waits.reason or "").endswith("GPU 2 is used by r1, which did not lease it")


@pytest.mark.slow
def test_a_look_is_taken_now_and_then(machine: GpuMachine, gpu_lab: Lab) -> None:
    """Whoever waits for runs looks each second; the driver is not asked each time."""
    machine.becomes(gpus(2))
    run = launch(gpu_lab, train(where="GPU-1"), gpus=1)
    gpu_lab.scan()
    machine.claimed(1)
    before = len(gpu_lab.runs.get(run.id).annotations)  # the first look may have been too early, or not
    gpu_lab.scan()
    assert len(gpu_lab.runs.get(run.id).annotations) == before
    with Lab.open(gpu_lab.root) as other:
        other.scan()
    assert len(gpu_lab.runs.get(run.id).annotations) == 1


def test_gpu_status_shows_which_run_has_which_device(
    machine: GpuMachine, gpu_lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = gpus(
        4, more=f"error 15\ngpu A\nuuid GPU-4\nmig 1 20480 MIG-a\nmig 2 10240 MIG-b\nproc C {NO_SUCH_PID} 9 0 2\n"
    )
    machine.becomes(state.replace("uuid GPU-1\n", f"uuid GPU-1\nproc C {NO_SUCH_PID} 50\n"))
    launch(gpu_lab, train(4096), gpus=1)
    machine.claimed(1)
    assert perpetual(["gpu-status", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["driver"], document["reason"]) == ("perpetual.gpu_status/1", "570.86.15", None)
    first, second, *_, cut = document["gpus"]
    assert [gpu["state"] for gpu in document["gpus"]] == ["leased", "used", "free", "sick", "cut"]
    assert (first["run_ids"], first["processes"][0]["run_id"], first["memory_used_bytes"]) == (["r1"], "r1", 4096 * MIB)
    assert (second["processes"][0]["owner"], second["note"]) == (
        "unknown", f"is used by pid {NO_SUCH_PID}, which cannot be seen from here",
    )  # fmt: skip
    assert [part["state"] for part in cut["mig"]] == ["free", "used"]
    monkeypatch.setenv("COLUMNS", "100")
    assert perpetual(["gpu-status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for number, words in (("0", "leased by r1"), ("1", "unknown process"), ("2", "free"), ("3", "sick: GPU is lost"),
                          ("4", "cut into 2"), (".0", "free"), (".1", "unknown process")):  # fmt: skip
        (line,) = [line for line in lines if line.split()[:1] == [number]]
        assert words in line
    assert "\x1b" not in "".join(lines)


def test_status_and_cpu_runs_ask_no_driver(machine: GpuMachine, gpu_lab: Lab, tmp_path: Path) -> None:
    machine.becomes("delay_ms 30000\ngpu A\n")
    asked: list[float] = []
    backend = gpu_lab.part("gpus")
    backend.read = lambda deadline_s=5.0: asked.append(deadline_s)
    run = launch(gpu_lab, "true")
    gpu_lab.wait([run.id], timeout_s=30)
    gpu_lab.status()
    gpu_lab.brief()
    assert asked == []


def test_an_engine_that_places_gpus_is_left_to_it(
    machine: GpuMachine, gpu_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its nodes are not this machine: no driver is asked, nothing is leased, and its own variables stand."""
    monkeypatch.setattr(gpu_lab.part("scheduler"), "places_gpus", True, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "of-the-engine")
    run = launch(gpu_lab, TELL, gpus=8)
    assert (run.status, run.gpus) == ("running", ())
    assert visible(gpu_lab, run.id) == "of-the-engine"

"""Without a placement CPU runs work as before, and a run that needs GPUs is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Gpu, GpuReading, LaunchError, PluginError
from perpetual.registry import Registry

WHY = "needs 1 GPU, and no placement is in force"


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project, registry=Registry(["gpus"])) as opened:
        yield opened


def proposed(lab: Lab, command: str, gpus: int = 0) -> str:
    made = lab.experiments.propose(command=command, title=command, wall_s=60.0, gpus=gpus)
    return lab.experiments.approve(made.id).id


def one_gpu() -> GpuReading:
    gpu = Gpu(0, "GPU-0", "Acme", 2**30, 0, 2**30, None, None, None, "default", (), True, None)
    return GpuReading("1", (gpu,), None)


def test_a_cpu_run_works_and_sees_no_gpu(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    (run,) = lab.runs.launch(proposed(lab, "sh -c 'echo seen=$CUDA_VISIBLE_DEVICES.'"))
    lab.wait([run.id], timeout_s=30)
    found = lab.runs.get(run.id)
    assert found.status == "done"
    assert (lab.runs.log_dir(run.id) / "stdout.log").read_text() == "seen=.\n"


def test_a_run_that_needs_a_gpu_is_refused(lab: Lab) -> None:
    id = proposed(lab, "true", gpus=1)
    for call in (lab.runs.launch, lab.runs.plan):
        with pytest.raises(LaunchError, match=f"{id} {WHY}") as caught:
            call(id)
        assert caught.value.hint
    assert lab.runs.list().items == ()


def test_a_run_that_is_queued_already_waits(project: Path, lab: Lab) -> None:
    with Lab.open(project) as whole:
        whole.queue.set_state("paused")
        backend = whole.part("gpus")
        backend.read = lambda deadline_s=5.0: one_gpu()
        (run,) = whole.runs.launch(proposed(whole, "true", gpus=1))
        whole.queue.set_state("running")
    assert lab.scan()["problems"] == []
    found = lab.runs.get(run.id)
    assert found.status == "queued"
    assert WHY in str(found.reason)


@pytest.mark.slow
def test_the_devices_and_the_doctor_say_so(lab: Lab) -> None:
    with pytest.raises(PluginError, match="gpus"):
        lab.inventory().devices()
    assert [check["ok"] for check in lab.doctor() if check["check"] == "gpus"] == [False]

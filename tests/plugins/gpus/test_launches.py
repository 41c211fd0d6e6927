"""What a launcher holds of a claim while it lives."""

from __future__ import annotations

import os
from pathlib import Path

from perpetual import Lab
from perpetual.toolkit.lock import is_locked
from perpetual_gpus.claims import claims_folder
from perpetual_supervisor import rundir
from tests.fixtures.gpu_machine import NEEDS_THE_STUB, GpuMachine, driver, gpu_lab, gpus, launch, machine

__all__ = ["driver", "gpu_lab", "machine"]
pytestmark = NEEDS_THE_STUB


def test_a_run_that_gets_its_gpu_and_cannot_start_holds_nothing(machine: GpuMachine, gpu_lab: Lab) -> None:
    """Else the GPU would be taken, as other projects and later looks see it, for as long as the launcher lives."""
    machine.becomes(gpus(1))
    gpu_lab.queue.set_state("paused")
    run = launch(gpu_lab, "sleep 600", gpus=1)
    folder = gpu_lab.runs.log_dir(run.id)
    rundir.launch(
        folder, argv=["sleep", "600"], cwd="/", env={"PATH": os.environ["PATH"]}, wall_s=60.0, grace_s=0.0,
        nonce="of another record",
    )  # fmt: skip
    try:
        gpu_lab.queue.set_state("running")
        gpu_lab.scan()
        assert str(gpu_lab.runs.get(run.id).reason).startswith("the run of another record is live in its folder")
        claims = Path(str(claims_folder())).glob("*.json")
        assert [path.name for path in claims if is_locked(path)] == []
    finally:
        rundir.cancel(folder, by="the test", grace_s=0.0)
        rundir.wait(folder, 60.0)
    gpu_lab.scan()
    assert gpu_lab.runs.get(run.id).status == "running"

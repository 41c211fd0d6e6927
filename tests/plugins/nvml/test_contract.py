"""The bundled GPU backends keep the promises of their slot; `nvml` on an imitated driver (tests/fixtures/nvml_stub)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from perpetual.slots.gpu import GpuBackend
from perpetual.testing.gpus import GpuContract
from perpetual_nvml import devices, none

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parents[2] / "fixtures" / "nvml_stub" / "nvml_stub.c"
LIBRARY = "libnvidia-ml.so.1"
CC = shutil.which("cc")
NEEDS_THE_STUB = pytest.mark.skipif(
    CC is None or not sys.platform.startswith("linux"),
    reason="the imitated driver needs Linux and a C compiler",
)
# A device with everything that one can have, one that is cut into parts, one that is lost, and an idle one.
RACK = f"""\
driver 570.86.15
gpu NVIDIA H100
uuid GPU-a
util 97 60
power 412500
proc C {os.getpid()} 1000
proc G {os.getpid()} 1000
proc M 4194305 30000
gpu NVIDIA A100
mig 1 20096
mig 2 10048
proc C 4194305 100 0 1
proc C 4194305 200 0 2
gpu NVIDIA A100
error 15
gpu
"""
HUNG = "driver 570.86.15\ndelay_ms 30000\ngpu A\n"


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the imitated driver."""
    folder = tmp_path_factory.mktemp("driver")
    options = ["-O0", "-fPIC", "-shared", "-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}"]
    subprocess.run([str(CC), *options, "-o", str(folder / LIBRARY), str(SOURCE)], check=True)
    return folder


class OnTheStub(GpuContract):
    """`nvml` with the imitated driver in the state that the subclass names."""

    state: ClassVar[str]

    @pytest.fixture
    def backend(self, driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuBackend:
        (tmp_path / "state").write_text(self.state)
        monkeypatch.setenv("NVML_STUB_STATE", str(tmp_path / "state"))
        monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
        return devices.build({})


@NEEDS_THE_STUB
class TestRack(OnTheStub):
    """Devices of every sort."""

    state = RACK

    def alter(self, backend: GpuBackend) -> bool:
        """The first device cools down."""
        file = Path(os.environ["NVML_STUB_STATE"])
        file.write_text(file.read_text().replace("power 412500", "power 100000"))
        return True

    def test_the_rack_is_seen(self, backend: GpuBackend) -> None:
        """The suite would also be content with no devices."""
        reading = backend.read()
        assert [gpu.healthy for gpu in reading.gpus] == [True, True, False, True]
        assert [(len(gpu.processes), len(gpu.mig)) for gpu in reading.gpus] == [(2, 0), (1, 2), (0, 0), (0, 0)]
        assert [len(part.processes) for part in reading.gpus[1].mig] == [1, 1]


@NEEDS_THE_STUB
class TestHungDriver(OnTheStub):
    """Every promise holds while the driver answers nothing."""

    state = HUNG
    deadline_s = 0.05
    reads_devices = False

    def test_it_does_hang(self, backend: GpuBackend) -> None:
        """And is given up."""
        reading = backend.read(0.05)
        assert (reading.reason, reading.transient) == ("the NVIDIA driver did not answer within 0.05 s", True)


class TestNoDriver(GpuContract):
    """Most machines. (On one that has a driver this reads its devices.)"""

    reads_devices = Path("/dev/nvidiactl").exists()

    @pytest.fixture
    def backend(self, monkeypatch: pytest.MonkeyPatch) -> GpuBackend:
        monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
        return devices.build({})


class TestNone(GpuContract):
    """`none`."""

    reads_devices = False

    @pytest.fixture
    def backend(self) -> GpuBackend:
        return none.build({})

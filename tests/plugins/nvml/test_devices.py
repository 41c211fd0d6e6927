"""`perpetual_nvml`: the real nvidia-ml-py on an imitated driver (see tests/fixtures/nvml_stub)."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from perpetual.api import Gpu, GpuBackend, GpuProcess, GpuReading, MigDevice
from perpetual_nvml import devices
from perpetual_nvml.devices import NvmlBackend, build, read_devices

SOURCE = Path(__file__).parents[2] / "fixtures" / "nvml_stub" / "nvml_stub.c"
PLUGINS = Path(devices.__file__).parents[1]
LIBRARY = "libnvidia-ml.so.1"
MIB = 1024 * 1024
NO_SUCH_PID = 2**22 + 1  # above the largest number that Linux gives
HUNG = "driver 570.86.15\ndelay_ms 30000\ngpu A\n"

CC = shutil.which("cc")
pytestmark = pytest.mark.skipif(
    CC is None or not sys.platform.startswith("linux"),
    reason="the imitated driver needs Linux and a C compiler",
)


def compiled(folder: Path, source: Path, *flags: str) -> Path:
    """Compiles `source` as the driver's library into `folder`, and answers the folder."""
    folder.mkdir(exist_ok=True)
    options = ["-O0", "-fPIC", "-shared", "-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}", *flags]
    subprocess.run([str(CC), *options, "-o", str(folder / LIBRARY), str(source)], check=True)
    return folder


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("driver"), SOURCE)


class Machine:
    """The imitated hardware: what `becomes` writes is what the next reading finds."""

    def __init__(self, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = state
        self.monkeypatch = monkeypatch
        monkeypatch.setenv("NVML_STUB_STATE", str(state))

    def has_driver(self, folder: Path) -> None:
        self.monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))

    def becomes(self, state: str | bytes) -> None:
        new = self.state.with_suffix(".new")
        new.write_bytes(state.encode() if isinstance(state, str) else state)
        new.replace(self.state)

    def probes(self) -> list[int]:
        """Live processes that were started to look at this machine."""
        found = []
        for process in psutil.process_iter():
            try:
                mine = process.environ().get("NVML_STUB_STATE") == str(self.state)
                if mine and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
            except psutil.Error:
                continue
        return [pid for pid in found if pid != os.getpid()]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: Path) -> Machine:
    made = Machine(tmp_path / "state", monkeypatch)
    made.has_driver(driver)
    return made


def only(reading: GpuReading) -> Gpu:
    assert reading.reason is None
    assert len(reading.gpus) == 1
    return reading.gpus[0]


# what a healthy driver tells


def test_two_gpus_with_their_processes(machine: Machine) -> None:
    me = psutil.Process()
    machine.becomes(
        "driver 570.86.15\n"
        "gpu NVIDIA H100 80GB HBM3\nuuid GPU-aaaa\ntotal 81559\nused 4\nreserved 551\nutil 12 55\ntemp 61\n"
        f"power 412500 700000\nproc C {NO_SUCH_PID} 30000 97\nproc C {me.pid} 1000\nproc G {me.pid} 1000\n"
        "gpu NVIDIA A100\nuuid GPU-bbbb\ntotal 40960\ncompute_mode 3\n"
        f"proc M {me.pid} 10\n"
    )
    reading = read_devices()
    mine = {"user": me.username(), "name": me.name()}
    assert reading == GpuReading(
        driver="570.86.15",
        reason=None,
        gpus=(
            Gpu(
                index=0,
                uuid="GPU-aaaa",
                name="NVIDIA H100 80GB HBM3",
                memory_total_bytes=81559 * MIB,
                memory_used_bytes=(4 + 30000 + 1000 + 1000) * MIB,
                memory_free_bytes=(81559 - 4 - 30000 - 1000 - 1000 - 551) * MIB,
                utilization=97,
                temperature_celsius=61,
                power_watts=412.5,
                compute_mode="default",
                processes=(
                    # both computing and drawing, with the same memory: once
                    GpuProcess(pid=me.pid, memory_bytes=1000 * MIB, **mine),
                    GpuProcess(pid=NO_SUCH_PID, memory_bytes=30000 * MIB, user=None, name=None),
                ),
                healthy=True,
                error=None,
                mig=(),
            ),
            Gpu(
                index=1,
                uuid="GPU-bbbb",
                name="NVIDIA A100",
                memory_total_bytes=40960 * MIB,
                memory_used_bytes=10 * MIB,
                memory_free_bytes=40950 * MIB,
                utilization=0,
                temperature_celsius=35,
                power_watts=60.0,
                compute_mode="exclusive_process",
                processes=(GpuProcess(pid=me.pid, memory_bytes=10 * MIB, **mine),),
                healthy=True,
                error=None,
                mig=(),
            ),
        ),
    )


def test_the_slot_reads_the_same(machine: Machine) -> None:
    machine.becomes("driver 1.2\ngpu A\nmig 1 10\n")
    backend: GpuBackend = build({})
    assert isinstance(backend, NvmlBackend)
    assert backend.read() == read_devices()
    machine.becomes(HUNG)
    assert backend.read(0.2).reason == "the NVIDIA driver did not answer within 0.2 s"


def test_the_probe_prints_one_document(machine: Machine) -> None:
    machine.becomes(f"driver 1.2\ngpu A\nproc C {NO_SUCH_PID} 5 1 3\nmig 3 64\n")
    done = subprocess.run(
        [sys.executable, "-m", "perpetual_nvml.probe"],
        env={**os.environ, "PYTHONPATH": str(PLUGINS)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert set(document) == set(GpuReading.__dataclass_fields__)
    (gpu,) = document["gpus"]
    assert set(gpu) == set(Gpu.__dataclass_fields__)
    assert gpu["processes"] == [{"pid": NO_SUCH_PID, "memory_bytes": 5 * MIB, "user": None, "name": None}]
    (part,) = gpu["mig"]
    assert set(part) == set(MigDevice.__dataclass_fields__)
    assert (part["memory_total_bytes"], part["memory_used_bytes"]) == (64 * MIB, 5 * MIB)
    assert (part["processes"], part["error"]) == (gpu["processes"], None)


def test_mig_instances_are_read_with_their_processes(machine: Machine) -> None:
    machine.becomes(
        f"gpu A\ntotal 40960\nutil 50 50\nproc C {NO_SUCH_PID} 100 0 1\nproc C {NO_SUCH_PID} 200 0 2\n"
        f"proc C {NO_SUCH_PID + 1} 300 0 2\nmig 1 20096 MIG-one\nmig 2 10048 MIG-two\n"
    )
    gpu = only(read_devices())
    assert (gpu.healthy, gpu.error) == (True, None)
    assert gpu.utilization is None  # MIG has no such reading
    assert [(p.pid, p.memory_bytes) for p in gpu.processes] == [
        (NO_SUCH_PID, 300 * MIB),  # on both parts
        (NO_SUCH_PID + 1, 300 * MIB),
    ]
    one, two = gpu.mig
    assert (one.uuid, one.memory_total_bytes, one.memory_used_bytes) == ("MIG-one", 20096 * MIB, 100 * MIB)
    assert (two.uuid, two.memory_total_bytes, two.memory_used_bytes) == ("MIG-two", 10048 * MIB, 500 * MIB)
    assert [(p.pid, p.memory_bytes) for p in one.processes] == [(NO_SUCH_PID, 100 * MIB)]
    assert [(p.pid, p.memory_bytes) for p in two.processes] == [
        (NO_SUCH_PID, 200 * MIB),
        (NO_SUCH_PID + 1, 300 * MIB),
    ]


def test_a_process_whose_name_is_no_text(machine: Machine, tmp_path: Path) -> None:
    program = os.fsencode(tmp_path) + b"/odd\xff"
    os.symlink(os.fsencode(sys.executable), program)
    with subprocess.Popen([program, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as odd:
        machine.becomes(f"gpu A\nproc C {odd.pid} 5\n")
        (process,) = only(read_devices()).processes
        odd.kill()
    assert process.pid == odd.pid
    assert process.name is not None
    assert process.name.encode("utf-8").startswith(b"odd")  # a lone surrogate could not be encoded


def test_compute_modes_are_named(machine: Machine) -> None:
    machine.becomes("".join(f"gpu A\ncompute_mode {code}\n" for code in (0, 2, 3, 1)))
    modes = [gpu.compute_mode for gpu in read_devices().gpus]
    assert modes == ["default", "prohibited", "exclusive_process", None]


def test_each_reading_is_fresh(machine: Machine) -> None:
    machine.becomes(f"gpu A\nproc C {NO_SUCH_PID} 512\n")
    before = only(read_devices())
    machine.becomes("gpu A\ntemp 90\n")
    after = only(read_devices())
    assert (before.memory_used_bytes, len(before.processes), before.temperature_celsius) == (512 * MIB, 1, 35)
    assert (after.memory_used_bytes, after.processes, after.temperature_celsius) == (0, (), 90)


# what a driver of another age, or an odd one, tells


def test_an_old_driver_counts_its_reserve_as_used(machine: Machine, tmp_path: Path) -> None:
    machine.has_driver(compiled(tmp_path / "old", SOURCE, "-DnvmlDeviceGetMemoryInfo_v2=missing"))
    machine.becomes("gpu A\ntotal 1000\nused 100\nreserved 50\n")
    gpu = only(read_devices())
    assert (gpu.memory_used_bytes, gpu.memory_free_bytes) == (150 * MIB, 850 * MIB)
    assert (gpu.healthy, gpu.error) == (True, None)


def test_a_driver_without_the_third_form_of_the_process_lists(machine: Machine, tmp_path: Path) -> None:
    kinds = ("Compute", "Graphics", "MPSCompute")
    flags = [f"-DnvmlDeviceGet{kind}RunningProcesses_v3=missing{kind}" for kind in kinds]
    machine.has_driver(compiled(tmp_path / "second", SOURCE, *flags))
    machine.becomes(f"gpu A\nproc C {NO_SUCH_PID} 5\nproc G {NO_SUCH_PID + 1} 7\n")
    gpu = only(read_devices())
    assert [(p.pid, p.memory_bytes) for p in gpu.processes] == [
        (NO_SUCH_PID, 5 * MIB),
        (NO_SUCH_PID + 1, 7 * MIB),
    ]
    assert (gpu.healthy, gpu.error) == (True, None)


def test_values_that_are_not_supported_are_none(machine: Machine, tmp_path: Path) -> None:
    absent = ("Temperature", "PowerUsage", "UtilizationRates", "ComputeMode", "MigMode", "Name")
    flags = [f"-DnvmlDeviceGet{name}=missing{name}" for name in absent]
    machine.has_driver(compiled(tmp_path / "bare", SOURCE, *flags))
    machine.becomes("gpu A\nuuid GPU-a\nmig 1 10\n")
    gpu = only(read_devices())
    assert (gpu.uuid, gpu.healthy, gpu.error) == ("GPU-a", True, None)
    told = (gpu.name, gpu.temperature_celsius, gpu.power_watts, gpu.utilization, gpu.compute_mode)
    assert told == (None,) * 5
    assert gpu.mig == ()


def test_a_driver_that_does_not_tell_its_processes_is_not_taken_for_idle(machine: Machine, tmp_path: Path) -> None:
    flags = [f"-DnvmlDeviceGetComputeRunningProcesses_v{n}=missing{n}" for n in (2, 3)]
    machine.has_driver(compiled(tmp_path / "mute", SOURCE, *flags))
    machine.becomes(f"gpu A\nproc C {NO_SUCH_PID} 5\n")
    gpu = only(read_devices())
    assert gpu.processes == ()
    assert gpu.healthy
    assert gpu.error == "the driver does not tell which processes use this GPU"


def test_a_name_that_is_no_text_spoils_nothing_else(machine: Machine) -> None:
    machine.becomes(b"gpu \xff\xfe\nuuid GPU-a\nutil 250 0\n")
    gpu = only(read_devices())
    assert (gpu.uuid, gpu.name, gpu.healthy) == ("GPU-a", None, True)
    assert gpu.error is not None
    assert gpu.error.startswith("nvmlDeviceGetName: ")
    assert gpu.utilization is None  # no percentage


@pytest.mark.parametrize(
    "state",
    [b"", b"\x00\xff\x80 garbage \x01\n\n:::\n" * 50, b"uuid GPU-before-any\nproc C x y\nmig\n", b"[" * 5000],
    ids=["empty", "binary", "out-of-order", "one-long-line"],
)
def test_a_garbage_driver_state_lists_no_gpu(machine: Machine, state: bytes) -> None:
    machine.becomes(state)
    assert read_devices() == GpuReading("570.00.00", (), "the NVIDIA driver lists no GPU")


def test_garbage_about_a_gpu_leaves_defaults(machine: Machine) -> None:
    machine.becomes("gpu\ntotal many\nutil x\npower\ncompute_mode soon\nproc C\nproc C -1 -1\nmig x\nerror none\n")
    gpu = only(read_devices())
    assert (gpu.name, gpu.memory_total_bytes, gpu.compute_mode) == ("NVIDIA Stub GPU", 0, "default")
    assert (gpu.healthy, gpu.mig) == (True, ())


def variant(folder: Path, call: str, arguments: str, body: str) -> Path:
    """The imitated driver with one call answered by the C expression `body`; `usual` is what it was."""
    source = folder / f"{call}.c"
    source.write_text(
        f'#define {call} usual\n#include "{SOURCE}"\n#undef {call}\nAPI int {call}({arguments}) {{ return {body}; }}\n'
    )
    return compiled(folder / call, source)


def test_mig_without_the_right_to_look_at_the_whole_gpu(machine: Machine, tmp_path: Path) -> None:
    call = "nvmlDeviceGetComputeRunningProcesses_v3"
    body = "d->parent < 0 ? NOPERM : usual(d, n, p)"
    machine.has_driver(variant(tmp_path, call, "Dev *d, u32 *n, PInfo *p", body))
    machine.becomes(
        "gpu A\nmig 1 20096\nmig 2 10048\n"
        f"proc C {NO_SUCH_PID} 100 0 1\nproc C {NO_SUCH_PID} 200 0 2\nproc C {NO_SUCH_PID + 1} 50 0 7\n"
    )
    gpu = only(read_devices())
    assert [(p.pid, p.memory_bytes) for p in gpu.processes] == [(NO_SUCH_PID, 300 * MIB)]
    assert (len(gpu.mig), gpu.healthy, gpu.error) == (2, True, None)


# a GPU in trouble


@pytest.mark.parametrize(
    ("code", "healthy", "error"),
    [(999, True, "nvmlDeviceGetTemperature: Unknown Error"), (15, False, "GPU is lost")],
)
def test_trouble_in_the_middle_of_a_reading(
    machine: Machine, tmp_path: Path, code: int, healthy: bool, error: str
) -> None:
    body = f"usual(d, sensor, v) ? 1 : {code}"
    machine.has_driver(variant(tmp_path, "nvmlDeviceGetTemperature", "Dev *d, int sensor, u32 *v", body))
    machine.becomes(f"gpu A\nuuid GPU-a\nproc C {NO_SUCH_PID} 5\n")
    gpu = only(read_devices())
    assert (gpu.uuid, gpu.temperature_celsius) == ("GPU-a", None)
    assert (gpu.healthy, gpu.error) == (healthy, error)
    assert len(gpu.processes) == (1 if healthy else 0)  # a lost GPU is asked nothing more


@pytest.mark.parametrize(
    ("code", "error"), [(15, "GPU is lost"), (4, "Insufficient Permissions"), (999, "Unknown Error")]
)
def test_a_failing_gpu_leaves_the_other_one_listed(machine: Machine, code: int, error: str) -> None:
    machine.becomes(f"driver 570.86.15\ngpu A\nuuid GPU-a\nerror {code}\ngpu B\nuuid GPU-b\n")
    reading = read_devices()
    lost, fine = reading.gpus
    assert (reading.driver, reading.reason) == ("570.86.15", None)
    assert (lost.index, lost.uuid, lost.healthy, lost.error) == (0, None, False, error)
    assert (lost.memory_total_bytes, lost.processes, lost.mig) == (None, (), ())
    assert (fine.index, fine.uuid, fine.healthy, fine.error) == (1, "GPU-b", True, None)


# no driver, or none that works


@pytest.mark.parametrize(
    ("code", "words", "transient"),
    [
        (9, "installed but not loaded", False),
        (18, "different versions", False),
        (999, "could not be opened: Unknown Error", True),  # it may answer the next time
    ],
)
def test_a_driver_that_cannot_be_opened(machine: Machine, code: int, words: str, transient: bool) -> None:
    machine.becomes(f"init_error {code}\ngpu A\n")
    reading = read_devices()
    assert (reading.driver, reading.gpus) == (None, ())
    assert reading.reason is not None
    assert words in reading.reason
    assert reading.transient is transient


def test_no_process_is_started_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        pass
    else:
        pytest.skip("this machine has an NVIDIA driver")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")  # starting the probe would fail
    assert read_devices() == GpuReading(None, (), "no NVIDIA driver on this machine: its NVML library was not found")


def test_a_library_that_cannot_be_loaded_is_no_driver(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / LIBRARY).write_text("no library")
    machine.has_driver(tmp_path / "broken")
    assert read_devices() == GpuReading(None, (), "no NVIDIA driver on this machine: its NVML library was not found")


def test_a_driver_that_kills_its_caller(machine: Machine, tmp_path: Path) -> None:
    source = tmp_path / "deadly.c"
    source.write_text(
        "#include <signal.h>\n"
        '__attribute__((visibility("default")))\n'
        "int nvmlInitWithFlags(unsigned flags) { return raise(SIGKILL) + (int)flags; }\n"
    )
    machine.has_driver(compiled(tmp_path / "deadly", source))
    reading = read_devices()
    assert (reading.driver, reading.gpus) == (None, ())
    assert reading.reason == "the NVIDIA driver could not be asked: the probe ended with status -9"
    assert reading.transient


def test_a_probe_that_cannot_be_started(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.becomes("gpu A\n")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    reading = read_devices()
    assert (reading.driver, reading.gpus) == (None, ())
    assert reading.reason is not None
    assert reading.reason.startswith("the NVIDIA driver could not be asked: ")


def test_a_probe_of_another_version(machine: Machine, tmp_path: Path) -> None:
    newer = tmp_path / "probe.py"
    for answer in ("", "[]", '{"driver": null, "gpus": [{"index": 0}], "reason": null}'):
        newer.write_text(f"print({answer!r})")
        reading = read_devices(probe=newer)
        assert (reading.driver, reading.gpus) == (None, ())
        assert reading.reason is not None
        assert reading.reason.startswith("the probe's answer cannot be read")


# a driver that hangs


def test_a_hung_driver_ends_within_the_deadline(machine: Machine) -> None:
    machine.becomes(HUNG)
    started = time.monotonic()
    reading = read_devices(0.7)
    took_s = time.monotonic() - started
    assert reading == GpuReading(None, (), "the NVIDIA driver did not answer within 0.7 s", transient=True)
    assert 0.7 <= took_s < 20.0  # the driver would take 30
    assert machine.probes() == []


def test_an_abandoned_hung_probe_ends_itself(machine: Machine) -> None:
    machine.becomes(HUNG)
    done = subprocess.run([sys.executable, str(PLUGINS / "perpetual_nvml" / "probe.py"), "0.3"], timeout=20)
    assert done.returncode == -signal.SIGALRM


def test_a_probe_that_outlives_its_kill_is_not_joined_by_another(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.becomes(HUNG)
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda group, number: None)  # as for a process stuck inside the kernel
        started = time.monotonic()
        first = read_devices(0.3)
        second = read_devices(0.3)
        assert time.monotonic() - started < 20.0  # the driver would take 30
    assert first.reason == "the NVIDIA driver did not answer within 0.3 s"
    (pid,) = machine.probes()
    assert second.reason is not None
    assert f"process {pid} cannot be ended" in second.reason
    os.killpg(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)], timeout=60)
    machine.becomes("gpu A\n")
    assert only(read_devices()).name == "A"
    assert machine.probes() == []


@pytest.mark.parametrize("deadline_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_deadline_must_be_a_time(deadline_s: float) -> None:
    with pytest.raises(ValueError, match="deadline_s"):
        read_devices(deadline_s)

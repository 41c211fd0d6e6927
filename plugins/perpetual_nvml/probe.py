"""A program that reads every NVIDIA GPU once, through NVML, and prints one JSON document on stdout.

How it runs: `devices.py` starts it as a process of its own, because a call into a sick driver may never
return and then only the process can be ended. It therefore imports nothing of Perpetual. By hand:
`python -m perpetual_nvml.probe [LIMIT_S]`; after LIMIT_S seconds it ends itself, answered or not.

The document: `{driver, gpus: [{index, uuid, name, memory_total_bytes, memory_used_bytes, memory_free_bytes,
utilization, temperature_celsius, power_watts, compute_mode, processes: [{pid, memory_bytes, user, name}],
healthy, error, mig: [{uuid, memory_total_bytes, memory_used_bytes, processes, error}]}], reason, transient}`. What the
driver or the board cannot tell is null.

Source: NVML API reference, device queries; names of the calls as in the package nvidia-ml-py.
"""

# ruff: noqa: N802, N815 - NVML's own names

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypedDict, TypeVar, TypeVarTuple

__all__ = ["main", "survey"]

_Answer = TypeVar("_Answer")
_Arguments = TypeVarTuple("_Arguments")


class OwnerDocument(TypedDict):
    """The owner of a process."""

    user: str | None
    name: str | None


class ProcessDocument(OwnerDocument):
    """A process on a device."""

    pid: int
    memory_bytes: int | None


class MigDocument(TypedDict):
    """A MIG instance."""

    uuid: str
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    processes: list[ProcessDocument]
    error: str | None


class _Facts(TypedDict):
    index: int
    uuid: str | None
    name: str | None
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    memory_free_bytes: int | None
    utilization: int | None
    temperature_celsius: int | None
    power_watts: float | None
    compute_mode: str | None
    processes: list[ProcessDocument]
    mig: list[MigDocument]


class GpuDocument(_Facts):
    """A GPU."""

    healthy: bool
    error: str | None


class SurveyDocument(TypedDict):
    """The whole answer."""

    driver: str | None
    gpus: list[GpuDocument]
    reason: str | None
    transient: bool


class _Memory(Protocol):
    total: int
    used: int
    free: int


class _Rates(Protocol):
    gpu: int


class _Process(Protocol):
    pid: int
    gpuInstanceId: int
    usedGpuMemory: int | None


class _Nvml(Protocol):
    """The members of the untyped module `pynvml` that are used here; a handle is an opaque object of NVML."""

    NVMLError: type[Exception]
    NVMLError_ArgumentVersionMismatch: type[Exception]
    NVMLError_FunctionNotFound: type[Exception]
    NVMLError_NotFound: type[Exception]
    NVML_COMPUTEMODE_DEFAULT: int
    NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: int
    NVML_COMPUTEMODE_PROHIBITED: int
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH: int
    NVML_ERROR_DRIVER_NOT_LOADED: int
    NVML_ERROR_FUNCTION_NOT_FOUND: int
    NVML_ERROR_GPU_IS_LOST: int
    NVML_ERROR_LIBRARY_NOT_FOUND: int
    NVML_ERROR_LIB_RM_VERSION_MISMATCH: int
    NVML_ERROR_NOT_SUPPORTED: int
    NVML_ERROR_NO_PERMISSION: int
    NVML_ERROR_RESET_REQUIRED: int
    NVML_TEMPERATURE_GPU: int
    nvmlMemory_v2: int

    def nvmlInit(self) -> None: ...
    def nvmlSystemGetDriverVersion(self) -> str: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> object: ...
    def nvmlDeviceGetUUID(self, handle: object) -> str: ...
    def nvmlDeviceGetName(self, handle: object) -> str: ...
    def nvmlDeviceGetMemoryInfo(self, handle: object, version: int | None = None) -> _Memory: ...
    def nvmlDeviceGetUtilizationRates(self, handle: object) -> _Rates: ...
    def nvmlDeviceGetTemperature(self, handle: object, sensor: int) -> int: ...
    def nvmlDeviceGetPowerUsage(self, handle: object) -> int: ...
    def nvmlDeviceGetComputeMode(self, handle: object) -> int: ...
    def nvmlDeviceGetMigMode(self, handle: object) -> Sequence[int]: ...
    def nvmlDeviceGetMaxMigDeviceCount(self, handle: object) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: object, index: int) -> object: ...
    def nvmlDeviceGetGpuInstanceId(self, handle: object) -> int: ...


def survey() -> SurveyDocument:
    """Returns everything that NVML reports, as the document above. Never raises for what a driver or a GPU does."""
    try:
        import pynvml
    except ImportError as error:
        return _nothing(f"the Python package nvidia-ml-py cannot be imported: {error}")
    nvml: _Nvml = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return _nothing(_why_no_driver(nvml, error), transient=_may_pass(nvml, error))
    # No nvmlShutdown: the process ends at once, and a driver that answered may still hang there.
    driver = Attempts(nvml)
    version = driver.value(nvml.nvmlSystemGetDriverVersion)
    count = driver.value(nvml.nvmlDeviceGetCount, essential=True) or 0
    if not driver.healthy:
        return {**_nothing(f"the NVIDIA driver answered with an error: {driver.error}", transient=True),
                "driver": version}  # fmt: skip
    gpus = [_gpu(nvml, index) for index in range(count)]
    return {**_nothing(None if count else "the NVIDIA driver lists no GPU"), "driver": version, "gpus": gpus}


def _nothing(reason: str | None, *, transient: bool = False) -> SurveyDocument:
    return {"driver": None, "gpus": [], "reason": reason, "transient": transient}


def _may_pass(nvml: _Nvml, error: Exception) -> bool:
    """Returns whether a driver that could not be opened may open later without anyone's help."""
    lasting = {
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        nvml.NVML_ERROR_DRIVER_NOT_LOADED,
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
        nvml.NVML_ERROR_NO_PERMISSION,
        nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    }
    return getattr(error, "value", None) not in lasting


def _why_no_driver(nvml: _Nvml, error: Exception) -> str:
    sentences: dict[object, str] = {
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver on this machine: its NVML library was not found",
        nvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is installed but not loaded into the kernel",
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
            "the loaded NVIDIA driver and its library are of different versions (a restart settles it)"
        ),
    }
    code: object = getattr(error, "value", None)
    return sentences.get(code, f"the NVIDIA driver could not be opened: {error}")


class Attempts:
    """Makes the calls about one thing, so that a value that cannot be had does not take the others with it.

    A call that the board does not support or that needs more rights answers None and is no error, unless it
    is essential. Any other failure is kept in `problems`. `healthy` turns false when an essential call fails
    or NVML says that the GPU is lost or wants a reset; from then on no call is made, as each might take long.
    """

    def __init__(self, nvml: _Nvml) -> None:
        self.problems: list[str] = []
        self.healthy = True
        # The decoding error: nvidia-ml-py decodes what the driver wrote as UTF-8.
        self._failures = (nvml.NVMLError, UnicodeDecodeError)
        self._untold = {
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        }
        self._fatal = {nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED}

    def value(
        self, call: Callable[[*_Arguments], _Answer], *arguments: *_Arguments, essential: bool = False
    ) -> _Answer | None:
        """Returns the answer of `call(*arguments)`, or None when it fails."""
        if not self.healthy:
            return None
        try:
            return call(*arguments)
        except self._failures as error:
            code = getattr(error, "value", None)
            if essential or code in self._fatal:
                self.healthy = False
                self.problems.append(str(error))
            elif code not in self._untold:
                self.problems.append(f"{call.__name__.strip('_')}: {error}")
            return None

    @property
    def error(self) -> str | None:
        return "; ".join(self.problems) or None


def _gpu(nvml: _Nvml, index: int) -> GpuDocument:
    attempts = Attempts(nvml)
    gpu: _Facts = {
        "index": index,
        "uuid": None,
        "name": None,
        "memory_total_bytes": None,
        "memory_used_bytes": None,
        "memory_free_bytes": None,
        "utilization": None,
        "temperature_celsius": None,
        "power_watts": None,
        "compute_mode": None,
        "processes": [],
        "mig": [],
    }
    handle = attempts.value(nvml.nvmlDeviceGetHandleByIndex, index, essential=True)
    if handle is not None:
        _fill(nvml, attempts, handle, gpu)
    return {**gpu, "healthy": attempts.healthy, "error": attempts.error}


def _fill(nvml: _Nvml, attempts: Attempts, handle: object, gpu: _Facts) -> None:
    value = attempts.value
    gpu["uuid"] = value(nvml.nvmlDeviceGetUUID, handle, essential=True)  # nothing can be leased without it
    gpu["name"] = value(nvml.nvmlDeviceGetName, handle)
    memory = value(_memory, nvml, handle)
    if memory is not None:
        gpu["memory_total_bytes"] = memory.total
        gpu["memory_used_bytes"] = memory.used
        gpu["memory_free_bytes"] = memory.free
    rates = value(nvml.nvmlDeviceGetUtilizationRates, handle)
    gpu["utilization"] = rates.gpu if rates is not None and rates.gpu <= 100 else None
    gpu["temperature_celsius"] = value(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
    milliwatts = value(nvml.nvmlDeviceGetPowerUsage, handle)
    gpu["power_watts"] = None if milliwatts is None else milliwatts / 1000
    modes = {
        nvml.NVML_COMPUTEMODE_DEFAULT: "default",
        nvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited",
        nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive_process",
    }
    compute_mode = value(nvml.nvmlDeviceGetComputeMode, handle)
    gpu["compute_mode"] = None if compute_mode is None else modes.get(compute_mode)
    mode = value(nvml.nvmlDeviceGetMigMode, handle)
    is_cut = bool(mode and mode[0])
    found = _running(nvml, attempts, handle)
    if is_cut:
        parts = list(_mig_handles(nvml, attempts, handle))
        if not parts and attempts.healthy:
            attempts.problems.append("MIG is on and no instance is made: no program can use this GPU")
        gpu["mig"], entries = _mig_devices(nvml, attempts, parts, found)
        # A GPU cut by MIG tells its own list only to the privileged; the parts tell theirs to their users.
        found = entries if found is None else [*found, *entries]
    elif found is None and attempts.healthy:
        attempts.problems.append("the driver does not tell which processes use this GPU")
    gpu["processes"] = _processes(found or [])


def _memory(nvml: _Nvml, handle: object) -> _Memory:
    """Returns the query's second form where the driver has it: the first counts the driver's own reserve as used."""
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (nvml.NVMLError_FunctionNotFound, nvml.NVMLError_ArgumentVersionMismatch):
        return nvml.nvmlDeviceGetMemoryInfo(handle)


def _mig_handles(nvml: _Nvml, attempts: Attempts, handle: object) -> Iterable[object]:
    for place in range(attempts.value(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        part = attempts.value(_mig_handle, nvml, handle, place)
        if part is not None:
            yield part


def _mig_handle(nvml: _Nvml, handle: object, place: int) -> object | None:
    try:
        return nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
    except nvml.NVMLError_NotFound:
        return None  # places are numbered up to the most a board can hold; most stand empty


def _mig_devices(
    nvml: _Nvml, attempts: Attempts, parts: Iterable[object], on_device: list[_Process] | None
) -> tuple[list[MigDocument], list[_Process]]:
    """Returns the records of the instances that have a name (no run can be sent to others), and all their entries."""
    documents: list[MigDocument] = []
    entries: list[_Process] = []
    for part in parts:
        memory = attempts.value(_memory, nvml, part)
        own = _running(nvml, attempts, part)
        if own is None and on_device is not None:
            instance = attempts.value(nvml.nvmlDeviceGetGpuInstanceId, part)
            own = None if instance is None else [entry for entry in on_device if entry.gpuInstanceId == instance]
        entries += own or []
        uuid = attempts.value(nvml.nvmlDeviceGetUUID, part)
        if uuid is not None:
            documents.append(
                {
                    "uuid": uuid,
                    "memory_total_bytes": None if memory is None else memory.total,
                    "memory_used_bytes": None if memory is None else memory.used,
                    "processes": _processes(own or []),
                    "error": "the driver does not tell which processes use it" if own is None else None,
                }
            )
    return documents, entries


def _running(nvml: _Nvml, attempts: Attempts, handle: object) -> list[_Process] | None:
    """Returns NVML's entries for the processes on a device; None when NVML does not list its compute processes."""
    compute = attempts.value(_running_kind, nvml, "Compute", handle)
    if compute is None:
        return None
    graphics = attempts.value(_running_kind, nvml, "Graphics", handle)
    mps = attempts.value(_running_kind, nvml, "MPSCompute", handle)
    return [*compute, *(graphics or ()), *(mps or ())]


def _running_kind(nvml: _Nvml, kind: str, handle: object) -> list[_Process]:
    """Returns the processes of one kind, asked in the call's third form or else its second; the records are the same.

    Drivers before 510 and some of 535 lack the third form. The call without a number is no help there: it
    raises an error that is no NVMLError.
    """
    query = f"nvmlDeviceGet{kind}RunningProcesses"
    entries: list[_Process]
    try:
        entries = getattr(nvml, f"{query}_v3")(handle)
    except nvml.NVMLError_FunctionNotFound:
        entries = getattr(nvml, f"{query}_v2")(handle)
    return entries


def _processes(entries: Iterable[_Process]) -> list[ProcessDocument]:
    """Returns one record a process.

    One that computes and draws is in two lists with the same memory: it is counted once. One on several MIG
    instances has an entry for each: they are added up.
    """
    held: dict[int, dict[int, int | None]] = {}
    for entry in entries:
        places = held.setdefault(entry.pid, {})
        known = [m for m in (places.get(entry.gpuInstanceId), entry.usedGpuMemory) if m is not None]
        places[entry.gpuInstanceId] = max(known, default=None)
    return [{"pid": pid, "memory_bytes": _sum(places.values()), **_owner(pid)} for pid, places in sorted(held.items())]


def _sum(amounts: Iterable[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _owner(pid: int) -> OwnerDocument:
    """Returns user and name of a process.

    Null for one that has ended, that may not be looked at, or that lives outside this container (NVML numbers
    processes as the host does).
    """
    import psutil

    try:
        process = psutil.Process(pid)
        return {"user": _printable(process.username()), "name": _printable(process.name())}
    except psutil.Error:
        return {"user": None, "name": None}


def _printable(text: str) -> str:
    """Returns `text` without lone surrogates: they stand for bytes that are no UTF-8, which no JSON file can hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _limit(limit_s: float) -> None:
    """Ends this process after `limit_s` seconds even inside a call that hangs: its parent may be gone."""
    if sys.platform != "win32":
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_s)


def main(arguments: list[str]) -> int:
    """Prints the document; `arguments` may hold the seconds after which to give up."""
    if arguments:
        _limit(float(arguments[0]))
    sys.stdout.write(json.dumps(survey(), allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

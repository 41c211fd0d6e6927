"""NVIDIA GPUs as this machine's driver tells them, read with a deadline: `NvmlBackend` for the `gpus` slot.

Only the factory `build` is imported from outside, by the kernel once the configuration has chosen `nvml`. The
driver itself is asked only by `probe.py`, in a process that is ended when it does not answer.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from perpetual.api import Gpu, GpuBackend, GpuProcess, GpuReading, MigDevice

__all__ = ["DEADLINE_S", "NvmlBackend", "build", "read_devices"]

DEADLINE_S = 5.0

PROBE = Path(__file__).with_name("probe.py")
_LIBRARY = "libnvidia-ml.so.1"
_LINKER_CACHE = Path("/etc/ld.so.cache")
_REAP_S = 0.5  # a killed process goes in milliseconds, or not at all: stuck inside the driver


class NvmlBackend(GpuBackend):
    """The slot's backend for NVIDIA GPUs."""

    def read(self, deadline_s: float = DEADLINE_S) -> GpuReading:
        """Implements `read_devices`."""
        return read_devices(deadline_s)


def build(options: Mapping[str, object]) -> GpuBackend:
    """Builds the backend; NVML needs no options."""
    return NvmlBackend()


def read_devices(deadline_s: float = DEADLINE_S, *, probe: Path = PROBE) -> GpuReading:
    """Reads all GPUs once. Answers within `deadline_s` + 1 seconds whatever the driver does.

    No driver, a broken one and one that does not answer are no exceptions but a `GpuReading` without GPUs and
    with a `reason`. `probe` is the program that asks the driver. Blocks its thread, so an event loop calls it in
    another. Raises `ValueError` for a deadline that is not a positive, finite number of seconds.
    """
    if not 0 < deadline_s < math.inf:
        raise ValueError(f"deadline_s must be positive and finite, not {deadline_s}")
    if _library_is_absent():
        return _nothing("no NVIDIA driver on this machine: its NVML library was not found")
    stuck = _stuck_pid()
    if stuck is not None:
        return _unanswered(f"the NVIDIA driver still holds an earlier question (process {stuck} cannot be ended)")
    try:
        output = _ask(deadline_s, probe)
    except subprocess.TimeoutExpired:
        return _unanswered(f"the NVIDIA driver did not answer within {deadline_s:g} s")
    except (OSError, _ProbeError) as error:
        return _unanswered(f"the NVIDIA driver could not be asked: {error}")
    return _parsed(output)


def _nothing(reason: str) -> GpuReading:
    return GpuReading(driver=None, gpus=(), reason=reason)


def _unanswered(reason: str) -> GpuReading:
    """Returns a reading without an answer: the machine may well have devices."""
    return GpuReading(driver=None, gpus=(), reason=reason, transient=True)


def _library_is_absent() -> bool:
    """Returns whether NVML is certainly not installed, found out without loading it and without another process.

    Where the usual places do not name the library, the dynamic linker has the last word: for a missing one it
    answers at once, and should it find one after all, that one is merely loaded and the probe asks it.
    """
    if sys.platform == "win32":
        return False
    folders = os.environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
    if any(folder and os.path.lexists(os.path.join(folder, _LIBRARY)) for folder in folders):
        return False
    with suppress(OSError):  # not every system keeps this cache
        if _LIBRARY.encode() in _LINKER_CACHE.read_bytes():
            return False
    import ctypes

    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return True
    return False


class _ProbeError(Exception):
    """The probe ended without an answer."""


def _ask(deadline_s: float, probe: Path) -> bytes:
    """Returns the probe's output. Raises `TimeoutExpired`, `_ProbeError`, `OSError` when it cannot be started."""
    until = time.monotonic() + deadline_s
    # -P: nothing from the probe's own folder may stand in for a module of the standard library.
    command = [sys.executable, "-P", str(probe), str(deadline_s + 1)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # its own group, so that ending it ends whatever it may have started
    )
    try:
        output, complaint = process.communicate(timeout=max(0.0, until - time.monotonic()))
    finally:
        _end(process)
    if process.returncode != 0:
        lines = complaint.decode("utf-8", "replace").strip().splitlines()
        raise _ProbeError(f"the probe ended with status {process.returncode}{': ' + lines[-1] if lines else ''}")
    return output


# Probes that outlived their kill. While there is one no other is started: each would hang in the same place.
_stuck: list[subprocess.Popen[bytes]] = []


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the probe's group unless it has ended, waiting no longer than `_REAP_S`."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(timeout=_REAP_S)
        except subprocess.TimeoutExpired:
            _stuck.append(process)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _stuck_pid() -> int | None:
    for process in tuple(_stuck):
        if process.poll() is None:
            return process.pid
        with suppress(ValueError):  # another thread was first
            _stuck.remove(process)
    return None


def _parsed(output: bytes) -> GpuReading:
    try:
        document = json.loads(output)
        gpus = tuple(_gpu(gpu) for gpu in document["gpus"])
        return GpuReading(document["driver"], gpus, document["reason"], transient=document["transient"])
    except (ValueError, KeyError, TypeError) as error:
        # The probe's file is read anew each time: an upgrade under a running process may change its answer.
        return _unanswered(f"the probe's answer cannot be read ({error!r})")


def _gpu(fields: dict[str, Any]) -> Gpu:
    mig = tuple(MigDevice(**{**part, "processes": _processes(part["processes"])}) for part in fields["mig"])
    return Gpu(**{**fields, "processes": _processes(fields["processes"]), "mig": mig})


def _processes(entries: list[dict[str, Any]]) -> tuple[GpuProcess, ...]:
    return tuple(GpuProcess(**entry) for entry in entries)

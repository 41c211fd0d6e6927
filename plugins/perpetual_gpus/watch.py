"""Whether live runs use the GPUs that they were given, and those only.

A program may set CUDA_VISIBLE_DEVICES itself, and a device may fall off its bus: the lease alone does not know. Nothing
is ended for it. Used by `placement.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from perpetual.api import Gpu, GpuProcess, GpuReading, LiveRun, RunNote
from perpetual_gpus.owners import Owner

__all__ = ["notes_of"]


def notes_of(runs: Sequence[LiveRun], reading: GpuReading, owners: Mapping[int, Owner]) -> list[RunNote]:
    """Returns what processes of these runs use without a lease, and which leased devices are lost."""
    return [
        RunNote(run.run_id, text) for run in runs for text in (*_strays(run, reading, owners), *_losses(run, reading))
    ]


def _strays(run: LiveRun, reading: GpuReading, owners: Mapping[int, Owner]) -> Iterator[str]:
    for name, uuid, processes in (place for gpu in reading.gpus for place in _places(gpu)):
        used = any(process.pid in owners and owners[process.pid].run_id == run.run_id for process in processes)
        if used and uuid not in run.gpus:
            yield f"uses {name} ({uuid}), which it did not lease"


def _places(gpu: Gpu) -> Iterator[tuple[str, str | None, Sequence[GpuProcess]]]:
    """Yields the units of a device with their processes."""
    if not gpu.mig:
        yield f"GPU {gpu.index}", gpu.uuid, gpu.processes
    for part in gpu.mig:
        yield f"an instance of GPU {gpu.index}", part.uuid, part.processes


def _losses(run: LiveRun, reading: GpuReading) -> Iterator[str]:
    gpu_of = {gpu.uuid: gpu for gpu in reading.gpus} | {part.uuid: gpu for gpu in reading.gpus for part in gpu.mig}
    # Runs that an earlier version started have no numbers.
    for uuid, number in zip_longest(run.gpus, run.numbers):
        name = f"the GPU {uuid}" if number is None else f"GPU {number} ({uuid})"
        gpu = gpu_of.get(uuid)
        if gpu is None:
            # A lost device does not even report its uuid.
            last = reading.gpus[number].error if number is not None and number < len(reading.gpus) else None
            yield f"{name}, which it leased, is gone: {last or reading.reason or 'the driver does not list it'}"
        elif not gpu.healthy:
            yield f"{name}, which it leased, is sick: {gpu.error}"

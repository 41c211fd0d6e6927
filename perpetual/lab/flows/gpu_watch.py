"""Whether live runs use the GPUs that they were given, and those only: what differs is noted beside the run, once.

A program may set CUDA_VISIBLE_DEVICES itself, and a device may fall off its bus: the lease alone does not know. Nothing
is ended for it. Used by `scan`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from weakref import WeakKeyDictionary

from perpetual.lab.context import Context
from perpetual.lab.flows import Desks
from perpetual.lab.flows.devices import Devices, places_gpus
from perpetual.records import Json
from perpetual.slots.gpu import Gpu, GpuProcess, Reading
from perpetual.slots.store import Document

__all__ = ["verify_devices"]

EVERY_S = 15.0  # whoever waits for runs scans each second, and a look costs a process of its own
_looked: WeakKeyDictionary[Context, float] = WeakKeyDictionary()


def verify_devices(desks: Desks, devices: Devices) -> None:
    """Notes beside each live run what its processes use without a lease, and which leased device is lost.

    The driver is asked only if a run has leased a device, and no more often than each `EVERY_S` by one lab.
    """
    running = desks.ctx.store.find("run", status="running")
    if not any(run.body["gpus"] for run in running) or places_gpus(desks):
        return
    now_s = time.monotonic()
    if now_s - _looked.get(desks.ctx, -EVERY_S) < EVERY_S:
        return
    if not devices.reading.transient:  # else nothing was seen, and nothing is said
        for run in running:
            _note(desks, run, [*_strays(run, devices), *_losses(run, devices.reading)])
    _looked[desks.ctx] = now_s


def _strays(run: Document, devices: Devices) -> Iterator[str]:
    for name, uuid, processes in (place for gpu in devices.reading.gpus for place in _places(gpu)):
        used = any(process.pid in devices.owners and devices.owners[process.pid].run_id == run.id
                   for process in processes)  # fmt: skip
        if used and uuid not in run.body["gpus"]:
            yield f"uses {name} ({uuid}), which it did not lease"


def _places(gpu: Gpu) -> Iterator[tuple[str, str | None, Sequence[GpuProcess]]]:
    """The units of a device with their processes."""
    if not gpu.mig:
        yield f"GPU {gpu.index}", gpu.uuid, gpu.processes
    for part in gpu.mig:
        yield f"an instance of GPU {gpu.index}", part.uuid, part.processes


def _losses(run: Document, reading: Reading) -> Iterator[str]:
    gpu_of = {gpu.uuid: gpu for gpu in reading.gpus} | {part.uuid: gpu for gpu in reading.gpus for part in gpu.mig}
    # Runs that an earlier version started have no numbers.
    for uuid, number in zip_longest(run.body["gpus"], run.body.get("gpu_numbers", ())):
        name = f"the GPU {uuid}" if number is None else f"GPU {number} ({uuid})"
        gpu = gpu_of.get(uuid)
        if gpu is None:
            # A lost device does not even tell its uuid.
            last = reading.gpus[number].error if number is not None and number < len(reading.gpus) else None
            yield f"{name}, which it leased, is gone: {last or reading.reason or 'the driver lists it no more'}"
        elif not gpu.healthy:
            yield f"{name}, which it leased, is sick: {gpu.error}"


def _note(desks: Desks, run: Document, texts: Sequence[str]) -> None:
    source = desks.ctx.config["gpus"]
    if not _new(run, texts, source):
        return
    with desks.ctx.store.transaction() as tx:
        fresh = desks.ctx.need("run", run.id)
        added = _new(fresh, texts, source)
        if fresh.body["status"] != "running" or not added:
            return  # another process was quicker
        desks.runs.annotate(tx, fresh, added)
        for annotation in added:
            desks.ctx.emit(tx, "run_annotated", run.id, annotation)


def _new(run: Document, texts: Sequence[str], source: str) -> list[Json]:
    known = {item["text"] for item in run.body.get("annotations", ()) if item["kind"] == "gpu"}
    return [{"kind": "gpu", "text": text, "source": source} for text in texts if text not in known]

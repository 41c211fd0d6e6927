"""Devices as `perpetual gpu-status` shows them. Used by `placement.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perpetual.api import DeviceStatus, Gpu, GpuClaim, GpuProcess, GpuProcessStatus, LiveRun
from perpetual_gpus.leasable import Unit
from perpetual_gpus.owners import Owner, processes_of

__all__ = ["shown_device"]


def shown_device(gpu: Gpu, units: Sequence[Unit], owners: Mapping[int, Owner], live: Sequence[LiveRun]) -> DeviceStatus:
    """Returns one device of the document; `units` are its leasable parts, in its own order."""
    whole = None if gpu.mig else units[0]
    run_ids = {run.run_id for run in live if {gpu.uuid, *(part.uuid for part in gpu.mig)} & {*run.gpus}}
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "memory_total_bytes": gpu.memory_total_bytes,
        "memory_used_bytes": gpu.memory_used_bytes,
        "memory_free_bytes": gpu.memory_free_bytes,
        "utilization": gpu.utilization,
        "temperature_celsius": gpu.temperature_celsius,
        "power_watts": gpu.power_watts,
        "compute_mode": gpu.compute_mode,
        "processes": _processes(processes_of(gpu), owners),
        "mig": [
            {
                "uuid": part.uuid,
                "memory_total_bytes": part.memory_total_bytes,
                "memory_used_bytes": part.memory_used_bytes,
                "processes": _processes(part.processes, owners),
                "run_ids": [hold.run_id for hold in unit.holds if hold.claim is None],
                "claims": _claims(unit),
                "state": _state(unit),
                "note": _note(unit),
            }
            for part, unit in zip(gpu.mig, units if gpu.mig else (), strict=True)
        ],
        "run_ids": sorted(run_ids, key=lambda id: int(id[1:])),
        "claims": [claim for unit in units for claim in _claims(unit)],
        "healthy": gpu.healthy,
        "error": gpu.error,
        "state": "cut" if whole is None else _state(whole),
        "note": gpu.error if whole is None else _note(whole),
    }


def _processes(processes: Sequence[GpuProcess], owners: Mapping[int, Owner]) -> list[GpuProcessStatus]:
    return [
        {
            "pid": one.pid,
            "memory_bytes": one.memory_bytes,
            "user": one.user,
            "name": one.name,
            "owner": "foreign" if is_other else owners[one.pid].kind,
            "run_id": None if is_other else owners[one.pid].run_id,
            "claim": owners[one.pid].run_id if is_other else None,
        }
        for one in processes
        for is_other in (owners[one.pid].kind == "other",)
    ]


def _claims(unit: Unit) -> list[GpuClaim]:
    """Returns what runs of other projects hold of a unit."""
    return [
        {"project": hold.claim.project, "run_id": hold.claim.run_id, "memory_bytes": hold.memory_bytes}
        for hold in unit.holds
        if hold.claim is not None
    ]


def _state(unit: Unit) -> str:
    if unit.is_sick:
        return "sick"
    if unit.never:
        return "excluded"
    return "leased" if unit.holds else "used" if unit.obstacle else "free"


def _note(unit: Unit) -> str | None:
    return unit.obstacle if unit.is_sick else unit.never or unit.obstacle

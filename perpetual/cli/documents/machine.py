"""Settings, GPUs, the doctor."""

from __future__ import annotations

from typing import Any

from perpetual.cli.documents.typed import TypedDict


class Setting(TypedDict):
    """A key in force: its value and where that comes from (flag, environment, project, user, default)."""

    key: str
    value: Any
    origin: str
    meaning: str


class Process(TypedDict):
    """A process that holds memory of a device; `owner` is run, ended, foreign or unknown, `run_id` its run, if ours.

    `claim` is its run, with the project, if it is of another project's run: `owner` is then foreign.
    """

    pid: int
    memory_bytes: int | None
    user: str | None
    name: str | None
    owner: str
    run_id: str | None
    claim: str | None


class GpuClaim(TypedDict):
    """The lease of a run of another project of this user; without `memory_bytes` it has the device alone."""

    project: str
    run_id: str
    memory_bytes: int | None


class MigPart(TypedDict):
    """A part of a device that was cut into instances; `state` and `note` as of a device."""

    uuid: str
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    processes: list[Process]
    run_ids: list[str]
    claims: list[GpuClaim]
    state: str
    note: str | None


class Device(TypedDict):
    """One GPU; `utilization` is percent, `run_ids` are our live runs that hold it, `claims` those of other projects.

    `state` is free, leased, used, excluded, sick or cut (into instances); `note` says why no further run gets it.
    """

    index: int
    uuid: str | None
    name: str | None
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    memory_free_bytes: int | None
    utilization: float | None
    temperature_celsius: float | None
    power_watts: float | None
    compute_mode: str | None
    processes: list[Process]
    mig: list[MigPart]
    run_ids: list[str]
    claims: list[GpuClaim]
    healthy: bool
    error: str | None
    state: str
    note: str | None


class GpuStatus(TypedDict):
    """The machine's GPUs; `reason` says why there are none, `transient` that it may pass by itself."""

    driver: str | None
    gpus: list[Device]
    reason: str | None
    transient: bool


class DoctorCheck(TypedDict):
    """One thing looked at; `ok` is null where it does not apply."""

    check: str
    ok: bool | None
    detail: str
    hint: str | None


class Doctor(TypedDict):
    """What could go wrong with this machine and project."""

    ok: bool
    checks: list[DoctorCheck]


class Completion(TypedDict):
    """A shell's completion script."""

    shell: str
    script: str

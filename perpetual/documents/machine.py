"""Settings, GPUs, the doctor."""

from __future__ import annotations

from typing import Any

from perpetual.documents import TypedDict


class Setting(TypedDict):
    """A key in force: its value and where that comes from (flag, environment, project, user, default)."""

    key: str
    value: Any
    origin: str
    meaning: str


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

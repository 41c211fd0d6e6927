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


class HelpLine(TypedDict):
    """A command and what it does."""

    name: str
    summary: str


class HelpTopic(TypedDict):
    """The commands of a topic."""

    topic: str
    title: str
    commands: list[HelpLine]


class Help(TypedDict):
    """The commands by topic; or the `text` of a command's help, and no topic."""

    topics: list[HelpTopic]
    text: str | None

"""Trust in a project: items that count here, and items held."""

from __future__ import annotations

from typing import Any, Literal

from perpetual.documents import TypedDict


class Held(TypedDict):
    """One thing that does not count here; `kind` is approval, queued_run, setting, scaffold or owner."""

    kind: str
    subject: str
    why: str
    detail: Any


class Trust(TypedDict):
    """What a person here accepts of a project; `digest` names exactly what is held."""

    project: str
    path: str
    state: Literal["own", "trusted", "held"]
    why: str | None
    digest: str
    held: list[Held]


class Trusted(TypedDict):
    """A project that this user created or accepted; `is_there` says whether it still is where it was."""

    project_id: str
    path: str
    state: str
    at: str
    is_there: bool


class TrustRevoked(TypedDict):
    """The project that is held from now on."""

    path: str


class HeldLine(TypedDict):
    """One held thing in the status."""

    kind: str
    subject: str
    why: str


class TrustNow(TypedDict):
    """Trust in the status; `held` is cut off after twenty, `held_total` counts them all."""

    state: Literal["own", "trusted", "held"]
    why: str | None
    held: list[HeldLine]
    held_total: int

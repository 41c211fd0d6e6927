"""Documents of `perpetual adopt`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["Adoption", "AdoptionBudget", "AdoptionKnown", "AdoptionSkipped"]


class AdoptionKnown(TypedDict):
    """How much of it was in the record before."""

    hypotheses: int
    experiments: int
    runs: int
    notes: int


class AdoptionSkipped(TypedDict):
    """What was not taken over."""

    what: str
    why: str


class AdoptionBudget(TypedDict):
    """What the earlier runs used, as far as it is known, and what of it was debited here."""

    gpu_hours: float
    run_hours: float
    debited_gpu_hours: float
    limit_gpu_hours: float | None


class Adoption(TypedDict):
    """What was taken over of earlier work; the counts are of what is new, `known` of what was there already.

    `moved` is `{from, to}` where another tool's folder was moved aside. `is_complete` is false where a limit left more.
    """

    source: str
    kind: str
    name: str
    project: str
    path: str
    moved: dict[str, str] | None
    hypotheses: int
    experiments: int
    runs: int
    evidence: int
    notes: int
    known: AdoptionKnown
    skipped: list[AdoptionSkipped]
    budget: AdoptionBudget
    is_complete: bool
    dry_run: bool
    next: list[str]

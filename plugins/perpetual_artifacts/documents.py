"""The document of `perpetual gc`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["Gc", "Removal"]


class Removal(TypedDict):
    """One folder of a run."""

    run_id: str
    what: str  # artifacts or checkpoints
    path: str  # below the project's folder
    size_bytes: int
    files: int
    why: str


class Gc(TypedDict):
    """What was removed, or would be."""

    removed: list[Removal]
    freed_bytes: int
    kept: dict[str, int]  # what stays and why: number of folders by reason
    dry_run: bool

"""The document of `perpetual sweep pruned`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["SweepPruned"]


class SweepPruned(TypedDict):
    """The settings of a sweep that a pruner would not run any further."""

    sweep_id: str
    pruner: str
    settings: list[str]

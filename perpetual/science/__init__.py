"""The scientific core: what evidence is worth, which run to propose next, which memory earned its place.

Pure functions of the standard library: no I/O, no clock, no global state, and nothing here imports another
part of Perpetual, so each rule can be benched in a simulated world. `perpetual.lab`, the loop and the scorer
and gate plugins import from here; `perpetual.science.stdio_server` answers other languages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual.science.evidence import confidence
    from perpetual.science.information import propose, score_candidates
    from perpetual.science.judgement import judge, judge_many
    from perpetual.science.outcomes import outlook
    from perpetual.science.replay import gate
    from perpetual.science.strategies import STRATEGIES
    from perpetual.science.sweep import best

__all__ = ["STRATEGIES", "best", "confidence", "judge", "judge_many", "outlook", "propose", "score_candidates", "gate"]

_HOMES = {
    "STRATEGIES": "strategies",
    "best": "sweep",
    "confidence": "evidence",
    "gate": "replay",
    "judge": "judgement",
    "judge_many": "judgement",
    "outlook": "outcomes",
    "propose": "information",
    "score_candidates": "information",
}


def __getattr__(name: str) -> object:
    """Imports the module of a name at its first use: a list of hypotheses computes nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found

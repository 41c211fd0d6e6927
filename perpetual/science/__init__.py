"""The scientific core: what evidence is worth, what is expected of a run, which memory earned its place.

Pure functions of the standard library: no I/O, no clock, no global state, and nothing here imports another
part of Perpetual, so each rule can be benched in a simulated world. `perpetual.lab`, the loop and the scorer
and gate plugins import from here; `perpetual.science.stdio_server` answers other languages.

Which run to propose next is for the plugin `scorers`, which memory helps for `replay`. Their modules are reached under
names of this package too: those that the distribution declares as entry points of the group `perpetual.science`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from perpetual.science.evidence import confidence
    from perpetual.science.judgement import judge, judge_many
    from perpetual.science.outcomes import outlook
    from perpetual_replay.betting import gate
    from perpetual_scorers.proposing.information import propose, score_candidates
    from perpetual_scorers.proposing.strategies import STRATEGIES
    from perpetual_scorers.proposing.sweep import best

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


def of_plugin(name: str) -> ModuleType:
    """Returns the module that a bundled plugin brings under a name of this package, such as `perpetual.science.sweep`.

    Raises:
        ImportError: where the installed distribution does not declare it.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        points = distribution("perpetual-lab").entry_points.select(group=__name__, name=name.rpartition(".")[2])
    except PackageNotFoundError as problem:
        raise ImportError(f"{name} is in a plugin of perpetual-lab, which is not installed", name=name) from problem
    for point in points:
        return import_module(point.module)
    raise ImportError(f"no plugin brings {name}; pip install --force-reinstall perpetual-lab", name=name)

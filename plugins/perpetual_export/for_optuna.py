"""A callback for Optuna: each finished trial becomes a line of the run's metrics.

study.optimize(objective, n_trials=50, callbacks=[TrialLogger("val_loss")])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from perpetual_export.run_log import log

__all__ = ["Study", "Trial", "TrialLogger"]


class Trial(Protocol):
    """What is read of a finished trial."""

    number: int
    state: Enum
    params: Mapping[str, object]

    @property
    def values(self) -> Sequence[float] | None:
        """Returns its objectives; None where it has none."""


class Study(Protocol):
    """What is read of a study."""

    @property
    def directions(self) -> Sequence[Enum]:
        """Returns which way each objective is better."""


class TrialLogger:
    """Logs `trial_NAME` and the parameters of each trial, and the best value so far as `best_NAME`.

    The best of many trials is too good: it was chosen for its value. Measure the chosen setting in new runs.
    """

    def __init__(self, *names: str) -> None:
        self._names = names or ("value",)
        self._best: list[float] | None = None

    def __call__(self, study: Study, trial: Trial) -> None:
        """Logs one trial, as Optuna calls it."""
        line: dict[str, object] = {"trial_state": trial.state.name.lower()}
        line |= {f"param_{name}": value for name, value in trial.params.items()}
        values = trial.values if trial.state.name == "COMPLETE" else None
        if values is not None:
            line |= {f"trial_{self._name(place)}": value for place, value in enumerate(values)}
            if len(values) == 1:
                is_max = study.directions[0].name == "MAXIMIZE"
                if self._best is None or (values[0] > self._best[0] if is_max else values[0] < self._best[0]):
                    self._best = [*values]
                line[f"best_{self._name(0)}"] = self._best[0]
        log(step=trial.number, **line)

    def _name(self, place: int) -> str:
        return self._names[place] if place < len(self._names) else f"value_{place}"

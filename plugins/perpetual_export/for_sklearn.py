"""Logs what scikit-learn's model selection measured; needs nothing of scikit-learn itself.

from sklearn.model_selection import cross_validate
from perpetual_export.for_sklearn import log_folds

log_folds(cross_validate(model, X, y, scoring=["accuracy"]))
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from perpetual_export.run_log import log

__all__ = ["Search", "log_folds", "log_search"]


class Search(Protocol):
    """A fitted `GridSearchCV`, `RandomizedSearchCV` or one like them."""

    cv_results_: Mapping[str, Iterable[object]]
    best_index_: int


def log_folds(scores: Mapping[str, Iterable[object]]) -> dict[str, float]:
    """Logs the answer of `cross_validate`: each fold as a step, then mean and sd over the folds; returns the last line.

    `test_accuracy` becomes `accuracy` and `accuracy_sd`. Folds share their training data, so the sd is no measure of
    the noise between seeds: replicates are.
    """
    table = {name: [*map(_number, values)] for name, values in scores.items()}
    tests = {name.removeprefix("test_"): values for name, values in table.items() if name.startswith("test_")}
    for fold in range(max(map(len, tests.values()), default=0)):
        log(step=fold, **{f"fold_{name}": values[fold] for name, values in tests.items()})
    found: dict[str, float] = {}
    for name, values in tests.items():
        mean = found[name] = math.fsum(values) / len(values) if values else math.nan
        if len(values) > 1:
            found[f"{name}_sd"] = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    log(**found)
    return found


def log_search(search: Search, *, score: str = "score") -> dict[str, object]:
    """Logs a fitted search: each candidate as a step with its parameters, then the best; returns the last line.

    `best_score` is the largest of many and so too good: measure the chosen setting on other data, or in new runs.

    Args:
        score: the scorer's name, where the search has several.
    """
    results = search.cv_results_
    means = [*map(_number, results[f"mean_test_{score}"])]
    settings = [dict(one) if isinstance(one, Mapping) else {} for one in results["params"]]
    for number, (mean, setting) in enumerate(zip(means, settings, strict=True)):
        log(step=number, **{f"candidate_{score}": mean}, **{f"param_{name}": value for name, value in setting.items()})
    best = search.best_index_
    found: dict[str, object] = {f"best_{score}": means[best], "candidates": len(means)}
    found |= {f"best_{name}": value for name, value in settings[best].items()}
    log(**found)
    return found


def _number(value: object) -> float:
    return float(value)  # type: ignore[arg-type]  # of numpy

"""Answer of every reader: one source of earlier work, recognised, and streamed as items.

Imported by the readers and by `detect.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from perpetual.api import UsageError
from perpetual.toolkit.import_records import ImportedExperiment, ImportedHypothesis, ImportedNote, ImportedRun

__all__ = [
    "AGENT",
    "AUTORESEARCH",
    "KINDS",
    "MLFLOW",
    "Item",
    "Replicate",
    "Skipped",
    "Source",
    "Wanted",
    "decided_by",
    "direction_of",
]

AGENT, AUTORESEARCH, MLFLOW = "perpetual-agent", "autoresearch", "mlflow"
KINDS = (AGENT, AUTORESEARCH, MLFLOW)

_DOWN = (
    "bpb",
    "loss",
    "ppl",
    "perplexity",
    "err",
    "error",
    "rmse",
    "mse",
    "mae",
    "wer",
    "cer",
    "nll",
    "fid",
    "latency",
)
_UP = ("acc", "accuracy", "f1", "auc", "bleu", "rouge", "psnr", "ssim", "reward", "map", "r2")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of a source that is not taken over, and why."""

    what: str
    why: str


Item = ImportedHypothesis | ImportedExperiment | ImportedRun | ImportedNote | Skipped


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person asked for: names to take, and the metric that decides."""

    names: Sequence[str] = ()
    metric: str | None = None
    direction: str | None = None


class Source:
    """Earlier work at one place. `items` may be read more than once, and holds little of it in memory."""

    kind: str
    path: Path
    name: str

    def opened(self) -> AbstractContextManager[object]:
        """Holds open what `items` reads from; they, and what they lead to, are read inside."""
        return nullcontext()

    def check(self) -> None:
        """Raises before anything is taken if the source as a whole cannot be read, or what was asked for is not there.

        Raises:
            CorruptData: for a damaged file.
            UsageError: for a name or metric that the source does not have.
        """
        raise NotImplementedError

    def items(self) -> Iterator[Item]:
        """Yields everything, in the order hypothesis, experiment, run; what is left out as `Skipped`."""
        raise NotImplementedError

    def best(self) -> list[Replicate]:
        """Returns what is worth running again here, the first one the baseline; empty where nothing says so."""
        return []


@dataclass(frozen=True, slots=True)
class Replicate:
    """An adopted experiment that should be measured again."""

    key: str  # of the experiment
    title: str
    value: float
    metric: str
    direction: str
    commit: str | None
    is_baseline: bool
    command: str | None = None


def decided_by(wanted: Wanted) -> tuple[str | None, str | None]:
    """Returns the metric that was asked for, and which way it is better; (None, None) where none was.

    Raises:
        UsageError: for one of the two without the other, where the name does not say it.
    """
    if wanted.metric is None:
        if wanted.direction is not None:
            raise UsageError("--direction belongs to a metric", hint="--metric NAME --direction max or min")
        return None, None
    direction = wanted.direction or direction_of(wanted.metric)
    if direction is None:
        raise UsageError(
            f"nothing says whether more or less {wanted.metric} is better", hint="--direction max or --direction min"
        )
    return wanted.metric, direction


def direction_of(metric: str) -> str | None:
    """Returns which way a metric of that name is better, where the name says so."""
    words = re.split(r"[^a-z0-9]+", metric.lower())
    if any(word in _DOWN for word in words):
        return "min"
    return "max" if any(word in _UP for word in words) else None

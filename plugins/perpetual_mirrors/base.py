"""The slot `mirror`: a tracker to which runs are copied.

The contract
------------
*Light.* A factory imports nothing heavy and contacts nothing: each scan may build the part. `open` does both.

*Push.* `push` returns once the whole run is in the tracker for good, and raises if it is not. It is called again with
the same `key` after a crash, and when something about the run has changed: the tracker then holds that run once, as it
was pushed last. The run itself is not changed.

*Keys.* `keys` names the runs that the tracker holds whole, each as often as it is there.

*Place.* All files lie below the folder that `open` is given. A mirror that leaves the machine takes its address from an
option with `secret=True`, which a project's file alone cannot set.

*Failure.* A mirror raises whatever it likes. Its error is noted, and the run is pushed again later.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

__all__ = ["Mirror", "MirroredCurve", "MirroredRun", "Scalar", "safe_name"]

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class MirroredCurve:
    """Finite values of a metric at whole steps, in order, each step once; `axis` names the steps (`step`, `epoch`)."""

    axis: str
    steps: Sequence[int]
    values: Sequence[float]
    times_s: Sequence[float]  # POSIX seconds


@dataclass(frozen=True, slots=True)
class MirroredRun:
    """What is pushed of a run that has ended. Texts are without secrets and control characters.

    `key` is the same at each push, and no other run of any project has it. `metrics` are the values that count for the
    run; a curve may end elsewhere. `claim` says what the record concludes about the hypothesis, None if nothing yet.
    """

    key: str
    project: str
    run: str
    experiment: str
    title: str
    status: str  # done, failed, killed, timeout or lost
    started_s: float
    ended_s: float
    tags: Sequence[str] = ()
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    facts: Mapping[str, Scalar] = field(default_factory=dict)  # seed, git_commit, duration_s, gpu_hours ...
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, MirroredCurve] = field(default_factory=dict)
    claim: str | None = None
    notes: Sequence[str] = ()  # what is to be known beside the curves

    @property
    def name(self) -> str:
        """Returns how the run is called in a list: `r12 e3 warm-up helps`."""
        return f"{self.run} {self.experiment} {self.title}".strip()[:120]

    @property
    def text(self) -> str:
        """Returns the claim and the notes, a line each."""
        return "\n".join([*([self.claim] if self.claim else []), *self.notes])

    def finals(self) -> dict[str, float]:
        """Returns the metrics that no curve ends with, by the name to log them under."""
        found = {}
        for name, value in self.metrics.items():
            curve = self.curves.get(name)
            if curve is None or not curve.values:
                found[name] = value
            elif curve.values[-1] != value:
                found[f"final/{name}"] = value
        return found

    def digest(self) -> str:
        """Returns a checksum of all that is pushed."""
        return _checksum(asdict(self))

    def series_digest(self) -> str:
        """Returns a checksum of parameters and numbers, which some trackers cannot change afterwards."""
        return _checksum([dict(self.parameters), self.finals(), asdict(self)["curves"]])


def _checksum(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True, default=list).encode("utf-8", "replace")).hexdigest()[:32]


class Mirror(ABC):
    """One tracker; see the contract at the top of this module."""

    def open(self, folder: Path) -> None:  # noqa: B027 - most have something to open, a mirror of files need not
        """Imports and connects; `folder` exists and is this mirror's own. Called once, before anything is pushed."""

    @abstractmethod
    def push(self, run: MirroredRun) -> None:
        """Writes the run to the tracker, in the place of an earlier push of the same key."""

    @abstractmethod
    def keys(self) -> Sequence[str]:
        """Returns the keys of the runs that the tracker holds whole."""

    def close(self) -> None:  # noqa: B027 - as above
        """Lets go of what `open` took; called also where `open` or `push` has failed."""


def safe_name(name: str, allowed: str, longest: int = 200) -> str:
    """Returns a name in the characters that a tracker takes; one that was changed ends with a checksum of the whole.

    Args:
        allowed: a class of characters as in a regular expression, without its brackets; `^` before those that it lacks.
    """
    others = allowed[1:] if allowed.startswith("^") else f"^{allowed}"
    found = re.sub(f"[{others}]", "_", name)[:longest]
    if found == name and name:
        return name
    return f"{found[: longest - 9]}_{sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"

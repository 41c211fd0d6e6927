"""The analysis slots: metric readers, analysers and proposers. All serve side by side, smaller `order` first.

The contract
------------
*Metric reader*: finds a finished run's numbers in its folder and working directory; answers every metric with the
place it was read from, which begins with the file's name. Of several values the last one is the run's. A value that is
there and NaN or infinite is answered as None with its place, never as 0 and never left out. What is no number of its
format (a folder without files, other output, the torn last line of a killed run) is no metric and no error. A file of
the working directory that is older than the run's start is not the run's. What a reader answers depends on the folder
alone, and it never writes.

*Analyser*: says in words what a finished run means, however it ended and whether or not it belongs to a hypothesis, and
what a verdict means, or answers None. `summary` is one printable line; the text of a run may be empty (then there is no
note), the text of a verdict is a note and is not. The same records give the same answer, for a call that was cut off is
repeated. It never changes the records it is given: no number that decides comes from here.

*Proposer*: answers drafts of experiments for the loop to consider, each for one of the hypotheses it was given, with a
reason in words and arguments that `lab.experiments.propose` takes: a command, and a design that makes a claim (a draft
without one is never picked), or a baseline's further runs (`extends`) or stand-in (`proxy_of`). Drafts that were tried
before are removed by the kernel. It never changes the records it is given; with nothing to go on it answers nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perpetual.records import Evidence, Experiment, Hypothesis, Run

__all__ = ["Analyser", "Analysis", "Draft", "MetricReader", "MetricValue", "Proposer", "RunFolder"]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a finished run left its traces."""

    log_dir: Path
    cwd: Path
    started_at_s: float  # POSIX seconds


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A number and where it stands, e.g. `stdout.log:41`; `value` None: there, but not a finite number."""

    value: float | None
    source: str


class MetricReader(ABC):
    """Finds numbers; see the contract at the top of this module."""

    @abstractmethod
    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        """All metrics of the run that this reader can see."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a run means, as a note: `summary` is one line, `text` Markdown."""

    summary: str
    text: str


class Analyser(ABC):
    """Puts a run into words; see the contract at the top of this module."""

    @abstractmethod
    def analyse(self, run: Run, experiment: Experiment, hypothesis: Hypothesis | None) -> Analysis | None:
        """The run in words, or None if it is not this analyser's business."""

    def conclude(
        self, hypothesis: Hypothesis, evidence: Sequence[Evidence], experiments: Sequence[Experiment]
    ) -> Analysis | None:
        """A decided hypothesis in words, or None; its text becomes a note."""
        return None


@dataclass(frozen=True, slots=True)
class Draft:
    """An experiment somebody might propose: the keyword arguments of `lab.experiments.propose`."""

    hypothesis_id: str
    arguments: Mapping[str, Any]
    reason: str


class Proposer(ABC):
    """Has ideas; see the contract at the top of this module."""

    @abstractmethod
    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        """Drafts for the open hypotheses, the most useful first."""

"""The analysis slots: metric readers, analysers and proposers. All serve side by side, smaller `order` first.

The contract
------------
*Metric reader*: finds a finished run's numbers in its folder and working directory; answers every metric with the
place it was read from, which begins with the file's name. Of several values the last one is the run's. A value that is
there and NaN or infinite is answered as None with its place, never as 0 and never left out. What is no number of its
format (a folder without files, other output, the torn last line of a killed run) is no metric and no error. A file of
the working directory that is older than the run's start is not the run's. What a reader answers depends on the folder
alone, and it never writes.

`history` is optional: the same numbers with their steps, of live runs too. Its cost is bounded by `limit_bytes`.

*Analyser*: says in words what a finished run means, however it ended and whether or not it belongs to a hypothesis, and
what a verdict means, or answers None. `summary` is one printable line; the text of a run may be empty (then there is no
note), the text of a verdict is a note and is not. The same records give the same answer, for a call that was cut off is
repeated. It never changes the records it is given: no number that decides comes from here.

`symptoms` and `hint` are optional. `symptoms` reads the output of a run that ended without success and answers what it
says of the cause: each kind at most once, the most telling first. The files may be missing, huge, torn or no files at
all; reading them writes nothing, waits for nothing and raises nothing. Kinds are small letters, digits, `-` and `_`;
those of `KERNEL_KINDS` are the kernel's. The kinds of `perpetual.toolkit.causes.CAUSES` are shown as the cause of the
end, and `oom` allows the retry that `auto_retry` asks for; any other kind is shown beside the run. Of two analysers
that answer the same kind the bundled one counts, then the smaller `order`. `hint` answers a way out of a kind, for runs
of any age, or None for a kind that it does not know; it is one printable line.

*Proposer*: answers drafts of experiments for the loop to consider, each for one of the hypotheses it was given, with a
reason in words and arguments that `lab.experiments.propose` takes: a command, and a design that makes a claim (a draft
without one is never picked), or a baseline's further runs (`extends`) or stand-in (`proxy_of`). It is given the open
hypotheses' experiments and their baselines, with their stand-ins and what runs the same. Drafts that were tried
before are removed by the kernel. It never changes the records it is given; with nothing to go on it answers nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perpetual.records import Evidence, Experiment, Hypothesis, Run

if TYPE_CHECKING:
    from perpetual.slots.redactor import Redactor

__all__ = [
    "KERNEL_KINDS",
    "Analyser",
    "Analysis",
    "Draft",
    "MetricHistory",
    "MetricReader",
    "MetricValue",
    "Proposer",
    "RunFolder",
    "RunOutput",
    "Symptom",
]

# Kinds of annotations that the kernel writes beside a run; some of them decide, so no symptom has one.
KERNEL_KINDS = frozenset({"analyser", "aside", "capture", "code_changed", "gpu", "late", "leftover", "metrics",
                          "overrun", "preempted", "protected", "retry", "tainted"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a finished run left its traces."""

    log_dir: Path
    cwd: Path
    started_at_s: float  # POSIX seconds
    ended_at_s: float | None = None  # None: it is live, or its end is not known


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A number and its place, e.g. `stdout.log:41`; `value` None: there, but not a finite number.

    `items` are the scores of the test items behind it, in the items' order, where the run gave them.
    """

    value: float | None
    source: str
    items: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class MetricHistory:
    """All values of a metric in the order of writing; the three lists are of one length.

    A value is None where no finite number stands, a step where its line names none, a time where it has none. `axis`
    names the steps (`step`, `epoch`); None: the program names none, and they count the values from 1.
    """

    axis: str | None
    steps: Sequence[float | None]
    values: Sequence[float | None]
    times: Sequence[float | None]  # as the program logged them
    source: str  # the file
    written_at_s: float  # POSIX seconds of the file's last change
    skipped_bytes: int = 0  # of a file over the limit, of which evenly spaced pieces were read


class MetricReader(ABC):
    """Finds numbers; see the contract at the top of this module."""

    @abstractmethod
    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        """Returns all metrics of the run that this reader can see."""

    def history(
        self, folder: RunFolder, metrics: Collection[str] = (), *, limit_bytes: int | None = None
    ) -> Mapping[str, MetricHistory]:
        """Returns the histories of these metrics (none named: of all), also of a live run; optional.

        Of a file of more than `limit_bytes` it reads pieces that are evenly spaced, the file's start and end included.
        """
        return {}


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a run means, as a note: `summary` is one line, `text` Markdown."""

    summary: str
    text: str


@dataclass(frozen=True, slots=True)
class RunOutput:
    """What a run that ended without success has written; `status` is failed, killed, timeout or lost.

    `redactor` takes secrets out of what is quoted.
    """

    status: str
    stderr: Path
    stdout: Path
    redactor: Redactor


@dataclass(frozen=True, slots=True)
class Symptom:
    """A line that says why a run ended, e.g. of kind `oom`; `source` is its place, e.g. `stderr.log:41`."""

    kind: str
    text: str
    source: str


class Analyser(ABC):
    """Puts a run into words; see the contract at the top of this module."""

    @abstractmethod
    def analyse(self, run: Run, experiment: Experiment, hypothesis: Hypothesis | None) -> Analysis | None:
        """Returns the run in words, or None if it is not this analyser's business."""

    def conclude(
        self, hypothesis: Hypothesis, evidence: Sequence[Evidence], experiments: Sequence[Experiment]
    ) -> Analysis | None:
        """Returns a decided hypothesis in words, or None; its text becomes a note."""
        return None

    def symptoms(self, output: RunOutput) -> Sequence[Symptom]:
        """Returns what the output of an unsuccessful run says of its cause, the most telling first."""
        return ()

    def hint(self, kind: str, run: Run) -> str | None:
        """Returns a way out for a run with a symptom of this kind, or None."""
        return None


@dataclass(frozen=True, slots=True)
class Draft:
    """A possible experiment: the keyword arguments of `lab.experiments.propose`."""

    hypothesis_id: str
    arguments: Mapping[str, Any]
    reason: str


class Proposer(ABC):
    """Has ideas; see the contract at the top of this module."""

    @abstractmethod
    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        """Drafts for the open hypotheses, the most useful first."""

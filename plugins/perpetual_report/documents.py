"""Documents of the commands `report`, `verify` and `compare`."""

from __future__ import annotations

from perpetual.documents import TypedDict
from perpetual.documents.ledger import Effect

__all__ = [
    "ArmMetric",
    "ArmValue",
    "ComparedArm",
    "ComparedPair",
    "Comparison",
    "Difference",
    "Reference",
    "Report",
    "ReportProblem",
    "ReportSection",
    "RunLeftOut",
    "SiteReport",
    "Verification",
]


class ReportSection(TypedDict):
    """A section that a plugin added; `data` are its facts, null where the plugin answers text alone.

    Those of `perpetual-lab/sweeps` are `{"sweeps": [...], "left": N}`: each sweep as `perpetual sweep show --json` has
    it, with `importance` as `perpetual sweep importance --json` has it; `left` counts older sweeps.
    """

    name: str
    title: str
    data: dict[str, object] | None


class Report(TypedDict):
    """The research written up; `path` is where it was written, if it was."""

    format: str
    path: str | None
    text: str
    sections: list[ReportSection]


class SiteReport(TypedDict):
    """A site that was written: the event after which the record is shown, and the pages by their path in the folder.

    `kept` are files of the folder that this site once wrote, changed since, and would remove; `notes` say what is
    left out.
    """

    path: str
    index: str
    seq: int
    written: list[str]
    unchanged: list[str]
    removed: list[str]
    kept: list[str]
    notes: list[str]


class ReportProblem(TypedDict):
    """One thing that does not match; `where` is a place in the file, `source` one in the record.

    `why` is `differs` in a report. Of a reference it says what is wrong: another value, outside its rounding, stale,
    an unknown reference, no number before it, another word, no such moment, or a comment that cannot be read.
    """

    number: str
    where: str
    claimed: str
    found: str
    source: str
    why: str


class Verification(TypedDict):
    """A report, or Markdown with references (`format` is `references`), held to the record after the event `seq`.

    `checked` counts numbers, `pictures` those drawn again, `logs` the runs whose files were read again; `notes` say
    what could not be looked at. `fixed` counts numbers that were written anew. Of references that name several moments
    `seq` is the latest.
    """

    ok: bool
    format: str
    seq: int
    checked: int
    pictures: int
    logs: int
    problems: list[ReportProblem]
    notes: list[str]
    fixed: int


class Reference(TypedDict):
    """A key that a comment in Markdown may name; `value` is null of a word, `text` is as a report shows it."""

    key: str
    value: float | None
    text: str
    source: str


class ArmValue(TypedDict):
    """What one run measured, and the line of its folder that it was read from."""

    run_id: str
    seed: int | None
    value: float
    source: str | None


class ArmMetric(TypedDict):
    """The seeds of an arm folded; `low` and `high` bound the mean with 95 %, null where nothing can be said."""

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    values: list[ArmValue]


class RunLeftOut(TypedDict):
    """A run that says nothing here, and why."""

    id: str
    why: str


class ComparedArm(TypedDict):
    """An experiment with the newest attempt of each replicate, or a run by itself."""

    id: str
    experiment_id: str
    hypothesis_id: str | None
    title: str
    runs: list[str]
    left_out: list[RunLeftOut]
    metrics: dict[str, ArmMetric]


class Difference(TypedDict):
    """A field that is not the same in every arm; null where an arm lacks it."""

    field: str
    values: dict[str, object]


class ComparedPair(TypedDict):
    """Two arms and a metric: `difference` is a - b; `better` is named only where the interval excludes 0.

    `effect` is that of a claim (a) against its baseline (b), as its hypothesis shows it: positive is better.
    """

    metric: str
    direction: str | None
    a: str
    b: str
    n_a: int
    n_b: int
    paired: bool
    difference: float
    low: float | None
    high: float | None
    separable: bool
    better: str | None
    verdict: str
    effect: Effect | None


class Comparison(TypedDict):
    """Experiments or runs side by side."""

    arms: list[ComparedArm]
    differences: list[Difference]
    metrics: list[str]
    pairs: list[ComparedPair]
    notes: list[str]

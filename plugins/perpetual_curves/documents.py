"""Documents of the command `curves`, and how far a live run is."""

from __future__ import annotations

from typing import NotRequired

from perpetual.documents import TypedDict

__all__ = ["CurveSeries", "CurveSummary", "Curves", "LiveRunDocument", "RunProgress", "Trend"]


class CurveSeries(TypedDict):
    """A metric over the steps of a run, or its mean over the runs of an experiment (`run` null).

    A value is null where no finite number was logged; of a mean, where one of its runs has none. `n` and `sd` are of a
    mean: how many runs have this step, and their standard deviation. `points` counts what was logged.
    """

    experiment: str
    run: str | None
    status: str | None
    metric: str
    axis: str | None  # what the steps count; null: values are counted from 1
    steps: list[float]
    values: list[float | None]
    times: list[float | None]  # as the program logged them
    n: list[int] | None
    sd: list[float | None] | None
    points: int
    shown: int


class Trend(TypedDict):
    """The mean of the last values beside that of as many before them; it describes, and tests nothing."""

    word: str  # rising, falling or level
    change: float
    points: int


class CurveSummary(TypedDict):
    """A series in short; `best` is by the declared direction, null where none is declared."""

    experiment: str
    run: str | None
    status: str | None
    runs: list[str]
    points: int
    not_finite: int
    first: float | None
    first_step: float | None
    last: float | None
    last_step: float | None
    best: float | None
    best_step: float | None
    low: float | None
    high: float | None
    trend: Trend | None


class Curves(TypedDict):
    """Curves of one metric. `method` says how long series were thinned; `left_out` names runs without a value."""

    metric: str
    direction: str | None
    series: list[CurveSeries]
    summaries: list[CurveSummary]
    left_out: list[str]
    method: str
    notes: list[str]


class RunProgress(TypedDict):
    """How far a live run is; null where it is not known.

    `speed` counts steps in a second, by `speed_from`; `left_s` are seconds to the end, by `left_from`.
    """

    axis: str | None
    step: float | None
    total_steps: float | None
    metrics: dict[str, float | None]
    speed: float | None
    speed_from: str | None
    elapsed_s: float | None
    left_s: float | None
    left_from: str | None
    written_s_ago: float | None
    text: str


class LiveRunDocument(TypedDict):
    """What a live run has besides its record; null where nothing is known of its progress."""

    progress: NotRequired[RunProgress | None]

"""The picture of a comparison: run-hours to a decision with their intervals, and the error beside them.

Imported by the command beside it when a picture is asked for. matplotlib is an optional extra and is imported in here
only; nothing is fetched, and the same results draw the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from perpetual.api import PerpetualError
from perpetual_scorers.simulate import Result

__all__ = ["MARK", "draw", "require_matplotlib"]

MARK = "perpetual bench-policy"  # in a picture's description: what an earlier picture is known by
_FONTS = ["DejaVu Sans", "Helvetica", "Arial", "sans-serif"]


def require_matplotlib() -> None:
    """Raises PerpetualError with the way out where there is no matplotlib."""
    if find_spec("matplotlib") is None:
        raise PerpetualError(
            "a picture needs matplotlib, which is not installed",
            hint="pip install 'perpetual-lab[report]', or -o with a name that ends in .json",
            code="matplotlib_missing",
        )


def draw(results: Sequence[Result], path: Path, title: str) -> None:
    """Writes the picture in the format that the file's name ends in, svg or png."""
    require_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sound = [result for result in results if result.problem is None]
    cells = list(dict.fromkeys((result.threshold, result.batch) for result in sound))
    with matplotlib.rc_context({"svg.hashsalt": "perpetual", "svg.fonttype": "none", "font.family": _FONTS[:1]}):
        height = 1.1 + sum(0.45 + 0.3 * len(_of(sound, cell)) for cell in cells)
        figure = Figure(figsize=(8, max(height, 2.0)), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(title, fontsize=10)
        ratios = [1 + len(_of(sound, cell)) for cell in cells]
        axes = figure.subplots(max(len(cells), 1), 1, sharex=True, squeeze=False, height_ratios=ratios or None)[:, 0]
        for axis, cell in zip(axes, cells, strict=False):
            _panel(axis, _of(sound, cell), f"threshold {cell[0]:g}, batches of {cell[1]}")
        axes[-1].set_xlim(0, 1.05 * max((result.high or 0.0 for result in sound), default=1.0))
        axes[-1].set_xlabel("run-hours until every hypothesis is decided: mean of a campaign, 95 % interval")
        own = {"Date": None} if path.suffix.lower() == ".svg" else {"Software": None}
        figure.savefig(path, dpi=150, metadata={**own, "Description": MARK})


def _of(results: Sequence[Result], cell: tuple[float, int]) -> list[Result]:
    return [result for result in results if (result.threshold, result.batch) == cell]


def _panel(axis: object, results: Sequence[Result], title: str) -> None:
    """Draws one cell: a point with its interval for each policy, the error as text at the right."""
    from matplotlib.axes import Axes

    assert isinstance(axis, Axes)
    places = range(len(results))
    means = [result.run_hours or 0.0 for result in results]
    lows = [mean - (result.low or 0.0) for mean, result in zip(means, results, strict=True)]
    highs = [(result.high or 0.0) - mean for mean, result in zip(means, results, strict=True)]
    axis.errorbar(means, places, xerr=[lows, highs], fmt="o", color="#0b6e69", capsize=3, markersize=5)
    axis.set_yticks(list(places), [result.policy for result in results], fontsize=8)
    axis.set_ylim(len(results) - 0.5, -0.5)
    axis.grid(axis="x", color="#dddddd", linewidth=0.6)
    axis.set_title(title, loc="left", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    for place, result in zip(places, results, strict=True):
        error = "" if result.error_rate is None else f"error {100 * result.error_rate:.1f} %"
        axis.annotate(error, (1.01, place), xycoords=("axes fraction", "data"), fontsize=8, va="center")

"""The section of learning curves in a report: the declared metric of the newest experiments, run by run.

Built by the report when it is written. The section is behind the mark from which `perpetual verify` checks nothing: the
curves are read from the runs' files, which the record does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from perpetual.api import Experiment, PerpetualError
from perpetual.toolkit.units import counted
from perpetual_report.sections import KeptSection, Part, Picture, Table, Words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perpetual import Lab
    from perpetual_curves.documents import Curves, CurveSummary

__all__ = ["CurvesSection", "build", "row"]

MOST = 12  # experiments with a picture: the newest
_RUNS = 8  # of one picture
_POINTS = 150  # of one run's curve: a page stays small
_SCANNED = 60  # newest experiments that are looked at
_READING = (
    "The declared metric of each run, as it logged it. The values are read from the runs' files when the report is "
    "written; verify does not check them."
)
_WIDTH, _HEIGHT = 7.6, 2.7  # inches


def build(options: Mapping[str, object]) -> CurvesSection:
    """Builds the section."""
    return CurvesSection()


class CurvesSection(KeptSection):
    """The section `curves`."""

    title = "Learning curves"

    def find(self, lab: Lab) -> dict[str, object]:
        """Returns `{experiments: [{id, title, curves, mean}], left}`; `curves` is as `perpetual curves` answers."""
        from perpetual_curves.collect import collect, document_of

        shown: list[dict[str, object]] = []
        left = 0
        for experiment in _newest(lab):
            if not experiment.runs or experiment.design.metric is None:
                continue
            try:
                found = collect(lab, [experiment.id], as_mean=False)
            except PerpetualError:  # none of its runs has logged it, or nothing can be read
                continue
            if all(len(arm.curve.values) < 2 for arm in found.arms):
                continue
            if len(shown) == MOST:
                left += 1
                continue
            document = document_of(found, points=_POINTS)
            rest = len(document["series"]) - _RUNS
            document["series"] = document["series"][:_RUNS]
            shown.append(
                {"id": experiment.id, "title": experiment.title, "curves": document, "runs_left": max(0, rest)}
            )
        return {"experiments": shown[::-1], "left": left} if shown else {}

    def parts(self, data: Mapping[str, object]) -> list[Part]:
        """Returns a picture of each experiment, and a table of them all."""
        rows: list[list[str]] = []
        pictures: list[Part] = []
        for one in cast("Sequence[Mapping[str, object]]", data["experiments"]):
            curves = cast("Curves", one["curves"])
            rows += [row(str(one["id"]), each) for each in curves["summaries"][:_RUNS]]
            rest = cast("int", one["runs_left"])
            more = [f"{counted(rest, 'more run')} left out"] if rest else []
            if any(each["shown"] < each["points"] for each in curves["series"]):
                more.insert(0, "of each stretch the lowest and the highest value")
            said = "; ".join([f"{one['id']}: {curves['metric']} of each run", *curves["notes"], *more])
            pictures.append(Picture(partial(_drawn, str(one["id"]), str(one["title"]), curves), said))
        columns = ("experiment", "run", "points", "first", "last", "best or range", "at")
        found: list[Part] = [
            Words(_READING),
            *pictures,
            Table("First, last and best value of each curve", columns, rows),
        ]
        left = cast("int", data["left"])
        return [*found, Words(f"{counted(left, 'older experiment')} left out: perpetual curves ID")] if left else found


def _newest(lab: Lab) -> Sequence[Experiment]:
    """Returns the newest experiments, the newest first."""
    items: list[Experiment] = []
    cursor: str | None = None
    while True:
        page = lab.experiments.list(limit=1000, cursor=cursor)
        items += page.items
        cursor = page.next_cursor
        if cursor is None:
            return items[: -_SCANNED - 1 : -1]


def row(id: str, found: CurveSummary) -> list[str]:
    """Returns a curve as the table has it: experiment, run, points, first, last, best or range, and where."""
    if found["best"] is not None:
        best, at = f"{found['best']:.5g}", f"{found['best_step']:.10g}"
    else:
        low, high = found["low"], found["high"]
        best, at = ("-" if low is None or high is None else f"{low:.5g} to {high:.5g}"), "-"
    return [id, found["run"] or "-", str(found["points"]), _shown(found["first"]), _shown(found["last"]), best, at]


def _shown(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.5g}"


def _drawn(id: str, title: str, curves: Curves) -> str:
    """Draws each run's curve, thin; an isolated value is a dot."""
    from perpetual_report.pictures import axes_of, colour, draw, dress, legend, short

    shades = ("blue", "green", "amber", "violet", "red", "grey", "ink", "soft")

    def paint(figure: Figure) -> None:
        axes = axes_of(figure, left=0.75)
        dress(axes)
        for number, each in enumerate(curves["series"]):
            nan = float("nan")
            values = [nan if value is None else value for value in each["values"]]
            axes.plot(
                each["steps"], values, color=colour(shades[number % len(shades)]), linewidth=1.3,
                marker="o" if len(values) < 3 else None, markersize=3, label=each["run"] or each["experiment"],
            )  # fmt: skip
        axes.set_xlabel(curves["series"][0]["axis"] or "value")
        axes.set_ylabel(short(curves["metric"], 40))
        legend(axes)

    words = "; ".join(f"{each['run']}: {_shown(each['last'])} at the end" for each in curves["summaries"][:_RUNS])
    return draw(
        f"curves-{id}", f"{short(curves['metric'], 60)} of {id} {short(title, 60)}", words, (_WIDTH, _HEIGHT), paint
    )

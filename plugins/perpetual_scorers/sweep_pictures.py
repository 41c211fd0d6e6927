"""The pictures of a sweep in a report: parallel coordinates, slices, and the importance of its parameters.

Imported by `sweep_section` where a report has pictures. Nothing is shown by colour alone, and each picture is bounded
and has words for readers that cannot see it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.toolkit.units import counted, shown_number
from perpetual_report.pictures import PAPER, axes_of, colour, draw, dress, legend, plain, short, spread
from perpetual_scorers.space import Parameter, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perpetual_scorers.documents import ParameterImportance, SweepDocument, SweepImportance, SweepSetting

__all__ = ["MOST_DRAWN", "MOST_PARAMETERS", "fence_of", "importance", "parallel", "slices", "where"]

MOST_PARAMETERS = 8  # of one picture: the ones that matter most, where that is known
MOST_DRAWN = 200  # settings of one picture: the best ones
_WIDTH = 9.2  # inches, as every picture of a report
_COLUMNS = 3  # of slices
_LINES = 3  # of a name above an axis
_ABSENT = -0.17  # the place of a parameter that a setting does not have, and of a run without a value; axes go 0 to 1
_TICKS = 5
_CLOSE = 0.11  # of an axis: nearer to the next tick its end has none
_MOST_MARKED = 10  # settings after the pick that are set off from the others
_HUGE = 1e100  # further off is drawn as that far: the model counts it so too
_FENCE = 2.0  # as the model: no further below the lower quartile than this many times the best is above it


class _Scale(NamedTuple):
    """A parameter's axis from 0 to 1, with its ticks."""

    one: Parameter
    ticks: list[tuple[float, str]]

    def place(self, value: Value | None) -> float:
        """Returns where a value is; `_ABSENT` for none."""
        if value is None:
            return _ABSENT
        if self.one.choices:
            return _even(self.one.choices.index(value), len(self.one.choices))
        return self.one.numbers(value)[0]

    @property
    def title(self) -> str:
        """Returns the parameter's name, with the word for a log scale."""
        return f"{short(self.one.name, 24)}{' (log)' if self.one.is_log else ''}"


class _Values(NamedTuple):
    """The metric's axis: `low` and `high` are what is drawn; what is further off is drawn at the edge."""

    low: float
    high: float
    is_cut: bool

    def inside(self, value: float) -> float:
        """Returns the value, or the edge where it is beyond."""
        return min(max(value, self.low), self.high)


def fence_of(values: Sequence[float], direction: str) -> float:
    """Returns the worst value that counts as it is; one beyond, from a run that diverged, would flatten all others."""
    sign = 1.0 if direction == "max" else -1.0
    known = sorted(sign * value for value in values)
    quartile, top = known[len(known) // 4], known[-1]
    return sign * (max(known[0], quartile - _FENCE * (top - quartile)) if top > quartile else known[0])


def where(one: ParameterImportance) -> str:
    """Returns a parameter's name with the condition under which it is there."""
    when = "".join(f" (where {name}={'/'.join(map(_word, values))})" for name, values in (one["when"] or {}).items())
    return one["name"] + when


def _word(value: Value) -> str:
    """Returns a choice as it is declared."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _even(number: int, count: int) -> float:
    return (number + 0.5) / count


def _scale(one: Parameter) -> _Scale:
    if one.choices:
        kept = spread(len(one.choices), 8)
        return _Scale(one, [(_even(i, len(one.choices)), short(_word(one.choices[i]), 12)) for i in kept])
    from matplotlib.ticker import LogLocator, MaxNLocator

    steps = MaxNLocator(_TICKS - 1, steps=[1, 2, 2.5, 5, 10], integer=one.is_whole)
    found = (LogLocator(numticks=_TICKS) if one.is_log else steps).tick_values(one.low, one.high)
    inside = [float(f"{value:.6g}") for value in found if one.low <= value <= one.high]
    places = [one.numbers(value)[0] for value in inside]
    for end, place in ((one.low, 0.0), (one.high, 1.0)):
        if all(abs(place - other) > _CLOSE for other in places):
            inside.append(end)
    return _Scale(one, [(one.numbers(value)[0], f"{value:.4g}") for value in sorted(inside)])


def _shown_parameters(parameters: Sequence[Parameter], shares: SweepImportance) -> list[Parameter]:
    """Returns the parameters that are drawn, in the order in which they were declared."""
    known = {one["name"]: one["share"] or 0.0 for one in shares["parameters"]}
    best = sorted(parameters, key=lambda one: -known.get(one.name, 0.0))[:MOST_PARAMETERS]
    return [one for one in parameters if one in best]


def _ranked(found: SweepDocument) -> list[SweepSetting]:
    """Returns the settings with a value of a full run, the best mean first."""
    sign = -1.0 if found["direction"] == "max" else 1.0
    return sorted((one for one in found["settings"] if one["n"]), key=lambda one: sign * (one["mean"] or 0.0))


def _values(found: SweepDocument, numbers: Sequence[float]) -> _Values:
    numbers = [min(max(value, -_HUGE), _HUGE) for value in numbers]
    fence = fence_of(numbers, found["direction"])
    low, high = (fence, max(numbers)) if found["direction"] == "max" else (min(numbers), fence)
    return _Values(low, high, any(not low <= value <= high for value in numbers))


# --- parallel coordinates ---------------------------------------------------------------------------------------------


def parallel(found: SweepDocument, parameters: Sequence[Parameter], shares: SweepImportance) -> str | None:
    """Draws each setting as a line over the parameters to the mean that it measured; None before a full run has one."""
    ranked = _ranked(found)
    if not ranked:
        return None
    shown = _shown_parameters(parameters, shares)
    kept = ranked[:MOST_DRAWN]
    failed = [one for one in found["settings"] if not one["n"] and one["n_failed"]][:MOST_DRAWN]
    rest = [one for one in kept if one["id"] != found["best"]]
    best = rest[: min(_MOST_MARKED, len(rest) // 4)]
    axis = _values(found, [one["mean"] or 0.0 for one in kept])

    def paint(figure: Figure) -> None:
        axes = axes_of(figure, left=0.75, right=0.75, bottom=0.35, top=0.6)
        axes.axis("off")
        scales = [_scale(one) for one in shown]
        axes.set_xlim(0, len(scales))
        axes.set_ylim(_ABSENT - 0.07, 1.03)
        _coordinates(axes, scales, found, axis, has_failed=bool(failed))
        for one in reversed([*kept, *failed]):
            _line(axes, scales, one, found, axis, is_best=one in best, weight=min(1.0, 40 / len(kept)))
        _absences(axes, scales, [*kept, *failed])
        _key(axes, found, kept, len(best), has_failed=bool(failed))

    pick = next((one for one in kept if one["id"] == found["best"]), kept[0])
    words = f"{counted(len(kept), 'setting')} with a mean; best first: " + "; ".join(_words(one) for one in kept[:5])
    title = f"Settings of {found['id']} and the {short(found['metric'], 40)} that they measured"
    return draw(f"{found['id']}-parallel", title, f"{words}. The pick: {_words(pick)}.", (_WIDTH, 3.8), paint)


def _words(one: SweepSetting) -> str:
    values = ", ".join(f"{name}={_word(value)}" for name, value in one["parameters"].items())
    return f"{one['id']} ({short(values, 120)}) {shown_number(one['mean'] or 0.0)} (n = {one['n']})"


def _better(found: SweepDocument, axis: _Values, value: float) -> float:
    """Returns the place of a value on the metric's axis: the better, the higher."""
    if axis.high == axis.low:
        return 0.5
    share = (axis.inside(value) - axis.low) / (axis.high - axis.low)
    return share if found["direction"] == "max" else 1 - share


def _coordinates(
    axes: Axes, scales: Sequence[_Scale], found: SweepDocument, axis: _Values, *, has_failed: bool
) -> None:
    """Draws the axes with their ticks and names."""
    room = max(9, 64 // (len(scales) + 1))  # characters of a name on one line
    half = 0.006 * len(scales)  # of a tick's width
    for x, scale in enumerate(scales):
        axes.plot([x, x], [0, 1], color=colour("grey"), linewidth=1.2, zorder=3)
        for place, word in scale.ticks:
            _tick(axes, x, place, short(word, room), half)
        _name(axes, x, scale.title, room, "left" if x == 0 else "center")
    end = len(scales)
    axes.plot([end, end], [0, 1], color=colour("ink"), linewidth=1.6, zorder=3)
    for value in (axis.low, (axis.low + axis.high) / 2, axis.high):
        beyond = axis.is_cut and value == (axis.low if found["direction"] == "max" else axis.high)
        _tick(axes, end, _better(found, axis, value), f"{value:.3g}" + "\nor worse" * beyond, -half)
    if has_failed:
        _tick(axes, end, _ABSENT, "no value", -half)
    _name(axes, end, f"mean {plain(found['metric'])}", room, "right")


def _tick(axes: Axes, x: float, place: float, word: str, half: float) -> None:
    """Draws a tick with its word, left of the axis; right of it where the half width is below 0."""
    box = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    axes.annotate(word, (x, place), xytext=(math.copysign(5, -half), 0), textcoords="offset points",
                  ha="right" if half > 0 else "left", va="center", fontsize=8, color=colour("ink"), zorder=6, bbox=box,
                  annotation_clip=False)  # fmt: skip
    axes.plot([x - half, x + half], [place, place], color=colour("grey"), linewidth=1.2, zorder=3, clip_on=False)


def _name(axes: Axes, x: float, words: str, room: int, side: str) -> None:
    lines = _wrapped(words, room)
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], lines[_LINES - 1][: room - 1].rstrip("_ ") + "…"]
    axes.annotate("\n".join(lines), (x, 1.03), xytext=(0, 5), textcoords="offset points", ha=side, va="bottom",
                  fontsize=8.5, fontweight="bold", color=colour("ink"), annotation_clip=False)  # fmt: skip


def _wrapped(words: str, room: int) -> list[str]:
    """Returns lines of at most `room` characters, broken after a blank or an underscore where there is one."""
    lines = [""]
    for part in re.findall(r"[^ _]*[ _]?", words):
        while len(lines[-1]) + len(part.rstrip()) > room:
            cut = 0 if lines[-1] else room
            if cut:
                lines[-1] = part[:cut]
            lines.append("")
            part = part[cut:]
        lines[-1] += part
    return [line.rstrip() for line in lines if line.strip()]


def _line(
    axes: Axes,
    scales: Sequence[_Scale],
    one: SweepSetting,
    found: SweepDocument,
    axis: _Values,
    *,
    is_best: bool,
    weight: float,
) -> None:
    places = [scale.place(one["parameters"].get(scale.one.name)) for scale in scales]
    mean = one["mean"]
    places.append(_ABSENT if mean is None else _better(found, axis, mean))
    shade, width, style, order = "grey", 0.9, "-", 1.0
    if one["id"] == found["best"]:
        shade, width, order = "green", 3.0, 5.0
    elif mean is None:
        shade, width, style = "red", 1.0, ":"
    elif is_best:
        shade, width, style, order = "blue", 1.5, "--", 2.0
    axes.plot(range(len(places)), places, color=colour(shade), linewidth=width, linestyle=style, zorder=order,
              marker="D" if one["id"] == found["best"] else None, markersize=6,
              alpha=0.25 + 0.4 * weight if shade == "grey" else 1.0, clip_on=False)  # fmt: skip


def _absences(axes: Axes, scales: Sequence[_Scale], settings: Sequence[SweepSetting]) -> None:
    for x, scale in enumerate(scales):
        if any(scale.one.name not in one["parameters"] for one in settings):
            _tick(axes, x, _ABSENT, "absent", 0.006 * len(scales))


def _key(axes: Axes, found: SweepDocument, kept: Sequence[SweepSetting], best: int, *, has_failed: bool) -> None:
    """Draws what the lines mean, below the axes."""
    from matplotlib.lines import Line2D

    has_pick = any(one["id"] == found["best"] for one in kept)
    lines = [("green", 3.0, "-", "D", "the pick", has_pick), ("blue", 1.5, "--", None, f"the next {best}", best > 0),
             ("grey", 0.9, "-", None, "the others", len(kept) > best + has_pick),
             ("red", 1.0, ":", None, "no value", has_failed)]  # fmt: skip
    handles = [Line2D([], [], color=colour(shade), linewidth=width, ls=style, marker=marker, label=word)
               for shade, width, style, marker, word, is_there in lines if is_there]  # fmt: skip
    made = axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4, frameon=False,
                       fontsize=9, borderaxespad=0.2)  # fmt: skip
    for words in made.get_texts():
        words.set_color(colour("ink"))


# --- slices -----------------------------------------------------------------------------------------------------------


def slices(found: SweepDocument, parameters: Sequence[Parameter], shares: SweepImportance) -> str | None:
    """Draws what was measured against each parameter: single runs, means, the pick; None before a full run has one."""
    ranked = _ranked(found)
    if not ranked:
        return None
    shown = _shown_parameters(parameters, shares)
    kept = [*ranked[:MOST_DRAWN], *[one for one in found["settings"] if not one["n"] and one["n_failed"]][:MOST_DRAWN]]
    axis = _values(found, [value for one in kept for value in one["values"] if value is not None])
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    scales = [_scale(one) for one in shown]
    most = 60 if columns < _COLUMNS else 34  # characters of a panel's ticks, side by side
    is_long = any(sum(len(word) + 2 for _, word in scale.ticks) > most for scale in scales)
    bottom, height, top = (0.62, 2.3, 0.35) if is_long else (0.4, 2.1, 0.35)

    def paint(figure: Figure) -> None:
        full = rows * height + top
        width = (_WIDTH - 0.75) / columns
        named: set[str] = set()
        for i, scale in enumerate(scales):
            row, column = divmod(i, columns)
            left, low = 0.75 + column * width, full - top - (row + 1) * height
            box = (left / _WIDTH, (low + bottom) / full, (width - 0.3) / _WIDTH, (height - bottom - 0.35) / full)
            axes = figure.add_axes(box)
            axes.patch.set_visible(False)
            dress(axes)
            _slice(axes, scale, kept, found, axis, named, is_long=is_long)
            if column == 0:
                axes.set_ylabel(short(found["metric"], 22))
            else:
                axes.tick_params(labelleft=False)
        _slice_key(figure, named, is_max=found["direction"] == "max")

    words = "; ".join(_slice_words(one, ranked) for one in shown)
    title = f"{short(found['metric'], 40)} against each parameter of {found['id']}"
    return draw(f"{found['id']}-slices", title, words, (_WIDTH, rows * height + top), paint)


def _slice_words(one: Parameter, ranked: Sequence[SweepSetting]) -> str:
    there = [item for item in ranked if one.name in item["parameters"]]
    if not there:
        return f"{one.name}: no setting with it has a value"
    at = [
        f"{shown_number(item['mean'] or 0.0)} at {short(_word(item['parameters'][one.name]), 40)}"
        for item in (there[0], there[-1])
    ]
    return f"{one.name}: best mean {at[0]}, worst {at[1]}"


def _slice(
    axes: Axes,
    scale: _Scale,
    kept: Sequence[SweepSetting],
    found: SweepDocument,
    axis: _Values,
    named: set[str],
    *,
    is_long: bool,
) -> None:
    """Draws one panel; `named` gathers the marks that the key has to explain."""
    span = axis.high - axis.low or max(abs(axis.high), 1.0) * 0.1
    is_max = found["direction"] == "max"
    floor = axis.low - 0.12 * span if is_max else axis.high + 0.12 * span
    axes.set_ylim(*((floor - 0.06 * span, axis.high + 0.08 * span) if is_max
                    else (axis.low - 0.08 * span, floor + 0.06 * span)))  # fmt: skip
    marks: dict[str, list[tuple[float, float]]] = {}
    for one in kept:
        x = scale.place(one["parameters"].get(scale.one.name))
        for value in one["values"]:
            if value is None:
                marks.setdefault("no value", []).append((x, floor))
            elif axis.inside(value) != value:
                marks.setdefault("off the scale", []).append((x, axis.inside(value)))
            else:
                marks.setdefault("one run", []).append((x, value))
        known = [axis.inside(value) for value in one["values"] if value is not None]
        if len(known) > 1:
            axes.plot([x, x], [min(known), max(known)], color=colour("grey"), linewidth=1.0, zorder=1)
        is_pick = one["id"] == found["best"]
        if known and one["mean"] is not None and (is_pick or len(one["values"]) > 1):
            marks.setdefault("the pick" if is_pick else "mean of a setting", []).append((x, axis.inside(one["mean"])))
    for word, (mark, shade, size, is_filled) in _MARKS.items():
        points, marker = marks.get(word, []), "v" if is_max and mark == "^" else mark
        if points:
            named.add(word)
            axes.plot([x for x, _ in points], [y for _, y in points], linestyle="none", marker=marker, markersize=size,
                      markeredgecolor=colour(shade), markerfacecolor=colour(shade) if is_filled else "none",
                      zorder=4 if word == "the pick" else 2, clip_on=False)  # fmt: skip
    has_absent = any(scale.one.name not in one["parameters"] for one in kept)
    axes.set_xlim(_ABSENT - 0.06 if has_absent else -0.06, 1.06)
    ticks = [*scale.ticks, *([(_ABSENT, "absent")] if has_absent else [])]
    is_long = is_long and sum(len(word) + 2 for _, word in ticks) > 34
    axes.set_xticks([place for place, _ in ticks], [word for _, word in ticks], fontsize=8,
                    rotation=25 if is_long else 0, ha="right" if is_long else "center",
                    rotation_mode="anchor" if is_long else "default")  # fmt: skip
    axes.set_title(scale.title, loc="left", fontsize=9, fontweight="bold", color=colour("ink"))


_MARKS = {
    "one run": ("o", "grey", 4.0, False),
    "mean of a setting": ("_", "blue", 9.0, True),
    "the pick": ("D", "green", 6.5, True),
    "off the scale": ("^", "amber", 6.0, True),
    "no value": ("x", "red", 5.5, True),
}


def _slice_key(figure: Figure, named: set[str], *, is_max: bool) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for word, (mark, shade, size, is_filled) in _MARKS.items():
        if word in named:
            marker, fill = "v" if is_max and mark == "^" else mark, colour(shade) if is_filled else "none"
            handles.append(Line2D([], [], linestyle="none", marker=marker, markersize=size, markerfacecolor=fill,
                                  markeredgecolor=colour(shade), label=word))  # fmt: skip
    made = figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.06, 1.0), ncols=5, frameon=False,
                         fontsize=9, handletextpad=0.4, columnspacing=1.4, borderaxespad=0.2)  # fmt: skip
    for words in made.get_texts():
        words.set_color(colour("ink"))


# --- importance -------------------------------------------------------------------------------------------------------


def importance(found: SweepDocument, shares: SweepImportance) -> str | None:
    """Draws the share of each parameter with its range, the largest first; None where none is said."""
    ranked = sorted((one for one in shares["parameters"] if one["share"] is not None), key=lambda one: -_of(one))
    rest = [one for one in shares["parameters"] if one["share"] is None]
    if not ranked:
        return None
    shown: Sequence[ParameterImportance] = [*ranked, *rest]

    def paint(figure: Figure) -> None:
        labels = [short(where(one), 38) for one in shown]
        axes = axes_of(figure, left=0.3 + 0.078 * max(map(len, labels)), right=0.25)
        dress(axes, grid="x")
        for place, one in enumerate(shown):
            if one["share"] is None:
                axes.text(0.01, place, short(one["reason"], 60), fontsize=8.5, va="center", color=colour("soft"))
                continue
            low, high = one["low"] or 0.0, one["high"] or 0.0
            axes.barh(place, one["share"], height=0.55, color=colour("blue"), alpha=0.45, linewidth=0,
                      label="share: the mean of what is believed" if place == 0 else None)  # fmt: skip
            axes.plot([low, high], [place, place], color=colour("ink"), linewidth=1.8, marker="|", markersize=9,
                      label="98 % of what is believed" if place == 0 else None)  # fmt: skip
        axes.set_yticks(range(len(shown)), labels)
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlim(0, 1.0)
        axes.set_xlabel("share of the variance over the space that the parameter explains alone", fontsize=9)
        axes.tick_params(axis="y", length=0)
        legend(axes)

    words = "; ".join(_share_words(one) for one in shown)
    title = f"Importance of the parameters of {found['id']}"
    return draw(f"{found['id']}-importance", title, words, (_WIDTH, 1.1 + 0.36 * len(shown)), paint)


def _of(one: Mapping[str, object]) -> float:
    value = one["share"]
    return value if isinstance(value, float) else 0.0


def _share_words(one: ParameterImportance) -> str:
    if one["share"] is None:
        return f"{where(one)}: {one['reason']}"
    return f"{where(one)}: {one['share']:.2f}, range {one['low']:.2f} to {one['high']:.2f}"

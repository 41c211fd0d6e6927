"""Pictures of a site as SVG text, drawn here in a millisecond each: a site has hundreds, and needs no other program.

The colours are those of the report, as CSS variables of the page. Nothing differs by colour alone, and each
picture has words for a reader that cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from perpetual_report.pictures import COLOURS, plain, short

__all__ = ["Band", "Line", "forest", "lines", "steps"]

_WIDTH = 640.0  # CSS pixels of every picture
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 16.0, 26.0, 40.0  # margins
_FONT = 12.0
_LETTER = 6.6  # mean width of one at that size
_ROW = 44.0  # of a forest plot
_HALO = ' paint-order="stroke" stroke="var(--paper, #ffffff)" stroke-width="4"'  # around words that a line crosses
_LARGEST = 1e150  # beyond it differences are no numbers
_SHADES = ("blue", "green", "amber", "violet", "red", "ink", "grey", "soft")
_DASHES = ("", "7 3", "2 3", "9 3 2 3")


class Line(NamedTuple):
    """A curve; a value that is None is a gap."""

    name: str
    steps: Sequence[float]
    values: Sequence[float | None]


class Band(NamedTuple):
    """A line of a forest plot: a value with its interval, which one run has none of, and the single runs."""

    name: str
    value: float
    low: float | None
    high: float | None
    points: Sequence[float]


def lines(
    id: str, title: str, words: str, series: Sequence[Line], axes: tuple[str, str], *, height: float = 230
) -> str:
    """Returns curves over a common axis; `axes` names it and the values. Empty where nothing can be drawn."""
    kept = [Line(each.name, *_pieces(each)) for each in series]
    xs = [x for each in kept for x in each.steps]
    ys = [y for each in kept for y in each.values if y is not None]
    if not xs or not ys:
        return ""
    height = 230.0
    frame = _Frame(xs, ys, height)
    drawn = [*frame.axes(*axes)]
    place = _LEFT
    for number, each in enumerate(kept):
        style = _style(number)
        drawn += frame.curve(each, style)
        if len(kept) > 1 and place + 40 + len(each.name) * _LETTER < _WIDTH:
            drawn.append(f'<path d="M{place:.1f} 11h20" {style}/>')
            drawn.append(_text(place + 25, 15, each.name))
            place += 40 + min(len(each.name), 24) * _LETTER
    return _svg(id, title, words, height, drawn)


def forest(id: str, title: str, words: str, bands: Sequence[Band], metric: str) -> str:
    """Returns intervals one below the other, around no effect."""
    marks = [x for each in bands for x in (each.value, each.low, each.high, *each.points) if x is not None]
    if not marks or not all(map(_is_drawable, marks)):
        return ""
    height = _TOP + _BOTTOM + _ROW * len(bands)
    frame = _Frame([*marks, 0.0], [0.0, float(len(bands))], height, pad=0.04)
    drawn = [*frame.bottom(f"effect on {short(metric, 40)}: right of 0 is better")]
    drawn.append(f'<path d="M{frame.x(0):.1f} {_TOP}V{height - _BOTTOM}" {_stroke("ink", 1)} stroke-dasharray="4 3"/>')
    for number, each in enumerate(bands):
        y = _TOP + _ROW * number + 30
        drawn.append(_text(_LEFT, y - 18, short(each.name, 84), more=_HALO))
        drawn += [f'<circle cx="{frame.x(x):.1f}" cy="{y - 8:.1f}" r="2.5" {_fill("grey")}/>' for x in each.points]
        if each.low is not None and each.high is not None:
            a, b = frame.x(each.low), frame.x(each.high)
            drawn.append(
                f'<path d="M{a:.1f} {y:.1f}H{b:.1f}M{a:.1f} {y - 4:.1f}v8M{b:.1f} {y - 4:.1f}v8" {_stroke("blue", 2)}/>'
            )
        drawn.append(f'<rect x="{frame.x(each.value) - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" {_fill("blue")}/>')
    return _svg(id, title, words, height, drawn)


def steps(
    id: str, title: str, words: str, values: Sequence[float], bounds: Sequence[tuple[float, str]], name: str
) -> str:
    """Returns a value between 0 and 1 after each step, with the bounds at which something is decided."""
    height = 210.0
    frame = _Frame([1.0, float(max(2, len(values)))], [0.0, 1.0], height, least=1.0)
    drawn = [*frame.axes("step", name)]
    for bound, word in bounds:
        y = frame.y(bound)
        drawn.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" {_stroke("ink", 1)} stroke-dasharray="4 3"/>')
        drawn.append(_text(_WIDTH - _RIGHT, y - 4 if bound < 0.5 else y + 14, word, anchor="end"))
    drawn += frame.curve(Line("", [float(n) for n in range(1, len(values) + 1)], values), _style(0), has_dots=True)
    return _svg(id, title, words, height, drawn)


class _Frame:
    """The place of values in a picture, and its axes."""

    def __init__(
        self, xs: Sequence[float], ys: Sequence[float], height: float, *, pad: float = 0.0, least: float = 0.0
    ) -> None:
        """Fits the values; `pad` is room at both ends, `least` the smallest distance of two ticks below."""
        self._low_x, self._high_x = _widened(min(xs), max(xs), pad)
        self._low_y, self._high_y = _widened(min(ys), max(ys), 0.04)
        self._height, self._least = height, least

    def x(self, value: float) -> float:
        """Returns a value's place from the left."""
        share = (value - self._low_x) / (self._high_x - self._low_x)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Returns a value's place from the top."""
        share = (value - self._low_y) / (self._high_y - self._low_y)
        return self._height - _BOTTOM - share * (self._height - _TOP - _BOTTOM)

    def axes(self, across: str, up: str) -> Iterator[str]:
        """Yields both axes, with their names."""
        for value, word in _ticks(self._low_y, self._high_y, 5):
            y = self.y(value)
            yield f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" {_stroke("grid", 1)}/>'
            yield _text(_LEFT - 6, y + 4, word, anchor="end")
        middle = (self._height - _BOTTOM + _TOP) / 2
        yield _text(13, middle, short(up, 30), anchor="middle", more=f' transform="rotate(-90 13 {middle:.1f})"')
        yield from self.bottom(across)

    def bottom(self, across: str) -> Iterator[str]:
        """Yields the axis below."""
        base = self._height - _BOTTOM
        yield f'<path d="M{_LEFT} {base:.1f}H{_WIDTH - _RIGHT}" {_stroke("grey", 1)}/>'
        for value, word in _ticks(self._low_x, self._high_x, 7, self._least):
            x = self.x(value)
            yield f'<path d="M{x:.1f} {base:.1f}v4" {_stroke("grey", 1)}/>'
            yield _text(x, base + 17, word, anchor="middle")
        yield _text((_LEFT + _WIDTH - _RIGHT) / 2, self._height - 6, short(across, 70), anchor="middle")

    def curve(self, line: Line, style: str, *, has_dots: bool = False) -> Iterator[str]:
        """Yields a line through the points, broken at its gaps; a point by itself is a dot."""
        parts: list[list[tuple[float, float]]] = [[]]
        for x, y in zip(line.steps, line.values, strict=True):
            if y is None:
                parts.append([])
            else:
                parts[-1].append((self.x(x), self.y(y)))
        path = " ".join("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in part) for part in parts if len(part) > 1)
        if path:
            yield f'<path d="{path}" {style}/>'
        for part in parts:
            for x, y in part if has_dots or len(part) == 1 else ():
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" {_fill("blue")}/>'


def _pieces(line: Line) -> tuple[list[float], list[float | None]]:
    """Returns the points that can be drawn; what is not finite is a gap."""
    xs: list[float] = []
    ys: list[float | None] = []
    for x, y in zip(line.steps, line.values, strict=False):
        if _is_drawable(x):
            xs.append(x)
            ys.append(y if y is not None and _is_drawable(y) else None)
    return xs, ys


def _is_drawable(value: float) -> bool:
    return math.isfinite(value) and abs(value) < _LARGEST


def _widened(low: float, high: float, pad: float) -> tuple[float, float]:
    """Returns the ends of an axis: never the same one twice."""
    room = (high - low) * pad
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        room = abs(high) * 0.1 or 1.0
    return low - room, high + room


def _ticks(low: float, high: float, most: int, least: float = 0.0) -> Iterator[tuple[float, str]]:
    """Yields round values inside the ends, at most about so many."""
    rough = max((high - low) / most, least)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((n * power for n in (1.0, 2.0, 5.0) if n * power >= rough), 10.0 * power)
    first = math.ceil(low / step)
    for number in range(first, first + 2 * most):
        value = number * step
        if value > high + step * 1e-9:
            return
        yield value, f"{value:.6g}"


def _stroke(name: str, width: float) -> str:
    return f'fill="none" stroke="var(--{name}, {COLOURS[name][0]})" stroke-width="{width:g}"'


def _fill(name: str) -> str:
    return f'fill="var(--{name}, {COLOURS[name][0]})"'


def _style(number: int) -> str:
    dash = _DASHES[number // 2 % len(_DASHES)]
    return _stroke(_SHADES[number % len(_SHADES)], 1.6) + (f' stroke-dasharray="{dash}"' if dash else "")


def _text(x: float, y: float, words: str, *, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {_fill("ink")}{more}>{escape(plain(words))}</text>'


def _svg(id: str, title: str, words: str, height: float, drawn: Sequence[str]) -> str:
    name = escape(id)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" data-picture="{name}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" style="max-width: {_WIDTH:g}px" font-size="{_FONT:g}" '
        f'font-family="system-ui, sans-serif"><title id="{name}-title">{escape(plain(title))}</title>'
        f'<desc id="{name}-desc">{escape(plain(words))}</desc>{"".join(drawn)}</svg>'
    )

"""Draws curves as text: braille dots, or letters where colours or these characters cannot be had. Pure.

Four rows and two columns of dots are one character. Colours are of the 256 that terminals share, of a middle
brightness, so that each is readable on a dark and on a light background.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from perpetual_curves.series import thinned

__all__ = ["COLOURS", "Line", "Look", "marked", "picture"]

COLOURS = (33, 166, 34, 163, 37, 136, 98, 204)  # blue, orange, green, magenta, teal, ochre, violet, pink
_PLAIN = (34, 31, 32, 35, 36, 33, 34, 31)  # of terminals with eight
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_EVERY = 3  # a band's edge is dotted: one column of dots in three


@dataclass(frozen=True)
class Line:
    """A curve to draw; lines of one `group` share a colour, `band` is half the height of what lies around it."""

    label: str
    group: int
    steps: Sequence[float]
    values: Sequence[float | None]
    band: Sequence[float | None] | None = None


@dataclass(frozen=True)
class Look:
    """What the terminal can show: size in characters, colours (0, 8 or 256), whether it has braille characters."""

    width: int
    height: int
    colours: int = 0
    has_braille: bool = True
    log: bool = False


@dataclass
class _Canvas:
    """Cells of the picture, by row and column: the dots and the line that drew there last."""

    columns: int
    rows: int
    dots: dict[tuple[int, int], int] = field(default_factory=dict)
    owner: dict[tuple[int, int], int] = field(default_factory=dict)
    marks: dict[tuple[int, int], str] = field(default_factory=dict)

    def dot(self, x: int, y: int, line: int, mark: str) -> None:
        """Sets the dot (x, y), counted from the lower left."""
        row, column = self.rows - 1 - y // 4, x // 2
        if 0 <= row < self.rows and 0 <= column < self.columns:
            cell = row, column
            if mark == "." and cell in self.marks and self.marks[cell] != ".":
                return  # the edge of a band gives way to a curve
            self.dots[cell] = self.dots.get(cell, 0) | _DOTS[3 - y % 4][x % 2]
            self.owner[cell], self.marks[cell] = line, mark

    def stroke(self, a: tuple[int, int], b: tuple[int, int], line: int, mark: str, every: int = 1) -> None:
        """Draws a straight line between two dots."""
        steps = max(abs(b[0] - a[0]), abs(b[1] - a[1]), 1)
        for n in range(steps + 1):
            x, y = round(a[0] + (b[0] - a[0]) * n / steps), round(a[1] + (b[1] - a[1]) * n / steps)
            if x % every == 0:
                self.dot(x, y, line, mark)


def picture(lines: Sequence[Line], look: Look, *, axis: str) -> list[str]:
    """Returns the picture's lines, with axes; a legend is made by the caller from `mark`s and colours."""
    scaled = [_scaled(line, look.log) for line in lines]
    ends = [_ends(steps, values, band) for steps, values, band in scaled]
    known = [end for end in ends if end is not None]
    if not known:
        return ["nothing to draw: no value is a finite number" + (" above 0" if look.log else "")]
    left, right = min(end[0] for end in known), max(end[1] for end in known)
    low, high = min(end[2] for end in known), max(end[3] for end in known)
    if high - low <= 1e-12 * max(abs(high), abs(low)):
        margin = abs(high) * 0.05 or 0.5
        low, high = low - margin, high + margin
    rows = max(2, look.height - 2)
    texts = _ticks(low, high, rows, look.log)
    gutter = max(map(len, texts.values()))
    names = _end_names(lines, look)
    beside = max(map(len, names), default=0) + 1 if names else 0
    columns = max(4, look.width - gutter - 3 - beside)
    canvas = _Canvas(columns, rows)
    for number, (steps, values, band) in enumerate(scaled):
        mark = _letter(number) if len(lines) > 1 else "*"
        _draw(canvas, number, mark, steps, values, band, (left, right, low, high))
    body = [_row(canvas, row, lines, look) for row in range(rows)]
    if names:
        body = _named(body, canvas, scaled, (low, high), lines, names, look)
    bar, tick, corner, floor = ("│", "┤", "└", "─") if look.has_braille else ("|", "+", "+", "-")
    shown = [f"{texts.get(row, ''):>{gutter}} {tick if row in texts else bar}{body[row]}" for row in range(rows)]
    return [
        *shown,
        f"{'':>{gutter}} {corner}{floor * columns}",
        _below(left, right, gutter + 2, columns, look.width, axis),
    ]


def _scaled(line: Line, log: bool) -> tuple[Sequence[float], list[float | None], Sequence[float | None] | None]:
    """Returns what is drawn of a line: on a logarithmic scale the logarithms, without a band."""
    if not log:
        return line.steps, [*line.values], line.band
    return line.steps, [math.log10(v) if v is not None and v > 0 else None for v in line.values], None


def _ends(
    steps: Sequence[float], values: Sequence[float | None], band: Sequence[float | None] | None
) -> tuple[float, float, float, float] | None:
    known = [n for n, value in enumerate(values) if value is not None]
    if not known:
        return None
    around = [(band[n] or 0.0) if band is not None else 0.0 for n in known]
    tops = [(values[n] or 0.0) + more for n, more in zip(known, around, strict=True)]
    floors = [(values[n] or 0.0) - more for n, more in zip(known, around, strict=True)]
    return steps[0], steps[-1], min(floors), max(tops)


def _draw(
    canvas: _Canvas, number: int, mark: str, steps: Sequence[float], values: Sequence[float | None],
    band: Sequence[float | None] | None, box: tuple[float, float, float, float],
) -> None:  # fmt: skip
    left, right, low, high = box
    wide, tall = canvas.columns * 2 - 1, canvas.rows * 4 - 1
    span = right - left or 1.0

    def place(step: float, value: float) -> tuple[int, int]:
        return round((step - left) / span * wide), round((value - low) / (high - low) * tall)

    kept = thinned(values, 6 * canvas.columns)
    for sign in (1, -1) if band is not None else ():
        before = None
        for n in kept:
            value, half = values[n], band[n] if band is not None else None
            here = None if value is None or half is None else place(steps[n], value + sign * half)
            if before is not None and here is not None:
                canvas.stroke(before, here, number, ".", _EVERY)
            before = here
    before = None
    for n in kept:
        value = values[n]
        here = None if value is None else place(steps[n], value)
        if here is not None:
            canvas.stroke(before or here, here, number, mark)
        before = here


def _letter(number: int) -> str:
    return _LETTERS[number] if number < len(_LETTERS) else "*"


def _uses_letters(lines: Sequence[Line], look: Look) -> bool:
    """Returns whether curves differ by letters: dots of one colour look alike."""
    return not look.has_braille or (look.colours == 0 and len(lines) > 1)


def _row(canvas: _Canvas, row: int, lines: Sequence[Line], look: Look) -> str:
    letters = _uses_letters(lines, look)
    cells = []
    for column in range(canvas.columns):
        cell = row, column
        if cell not in canvas.dots:
            cells.append(" ")
        elif letters:
            cells.append(canvas.marks[cell])
        else:
            cells.append(tinted(chr(0x2800 + canvas.dots[cell]), lines[canvas.owner[cell]].group, look))
    return "".join(cells)


def tinted(text: str, group: int, look: Look) -> str:
    """Returns the text in the colour of a group."""
    if look.colours == 0:
        return text
    code = f"38;5;{COLOURS[group % len(COLOURS)]}" if look.colours >= 256 else str(_PLAIN[group % len(_PLAIN)])
    return f"\x1b[{code}m{text}\x1b[0m"


def marked(number: int, lines: Sequence[Line], look: Look) -> str:
    """Returns the sign of a line in the legend."""
    if _uses_letters(lines, look):
        return _letter(number) if len(lines) > 1 else "*"
    return tinted("━━", lines[number].group, look)


_MOST_NAMED = 12


def _end_names(lines: Sequence[Line], look: Look) -> list[str]:
    """Returns the names beside the curves' ends; none where there are many, or one."""
    names = [line.label for line in lines]
    fits = 1 < len(lines) <= min(_MOST_NAMED, look.height - 2) and max(map(len, names), default=0) <= look.width // 6
    return names if fits else []


def _named(
    body: Sequence[str], canvas: _Canvas,
    scaled: Sequence[tuple[Sequence[float], Sequence[float | None], object]], reach: tuple[float, float],
    lines: Sequence[Line], names: Sequence[str], look: Look,
) -> list[str]:  # fmt: skip
    """Returns the rows with each curve's name beside the row where it ends, or the nearest free one."""
    low, high = reach
    wishes: list[tuple[float, int, int]] = []
    for number, (_, values, _) in enumerate(scaled):
        last = next((value for value in reversed(values) if value is not None), None)
        if last is None:
            continue
        wish = canvas.rows - 1 - round((last - low) / (high - low) * (canvas.rows * 4 - 1)) // 4
        wishes.append((-last, wish, number))
    taken: dict[int, int] = {}
    row = -1
    for place, (_, wish, number) in enumerate(sorted(wishes)):
        row = min(max(row + 1, wish), canvas.rows - len(wishes) + place)
        taken[row] = number
    return [
        f"{text} {tinted(names[taken[row]], lines[taken[row]].group, look)}" if row in taken else text
        for row, text in enumerate(body)
    ]


def _nice(low: float, high: float, most: int) -> list[float]:
    """Returns at most `most` round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / max(most, 1)
    if not raw > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(raw))
    for factor in (1.0, 2.0, 5.0, 10.0, 20.0):
        step = factor * power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            return [n * step for n in range(first, last + 1)]
    return [low]


def _ticks(low: float, high: float, rows: int, log: bool) -> dict[int, str]:
    """Returns the numbers beside the rows; on a logarithmic scale, of the powers of logarithms."""
    found: dict[int, str] = {}
    for value in _nice(low, high, max(3, min(6, rows // 3))):
        row = round((high - value) / (high - low) * (rows - 1))
        found[row] = f"{10**value:.3g}" if log and abs(value) < 300 else f"{value:.10g}"
    if len(found) < 2 or max(map(len, found.values())) > 10:  # a narrow range has no round numbers that are short
        ends = {0: high, rows - 1: low}
        found = {row: f"{10**v if log and abs(v) < 300 else v:.6g}" for row, v in ends.items()}
    return found


def _below(left: float, right: float, indent: int, columns: int, width: int, axis: str) -> str:
    """Returns the line below the picture: round numbers of steps where they belong, and what the steps count.

    Where the last number leaves no room for that, it is left out: the title says it too.
    """
    if left == right:
        return " " * indent + f"{left:g}  {axis}"
    row = [" "] * columns
    end = 0
    for step in _nice(left, right, max(2, columns // 12)):
        text = f"{step:.10g}"
        place = round((step - left) / (right - left) * (columns - 1))
        start = max(0, min(place - len(text) // 2 if place else 0, columns - len(text)))
        if start >= end:
            row[start : start + len(text)] = text
            end = start + len(text) + 2
    start = max(end, columns - len(axis))
    fits = indent + start + len(axis) <= width
    return (" " * indent + "".join(row)[:start].ljust(start) + (axis if fits else "")).rstrip()

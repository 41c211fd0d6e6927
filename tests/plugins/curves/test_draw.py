"""Pictures fit their size, show gaps as gaps, and put names and numbers where they belong."""

from __future__ import annotations

import math
import re
import unicodedata

import pytest

from perpetual_curves.draw import Line, Look, marked, picture

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def _line(values: list[float | None], label: str = "r1", group: int = 0) -> Line:
    return Line(label, group, [float(n) for n in range(len(values))], values)


def _body(rows: list[str]) -> list[str]:
    return [re.split("[│┤|+]", row, maxsplit=1)[1] for row in rows[:-2]]


@pytest.mark.parametrize("width", [20, 60, 80, 200])
@pytest.mark.parametrize("colours", [0, 8, 256])
@pytest.mark.parametrize("has_braille", [True, False])
def test_a_picture_fits_its_size(width: int, colours: int, has_braille: bool) -> None:
    lines = [_line([math.sin(n / 9) for n in range(300)], "e1"), _line([0.001 * n for n in range(200)], "e2", 1)]
    rows = picture(lines, Look(width, 12, colours, has_braille), axis="step")
    plain = [ESCAPE.sub("", row) for row in rows]
    assert len(rows) == 12
    assert max(map(len, plain)) <= width
    assert has_braille or "".join(plain).isascii()
    assert all(unicodedata.east_asian_width(c) in "NaNH A" for c in "".join(plain))
    assert has_braille is False or (rows != plain) == (colours > 0)


def test_a_gap_is_a_gap() -> None:
    values: list[float | None] = [0.5] * 40
    values[15:25] = [None] * 10
    row = next(row for row in _body(picture([_line(values)], Look(60, 8), axis="step")) if row.strip())
    drawn = row.rstrip()
    assert "    " in drawn.strip()
    assert drawn.strip()[0] != " "


def test_the_highest_value_is_above_the_lowest() -> None:
    body = _body(picture([_line([0.0, 1.0])], Look(40, 10), axis="step"))
    assert len(body[0].rstrip()) > len(body[-1].rstrip()) > 0
    assert body[-1].startswith(tuple(chr(n) for n in range(0x2801, 0x2900)))


def test_names_stand_beside_the_ends_in_their_order() -> None:
    lines = [_line([0.0, 0.50], "low"), _line([0.0, 0.52], "mid"), _line([0.0, 1.0], "top")]
    rows = [row.rstrip() for row in picture(lines, Look(80, 14), axis="step")]
    order = [name for row in rows for name in ("low", "mid", "top") if row.endswith(name)]
    assert order == ["top", "mid", "low"]


def test_curves_differ_by_letters_without_colours() -> None:
    lines = [_line([0.0, 1.0]), _line([1.0, 0.0], "r2", 1)]
    look = Look(60, 10)
    text = "\n".join(picture(lines, look, axis="step"))
    assert "a" in text
    assert "b" in text
    assert [marked(n, lines, look) for n in (0, 1)] == ["a", "b"]


def test_odd_numbers_are_drawn_or_said() -> None:
    assert picture([_line([None, None])], Look(60, 10), axis="step") == ["nothing to draw: no value is a finite number"]
    assert "above 0" in picture([_line([-1.0, 0.0])], Look(60, 10, log=True), axis="step")[0]
    for values in ([1e100, -1e100], [5.0], [3.0, 3.0], [1e-300, 2e-300], [1e6 + 1e-6, 1e6]):
        rows = picture([_line([*values])], Look(60, 10), axis="step")
        assert len(rows) == 10, values
    assert len(picture([_line([1e-300, 1e100])], Look(60, 10, log=True), axis="step")) == 10


def test_the_band_is_dotted_around_the_mean() -> None:
    plain = Line("e1", 0, [0.0, 1.0, 2.0], [1.0, 1.0, 1.0])
    banded = Line("e1", 0, [0.0, 1.0, 2.0], [1.0, 1.0, 1.0], [0.5, 0.5, None])
    look = Look(60, 12)
    used = [sum(bool(row.strip()) for row in _body(picture([line], look, axis="step"))) for line in (plain, banded)]
    assert used == [1, 3]

"""Layout of a table of plain cells: columns that wrap, columns to the right, columns left out.

Imported by `perpetual.commands` when a table is shown.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from perpetual.toolkit.screen import broken, is_plain

__all__ = ["laid_out", "print_table"]

_SHORT = 10  # columns: a cell that is no wider is not broken
_NAME = 40  # columns of the first cell, which names its row
_PROSE = 30  # columns that is room for words; with less the widest cell has a line of its own below its row
_LONG = 24  # columns of a word that may be broken
_INDENT = 5  # columns, of the cell below its row
_GAP = 2
_NUMBER = re.compile(r"(<= )?[-+]?\d[\d.,]*(e[-+]?\d+)?( (s|min|h|%|bit))?")
_NONE = ("", "-")


def print_table(columns: Sequence[str], rows: Sequence[Iterable[str]], *, title: str | None, is_screen: bool) -> None:
    """Prints the table on standard output: within a screen's width; elsewhere a line a row, for `grep` and `cut`."""
    if is_plain():
        sys.stdout.write("\n".join([*([title] if title else []), *_facts(columns, [[*row] for row in rows]), ""]))
        return
    from shutil import get_terminal_size

    width = get_terminal_size().columns if is_screen else None
    lines = laid_out(columns, [[*row] for row in rows], title=title, width=width)
    if not (sys.stdout.encoding or "utf-8").lower().startswith("utf"):
        lines = [line.replace("─", "-") for line in lines]
    sys.stdout.write("\n".join([*lines, ""]))


def _facts(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns `name: value` lines, a blank line between rows; a column without a name has its value alone."""
    return [
        line
        for row in rows
        for line in (
            *(f"{name}: {cell}" if name else cell for name, cell in zip(columns, row, strict=True) if cell),
            "",
        )
    ]


def laid_out(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None, width: int | None
) -> list[str]:
    """Returns the table's lines for so many columns, or a line a row without a width.

    A column in which no row has anything is left out. Numbers stand to the right. Cells are broken between words.
    """
    from rich.cells import cell_len

    used = [n for n in range(len(columns)) if not rows or any(row[n] for row in rows)]
    cells = [[row[n].expandtabs() for n in used] for row in (columns, *rows)]
    numeric = [_is_numeric([row[n] for row in rows]) for n in used]
    whole = [max(cell_len(row[place]) for row in cells) for place in range(len(used))]
    widths, below = whole, None
    if width is not None and sum(whole) + _GAP * len(used) > width:
        least = [_least([row[place] for row in cells], place == 0, numeric[place]) for place in range(len(used))]
        widest, room = whole.index(max(whole)), width - _GAP * len(used)
        widths = _shared(least, whole, room)
        if widest and widths[widest] < min(_PROSE, whole[widest] // 2):
            below, least[widest], whole[widest] = widest, 0, 0
            widths = _shared(least, whole, room + _GAP)

    own = [place for place in range(len(used)) if place != below]

    def drawn(row: Sequence[str]) -> list[str]:
        lines = []
        for parts in zip_longest(*(broken(row[place], widths[place]) for place in own), fillvalue=""):
            pads = [" " * (widths[place] - cell_len(part)) for place, part in zip(own, parts, strict=True)]
            sides = zip(parts, pads, own, strict=True)
            joined = (" " * _GAP).join(pad + part if numeric[place] else part + pad for part, pad, place in sides)
            lines.append(f" {joined}".rstrip())
        if below is not None and width is not None and row[below]:
            lines += [" " * _INDENT + text for text in broken(row[below], max(1, width - _INDENT))]
        return lines

    rule = " " + "─" * (sum(widths) + _GAP * (len(own) - 1))
    body = [line for row in cells[1:] for line in drawn(row)]
    return [*([title] if title else []), "", *drawn(cells[0]), rule, *body, ""]


def _least(texts: Sequence[str], is_name: bool, is_numeric: bool) -> int:
    """Returns the columns that a column takes at least, so that no word of it is broken but where it may be."""
    from rich.cells import cell_len

    head, *cells = texts
    sizes = [cell_len(word) for word in head.split()]
    for text in cells:
        size = cell_len(text)
        if is_numeric or size <= _SHORT or (is_name and size <= _NAME):
            sizes.append(size)
        else:
            sizes += [min(cell_len(word), _LONG) for word in text.split()]
    return max(sizes, default=1)


def _shared(least: Sequence[int], whole: Sequence[int], room: int) -> list[int]:
    """Returns the width of each column: what it takes at least, and of the room that is left the narrow ones first."""
    widths = [*least]
    for place in sorted(range(len(whole)), key=lambda place: whole[place]):
        widths[place] += max(0, min(whole[place] - widths[place], room - sum(widths)))
    while sum(widths) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    return widths


def _is_numeric(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell not in _NONE]
    return bool(filled) and all(_NUMBER.fullmatch(cell) for cell in filled)

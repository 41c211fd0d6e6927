"""How a table of plain cells is laid out: what may wrap, what stands to the right, what is left out.

Imported by `perpetual.commands` when a table is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["laid_out", "print_table"]

_SHORT = (24, 16, 10, 0)  # columns: what is no wider is not broken, where that leaves room for the rest
_NAME = 40  # columns of the first cell, which names its row
_PROSE = 24  # columns that is room for words
_GAP = 2
_NUMBER = re.compile(r"(<= )?[-+]?\d[\d.,]*(e[-+]?\d+)?( (s|min|h|%|bit))?")
_NONE = ("", "-")


def print_table(columns: Sequence[str], rows: Sequence[Iterable[str]], *, title: str | None, is_screen: bool) -> None:
    """Prints the table on standard output: within a screen's width; elsewhere a line a row, for `grep` and `cut`."""
    from rich.console import Console

    cells = [[*row] for row in rows]
    if is_screen:
        console = Console(highlight=False)
        console.print(laid_out(columns, cells, title=title, width=console.width))
        return
    wide = sum(_widths(columns, cells)) + _GAP * len(columns) + len(title or "")
    console = Console(width=wide, highlight=False)
    with console.capture() as kept:
        console.print(laid_out(columns, cells, title=title, width=wide))
    console.file.write("".join(line.rstrip() + "\n" for line in kept.get().splitlines()))


def laid_out(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None, width: int) -> Table:
    """Returns the table for so many columns. A column in which no row has anything is left out.

    Numbers stand to the right.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    used = [n for n in range(len(columns)) if not rows or any(row[n] for row in rows)]
    rigid = _rigid(_widths([columns[n] for n in used], [[row[n] for n in used] for row in rows]), width)
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0))
    for n, firm in zip(used, rigid, strict=True):
        table.add_column(
            columns[n],
            overflow="fold",
            no_wrap=firm,
            justify="right" if _is_numeric([row[n] for row in rows]) else "left",
        )
    for row in rows:
        table.add_row(*(Text(row[n]) for n in used))
    return table


def _rigid(widths: Sequence[int], width: int) -> list[bool]:
    """Returns which columns are not broken: all if there is room, else the short ones and what names a row."""
    for limit in (max(widths), *_SHORT):
        rigid = [size <= limit or (place == 0 and size <= _NAME) for place, size in enumerate(widths)]
        least = sum(size if firm else min(size, _PROSE) for size, firm in zip(widths, rigid, strict=True))
        if least + _GAP * len(widths) <= width:
            break
    return rigid


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    return [
        max(cell_len(line.expandtabs()) for text in (head, *(row[n] for row in rows)) for line in text.split("\n"))
        for n, head in enumerate(columns)
    ]


def _is_numeric(cells: Sequence[str]) -> bool:
    told = [cell for cell in cells if cell not in _NONE]
    return bool(told) and all(_NUMBER.fullmatch(cell) for cell in told)

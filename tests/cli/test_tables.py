"""Tables for people: what is empty is left out, ids and numbers stay whole, and a pipe gets a line a row."""

from __future__ import annotations

import pytest
from rich.console import Console

from perpetual.commands.tables import laid_out, print_table

COLUMNS = ("id", "status", "confidence", "tags", "statement")
ROWS = [
    ["h1", "supported", "0.971", "", "a warm-up over the first two hundred steps lowers the validation loss"],
    ["h12", "open", "-", "", "nothing else that anybody has thought of does"],
]


def drawn(width: int) -> list[str]:
    """The lines of the table on a screen of that width."""
    console = Console(width=width, force_terminal=False, highlight=False)
    with console.capture() as kept:
        console.print(laid_out(COLUMNS, ROWS, title=None, width=width))
    return [line.rstrip() for line in kept.get().splitlines() if line.strip()]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_words_wrap_and_ids_and_numbers_do_not(width: int) -> None:
    lines = drawn(width)
    assert max(map(len, lines)) <= width
    assert "tags" not in lines[0]  # no row has any
    head = lines[0].split()
    assert head == ["id", "status", "confidence", "statement"]
    first = next(line for line in lines if "h1 " in line)
    assert first.split()[:3] == ["h1", "supported", "0.971"]
    assert first.index("0.971") + 5 == lines[0].index("confidence") + len("confidence")  # to the right, as its head


def test_however_narrow_the_screen_everything_is_there() -> None:
    cells = "".join("".join(drawn(24)).split())
    for letter in "".join(ROWS[0]).replace(" ", ""):
        assert letter in cells


def test_elsewhere_a_row_is_a_line_without_blanks_at_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, ROWS, title="What is believed", is_screen=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "What is believed"
    assert all(line == line.rstrip() for line in lines)
    assert [line.split()[0] for line in lines[4:6]] == ["h1", "h12"]
    for row in ROWS:
        assert any(row[-1] in line for line in lines)


def test_a_table_without_rows_keeps_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [], title=None, is_screen=False)
    assert capsys.readouterr().out.split()[:5] == [*COLUMNS]

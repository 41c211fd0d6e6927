"""Tables for people: what is empty is left out, ids and numbers stay whole, and a pipe gets a line a row."""

from __future__ import annotations

import pytest

from perpetual.toolkit.screen import folded
from perpetual.toolkit.tables import laid_out, print_table

COLUMNS = ("id", "status", "confidence", "tags", "statement")
ROWS = [
    ["h1", "supported", "0.971", "", "a warm-up over the first two hundred steps lowers the validation loss"],
    ["h12", "open", "-", "", "nothing else that anybody has thought of does"],
]


def drawn(width: int) -> list[str]:
    """The lines of the table on a screen of that width."""
    return [line for line in laid_out(COLUMNS, ROWS, title=None, width=width) if line]


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


WIDE = ("id", "status", "confidence", "false-alarm bound", "evidence", "statement")
CLAIM = "In a 4-gram model, adding 0.1 to every count predicts unseen documentation better than interpolation."


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_no_word_is_broken_and_the_statement_has_room(width: int) -> None:
    lines = laid_out(WIDE, [["h1", "supported", "0.986", "0.015", "2", CLAIM]], title=None, width=width)
    assert max(map(len, lines)) <= width
    body = " ".join(lines[lines.index(next(line for line in lines if line.startswith(" ─"))) + 1 :])
    assert " ".join(body.split()).endswith(CLAIM)  # in order, and each word whole
    assert len(lines) <= 8


def test_a_cell_that_is_too_wide_has_lines_of_its_own_and_an_empty_one_none() -> None:
    rows = [["r1", "failed", CLAIM], ["r2", "done", ""]]
    lines = laid_out(("id", "status of a long name that takes the room", "reason"), rows, title=None, width=60)
    assert lines[2:3] == ["     reason"]
    assert lines[4:] == [
        " r1  failed",
        "     In a 4-gram model, adding 0.1 to every count predicts",
        "     unseen documentation better than interpolation.",
        " r2  done",
        "",
    ]


def test_a_path_is_broken_after_a_slash() -> None:
    long = "/srv/" + "a" * 30 + "/" + "b" * 30
    lines = laid_out(("id", "path"), [["e1", long]], title=None, width=44)
    assert [line.strip() for line in lines[3:-1]] == ["e1  /srv/" + "a" * 30 + "/", "b" * 30]


def test_prose_is_broken_between_words_and_a_command_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    step = f"next: perpetual propose -h h1 {CLAIM}"
    text = f"  {CLAIM}\n  flag: stale, so the thing to do is this: perpetual rebaseline e1\n{step}"
    assert folded(text) == text  # a pipe gets the lines as they are
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    lines = folded(text).splitlines()
    assert lines[0] == "  In a 4-gram model, adding 0.1 to"
    assert all(line.startswith("    ") for line in lines[1:3])
    assert any("perpetual rebaseline e1" in line for line in lines)
    assert lines[-1] == step


def test_what_is_said_of_a_command_goes_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert folded("  perpetual rebaseline e1  (it ran on other code)").splitlines() == [
        "  perpetual rebaseline e1",
        "    (it ran on other code)",
    ]

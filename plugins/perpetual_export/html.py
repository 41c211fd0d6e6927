"""How a notebook shows records and pages of them: tables in HTML, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape

from perpetual.api import printable

__all__ = ["html_of"]

_LONGEST = 200  # characters of a cell
_MOST_ROWS, _MOST_COLUMNS = 100, 12
# What a page of records shows of each, where a record has it.
_FIRST = ("id", "experiment_id", "hypothesis_id", "title", "statement", "status", "kind", "value", "metric", "seed",
          "metrics", "confidence", "duration_s", "run_id", "path", "reason", "sentence", "created_at")  # fmt: skip
# What a record begins with; the rest follows in its own order.
_LEADING = ("id", "status", "title", "statement", "sentence", "effect", "metrics", "reason")


def html_of(found: object) -> str:
    """Returns a record as a table of its fields, what matters first; a page of records has a row each."""
    if isinstance(found, Sequence) and not isinstance(found, str):
        return _page(found)
    rows = [(name, value) for name, value in _fields(found) if value not in (None, (), {}, "")]
    rows.sort(key=lambda row: _LEADING.index(row[0]) if row[0] in _LEADING else len(_LEADING))
    return _table((), ((name, _cell(value)) for name, value in rows))


def _fields(record: object) -> list[tuple[str, object]]:
    if is_dataclass(record) and not isinstance(record, type):
        return [(spec.name, getattr(record, spec.name)) for spec in fields(record)]
    return [*record.items()] if isinstance(record, Mapping) else [("value", record)]


def _page(page: Sequence[object]) -> str:
    shown = page[:_MOST_ROWS]
    rows = [dict(_fields(item)) for item in shown]
    known = dict.fromkeys(name for row in rows for name, value in row.items() if value not in (None, (), {}, ""))
    names = [name for name in _FIRST if name in known][:_MOST_COLUMNS] or [*known][:_MOST_COLUMNS]
    table = _table(names, ([_cell(row.get(name)) for name in names] for row in rows))
    more = len(page) - len(shown)
    is_last = getattr(page, "next_cursor", None) is None
    notes = [f"{more} more on this page"] * (more > 0) + ["there are more pages: list(cursor=page.next_cursor)"] * (
        not is_last
    )
    if not page:
        return "<p>no records</p>"
    return table + "".join(f"<p>{escape(note)}</p>" for note in notes)


def _cell(value: object) -> str:
    if isinstance(value, Mapping):
        value = ", ".join(f"{name} {_cell(item)}" for name, item in value.items())
    elif is_dataclass(value) and not isinstance(value, type):
        value = ", ".join(f"{name} {_cell(item)}" for name, item in _fields(value) if item not in (None, (), {}, ""))
    elif isinstance(value, (list, tuple)):
        value = ", ".join(map(_cell, value))
    elif isinstance(value, float):
        value = f"{value:.6g}"
    text = "" if value is None else " ".join(printable(value).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["<table>"]
    if head:
        lines.append("<thead><tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr></thead>")
    lines.append("<tbody>")
    for row in rows:
        cells = [f"<td>{escape(cell)}</td>" for cell in row]
        if not head:
            cells[0] = f"<th>{escape(row[0])}</th>"
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return "\n".join([*lines, "</tbody></table>"])

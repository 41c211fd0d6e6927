"""The document of `perpetual export`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["Export"]


class Export(TypedDict):
    """A table that was written: `what` it is of, its format, file, number of rows and names of columns.

    `columns` are the keys of a row in JSON lines. `left_out` are names beyond the most columns that a table has.
    """

    what: str
    format: str
    path: str
    rows: int
    columns: list[str]
    left_out: list[str]

"""Data frames of the record: `lab.runs.df()`, and the same of what else is exported.

from perpetual_export.frames import table

table(lab, "hypotheses")
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, BinaryIO, Protocol

from perpetual import Lab
from perpetual.api import PerpetualError, UsageError, unknown
from perpetual_export.rows import KINDS, rows_of
from perpetual_export.tables import Spool

if TYPE_CHECKING:
    from perpetual.lab.context import Context

__all__ = ["LIBRARIES", "Frames", "build", "table", "write_parquet"]


class _PolarsFrame(Protocol):
    def write_parquet(self, file: BinaryIO) -> None: ...


LIBRARIES = ("pandas", "polars")


class Frames:
    """Makes data frames; the part in the slot `frames`."""

    def frame(self, ctx: Context, library: str | None = None) -> object:
        """Returns the data frame of `lab.runs.df()`."""
        return table(Lab(ctx), "runs", library=library)


def build(options: Mapping[str, object]) -> Frames:
    """Returns the part; it has no options."""
    return Frames()


def table(lab: Lab, what: str = "runs", *, library: str | None = None, tag: str | None = None) -> object:
    """Returns a data frame of `runs`, `experiments`, `hypotheses` or `evidence`; columns are those of `export`.

    Args:
        library: `pandas` or `polars`; None takes pandas where it is installed, else polars.
        tag: only what has it, as `perpetual export --tag`.

    Raises:
        UsageError: for another table or library.
        PerpetualError: (frames_missing) where it is not installed.
    """
    if what not in KINDS:
        raise UsageError(unknown("table", what, [*KINDS]))
    chosen = _library(library)
    with Spool(rows_of(lab, what, tag), what) as spool:
        return _polars_frame(spool) if chosen == "polars" else _pandas_frame(spool)


def _library(wanted: str | None) -> str:
    if wanted is not None and wanted not in LIBRARIES:
        raise UsageError(unknown("library of data frames", wanted, LIBRARIES))
    for name in LIBRARIES if wanted is None else (wanted,):
        if find_spec(name) is not None:
            return name
    missing = wanted or "pandas or polars"
    raise PerpetualError(
        f"a data frame needs {missing}, which is not installed",
        hint=f"pip install {wanted or 'pandas'}; without it: perpetual export --csv",
        code="frames_missing",
    )


def _columns(spool: Spool) -> dict[str, list[bool | int | float | str | None]]:
    names = spool.columns.names
    found: dict[str, list[bool | int | float | str | None]] = {name: [] for name in names}
    for row in spool:
        for name in names:
            found[name].append(spool.columns.cell(name, row.get(name)))
    return found


def _pandas_frame(spool: Spool) -> object:
    """Returns the rows with pandas' types that know missing values; floats have NaN there."""
    pandas = import_module("pandas")
    types = {"bool": "boolean", "int": "Int64", "float": "float64", "text": "string"}
    series = {
        name: pandas.Series(values, dtype=types[spool.columns.kind(name)]) for name, values in _columns(spool).items()
    }
    return pandas.DataFrame(series)


def write_parquet(spool: Spool, out: BinaryIO) -> None:
    """Writes the rows with polars, all of them in memory."""
    _polars_frame(spool).write_parquet(out)


def _polars_frame(spool: Spool) -> _PolarsFrame:
    polars = import_module("polars")
    types = {"bool": polars.Boolean, "int": polars.Int64, "float": polars.Float64, "text": polars.String}
    schema = {name: types[spool.columns.kind(name)] for name in spool.columns.names}
    found: _PolarsFrame = polars.DataFrame(_columns(spool), schema=schema)
    return found

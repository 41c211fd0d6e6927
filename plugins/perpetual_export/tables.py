"""Writes rows as CSV, JSON lines or Parquet, in a memory that does not grow with their number.

The columns of a table are known once every row was seen, so the rows of a flat format lie in a temporary file
meanwhile: the record is read once, and the table is of one moment.
"""

from __future__ import annotations

import csv
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from perpetual.api import Conflict, PerpetualError, UsageError
from perpetual.toolkit.atomic import fsync_dir
from perpetual.toolkit.confined import is_inside
from perpetual_export.columns import Columns, number_in, scalar
from perpetual_export.rows import Row, columns_of, flattened

if TYPE_CHECKING:
    from types import ModuleType


__all__ = ["FORMATS", "Spool", "defused", "require_parquet", "write_csv", "write_file", "write_jsonl", "write_parquet"]

FORMATS = ("csv", "jsonl", "parquet")
_GROUP = 5_000  # rows of a Parquet row group, which is what is in memory
# What a spreadsheet takes for a formula at the beginning of a cell, also in full width and behind blanks (OWASP).
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "|", "%")


def defused(text: str) -> str:
    """Returns a text that no spreadsheet evaluates: one that begins like a formula gets an apostrophe before it."""
    if number_in(text) is None and (text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA)):
        return "'" + text
    return text


class Spool:
    """Flat rows of a table in a temporary file, with their columns. A context manager."""

    def __init__(self, rows: Iterable[Row], what: str) -> None:
        """Reads the rows; `what` says of which kind they are."""
        self.columns, self.count = Columns(columns_of(what)), 0
        self._file: TextIO = tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogatepass")  # noqa: SIM115
        for row in rows:
            flat = flattened(row)
            self.columns.add(flat)
            self._file.write(json.dumps(flat, default=str) + "\n")
            self.count += 1

    def __iter__(self) -> Iterator[dict[str, object]]:
        self._file.seek(0)
        for line in self._file:
            yield json.loads(line)

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def write_csv(spool: Spool, out: TextIO) -> None:
    """Writes the rows with a header; a text that a spreadsheet would evaluate is defused, an unknown value is empty."""
    names = spool.columns.names
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_cell(name) for name in names])
    for row in spool:
        writer.writerow([_cell(scalar(row.get(name))) for name in names])


def _cell(value: bool | int | float | str | None) -> str:
    if isinstance(value, str):
        text = value.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
        return defused(text)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def write_jsonl(rows: Iterable[Row], out: TextIO) -> int:
    """Writes one JSON object a row, numbers that are not finite as null; returns how many."""
    count = 0
    for row in rows:
        out.write(json.dumps(_finite(row), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace").decode())
        out.write("\n")
        count += 1
    return count


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value if isinstance(value, (int, str, bool)) or value is None else _number(value)


def _number(value: object) -> object:
    return scalar(value) if isinstance(value, float) else str(value)


def require_parquet() -> str:
    """Returns the library that writes Parquet: pyarrow, else polars.

    Raises:
        PerpetualError: (parquet_missing) where neither is installed.
    """
    for library in ("pyarrow", "polars"):
        if find_spec(library) is not None:
            return library
    raise PerpetualError(
        "Parquet needs pyarrow or polars, which are not installed",
        hint="pip install 'perpetual-lab[export]', or --csv",
        code="parquet_missing",
    )


def write_parquet(spool: Spool, out: BinaryIO) -> None:
    """Writes the rows as typed columns: bool, int64, float64 or text.

    Raises:
        PerpetualError: (parquet_missing) where neither pyarrow nor polars is installed.
    """
    if require_parquet() == "polars":
        from perpetual_export import frames

        frames.write_parquet(spool, out)
        return
    arrow = import_module("pyarrow")
    parquet = import_module("pyarrow.parquet")
    names = spool.columns.names
    schema = arrow.schema([(name, _arrow_type(arrow, spool.columns.kind(name))) for name in names])
    with parquet.ParquetWriter(out, schema) as writer:
        for rows in _groups(spool):
            arrays = {name: [spool.columns.cell(name, row.get(name)) for row in rows] for name in names}
            writer.write_table(arrow.table(arrays, schema=schema))


def _arrow_type(arrow: ModuleType, kind: str) -> object:
    return {"bool": arrow.bool_, "int": arrow.int64, "float": arrow.float64, "text": arrow.string}[kind]()


def _groups(spool: Spool) -> Iterator[list[dict[str, object]]]:
    group: list[dict[str, object]] = []
    for row in spool:
        group.append(row)
        if len(group) == _GROUP:
            yield group
            group = []
    if group or spool.count == 0:
        yield group


def write_file(path: Path, write: Callable[[BinaryIO], None], *, replace: bool) -> None:
    """Writes a file in one step, as `write` fills it: a reader sees the whole file, or the one before.

    Raises:
        Conflict: where there is a file and `replace` is False; it stays as it is.
        UsageError: for a link, a device or a pipe, and for a file of a project's record.
        PerpetualError: where it cannot be written; nothing is left.
    """
    if is_inside(os.path.realpath(path)):
        raise UsageError(f"{path} is inside a .perpetual", hint="choose another file with -o")
    refusal = Conflict(f"{path} exists already", hint="--force replaces it, or choose another file with -o")
    if os.path.lexists(path):
        if not replace:
            raise refusal
        if not stat.S_ISREG(os.lstat(path).st_mode):  # a device, a pipe, or a link to what is not ours
            raise UsageError(f"{path} is no regular file and is not replaced", hint="choose another file with -o")
    temporary = path.parent / f".{path.name[:100]}.{os.urandom(6).hex()}.tmp"
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            _put(temporary, path)
        fsync_dir(path.parent)
    except FileExistsError:
        raise refusal from None
    except OSError as problem:
        raise PerpetualError(
            f"{path} could not be written: {problem.strerror or problem}", hint="choose another file with -o"
        ) from problem
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _put(temporary: Path, path: Path) -> None:
    """Gives the file its name unless another process took it meanwhile."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise FileExistsError(os.fspath(path)) from None
        os.replace(temporary, path)

"""The command `export`. Loaded by the command line when it is called."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import click

from perpetual.api import CliContext, UsageError, json_option, pass_cli, printable
from perpetual.toolkit.units import counted
from perpetual_export.rows import KINDS, Row, rows_of
from perpetual_export.tables import FORMATS, Spool, require_parquet, write_csv, write_file, write_jsonl, write_parquet

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_export.documents import Export

__all__ = ["export", "exported"]


@click.command()
@click.option("--csv", "wanted", flag_value="csv", help="Comma-separated values, for spreadsheets.")
@click.option("--jsonl", "wanted", flag_value="jsonl", help="One JSON object a line, for programs.")
@click.option("--parquet", "wanted", flag_value="parquet", help="Typed columns, for data frames; needs -o FILE.")
@click.option(
    "--what", type=click.Choice([*KINDS]), default="runs", show_default=True, help="One row for each of them."
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@json_option
@pass_cli
def export(cli: CliContext, wanted: str | None, what: str, output: Path | None, force: bool) -> None:
    """Write runs, experiments, hypotheses or evidence as a table.

    A row of a run has its experiment's parameters (`param.lr`) and its metrics (`metric.val_loss`) as columns. Without
    --output it is printed; without a format the file's name decides, else it is CSV. In CSV a text that a spreadsheet
    would take for a formula begins with an apostrophe.
    """
    if output == Path("-"):
        output = None
    chosen = wanted or _named(output)
    if output is None:
        if chosen == "parquet":
            raise UsageError("Parquet is no text and needs a file", hint="perpetual export --parquet -o runs.parquet")
        if cli.as_json:
            raise UsageError(
                "--json answers what was written, so the table needs a file",
                hint=f"perpetual export --{chosen} -o FILE --json, or without --json",
            )
        _print(cli.lab, what, chosen)
        return
    document = exported(cli.lab, what, chosen, output, replace=force)
    rows = counted(document["rows"], "row")
    columns = counted(len(document["columns"]), "column")
    left = document["left_out"]
    note = f"\n{counted(len(left), 'more column')} left out, such as {left[0]}: --jsonl has them" if left else ""
    cli.answer("export", {**document}, f"wrote {output}: {rows}, {columns}{printable(note)}")


def _named(output: Path | None) -> str:
    suffix = output.suffix.lstrip(".").lower() if output is not None else ""
    return {"ndjson": "jsonl", "pq": "parquet"}.get(suffix, suffix if suffix in FORMATS else "csv")


def _print(lab: Lab, what: str, chosen: str) -> None:
    out = _Output(sys.stdout)
    if chosen == "jsonl":
        write_jsonl(rows_of(lab, what), out)
        return
    with Spool(lab, what) as spool:
        write_csv(spool, out)


class _Output(io.StringIO):
    """Standard output: no text of the record sends a terminal a control character, or an encoding what it lacks."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out, self._is_screen, self._encoding = out, out.isatty(), out.encoding or "utf-8"

    def write(self, text: str) -> int:
        """Writes the text on."""
        shown = printable(text) if self._is_screen else text
        self._out.write(shown.encode(self._encoding, "backslashreplace").decode(self._encoding))
        return len(text)


def exported(lab: Lab, what: str, chosen: str, path: Path, *, replace: bool = False) -> Export:
    """Writes a table to a file and returns the document of `perpetual export`.

    Raises:
        Conflict: where there is a file and `replace` is False.
        PerpetualError: (parquet_missing) where no library writes Parquet; where the file cannot be written.
    """
    if chosen == "parquet":
        require_parquet()
    count, names, left_out = 0, list[str](), list[str]()

    def write(file: BinaryIO) -> None:
        nonlocal count, names, left_out
        text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        try:
            if chosen == "jsonl":
                rows = _Rows(lab, what)
                count = write_jsonl(rows, text)
                names = rows.names
                return
            with Spool(lab, what) as spool:
                count, names, left_out = spool.count, spool.columns.names, sorted(spool.columns.left_out)
                if chosen == "csv":
                    write_csv(spool, text)
                else:
                    write_parquet(spool, file)
        finally:
            text.detach()

    write_file(path, write, replace=replace)
    return {
        "what": what,
        "format": chosen,
        "path": os.fspath(path.absolute()),
        "rows": count,
        "columns": names,
        "left_out": left_out,
    }


class _Rows:
    """Rows of a table as they pass by, with the keys of the first."""

    def __init__(self, lab: Lab, what: str) -> None:
        self._lab, self._what = lab, what
        self.names: list[str] = []

    def __iter__(self) -> Iterator[Row]:
        for row in rows_of(self._lab, self._what):
            self.names = self.names or [*row]
            yield row

"""The command `export`. Loaded by the command line when it is called."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import click

from perpetual.api import CliContext, UsageError, json_option, line, pass_cli, printable
from perpetual.toolkit.units import counted
from perpetual_export.rows import KINDS, Row, rows_of
from perpetual_export.tables import FORMATS, Spool, require_parquet, write_csv, write_file, write_jsonl, write_parquet

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_export.crate import Terms
    from perpetual_export.documents import Export

__all__ = ["export", "exported"]

_SHOWN = 10  # notes shown to people; --json has them all


@click.command()
@click.option("--csv", is_flag=True, help="Comma-separated values, for spreadsheets.")
@click.option("--jsonl", is_flag=True, help="One JSON object a line, for programs.")
@click.option("--parquet", is_flag=True, help="Typed columns, for data frames; needs -o FILE.")
@click.option(
    "--what", type=click.Choice([*KINDS]), default="runs", show_default=True, help="One row for each of them."
)
@click.option("--tag", metavar="T", help="Only what has this tag; a run has those of its experiment.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@click.option("--force", is_flag=True, help="Replace the file, or the crate, if it exists.")
@click.option(
    "--ro-crate", "crate", metavar="DIR", type=click.Path(path_type=Path),
    help="Write everything as an RO-Crate: a folder, or a zip file by its name.",
)  # fmt: skip
@click.option("--with-artifacts", is_flag=True, help="Copy the runs' artifacts into the crate.")
@click.option("--license", metavar="ID", help="Licence of the crate: an SPDX identifier, or a URL.")
@click.option("--author", "authors", multiple=True, metavar="NAME[=URL]", help="Author of the crate; may be repeated.")
@click.option("--description", metavar="TEXT", help="What the crate is about, in place of a count of what is in it.")
@json_option
@pass_cli
def export(
    cli: CliContext,
    csv: bool,
    jsonl: bool,
    parquet: bool,
    what: str,
    tag: str | None,
    output: Path | None,
    force: bool,
    crate: Path | None,
    with_artifacts: bool,
    license: str | None,
    authors: tuple[str, ...],
    description: str | None,
) -> None:
    """Write runs, experiments, hypotheses or evidence as a table, or everything as an RO-Crate.

    A row of a run has its experiment's parameters (`param.lr`) and its metrics (`metric.val_loss`) as columns. Without
    --output it is printed; without a format the file's ending decides, else it is CSV. In CSV a text that a spreadsheet
    would take for a formula begins with an apostrophe.
    """
    wanted = [name for name, is_given in (("csv", csv), ("jsonl", jsonl), ("parquet", parquet)) if is_given]
    if crate is not None:
        if wanted or output is not None or tag is not None:
            raise UsageError("--ro-crate writes everything, without a format, --tag and --output")
        _crate(cli, crate, _terms(license, authors, description), with_artifacts=with_artifacts, force=force)
        return
    if with_artifacts or license or authors or description:
        what_of = "--with-artifacts, --license, --author and --description are of a crate"
        raise UsageError(what_of, hint="--ro-crate DIR")
    if tag is not None and what == "evidence":
        raise UsageError("evidence has no tags", hint="--what hypotheses --tag T")
    if len(wanted) > 1:
        raise UsageError(f"{' and '.join(f'--{name}' for name in wanted)} exclude each other", hint=f"--{wanted[0]}")
    if output == Path():  # "", as of a variable of a shell that is not set
        raise UsageError("-o names no file", hint="-o runs.csv")
    if output == Path("-"):
        output = None
    chosen = wanted[0] if wanted else _named(output)
    if output is None:
        if chosen == "parquet":
            raise UsageError("Parquet is no text and needs a file", hint="perpetual export --parquet -o runs.parquet")
        if cli.as_json:
            raise UsageError(
                "--json answers what was written, so the table needs a file",
                hint=f"perpetual export --{chosen} -o FILE --json, or without --json",
            )
        _print(cli.lab, what, chosen, tag)
        return
    document = exported(cli.lab, what, chosen, output, replace=force, tag=tag)
    rows = counted(document["rows"], "row")
    columns = counted(len(document["columns"]), "column")
    left = document["left_out"]
    note = f"\n{counted(len(left), 'more column')} left out, such as {left[0]}: --jsonl has them" if left else ""
    cli.answer("export", {**document}, f"wrote {output}: {rows}, {columns}{printable(note)}")


def _terms(license: str | None, authors: Sequence[str], description: str | None) -> Terms:
    from perpetual_export.crate import Terms, parse_author

    try:
        return Terms(license, [parse_author(text) for text in authors], description)
    except ValueError as problem:
        raise UsageError(str(problem)) from problem


def _crate(cli: CliContext, path: Path, terms: Terms, *, with_artifacts: bool, force: bool) -> None:
    """Writes the crate, and says what it lacks."""
    from perpetual.toolkit.units import shown_bytes
    from perpetual_export.crate_files import artifact_bytes, write_crate

    if with_artifacts:
        count, size = artifact_bytes(cli.lab)
        click.echo(f"copying {counted(count, 'artifact')}, {shown_bytes(size)}", err=True)
    made = write_crate(cli.lab, path, terms, with_artifacts=with_artifacts, replace=force)
    lines = [f"wrote {path}: {counted(made['files'], 'file')}, {counted(made['runs'], 'run')}"]
    left = made["artifacts"] - made["copied"]
    if left:
        bytes_shown = shown_bytes(made["artifact_bytes"])
        more = "" if with_artifacts else "; --with-artifacts copies them"
        lines.append(
            f"{left} of {counted(made['artifacts'], 'artifact')} ({bytes_shown}) described by size and hash{more}"
        )
    lines += [f"note: {line(note)}" for note in made["notes"][:_SHOWN]]
    if made["missing"]:
        lines.append(f"recommended and not given: {', '.join(f'--{name}' for name in made['missing'])}")
    cli.answer("crate", {**made}, printable("\n".join(lines)))


def _named(output: Path | None) -> str:
    """Returns the format that a file's name says, CSV without an ending.

    Raises:
        UsageError: for another ending, since a program that goes by it would refuse the file.
    """
    suffix = output.suffix.lstrip(".").lower() if output is not None else ""
    known = {name: name for name in FORMATS} | {"ndjson": "jsonl", "pq": "parquet", "": "csv"}
    if suffix not in known:
        endings = ", ".join(f".{name}" for name in known if name)
        raise UsageError(f"no format has the ending .{suffix[:40]}", hint=f"{endings}; or name one: --csv")
    return known[suffix]


def _print(lab: Lab, what: str, chosen: str, tag: str | None) -> None:
    out = _Output(sys.stdout)
    if chosen == "jsonl":
        write_jsonl(rows_of(lab, what, tag), out)
        return
    with Spool(rows_of(lab, what, tag), what) as spool:
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


def exported(lab: Lab, what: str, chosen: str, path: Path, *, replace: bool = False, tag: str | None = None) -> Export:
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
                rows = _Rows(rows_of(lab, what, tag))
                count = write_jsonl(rows, text)
                names = rows.names
                return
            with Spool(rows_of(lab, what, tag), what) as spool:
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

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self.names: list[str] = []

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.names = self.names or [*row]
            yield row

"""The command `report`. Loaded by the command line when it is called."""

from __future__ import annotations

import os
from pathlib import Path

import click

from perpetual.api import Face, PerpetualError, json_option, pass_face

__all__ = ["report"]


@click.command()
@click.option("--format", "format_", type=click.Choice(["md"]), default="md", show_default=True, help="Markdown.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@json_option
@pass_face
def report(face: Face, format_: str, output: Path | None) -> None:
    """Write the research up: verdicts with their false-alarm bounds, evidence, costs, failures.

    Every number names the run, and the line of its log, that it came from. Without --output it is printed.
    """
    from perpetual_report.document import render, write

    text = render(face.lab)
    if output is not None:
        try:
            write(output, text)
        except OSError as problem:
            raise PerpetualError(
                f"{output} could not be written: {problem.strerror or problem}", hint="choose another file with -o"
            ) from problem
    document = {"format": format_, "path": os.fspath(output.absolute()) if output else None, "text": text}
    face.answer("report", document, f"wrote {output}" if output else text.rstrip())

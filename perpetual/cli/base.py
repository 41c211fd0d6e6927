"""What every command stands on: the `Face` (project, output format, lab) and the decorator that gives it `--json`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from perpetual.errors import ConfigError, NoProject, PerpetualError, UsageError

if TYPE_CHECKING:
    from perpetual.lab import Lab
    from perpetual.lab.inventory import Inventory

__all__ = ["Face", "carried", "json_object", "json_option", "key_option", "page_options", "pass_face", "printable"]


class Face:
    """One command's view of the world. `answer` and `items` are how a command shows what it did."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.project: str | None = None
        self.as_json = as_json
        self.safe = self.debug = self.is_for_help = False
        self.offers: dict[str, tuple[str, str]] | None = None  # commands of plugins, once they were asked for
        self._lab: Lab | None = None
        self._out: TextIO | None = None  # where answers go while everything else is kept away from it

    @property
    def lab(self) -> Lab:
        """The project's lab, opened at first use."""
        if self._lab is None:
            from perpetual.lab import Lab

            self._lab = Lab.open(self.project, safe=self.safe)
        return self._lab

    def inventory(self) -> Inventory:
        """What the lab is made of; outside a project, what a new one here would be made of."""
        try:
            return self.lab.inventory()
        except NoProject:
            if self._is_named:
                raise
            from pathlib import Path  # here, and not above: `--help` would pay for it

            from perpetual.lab.inventory import Inventory

            return Inventory.outside(Path.cwd(), safe=self.safe)

    def checks(self) -> list[dict[str, Any]]:
        """The doctor's findings; outside a project, or in one whose files are broken, those that need none."""
        from perpetual.lab.doctor import Doctor

        try:
            return self.lab.doctor()
        except NoProject:
            if self._is_named:
                raise
            return Doctor.outside()
        except ConfigError as problem:
            return Doctor.outside(problem)

    @property
    def _is_named(self) -> bool:
        """Whether the project was named rather than looked for, so that going on without it would be wrong."""
        return bool(self.project or os.environ.get("PERPETUAL_PROJECT"))

    def close(self) -> None:
        """Lets go of the lab."""
        if self._lab is not None:
            self._lab.close()
            self._lab = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps standard output to what `write` writes: what plugins print meanwhile goes to standard error."""
        if self._out is not None:
            yield
            return
        self._out, sys.stdout = sys.stdout, sys.stderr
        try:
            yield
        finally:
            sys.stdout, self._out = self._out, None

    def write(self, document: str) -> None:
        """A JSON document on a line of standard output, at once."""
        out = self._out or sys.stdout
        try:
            out.write(carried(document, out) + "\n")
            out.flush()
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise PerpetualError(
                f"standard output could not be written: {problem.strerror}",
                hint="what was asked for was done; only the answer is missing",
            ) from problem

    def answer(self, schema: str, document: dict[str, Any], text: str | Callable[[], str]) -> None:
        """Shows one document: as JSON with its schema, or as text for people."""
        if self.as_json:
            self.write(json.dumps({"schema": f"perpetual.{schema}/1", **document}, ensure_ascii=False))
            return
        shown = text() if callable(text) else text
        if shown:
            click.echo(shown)

    def items(
        self,
        schema: str,
        items: Sequence[dict[str, Any]],
        next_cursor: str | None,
        columns: Sequence[str],
        row: Callable[[dict[str, Any]], Iterable[str]],
        *,
        empty: str,
        extra: dict[str, Any] | None = None,
    ) -> None:
        """Shows a list: as JSON with `items` and `next_cursor`, or as a table of `row(item)` cells."""
        if self.as_json:
            document = {
                "schema": f"perpetual.{schema}/1",
                "items": [*items],
                "next_cursor": next_cursor,
                **(extra or {}),
            }
            self.write(json.dumps(document, ensure_ascii=False))
            return
        if not items:
            click.echo(empty)
            return
        self.table(columns, [row(item) for item in items])
        if next_cursor is not None:
            click.echo(f"more: --cursor {next_cursor}")

    def table(self, columns: Sequence[str], rows: Sequence[Iterable[str]], *, title: str | None = None) -> None:
        """Prints a table for people; cells are plain text, their control characters made visible."""
        from perpetual.cli.tables import print_table

        cells = [[printable(cell) for cell in row] for row in rows]
        print_table(columns, cells, title=title, is_screen=sys.stdout.isatty())

    def progress(self, text: str) -> None:
        """A line for people about what is going on, on standard error."""
        if not self.as_json:
            click.echo(text, err=True)


def carried(document: str, out: TextIO) -> str:
    """The same JSON document, its characters escaped where the stream's encoding has no bytes for them."""
    if document.isascii() or (out.encoding or "utf-8").lower().replace("-", "") == "utf8":
        return document
    return json.dumps(json.loads(document))


def printable(text: object) -> str:
    """The text with control characters (terminal escapes among them) made visible; newlines and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in str(text))


pass_face = click.make_pass_decorator(Face)


def _set_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Face).as_json = True


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command `--json`, so that it may stand after the command as well as before."""
    return click.option(
        "--json", is_flag=True, expose_value=False, callback=_set_json, help="Answer one JSON document."
    )(command)


def page_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a listing `--limit` and `--cursor`."""
    command = click.option("--cursor", help="Where the page before ended (its next_cursor).")(command)
    return click.option(
        "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Items on a page."
    )(command)


def key_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command that creates something `--idempotency-key`."""
    return click.option(
        "--idempotency-key", metavar="K", help="A second call with the same key answers what the first one made."
    )(command)


def json_object(text: str | None, flag: str) -> dict[str, Any] | None:
    """The JSON object that a person typed as the value of `flag`; None for None.

    Raises:
        UsageError: saying where the text stops being JSON, or what it is instead of an object.
    """
    if text is None:
        return None
    hint = f"""quoted for the shell, as in {flag} '{{"lr": 0.1}}'"""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        near = text[problem.pos : problem.pos + 20]
        raise UsageError(
            f"{flag} is no JSON: {problem.msg} at {where}" + (f", before {near!r}" if near else ""), hint=hint
        ) from problem
    except (ValueError, RecursionError) as problem:  # a number of thousands of digits; brackets a thousand deep
        raise UsageError(f"{flag} is no JSON that can be read: {problem}", hint=hint) from problem
    if not isinstance(value, dict):
        kind = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(type(value), "a number")
        raise UsageError(f"{flag} must be a JSON object, not {kind}", hint=hint)
    return value

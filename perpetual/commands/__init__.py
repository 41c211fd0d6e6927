"""The command kit: what a click command of Perpetual or of a plugin is made with.

    import click
    from perpetual.api import CliContext, json_option, pass_cli

    @click.command()
    @json_option
    @pass_cli
    def open_claims(cli: CliContext) -> None:
        page = cli.lab.hypotheses.list(status="open")
        cli.answer("open_claims", {"count": len(page.items)}, f"{len(page.items)} open")

Floor 4: above the lab, below the command line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, TypeVar

import click

from perpetual.errors import ConfigError, CorruptData, NoProject, PerpetualError, UsageError

if TYPE_CHECKING:
    from perpetual.documents.machine import DoctorCheck
    from perpetual.lab import Lab
    from perpetual.lab.plugin_listing import Inventory

Item = TypeVar("Item", bound="Mapping[str, object]")

__all__ = ["CliContext", "carried", "json_option", "line", "pass_cli", "printable"]


class CliContext:
    """One command's context: project, output format, lab. `answer` and `items` show what the command did."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.project: str | None = None
        self.as_json = as_json
        self.approve_token: str | None = None  # taken out of the environment before anything is started
        self.safe = self.debug = self.is_for_help = self.is_for_all = False
        self.for_agent = False  # an agent reads the answer: see `perpetual.commands.agent_output`
        self.namespace = ""  # of the documents of a command that another distribution brings
        self.offers: dict[str, tuple[str, str, str, str]] | None = None  # commands of plugins, once they were asked for
        self.command: str | None = None  # the word that names it
        self.running: str | None = None  # the full name of another distribution's command, once it is called
        self._lab: Lab | None = None
        self.on_open: Callable[[CliContext], None] | None = None  # called once the lab is open
        self._out: TextIO | None = None  # where answers go while everything else is kept away from it

    @property
    def lab(self) -> Lab:
        """Returns the project's lab, opened at first use."""
        if self._lab is None:
            from perpetual.lab import Lab

            self._lab = Lab.open(self.project, safe=self.safe)
            if self.on_open is not None:
                self.on_open(self)
        return self._lab

    @property
    def withholds(self) -> bool:
        """Returns whether an agent reads the answer, so that it names no command or key that is for a person."""
        if self._lab is not None:
            return self._lab.settings.withholds
        from perpetual.config import user_marks
        from perpetual.toolkit.agents import mark

        try:
            marks = user_marks()
        except PerpetualError:  # the command itself says what is wrong with the file
            marks = []
        return mark(os.environ, marks) is not None

    def steps(self, steps: Sequence[str]) -> list[str]:
        """Returns the next steps as the reader of this answer is to see them."""
        from perpetual.toolkit.readers import agent_steps

        return agent_steps(steps) if self.withholds else [*steps]

    def hint(self, hint: str | None) -> str | None:
        """Returns a hint as the reader of this answer is to see it."""
        from perpetual.toolkit.readers import agent_hint

        return agent_hint(hint) if hint and self.withholds else hint

    def inventory(self) -> Inventory:
        """Returns what the lab is made of; outside a project, what a new one here would be made of."""
        try:
            return self.lab.inventory()
        except NoProject:
            if self._is_named:
                raise
            from pathlib import Path  # here, and not above: `--help` would pay for it

            from perpetual.lab.plugin_listing import Inventory

            return Inventory.outside(Path.cwd(), safe=self.safe)

    def checks(self) -> list[DoctorCheck]:
        """Returns the doctor's findings; outside a project, or in one whose files are broken, those that need none."""
        return [{**item, "hint": self.hint(item["hint"])} for item in self._checks()]

    def _checks(self) -> list[DoctorCheck]:
        from perpetual.lab.doctor import Doctor

        try:
            return self.lab.doctor()
        except NoProject:
            if self._is_named:
                raise
            return Doctor.outside()
        except (ConfigError, CorruptData) as problem:
            return Doctor.outside(problem)

    @property
    def _is_named(self) -> bool:
        """Returns whether the project was named rather than looked for, so that going on without it would be wrong."""
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

    def write(self, document: str, *, for_harness: bool = False) -> None:
        """Writes a JSON document as a line of standard output, at once.

        Args:
            for_harness: the document is of another program's form, and what it quotes is fenced already.
        """
        out = self._out or sys.stdout
        try:
            if self.for_agent:
                from perpetual.commands.agent_output import FencedOutput, sealed

                document = document if for_harness else sealed(document)
                if isinstance(out, FencedOutput):
                    out.own(document + "\n")
                    return
            out.write(carried(document, out) + "\n")
            out.flush()
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise PerpetualError(
                f"standard output could not be written: {problem.strerror}",
                hint="what was asked for was done; only the answer is missing",
            ) from problem

    def answer(
        self,
        schema: str,
        document: Mapping[str, object],
        text: str | Callable[[], str],
        *,
        is_fenced: bool = False,
        is_verbatim: bool = False,
    ) -> None:
        """Shows one document: as JSON with its schema, or as text for people.

        Args:
            is_fenced: the text holds its fences already, where an agent reads it.
            is_verbatim: its long lines are not broken on a terminal.
        """
        if self.as_json:
            head = {"schema": self._schema(schema)}
            self.write(
                json.dumps({**head, **document, **head}, ensure_ascii=False)
            )  # first, and not the document's own
            return
        shown = text() if callable(text) else text
        if "next: " in shown and self.withholds:
            from perpetual.toolkit.readers import agent_lines

            shown = agent_lines(shown)
        if not (shown and self.for_agent):
            if shown:
                from perpetual.toolkit.screen import folded

                click.echo(shown if is_verbatim else folded(shown))
            return
        from perpetual.toolkit.readers import is_waiting

        lines = shown.split("\n")
        own = lines if is_fenced else [line for line in lines if is_waiting(line)]
        foreign = [] if is_fenced else [line for line in lines if not is_waiting(line)]
        if foreign:
            click.echo("\n".join(foreign))
        if own:
            self.own("\n".join(own))

    def _schema(self, name: str) -> str:
        """Returns the schema of an answer; a plugin of another distribution has names of its own.

        `perpetual.acme.NAME/1`.
        """
        return f"perpetual.{self.namespace}{name}/1"

    def own(self, text: str) -> None:
        """Writes lines of the program alone: where an agent reads, they are outside the fence."""
        from perpetual.commands.agent_output import FencedOutput

        if isinstance(sys.stdout, FencedOutput):
            sys.stdout.own(text + "\n")
        else:
            click.echo(text)

    def goes_on(self) -> None:
        """Says that output follows until it is interrupted, so that none of it is held back."""
        from perpetual.commands.agent_output import FencedOutput

        if isinstance(sys.stdout, FencedOutput):
            sys.stdout.follow()

    def watch(self, draw: Callable[[], None]) -> None:
        """Draws an answer anew until q or Ctrl-C: as the record changes, and each second while runs are live."""
        if self.as_json or not sys.stdout.isatty():
            raise UsageError("--watch draws on a terminal, and nothing else", hint="leave --watch out")
        from perpetual.toolkit.redraw import redrawn

        seen = [self.lab.feed.last()]

        def wait() -> bool:
            self.lab.feed.wait(seen[0], timeout_s=1.0)
            seen.append(self.lab.feed.last())
            return seen.pop(0) != seen[0] or bool(self.lab.runs.live() or self.lab.live_sections())

        redrawn(draw, wait)

    def items(
        self,
        schema: str,
        items: Sequence[Item],
        next_cursor: str | None,
        columns: Sequence[str],
        row: Callable[[Item], Iterable[str]],
        *,
        empty: str,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Shows a list: as JSON with `items` and `next_cursor`, or as a table of `row(item)` cells."""
        if self.as_json:
            document = {"schema": self._schema(schema), "items": [*items], "next_cursor": next_cursor, **(extra or {})}
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
        from perpetual.toolkit.tables import print_table

        cells = [[line(cell) for cell in row] for row in rows]
        print_table(columns, cells, title=title, is_screen=sys.stdout.isatty())

    def progress(self, text: str) -> None:
        """Writes a line about the progress to standard error."""
        if not self.as_json:
            if self.for_agent:
                from perpetual.toolkit.fence import fence

                text = fence(text)
            click.echo(text, err=True)


def carried(document: str, out: TextIO) -> str:
    """Returns the same JSON document, its characters escaped where the stream's encoding has no bytes for them."""
    if document.isascii() or (out.encoding or "utf-8").lower().replace("-", "") == "utf8":
        return document
    return json.dumps(json.loads(document))


def printable(text: object) -> str:
    """Returns the text with control characters (terminal escapes among them) made visible; newlines and tabs stay."""
    words = str(text)
    if words.replace("\n", "").replace("\t", "").isprintable():  # a long log is looked at in a hundredth of the time
        return words
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in words)


def line(text: object) -> str:
    """Returns the text on one line, its control characters made visible: no title forges the next line of an answer."""
    from perpetual.records import one_line

    return one_line(str(text))


pass_cli = click.make_pass_decorator(CliContext)


def _set_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(CliContext).as_json = True


def json_option(command: Callable[..., object]) -> Callable[..., object]:
    """Gives a command `--json`, so that it may stand after the command as well as before."""
    return click.option(
        "--json", is_flag=True, expose_value=False, callback=_set_json, help="Answer one JSON document."
    )(command)

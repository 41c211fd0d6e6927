"""Commands that look at the whole: status, brief, hook."""

from __future__ import annotations

import json
from functools import partial

import click

from perpetual.brief import DEFAULT_TOKENS, render
from perpetual.cli.fastpath import HOOKS, brief_document, hook_document, status_document, status_text
from perpetual.commands import CliContext, json_option, pass_cli
from perpetual.errors import NoProject, UsageError, unknown

__all__ = ["brief", "hook", "status"]


@click.command()
@click.option("--watch", is_flag=True, help="Go on, drawn anew as things happen; q ends it.")
@json_option
@pass_cli
def status(cli: CliContext, watch: bool) -> None:
    """Show where the research stands: hypotheses, runs, budget, and what to do next."""
    if watch:
        cli.watch(lambda: _status(cli))
    else:
        _status(cli)


def _status(cli: CliContext) -> None:
    document = cli.lab.status()
    text = partial(status_text, document, for_agent=cli.for_agent)
    cli.answer("status", status_document(document), text, is_fenced=True)


@click.command()
@click.option(
    "--tokens", type=click.IntRange(min=1), default=DEFAULT_TOKENS, show_default=True, help="At most so many."
)
@json_option
@pass_cli
def brief(cli: CliContext, tokens: int) -> None:
    """Show where the research stands, for an agent, within a number of tokens (UTF-8 bytes / 4, rounded up)."""
    document = brief_document(render(cli.lab.status(), tokens), tokens)
    cli.answer("brief", document, document["text"], is_fenced=True)


@click.command()
@click.argument("name")
@json_option
@pass_cli
def hook(cli: CliContext, name: str) -> None:
    """Write the brief as the JSON that a coding agent's hook NAME answers; nothing outside a project."""
    if name not in HOOKS:
        raise UsageError(unknown("hook", name, HOOKS))
    with cli.alone():
        try:
            text = cli.lab.brief()
        except NoProject:
            return  # the hook of an agent that works elsewhere must not get in its way
        cli.write(json.dumps(hook_document(name, text)), for_harness=True)

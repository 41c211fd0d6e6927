"""Commands that look at the whole: status, brief, hook."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial

import click

from perpetual.brief import DEFAULT_TOKENS, render
from perpetual.cli.fastpath import HOOKS, brief_document, hook_document, hook_event, status_document, status_text
from perpetual.commands import CliContext, json_option, pass_cli, printable
from perpetual.errors import NoProject, UsageError, masked, unknown
from perpetual.toolkit.agents import DISPATCH
from perpetual.toolkit.contained import contained
from perpetual.toolkit.deadline import call
from perpetual.toolkit.reserved import known_name

__all__ = ["brief", "hook", "status"]

_HOOK_S = 10.0  # a prompt waits for its hook: less than the harness gives it


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


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", nargs=-1)
@json_option
@pass_cli
def hook(cli: CliContext, name: tuple[str, ...]) -> None:
    """Write what a coding agent's hook NAME answers, as JSON. Outside a project and on any error: nothing, exit 0."""
    with cli.alone():
        try:
            with contained():
                document = call(_HOOK_S, partial(_hook, cli, " ".join(name)))
            if document:
                cli.write(json.dumps(document), for_harness=True)
        except NoProject:
            return  # the hook of an agent that works elsewhere must not get in its way
        except Exception as problem:  # noqa: BLE001 - exit 2 of a hook is an order to go on, for Claude Code
            click.echo(f"no answer of perpetual hook: {printable(masked(str(problem)))}", err=True)


def _hook(cli: CliContext, name: str) -> Mapping[str, object] | None:
    """Returns what hook `name` answers: a plugin's part in the slot `harness_hook`, or else the brief."""
    if os.environ.get(DISPATCH):
        return None
    lab, slot = cli.lab, "harness_hook"
    parts = lab.parts(slot) if slot in lab.registry.slots else []
    found = {known_name(slot, full): part for full, part in parts}
    if name in found:
        answer: Mapping[str, object] | None = found[name].answer(lab, hook_event())
        return answer
    if name not in HOOKS:
        raise UsageError(unknown("hook", name, [*HOOKS, *found]))
    return hook_document(name, lab.brief())

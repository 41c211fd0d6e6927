"""The commands `ask`, `chat`, `auth` and `turns`: a prompt or the terminal for a coding agent, and what came of it."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, OpenGroup, UsageError, json_option, page_options, pass_cli, printable

if TYPE_CHECKING:
    from perpetual_harnesses.dispatch.base import Dispatcher
    from perpetual_harnesses.dispatch.documents import TurnDocument

__all__ = ["ask", "auth", "chat", "turns"]

# outcome -> exit status; the others are answers
_EXITS = {"auth_required": 4, "permission_refused": 4, "cancelled": 130, "budget_cut": 7, "broken_stream": 3,
          "server_missing": 3, "no_answer": 1, "fallback_agent": 1}  # fmt: skip


@click.command()
@click.argument("prompt")
@click.option("--harness", metavar="NAME", help="The coding agent; by default the project's own.")
@click.option("--continue", "go_on", is_flag=True, help="Go on with the session of the last ask.")
@click.option("--model", default="", metavar="NAME", help="The model, as the agent names it.")
@click.option("--timeout", metavar="S", help="Seconds after which it is ended, or with a unit: 10m.")
@click.option(
    "--allow", multiple=True, metavar="KIND", help="Kinds of tool calls to permit, of those the project allows."
)
@click.option("--idempotency-key", metavar="K", help="A second call with the same key answers the first one's turn.")
@json_option
@pass_cli
def ask(
    cli: CliContext, prompt: str, harness: str | None, go_on: bool, model: str, timeout: str | None,
    allow: tuple[str, ...], idempotency_key: str | None,
) -> int:  # fmt: skip
    """Ask an installed coding agent PROMPT, with the lab's tools at hand; `-` reads it from standard input."""
    from perpetual_harnesses.asking import asked
    from perpetual_harnesses.dispatch.driving import NotRecorded

    dispatchers: list[Dispatcher] = []

    def stop(*_: object) -> None:
        for one in dispatchers:
            one.cancel()
        if not dispatchers:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, stop)  # the terminal was closed
    try:
        found = asked(
            cli.lab, sys.stdin.read() if prompt == "-" else prompt, harness=harness, go_on=go_on, model=model,
            timeout=timeout, allow=allow or None, idempotency_key=idempotency_key, started=dispatchers.append,
        )  # fmt: skip
    except NotRecorded as problem:
        if not cli.as_json:
            click.echo(printable(problem.turn.text))
        raise
    return _answer(cli, found)


def _answer(cli: CliContext, found: TurnDocument) -> int:
    status = _EXITS.get(str(found["outcome"]), 0)
    document: dict[str, object] = {**found}
    if status:
        document["error"] = {
            "code": found["outcome"], "message": found["problem"] or str(found["outcome"]),
            "hint": cli.hint(_hint(found)), "exit": status,
        }  # fmt: skip
    cli.answer("ask", document, lambda: printable(found["text"]))
    if not cli.as_json:
        for line in _notes(found, status):
            click.echo(line, err=True)
    return status


def _notes(found: TurnDocument, status: int) -> list[str]:
    head = "error" if status else "note"
    lines = (
        [f"{head}: {found['outcome']}: {printable(found['problem'])}"] if found["outcomes"] and found["problem"] else []
    )
    if status and (hint := _hint(found)):
        lines.append(f"hint: {hint}")
    if found["refused"]:
        lines.append(f"refused: {printable(', '.join(found['refused'][:5]))}")
    used = [f"{found['tokens']} tokens"] if found["tokens"] is not None else []
    used += [f"{found['cost']:.4f} USD"] if found["cost"] is not None else []
    lines.append(f"{found['harness']}: {', '.join(used) or 'usage unknown'} ({found['id']})")
    return lines


def _hint(found: TurnDocument) -> str | None:
    return {
        "auth_required": f"perpetual auth login {found['harness']}",
        "permission_refused": 'perpetual config set plugins.harnesses.allow \'["read", "execute"]\' permits kinds',
        "budget_cut": "perpetual ask --timeout 30m, or plugins.harnesses.max_steps, tokens_per_turn, usd_per_turn",
        "server_missing": "perpetual doctor",
        "broken_stream": f"perpetual turns show {found['id']}",
        "fallback_agent": f"perpetual init -H {found['harness']}",
    }.get(str(found["outcome"]))


@click.command()
@click.argument("words", nargs=-1)
@click.option("--harness", metavar="NAME", help="The coding agent; by default the project's own.")
@json_option
@pass_cli
def chat(cli: CliContext, words: tuple[str, ...], harness: str | None) -> None:
    """Start a coding agent at this terminal, in the project's folder; WORDS after `--` go to it.

    With --json it says what it would start, and starts nothing.
    """
    from perpetual_harnesses.login import chat_words

    _become(cli, [*chat_words(cli.lab, harness), *words], "chat")


@click.group(cls=OpenGroup, invoke_without_command=True)
@json_option
@pass_cli
@click.pass_context
def auth(ctx: click.Context, cli: CliContext) -> None:
    """Show which coding agents are logged in, as their own commands say."""
    if ctx.invoked_subcommand is None:
        from perpetual_harnesses.login import logins

        cli.items("logins", [{**one} for one in logins(cli.lab)], None, ("agent", "state", "shown by", "next"), _login,
                  empty="no coding agent is known")  # fmt: skip


def _login(item: dict[str, object]) -> tuple[str, ...]:
    state = {True: "logged in", False: "not logged in", None: "not known"}[
        item["signed_in"] if isinstance(item["signed_in"], bool) else None
    ]
    if not item["installed"]:
        return str(item["harness"]), "not installed", "-", str(item["install"] or "-")
    step = "-" if item["signed_in"] else f"perpetual auth login {item['harness']}"
    return str(item["harness"]), state, str(item["how"] or "-"), step


@auth.command()
@click.argument("harness", required=False)
@json_option
@pass_cli
def login(cli: CliContext, harness: str | None) -> None:
    """Hand this terminal over to the login of HARNESS, by default of the project's own.

    With --json it says what it would start, and starts nothing.
    """
    from perpetual_harnesses.login import login_words

    _become(cli, login_words(cli.lab, harness), "a login")


def _become(cli: CliContext, words: list[str], what: str) -> None:
    """Becomes another program, in the project's folder; returns never, but with --json.

    Raises:
        UsageError: without a terminal.
    """
    from perpetual_harnesses.login import own_environment

    if cli.as_json:
        cli.answer("words", {"words": words, "cwd": str(cli.lab.root)}, "")
        return
    if not (os.isatty(0) and os.isatty(1)):  # sys.stdout may be a fence
        raise UsageError(f"{what} needs a terminal", hint="perpetual ask PROMPT needs none")
    root = cli.lab.root
    cli.close()
    os.chdir(root)
    sys.stdout.flush()
    os.execve(words[0], words, own_environment(os.environ))


@click.group(cls=OpenGroup)
def turns() -> None:
    """What coding agents were asked by the lab, and what came of it."""


@turns.command("list")
@page_options
@json_option
@pass_cli
def list_(cli: CliContext, limit: int, cursor: str | None) -> None:
    """List the turns, the newest first."""
    from perpetual_harnesses.dispatch.records import TURN, document_of

    found = cli.lab.records(TURN).list(limit=limit, cursor=cursor, newest_first=True)
    items = [{**document_of(one), "text": ""} for one in found.items]
    cli.items("turns", items, found.next_cursor, ("id", "harness", "purpose", "outcome", "tokens", "USD"), _row,
              empty="no turn yet")  # fmt: skip


def _row(item: dict[str, object]) -> tuple[str, ...]:
    tokens, usd = item["tokens"], item["cost"]
    cost = f"{usd:.4f}" if isinstance(usd, float) else "-"
    words = (item["id"], item["harness"], item["purpose"], item["outcome"] or item["state"])
    return (*map(str, words), "-" if tokens is None else str(tokens), cost)


@turns.command()
@click.argument("id")
@json_option
@pass_cli
def show(cli: CliContext, id: str) -> None:
    """Show the turn ID with what the model said and its tool calls."""
    from perpetual_harnesses.asking import turn_named

    found = turn_named(cli.lab, id)
    cli.answer("turn", {**found}, lambda: _in_words(found))


def _in_words(found: TurnDocument) -> str:
    lines = [f"{found['id']}  {found['harness']} ({found['dispatcher']})  {found['outcome'] or found['state']}"]
    lines += [f"  {printable(found['problem'])}"] if found["problem"] else []
    lines += [f"  {printable(one['status'])}: {printable(one['title'])}" for one in found["tool_calls"]]
    return "\n".join([*lines, printable(found["text"])])

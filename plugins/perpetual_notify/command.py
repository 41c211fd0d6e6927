"""The command `perpetual notify`. Loaded by the command line when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, json_option, line, pass_cli
from perpetual.toolkit.units import counted, shown_hours

if TYPE_CHECKING:
    from perpetual.api import PerpetualError
    from perpetual_notify.documents import NotifyLine, NotifySent, NotifyTried

__all__ = ["notify"]


@click.group(invoke_without_command=True)
@json_option
@pass_cli
@click.pass_context
def notify(ctx: click.Context, cli: CliContext) -> None:
    """Reach a person who is away: by the desktop, mail, a webhook or a command of yours.

    The daemon sends to the notifiers of plugins.notify.notifiers. Without a subcommand: what waits, what was sent.
    """
    if ctx.invoked_subcommand is None:
        _list(cli)


@notify.command(name="list")
@json_option
@pass_cli
def list_(cli: CliContext) -> None:
    """List the notifiers: where each sends, what waits, what was sent, and what was given up."""
    _list(cli)


@notify.command(name="test")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--accept", "accepts", is_flag=True, help="From now on, let notices go where these notifiers send.")
@json_option
@pass_cli
def test_(cli: CliContext, names: tuple[str, ...], accepts: bool) -> int:
    """Send a test notice now, to the NAME or to all that are configured, and say how each fared.

    A notifier sends nothing until a person has accepted where it sends, and again after that has changed. Exit 0 if
    each accepted the notice, 3 if trying again may help, 4 if a person has to accept one, else 1.
    """
    from perpetual_notify.acting import try_out

    found, problems = try_out(cli.lab, names, accepts=accepts)
    cli.answer("notify_test", {**found}, "\n".join(_tried(one) for one in found["tests"]))
    return _status(problems)


@notify.command(name="send")
@json_option
@pass_cli
def send(cli: CliContext) -> int:
    """Send what waits once, now, without the daemon. The exit status is as of `notify test`."""
    from perpetual_notify.acting import send as sent

    found, problems = sent(cli.lab)
    cli.answer("notify_send", {**found}, "\n".join(_sent(one) for one in found["notifiers"]))
    return _status(problems)


def _status(problems: Sequence[PerpetualError]) -> int:
    """Returns the exit status that the problems have in common, else 1."""
    kinds = {problem.exit if problem.exit in (3, 4) else 1 for problem in problems}
    return 0 if not kinds else kinds.pop() if len(kinds) == 1 else 1


def _tried(one: NotifyTried) -> str:
    where = f" ({one['where']})" if one["where"] else ""
    if one["ok"]:
        return line(f"{one['notifier']}: accepted after {one['duration_s']:.2f} s{where}")
    hint = f"\n  next: {line(one['hint'])}" if one["hint"] else ""
    return line(f"{one['notifier']}: {one['error']}{where}") + hint


def _sent(one: NotifySent) -> str:
    words = f"{one['notifier']}: {counted(len(one['sent']), 'notice')} sent"
    words += f", {one['pending']} waiting" if one["pending"] else ""
    return line(words + (f": {one['error']}" if one["error"] else ""))


def _list(cli: CliContext) -> None:
    from perpetual_notify.acting import listed

    found = listed(cli.lab)
    head = f"sent are: {', '.join(found['kinds'])}; events read: {found['position']} of {found['last']}"
    lines = [text for one in found["notifiers"] for text in _lines(one)]
    cli.answer("notify_list", {**found}, "\n".join([*(lines or ["no notifier is configured: nothing is sent"]), head]))


def _lines(one: NotifyLine) -> list[str]:
    where = f" ({one['where']})" if one["where"] else ""
    counts = f"{one['sent']} sent, {one['pending']} waiting, {one['failed_count']} given up"
    lines = [line(f"{one['notifier']}: {one['state']}{where}: {counts}")]
    if one["error"]:
        later = f"; tried again in {shown_hours(one['due_s'] / 3600)}" if one["due_s"] and one["pending"] else ""
        lines.append("  " + line(f"{one['error']}{later}"))
    lines += [f"  {line('given up: ' + item['title'] + ' (' + item['error'] + ')')}" for item in one["failed"][-3:]]
    return lines

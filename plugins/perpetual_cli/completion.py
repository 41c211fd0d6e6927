"""The command `completion`: the script that makes a shell complete this one."""

from __future__ import annotations

import click

from perpetual.api import CliContext, PerpetualError, UsageError, json_option, pass_cli, unknown

__all__ = ["completion"]

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", metavar="bash|zsh|fish")
@json_option
@pass_cli
@click.pass_context
def completion(ctx: click.Context, cli: CliContext, shell: str) -> None:
    """Print the script that makes a shell complete this command, e.g. eval "$(perpetual completion bash)"."""
    from click.shell_completion import get_completion_class

    if shell not in _SHELLS:
        raise UsageError(unknown("shell", shell, _SHELLS))
    completer = get_completion_class(shell)
    if completer is None:
        raise PerpetualError(f"this click knows no completion for {shell}", hint="upgrade click")
    script = completer(ctx.find_root().command, {}, "perpetual", "_PERPETUAL_COMPLETE").source()
    cli.answer("completion", {"shell": shell, "script": script}, script, is_verbatim=True)

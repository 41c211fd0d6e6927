"""The program: a group that loads a command when it is called, and the one place where errors become output."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from perpetual import __version__
from perpetual.cli import interrupt
from perpetual.cli.table import ALIASES, KERNEL, ORDER, OWN_WORDS
from perpetual.commands import CliContext, carried, printable
from perpetual.commands.agent_output import fenced, for_agent, sealed
from perpetual.commands.offered import load_command, plugin_command, program_commands
from perpetual.errors import PerpetualError, UsageError, masked, nearest, unknown
from perpetual.toolkit import caches
from perpetual.toolkit.deprecation import announced
from perpetual.toolkit.fence import fence
from perpetual.toolkit.meant import meant
from perpetual.toolkit.screen import PLAIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from click.shell_completion import CompletionItem

__all__ = ["is_output", "output_failed", "program", "run"]

COMPLETE = "_PERPETUAL_COMPLETE"  # by which a shell asks for completions, as click has it
_ALIKE = (
    "add create new write", "delete remove rm reject retract unset revoke", "list show get", "edit update change write",
    "stop cancel kill abort", "start launch run", "search find grep", "tail output logs",
)  # fmt: skip  # what users of other programs call one thing
_OUTPUT = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EBADF)
_OWN_ERRORS = ("not_permitted", "not_trusted")  # whose words quote nothing of the record


class LazyGroup(click.Group):
    """Knows its commands by name and summary; imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the program's commands in their order, then the plugins'."""
        from perpetual.cli.topics import summaries

        return [*summaries(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command, imported; None for an unknown name."""
        offered = program_commands(ctx)
        name = cmd_name if cmd_name in offered else ALIASES.get(cmd_name, cmd_name)
        found = load_command(KERNEL[name][0]) if name in KERNEL else plugin_command(ctx, offered.get(name))
        if found is not None and COMPLETE in os.environ and "completion" in offered:
            import_module("perpetual_cli.record_ids").complete_ids(found, name)
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names from the table: completing must neither import every command nor fail with one of them."""
        from click.shell_completion import CompletionItem

        from perpetual.cli.topics import summaries

        known = summaries(ctx).items()
        found = [CompletionItem(name, help=line) for name, line in known if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolves a command as click does, and names the nearest ones for an unknown one."""
        if args:
            ctx.ensure_object(CliContext).command = args[0]
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from perpetual.toolkit.reserved import RESERVED

            if args[0] in RESERVED["command"]:
                hint = "perpetual plugins list shows which plugins are left out, and why"
                raise UsageError(f"no plugin that is loaded offers {args[0]!r}", hint=hint)
            same = meant(args[0])
            problem = unknown("command", args[0], () if same else self.list_commands(ctx))
            way = same or _meant(args[0], ctx, self) or "perpetual --help"
            raise UsageError(problem.removesuffix(": there is none"), hint=way)
        name, command, rest = super().resolve_command(ctx, args)
        return name if name in program_commands(ctx) else ALIASES.get(name or "", name), command, rest

    def get_help(self, ctx: click.Context) -> str:
        """Returns the text, and keeps it for the fast path."""
        text = super().get_help(ctx)
        if ctx.obj is None or not (ctx.ensure_object(CliContext).safe or ctx.ensure_object(CliContext).is_for_all):
            from perpetual.cli import table, topics
            from perpetual.cli.fastpath import keep_help

            keep_help(f"{text}\n", [__file__, table.__file__, topics.__file__])
        return text

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list from the table: asking each command for its help would import them all."""
        from perpetual.cli.topics import format_everyday, format_topics

        is_for_all = ctx.obj is not None and ctx.ensure_object(CliContext).is_for_all
        (format_topics if is_for_all else format_everyday)(ctx, formatter)


def _meant(word: str, ctx: click.Context, group: click.Group) -> str | None:
    """Returns the commands of a group that a word of other programs, or a slip, may mean."""
    names = group.list_commands(ctx)
    alike = next((words for words in map(str.split, _ALIKE) if word.lower() in words), [])
    found = [name for name in alike if name in names] or nearest(word, names)
    return f"did you mean {' or '.join(f'{ctx.command_path} {name}' for name in found)}?" if found else None


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.ensure_object(CliContext).answer("version", {"version": __version__}, f"perpetual {__version__}")
        ctx.exit()


def _without(ctx: click.Context, _: click.Parameter, names: tuple[str, ...]) -> None:
    """Leaves plugins out by the environment, so that it holds for whatever this command starts.

    Raises:
        UsageError: for a name that no installed plugin has.
    """
    if names and not ctx.resilient_parsing:
        from perpetual.discovery import installed

        known = {id: id.partition("/")[2] for id in installed()}
        for name in names:
            if name not in known and name not in known.values():
                problem = unknown("plugin", name, sorted(known.values()))
                raise UsageError(f"--without: {problem}", hint="perpetual plugins list")
        before = os.environ.get(caches.WITHOUT)
        os.environ[caches.WITHOUT] = ",".join([*caches.left_out(), *names])
        ctx.call_on_close(lambda: _put_back(caches.WITHOUT, before))


def _plain(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Sets the environment, so that it holds for whatever this command starts."""
    if wanted and not ctx.resilient_parsing:
        before = os.environ.get(PLAIN)
        os.environ[PLAIN] = "1"
        ctx.call_on_close(lambda: _put_back(PLAIN, before))


def _put_back(variable: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(variable, None)
    else:
        os.environ[variable] = value


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--project",
    metavar="DIR",
    help="The project's folder; by default the nearest one above. [PERPETUAL_PROJECT]",
)
@click.option("--json", "as_json", is_flag=True, help="Answer one JSON document. [PERPETUAL_OUTPUT=json]")
@click.option("--safe", is_flag=True, help="Load bundled plugins only.")
@click.option(
    "--without",
    multiple=True,
    metavar="PLUGIN",
    is_eager=True,
    expose_value=False,
    callback=_without,
    help="Switch a plugin off; may be repeated. [PERPETUAL_WITHOUT=A,B]",
)
@click.option("--all", is_flag=True, expose_value=False, help="With --help: list every command, by topic.")
@click.option(
    "--plain", is_flag=True, is_eager=True, expose_value=False, callback=_plain,
    help="One fact a line, no boxes, nothing drawn again. [PERPETUAL_PLAIN=1]",
)  # fmt: skip
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit."
)
@click.pass_context
def program(ctx: click.Context, project: str | None, as_json: bool, safe: bool, debug: bool) -> None:
    """The persistent lab behind coding agents: hypotheses, experiments, runs, evidence, memory."""
    cli = ctx.ensure_object(CliContext)
    cli.project, cli.safe, cli.debug = project, safe, debug
    cli.as_json = cli.as_json or as_json
    cli.for_agent = not cli.is_for_help and for_agent(project)
    if cli.for_agent and not cli.as_json and ctx.invoked_subcommand not in OWN_WORDS:
        ctx.with_resource(fenced())
    if cli.as_json and ctx.invoked_subcommand in ORDER and not cli.is_for_help:
        ctx.with_resource(cli.alone())  # a plugin's own command may have its own way to answer
    ctx.call_on_close(cli.close)


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and answers its exit status; every error is shown here and nowhere else."""
    cli = CliContext(as_json=interrupt.wants_json(arguments))
    cli.on_open = _ask_about_changes
    cli.approve_token = os.environ.pop("PERPETUAL_APPROVE_TOKEN", None)
    cli.is_for_help, cli.safe = "--help" in arguments or arguments[-1:] == ["-h"], "--safe" in arguments
    cli.is_for_all = "--all" in arguments
    try:
        _check_text(arguments)
        with announced(lambda text: click.echo(f"deprecated: {printable(text)}", err=True)):
            result: object = program.main(args=[*arguments], prog_name="perpetual", standalone_mode=False, obj=cli)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except PerpetualError as problem:
        if "--debug" in arguments:
            raise
        _tell(cli, problem.document(), problem.data)
        return problem.exit
    except click.exceptions.NoArgsIsHelpError as problem:
        if cli.as_json:
            path = problem.ctx.command_path
            error = {"code": "usage", "message": f"{path} needs a command", "hint": f"{path} --help", "exit": 2}
            _tell(cli, error, None)
        else:
            click.echo(problem.format_message())
        return 2
    except click.ClickException as problem:
        context = problem.ctx if isinstance(problem, click.UsageError) else None
        hint = f"{context.command_path} --help" if context is not None else None
        before, *word = problem.format_message().split("'")
        if context is not None and isinstance(context.command, click.Group) and before == "No such command ":
            hint = _meant(word[0], context, context.command) or hint
        _tell(cli, {"code": "usage", "message": problem.format_message(), "hint": hint, "exit": 2}, None)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return interrupt.tell(arguments)
    except BrokenPipeError:
        _give_up_output()  # the reader has gone (`| head`)
        return 1
    except OSError as problem:
        if "--debug" in arguments:
            raise
        return output_failed(problem, arguments) if is_output(problem) else _tell_file(cli, problem)
    except Exception as problem:
        if interrupt.is_interrupt(problem):
            return interrupt.tell(arguments)
        if "--debug" in arguments:
            raise
        return _tell_internal(cli, problem)


def _ask_about_changes(cli: CliContext) -> None:
    if cli.lab.config.held or cli.lab.config.methodology.held:
        from perpetual.cli.trust import ask_about_changes

        ask_about_changes(cli)


def is_output(problem: OSError) -> bool:
    """Returns whether standard output is what failed: full, or closed under us."""
    if problem.filename is not None or problem.errno not in _OUTPUT:
        return False
    try:
        sys.stdout.flush()  # which fails again while text is left in it
    except (OSError, ValueError):
        return True
    return problem.errno == errno.ENOSPC


def output_failed(problem: OSError, arguments: Sequence[str]) -> int:
    """Says on standard error that the answer could not be written; the exit status."""
    _give_up_output()
    why = problem.strerror or str(problem)
    error = {"code": "not_written", "message": f"standard output could not be written: {why}"}
    _tell(CliContext(), {**error, "hint": "what was asked for was done; only the answer is missing"}, None)
    return 1


def _tell_file(cli: CliContext, problem: OSError) -> int:
    from perpetual.toolkit.confined import explain

    known = explain(problem)
    if known is None:
        return _tell_internal(cli, problem)
    _tell(cli, known.document(), None)
    return known.exit


def _tell_internal(cli: CliContext, problem: Exception) -> int:
    message, code = f"internal error: {type(problem).__name__}: {problem}", "internal"
    if cli.running is not None:
        message = f"the command {cli.running} failed: {type(problem).__name__}: {problem}"
        code = "plugin_broken"
    hint = "the same command with --debug shows where"
    _tell(cli, {"code": code, "message": masked(message), "hint": hint, "exit": 1}, None)
    return 1


def _give_up_output() -> None:
    """Closes an output that cannot be written any longer, so that the interpreter does not try at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_text(arguments: Sequence[str]) -> None:
    """Raises UsageError for an argument that is no text: neither the record nor JSON could carry it."""
    for argument in arguments:
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError as problem:
            raise UsageError(f"the argument {argument!r} is not UTF-8", hint="write it as UTF-8 text") from problem


def _tell(cli: CliContext, error: dict[str, Any], data: Mapping[str, object] | None) -> None:
    error = {**error, "hint": cli.hint(error["hint"])}
    if cli.as_json:
        document = {"schema": "perpetual.error/1", **(data or {}), "error": error}
        try:
            text = json.dumps(document, ensure_ascii=False)
            sys.stdout.write(carried(sealed(text) if cli.for_agent else text, sys.stdout) + "\n")
            sys.stdout.flush()
            return
        except OSError:
            _give_up_output()  # full, or its reader has gone: what is left is to tell people
    text = f"error: {printable(error['message'])}\n"
    way_out = f"perpetual {cli.command} --help" if error["code"] == "usage" and cli.command else None
    hint = error["hint"] or cli.hint(way_out)
    if hint:
        text += f"hint: {printable(hint)}\n"
    if cli.for_agent and error["code"] not in _OWN_ERRORS:
        text = fence(text) + "\n"
    with contextlib.suppress(OSError):  # full as well: the exit status is what is left
        sys.stderr.write(text)
        sys.stderr.flush()

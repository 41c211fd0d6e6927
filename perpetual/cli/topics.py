"""Commands by topic: the list of `perpetual --help`, and the command `help`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from perpetual.cli.table import EVERYDAY, KERNEL, ORDER, TOPICS
from perpetual.commands import CliContext, json_option, pass_cli
from perpetual.commands.offered import program_commands
from perpetual.errors import UsageError, unknown

if TYPE_CHECKING:
    from perpetual.documents.machine import HelpTopic

__all__ = ["by_topic", "format_everyday", "format_topics", "help_", "summaries"]

_MORE = "more"


def summaries(ctx: click.Context) -> dict[str, str]:
    """Returns the line of every command: the program's own in their order, then the plugins' by name."""
    known = {name: offered[1] for name, offered in sorted(program_commands(ctx).items())}
    known |= {name: summary for name, (_, summary) in KERNEL.items()}
    own = [name for name in ORDER if name in known]
    return {name: known[name] for name in (*own, *known)}


def by_topic(ctx: click.Context) -> dict[str, list[str]]:
    """Returns the commands of each topic that has any."""
    known = summaries(ctx)
    found = {topic: [name for name in names if name in known] for topic, (_, names) in TOPICS.items()}
    placed = {name for names in found.values() for name in names}
    topics = {name: offered[3] for name, offered in program_commands(ctx).items()}
    for name in known:
        if name not in placed:
            found[topics[name] if topics.get(name) in TOPICS else _MORE].append(name)
    return {topic: names for topic, names in found.items() if names}


def format_everyday(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Writes the ten commands of every day, and the names of the others by topic."""
    known, topics = summaries(ctx), by_topic(ctx)
    for title, names in EVERYDAY.items():
        if shown := [(name, known[name]) for name in names if name in known]:
            with formatter.section(title):
                formatter.write_dl(shown)
    everyday = {name for names in EVERYDAY.values() for name in names}
    rest = {topic: [name for name in names if name not in everyday] for topic, names in topics.items()}
    with formatter.section("More commands: perpetual help TOPIC, or perpetual --help --all"):
        formatter.write_dl([(topic, ", ".join(names)) for topic, names in rest.items() if names])


def format_topics(ctx: click.Context, formatter: click.HelpFormatter, only: str | None = None) -> None:
    """Writes every command with its line, by topic; of one topic `only` that."""
    known = summaries(ctx)
    for topic, names in by_topic(ctx).items():
        if only in (None, topic):
            with formatter.section(f"{TOPICS[topic][0]} ({topic})"):
                formatter.write_dl([(name, known[name]) for name in names])


def documents(ctx: click.Context) -> list[HelpTopic]:
    """Returns the topics as documents."""
    known: Mapping[str, str] = summaries(ctx)
    return [
        {"topic": topic, "title": TOPICS[topic][0],
         "commands": [{"name": name, "summary": known[name]} for name in names]}
        for topic, names in by_topic(ctx).items()
    ]  # fmt: skip


@click.command("help")
@click.argument("words", nargs=-1, metavar="[TOPIC|COMMAND]")
@json_option
@pass_cli
@click.pass_context
def help_(ctx: click.Context, cli: CliContext, words: tuple[str, ...]) -> None:
    """Show the commands of a TOPIC, or the help of a COMMAND; without a word every topic."""
    root, topics = ctx.find_root(), by_topic(ctx)
    if not words or words[0] in topics:
        only = words[0] if words else None
        formatter = root.make_formatter()
        format_topics(ctx, formatter, only)
        shown = [item for item in documents(ctx) if only in (None, item["topic"])]
        cli.answer("help", {"topics": shown, "text": None}, formatter.getvalue().rstrip("\n"), is_verbatim=True)
        return
    group, context = root.command, root
    for word in words:
        command = group.get_command(context, word) if isinstance(group, click.Group) else None
        if command is None:
            raise UsageError(unknown("topic or command", word, [*topics, *summaries(ctx)]), hint="perpetual help")
        group, context = command, click.Context(command, info_name=word, parent=context)
    text = group.get_help(context)
    cli.answer("help", {"topics": [], "text": text}, text, is_verbatim=True)

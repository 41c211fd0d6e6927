"""The commands `memory new` and `memory edit`. Loaded when one of them is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, UsageError, json_option, key_option, pass_cli, printable

if TYPE_CHECKING:
    from perpetual.documents.memory import MemoryWrite

__all__ = ["edit", "new"]


@click.command()
@click.argument("type_", metavar="[TYPE]", required=False)
@click.argument("path", required=False)
@click.option("--title", help="What the note says, in one line.")
@click.option("--field", "fields", multiple=True, metavar="K=V", help="A field of the type; again for a further item.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="K=V",
    help="Where it is offered: tag, tool, hypothesis or harness.",
)
@click.option("--text", "body", help="The text below the fields; `-` reads standard input.")
@click.option("--edit", "in_editor", is_flag=True, help="Open the form in your editor, filled with what is given.")
@click.option("-m", "--message", help="Why it is written: the message of its commit.")
@key_option
@json_option
@pass_cli
def new(
    cli: CliContext,
    type_: str | None,
    path: str | None,
    title: str | None,
    fields: Sequence[str],
    scopes: Sequence[str],
    body: str | None,
    in_editor: bool,
    message: str | None,
    idempotency_key: str | None,
) -> None:
    """Write a note of TYPE by its form, through the gates; without TYPE, list the types.

    At a terminal, without a title and fields, the form opens in your editor.
    """
    from perpetual_notes import notes

    if type_ is None:
        _list_types(cli)
        return
    text = sys.stdin.read() if body == "-" else body or ""
    given, scope = _pairs("--field", fields), _pairs("--scope", scopes)
    filled = notes.text_of(cli.lab, type_, title=title or "", fields=given, scope=scope, body=text)
    if in_editor or (title is None and not fields and _is_terminal(cli)):
        answer = _new_in_editor(cli, type_, path, filled, message, idempotency_key)
    else:
        answer = notes.new(cli.lab, type_, path, title=title or "", text=filled, message=message,
                           idempotency_key=idempotency_key)  # fmt: skip
    if answer is not None:
        _say(cli, answer)


def _new_in_editor(
    cli: CliContext, type_: str, path: str | None, filled: str, message: str | None, key: str | None
) -> MemoryWrite | None:
    from perpetual_notes import notes
    from perpetual_notes.editing import edited
    from perpetual_notes.front import front_of

    _require_terminal(cli, "memory new --edit", "give --title and --field K=V instead")

    def apply(text: str) -> MemoryWrite:
        front = front_of(text)
        title = str(front.fields.get("title") or "") if front is not None else ""
        return notes.new(cli.lab, type_, path, title=title, text=text, message=message, idempotency_key=key)

    return edited(filled, apply, name=f"{type_}.md")


@click.command()
@click.argument("path")
@click.option("-m", "--message", help="Why it is changed: the message of its commit.")
@json_option
@pass_cli
def edit(cli: CliContext, path: str, message: str | None) -> None:
    """Change the note PATH in your editor ($VISUAL, $EDITOR); what you save goes through the gates.

    A note that is closed as it was is left alone. Without a terminal: perpetual memory write.
    """
    from perpetual_notes.editing import change

    _require_terminal(cli, "memory edit", f"perpetual memory write {path} < FILE")
    answer = change(cli.lab, path, message)
    if answer is None:
        cli.progress(f"{printable(path)} is unchanged")
    else:
        _say(cli, answer)


def _require_terminal(cli: CliContext, what: str, hint: str) -> None:
    if not _is_terminal(cli):
        raise UsageError(f"{what} needs a person at a terminal", hint=hint)


def _is_terminal(cli: CliContext) -> bool:
    return not (cli.as_json or cli.for_agent) and sys.stdin.isatty() and sys.stderr.isatty()


def _pairs(option: str, given: Sequence[str]) -> dict[str, list[str]]:
    """Returns `K=V` words as a mapping of each key to its values, in order."""
    found: dict[str, list[str]] = {}
    for word in given:
        name, mark, value = word.partition("=")
        if not mark or not name.strip() or not value.strip():
            raise UsageError(f"{option} {word}: it is not K=V", hint=f"{option} tag=depth")
        found.setdefault(name.strip(), []).append(value.strip())
    return found


def _list_types(cli: CliContext) -> None:
    from perpetual_notes import notes

    cli.items(
        "note_types",
        [*notes.types(cli.lab)],
        None,
        ("type", "folder"),
        lambda item: (item["type"], item["folder"]),
        empty="no plugin brings a form",
    )


def _say(cli: CliContext, answer: MemoryWrite) -> None:
    commit = f"  commit {answer['commit'][:10]}" if answer["commit"] else ""
    lines = [f"{printable(answer['path'])}  {answer['status']}{printable(commit)}"]
    lines += [
        f"  {printable(one['rule'])} in its {one['part']}: {printable(one['excerpt'])}"
        for one in answer["verdict"]["findings"]
    ]
    cli.answer("memory_write", answer, lambda: "\n".join(lines))

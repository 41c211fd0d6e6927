"""Commands on notes: `memory show|write|list|search|history|queue|promote|clone`; plugins bring others."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import IO, TYPE_CHECKING, Any

import click

from perpetual.api import (
    CliContext,
    NotFound,
    OpenGroup,
    PluginError,
    UsageError,
    json_option,
    key_option,
    page_options,
    pass_cli,
    printable,
    to_json,
)
from perpetual.toolkit.named_path import named_path
from perpetual.toolkit.units import shown_time, start_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Note
    from perpetual.documents.memory import MemoryDecision, MemoryWrite, StageSaid, VerdictDocument

__all__ = ["memory"]

_COLUMNS = ("path", "status", "type", "updated", "title")


@click.command()
@click.argument("path")
@click.option("--why", required=True, metavar="T", help="The reason, kept with the decision.")
@json_option
@pass_cli
def _reject(cli: CliContext, path: str, why: str) -> None:
    """Hide the newest version of the note PATH from agents; one that was promoted before it stays shown."""
    answer = cli.lab.memory.reject(path, why)
    cli.answer("memory_decision", answer, lambda: _decision_text(answer))


class _Memory(OpenGroup):
    """The group, whose `reject` is a plugin's, which takes derived notes back too; without it a note goes alone."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command, imported; None for an unknown name."""
        found = super().get_command(ctx, cmd_name)
        return _reject if found is None and cmd_name == "reject" else found


@click.group(cls=_Memory)
def memory() -> None:
    """Notes: show, write, list, search, their history, and what a person decides about them."""


@memory.command()
@click.argument("path", required=False)
@json_option
@pass_cli
def show(cli: CliContext, path: str | None) -> None:
    """Show the note PATH; without PATH, list the notes.

    An agent is shown only what the gates let through.
    """
    if path is None:
        _show_page(cli, folder="", status=None, limit=100, cursor=None)
        return
    newest = cli.lab.memory.get(path)
    note, text = to_json(_as_read(cli, newest)), cli.lab.memory.read(path)
    said = {} if newest.status == "rejected" else _evidence(cli, note)
    _was_read(cli.lab, [str(note["path"])])
    price, line = _price(cli, note)
    document = {**note, "content": text, "evidence": said, "price": price}
    cli.answer(
        "note", document, lambda: _note_text(note, text, said, line, _other_version(cli, note, text)), is_verbatim=True
    )


def _other_version(cli: CliContext, note: dict[str, object], text: str) -> str:
    """Returns a line on the version that agents read, where it is not the one that is shown here."""
    try:
        shown = cli.lab.memory.read(str(note["path"]), exposed_only=True)
    except NotFound:
        return ""
    return "" if shown == text else "agents read another version of it, which was promoted before"


def _as_read(cli: CliContext, note: Note) -> Note:
    """Returns the record of a note; for an agent with the state of the version that it reads."""
    return cli.lab.memory.get(note.path, exposed_only=True) if cli.for_agent else note


def _was_read(lab: Lab, paths: Sequence[str]) -> None:
    """Hands on which notes the reader was shown: what an agent does next counts for them."""
    with suppress(PluginError):  # of a retriever that cannot be built: notes are read without it
        if "retriever" in lab.registry.slots:
            lab.part("retriever").was_read(lab, paths)


def _evidence(cli: CliContext, note: dict[str, object]) -> dict[str, StageSaid]:
    """Returns what promotion stages say of the note's newest version, which has an accepted text."""
    said = cli.lab.memory.decide(str(note["path"]), dry_run=True)["evidence"] or {}
    return {name: one for name, one in said.items() if one["decision"] != "abstain" or one["evidence"]}


def _price(cli: CliContext, note: dict[str, object]) -> tuple[dict[str, float] | None, str]:
    """Returns the price of the note's newest version, as a document and as a line; both empty without a pricer."""
    try:
        pricer = cli.lab.part("price")
    except (PluginError, UsageError):
        return None, ""
    found: tuple[dict[str, float] | None, str] = pricer.shown(cli.lab, note["path"], note["blob"])
    return found


def _note_text(note: dict[str, object], text: str, said: dict[str, StageSaid], *below: str) -> str:
    proof = " proven" if note["proven"] else ""
    head = f"{note['path']}  [{note['status']}{proof} {note['type']}]  {note['updated_at']}  {note['actor']}"
    found = []
    for name, one in said.items():
        lines = one["evidence"].get("lines")
        shown = lines if isinstance(lines, list) else [f"{name.rpartition('/')[2]}: {one['reason']}"]
        found.append("\n".join(map(str, shown)))
    return "\n\n".join(map(printable, filter(None, [head, text, *found, *below])))


@memory.command()
@click.argument("path")
@click.argument("content", required=False)
@click.option("--type", "type_", help="What sort of note it is; by default as its front matter says, else `note`.")
@click.option("-m", "--message", help="Why it is written: the message of its commit.")
@key_option
@json_option
@pass_cli
def write(
    cli: CliContext, path: str, content: str | None, type_: str | None, message: str | None, idempotency_key: str | None
) -> None:
    """Write a note through the gates; the text is CONTENT, or what standard input holds (`-`, or without CONTENT)."""
    text = _from_stdin(content) if content in (None, "-") else content
    assert text is not None
    answer = cli.lab.memory.write(path, text, type=type_, message=message, idempotency_key=idempotency_key)
    cli.answer("memory_write", answer, lambda: _written_text(answer))


def _from_stdin(content: str | None) -> str:
    if sys.stdin is None or (content is None and sys.stdin.isatty()):
        raise UsageError(
            "there is no text", hint="give it as CONTENT, or pipe it in: perpetual memory write PATH < FILE"
        )
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as problem:
        raise UsageError("standard input is not UTF-8", hint="write the note as UTF-8 text") from problem


def _written_text(answer: MemoryWrite) -> str:
    commit = f"  commit {short_commit(answer['commit'])}" if answer["commit"] else ""
    return "\n".join([f"{printable(answer['path'])}  {answer['status']}{commit}", *_finding_lines(answer)])


def _finding_lines(answer: MemoryWrite | MemoryDecision) -> list[str]:
    return [
        f"  {printable(finding['rule'])} in its {finding['part']}: {printable(finding['excerpt'])}"
        for finding in answer["verdict"]["findings"]
    ]


@memory.command(name="list")
@click.argument("directory", metavar="[DIR]", required=False, default="")
@click.option("--status", help="Only notes of this status.")
@click.option(
    "--by",
    type=click.Choice(["time", "worth"]),
    default="time",
    show_default=True,
    help="Oldest first, or with what each was measured to earn, the surest first.",
)
@page_options
@json_option
@pass_cli
def list_(cli: CliContext, directory: str, status: str | None, by: str, limit: int, cursor: str | None) -> None:
    """List the notes, or those below the folder DIR."""
    if by == "worth":
        _show_worth(cli, directory, status, limit, start_of(cursor))
        return
    _show_page(cli, folder=directory, status=status, limit=limit, cursor=cursor)


def _show_worth(cli: CliContext, folder: str, status: str | None, limit: int, start: int) -> None:
    try:
        pricer = cli.lab.part("price")
    except UsageError as problem:
        raise PluginError("notes have no prices: no pricer is in force", hint="perpetual plugins list") from problem
    found = pricer.worth(cli.lab, folder=folder, status=status)
    page = found[start : start + limit]
    cli.items(
        "memory_worth",
        page,
        str(start + limit) if len(found) > start + limit else None,
        ("path", "status", "uplift", "90 % interval", "pairs", "tokens", "for 1,000 tokens", "interval"),
        lambda item: (item["path"], item["status"], *_price_cells(item["price"])),
        empty="there are no notes",
    )
    if found and not any(item["price"] for item in found):
        cli.progress("no note has been measured yet: perpetual memory replay PATH measures one")


def _price_cells(price: dict[str, float] | None) -> tuple[str, ...]:
    if price is None:
        return ("not measured", "", "", "", "", "")
    return (
        f"{price['uplift']:+.2f}",
        f"{price['low']:+.2f} to {price['high']:+.2f}",
        str(price["pairs"]),
        f"{price['tokens']:.0f}",
        f"{price['per_1000_tokens']:+.2f}",
        f"{price['low_per_1000_tokens']:+.2f} to {price['high_per_1000_tokens']:+.2f}",
    )


def _show_page(cli: CliContext, **query: Any) -> None:
    page = cli.lab.memory.list(**query)
    cli.items(
        "notes",
        to_json([_as_read(cli, note) for note in page.items]),
        page.next_cursor,
        _COLUMNS,
        lambda item: (item["path"], item["status"], item["type"], shown_time(item["updated_at"]), item["title"]),
        empty="there are no notes",
    )


@memory.command()
@click.argument("query")
@click.option("-k", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Notes on a page.")
@click.option("--cursor", help="Where the page before ended (its next_cursor).")
@click.option("--explain", is_flag=True, help="Instead: the arithmetic of the first 20, and which are offered agents.")
@json_option
@pass_cli
def search(cli: CliContext, query: str, limit: int, cursor: str | None, explain: bool) -> None:
    """Notes that hold words of QUERY, the best match first: half by its words, half by what came of the notes."""
    if explain:
        _show_arithmetic(cli, cli.lab.part("retriever").explain(cli.lab, query, limit=limit))
        return
    page = cli.lab.memory.search(query, limit=limit, cursor=cursor)
    _was_read(cli.lab, [hit.note.path for hit in page.items])
    cli.items(
        "note_hits",
        [{**to_json(_as_read(cli, hit.note)), "excerpt": hit.excerpt} for hit in page.items],
        page.next_cursor,
        ("path", "status", "excerpt"),
        lambda item: (item["path"], item["status"], item["excerpt"]),
        empty="no note has any of these words",
    )


def _show_arithmetic(cli: CliContext, found: list[dict[str, Any]]) -> None:
    numbers = ("bm25", "sim", "good", "bad", "q", "sd", "z_sim", "z_q", "score")
    cli.items(
        "memory_explained",
        found,
        None,
        ("path", *numbers, "left out"),
        lambda item: (item["path"], *(f"{item[name]:.3g}" for name in numbers), item["left_out"] or ""),
        empty="no note has any of these words",
    )


@memory.command()
@click.argument("path")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many versions."
)
@json_option
@pass_cli
def history(cli: CliContext, path: str, limit: int) -> None:
    """List the versions of the note PATH, newest first."""
    found = to_json(cli.lab.memory.history(path, limit=limit + 1))
    cli.items(
        "note_history",
        found[:limit],
        None,
        ("commit", "when", "author", "message"),
        lambda item: (
            short_commit(item["commit"]),
            item["when"],
            item["author"],
            item["message"].partition("\n")[0],  # the subject: trailers are for machines
        ),
        empty="the memory holds no version of it: it was never accepted",
        extra={"truncated": len(found) > limit},
    )
    if len(found) > limit:
        cli.progress(f"older versions are left out: --limit {limit}")


@memory.command()
@page_options
@json_option
@pass_cli
def queue(cli: CliContext, limit: int, cursor: str | None) -> None:
    """List the undecided notes, oldest first: quarantined ones and candidates."""
    page = cli.lab.memory.queue(limit=limit, cursor=cursor)
    cli.items(
        "note_queue",
        [{**to_json(item.note), "category": item.category, "is_shown": item.is_shown} for item in page.items],
        page.next_cursor,
        ("path", "status", "type", "gates say", "shown", "updated", "title"),
        lambda item: (
            item["path"],
            item["status"],
            item["type"],
            item["category"] or "pass",
            "yes" if item["is_shown"] else "no",
            shown_time(item["updated_at"]),
            item["title"],
        ),
        empty="no note waits for a decision",
    )


@memory.command()
@click.argument("file", required=False, metavar="[FILE|-]")
@click.option("--jsonl", is_flag=True, help='Read lines {"id", "text"}, and answer a line for each as it is judged.')
@json_option
@pass_cli
def scan(cli: CliContext, file: str | None, jsonl: bool) -> None:
    """Show what the gates say of a text, FILE or standard input, without writing it.

    A blocked text does not enter the memory as it is: it is rejected, or a secret is taken out of it first.
    """
    if jsonl:
        with _opened(file) as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    click.echo(json.dumps(_judged(cli, line, number)))
        return
    with _opened(file) as source:
        text = _decoded(source.read())
    found = cli.lab.memory.scan(text)
    cli.answer("memory_scan", found, lambda: _scan_text(found))


def _opened(file: str | None) -> AbstractContextManager[IO[bytes]]:
    if file in (None, "-"):
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError("there is no text", hint="name a FILE, or pipe it in: perpetual memory scan < FILE")
        return nullcontext(sys.stdin.buffer)
    try:
        return open(str(file), "rb")
    except OSError as problem:
        raise UsageError(f"{file} cannot be read: {problem.strerror}") from problem


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise UsageError("the text is not UTF-8", hint="write it as UTF-8") from problem


def _judged(cli: CliContext, line: bytes, number: int) -> dict[str, object]:
    """Returns the verdict on one line of JSON, as `--jsonl` answers it."""
    try:
        row = json.loads(_decoded(line))
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"line {number} is no JSON", hint='one {"id": ..., "text": ...} a line') from problem
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise UsageError(f"line {number} has no text", hint='one {"id": ..., "text": ...} a line')
    found = cli.lab.memory.scan(row["text"])
    keys = ("blocked", "category", "outcome")
    return {"id": row.get("id"), **{name: value for name, value in found.items() if name in keys}}


def _scan_text(found: VerdictDocument) -> str:
    blocked = "  blocked" if found["blocked"] else ""
    category = f"  {found['category']}" if found["category"] else ""
    lines = [f"  {printable(one['rule'])}: {printable(one['excerpt'])}" for one in found["findings"]]
    return "\n".join([f"{found['outcome']}{category}{blocked}", *lines])


@memory.command()
@click.argument("path")
@click.option("--why", required=True, metavar="T", help="The reason, kept with the decision.")
@click.option("--blob", help="Only if this is still its newest version (as `memory list --json` names it).")
@click.option("--dry-run", is_flag=True, help="Ask the gates and change nothing.")
@json_option
@pass_cli
def promote(cli: CliContext, path: str, why: str, blob: str | None, dry_run: bool) -> None:
    """Vouch for the newest version of the note PATH: agents are shown it until another one is promoted.

    For a person: under a coding agent's shell it is refused.
    """
    answer = cli.lab.memory.promote(path, why, blob=blob, dry_run=dry_run)
    cli.answer("memory_decision", answer, lambda: _decision_text(answer))


def _decision_text(answer: MemoryDecision) -> str:
    done = "would be" if answer["dry_run"] else "is"
    was = "already" if answer["was"] == answer["status"] else f"was {answer['was']}"
    head = f"{printable(answer['path'])}  {done} {answer['status']} ({was})  version {answer['blob'][:10]}"
    return "\n".join([head, *_finding_lines(answer)])


@memory.command()
@click.argument("folder", metavar="DIR")
@json_option
@pass_cli
def clone(cli: CliContext, folder: str) -> None:
    """Clone the memory to DIR, to edit notes there and push them.

    What is pushed becomes candidate notes at the next scan, through the gates. For a person: under a coding agent's
    shell it is refused.
    """
    place = named_path(folder)
    how = cli.lab.memory.clone(place)
    cli.answer("memory_clone", {"folder": str(place), "next": how}, lambda: f"{printable(str(place))}\n{how}")


def short_commit(commit: str) -> str:
    """Returns a commit as people read it: a long hash by its beginning, any other name whole."""
    is_hash = len(commit) >= 40 and all(c in "0123456789abcdef" for c in commit)
    return printable(commit[:10] if is_hash else commit)

"""The command find."""

from __future__ import annotations

import click

from perpetual.api import CliContext, json_option, page_options, pass_cli

__all__ = ["find"]


@click.command()
@click.argument("text", nargs=-1, required=True, metavar="TEXT...")
@click.option(
    "--kind", "kinds", multiple=True, metavar="K", help="Only hypothesis, experiment, run, note, ...; may be repeated."
)
@click.option("--tag", "tags", multiple=True, help="Only what has this tag; may be repeated.")
@click.option("--logs", is_flag=True, help="Instead: the output of runs that have ended, its first and last 64 KiB.")
@page_options
@json_option
@pass_cli
def find(
    cli: CliContext, text: tuple[str, ...], kinds: tuple[str, ...], tags: tuple[str, ...], logs: bool, limit: int,
    cursor: str | None,
) -> None:  # fmt: skip
    """Find words anywhere in the record, the best match first.

    Hypotheses, experiments, runs, notes and the reasons of evidence are searched; events by --kind event. A word also
    stands for what begins with it. A "quoted phrase" is found as it is, and -word leaves records with it out; put `--`
    before it.
    """
    from perpetual_find.search import find as found_by

    found = found_by(cli.lab, " ".join(text), kinds=kinds, tags=tags, logs=logs, limit=limit, cursor=cursor)
    if found["match"] == "any" and found["items"]:
        cli.progress(f"no {'output' if logs else 'record'} has all of these words; these have some of them")
    cli.items(
        "found",
        found["items"],
        found["next_cursor"],
        ("id", "status", "title", "where"),
        lambda item: (
            str(item["id"]),
            (item["status"] or "") + ", archived" * item["archived"],
            str(item["title"]),
            "" if item["snippet"] in (item["title"], item["id"]) else str(item["snippet"]),
        ),
        empty="nothing was found",
        extra={"query": found["query"], "match": found["match"]},
    )

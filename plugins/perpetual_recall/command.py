"""The command memory block."""

from __future__ import annotations

import click

from perpetual.api import CliContext, json_option, pass_cli, to_json

__all__ = ["block"]


@click.command()
@click.argument("query", required=False)
@click.option("--tokens", type=click.IntRange(20, 8000), default=600, show_default=True, help="Its size at most.")
@click.option("--limit", type=click.IntRange(1, 20), default=5, show_default=True, help="Notes at most.")
@json_option
@pass_cli
def block(cli: CliContext, query: str | None, tokens: int, limit: int) -> None:
    """Show the notes that help with QUERY as an agent gets them: fenced, labelled, within a number of tokens.

    Without QUERY the notes for the open hypotheses and the newest experiments. What an agent is shown is recorded, so
    that the outcomes of its next runs count for these notes. Now and then a promoted note is withheld from an agent by
    chance, which shows whether work goes better with it (`plugins.recall.holdout`, 0 turns it off).
    """
    from perpetual_recall.block import memory_block
    from perpetual_recall.exposure import expose

    holdout = float(str(cli.lab.options("recall")["holdout"]))
    made = memory_block(cli.lab, query, tokens=tokens, limit=limit, holdout=holdout)
    expose(cli.lab, made)
    document = {"text": made.text, "tokens": made.tokens, "limit_tokens": tokens, "notes": to_json(made.notes)}
    nothing = "no note fits" if query else "no note fits the open hypotheses and experiments: name words to look for"
    cli.answer("memory_block", document, lambda: made.text or nothing, is_verbatim=True)

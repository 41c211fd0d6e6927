"""Completion of ids with their titles, by click's own protocol. Imported when a shell asks for completions."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from perpetual.errors import PerpetualError
from perpetual.records import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["complete_ids"]

_MOST = 100  # of the newest of each kind
_LONGEST = 60  # characters of a title
_KINDS = {"h": "hypothesis", "e": "experiment", "r": "run"}
# what an ID of a command is; of the others it is an experiment
_IDS = {"hypotheses": "h", "runs": "r", "logs": "r", "kill": "r", "retry": "r", "provenance": "r", "edit": "eh",
        "archive": "eh", "wait": "er", "evidence": "h"}  # fmt: skip
_OPTIONS = {"hypothesis_id": "h", "hypothesis": "h", "baseline": "e", "extends": "e", "runs_of": "e", "proxy_of": "e",
            "against": "e", "experiment": "e", "experiment_id": "e", "after": "e", "run_id": "r"}  # fmt: skip


class _RecordId(click.types.StringParamType):
    """Text that completes as the id of a record."""

    def __init__(self, kinds: str) -> None:
        self.kinds = kinds

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Returns ids that begin so, the newest first; none outside a project, or where its record is broken."""
        with contextlib.suppress(PerpetualError, OSError):
            return [*_found(ctx, self.kinds, incomplete.lower())]
        return []


def _found(ctx: click.Context, kinds: str, incomplete: str) -> Iterator[CompletionItem]:
    from perpetual.lab import Lab

    with Lab.open(ctx.find_root().params.get("project")) as lab:
        context = lab.context
        for letter in kinds if not incomplete else {*kinds} & {incomplete[0]}:
            for row in context.store.page(_KINDS[letter], limit=_MOST, newest_first=True).items:
                if row.id.startswith(incomplete) and not row.body.get("archived"):
                    body = row.body
                    words = (
                        body.get("statement") or body.get("title") or f"{body['status']}, of {body['experiment_id']}"
                    )
                    title = one_line(context.redactor.text(str(words)))
                    yield CompletionItem(row.id, help=title[:_LONGEST])


def complete_ids(command: click.Command, name: str) -> None:
    """Gives the parameters of a command that take ids, and of its subcommands, their completion."""
    if isinstance(command, click.Group):
        for sub in command.commands.values():
            complete_ids(sub, name)
    for param in command.params:
        is_id = isinstance(param, click.Argument) and param.name in ("id", "ids")
        kinds = _IDS.get(name, "e") if is_id else _OPTIONS.get(param.name or "")
        if kinds and param.type is click.STRING:
            param.type = _RecordId(kinds)

"""Completion of ids with their titles, by click's own protocol. The kernel imports it when a shell asks for them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from perpetual.api import PerpetualError, line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perpetual import Lab

__all__ = ["complete_ids"]

_MOST = 100  # of the newest of each kind
_LONGEST = 60  # characters of a title
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
    from perpetual import Lab

    with Lab.open(ctx.find_root().params.get("project")) as lab:
        for letter in kinds if not incomplete else {*kinds} & {incomplete[0]}:
            for id, words in _titles(lab, letter, incomplete[1:]):
                if id.startswith(incomplete):
                    yield CompletionItem(id, help=line(words)[:_LONGEST])


def _titles(lab: Lab, letter: str, digits: str) -> list[tuple[str, str]]:
    """Returns ids with titles, the newest first; of many records those whose numbers begin with the digits."""
    if letter == "r":
        return [(item.id, f"{item.status}, of {item.experiment_id}") for item in lab.runs.list(limit=_MOST).items]
    status = lab.status()
    total = status["hypotheses_total"] if letter == "h" else sum(status["experiments"].values())
    starts = {int(digits) - 1, 10 * int(digits) - 1} if digits.isdecimal() and total > _MOST else {total - _MOST}
    found: dict[str, str] = {}
    for start in sorted(starts):
        cursor = str(max(0, start))
        if letter == "h":
            claims = lab.hypotheses.list(archived=False, cursor=cursor, limit=_MOST).items
            found |= {item.id: item.statement for item in claims}
        else:
            trials = lab.experiments.list(archived=False, cursor=cursor, limit=_MOST).items
            found |= {item.id: item.title for item in trials}
    return [*found.items()][::-1]


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

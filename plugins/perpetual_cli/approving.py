"""`approve --all`, and `propose --approve --run`: what a person does with several steps at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, Conflict, NotPermitted, PerpetualError, UsageError, to_json
from perpetual.toolkit.units import counted
from perpetual_cli.approval import approved_text

if TYPE_CHECKING:
    from perpetual.api import Experiment, Run

__all__ = ["approve_everything", "is_at_terminal", "launched", "require_person"]

_MOST = 1000  # in one question


class Declined(PerpetualError):
    """A person said no."""

    code = "declined"


def is_at_terminal(cli: CliContext) -> bool:
    """Returns whether a person is there to be asked."""
    return not cli.as_json and not cli.withholds and sys.stdin.isatty() and sys.stderr.isatty()


def require_person(cli: CliContext, deed: str) -> None:
    """Raises NotPermitted where an agent asks, before anything is written."""
    if cli.withholds:
        raise NotPermitted(f"{deed} is for a person", hint="what is proposed waits: propose more or end your turn")


def approve_everything(cli: CliContext, *, yes: bool) -> Sequence[Experiment]:
    """Shows every proposed experiment, asks once at a terminal, and approves all of them or none.

    Raises:
        NotPermitted: for an agent.
        UsageError: without a terminal and without `yes`.
        Conflict: if one has changed since it was shown.
    """
    require_person(cli, "approve --all")
    if not yes and not is_at_terminal(cli):
        raise UsageError("approve --all asks at a terminal", hint="perpetual approve --all --yes, or name them")
    found = cli.lab.experiments.list(status="proposed", limit=_MOST).items
    if not found or yes:
        return cli.lab.experiments.approve_all([item.id for item in found]) if found else ()
    for item in found:
        differs = cli.lab.experiments.differences(item.id)
        click.echo(approved_text(to_json(item), None if differs is None else {**differs}), err=True)
    if not click.confirm(f"approve {counted(len(found), 'experiment')}?", default=False, err=True):
        raise Declined("nothing was approved", hint="perpetual approve ID approves one")
    changed = [item.id for item in found if cli.lab.experiments.get(item.id).spec_hash != item.spec_hash]
    if changed:
        raise Conflict(f"{changed[0]} changed while it was shown: nothing was approved", hint="perpetual approve --all")
    return cli.lab.experiments.approve_all([item.id for item in found])


def launched(cli: CliContext, id: str, *, runs: bool) -> tuple[Experiment, Sequence[Run]]:
    """Approves an experiment that the caller has proposed, and starts its runs where that is asked for."""
    if cli.lab.experiments.get(id).status == "proposed":
        cli.lab.experiments.approve(id)
    lab = cli.lab
    is_short = len(lab.runs.named([id])) < lab.experiments.get(id).design.replicates
    started = lab.runs.launch(id, every=True) if runs and is_short else ()
    return lab.experiments.get(id), started

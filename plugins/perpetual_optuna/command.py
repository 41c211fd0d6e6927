"""The commands `sweep suggest` and `sweep pruned`. Loaded when one of them is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, json_option, line, pass_cli

if TYPE_CHECKING:
    from perpetual_optuna.documents import SweepPruned

__all__ = ["pruned", "suggest"]


@click.command()
@click.argument("id", metavar="ID")
@click.option("-n", "count", type=int, default=4, show_default=True, help="How many settings at most.")
@click.option(
    "--sampler", type=click.Choice(["tpe", "gp"]), default="tpe", show_default=True,
    help="Tree-structured Parzen estimator, or a Gaussian process.",
)  # fmt: skip
@json_option
@pass_cli
def suggest(cli: CliContext, id: str, count: int, sampler: str) -> None:
    """Add settings to the sweep ID that a sampler of Optuna suggests, after what the sweep has measured.

    They are candidates: the sweep runs those that are worth it, and what the sampler expected counts for nothing.
    """
    from perpetual_optuna import suggestions
    from perpetual_scorers import sweeps

    before = {item["id"] for item in sweeps.show(cli.lab, id)["settings"]}
    found = suggestions.suggest(cli.lab, id, count, sampler=sampler)
    added = [item for item in found["settings"] if item["id"] not in before]

    def text() -> str:
        lines = [
            f"{item['id']}  {line(', '.join(f'{name}={value}' for name, value in item['parameters'].items()))}"
            for item in added
        ]
        return "\n".join([*lines, f"next: perpetual sweep run {found['id']}"]) if added else "nothing new was suggested"

    cli.answer("sweep", {**found}, text)


@click.command()
@click.argument("id", metavar="ID")
@click.option("--pruner", type=click.Choice(["median", "third"]), default="median", show_default=True,
              help="The better half, or third, of the settings that ran in full.")  # fmt: skip
@json_option
@pass_cli
def pruned(cli: CliContext, id: str, pruner: str) -> None:
    """Name the settings of the sweep ID that a pruner of Optuna would not run any further, by their short runs.

    Nothing is changed: the sweep takes the best third of each rung on, whatever a pruner says.
    """
    from perpetual_optuna import suggestions

    found = suggestions.dropped(cli.lab, id, pruner=pruner)
    sweep_id = cli.lab.records("scorers.sweep").get(id).id
    document: SweepPruned = {"sweep_id": sweep_id, "pruner": pruner, "settings": found}
    cli.answer("sweep_pruned", {**document}, f"{pruner} would drop {', '.join(found) or 'no setting'}")

"""The commands `power` and `overturn`. Loaded by the command line when one of them is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, NoProject, json_option, pass_cli
from perpetual.toolkit.units import shown_hours

if TYPE_CHECKING:
    from perpetual_scorers.plan_documents import OverturnOption, PowerChance

__all__ = ["overturn", "power"]


@click.command()
@click.argument("id", metavar="[ID]", required=False)
@click.option("--metric", metavar="M", help="Without an ID: the metric whose measured noise is taken.")
@click.option("--mde", type=float, metavar="X", help="The smallest effect worth having; by default the claim's.")
@click.option("--effect", type=float, metavar="X", help="The true effect that is assumed; by default the mde.")
@click.option("--noise", type=float, metavar="SD", help="Spread of one run; by default as measured, else as declared.")
@click.option("--tau", type=float, metavar="SD", help="Spread between implementations; by default the claim's.")
@click.option("--rho", type=float, metavar="R", help="Correlation of runs on shared seeds; by default as measured.")
@click.option("--baseline-runs", type=int, metavar="N", help="Runs of the baseline; by default those that it has.")
@click.option("--replicates", type=int, metavar="N", help="Runs of the claim; by default as it was proposed.")
@click.option("--confidence", type=float, metavar="P", help="To be reached; by default the methodology's threshold.")
@click.option("--chance", type=float, default=0.8, show_default=True, metavar="P", help="The chance that is wanted.")
@json_option
@pass_cli
def power(
    cli: CliContext,
    id: str | None,
    metric: str | None,
    mde: float | None,
    effect: float | None,
    noise: float | None,
    tau: float | None,
    rho: float | None,
    baseline_runs: int | None,
    replicates: int | None,
    confidence: float | None,
    chance: float,
) -> None:
    """Say how many seeds and baseline runs decide a claim, with which chance, before they are paid for.

    ID is a hypothesis or an experiment. Without one the options are enough, also outside of a project. Chances are
    those of the right verdict, looked at after each run, from the first run on. Nothing is written.
    """
    from perpetual_scorers.power import power as computed

    try:
        lab = cli.lab
    except NoProject:
        if id is not None or cli.project:
            raise
        lab = None
    found = computed(
        lab,
        id,
        metric=metric,
        mde=mde,
        effect=effect,
        noise=noise,
        tau=tau,
        rho=rho,
        baseline_runs=baseline_runs,
        replicates=replicates,
        confidence=confidence,
        likely=chance,
    )
    cli.answer("power", {**found}, "")
    if not cli.as_json:
        columns = ("replicates", "baseline runs", "decided", "sure (e >= 20)")
        cli.table(columns, [_cells(row) for row in found["chances"]], title="chance with so many runs")
        click.echo(found["sentence"])


def _cells(row: PowerChance) -> tuple[str, str, str, str]:
    others = "-" if row["baseline_runs"] is None else str(row["baseline_runs"])
    return str(row["replicates"]), others, f"{row['chance_to_decide']:.0%}", f"{row['chance_to_be_sure']:.0%}"


@click.command()
@click.argument("id", metavar="HYPOTHESIS")
@json_option
@pass_cli
def overturn(cli: CliContext, id: str) -> None:
    """Say which runs would change a verdict, or decide an open one: what they must show, how likely, at what cost.

    Each number of further runs of the claim or of its baseline is weighed by the rule of the evidence itself. The
    chance is that of runs drawn from what was measured. Nothing is written.
    """
    from perpetual_scorers.overturn import overturn as weighed

    found = weighed(cli.lab, id)
    cli.answer("overturn", {**found}, "")
    if not cli.as_json:
        if found["options"]:
            cli.table(
                ("runs", "of", "at a mean of", "becomes", "chance", "costs"),
                [_option(each) for each in found["options"]],
            )
        click.echo(found["sentence"])
        if found["cheapest"] is not None and found["cheapest"]["command"] is not None:
            click.echo(f"next: {found['cheapest']['command']}")


def _option(option: OverturnOption) -> tuple[str, ...]:
    side = ">=" if option["side"] == "at_least" else "<="
    outcome = "-" if option["outcome"] is None else f"{side} {option['outcome']:.4g}"
    arm = " (baseline)" if option["arm"] == "baseline" else ""
    return (str(option["runs"]), option["experiment_id"] + arm, outcome, option["becomes"], f"{option['chance']:.0%}",
            shown_hours(option["run_hours"]))  # fmt: skip

"""The command `aa`. Loaded by the command line when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, UsageError, json_option, pass_cli
from perpetual.toolkit.units import counted, identifier, shown_hours

if TYPE_CHECKING:
    from perpetual_scorers.documents import Aa, AaPlan, AaRule

__all__ = ["aa"]

_NAMES = {
    "keep_if_better": "better of 2 runs",
    "keep_if_better_3": "better of two 3-run means",
    "two_sigma": "beyond 2 sd of the baseline",
    "permutation_peeking": "permutation test at each look",
    "perpetual_supported": "Perpetual: supported",
    "perpetual_helps": "Perpetual: helps",
}


@click.command()
@click.argument("id", metavar="EXPERIMENT")
@click.option("--runs", type=int, metavar="N", help="Runs of both arms together, an even number.  [default: 8]")
@click.option("--again", is_flag=True, help="Start a new test beside those that are there.")
@click.option("--no-run", is_flag=True, help="Look at the runs that are there, and start none.")
@click.option("--dry-run", is_flag=True, help="Show what would be run and what it costs, and run nothing.")
@click.option("--metric", metavar="M", help="By default the experiment's, or that of a claim against it.")
@click.option("--direction", metavar="max|min", help="By default as declared with the metric.")
@click.option("--items", type=int, metavar="N", help="The metric is a share of N test items: say what their luck is.")
@click.option(
    "--mde", type=float, metavar="X", help="The effect that matters; by default the smallest that is claimed."
)
@json_option
@pass_cli
def aa(
    cli: CliContext,
    id: str,
    runs: int | None,
    again: bool,
    no_run: bool,
    dry_run: bool,
    metric: str | None,
    direction: str | None,
    items: int | None,
    mde: float | None,
) -> None:
    """Test EXPERIMENT against itself: what noise, seeds, drift and test items do to rules of decision.

    Two arms of its own command are run on fresh seeds in random order, half of the pairs on one seed. Nothing differs
    between them, so whatever is said to be improved is wrong. Typing this approves both arms; they are no evidence.
    Run again, it goes on where it stopped.
    """
    if no_run and (dry_run or again or runs is not None):
        raise UsageError("--no-run starts nothing", hint="leave out --runs, --again and --dry-run")
    from perpetual_scorers.aa_test import aa_analysis, aa_plan_of, aa_test

    if dry_run:
        plan = aa_plan_of(cli.lab, id, runs=runs, again=again, metric=metric, direction=direction)
        cli.answer("aa_plan", {**plan}, lambda: _plan_text(plan))
        return
    if no_run:
        found = aa_analysis(cli.lab, id, metric=metric, direction=direction, items=items, mde=mde)
    else:
        try:
            found = aa_test(cli.lab, id, runs=runs, again=again, metric=metric, direction=direction, items=items,
                            mde=mde, say=cli.progress)  # fmt: skip
        except KeyboardInterrupt:
            cli.progress(f"\ninterrupted; what runs goes on, and this goes on from here: perpetual aa {identifier(id)}")
            raise
    cli.answer("aa", {**found}, "")
    if not cli.as_json:
        _show(cli, found)


def _plan_text(plan: AaPlan) -> str:
    from perpetual.api import line

    arms = " and ".join(plan["arms"]) or "to be proposed and approved"
    if plan["arms"] and plan["needs_approval"]:
        arms += ", to be approved"
    count = counted(len(plan["runs"]), "run")
    expected = (
        "" if plan["expected_run_hours"] is None else f"; about {shown_hours(plan['expected_run_hours'])} as before"
    )
    order = " ".join(f"{run['arm']}{'*' if run['shared'] else ''}" for run in plan["runs"])
    return "\n".join(
        [
            f"A/A test {plan['test']} of {plan['experiment_id']}: {plan['missing']} of {count} to be run, arms {arms}",
            f"  command: {line(plan['command'] or 'none')}",
            f"  order: {order}  (* on a seed that both arms have)",
            f"  reserves {plan['gpu_hours']:.3f} GPU-hours and {plan['run_hours']:.3f} run-hours{expected}",
            "nothing was started",
        ]
    )


def _show(cli: CliContext, found: Aa) -> None:
    click.echo(found["sentence"])
    columns = ("rule", 'said "improved"', "95 % interval", "baseline first", "promised", "normal noise", "what to do")
    cli.table(columns, [_cells(rule) for rule in found["rules"]], title=_title(found))
    for text in found["advice"]:
        click.echo(f"- {text}")


def _title(found: Aa) -> str:
    arms = f"arms {' and '.join(found['arms'])}, " if found["arms"] else ""
    own = f", {found['own']} of them {found['experiment_id']}'s own" if found["own"] else ""
    return (
        f"{found['experiment_id']} against itself, by {found['metric']}: {arms}{counted(found['n'], 'run')}{own}, "
        f"{counted(found['seeds'], 'seed')}, {counted(found['pairs'], 'pair')} ({found['shared_pairs']} on one seed)"
    )


def _cells(rule: AaRule) -> tuple[str, ...]:
    low, high = rule["low"], rule["high"]
    return (
        _NAMES.get(rule["rule"], rule["rule"]),
        _percent(rule["said_improved"]),
        "-" if low is None or high is None else f"{100 * low:.0f} to {100 * high:.0f} %",
        _percent(rule["in_order"]),
        _percent(rule["promised"]),
        _percent(rule["normal"]),
        rule["advice"],
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"

"""The command `budget`: what was spent, and the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, OpenGroup, json_option, pass_cli
from perpetual.toolkit.units import hours_of, shown_hours, shown_number

if TYPE_CHECKING:
    from perpetual.documents.status import Spent, Totals

__all__ = ["budget"]

_LISTED = 10  # lines of a table
_SHOWN = 0.0005  # hours: what would be shown as 0 is left out
_UNLIMITED = ("none", "null", "unlimited")


@click.group(cls=OpenGroup, invoke_without_command=True)
@json_option
@pass_cli
@click.pass_context
def budget(ctx: click.Context, cli: CliContext) -> None:
    """Show what was spent, by experiment, hypothesis and day, and the limit.

    A run debits its wall hours times its GPUs; one without a GPU debits no GPU-hours. Run-hours are wall hours times
    GPUs, and plain wall hours without one.
    """
    if ctx.invoked_subcommand is None:
        _show(cli)


# A negative amount is refused by name; it must not be taken for an option.
@budget.command(name="set", context_settings={"ignore_unknown_options": True})
@click.argument("gpu_hours", metavar="GPU_HOURS|none")
@json_option
@pass_cli
def set_(cli: CliContext, gpu_hours: str) -> None:
    """Set the limit in GPU-hours, or take it away with `none`. Runs that have their reservation go on."""
    unlimited = gpu_hours.strip().lower() in _UNLIMITED
    cli.lab.budget.set_limit(None if unlimited else hours_of(gpu_hours, "the budget"))
    _show(cli, in_full=False)


def _show(cli: CliContext, *, in_full: bool = True) -> None:
    shown = cli.lab.budget.show()
    cli.answer("budget", shown, lambda: _totals(shown, cli.lab.budget.room_run_hours()) + _of_day(cli))
    if cli.as_json or not in_full:
        return
    tables = (
        ("hypothesis", shown["by_hypothesis"]),
        ("experiment", shown["by_experiment"]),
        ("day", shown["by_day"]),
    )
    for name, lines in tables:
        if lines:
            kept = [*lines] if name == "day" else sorted(lines, key=lambda key: _cost(lines[key]), reverse=True)
            kept = kept[-_LISTED:] if name == "day" else kept[:_LISTED]
            cli.table(
                (name, "runs", "GPU-hours", "run time"), [_row(key, line) for key, line in lines.items() if key in kept]
            )
            if len(kept) < len(lines):
                which = "newest" if name == "day" else "most expensive"
                click.echo(f"the {len(kept)} {which} of {len(lines)}; --json has all")


def _cost(line: Spent) -> tuple[float, float]:
    return line["gpu_hours"], line["run_hours"]


def _totals(shown: Totals, room_run_hours: float | None) -> str:
    limit = shown["limit_gpu_hours"]
    left = "unlimited" if limit is None else f"{shown['left_gpu_hours']:.3f} left of {limit:g}"
    over = 0.0 if limit is None else shown["spent_gpu_hours"] + shown["reserved_gpu_hours"] - limit
    beyond = f" ({over:.3f} over: runs went on beyond their limit, or it was lowered)" if over > _SHOWN else ""
    room = "" if room_run_hours is None else f", {room_run_hours:.4f} of max_run_hours left"
    return (
        f"GPU-hours: {shown['spent_gpu_hours']:.3f} spent, {shown['reserved_gpu_hours']:.3f} reserved, {left}{beyond}\n"
        f"run time: {shown_hours(shown['run_hours'])} ({shown['run_hours']:.4f} run-hours){room}"
    )


def _of_day(cli: CliContext) -> str:
    """Returns a line of what is left of each cap of the methodology for the day."""
    words = [f"{room:.6g} of {key}" for key, room in cli.lab.budget.left_of_day().items()]
    return f"\nleft today: {', '.join(words)}" if words else ""


def _row(key: str, line: Spent) -> tuple[str, ...]:
    gpu_hours = shown_number(line["gpu_hours"]) if line["gpu_hours"] else ""  # a column of nothing is not shown
    return key, str(line["runs"]), gpu_hours, shown_hours(line["run_hours"])

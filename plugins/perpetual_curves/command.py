"""The command `curves`. Loaded by the command line when it is called."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, json_option, pass_cli, printable
from perpetual.toolkit.screen import is_plain
from perpetual.toolkit.units import counted

if TYPE_CHECKING:
    from perpetual_curves.collect import Arm, Found
    from perpetual_curves.documents import CurveSummary
    from perpetual_curves.draw import Line, Look

__all__ = ["curves"]

_BELOW = 12  # lines of a screen that a picture leaves to what comes after it


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--metric", metavar="M", help="Another metric than the one that the experiments declare.")
@click.option("--mean/--runs", "as_mean", default=None, help="The mean over each experiment's runs, or every run.")
@click.option("--width", type=click.IntRange(20, 1000), metavar="N", help="Columns.  [default: the screen's]")
@click.option("--height", type=click.IntRange(6, 200), metavar="N", help="Lines of the picture.")
@click.option("--log", is_flag=True, help="A logarithmic scale; values that are not above 0 are gaps.")
@click.option("--full", is_flag=True, help="With --json: every point, however many there are.")
@json_option
@pass_cli
def curves(
    cli: CliContext,
    ids: tuple[str, ...],
    metric: str | None,
    as_mean: bool | None,
    width: int | None,
    height: int | None,
    log: bool,
    full: bool,
) -> None:
    """Draw a metric over the steps of runs; an experiment's ID stands for its runs.

    Of an experiment with several runs the mean is drawn, and dotted one standard deviation around it. Live runs are
    drawn as far as they are. What an agent reads has no picture, and neither has `--plain`.
    """
    from perpetual_curves.collect import POINTS, collect, document_of

    found = collect(cli.lab, ids, metric, as_mean=as_mean)
    if cli.as_json:
        cli.answer("curves", document_of(found, points=None if full else POINTS), "")
        return
    if not cli.for_agent:
        look = _look(width, height, log=log)
        click.echo("\n".join(_pictures(found, look)), color=look.colours > 0 or None)
    _table(cli, found)
    notes = [*found.notes]
    if found.left_out:
        notes.append(f"no value of {found.metric}: {', '.join(found.left_out)}")
    for note in notes:
        from perpetual.toolkit.screen import folded

        click.echo(folded(printable(f"note: {note}")))


def _look(width: int | None, height: int | None, *, log: bool) -> Look:
    """Returns what standard output can show."""
    from shutil import get_terminal_size

    from perpetual_curves.draw import Look

    size = get_terminal_size()
    is_screen = sys.stdout.isatty()
    tall = height or (max(8, min(24, size.lines - _BELOW)) if is_screen else 16)
    return Look(width or (size.columns if is_screen else 80), tall, _colours(is_screen), _has_braille(), log)


def _colours(is_screen: bool) -> int:
    term = os.environ.get("TERM", "")
    if not is_screen or os.environ.get("NO_COLOR") or term in ("dumb", ""):
        return 0
    return 256 if "256" in term or os.environ.get("COLORTERM") else 8


def _has_braille() -> bool:
    try:
        "⣿│┤└─━".encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _pictures(found: Found, look: Look) -> list[str]:
    """Returns the pictures, one for each sort of step, and their legends; in words alone where output is plain."""
    from perpetual_curves.draw import marked, picture

    better = {"max": " (higher is better)", "min": " (lower is better)"}.get(found.direction or "", "")
    arms: dict[str | None, list[Arm]] = {}
    for arm in found.arms:
        arms.setdefault(arm.curve.axis, []).append(arm)
    shown = []
    for axis, group in arms.items():
        lines = _lines(group)
        head = f"{found.metric} by {axis or 'value'}{better}{', log scale' if look.log else ''}"
        if is_plain():
            shown += [printable(head), *map(_named, group)]
            continue
        shown += [printable(head), *picture(lines, look, axis=axis or "values"), *_legend(group, lines, look, marked)]
    return shown


def _lines(arms: list[Arm]) -> list[Line]:
    from perpetual_curves.draw import Line
    from perpetual_curves.series import Mean

    experiments = [*dict.fromkeys(arm.experiment for arm in arms)]
    one = len(experiments) == 1
    return [
        Line(
            arm.run or arm.experiment,
            number if one else experiments.index(arm.experiment),
            arm.curve.steps,
            arm.curve.values,
            arm.curve.sd if isinstance(arm.curve, Mean) else None,
        )
        for number, arm in enumerate(arms)
    ]


_MOST_LEGEND = 40


def _legend(arms: list[Arm], lines: list[Line], look: Look, marked: object) -> list[str]:
    """Returns what each curve is, as many on a line as there is room for."""
    from perpetual_curves.draw import marked as sign

    items: list[tuple[str, int]] = []
    for number, arm in enumerate(arms[:_MOST_LEGEND]):
        words = _named(arm)
        items.append((f"{sign(number, lines, look)} {words}", len(words) + 5))
    rows: list[str] = []
    room = 0
    for text, size in items:
        if rows and size <= room:
            rows[-1] += f"   {text}"
        else:
            rows.append(f"  {text}")
            room = look.width - 2
        room -= size + 3
    left = len(arms) - len(items)
    return [*rows, *([f"  and {left} more"] if left else [])]


def _named(arm: Arm) -> str:
    if arm.run is None:
        dotted = "" if is_plain() else ", dotted ± 1 sd"
        return f"{arm.experiment}, mean of {counted(len(arm.runs), 'run')}{dotted}"
    return f"{arm.run} of {arm.experiment}" + (f", {arm.status}" if arm.status != "done" else "")


def _table(cli: CliContext, found: Found) -> None:
    from perpetual_curves.collect import summarised

    best = "best" if found.direction else "lowest, highest"
    rows = [_cells(summarised(arm, found.direction), found.direction) for arm in found.arms]
    cli.table(("curve", "runs", "points", "first", "last", "at", best, "at", "trend"), rows)


def _cells(found: CurveSummary, direction: str | None) -> list[str]:
    trend = found["trend"]
    if direction:
        best, step = _number(found["best"]), _step(found["best_step"])
    else:
        best, step = f"{_number(found['low'])}, {_number(found['high'])}", ""
    return [
        found["run"] or found["experiment"],
        str(len(found["runs"])),
        str(found["points"]),
        _number(found["first"]),
        _number(found["last"]),
        _step(found["last_step"]),
        best,
        step,
        f"{trend['word']} {trend['change']:+.3g}" if trend else "-",
    ]


def _step(step: float | None) -> str:
    return "-" if step is None else f"{step:.10g}"


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.5g}"

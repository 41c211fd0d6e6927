"""The command `demo`. Loaded by the command line when it is called."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, json_option, pass_cli
from perpetual.loop import EXITS, Cycle
from perpetual.toolkit.redraw import is_plain
from perpetual.toolkit.units import counted, shown_bound

if TYPE_CHECKING:
    from rich.console import Group

    from perpetual import Lab
    from perpetual.api import Hypothesis
    from perpetual_demo.documents import Demo, DemoVerdict

__all__ = ["demo"]

_INTRO = """\
Five hypotheses about character n-gram models, tested by real training runs on this machine.
The demo's methodology says auto_approve: true, so the loop approves its own proposals here;
in a project of yours a person does, unless you write otherwise. A verdict here takes a
confidence of 0.96, where a project's default is 0.8.
"""


@click.command()
@click.argument("folder", metavar="[DIR]", default="perpetual-demo", type=click.Path(file_okay=False, path_type=Path))
@json_option
@pass_cli
def demo(cli: CliContext, folder: Path) -> int:
    """Watch a real campaign decide five hypotheses, in under a minute.

    Trains small models in DIR (./perpetual-demo), two at a time, until every hypothesis is decided or nothing is
    worth another run. No GPU, no model, no network. Started again in the same place, it goes on where it was.
    """
    try:
        return _run(cli, folder)
    except KeyboardInterrupt:
        cli.progress(f"\ninterrupted; what runs goes on, and this goes on from here: perpetual demo {_shown(folder)}")
        raise


def _shown(folder: Path) -> str:
    return shlex.quote(os.fspath(folder))


def _run(cli: CliContext, folder: Path) -> int:
    from perpetual_demo.campaign import CAMPAIGN
    from perpetual_demo.campaign_run import open_lab, register, turn

    began = time.monotonic()
    with open_lab(folder.absolute()) as lab:
        cli.progress(_INTRO)
        register(lab, CAMPAIGN)
        live = not cli.as_json and sys.stdout.isatty() and not is_plain()
        screen, display = _live(lab, began) if live else (nullcontext(), _lines(cli, lab, began))
        with screen:
            last = turn(lab, display)
        return _close(cli, lab, last, time.monotonic() - began)


def _close(cli: CliContext, lab: Lab, last: Cycle, elapsed_s: float) -> int:
    """Writes the report and shows the verdicts."""
    from perpetual_report.document import render, write

    report = lab.root / "report.md"
    write(report, render(lab))
    verdicts = [_verdict(lab, item) for item in lab.hypotheses.list().items]
    runs = lab.runs.list(limit=10_000).items
    shown = os.path.relpath(lab.root)
    following = [
        f"perpetual --project {shown} status",
        f"perpetual --project {shown} evidence list",
        f"perpetual --project {shown} report --format html -o demo.html",
        f"perpetual --project {shown} memory list",
        f"perpetual --project {shown} aa {_last_baseline(lab)}",
    ]
    document: Demo = {
        "project": lab.config["project"],
        "path": os.fspath(lab.root),
        "reason": last.reason,
        "explanation": last.explanation,
        "hypotheses": verdicts,
        "runs": len(runs),
        "run_hours": lab.budget.totals()["run_hours"],
        "elapsed_s": elapsed_s,
        "report": os.fspath(report),
        "next": following,
    }
    cli.answer("demo", {**document}, "")
    if not cli.as_json:
        _verdict_table(cli, verdicts)
        for item in verdicts:
            click.echo(f"{item['id']}: {item['sentence']}")
        click.echo(
            f"stopped: {last.reason} ({last.explanation}); {len(runs)} runs, "
            f"{sum(run.duration_s or 0.0 for run in runs):.0f} s of run time, {elapsed_s:.0f} s in all"
        )
        click.echo(f"report:  {os.path.relpath(report)}")
        click.echo("look further:")
        for line in following[:-1]:
            click.echo(f"  {line}")
        click.echo(f"  {following[-1]}  # a baseline against itself: what luck alone would have decided")
    return EXITS[last.reason or "queue_empty"]


def _last_baseline(lab: Lab) -> str:
    """Returns the baseline of the claim that stays open: the smallest effect beside the noise."""
    return [item.design.baseline for item in lab.experiments.list(limit=1_000).items
            if isinstance(item.design.baseline, str)][-1]  # fmt: skip


def _verdict(lab: Lab, hypothesis: Hypothesis) -> DemoVerdict:
    rows = [row for row in lab.evidence.list(hypothesis_id=hypothesis.id, limit=1000).items if row.kind == "measured"]
    experiments = lab.experiments.list(hypothesis_id=hypothesis.id).items
    baselines = [
        lab.experiments.get(item.design.baseline) for item in experiments if isinstance(item.design.baseline, str)
    ]
    runs = [
        run
        for experiment in (*experiments, *baselines)
        for run in lab.runs.list(experiment_id=experiment.id, limit=1000).items
    ]
    return {
        "id": hypothesis.id,
        "statement": hypothesis.statement,
        "status": hypothesis.status,
        "sentence": hypothesis.sentence,
        "confidence": hypothesis.confidence,
        "false_alarm_bound": hypothesis.false_alarm_bound,
        "evidence": len(rows),
        "nats": sum(row.log_bayes_factor or 0.0 for row in rows),
        "runs": len(runs),
        "run_hours": sum(run.run_hours or 0.0 for run in runs),
    }


def _verdict_table(cli: CliContext, verdicts: list[DemoVerdict]) -> None:
    cli.table(
        ("id", "hypothesis", "verdict", "confidence", "false-alarm bound", "evidence", "cost"),
        [
            (
                item["id"],
                item["statement"],
                item["status"],
                f"{item['confidence']:.3f}",
                shown_bound(item["false_alarm_bound"]),
                counted(item["evidence"], "run"),
                f"{item['run_hours'] * 3600:.1f} s in {item['runs']} runs",
            )
            for item in verdicts
        ],
    )


def _lines(cli: CliContext, lab: Lab, began: float) -> Callable[[Cycle], None]:
    """Returns the callback that prints one plain line for each thing that happened."""

    def show(done: Cycle) -> None:
        at = f"{time.monotonic() - began:5.1f} s"
        for change in done.changes:
            run = lab.runs.get(change["run_id"])
            value = ", ".join(f"{name} {value:.5g}" for name, value in run.metrics.items() if value is not None)
            cli.progress(f"{at}  {run.id} of {run.experiment_id} {change['to']}: {value or change['reason'] or ''}")
        for row in done.evidence:
            hypothesis = lab.hypotheses.get(str(row["hypothesis_id"]))
            cli.progress(
                f"{at}  {row['id']}: {hypothesis.id} is {hypothesis.status}, confidence {hypothesis.confidence:.3f}"
            )
        if done.launched:
            started = [lab.runs.get(id) for id in done.launched]
            cli.progress(f"{at}  started " + ", ".join(f"{run.id} (of {run.experiment_id})" for run in started))

    return show


def _live(lab: Lab, began: float) -> tuple[AbstractContextManager[object], Callable[[Cycle], None]]:
    """Returns a display that is redrawn in place on a terminal, and the callback that redraws it."""
    from rich.live import Live

    screen = Live(_picture(lab, began), auto_refresh=False)

    def show(_: Cycle) -> None:
        screen.update(_picture(lab, began), refresh=True)

    return screen, show


def _picture(lab: Lab, began: float) -> Group:
    """Returns the hypotheses with their confidence as bars, and the runs that are live."""
    from rich import box
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    colours = {"open": "yellow", "supported": "green", "refuted": "red", "parked": "blue"}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("", "hypothesis", "", "confidence", "evidence"):
        table.add_column(column)
    for item in lab.hypotheses.list().items:
        colour = colours[item.status]
        table.add_row(
            item.id,
            Text(item.statement),
            ProgressBar(total=1.0, completed=item.confidence, width=20, complete_style=colour, finished_style=colour),
            Text(f"{item.confidence:.3f} {item.status}", style=colour),
            counted(item.evidence_count, "run"),
        )
    status = lab.status()
    live = "  ".join(f"{run['id']} of {run['experiment_id']}" for run in status["runs"]["active"]) or "none"
    done = sum(item.runs.get("done", 0) for item in lab.experiments.list(limit=1000).items)
    foot = Text(f"{time.monotonic() - began:4.0f} s   {done} runs done   live: {live}", style="dim")
    return Group(table, foot)

"""Runs in words: the answers of the commands that start, end and await them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from perpetual.api import CliContext, PerpetualError, printable
from perpetual.toolkit.causes import reason_with_cause
from perpetual.toolkit.screen import is_plain
from perpetual.toolkit.units import shown_hours
from perpetual_cli.progress import LIVE
from perpetual_cli.words import sparkline

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Run

__all__ = ["answer_runs", "declared_metrics", "noted_line", "replicate_cell", "run_line", "runs_table", "shown_value"]

Json = dict[str, Any]

_WIDE, _SPARKLINES, _SPARK_WIDTH = 120, 100, 12  # columns of a screen with sparklines, how many, and how long
_SPARK_BYTES = 16 * 1024  # of a run's file that are read for one
_METRICS = 3  # of a run in a list, where the screen is wide or its experiment declares none
_TITLE = 40  # characters of an experiment's title beside a run


def answer_runs(cli: CliContext, found: Sequence[Run], *, single: bool, hint: str | None = None) -> None:
    """Prints one run as itself, several as a list; the hint is a key of its own in JSON."""
    from perpetual.api import to_json

    more = {} if hint is None else {"hint": hint}
    if single:
        cli.answer("run", {**to_json(found[0]), **more}, lambda: run_line(found[0], declared_metrics(cli.lab, found)))
    elif cli.as_json:
        runs_table(cli, found, None, empty="", extra=more)
    else:
        declared = declared_metrics(cli.lab, found)
        click.echo("\n".join(run_line(item, declared) for item in found) or "there is no run to wait for")


def run_line(item: Run, declared: Mapping[str, str | None]) -> str:
    """Returns the state of a run, and what can be done with it; the metric that it is for comes first."""
    head = f"{item.id}  {item.status}: replicate {item.replicate} of {item.experiment_id}"
    reason = f" ({printable(item.reason)})" if item.reason else ""
    if item.status == "queued":
        return f"{head} waits{reason}"
    if item.pending:
        return f"{head} is pending{reason}\n  to cancel it:\n  perpetual kill {item.id}"
    if item.status in LIVE:
        on = f" on {', '.join(item.gpus)}" if item.gpus else ""
        pid = f", pid {item.pid}" if item.pid is not None else ""  # not known yet where another process starts it
        return f"{head}, seed {item.seed}{pid}{on}\n  perpetual logs {item.id} -f"
    names = sorted(item.metrics, key=lambda name: name != declared.get(item.experiment_id))
    metrics = ", ".join(f"{name} {shown_value(item.metrics[name])}" for name in names)
    hint = [f"  perpetual logs {item.id} --stderr"] if item.status == "failed" else []
    lasted = "" if item.duration_s is None else f" after {shown_hours(item.duration_s / 3600)}"
    lines = [f"{head}{lasted}{reason}", *map(noted_line, item.annotations), *hint]
    return "\n".join([*lines, f"  {printable(metrics)}"] if metrics else lines)


def noted_line(annotation: Json) -> str:
    """Returns what was seen in a run's output, and where."""
    return f"  seen: {printable(annotation['text'])} ({printable(annotation['source'])})"


def runs_table(
    cli: CliContext, found: Sequence[Run], next_cursor: str | None, *, empty: str, extra: Json | None = None
) -> None:
    """Shows a page of runs as a table, or as the document `runs`.

    Args:
        empty: what is said where there is none.
        extra: further keys of the document.
    """
    from perpetual.api import to_json

    width = _screen()
    of = {} if cli.as_json else {id: cli.lab.experiments.get(id) for id in {run.experiment_id for run in found}}
    declared = {id: experiment.design.metric for id, experiment in of.items()}
    now = cli.lab.progress(live) if (live := [item.id for item in found if item.status in LIVE]) else {}
    lines = {} if cli.as_json else _sparklines(cli.lab, found, declared)
    cli.items(
        "runs",
        [{**to_json(item), **({"progress": now.get(item.id)} if item.status in LIVE else {})} for item in found],
        next_cursor,
        ("id", "experiment", "rep", "status", "lasted", "gpus", "metrics", "curve", "title", "reason"),
        lambda item: (
            item["id"],
            item["experiment_id"],
            replicate_cell(item),
            item["status"],
            "" if item["duration_s"] is None else shown_hours(item["duration_s"] / 3600),
            str(len(item["gpus"]) or ""),
            _metrics(item, declared.get(item["experiment_id"]), 1 if width < _WIDE else _METRICS),
            lines.get(item["id"], ""),
            "" if width < _WIDE else of[item["experiment_id"]].title[:_TITLE],
            (item.get("progress") or {}).get("text") or reason_with_cause(item["reason"], item["annotations"]) or "",
        ),
        empty=empty,
        extra=extra,
    )


def replicate_cell(item: Json) -> str:
    """Returns a replicate and, after the first, the attempt: `2.3` is the third attempt of replicate 2."""
    return f"{item['replicate']}" + (f".{item['attempt']}" if item["attempt"] > 1 else "")


def _sparklines(lab: Lab, found: Sequence[Run], declared: Mapping[str, str | None]) -> dict[str, str]:
    """Returns the declared metric over each run's steps as block characters; none without room, or plain."""
    if is_plain() or _screen() < _WIDE or "utf" not in (sys.stdout.encoding or "").lower():
        return {}
    lines = {}
    for item in found[:_SPARKLINES]:
        metric = declared.get(item.experiment_id)
        if metric is None:
            continue
        try:
            history = lab.runs.curves(item.id, (metric,), limit_bytes=_SPARK_BYTES).get(metric)
        except PerpetualError:
            continue
        if history is not None and len(history.values) > 1:
            lines[item.id] = sparkline(history.values, _SPARK_WIDTH)
    return lines


def declared_metrics(lab: Lab, found: Sequence[Run]) -> dict[str, str | None]:
    """Returns, by experiment, the metric that its runs are for."""
    return {id: lab.experiments.get(id).design.metric for id in {run.experiment_id for run in found}}


def _screen() -> int:
    """Returns how many columns the screen has; a narrow one where the output is no screen."""
    from shutil import get_terminal_size

    return get_terminal_size().columns if sys.stdout.isatty() else 0


def _metrics(item: Json, declared: str | None, most: int) -> str:
    """Returns the metric that the run was for first, and how many more it has; all of them are in `runs ID`."""
    names = sorted(item["metrics"], key=lambda name: name != declared)
    names = names[: most if declared in item["metrics"] else _METRICS]
    shown = [f"{name} {shown_value(item['metrics'][name])}" for name in names]
    left = len(item["metrics"]) - len(shown)
    return ", ".join([*shown, f"and {left} more"] if left else shown)


def shown_value(value: float | None) -> str:
    """Returns a metric's value."""
    return "not finite" if value is None else f"{value:.6g}"

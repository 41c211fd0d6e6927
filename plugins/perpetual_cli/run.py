"""The commands that start runs and wait for them: run, retry, wait.

`run --wait` and `wait` bring the record up to date.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, json_option, key_option, pass_cli, printable
from perpetual.toolkit.units import counted, identifier, seconds_of, shown_bound, shown_bytes, shown_hours
from perpetual_cli.adhoc import Launch, Spec, is_id, measured_line, plan, refuse_spec, start
from perpetual_cli.progress import LIVE, going_on, plain_option, wait_for
from perpetual_cli.run_words import answer_runs, declared_metrics, run_line

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Run
    from perpetual.documents.runs import RunPlan

__all__ = ["retry", "run", "wait"]


@click.command()
@click.argument("id", metavar="ID|COMMAND")
@click.argument("command", nargs=-1, metavar="[COMMAND]")
@click.option("-g", "--gpu", "gpus", type=int, multiple=True, help="Use this GPU; may be repeated.")
@click.option("--all", "every", is_flag=True, help="Every missing replicate, as far as the budget holds them.")
@click.option("--wait", "waits", is_flag=True, help="Until it has ended; exit 1 without success or metric.")
@click.option("--seed", type=int, help="A seed picked by hand: the run weighs nothing as evidence.")
@click.option("--isolate", is_flag=True, help="In a copy of the code as it lies now, so that edits do not reach it.")
@click.option("--replicates", type=int, help="Of a COMMAND: how many runs, each with a seed.  [default: 1]")
@click.option("--metric", help="Of a COMMAND: what its runs measure, as they print it.")
@click.option("--direction", metavar="max|min", help="Of a COMMAND: whether more or less of it is better.")
@click.option("--title", help="Of a COMMAND: a line to know it by.")
@click.option("--wall", metavar="TIME", help="Of a COMMAND: when a run is ended; seconds, or 90s, 30m, 2h.")
@click.option("--gpus", "needs_gpus", type=int, help="Of a COMMAND: how many GPUs a run needs.")
@click.option("--tag", "tags", multiple=True, help="Of a COMMAND: a word to find it by; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Show what would be started, or why not, and start nothing.")
@plain_option
@key_option
@json_option
@pass_cli
def run(
    cli: CliContext,
    id: str,
    command: tuple[str, ...],
    gpus: tuple[int, ...],
    every: bool,
    waits: bool,
    seed: int | None,
    isolate: bool,
    replicates: int | None,
    metric: str | None,
    direction: str | None,
    title: str | None,
    wall: str | None,
    needs_gpus: int | None,
    tags: tuple[str, ...],
    dry_run: bool,
    plain: bool,
    idempotency_key: str | None,
) -> int:
    """Start the next missing replicate of the approved experiment ID; what must wait is queued.

    With a COMMAND alone, record a baseline or an exploration: an experiment without a claim, which typing it approves.
    COMMAND after ID is for an experiment that has none: typing it approves it. Quote it, or put it after
    `--`. A word of an id's form, such as e12, is always an id.
    """
    spec: Spec = {"replicates": replicates, "metric": metric, "direction": direction, "title": title,
                  "tags": tags or None, "gpus": needs_gpus,
                  "wall_s": None if wall is None else seconds_of(wall, "--wall")}  # fmt: skip
    is_new = not is_id(id)
    launch = Launch(
        _joined((id, *command) if is_new else command), every or is_new, seed, gpus, idempotency_key, isolate
    )
    if not is_new:
        refuse_spec(spec, id)
    if dry_run:
        found = plan(cli.lab, spec, launch) if is_new else launch.plan(cli.lab, id)
        cli.answer("run_plan", found, lambda: _plan_text(found, isolates=isolate))
        return 0
    ids = [] if is_new else [id]
    with going_on(cli.lab, ids) if waits else nullcontext():
        started = start(cli.lab, spec, launch) if is_new else launch.start(cli.lab, id)
        ids[:] = [item.id for item in started]  # what an interrupt says goes on
        _warn(cli, started)
        if waits:
            for item in started:
                cli.progress(run_line(item, {}))
            started = wait_for(cli, ids, plain=plain, are_new=True)
    id, is_single = (started[0].experiment_id, len(started) == 1) if is_new else (id, not every)
    hint = None if waits else _queued_hint(cli.lab, id, started)
    answer_runs(cli, started, single=is_single, hint=hint)
    if hint is not None:
        cli.progress(hint)
    if waits:
        _tell_verdicts(cli, started)
    if is_new:
        _tell_new(cli, id, started)
    if launch.every:
        _tell_missing(cli, id)
    return 1 if waits and _lacking(cli, started) else 0


def _tell_new(cli: CliContext, id: str, runs: Sequence[Run]) -> None:
    """Prints what the runs of a new baseline amount to, and what it is good for."""
    design = cli.lab.experiments.get(id).design
    found = measured_line(runs, design.metric)
    if found is not None and not cli.as_json:
        click.echo(found)
        click.echo(f"next: perpetual try 'python train.py ...' --against {id}")


def _queued_hint(lab: Lab, id: str, started: Sequence[Run]) -> str | None:
    """Returns what starts the runs that wait; None where none does."""
    queued = [item.id for item in started if item.status == "queued"]
    if not queued:
        return None
    if lab.queue.moves():
        secrets = _kept_by_name(lab)
        if secrets:
            return (
                f"{counted(len(queued), 'run')} will wait for {', '.join(map(printable, secrets))}: secrets are kept "
                f"by name only. Keep perpetual wait {id} running here, or say in run_secrets where they are kept"
            )
        if len(queued) == 1:
            return "1 waits; it starts by itself as runs end"
        return f"{len(queued)} wait; they start by themselves as runs end"
    return f"nothing starts {', '.join(queued)} by itself: keep perpetual wait {id} running, or run perpetual scan"


def _kept_by_name(lab: Lab) -> Sequence[str]:
    """Returns the secrets of this environment that the process which starts a waiting run cannot read."""
    import os

    redactor = lab.part("redactor")
    known = {str(entry).partition("=")[0] for entry in lab.config["run_secrets"]}
    return sorted(
        name
        for name, value in os.environ.items()
        if name not in known
        and not name.startswith("PERPETUAL_")  # the lab's own, which no run gets
        and redactor.in_variables({name: value}) is not None
    )


def _lacking(cli: CliContext, found: Sequence[Run]) -> bool:
    """Returns whether a run ended without success, or measured nothing that counts of what its experiment declares."""
    declared = declared_metrics(cli.lab, found)

    def lacks(item: Run) -> bool:
        metric = declared[item.experiment_id]
        return item.status != "done" or item.tainted or (metric is not None and item.metrics.get(metric) is None)

    return any(map(lacks, found))


def _warn(cli: CliContext, started: Sequence[Run]) -> None:
    """Says once what of the code has changed since it was approved."""
    for text in dict.fromkeys(
        item["text"] for run in started for item in run.annotations if item["kind"] == "code_changed"
    ):
        cli.progress(f"warning: {printable(text)}")


def _joined(words: Sequence[str]) -> str | None:
    """Returns the command line in the words that a shell left: one is a line by itself, several are its words."""
    import shlex

    if not words:
        return None
    return words[0] if len(words) == 1 else shlex.join(words)


def _tell_missing(cli: CliContext, id: str) -> None:
    experiment = cli.lab.experiments.get(id)
    left = experiment.design.replicates - len(cli.lab.runs.named([id]))
    if left > 0:
        cli.progress(f"{left} of {experiment.design.replicates} replicates do not fit the budget and stay missing")


def _tell_verdicts(cli: CliContext, ended: Sequence[Run]) -> None:
    """Prints what the hypotheses behind the runs amount to now: that is what the caller waited for."""
    if cli.as_json:
        return
    from perpetual.science.versions import is_stale

    subjects = {cli.lab.experiments.get(id).hypothesis_id: None for id in {run.experiment_id: None for run in ended}}
    for id in subjects:
        if id is not None:
            found = cli.lab.hypotheses.get(id)
            bound = f"false-alarm bound {shown_bound(found.false_alarm_bound)}"
            status = found.status + (", stale" if is_stale(found.flags) else "")
            click.echo(f"{id}  {status}: confidence {found.confidence:.3f}, {bound}")
            click.echo(f"next: perpetual hypotheses show {id}")


def _plan_text(plan: RunPlan, *, isolates: bool = False) -> str:
    import shlex

    replicates = ", ".join(map(str, plan["replicates"]))
    limit = "no wall limit" if plan["wall_s"] is None else f"wall limit {shown_hours(plan['wall_s'] / 3600)}"
    lines = [
        f"would start replicate {replicates} of {plan['experiment_id']} (attempt {plan['attempt']})",
        f"  command: {printable(shlex.join(plan['argv']))}",
        f"  in {printable(plan['cwd'])}, {limit}",
        f"  reserves {plan['gpu_hours']:.3f} GPU-hours and {plan['run_hours']:.3f} run-hours each",
    ]
    if isolates:
        lines += _copy_lines(plan)
    if plan["code_changed"]:
        lines.append(f"  warning: {printable(plan['code_changed'])}")
    if plan["waits_for"]:
        lines.append(f"  it would wait: {printable(plan['waits_for'])}")
    return "\n".join([*lines, "nothing was started"])


def _copy_lines(plan: RunPlan) -> Sequence[str]:
    """Returns what would be isolated: commit, uncommitted changes, files, and where."""
    copy = plan["isolated"]
    if copy is None:
        return ["  in a copy of the code that was approved, in .perpetual/runs/RUN/copy"]
    diff = copy["diff_bytes"]
    changes = "no commit yet" if diff is None else f"{shown_bytes(diff)} of changes" if diff else "nothing changed"
    commit = f"commit {copy['commit'][:12]}, {changes}" if copy["commit"] else "no commit yet"
    links = f", {counted(copy['linked'], 'link')} to originals" if copy["linked"] else ""
    return [
        f"  in a copy of the code as it lies now: {commit}",
        f"  {counted(copy['files'], 'file')}, {shown_bytes(copy['size_bytes'])}{links}, in .perpetual/runs/RUN/copy",
    ]


@click.command()
@click.argument("id", metavar="ID")
@click.option("--dry-run", is_flag=True, help="Show what would be started, or why not, and start nothing.")
@key_option
@json_option
@pass_cli
def retry(cli: CliContext, id: str, dry_run: bool, idempotency_key: str | None) -> None:
    """Try the run ID, which ended without a result, again with the same seed."""
    if dry_run:
        plan = cli.lab.runs.plan_retry(id)
        cli.answer("run_plan", plan, lambda: _plan_text(plan))
        return
    made = cli.lab.runs.retry(id, idempotency_key=idempotency_key)
    _warn(cli, [made])
    answer_runs(cli, [made], single=True)


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--timeout", metavar="TIME", help="At most so many seconds, or with a unit: 90s, 30m, 2h.")
@plain_option
@json_option
@pass_cli
def wait(cli: CliContext, ids: tuple[str, ...], timeout: str | None, plain: bool) -> int:
    """Wait until runs have ended; an experiment's ID stands for its runs.

    Exit 1 if one ended without success or without what it was to measure, 3 if the time is over before all have ended.
    """
    timeout_s = None if timeout is None else seconds_of(timeout, "--timeout")
    found = wait_for(cli, ids, timeout_s=timeout_s, plain=plain)
    answer_runs(cli, found, single=len(ids) == 1 and [item.id for item in found] == [identifier(ids[0])])
    _tell_verdicts(cli, found)
    live = [item.id for item in found if item.status in LIVE]
    if live:
        cli.progress(f"the time is over, and {', '.join(live)} went on")
        return 3
    return 1 if _lacking(cli, found) else 0

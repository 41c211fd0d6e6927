"""Commands on runs: run, runs, logs, kill, retry, wait, queue, scan.

`run --wait`, `wait` and `scan` bring the record up to date; `runs`, `logs` and `queue` only read it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from perpetual.api import (
    CliContext,
    Conflict,
    NotFound,
    OpenGroup,
    PerpetualError,
    UsageError,
    json_option,
    key_option,
    page_options,
    pass_cli,
    printable,
)
from perpetual.toolkit.causes import reason_with_cause
from perpetual.toolkit.units import (
    counted,
    identifier,
    seconds_of,
    shown_bound,
    shown_bytes,
    shown_hours,
    shown_time,
    start_of,
)
from perpetual_cli.adhoc import Launch, Spec, is_id, measured_line, plan, refuse_spec, start
from perpetual_cli.progress import going_on, plain_option, wait_for
from perpetual_cli.queue_order import after, enqueue, group, priority, start_waiting, stash
from perpetual_cli.words import sparkline, speaks

if TYPE_CHECKING:
    from pathlib import Path

    from perpetual import Lab
    from perpetual.api import Run
    from perpetual.documents.runs import RunPlan, Scanned

__all__ = ["kill", "logs", "queue", "retry", "run", "runs", "scan", "wait"]

Json = dict[str, Any]

_ARTIFACTS = 10  # of a run, in its text
_WIDE, _SPARKLINES, _SPARK_WIDTH = 120, 100, 12  # columns of a screen with sparklines, how many, and how long
_SPARK_BYTES = 16 * 1024  # of a run's file that are read for one
_METRICS = 3  # of a run whose experiment declares none, in a list
_LIVE = ("queued", "launching", "running")
_QUEUE = {"pause": "paused", "resume": "running", "drain": "draining"}


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
        cli.answer("run_plan", found, lambda: _plan_text(found))
        return 0
    started = start(cli.lab, spec, launch) if is_new else launch.start(cli.lab, id)
    _warn(cli, started)
    id, is_single = (started[0].experiment_id, len(started) == 1) if is_new else (id, not every)
    if waits:
        ids = [item.id for item in started]
        with going_on(cli.lab, ids):
            for item in started:
                cli.progress(_line(item, {}))
            started = wait_for(cli, ids, plain=plain, are_new=True)
    hint = None if waits else _queued_hint(cli.lab, id, started)
    _answer(cli, started, single=is_single, hint=hint)
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
        if len(queued) == 1:
            return "1 waits; it starts by itself as runs end"
        return f"{len(queued)} wait; they start by themselves as runs end"
    return f"nothing starts {', '.join(queued)} by itself: keep perpetual wait {id} running, or run perpetual scan"


def _lacking(cli: CliContext, found: Sequence[Run]) -> bool:
    """Returns whether a run ended without success, or measured nothing that counts of what its experiment declares."""
    declared = _declared(cli.lab, found)

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


def _plan_text(plan: RunPlan) -> str:
    import shlex

    replicates = ", ".join(map(str, plan["replicates"]))
    limit = "no wall limit" if plan["wall_s"] is None else f"wall limit {shown_hours(plan['wall_s'] / 3600)}"
    lines = [
        f"would start replicate {replicates} of {plan['experiment_id']} (attempt {plan['attempt']})",
        f"  command: {printable(shlex.join(plan['argv']))}",
        f"  in {printable(plan['cwd'])}, {limit}",
        f"  reserves {plan['gpu_hours']:.3f} GPU-hours and {plan['run_hours']:.3f} run-hours each",
    ]
    if plan["code_changed"]:
        lines.append(f"  warning: {printable(plan['code_changed'])}")
    if plan["waits_for"]:
        lines.append(f"  it would wait: {printable(plan['waits_for'])}")
    return "\n".join([*lines, "nothing was started"])


@click.command()
@click.argument("id", required=False)
@click.option(
    "--provenance", is_flag=True, help="Of the run ID: code, environment, packages, machine; in full with --json."
)
@click.option("--status", metavar="S", help="Only these: queued, launching, running, done, failed, ...")
@click.option("--experiment", "experiment_id", metavar="ID", help="Only those of this experiment.")
@click.option("--tag", metavar="T", help="Only those of experiments with this tag.")
@click.option("--watch", is_flag=True, help="Go on, drawn anew as things happen; q ends it.")
@page_options
@json_option
@pass_cli
def runs(
    cli: CliContext,
    id: str | None,
    provenance: bool,
    status: str | None,
    experiment_id: str | None,
    tag: str | None,
    watch: bool,
    limit: int,
    cursor: str | None,
) -> None:
    """Show the run ID; without ID, list runs, newest first, as the record has them (`scan` updates it)."""
    if id is not None:
        if status or experiment_id or tag is not None or watch:
            raise UsageError("an ID names one run; --status, --experiment, --tag and --watch are for the list")
        from perpetual.api import to_json
        from perpetual_cli.provenance import provenance_lines, provenance_text

        if provenance:
            kept = cli.lab.runs.provenance(id)
            cli.answer("provenance", {k: v for k, v in kept.items() if k != "schema"}, lambda: provenance_text(kept))
            return
        run = cli.lab.runs.get(id)
        found = {
            **to_json(run),
            **({"progress": cli.lab.progress([run.id]).get(run.id)} if run.status in _LIVE else {}),
        }

        def text() -> str:
            now = found.get("progress")
            lines = [f"  {printable(now['text'])}"] if now else []
            lines += [*_since(cli.lab, run), *provenance_lines(cli.lab, run)]
            return "\n".join([_text(found, cli.lab.runs.hints(run), cli.lab.root), *lines])

        cli.answer("run", found, text)
        return
    if provenance:
        raise UsageError("--provenance is of one run", hint="perpetual runs ID --provenance")

    def show() -> None:
        page = cli.lab.runs.list(status=status, experiment_id=experiment_id, tag=tag, limit=limit, cursor=cursor)
        empty = "no such run" if status or experiment_id or tag is not None else "no run yet: perpetual run EXPERIMENT"
        _table(cli, page.items, page.next_cursor, empty=empty)

    if watch:
        cli.watch(show)
    else:
        show()


@click.command()
@click.argument("id", metavar="RUN")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@click.option("--stderr", is_flag=True, help="Standard error instead of standard output.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option("--raw", is_flag=True, help="With the secrets that it printed; for a person.")
@json_option
@pass_cli
def logs(cli: CliContext, id: str, follow: bool, stderr: bool, tail: int | None, raw: bool) -> None:
    """Show the output of RUN, its secrets replaced, control characters visible. With --json at most the last MiB."""
    if cli.as_json:
        if follow:
            raise UsageError("--json answers one document and -f goes on", hint=f"perpetual wait {id}, then logs")
        cli.answer("logs", cli.lab.runs.logs(id, stderr=stderr, tail=tail, raw=raw), "")
        return
    if follow:
        cli.goes_on()
    is_empty = tail != 0
    for piece in cli.lab.runs.stream(id, stderr=stderr, tail=tail, follow=follow, raw=raw):
        click.echo(printable(piece), nl=False)
        is_empty = False
    if is_empty:
        cli.progress(_said_elsewhere(cli, id, stderr=stderr))
    if follow:
        status, reason = cli.lab.runs.look(id)
        because = f" ({printable(reason)})" if reason else ""
        unrecorded = cli.lab.runs.get(id).status in _LIVE
        cli.progress(f"{identifier(id)} has ended: {status}{because}" + ("; perpetual scan records it" * unrecorded))


def _said_elsewhere(cli: CliContext, id: str, *, stderr: bool) -> str:
    """Returns where the run has written, if it has written nothing here."""
    this, other = ("stderr", "stdout") if stderr else ("stdout", "stderr")
    try:
        lines = len(cli.lab.runs.logs(id, stderr=not stderr)["text"].splitlines())
    except NotFound:
        lines = 0
    if not lines:
        return f"{this} is empty"
    where = f"perpetual logs {identifier(id)}{'' if stderr else ' --stderr'}"
    return f"{this} is empty; {counted(lines, 'line')} on {other}: {where}"


@click.command()
@click.argument("id", metavar="ID")
@click.option("--grace", metavar="TIME", help="Seconds between TERM and KILL, or with a unit.  [default: methodology]")
@json_option
@pass_cli
def kill(cli: CliContext, id: str, grace: str | None) -> int:
    """End the run ID, or every live run of the experiment ID, with all processes; exit 1 if one has not ended in time.

    Each is recorded.
    """
    grace_s = None if grace is None else seconds_of(grace, "--grace")
    if not identifier(id).startswith("e"):
        ended = [cli.lab.runs.kill(id, grace_s=grace_s)]
        _answer(cli, ended, single=True)
        return 1 if ended[0].status in _LIVE else 0
    live = [item for item in cli.lab.runs.named([id]) if item.status in _LIVE]
    if not live:
        raise Conflict(f"{identifier(id)} has no live run", hint=f"perpetual runs --experiment {identifier(id)}")
    # What waits goes first: it must not start in the place of what ends.
    live.sort(key=lambda item: item.status != "queued")
    ended = [_killed(cli.lab, item.id, grace_s) for item in live]
    _answer(cli, ended, single=False)
    return 1 if any(item.status in _LIVE for item in ended) else 0


def _killed(lab: Lab, id: str, grace_s: float | None) -> Run:
    try:
        return lab.runs.kill(id, grace_s=grace_s)
    except Conflict:  # it has ended by itself meanwhile
        return lab.runs.get(id)


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
    _answer(cli, [made], single=True)


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
    _answer(cli, found, single=len(ids) == 1 and [item.id for item in found] == [identifier(ids[0])])
    _tell_verdicts(cli, found)
    live = [item.id for item in found if item.status in _LIVE]
    if live:
        cli.progress(f"the time is over, and {', '.join(live)} went on")
        return 3
    return 1 if _lacking(cli, found) else 0


@click.group(cls=OpenGroup, invoke_without_command=True)
@click.option("--watch", is_flag=True, help="Go on, drawn anew as things happen; q ends it.")
@page_options
@json_option
@pass_cli
@click.pass_context
def queue(ctx: click.Context, cli: CliContext, watch: bool, limit: int, cursor: str | None) -> None:
    """Show the queue's state and what waits, in the order of starting; or change either.

    The higher priority goes first, then the higher score, then the older run. A run that ends starts what waits, where
    `queue_moves` is on. Paused, nothing is started. Draining, what waits is started and nothing new is taken.
    """
    if ctx.invoked_subcommand is not None:
        if watch:
            what = ctx.invoked_subcommand
            raise UsageError(f"--watch shows the queue, and {what} changes it", hint=f"perpetual queue {what}")
    elif watch:
        cli.watch(lambda: show_queue(cli, limit, cursor))
    else:
        show_queue(cli, limit, cursor)


def _state_command(name: str, words: str) -> click.Command:
    @json_option
    @pass_cli
    def change(cli: CliContext) -> None:
        """Changes the queue's state, and shows it."""
        cli.lab.queue.set_state(_QUEUE[name])
        if name == "resume":
            start_waiting(cli)
        show_queue(cli)

    return click.command(name=name, help=words)(change)


for _command in (
    _state_command("pause", "Start nothing until the queue is resumed; what runs goes on."),
    _state_command("resume", "Start what waits again."),
    _state_command("drain", "Start what waits, and take nothing new."),
    *(priority, stash, enqueue, group, after),
):
    queue.add_command(_command)


def show_queue(cli: CliContext, limit: int = 100, cursor: str | None = None) -> None:
    """Prints the queue's state and a page of what waits."""
    state = cli.lab.queue.state()
    page = cli.lab.queue.waiting(limit=limit, cursor=cursor)
    places = cli.lab.queue.places(page.items, before=start_of(cursor))
    if not cli.as_json:
        click.echo(f"the queue is {state}")
    _queue_table(
        cli, page.items, page.next_cursor, {"state": state, "places": places, "groups": cli.lab.queue.groups()}
    )


@click.command()
@json_option
@pass_cli
def scan(cli: CliContext) -> int:
    """Record what has happened to the runs, with debits and evidence, and start what was waiting.

    A run that cannot be looked at stays as it is and holds up no other: exit 1.
    """
    found = cli.lab.scan()
    cli.answer("scan", found, lambda: _scan_text(found))
    return 1 if found["problems"] else 0


def _debit_text(item: Json) -> str:
    if item["kind"] == "correct":
        hours = f"{item['gpu_hours']:+.3f} GPU-hours, {item['run_hours']:+.3f} run-hours"
        return f"{item['run_id']} is charged anew, now that its end is known: {hours}"
    return f"{item['run_id']} used {item['gpu_hours']:.3f} GPU-hours, {shown_hours(item['run_hours'])} of run time"


def _scan_text(found: Scanned) -> str:
    lines = [
        f"{item['run_id']} of {item['experiment_id']}: {item['from']}"
        + (f" -> {item['to']}" if item["to"] != item["from"] else "")
        + (f" ({printable(item['reason'])})" if item["reason"] else "")
        for item in found["changes"]
    ]
    lines += map(_debit_text, found["debits"])
    for item in found["evidence"]:
        way = speaks(cast("float | None", item["log_bayes_factor"]))
        lines.append(f"{item['id']}: {item['run_id']} speaks {way} {item['hypothesis_id']}")
    lines += [printable(f"{item['run_id']} {item['where']}") for item in found.get("elsewhere", ())]
    lines += [printable(f"{item['run_id']} cannot be looked at: {item['message']}") for item in found["problems"]]
    return "\n".join(lines) or "nothing has changed"


def _answer(cli: CliContext, found: Sequence[Run], *, single: bool, hint: str | None = None) -> None:
    """Prints one run as itself, several as a list; the hint is a key of its own in JSON."""
    from perpetual.api import to_json

    more = {} if hint is None else {"hint": hint}
    if single:
        cli.answer("run", {**to_json(found[0]), **more}, lambda: _line(found[0], _declared(cli.lab, found)))
    elif cli.as_json:
        _table(cli, found, None, empty="", extra=more)
    else:
        declared = _declared(cli.lab, found)
        click.echo("\n".join(_line(item, declared) for item in found) or "there is no run to wait for")


def _line(item: Run, declared: Mapping[str, str | None]) -> str:
    """Returns the state of a run, and what can be done with it; the metric that it is for comes first."""
    head = f"{item.id}  {item.status}: replicate {item.replicate} of {item.experiment_id}"
    reason = f" ({printable(item.reason)})" if item.reason else ""
    if item.status == "queued":
        return f"{head} waits{reason}"
    if item.pending:
        return f"{head} is pending{reason}\n  to cancel it:\n  perpetual kill {item.id}"
    if item.status in _LIVE:
        on = f" on {', '.join(item.gpus)}" if item.gpus else ""
        pid = f", pid {item.pid}" if item.pid is not None else ""  # not known yet where another process starts it
        return f"{head}, seed {item.seed}{pid}{on}\n  perpetual logs {item.id} -f"
    names = sorted(item.metrics, key=lambda name: name != declared.get(item.experiment_id))
    metrics = ", ".join(f"{name} {_value(item.metrics[name])}" for name in names)
    hint = [f"  perpetual logs {item.id} --stderr"] if item.status == "failed" else []
    lasted = "" if item.duration_s is None else f" after {shown_hours(item.duration_s / 3600)}"
    lines = [f"{head}{lasted}{reason}", *map(_seen, item.annotations), *hint]
    return "\n".join([*lines, f"  {printable(metrics)}"] if metrics else lines)


def _seen(annotation: Json) -> str:
    return f"  seen: {printable(annotation['text'])} ({printable(annotation['source'])})"


def _queue_table(cli: CliContext, found: Any, next_cursor: str | None, extra: Json) -> None:
    from perpetual.api import to_json

    by_run = {place["run_id"]: place for place in extra["places"]}
    cli.items(
        "queue",
        [to_json(item) for item in found],
        next_cursor,
        ("place", "id", "experiment", "rep", "priority", "score", "waits for, when last looked at"),
        lambda item: (
            str(by_run[item["id"]]["position"]),
            item["id"],
            item["experiment_id"],
            _replicate(item),
            str(by_run[item["id"]]["priority"]),
            _value(by_run[item["id"]]["score"]) if by_run[item["id"]]["score"] is not None else "-",
            item["reason"] or "its turn: perpetual scan",
        ),
        empty="nothing waits",
        extra=extra,
    )


def _replicate(item: Json) -> str:
    return f"{item['replicate']}" + (f".{item['attempt']}" if item["attempt"] > 1 else "")


def _table(
    cli: CliContext, found: Sequence[Run], next_cursor: str | None, *, empty: str, extra: Json | None = None
) -> None:
    from perpetual.api import to_json

    declared = {} if cli.as_json else _declared(cli.lab, found)
    now = cli.lab.progress(live) if (live := [item.id for item in found if item.status in _LIVE]) else {}
    lines = {} if cli.as_json else _sparklines(cli.lab, found, declared)
    cli.items(
        "runs",
        [{**to_json(item), **({"progress": now.get(item.id)} if item.status in _LIVE else {})} for item in found],
        next_cursor,
        ("id", "experiment", "rep", "status", "lasted", "gpus", "metrics", "curve", "reason"),
        lambda item: (
            item["id"],
            item["experiment_id"],
            _replicate(item),
            item["status"],
            "" if item["duration_s"] is None else shown_hours(item["duration_s"] / 3600),
            str(len(item["gpus"]) or ""),
            _metrics(item, declared.get(item["experiment_id"])),
            lines.get(item["id"], ""),
            (item.get("progress") or {}).get("text") or reason_with_cause(item["reason"], item["annotations"]) or "",
        ),
        empty=empty,
        extra=extra,
    )


def _sparklines(lab: Lab, found: Sequence[Run], declared: Mapping[str, str | None]) -> dict[str, str]:
    """Returns the declared metric over each run's steps as block characters; nothing where a screen has no room."""
    from shutil import get_terminal_size

    if not sys.stdout.isatty() or get_terminal_size().columns < _WIDE or "utf" not in (sys.stdout.encoding or ""):
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


def _declared(lab: Lab, found: Sequence[Run]) -> dict[str, str | None]:
    """Returns, by experiment, the metric that its runs are for."""
    return {id: lab.experiments.get(id).design.metric for id in {run.experiment_id for run in found}}


def _metrics(item: Json, declared: str | None) -> str:
    """Returns the metric that the run was for, and how many more it has; all of them are in `runs ID`."""
    names = [declared] if declared in item["metrics"] else [*item["metrics"]][:_METRICS]
    shown = [f"{name} {_value(item['metrics'][name])}" for name in names]
    left = len(item["metrics"]) - len(shown)
    return ", ".join([*shown, f"and {left} more"] if left else shown)


def _value(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.6g}"


def _since(lab: Lab, run: Run) -> list[str]:
    """Returns what the record does not know yet: reading changes nothing, and must not call alive what has ended."""
    if run.status not in _LIVE:
        return []
    try:
        status, reason = lab.runs.look(run.id)
    except PerpetualError as problem:  # an engine out of reach, a scheduler that is gone: the record stands
        return [f"  {printable(problem.message)}"]
    because = f" ({printable(reason)})" if reason else ""
    if status in _LIVE:
        is_news = status == "running" or (run.pending and reason != run.reason)
        return [f"  {printable(reason)}"] if reason and is_news else []
    return [f"  it has ended since: {status}{because}; perpetual scan records it"]


def _period(item: Json) -> str:
    """Returns when it ran; an end without a duration is when it was found to be over."""
    if item["started_at"] is None:
        return "never started"
    since = f"from {shown_time(item['started_at'])}"
    if item["ended_at"] is None:
        return f"{since} UTC"
    lasted = "how long is not known" if item["duration_s"] is None else shown_hours(item["duration_s"] / 3600)
    return f"{since} to {shown_time(item['ended_at'])} UTC: {lasted}"


def _text(item: Json, hints: Sequence[str], root: Path) -> str:
    code = "" if item["exit_code"] is None else f", exit code {item['exit_code']}"
    signal = "" if item["signal"] is None else f", signal {item['signal']}"
    lines = [
        f"{item['id']}  {item['status']}  replicate {item['replicate']} of {item['experiment_id']}, "
        f"attempt {item['attempt']}{code}{signal}"
    ]
    lines += [f"  reason: {printable(item['reason'])}"] if item["reason"] else []
    lines += [*map(_seen, item["annotations"]), *(f"  hint: {hint}" for hint in hints)]
    seed = "unknown" if item["seed"] is None else item["seed"]
    host = f" on {printable(item['host'])}" if item["host"] else ""
    lines.append(f"  seed {seed}, pid {item['pid'] or '-'}, scheduler {item['scheduler']}{host}")
    lines.append(f"  {_period(item)}")
    lines += [f"  {printable(name)}: {_value(value)}" for name, value in item["metrics"].items()]
    lines += [f"  GPUs: {', '.join(item['gpus'])}"] if item["gpus"] else []
    lines += _artifact_lines(item)
    lines.append(f"  files: {printable(item['log_dir'])}")
    if copy := item.get("isolated"):
        left = "" if item["status"] in _LIVE else "; it has left files there" * (root / copy).is_dir()
        is_shown = bool(left) or item["status"] in _LIVE
        lines.append("  in a copy of the code" + f": {printable(copy)}{left}" * is_shown)
    return "\n".join(lines)


def _artifact_lines(item: Json) -> list[str]:
    found = item["artifacts"]
    shown = [f"  {printable(each['path'])}: {shown_bytes(each['size_bytes'])}" for each in found[:_ARTIFACTS]]
    return (
        [*shown, f"  and {counted(len(found) - _ARTIFACTS, 'artifact')} more: --json"] if found[_ARTIFACTS:] else shown
    )

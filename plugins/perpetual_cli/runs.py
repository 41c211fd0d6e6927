"""The commands runs and logs, which only read the record, and kill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from perpetual.api import (
    CliContext,
    Conflict,
    NotFound,
    PerpetualError,
    UsageError,
    json_option,
    line,
    page_options,
    pass_cli,
    printable,
)
from perpetual.toolkit.run_folder import ARTIFACTS
from perpetual.toolkit.units import counted, identifier, seconds_of, shown_bytes, shown_hours, shown_time
from perpetual_cli.progress import LIVE
from perpetual_cli.run_words import Json, answer_runs, noted_line, runs_table, shown_value
from perpetual_cli.words import section_lines

if TYPE_CHECKING:
    from pathlib import Path

    from perpetual import Lab
    from perpetual.api import Run

__all__ = ["kill", "logs", "runs"]

_ARTIFACTS = 10  # of a run, in its text


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
            **({"progress": cli.lab.progress([run.id]).get(run.id)} if run.status in LIVE else {}),
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
        is_whole = cursor is None and experiment_id is None and tag is None and status in (None, "running")
        outside = cli.lab.live_sections() if is_whole else {}
        runs_table(cli, page.items, page.next_cursor, empty=empty, extra={"outside": outside} if outside else None)
        if not cli.as_json:
            for line in section_lines(outside):
                click.echo(line)

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
        unrecorded = cli.lab.runs.get(id).status in LIVE
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
        answer_runs(cli, ended, single=True)
        return 1 if ended[0].status in LIVE else 0
    live = [item for item in cli.lab.runs.named([id]) if item.status in LIVE]
    if not live:
        raise Conflict(f"{identifier(id)} has no live run", hint=f"perpetual runs --experiment {identifier(id)}")
    # What waits goes first: it must not start in the place of what ends.
    live.sort(key=lambda item: item.status != "queued")
    ended = [_killed(cli.lab, item.id, grace_s) for item in live]
    answer_runs(cli, ended, single=False)
    return 1 if any(item.status in LIVE for item in ended) else 0


def _killed(lab: Lab, id: str, grace_s: float | None) -> Run:
    try:
        return lab.runs.kill(id, grace_s=grace_s)
    except Conflict:  # it has ended by itself meanwhile
        return lab.runs.get(id)


def _since(lab: Lab, run: Run) -> list[str]:
    """Returns what the record does not know yet: reading changes nothing, and must not call alive what has ended."""
    if run.status not in LIVE:
        return []
    try:
        status, reason = lab.runs.look(run.id)
    except PerpetualError as problem:  # an engine out of reach, a scheduler that is gone: the record stands
        return [f"  {printable(problem.message)}"]
    because = f" ({printable(reason)})" if reason else ""
    if status in LIVE:
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
    lines += [*map(noted_line, item["annotations"]), *(f"  hint: {hint}" for hint in hints)]
    seed = "unknown" if item["seed"] is None else item["seed"]
    host = f" on {printable(item['host'])}" if item["host"] else ""
    lines.append(f"  seed {seed}, pid {item['pid'] or '-'}, scheduler {item['scheduler']}{host}")
    lines.append(f"  {_period(item)}")
    lines += [f"  {line(name)}: {shown_value(value)}" for name, value in item["metrics"].items()]
    lines += [f"  GPUs: {', '.join(item['gpus'])}"] if item["gpus"] else []
    lines += [
        f"  started from {printable(each['artifact'])} of {each['run_id']}: {shown_bytes(each['size_bytes'])}, "
        f"SHA-256 {each['sha256'][:16]}"
        for each in item["needs"]
    ]
    lines += _artifact_lines(item, are_there=(root / item["log_dir"] / ARTIFACTS).is_dir())
    lines.append(f"  files: {printable(item['log_dir'])}")
    if copy := item.get("isolated"):
        left = "" if item["status"] in LIVE else "; it has left files there" * (root / copy).is_dir()
        is_shown = bool(left) or item["status"] in LIVE
        lines.append("  in a copy of the code" + f": {printable(copy)}{left}" * is_shown)
    return "\n".join(lines)


def _artifact_lines(item: Json, *, are_there: bool) -> list[str]:
    found = item["artifacts"]
    shown = [f"  {line(each['path'])}: {shown_bytes(each['size_bytes'])}" for each in found[:_ARTIFACTS]]
    if found[_ARTIFACTS:]:
        shown.append(f"  and {counted(len(found) - _ARTIFACTS, 'artifact')} more: --json")
    return shown if are_there or not found else [*shown, "  its artifacts are not there any longer, only their hashes"]

"""The command `perpetual try`. Loaded when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from perpetual.api import (
    CliContext,
    NotPermitted,
    PerpetualError,
    Refused,
    UsageError,
    json_object,
    json_option,
    key_option,
    line,
    pass_cli,
    printable,
)
from perpetual.science.versions import is_stale
from perpetual.toolkit.units import counted, finite, seconds_of, shown_bytes, shown_hours
from perpetual_cli.adhoc import is_id
from perpetual_cli.experiments import environment
from perpetual_cli.progress import LIVE, going_on, plain_option, wait_for
from perpetual_try.trial import (
    MOST,
    REPLICATES,
    Trial,
    Wanted,
    answer,
    awaited,
    extend,
    ignores_seed,
    is_unsure,
    is_without_value,
    members,
    smoke,
    start,
    trial_of,
)

if TYPE_CHECKING:
    from perpetual.api import Run
    from perpetual_try.documents import Smoke, Tried, TryPlan

__all__ = ["try_"]

_SMOKE = "60s"
_MOST_FLAGS = 3


class _Manner(NamedTuple):
    """How it is done."""

    yes: bool
    plain: bool
    until_decided: bool
    most: int
    key: str | None


@click.command(name="try")
@click.argument("words", nargs=-1, metavar="COMMAND|ID")
@click.option("--against", metavar="E", help="The experiment that it is compared with, which has run.")
@click.option("--replicates", type=int, metavar="N", help=f"How many runs, each with a seed.  [default: {REPLICATES}]")
@click.option(
    "--mde", type=float, metavar="X", help="The smallest effect worth having; without it any improvement counts."
)
@click.option("--metric", metavar="M", help="What counts; by default what the baseline measures.")
@click.option("--direction", metavar="max|min", help="Which way is better; by default as the baseline has it.")
@click.option("--changes", metavar="code|data|environment", help="What you changed on purpose since the baseline ran.")
@click.option("--anyway", is_flag=True, help="Run although code, data or environment are not those of the baseline.")
@click.option("--more", metavar="ID", help="Instead of a COMMAND: more runs of this trial.")
@click.option("--until-decided", is_flag=True, help="Go on with more runs until it is decided, up to --max.")
@click.option(
    "--max", "most", type=click.IntRange(min=1), metavar="N", help=f"Most runs of the trial.  [default: {MOST}]"
)
@click.option("--smoke", is_flag=False, flag_value=_SMOKE, metavar="TIME",
              help="First run it for a short time, which counts for nothing.  [without TIME: 60s]")  # fmt: skip
@click.option("--statement", metavar="T", help="The claim in your words.")
@click.option("--title", help="A line to know it by; by default the command.")
@click.option("-n", "--notes", default="", metavar="T", help="Why, and what to look at.")
@click.option("-c", "--config", metavar="JSON", help="Given to the run; by default as the baseline's.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable beside the baseline's; may be repeated.")
@click.option("--wall", metavar="TIME", help="When a run is ended; by default as the baseline's.")
@click.option("--gpus", type=int, metavar="N", help="How many GPUs a run needs; by default as the baseline's.")
@click.option("--tag", "tags", multiple=True, help="A word to find it by; may be repeated.")
@click.option("--underpowered", is_flag=True, help="Run although the noise is known to hide the effect.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask at the terminal.")
@click.option("--dry-run", is_flag=True, help="Show what would be run, and write nothing.")
@plain_option
@key_option
@json_option
@pass_cli
def try_(
    cli: CliContext,
    words: tuple[str, ...],
    against: str | None,
    replicates: int | None,
    mde: float | None,
    metric: str | None,
    direction: str | None,
    changes: str | None,
    anyway: bool,
    more: str | None,
    until_decided: bool,
    most: int | None,
    smoke: str | None,
    statement: str | None,
    title: str | None,
    notes: str,
    config: str | None,
    env: tuple[str, ...],
    wall: str | None,
    gpus: int | None,
    tags: tuple[str, ...],
    underpowered: bool,
    yes: bool,
    dry_run: bool,
    plain: bool,
    idempotency_key: str | None,
) -> int:
    """Run a changed COMMAND against a baseline, and say in one sentence whether it helped, and by how much.

    Proposes it, approves it (you type it, or are asked at a terminal), runs it, waits and weighs. What is not said is
    as the baseline has it. The same change tried again is the same trial. With the ID of a trial, go on with that one.

    Exit 0 once it is measured, decided or not; 1 if a run failed or measured nothing, or you said no; 4 where a person
    is needed; 6 where code or data are not those of the baseline; 7 where the budget ends it.
    """
    if most is not None and not until_decided:
        raise UsageError("--max bounds --until-decided", hint="--until-decided --max 12")
    manner = _Manner(yes, plain, until_decided, MOST if most is None else most, idempotency_key)
    id = _named(words, more)
    if id is not None:
        _refuse_beside(id, ("against", "mde", "metric", "direction", "changes", "anyway", "smoke", "statement", "title",
                            "notes", "config", "env", "wall", "gpus", "tags", "underpowered", "dry_run",
                            *(() if more else ("replicates",))))  # fmt: skip
        return _more(cli, id, replicates, manner) if more else _go_on(cli, id, manner)
    if against is None:
        raise UsageError(
            "what it is compared with is missing", hint="--against e1; perpetual run 'COMMAND' records one"
        )
    wanted = Wanted(
        command=_joined(words), against=against, replicates=REPLICATES if replicates is None else replicates, mde=mde,
        metric=metric, direction=direction, changes=changes, statement=statement, title=title, notes=notes,
        config=json_object(config, "--config"), env=environment(env),
        wall_s=None if wall is None else seconds_of(wall, "--wall"), gpus=gpus, tags=tags, underpowered=underpowered,
        anyway=anyway,
    )  # fmt: skip
    if until_decided and wanted.replicates > manner.most:
        raise UsageError(
            f"--replicates {wanted.replicates} is more than --max {manner.most}", hint="--max bounds all runs"
        )
    smoke_s = None if smoke is None else finite(seconds_of(smoke, "--smoke"), "--smoke", above=0.0)
    live = [] if dry_run or cli.withholds else awaited(cli.lab, against)
    if live:
        cli.progress(f"waiting for {counted(len(live), 'run')} of the baseline: none has measured anything yet")
        wait_for(cli, live, plain=plain)
    trial = Trial(cli.lab, wanted, key=idempotency_key, ask=_asks(cli))
    if dry_run:
        cli.answer("try_plan", {**trial.plan}, lambda: _plan_text(trial.plan) + "\nnothing was written")
        return 0
    return _tried(cli, trial, smoke_s, manner)


def _named(words: Sequence[str], more: str | None) -> str | None:
    """Returns the trial that is gone on with; None where a command is tried."""
    if more is not None:
        if words:
            raise UsageError(
                "--more takes no COMMAND: it has that of the trial", hint=f"perpetual try --more {line(more)}"
            )
        return more
    if not words:
        raise UsageError("the command is missing", hint="perpetual try 'python train.py --warmup' --against e1")
    return words[0] if len(words) == 1 and is_id(words[0]) else None


def _joined(words: Sequence[str]) -> str:
    import shlex

    return words[0] if len(words) == 1 else shlex.join(words)


def _refuse_beside(id: str, names: Sequence[str]) -> None:
    given = click.get_current_context().params
    for name in names:
        if given[name] not in (None, False, "", ()):
            flag = {"tags": "tag", "dry_run": "dry-run"}.get(name, name)
            raise UsageError(f"--{flag} does not go with {line(id)}, which has it already", hint="leave it out")


# --- asking -----------------------------------------------------------------------------------------------------------


def _is_at_terminal(cli: CliContext) -> bool:
    return not cli.as_json and not cli.withholds and sys.stdin.isatty() and sys.stderr.isatty()


class _Asks:
    """Asks a person for what the baseline does not say; answers None where no terminal is there."""

    def __init__(self, cli: CliContext) -> None:
        self._cli = cli

    def __call__(self, question: str, answers: Sequence[str]) -> str | None:
        if not _is_at_terminal(self._cli):
            return None
        chosen: str = click.prompt(question, type=click.Choice([*answers]), err=True)
        return chosen


def _asks(cli: CliContext) -> _Asks:
    return _Asks(cli)


def _agreed(cli: CliContext, manner: _Manner, question: str) -> bool:
    """Returns whether it is to go on: a person at a terminal is asked, unless `--yes`; a typed line says it itself."""
    if manner.yes or not _is_at_terminal(cli):
        return True
    return click.confirm(question, default=True, err=True)


class _Declined(PerpetualError):
    code = "declined"


# --- the ways of a trial ----------------------------------------------------------------------------------------------


def _tried(cli: CliContext, trial: Trial, smoke_s: float | None, manner: _Manner) -> int:
    found = trial.plan
    if found["experiment"] is not None and found["status"] in ("analysed", "complete"):
        cli.progress(f"{found['experiment']} tried this before{_left_out(cli, found['experiment'])}")
        return _followed(cli, found["experiment"], None, manner, starts=False)
    if found["experiment"] is not None and (left_out := _left_out(cli, found["experiment"])):
        cli.progress(f"{found['experiment']} was proposed before{left_out}")
    cli.progress(_plan_text(found))
    tested: Smoke | None = None
    if not cli.withholds:
        if not _agreed(
            cli, manner, "run it?" if smoke_s is None else f"run it, first for {shown_hours(smoke_s / 3600)}?"
        ):
            raise _Declined("nothing was run", hint="the same command asks again")
        if smoke_s is not None:
            tested = _smoked(cli, trial, smoke_s, manner)
            if not _agreed(cli, manner, "run it?"):
                raise _Declined("only the smoke run was run", hint="the same command without --smoke runs it")
    return _followed(cli, trial.record(), tested, manner)


def _left_out(cli: CliContext, id: str) -> str:
    """Returns what is said of given options that a trial of before does not have; nothing where it has them."""
    made, given = cli.lab.experiments.get(id), click.get_current_context().params
    claim = cli.lab.hypotheses.get(made.hypothesis_id or "")
    has = {"mde": made.design.mde, "replicates": made.design.replicates, "statement": claim.statement,
           "title": made.title, "notes": made.notes, "tags": made.tags}  # fmt: skip
    other = [name for name, value in has.items() if given[name] not in (None, "", (), value)]
    if not other:
        return ""
    flags = " and ".join("--tag" if name == "tags" else f"--{name}" for name in other)
    way = f"; perpetual try --more {id} adds runs" if "replicates" in other else ""
    return f" without this {flags}, and stays as it was{way}"


def _smoked(cli: CliContext, trial: Trial, seconds: float, manner: _Manner) -> Smoke:
    """Runs the command for a short time, and says what the hours would take.

    Raises:
        PerpetualError: where it failed, or ended without the metric.
    """
    tested = smoke(trial, seconds, wait=lambda ids: wait_for(cli, ids, plain=manner.plain))
    metric = trial.plan["metric"]
    if tested["status"] not in ("done", "timeout"):
        raise PerpetualError(f"the smoke run {tested['run_id']} {tested['status']}: nothing more was run",
                             hint=f"perpetual logs {tested['run_id']} --stderr", code="smoke_failed")  # fmt: skip
    if tested["status"] == "done" and not tested["measured"]:
        raise PerpetualError(f"the smoke run {tested['run_id']} ended without {line(metric)}: nothing more was run",
                             hint=f"perpetual logs {tested['run_id']}", code="smoke_failed")  # fmt: skip
    cli.progress("\n".join(_smoke_lines(tested, trial.plan)))
    return tested


def _go_on(cli: CliContext, id: str, manner: _Manner) -> int:
    """Goes on with a trial that there is: a person at the terminal approves it, or --yes."""
    root = trial_of(cli.lab, id)
    waiting = [item for item in members(cli.lab, root) if item.status == "proposed"]
    for item in waiting:
        if cli.withholds:
            break  # `start` says what a person types
        head = f"{item.id}, proposed by {line(item.proposed_by)}, runs {counted(item.design.replicates, 'time')}"
        cli.progress(f"{head}:\n  {line(item.command)}")
        if not manner.yes and not _is_at_terminal(cli):
            raise NotPermitted(f"{item.id} is proposed, and its command was not typed here",
                               hint=f"perpetual approve {item.id}, or --yes")  # fmt: skip
        if not _agreed(cli, manner, "run it?"):
            raise _Declined("nothing was run", hint=f"perpetual reject {item.id} --why '...' turns it down")
    return _followed(cli, root.id, None, manner)


def _more(cli: CliContext, id: str, replicates: int | None, manner: _Manner) -> int:
    """Runs more replicates of a trial."""
    lab, root = cli.lab, trial_of(cli.lab, id)
    runs = REPLICATES if replicates is None else replicates
    cli.progress(f"{counted(runs, 'more run')} of {root.id}:\n  {line(root.command)}")
    if not cli.withholds and not _agreed(cli, manner, "run it?"):
        raise _Declined("nothing was run", hint="the same command asks again")
    made = extend(lab, root.id, runs, key=manner.key)
    return _followed(cli, made, None, manner)


def _followed(cli: CliContext, id: str, tested: Smoke | None, manner: _Manner, *, starts: bool = True) -> int:
    """Starts what is missing, waits for it, and answers; goes on while it is undecided, where that is wanted."""
    lab = cli.lab
    root = trial_of(lab, id)
    short: Refused | None = None
    while True:
        short = short or (_all_started(cli, root.id, manner) if starts else None)
        found = answer(lab, root.id, tested=tested)
        runs = lab.runs.named(found["runs"])
        failed = any(is_without_value(run, root.design.metric) for run in runs) or not runs
        left = manner.most - len(runs)
        if (
            not manner.until_decided
            or found["verdict"] != "open"
            or failed
            or short
            or left < 1
            or is_stale(found["flags"])
            or ignores_seed(found)
        ):
            break
        step = min(left, root.design.replicates, found["more_runs"] or root.design.replicates)
        cli.progress(f"{found['sentence']}\n{counted(step, 'more run')} of {root.id}, of {left} that --max leaves")
        extend(lab, root.id, step, key=None if manner.key is None else f"{manner.key}:{len(runs)}")
        starts = True
    cli.answer("try", {**found}, lambda: _text(found))
    if failed and runs:
        return 1
    if short is not None:
        cli.progress(f"{short.message}: {counted(found['missing'], 'run')} stay missing")
        return 7
    return 1 if failed else 0


def _all_started(cli: CliContext, root_id: str, manner: _Manner) -> Refused | None:
    """Starts every missing run of a trial and waits for all; returns the budget's refusal where some do not fit.

    What ended runs did not use of the budget is free for the next ones.
    """
    lab = cli.lab
    while True:
        parts = [item.id for item in members(lab, trial_of(lab, root_id))]
        with going_on(lab, parts):
            short, known = _start_and_wait(cli, parts, manner)
        missing = sum(lab.experiments.get(id).design.replicates for id in parts) - len(lab.runs.named(parts))
        if missing <= 0 or not known:
            return short if missing > 0 else None


def _start_and_wait(cli: CliContext, parts: Sequence[str], manner: _Manner) -> tuple[Refused | None, list[str]]:
    """Starts the missing runs of experiments and waits; returns the budget's refusal of some, and what was waited for.

    Raises:
        Refused: where the budget refuses all.
    """
    lab = cli.lab
    started: list[str] = []
    short: Refused | None = None
    for id in parts:
        try:
            runs = start(lab, id)
        except Refused as problem:
            short = problem
            continue
        _warn(cli, runs)
        started += [run.id for run in runs]
    known = lab.runs.named(parts)
    if short is not None and not known:
        raise short
    awaited_ids = [*dict.fromkeys([*started, *(run.id for run in known if run.status in LIVE)])]
    wait_for(cli, awaited_ids, plain=manner.plain, are_new=True)
    return short, awaited_ids


def _warn(cli: CliContext, started: Sequence[Run]) -> None:
    """Says once what of the code has changed since it was approved."""
    for text in {note["text"]: None for run in started for note in run.annotations if note["kind"] == "code_changed"}:
        cli.progress(f"warning: {printable(text)}")


# --- what is shown ----------------------------------------------------------------------------------------------------


def _plan_text(found: TryPlan) -> str:
    """Returns what is to run, as a person approves it."""
    runs = counted(found["replicates"], "run")
    head = "try" if found["experiment"] is None else f"go on with {found['experiment']} ({found['status']})"
    env = " ".join(f"{name}={value}" for name, value in found["env"].items())
    lines = [
        f"{head}: {line(found['statement'])}",
        f"  command: {line(found['command'])}",
        *([f"  folder: {line(found['cwd'])}"] if found["cwd"] else []),
        *([f"  environment: {line(env)}"] if env else []),
        *([f"  config: {line(found['config'])[:300]}"] if found["config"] else []),
        f"  {runs}, each with a seed of its own; {line(found['needs'])}",
    ]
    if found["mde"] is not None:
        lines.append(f"  planned for an effect of {found['mde']:g}")
    if found["stale"]:
        lines.append(
            f"  {' and '.join(found['stale'])} changed since the runs of {found['against']}: nothing is decided"
        )
    expected = found["forecast"]
    if expected is not None and expected["duration_s"] is not None:
        memory = (
            "" if expected["memory_bytes"] is None else f", {shown_bytes(expected['memory_bytes'], up=True)} of memory"
        )
        lines.append(f"  about {shown_hours(expected['duration_s'] / 3600)} each{memory}, "
                     f"as {counted(expected['runs'], 'run')} of {expected['source']} took")  # fmt: skip
    return "\n".join(lines)


def _smoke_lines(tested: Smoke, planned: TryPlan) -> list[str]:
    """Returns what the smoke run showed, and what the runs would take after it and after earlier ones."""
    lasted, expected = tested["duration_s"] or 0.0, planned["forecast"]
    is_whole = tested["status"] == "done"
    each_s = lasted if is_whole else expected["duration_s"] if expected is not None else None
    memory = (
        "" if tested["memory_bytes"] is None else f", {shown_bytes(tested['memory_bytes'], up=True)} of memory so far"
    )
    ended = "ran to its end" if is_whole else "was going on well"
    lines = [f"smoke run {tested['run_id']} {ended} after {shown_hours(lasted / 3600)}{memory}; it counts for nothing"]
    if not tested["measured"]:
        lines.append(f"  it has not printed {line(planned['metric'])} yet")
    if each_s is None or (not is_whole and each_s < lasted):
        return [*lines, f"  a run takes longer than {shown_hours(lasted / 3600)}; how long is not known"]
    source = "as the smoke run took" if is_whole or expected is None else f"as runs of {expected['source']} took"
    hours = each_s / 3600 * planned["replicates"]
    return [*lines, f"  about {shown_hours(each_s / 3600)} each, {source}: {shown_hours(hours)} for all, one by one"]


def _text(found: Tried) -> str:
    lines = [
        f"{found['experiment']} of {found['hypothesis']}: {line(found['statement'])}",
        f"  {printable(found['sentence'])}",
    ]
    values = [f"{item['run_id']} {_value(item['status'], item['value'])}" for item in found["measured"]]
    lines += [f"  runs: {', '.join(values)}"] if values else []
    lines += [f"  flag: {printable(flag)}" for flag in found["flags"][:_MOST_FLAGS]]
    if found["next"] is not None:
        lines.append(f"next: {found['next']}")
    elif ignores_seed(found):
        lines.append("more runs would measure the same: have the command use PERPETUAL_SEED, and try it again")
    elif is_unsure(found) and not is_stale(found["flags"]):
        lines.append(
            f"more runs like these hardly decide it: perpetual power {found['hypothesis']} --mde X says what would"
        )
    return "\n".join(lines)


def _value(status: str, value: float | None) -> str:
    return status if value is None else f"{value:.6g}" if status == "done" else f"{status} {value:.6g}"

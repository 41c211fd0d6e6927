"""The commands `sweep new|list|show|importance|add|next|approve|run|claim`. Loaded when one of them is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import (
    CliContext,
    OpenGroup,
    UsageError,
    json_option,
    key_option,
    line,
    page_options,
    pass_cli,
    printable,
    to_json,
)
from perpetual.toolkit.units import counted, hours_of, seconds_of, shown_number

if TYPE_CHECKING:
    from perpetual_scorers.documents import SweepClaimed, SweepDocument, SweepImportanceDocument, SweepSetting

__all__ = ["sweep"]

_METHODS = ("grid", "random", "quasi")


@click.group(cls=OpenGroup)
def sweep() -> None:
    """Sweeps: find the best setting of a command with few runs, and claim it on fresh seeds."""


@sweep.command()
@click.argument("command")
@click.option("--param", "parameters", multiple=True, required=True, metavar="NAME=SPEC",
              help="LOW..HIGH, log:LOW..HIGH or A,B,C; may be repeated. Whole ends make whole numbers.")  # fmt: skip
@click.option("--when", "conditions", multiple=True, metavar="OTHER=V: NAME=SPEC",
              help="A parameter that is there only where OTHER has this value.")  # fmt: skip
@click.option("--metric", required=True, metavar="M", help="What a run prints, and the sweep compares.")
@click.option("--direction", required=True, type=click.Choice(["max", "min"]), help="Which way is better.")
@click.option("--method", type=click.Choice(_METHODS),
              help="How settings are made.  [default: grid of choices, quasi of ranges]")  # fmt: skip
@click.option("--settings", type=int, metavar="N", help="How many; of a grid the most it may have.  [default: 16]")
@click.option("--runs", type=int, metavar="N", help="Full runs that it may take.  [default: two for each setting]")
@click.option("--rungs", metavar="A,B,C",
              help="Lengths that rise to a full run, for {rung} in the command: most settings run short.")  # fmt: skip
@click.option("--noise", type=float, help="Standard deviation between seeds, in the metric's units.")
@click.option("--mde", type=float, help="The smallest difference worth having, for the claim.")
@click.option("--cost", metavar="HOURS", help="Run-hours of a full run: 0.5, or 30m.")
@click.option("--gpus", type=int, default=0, show_default=True, help="GPUs of each run.")
@click.option("--wall", metavar="S", help="Wall limit of each run: seconds, or 90s, 30m, 2h.")
@click.option("--cwd", metavar="DIR", help="Where it runs, inside the project.")
@key_option
@json_option
@pass_cli
def new(
    cli: CliContext,
    command: str,
    parameters: tuple[str, ...],
    conditions: tuple[str, ...],
    metric: str,
    direction: str,
    method: str | None,
    settings: int | None,
    runs: int | None,
    rungs: str | None,
    noise: float | None,
    mde: float | None,
    cost: str | None,
    gpus: int,
    wall: str | None,
    cwd: str | None,
    idempotency_key: str | None,
) -> None:
    """Create a sweep of COMMAND, in which {NAME} stands for a parameter; nothing is run yet.

    A word whose parameter a setting does not have is left out, and so is the option before it. Each run also gets the
    values as its configuration.
    """
    from perpetual_scorers import sweeps

    found = sweeps.new(
        cli.lab,
        command,
        parameters,
        metric=metric,
        direction=direction,
        conditions=conditions,
        method=method,
        settings=settings,
        runs=runs,
        rungs=_lengths(rungs),
        noise=noise,
        mde=mde,
        cost_run_hours=None if cost is None else hours_of(cost, "--cost"),
        gpus=gpus,
        wall_s=None if wall is None else seconds_of(wall, "--wall"),
        cwd=cwd,
        idempotency_key=idempotency_key,
    )
    _answer(cli, found)


def _lengths(rungs: str | None) -> list[float]:
    try:
        return [float(word) for word in rungs.split(",")] if rungs else []
    except ValueError as problem:
        raise UsageError(f"--rungs takes numbers with commas between them, not {rungs!r}", hint="--rungs 1,3,9") from (
            problem
        )


@sweep.command(name="list")
@page_options
@json_option
@pass_cli
def list_(cli: CliContext, limit: int, cursor: str | None) -> None:
    """List the sweeps, oldest first."""
    from perpetual_scorers import sweeps

    items, next_cursor = sweeps.listed(cli.lab, limit=limit, cursor=cursor)
    cli.items(
        "sweeps",
        items,
        next_cursor,
        ("id", "status", "settings", "runs", "pick", "command"),
        lambda item: (
            item["id"],
            item["status"],
            str(item["settings"]),
            f"{item['runs']} of {item['runs_budget']}",
            item["best"] or "-",
            item["command"],
        ),
        empty="no sweep yet: perpetual sweep new --help",
    )


@sweep.command()
@click.argument("id", metavar="ID")
@json_option
@pass_cli
def show(cli: CliContext, id: str) -> None:
    """Show the sweep ID: its settings with what they measured, and the present pick."""
    from perpetual_scorers import sweeps

    _answer(cli, sweeps.show(cli.lab, id))


@sweep.command()
@click.argument("id", metavar="ID")
@json_option
@pass_cli
def importance(cli: CliContext, id: str) -> None:
    """Say how much each parameter of the sweep ID matters: the share of the variance that it explains alone.

    By the fitted model, over the space that was searched, with the range that holds 98 % of what the model believes.
    """
    from perpetual_scorers import sweeps

    _answer_importance(cli, sweeps.importance(cli.lab, id))


@sweep.command()
@click.argument("id", metavar="ID")
@click.argument("values", nargs=-1, required=True, metavar="NAME=VALUE...")
@json_option
@pass_cli
def add(cli: CliContext, id: str, values: tuple[str, ...]) -> None:
    """Add one setting to the sweep ID, with a value for each parameter that it has."""
    from perpetual_scorers import sweeps
    from perpetual_scorers.space import value_of

    pairs = [text.partition("=") for text in values]
    wrong = next((name for name, sign, _ in pairs if not sign), None)
    if wrong is not None:
        raise UsageError(f"a setting is NAME=VALUE, not {wrong!r}", hint=f"perpetual sweep add {id} lr=0.01")
    _answer(cli, sweeps.grow(cli.lab, id, [{name: value_of(value) for name, _, value in pairs}]))


@sweep.command(name="next")
@click.argument("id", metavar="ID")
@click.option("-k", "count", type=int, default=1, show_default=True, help="How many runs at most.")
@key_option
@json_option
@pass_cli
def next_(cli: CliContext, id: str, count: int, idempotency_key: str | None) -> None:
    """Propose the runs of the sweep ID that are worth most now, as experiments without a claim."""
    from perpetual_scorers import sweeps

    made = [to_json(item) for item in sweeps.next_runs(cli.lab, id, count, idempotency_key=idempotency_key)]
    cli.items(
        "experiments",
        made,
        None,
        ("id", "", "runs", "title"),
        lambda item: (item["id"], item["status"], str(item["design"]["replicates"]), item["title"]),
        empty="nothing to propose: the runs are spent, or the sweep waits for runs",
    )
    waiting = [item["id"] for item in made if item["status"] == "proposed"]
    if waiting and not cli.as_json:
        click.echo("\n".join(cli.steps([f"next: perpetual approve {' '.join(waiting)}"])))


@sweep.command()
@click.argument("id", metavar="ID")
@click.option("--runs", type=int, metavar="N", help="A larger budget, in full runs.")
@json_option
@pass_cli
def approve(cli: CliContext, id: str, runs: int | None) -> None:
    """Approve the sweep ID once, as it is: its runs then start without another word, for agents too.

    What a run would execute is bound: where code changes, the sweep is approved anew.
    """
    from perpetual_scorers import sweeps

    _answer(cli, sweeps.approve(cli.lab, id, runs=runs))


@sweep.command()
@click.argument("id", metavar="ID")
@click.option("--runs", type=int, metavar="N", help="Start at most so many.  [default: what the sweep's budget holds]")
@click.option("--wait", "waits", is_flag=True, help="Go on until the budget is spent and every run has ended.")
@json_option
@pass_cli
def run(cli: CliContext, id: str, runs: int | None, waits: bool) -> None:
    """Start the runs of the sweep ID that are worth most, as many as may be live; with --wait all of them.

    Running a sweep approves its runs, if a person does it. Interrupted, it goes on where it was.
    """
    from perpetual_scorers import sweeps

    _answer(cli, sweeps.run(cli.lab, id, runs=runs, wait=waits, say=lambda text: cli.progress(line(text))))


@sweep.command()
@click.argument("id", metavar="ID")
@click.option("--baseline", required=True, metavar="E|X", help="What it is tested against: an experiment, or a number.")
@click.option("--mde", type=float, help="The smallest effect worth having.  [default: the sweep's]")
@click.option("--replicates", type=int, default=3, show_default=True, help="Runs of the claim, on fresh seeds.")
@click.option("--statement", metavar="T", help="The claim in words.")
@click.option("--paired", is_flag=True, help="Share the seeds of the baseline.")
@key_option
@json_option
@pass_cli
def claim(
    cli: CliContext,
    id: str,
    baseline: str,
    mde: float | None,
    replicates: int,
    statement: str | None,
    paired: bool,
    idempotency_key: str | None,
) -> None:
    """Make a hypothesis of the pick of the sweep ID, and propose the experiment that tests it on fresh seeds.

    The runs of the sweep chose the setting, so they count as no evidence for it.
    """
    from perpetual_scorers import sweeps

    found = sweeps.claim(
        cli.lab,
        id,
        baseline=_against(baseline),
        mde=mde,
        replicates=replicates,
        statement=statement,
        paired=paired,
        idempotency_key=idempotency_key,
    )
    cli.answer("sweep_claim", {**found}, lambda: _claimed_text(found))


def _against(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _claimed_text(found: SweepClaimed) -> str:
    hypothesis, experiment = found["hypothesis"], found["experiment"]
    return "\n".join(
        [
            f"{hypothesis['id']}  {line(hypothesis['statement'])}",
            f"{experiment['id']}  {experiment['status']} for {hypothesis['id']}: {line(experiment['title'])}",
            f"next: perpetual approve {experiment['id']}",
        ]
    )


# --- showing ----------------------------------------------------------------------------------------------------------


def _answer(cli: CliContext, found: SweepDocument) -> None:
    if cli.as_json:
        cli.answer("sweep", {**found}, "")
        return
    runs = f"{counted(found['runs'], 'run')} ended, {found['runs_pending']} to come"
    left = f"{shown_number(found['runs_left'])} of {found['runs_budget']} left"
    click.echo(f"{found['id']}  {found['status']}  {line(found['metric'])} ({found['direction']}): {runs}, {left}")
    click.echo(f"  command: {line(found['command'])}")
    names = [one["name"] for one in found["parameters"]]
    cli.table(
        ("id", *names, "n", "mean", "sd", "expected", "best?"),
        [_cells(item, names, found["best"]) for item in found["settings"]],
    )
    click.echo(printable(found["sentence"]))
    steps = _steps(found)
    if steps:
        click.echo("\n".join(cli.steps(steps)))


def _cells(item: SweepSetting, names: list[str], best: str | None) -> list[str]:
    n = f"{item['n']}" + (f" (+{item['n_failed']} failed)" if item["n_failed"] else "")
    chance = item["chance_best"]
    return [
        item["id"] + (" *" if item["id"] == best else ""),
        *(str(item["parameters"].get(name, "-")) for name in names),
        n,
        _number(item["mean"]),
        _number(item["sd"]),
        _number(item["expected"]),
        "-" if chance is None else f"{100 * chance:.0f} %",
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else shown_number(value, ".4g")


def _answer_importance(cli: CliContext, found: SweepImportanceDocument) -> None:
    if cli.as_json:
        cli.answer("sweep_importance", {**found}, "")
        return
    said = found["reason"] or f"by the full runs of {counted(found['settings'], 'setting')}"
    click.echo(printable(f"{found['sweep_id']}  importance for {found['metric']}: {said}"))
    if found["reason"] is not None:
        return
    cli.table(
        ("parameter", "share", "range"),
        [
            (one["name"], "-", one["reason"] or "")
            if one["share"] is None
            else (one["name"], f"{one['share']:.2f}", f"{one['low']:.2f} to {one['high']:.2f}")
            for one in sorted(found["parameters"], key=lambda one: -(one["share"] or 0.0))
        ],
    )
    spread, noise = shown_number(found["spread"] or 0.0), shown_number(found["noise"] or 0.0)
    click.echo(printable(f"over the space {found['metric']} has an sd of {spread}, and between runs {noise}"))
    if found["caution"] is not None:
        click.echo(found["caution"])


def _steps(found: SweepDocument) -> list[str]:
    """Returns the next step."""
    if found["claim"]:
        return [f"next: perpetual hypotheses show {found['claim']['hypothesis_id']}"]
    if found["status"] in ("new", "open"):
        return [f"next: perpetual sweep run {found['id']} --wait"]
    return [f"next: perpetual sweep claim {found['id']} --baseline EXPERIMENT"] if found["best"] else []

"""Commands on experiments: propose, approve, reject, experiments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from perpetual.api import (
    CliContext,
    PersonOption,
    UsageError,
    json_object,
    json_option,
    key_option,
    line,
    page_options,
    pass_cli,
    printable,
)
from perpetual.science.versions import is_stale
from perpetual.toolkit.claims import claim_in_words
from perpetual.toolkit.units import bytes_of, counted, hours_of, seconds_of, shown_hours, shown_number, shown_time
from perpetual_cli.approval import approved_text, needs, other_command
from perpetual_cli.approving import approve_everything, launched, require_person
from perpetual_cli.run_words import run_line
from perpetual_cli.words import STATES, states_explained, verbose_option

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Hypothesis

__all__ = ["approve", "environment", "experiments", "propose", "rebaseline", "reject"]

Json = dict[str, Any]

_EXPLAINED = 10  # open hypotheses
_LONGEST_LISTED = 200  # characters of a command in a list


@click.command()
@click.option("-h", "--hypothesis", "hypothesis_id", metavar="ID", help="The hypothesis that it tests.")
@click.option(
    "--auto",
    type=click.IntRange(1, 1000),
    metavar="[N]",
    is_flag=False,
    flag_value=1,
    help="Instead: the N that teach most for their cost; the best one where N is left out.",
)
@click.option("--command", metavar="CMD", help="What to run, without a shell; quote it.")
@click.option("-c", "--config", metavar="JSON", help="Given to the run as the JSON file that PERPETUAL_CONFIG names.")
@click.option("-n", "--notes", metavar="T", help="Why, and what to look at.")
@click.option("--title", help="A line to know it by; by default the command.")
@click.option("--metric", help="What its runs measure, as they print it; by default the hypothesis's.")
@click.option("--direction", metavar="max|min", help="Whether more or less of it is better.")
@click.option("--mde", type=float, help="The smallest effect worth having, in the metric's units.")
@click.option("--noise", type=float, help="Spread (sd) between seeds, as far as it is known.")
@click.option("--tau", type=float, help="Spread (sd) between implementations of the idea.  [default: a quarter of mde]")
@click.option("--baseline", metavar="B", help="What it is compared with: a number or an experiment's id.")
@click.option(
    "--paired/--unpaired", default=None, help="Share the seeds of the baseline experiment; by default, if it is one."
)
@click.option("--items", type=int, metavar="N", help="Test items behind each value: their luck counts.")
@click.option(
    "--guard", "guards", multiple=True, metavar="M:max|min:MARGIN", help="May not get worse by more; may be repeated."
)
@click.option(
    "--stop-rule", metavar="wall|exit:CODE", help="A run that ends so counts at its last value, in both arms alike."
)
@click.option("--runs-of", metavar="ID", help="Take the runs of this experiment, which has none yet: no new runs.")
@click.option("--baseline-runs", type=int, metavar="N", help="Runs that a number as baseline was measured with.")
@click.option("--kind", metavar="gaussian|binary", help="binary: 1 is success, 0 failure; the baseline is a rate.")
@click.option(
    "--claim",
    metavar="C",
    help="improves (better at all, by default), at_least (more than the mde), value, any or none.",
)
@click.option("--on-crash", metavar="supports|refutes", help="What a crash says of a claim that it runs at all.")
@click.option("--confirmation", is_flag=True, default=None, help="It is measured on data that was kept back for this.")
@click.option("--proxy", metavar="JSON", help='A cheap stand-in: {"args": "--steps 500", "cost_run_hours": 0.1}.')
@click.option("--proxy-of", metavar="ID", help="The experiment that this one is a cheap proxy of.")
@click.option(
    "--changes", metavar="code|data|environment", help="This difference from the baseline experiment is the treatment."
)
@click.option(
    "--underpowered", is_flag=True, default=None, help="Propose it although its noise is known to hide the effect."
)
@click.option("--extends", metavar="ID", help="More --replicates of this experiment, whose own are used up.")
@click.option("--replicates", type=int, help="How many runs, each with a seed of its own.  [default: 1]")
@click.option("--cost", metavar="TIME", help="Expected run-hours of one run, or with a unit: 90s, 30m, 2h.")
@click.option("--gpus", type=int, help="How many GPUs a run needs.  [default: 0]")
@click.option("--gpu-memory", metavar="SIZE", help="Memory that it needs on each, as in 24GiB.")
@click.option("--wall", metavar="TIME", help="Seconds after which a run is ended, or with a unit: 90s, 30m, 2h.")
@click.option("--no-output", metavar="TIME", help="A run that writes nothing for so long is ended.")
@click.option("--cpus", type=int, help="How many CPUs a run keeps busy; runs wait until there are so many.")
@click.option("--memory", metavar="SIZE", help="Main memory of a run, as in 64GiB; on each node.")
@click.option("--nodes", type=int, help="How many machines a run needs.")
@click.option("--scheduler", metavar="NAME", help="What starts its runs; by default the configured one.")
@click.option(
    "--engine",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the scheduler; may be repeated.",
)
@click.option(
    "--isolate/--no-isolate",
    default=None,
    help="Each run in a copy of the approved code; or as methodology says.",
)
@click.option("--priority", type=int, help="Waiting runs of a higher one start first.  [default: 0]")
@click.option(
    "--after",
    "first",
    multiple=True,
    metavar="ID[:any]",
    help="Start once this experiment ended with success, or however; may be repeated.",
)
@click.option(
    "--needs-artifact",
    "needs_artifacts",
    multiple=True,
    metavar="ID/FILE",
    help="Start from this file that runs of ID leave, as e3/model.pt, once they ended; may be repeated.",
)
@click.option("--group", metavar="NAME", help="Of which so many runs start at once: see queue group.")
@click.option("--tag", "tags", multiple=True, help="A word to find it by; may be repeated.")
@click.option("--cwd", metavar="DIR", help="Where to run, below the project's folder.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable for the run; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Show what would be proposed, and write nothing.")
@click.option("--approve", "approves", cls=PersonOption, is_flag=True, help="Approve it too.")
@click.option("--run", "runs", cls=PersonOption, is_flag=True, help="With --approve: start its runs too.")
@key_option
@verbose_option("Its score too: what a run is expected to teach for its cost.")
@json_option
@pass_cli
def propose(
    cli: CliContext,
    auto: int | None,
    dry_run: bool,
    approves: bool,
    runs: bool,
    verbose: bool,
    idempotency_key: str | None,
    hypothesis_id: str | None,
    command: str | None,
    config: str | None,
    notes: str | None,
    title: str | None,
    metric: str | None,
    direction: str | None,
    mde: float | None,
    noise: float | None,
    tau: float | None,
    baseline: str | None,
    paired: bool | None,
    items: int | None,
    baseline_runs: int | None,
    guards: tuple[str, ...],
    stop_rule: str | None,
    runs_of: str | None,
    kind: str | None,
    claim: str | None,
    on_crash: str | None,
    confirmation: bool | None,
    proxy: str | None,
    proxy_of: str | None,
    changes: str | None,
    underpowered: bool | None,
    extends: str | None,
    replicates: int | None,
    cost: str | None,
    gpus: int | None,
    gpu_memory: str | None,
    wall: str | None,
    no_output: str | None,
    cpus: int | None,
    memory: str | None,
    nodes: int | None,
    scheduler: str | None,
    engine: tuple[str, ...],
    isolate: bool | None,
    priority: int | None,
    first: tuple[str, ...],
    needs_artifacts: tuple[str, ...],
    group: str | None,
    tags: tuple[str, ...],
    cwd: str | None,
    env: tuple[str, ...],
) -> None:
    """Propose an experiment for a person to approve; -h is the hypothesis, --help is help.

    What is left out of the design comes from the hypothesis. Without a claim (a metric, a direction, an mde and a
    baseline) it is a baseline, or an exploration.
    """
    if auto is not None:
        _refuse_design()
        _propose_auto(cli, auto, dry_run, idempotency_key)
        return
    from perpetual.api import to_json

    if approves or runs:
        require_person(cli, "propose --approve")
        if dry_run or not approves:
            raise UsageError("--run goes with --approve, and neither with --dry-run", hint="--approve --run")
    propose = partial(
        cli.lab.experiments.propose,
        hypothesis_id,
        command=command,
        config=json_object(config, "--config"),
        notes=notes or "",
        title=title,
        metric=metric,
        direction=direction,
        mde=mde,
        noise=noise,
        tau=tau,
        baseline=baseline,
        paired=paired,
        items=items,
        baseline_runs=baseline_runs,
        guards=guards,
        stop_rule=stop_rule,
        runs_of=runs_of,
        kind="gaussian" if kind is None else kind,
        claim=claim,
        on_crash=on_crash,
        confirmation=bool(confirmation),
        proxy=json_object(proxy, "--proxy"),
        proxy_of=proxy_of,
        changes=changes,
        underpowered=bool(underpowered),
        extends=extends,
        replicates=1 if replicates is None else replicates,
        cost_run_hours=None if cost is None else hours_of(cost, "--cost"),
        gpus=0 if gpus is None else gpus,
        gpu_memory_bytes=None if gpu_memory is None else bytes_of(gpu_memory, "--gpu-memory"),
        wall_s=None if wall is None else seconds_of(wall, "--wall"),
        no_output_s=None if no_output is None else seconds_of(no_output, "--no-output"),
        cpus=cpus,
        memory_bytes=None if memory is None else bytes_of(memory, "--memory"),
        nodes=nodes,
        scheduler=scheduler,
        engine=_engine(engine) if engine else None,
        isolate=isolate,
        needs_artifacts=needs_artifacts,
        priority=0 if priority is None else priority,
        tags=tags,
        cwd=cwd,
        env=environment(env) if env else None,
        dry_run=dry_run,
        idempotency_key=idempotency_key,
    )
    if dry_run or (not first and group is None):
        made = propose()
    else:
        with cli.lab.transaction():  # or it could start before it is known what it comes after
            made = propose()
            cli.lab.queue.after(made.id, first)
            cli.lab.queue.join(made.id, group)
    if approves:
        made, started = launched(cli, made.id, runs=runs)
        shown = {**to_json(made), "differs": cli.lab.experiments.differences(made.id)}
        going = [item.id for item in started if item.status != "queued"]
        held = [item for item in started if item.status == "queued"]
        said = [f"{', '.join(going)} started: perpetual wait {made.id}"] if going else []
        said += [run_line(item, {}) for item in held]
        text = {**shown, "status": "approved"} if started else shown
        cli.answer(
            "experiment",
            {**shown, "started": going, "queued": [item.id for item in held]},
            lambda: "\n".join([approved_text(text, text["differs"]), *said]),
        )
        return
    document = {**to_json(made), **({"id": None} if dry_run else {})}
    cli.answer("experiment", document, lambda: _proposed_text(document, verbose=verbose))


def _refuse_design() -> None:
    """Raises UsageError where `--auto` comes with an option of one proposal."""
    taken = ("auto", "approves", "runs", "dry_run", "idempotency_key", "verbose")
    given = click.get_current_context().params.items()
    flags = [
        "--" + name.removesuffix("_id").replace("_", "-")
        for name, value in given
        if name not in taken and value not in (None, ())
    ]
    if flags:
        named = ", ".join(flags).replace("--tags", "--tag").replace("--first", "--after")
        named = named.replace("--needs-artifacts", "--needs-artifact")
        raise UsageError(f"--auto picks by itself and takes no {named}")


def environment(pairs: Sequence[str]) -> dict[str, str]:
    """Returns the variables of `--env NAME=VALUE`; raises UsageError for a pair without a name or a sign."""
    found = {}
    for text in pairs:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise UsageError(f"--env takes NAME=VALUE, not {name!r}", hint="as in --env LR=0.1")
        found[name] = value
    return found


def _engine(given: Sequence[str]) -> Json:
    """Returns the scheduler's options: pairs, and JSON objects; a later one wins."""
    found: Json = {}
    for text in given:
        name, sign, value = text.partition("=")
        if text.lstrip().startswith("{"):
            found |= json_object(text, "--engine") or {}
        elif name and sign:
            found[name] = value
        else:
            raise UsageError(f"--engine takes KEY=VALUE, not {text!r}", hint="as in --engine partition=gpu")
    return found


def _proposed_text(item: Json, *, verbose: bool = False) -> str:
    what = [*_command(item), _design(item) + _untested(item), *([_score(item)] if verbose else [])]
    if item["id"] is None:
        return "\n".join([f"would propose: {line(item['title'])}", *what, "nothing was written"])
    whom = f" for {item['hypothesis_id']}" if item["hypothesis_id"] else ""
    return "\n".join([f"{item['id']}  {item['status']}{whom}: {line(item['title'])}", *what, *_next(item)])


def _untested(item: Json) -> str:
    """Returns what an experiment lacks to be a test of its hypothesis."""
    design = item["design"]
    if item["hypothesis_id"] is None or design["metric"] is None or design["claim"] is not None:
        return ""
    return f"; by itself it tests nothing of {item['hypothesis_id']}: --claim improves does"


def _command(item: Json) -> list[str]:
    """Returns the command, where the title does not say it: a title that only looks like one hides nothing."""
    command = other_command(item)
    return [f"  command: {command}"] if command else []


def _titled(item: Json) -> str:
    """Returns the title in a list, and the command where it does not say it."""
    command = other_command(item)
    if command is None:
        return str(item["title"])
    shown = command if len(command) <= _LONGEST_LISTED else command[: _LONGEST_LISTED - 3] + "..."
    is_cut = item["title"].endswith("...") and command.startswith(item["title"][:-3])
    return shown if is_cut else f"{item['title']}: {shown}"


def _propose_auto(cli: CliContext, count: int, dry_run: bool, key: str | None) -> None:
    from perpetual.api import to_json

    picks = cli.lab.experiments.propose_auto(count, dry_run=dry_run, idempotency_key=key)
    new = {index for index, pick in enumerate(picks) if pick.new}
    items = [to_json(pick.experiment) for pick in picks]
    if dry_run:
        items = [{**item, "id": None} if index in new else item for index, item in enumerate(items)]
    rows = {id(item): index in new for index, item in enumerate(items)}
    cli.items(
        "experiments",
        items,
        None,
        ("id", "", "hypothesis", "score", "why", "title"),
        lambda item: (
            item["id"] or "-",
            "new" if rows[id(item)] else item["status"],
            item["hypothesis_id"] or "",
            _number(item["score"]["score"]),
            item["score"]["reason"],
            _titled(item),
        ),
        empty=_why_nothing(cli) if not picks else "",
    )
    steps = cli.steps([step for item in items if item["id"] for step in _next(item)])
    if steps and not cli.as_json:
        click.echo("\n".join(steps))


@click.command()
@click.argument("id", metavar="ID")
@click.option("--replicates", type=int, help="How many runs.  [default: as many as it has]")
@click.option("-n", "--notes", metavar="T", default="", help="Why, and what to look at.")
@click.option("--dry-run", is_flag=True, help="Show what would be proposed, and write nothing.")
@key_option
@json_option
@pass_cli
def rebaseline(
    cli: CliContext, id: str, replicates: int | None, notes: str, dry_run: bool, idempotency_key: str | None
) -> None:
    """Propose the baseline ID anew, to be run under today's code.

    Claims are compared with the runs of the baseline that are of their own version.
    """
    from perpetual.api import to_json

    made = cli.lab.experiments.rebaseline(
        id, replicates=replicates, notes=notes, dry_run=dry_run, idempotency_key=idempotency_key
    )
    document = {**to_json(made), **({"id": None} if dry_run else {})}
    cli.answer("experiment", document, lambda: _proposed_text(document))


def _why_nothing(cli: CliContext) -> str:
    """Returns why nothing is worth proposing, for each open hypothesis."""
    lab = cli.lab
    opened = lab.hypotheses.list(status="open", limit=_EXPLAINED).items
    if not opened:
        return "nothing is worth proposing: no hypothesis is open"
    return "\n".join(["nothing is worth proposing", *(f"  {item.id}: {_why_not(lab, item)}" for item in opened)])


def _why_not(lab: Lab, hypothesis: Hypothesis) -> str:
    every = [
        item
        for item in lab.experiments.list(hypothesis_id=hypothesis.id, limit=1000).items
        if item.design.claim is not None
    ]
    claims = [item for item in every if item.status not in ("rejected", "expired")]
    if not claims:
        grid = ", whose configuration its grid then varies" if hypothesis.params else ""
        return f"it has no experiment that claims something: propose one{grid}"
    for item in claims:
        base = item.design.baseline
        if isinstance(base, str) and not lab.experiments.get(base).runs.get("done"):
            return f"{item.id} waits for its baseline {base}, of which no run has ended well"
    proposed = [item.id for item in claims if item.status == "proposed"]
    if proposed:
        return f"{', '.join(proposed[:3])} wait for approval"
    left = "no replicate is missing whose result would teach enough, and no point of a grid is untried"
    return left + ("; what was rejected is not proposed again" if len(claims) < len(every) else "")


@click.command()
@click.argument("ids", nargs=-1, metavar="ID...")
@click.option(
    "--token", cls=PersonOption, is_flag=True, help="Instead: print the token that lets one MCP server approve."
)
@click.option("--all", "every", is_flag=True, help="Every proposed one: shown, and asked for once at a terminal.")
@click.option("-y", "--yes", is_flag=True, help="With --all: do not ask.")
@json_option
@pass_cli
def approve(cli: CliContext, ids: tuple[str, ...], token: bool, every: bool, yes: bool) -> None:
    """Approve proposed experiments, all of them or none: each may run exactly as it is specified now."""
    from perpetual.api import to_json

    if token:
        if ids or every:
            raise UsageError("--token approves nothing and takes no ID", hint="perpetual approve --token")
        made = cli.lab.experiments.approval_token()
        cli.answer("approve_token", made, made["token"])
        cli.progress(f"until {made['expires_at']}, once: PERPETUAL_APPROVE_TOKEN=TOKEN perpetual mcp --allow-approve")
        return
    if every or yes:
        if ids or not every:
            raise UsageError("--all takes no ID, and --yes goes with it", hint="perpetual approve --all --yes")
        found = approve_everything(cli, yes=yes)
        if cli.as_json or not found:
            items = [{**to_json(item), "differs": cli.lab.experiments.differences(item.id)} for item in found]
            cli.items("experiments", items, None, (), lambda _: (), empty="nothing is proposed")
        elif yes:
            _answer(cli, found, is_approved=True)
        else:  # they were shown
            click.echo("\n".join(f"{item.id}  approved: {line(item.title)}" for item in found))
        return
    if not ids:
        raise UsageError("approve needs an ID", hint="perpetual approve ID, or --all")
    _answer(cli, cli.lab.experiments.approve_all(ids), is_approved=True)


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--why", required=True, metavar="T", help="The reason, kept in the feed.")
@json_option
@pass_cli
def reject(cli: CliContext, ids: tuple[str, ...], why: str) -> None:
    """Turn down experiments that have not run, all of them or none."""
    _answer(cli, cli.lab.experiments.reject_all(ids, why))


def _answer(cli: CliContext, changed: Sequence[Experiment], *, is_approved: bool = False) -> None:
    """Prints one record as itself, several as a list."""
    from perpetual.api import to_json

    documents = [to_json(item) for item in changed]
    if is_approved:
        documents = [{**item, "differs": cli.lab.experiments.differences(item["id"])} for item in documents]
    if len(documents) == 1:
        cli.answer("experiment", documents[0], lambda: _changed_text(documents[0]))
    elif cli.as_json:
        cli.items("experiments", documents, None, (), lambda _: (), empty="")
    else:
        cli.answer("experiments", {}, "\n".join(_changed_text(item) for item in documents))


def _changed_text(item: Json) -> str:
    if item["status"] != "rejected":
        return "\n".join([approved_text(item, item["differs"]), *_next(item)])
    return f"{item['id']}  {item['status']}: {line(item['title'])}"


@click.command()
@click.argument("id", required=False)
@click.option("--status", metavar="S", help="Only these: proposed, approved, rejected, expired, active, ...")
@click.option("--hypothesis", "hypothesis_id", metavar="ID", help="Only those that test it.")
@click.option("--tag", metavar="T", help="Only those with this tag.")
@click.option(
    "--sort", metavar="KEY", help="Leaderboard by a metric (best first), parameter or field; -KEY turns it round."
)
@click.option("--reverse", is_flag=True, help="Turn the order round.")
@click.option("--where", metavar="EXPR", help="Only those, as in 'lr<0.1 and opt=adam and val_acc>=0.9'.")
@click.option("--columns", metavar="A,B", help="These metrics, parameters and fields; by default what differs.")
@click.option("--best", type=click.IntRange(min=1), metavar="N", help="The first N, by default of the declared metric.")
@click.option("--since", metavar="T", help="Proposed since a time (2026-11-25, UTC), or so long ago: 12h, 7d.")
@click.option("--archived", is_flag=True, help="The archived ones too; a leaderboard marks them.")
@page_options
@verbose_option("The scores too: what a run is expected to teach for its cost.")
@json_option
@pass_cli
def experiments(
    cli: CliContext,
    id: str | None,
    status: str | None,
    hypothesis_id: str | None,
    tag: str | None,
    sort: str | None,
    reverse: bool,
    where: str | None,
    columns: str | None,
    best: int | None,
    since: str | None,
    archived: bool,
    limit: int,
    cursor: str | None,
    verbose: bool,
) -> None:
    """Show the experiment ID; without ID, list experiments, oldest first, with what their runs measured.

    With --sort, --where, --columns, --best or --since it is a leaderboard: mean, sd and n of metrics, and parameters
    (of the command, the settings and the environment) as columns. `--columns ""` shows none.
    """
    from perpetual.api import to_json
    from perpetual_cli import board

    is_board = reverse or any(each is not None for each in (sort, where, columns, best, since))
    if id is not None:
        if is_board or status or hypothesis_id or tag is not None:
            raise UsageError("an ID names one experiment; --status, --hypothesis and the others are for the list")
        (found,) = board.with_results(cli.lab, [to_json(cli.lab.experiments.get(id))])
        cli.answer("experiment", found, lambda: _text(cli.lab, found, verbose=verbose))
        return
    if is_board:
        if cursor is not None:
            raise UsageError("a leaderboard has no pages", hint="--best N, or --where EXPR")
        if status is not None:
            cli.lab.experiments.list(status=status, limit=1)  # refuses a status that there is not
        if hypothesis_id is not None:
            cli.lab.hypotheses.get(hypothesis_id)
        chosen = None if columns is None else [name for each in columns.split(",") if (name := each.strip())]
        if best is None and sort is None:
            sort = "id"
        table = cli.lab.runs.table(
            sort=sort, reverse=reverse, where=where, columns=chosen, tag=tag, status=status,
            hypothesis_id=hypothesis_id, since=since, best=best if best is not None else limit,
        )  # fmt: skip
        board.show(cli, table, is_chosen=chosen is not None, empty="no such experiment")
        return
    page = cli.lab.experiments.list(
        status=status, hypothesis_id=hypothesis_id, tag=tag, archived=archived, limit=limit, cursor=cursor
    )
    metrics = {item.design.metric for item in page.items} - {None}
    only = metrics.pop() if len(metrics) == 1 else None
    filters = status or hypothesis_id or tag is not None
    cli.items(
        "experiments",
        board.with_results(cli.lab, [to_json(item) for item in page.items]),
        page.next_cursor,
        ("id", "status", "hypothesis", "runs", only or "measured", "effect", "bits/run-hour", "title"),
        lambda item: (
            item["id"],
            item["status"] + (", stale" if is_stale(item["cautions"]) else "") + ", archived" * item["archived"],
            item["hypothesis_id"] or "",
            _runs(item),
            _measured(item, only),
            board.experiment_cell(cli.lab, item),
            _number(item["score"]["score"]) if verbose else "",
            _titled(item),
        ),
        empty="no such experiment" if filters or page.items else _none_yet(cli),
    )
    if not cli.as_json and page.items:
        click.echo("\n".join(states_explained(item.status for item in page.items)))


def _none_yet(cli: CliContext) -> str:
    if cli.lab.experiments.list(limit=1).items:
        return "every experiment is archived: --archived lists them"
    return "no experiment yet: perpetual propose --help"


def _measured(item: Json, only: str | None) -> str:
    from perpetual_cli.board import measured_cell

    metric = item["design"]["metric"]
    shown = measured_cell(item, metric)
    return f"{metric} {shown}" if shown and only is None else shown


def _text(lab: Lab, item: Json, *, verbose: bool) -> str:
    from perpetual_cli.board import result_lines

    whom = f"  of {item['hypothesis_id']}" if item["hypothesis_id"] else ""
    lines = [f"{item['id']}  {item['status']}{whom} ({STATES[item['status']]})", f"  {line(item['title'])}"]
    if item["command"] is None or other_command(item):  # else the title says it
        lines.append(f"  command: {line(item['command'] or 'none yet')}")
    lines += [f"  cwd: {line(item['cwd'])}"] if item["cwd"] else []
    lines += [
        f"  {name}: {line(json.dumps(item[name], ensure_ascii=False))}" for name in ("env", "config") if item[name]
    ]
    if item["notes"]:
        lines.append("  notes: " + "\n    ".join(printable(item["notes"]).splitlines()))
    lines += [f"  needs: {needs(item)}", _design(item), *([_score(item)] if verbose else [])]
    lines.append(f"  runs: {_runs(item)}")
    lines += [*_order(item), *result_lines(lab, item)]
    lines += [f"  flag: {printable(text)}" for text in item["cautions"]]
    approved = f", approved by {printable(item['approved_by'])}" if item["approved_by"] else ""
    lines.append(f"  proposed by {printable(item['proposed_by'])} at {shown_time(item['created_at'])} UTC{approved}")
    return "\n".join([*lines, *_next(item)])


def _order(item: Json) -> list[str]:
    """Returns its place among others in the queue, where it has one."""
    said = [f"comes after {', '.join(item['after'])}"] if item["after"] else []
    said += [f"group {line(item['group'])}"] if item["group"] else []
    said += [f"priority {item['priority']}"] if item["priority"] else []
    return [f"  queue: {'; '.join(said)}"] if said else []


def _design(item: Json) -> str:
    design = item["design"]
    if design["metric"] is None:
        what = "no metric: an exploration"
    elif design["claim"] is None:
        what = f"measures {printable(design['metric'])}, without a claim"
    else:
        what = _claimed(design)
        what += " (paired)" if design["paired"] else ""
        what += " (confirmation)" if design["confirmation"] else ""
        what += f", changes {design['changes']}" if design["changes"] else ""
        what += "".join(
            f", {guard['metric']} {'lower' if guard['direction'] == 'max' else 'higher'} by {guard['margin']:g} at most"
            for guard in design["guards"] or ()
        )
        what += f", from the runs of {design['runs_of']}" if design["runs_of"] else ""
        what += f", stops by {design['stop_rule']}" if design["stop_rule"] else ""
        what += " (underpowered)" if design["underpowered"] else ""
        what += f", a crash {design['on_crash']} it" if design["on_crash"] else ""
    what += f", a proxy of {design['proxy_of']}" if design["proxy_of"] else ""
    noise = "" if design["noise"] is None else f", noise {design['noise']:g}"
    cost = (
        ""
        if design["cost_run_hours"] is None or design["runs_of"]
        else f", {shown_hours(design['cost_run_hours'])} each"
    )
    return f"  design: {what}; {counted(design['replicates'], 'replicate')}{cost}{noise}"


def _claimed(design: Json) -> str:
    names = ("metric", "direction", "baseline", "mde", "claim", "kind", "null_effect")
    return printable(claim_in_words(**{name: design[name] for name in names}))


def _score(item: Json) -> str:
    score = item["score"]
    number = "" if score["score"] is None else f"{_number(score['score'])} bits per run-hour: "
    return f"  score: {number}{printable(score['reason'])}"


def _number(value: float | None) -> str:
    return "-" if value is None else shown_number(value)


def _runs(item: Json) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in item["runs"].items())
    if counts and item["approved_by"] is None:
        return counts  # they were recorded without being launched, and no design planned how many
    return f"{counts or 'none'} (of {item['design']['replicates']})"


def _next(item: Json) -> list[str]:
    """Returns the next step, if there is one."""
    id, status = item["id"], item["status"]
    if status == "proposed":
        return [
            f"next: perpetual approve {id}" if item["command"] else f"next: perpetual run {id} 'python train.py ...'"
        ]
    if status == "approved":
        id = item["design"]["runs_of"] or id
        return [f"next: perpetual run {id}" + (" --all" if item["design"]["replicates"] > 1 else "")]
    return []

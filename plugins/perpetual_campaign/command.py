"""The command `perpetual campaign`. Loaded by the command line when it is called."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from perpetual.api import CliContext, NoProject, UsageError, json_option, line, pass_cli, printable
from perpetual.toolkit.units import seconds_of

if TYPE_CHECKING:
    from perpetual_campaign.documents import CampaignBranches, Candidate

__all__ = ["campaign"]

_IS_ID = re.compile(r"c\d+\Z", re.IGNORECASE)
_Command = TypeVar("_Command", bound=Callable[..., object])


def _limits(command: _Command) -> _Command:
    """Adds the options that `new` and `adopt` share."""
    for option in reversed((
        click.option("--edit", multiple=True, metavar="GLOB",
                     help="What candidates may change, a path from the project's folder; may be repeated."),
        click.option("--protect", multiple=True, metavar="GLOB",
                     help="What they may not, such as what measures them; may be repeated."),
        click.option("--mde", type=float, metavar="X", help="The smallest effect worth having; without it any counts."),
        click.option("--replicates", type=int, metavar="N", help="Pairs of runs of a look.  [default: 6]"),
        click.option("--max-pairs", type=int, metavar="N",
                     help="Pairs of a comparison at most; it has more looks while it is open.  [default: 4 looks]"),
        click.option("--budget-run-hours", type=float, metavar="H", help="Run-hours of the whole campaign at most."),
        click.option("--max-candidates", type=int, metavar="N", help="Candidates at most."),
        click.option("--thinker", type=click.IntRange(0), default=0, metavar="N",
                     help="Candidates that the project's thinker edits at once; their runs need no further approval."),
        click.option("--wall", metavar="TIME", help="When a run is ended; by default as the methodology says."),
        click.option("--gpus", type=click.IntRange(0), default=0, metavar="N", help="GPUs of a run."),
    )):  # fmt: skip
        command = option(command)
    return command


@click.group(invoke_without_command=True)
@json_option
@pass_cli
@click.pass_context
def campaign(ctx: click.Context, cli: CliContext) -> None:
    """Improve code by candidates, each edited in a git worktree of its own and measured against the best in pairs.

    What is supported twice is committed on the campaign's branch, with its evidence; anything else is archived and
    remembered. Your branch, index and files are never touched. Without a subcommand: the campaigns.
    """
    if ctx.invoked_subcommand is None:
        _list(cli)


@campaign.command()
@click.argument("name", metavar="NAME")
@click.option("--command", required=True, metavar="CMD", help="The command line that measures, run in each worktree.")
@click.option("--metric", required=True, metavar="M", help="What it measures.")
@click.option("--direction", required=True, type=click.Choice(["min", "max"]), help="Which way is better.")
@click.option("--base", metavar="COMMIT", help="Where it begins; by default the commit that is checked out.")
@_limits
@json_option
@pass_cli
def new(
    cli: CliContext, name: str, command: str, metric: str, direction: str, base: str | None, edit: tuple[str, ...],
    protect: tuple[str, ...], mde: float | None, replicates: int | None, max_pairs: int | None,
    budget_run_hours: float | None, max_candidates: int | None, thinker: int, wall: str | None,
    gpus: int,
) -> None:  # fmt: skip
    """Start a campaign: what measures, what counts, and what candidates may change."""
    from perpetual_campaign.campaigns import REPLICATES, Campaigns

    Campaigns(cli.lab).new(
        name, command=command, metric=metric, direction=direction, edit=edit, protect=protect, mde=mde,
        replicates=REPLICATES if replicates is None else replicates, max_pairs=max_pairs,
        budget_run_hours=budget_run_hours, max_candidates=max_candidates,
        wall_s=None if wall is None else seconds_of(wall, "--wall"), gpus=gpus,
        base=base, thinker=thinker,
    )  # fmt: skip
    _show(cli, name)


@campaign.command()
@click.argument("source", metavar="[SOURCE]", default=".")
@click.option("--name", metavar="NAME", help="Of the campaign; by default the folder's.")
@click.option("--command", metavar="CMD", help="By default how such a loop runs its train.py.")
@click.option("--metric", metavar="M", help="A column of the table; by default its first one of numbers.")
@click.option("--direction", type=click.Choice(["min", "max"]), help="Which way is better; by default by its name.")
@_limits
@json_option
@pass_cli
def adopt(
    cli: CliContext, source: str, name: str | None, command: str | None, metric: str | None, direction: str | None,
    edit: tuple[str, ...], protect: tuple[str, ...], mde: float | None, replicates: int | None,
    max_pairs: int | None, budget_run_hours: float | None, max_candidates: int | None, thinker: int, wall: str | None,
    gpus: int,
) -> None:  # fmt: skip
    """Go on with an autoresearch loop: take its table over, and start a campaign at its best commit.

    SOURCE is the loop's folder (the working directory by default) or its table. Where it is no project yet, it is made
    one. Candidates may change train.py; the table, prepare.py and program.md are protected.
    """
    from perpetual_campaign.adopting import adopt as go_on
    from perpetual_campaign.adopting import project_of
    from perpetual_campaign.campaigns import REPLICATES

    try:
        lab = cli.lab
    except NoProject:
        project_of(source)
        lab = cli.lab
    made = go_on(
        lab, source, name=name, command=command, edit=edit, protect=protect, mde=mde, metric=metric,
        direction=direction, replicates=REPLICATES if replicates is None else replicates, max_pairs=max_pairs,
        budget_run_hours=budget_run_hours, max_candidates=max_candidates,
        wall_s=None if wall is None else seconds_of(wall, "--wall"), gpus=gpus, thinker=thinker,
    )  # fmt: skip
    _show(cli, str(made["name"]))


@campaign.command()
@click.argument("name", metavar="NAME")
@click.argument("idea", metavar="IDEA")
@json_option
@pass_cli
def candidate(cli: CliContext, name: str, idea: str) -> None:
    """Make a candidate: a branch from the best, and a worktree to edit. The last line printed is its path."""
    from perpetual_campaign.campaigns import Campaigns

    made = Campaigns(cli.lab).candidate(name, idea)
    _candidate(cli, made.id, lambda found: f"{found['id']}: {line(found['idea'])}\n{found['worktree']}")


@campaign.command()
@click.argument("id", metavar="ID")
@json_option
@pass_cli
def submit(cli: CliContext, id: str) -> None:
    """Hold a candidate's difference against its campaign, and measure it against the best.

    Refused before anything runs: what is out of scope, protected, too large, or was tried before, and what the
    campaign's budget does not hold. Typing it approves the runs; what an agent submits waits for a person, as all that
    agents propose. Scans, and so the daemon and `perpetual wait`, take it on from there.
    """
    from perpetual_campaign.campaigns import Campaigns

    made = Campaigns(cli.lab).submit(id)
    _candidate(cli, made.id)


@campaign.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--at-once",
    type=click.IntRange(0),
    metavar="N",
    help="Lets the thinker edit so many candidates at once from now on; 0 lets it edit none.",
)
@click.option(
    "--max-candidates", type=int, metavar="N", help="With --at-once: candidates of the campaign at most, as of now."
)
@json_option
@pass_cli
def think(cli: CliContext, name: str, at_once: int | None, max_candidates: int | None) -> None:
    """Ask the project's thinker for candidates now, as the daemon does while it turns.

    The campaign needs a thinker: `--thinker N` of `campaign new`, or --at-once here. That lets what it edits run, under
    the campaign's command, scope and limits. An edit out of scope is refused, whatever it says.
    """
    from perpetual_campaign.campaigns import Campaigns
    from perpetual_campaign.thinking import think as asked

    if at_once is not None:
        Campaigns(cli.lab).set_thinker(name, at_once, max_candidates=max_candidates)
    elif max_candidates is not None:
        raise UsageError("--max-candidates goes with --at-once", hint=f"perpetual campaign think {name} --at-once 2")
    why = None if at_once == 0 else asked(cli.lab, name)
    _show(cli, name)
    if why is not None:
        click.echo(f"nothing more is asked: {line(why)}", err=True)


@campaign.command()
@click.argument("id", metavar="ID")
@click.option("--why", required=True, metavar="T", help="Why it is not wanted any more.")
@json_option
@pass_cli
def drop(cli: CliContext, id: str, why: str) -> None:
    """End a candidate: its runs are ended, and its branch is archived."""
    from perpetual_campaign.campaigns import Campaigns

    made = Campaigns(cli.lab).drop(id, why)
    _candidate(cli, made.id)


@campaign.command(name="list")
@json_option
@pass_cli
def list_(cli: CliContext) -> None:
    """List the campaigns, the newest first."""
    _list(cli)


@campaign.command()
@click.argument("name", metavar="NAME|ID")
@json_option
@pass_cli
def show(cli: CliContext, name: str) -> None:
    """Show a campaign with its candidates, or a candidate with its comparisons.

    With how many of the measured candidates would be kept if none of them were any better.
    """
    if _IS_ID.match(name):
        _candidate(cli, name)
    else:
        _show(cli, name)


@campaign.command()
@click.argument("name", metavar="NAME")
@click.option("--into", metavar="PREFIX", help="How the branches' names begin.  [default: perpetual/review/NAME]")
@click.option("--onto", metavar="COMMIT", help="What they stand on; by default where the campaign began.")
@json_option
@pass_cli
def finalize(cli: CliContext, name: str, into: str | None, onto: str | None) -> None:
    """Make branches for review: one a kept candidate, each on the base, or on an earlier one where it needs that."""
    from perpetual_campaign.finalize import finalize as made_of

    found = made_of(cli.lab, name, into=into, onto=onto)
    cli.answer("campaign_branches", {**found}, lambda: printable(_branches(found)))


@campaign.command()
@click.argument("name", metavar="NAME")
@json_option
@pass_cli
def close(cli: CliContext, name: str) -> None:
    """End a campaign: live candidates are dropped, and no other is taken. Its branches stay."""
    from perpetual_campaign.campaigns import Campaigns

    Campaigns(cli.lab).close(name)
    _show(cli, name)


def _list(cli: CliContext) -> None:
    from perpetual_campaign.show import campaigns

    cli.items(
        "campaigns", [*campaigns(cli.lab)], None,
        ("name", "state", "metric", "live", "kept", "archived", "run-hours"),
        lambda item: (item["name"], item["state"], f"{item['metric']} ({item['direction']})", str(item["live"]),
                      str(item["kept"]), str(item["archived"]), f"{item['run_hours']:.3g}"),
        empty="no campaign yet: perpetual campaign new",
    )  # fmt: skip


def _show(cli: CliContext, name: str) -> None:
    from perpetual_campaign.show import campaign as found_by
    from perpetual_campaign.show import text_of_campaign, text_of_candidate

    found = found_by(cli.lab, name)
    texts = [text_of_campaign(found), *map(text_of_candidate, found["items"])]
    cli.answer("campaign", {**found}, lambda: printable("\n".join(texts)))


def _candidate(cli: CliContext, id: str, text: Callable[[Candidate], str] | None = None) -> None:
    from perpetual_campaign.show import candidate as found_by
    from perpetual_campaign.show import text_of_candidate

    found = found_by(cli.lab, id)
    cli.answer("campaign_candidate", {**found}, lambda: printable((text or text_of_candidate)(found)))


def _branches(found: CampaignBranches) -> str:
    lines = []
    for one in found["items"]:
        stands = f", on {one['stands_on'][:12]}" if one["is_stacked"] else ""
        lines.append(f"{one['branch']}  {one['commit'][:12]}  {one['candidate']}{stands}")
    return "\n".join(lines)

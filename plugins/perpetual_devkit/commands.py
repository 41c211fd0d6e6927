"""The commands `chaos`, `plugins new` and `plugins check`. They need no project, and touch none."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, UsageError, json_option, pass_cli, printable, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perpetual_devkit.authoring import NewPlugin
    from perpetual_devkit.chaos import Certificate
    from perpetual_devkit.documents import ContractCheck
    from perpetual_devkit.overnight import OvernightCertificate
    from perpetual_devkit.provider_checks import ProviderChecked

__all__ = ["chaos", "check", "new"]

_KILLS, _DAEMON_KILLS = 200, 10  # by default
_EVERY_S = 2.0  # between two lines of progress


@click.command()
@click.option(
    "--kills",
    type=click.IntRange(1, 100_000),
    help="How many writers are killed, by default 200; with --daemon how often it is killed, by default 10.",
)
@click.option(
    "--writers",
    type=click.IntRange(1, 64),
    help="Processes that write at the same time. By default 8, or 1 where the store takes one writer.",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Decides who is killed when. By default a new one.")
@click.option("--store", metavar="NAME", help="The store to try; by default the project's, outside a project tinydb.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where the scratch folder is made, to try DIR's file system. By default with the system's temporary files.",
)
@click.option("--daemon", is_flag=True, help="Try the daemon on a campaign with faults, instead of a store alone.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="With --daemon: make the two projects in DIR, a new or empty folder, and leave them there.",
)
@json_option
@pass_cli
def chaos(
    cli: CliContext,
    kills: int | None,
    writers: int | None,
    seed: int | None,
    store: str | None,
    folder: Path | None,
    daemon: bool,
    keep: Path | None,
) -> int:
    """Kill processes that write to a store, again and again, and certify what is left; exit 1 if something is wrong.

    The store is a new one in a scratch folder; the project's own record is not touched. Writers end by SIGKILL at
    random instants, some inside a transaction, some while the store compacts itself. In the end a fresh process looks
    whether every acknowledged write is there once and whole. What a loss of power does is not tried by this.

    With --daemon a short campaign runs twice, with the same seeds: once in peace, and once while the daemon is killed
    and started again, runs are lost, the GPUs' driver disappears, the disk is full and a model server down. Both must
    come to the same verdicts and values, run nothing twice, and keep exact books.
    """
    from perpetual_devkit.chaos import Target, run_chaos

    if daemon:
        return _overnight(cli, kills or _DAEMON_KILLS, writers, seed, store, folder, keep)
    if keep is not None:
        raise UsageError("--keep belongs to --daemon", hint="--folder DIR makes the scratch folder in DIR")
    kills = kills or _KILLS
    last_s = time.monotonic()

    def progress(done: int, acknowledged: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _EVERY_S:
            last_s = time.monotonic()
            cli.progress(f"{done} of {kills} kills, {acknowledged} acknowledged")

    with cli.alone() if cli.as_json else nullcontext():  # a store may print
        target = Target.installed(cli.inventory(), store)
        found = run_chaos(target, kills=kills, writers=writers, seed=seed, folder=folder, progress=progress)
        cli.answer("chaos", to_json(found), lambda: _certificate_text(found))
    return 0 if found.ok else 1


def _overnight(
    cli: CliContext,
    kills: int,
    writers: int | None,
    seed: int | None,
    store: str | None,
    folder: Path | None,
    keep: Path | None,
) -> int:
    from perpetual_devkit.chaos import Target
    from perpetual_devkit.overnight import run_overnight

    if writers is not None:
        raise UsageError("--writers are those of a store; --daemon kills one daemon at a time", hint="--kills N")
    if folder is not None and keep is not None:
        raise UsageError("--folder and --keep both say where", hint="--keep DIR makes everything in DIR")
    with cli.alone() if cli.as_json else nullcontext():
        found = run_overnight(
            Target.installed(cli.inventory(), store),
            kills=kills,
            seed=seed,
            folder=folder,
            keep=keep,
            progress=cli.progress,
        )
        cli.answer("chaos_daemon", to_json(found), lambda: _overnight_text(found))
    return 0 if found.ok else 1


def _overnight_text(found: OvernightCertificate) -> str:
    """Returns what came of an overnight test, for people."""
    killed = ", ".join(f"{count} {name}" for name, count in found.killed_in.items())
    faults = ", ".join(f"{count} {name}" for name, count in found.faults.items() if count)
    verdict = "kept every promise" if found.ok else "BROKE A PROMISE"
    lines = [
        f"the daemon {verdict} over {found.kills} kills",
        f"  killed in: {killed or 'nothing'}",
        f"  faults: {faults or 'none'}",
        *(f"  not tried: {words}" for words in found.not_tried),
        f"  {found.runs} runs, {found.retries} of them retries; {found.evidence} rows of evidence, {found.events} "
        f"events, {found.answers} answers of a model, ended with {found.reason}",
    ]
    for promise in found.promises:
        lines.append(f"  {'holds ' if promise['ok'] else 'BROKEN'} {promise['promise']}: {promise['holds']}")
        lines += [f"         {words}" for words in promise["found"]]
    lines += [f"  problem: {problem}" for problem in found.problems]
    lines.append(f"  {found.setting}, {found.duration_s:.1f} s")
    if found.kept:
        lines.append(f"  kept: {found.kept}")
    return printable("\n".join(lines))


def _certificate_text(found: Certificate) -> str:
    """Returns the certificate for people."""
    where = ", ".join(f"{count} {name}" for name, count in found.killed_in.items() if count)
    verdict = "sound" if found.ok else "NOT SOUND"
    lines = [
        f"{found.provider}: {verdict} after {found.kills} kills of {found.writers} writers",
        f"  killed in: {where or 'nothing'}",
        f"  acknowledged {found.acknowledged}, of these present {found.present}; transactions {found.transactions}",
        f"  seed {found.seed}, {found.file_system or 'unknown file system'}, Perpetual {found.version}, "
        f"Python {found.python}, {found.platform}, {found.duration_s:.1f} s",
        *(f"  problem: {problem}" for problem in found.problems),
    ]
    if found.kept:
        lines.append(f"  kept: {found.kept}")
    return printable("\n".join(lines))


@click.command()
@click.argument("name")
@click.option(
    "--slot",
    "--kind",
    "slot",
    required=True,
    metavar="SLOT",
    help="What it fills: store, scorer, gate, service, command, mcp and so on; or observer, kinds, family.",
)
@click.option("-t", "--target", default=".", metavar="DIR", help="Where its folder goes; by default here.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@json_option
@pass_cli
def new(cli: CliContext, name: str, slot: str, target: str, dry_run: bool) -> None:
    """Write the distribution perpetual-plugin-NAME: a plugin with a part for SLOT, its tests, and what CI needs.

    An observer hears events; kinds are those of records and events; a family is a slot that other plugins fill.

    Its tests pass as it is; then make the part your own.
    """
    from perpetual_devkit.authoring import new_plugin

    made = new_plugin(name, slot, target, slots=cli.inventory().slots(), dry_run=dry_run)
    document = {**to_json(made), **({"dry_run": True} if dry_run else {})}
    cli.answer("plugin_new", document, lambda: _new_text(made, dry_run=dry_run))


def _new_text(made: NewPlugin, *, dry_run: bool) -> str:
    lines = [f"{made.distribution} in {made.path}", *(f"  {path}" for path in made.files)]
    lines.append(
        "nothing was written (--dry-run)" if dry_run else "next, in that folder: pip install -e '.[test]' && pytest"
    )
    return printable("\n".join(lines))


@click.command()
@click.argument("name", required=False)
@click.option(
    "--suites/--no-suites",
    default=None,
    help="Run the contract suites of the slots too, or not. By default they run if NAME is given.",
)
@click.option(
    "--test-limit",
    "test_limit_s",
    type=click.FloatRange(1, 900),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="When a test of a suite is killed and its promise is called broken.",
)
@json_option
@pass_cli
def check(cli: CliContext, name: str | None, suites: bool | None, test_limit_s: float) -> int:
    """Load every provider of the plugin NAME (or of all) and compare it with its slot; exit 1 if one does not fit.

    Signature and return annotation of each factory are looked at. The contract suites build the provider with its
    default options and try every promise of its slot, in a process and a folder of their own; they need pytest. With
    them, a few writers of a store are killed, and commands, MCP tools, report sections and observers of events are
    called in a scratch lab, commands without arguments. Of kinds that a plugin brings, rows are written, exported and
    imported there, and upgrades are tried.
    """
    from perpetual_devkit.provider_checks import check_plugins

    suites = name is not None if suites is None else suites
    found = check_plugins(cli.inventory(), name, suites=suites, test_limit_s=test_limit_s)
    good = all(item.ok is not False for item in found)
    cli.items(
        "plugins_check",
        to_json(found),
        None,
        ("provider", "slot", "holds", "what does not"),
        lambda item: (
            item["qualified_name"],
            item["slot"] or "-",
            _holds(item["checks"], True),
            _holds(item["checks"], False),
        ),
        empty="there is nothing to check",
        extra={"ok": good},
    )
    if not cli.as_json:
        for item in found:
            for one in item.checks:
                if one.check == "names":
                    click.echo(printable(f"deprecated: {item.qualified_name}: {one.detail}"))
            if item.suite is not None:
                click.echo(suite_text(item))
    return 0 if good else 1


def _holds(checks: Sequence[ContractCheck], ok: bool) -> str:
    if ok:
        return ", ".join(one["check"] for one in checks if one["ok"] is True)
    return "; ".join(f"{one['check']}: {one['detail']}" for one in checks if one["ok"] is False)


def suite_text(item: ProviderChecked) -> str:
    """Returns each promise with what became of it."""
    lines = [f"{item.slot} {item.name}, by {item.suite}:"]
    for one in item.promises:
        why = f" ({one.detail})" if one.detail else ""
        word = "BROKEN" if one.verdict == "broken" else one.verdict
        lines.append(f"  {word:<7}  {one.promise}{why}")
    if item.suite_reason:
        lines.append(f"  {item.suite_reason}")
    return printable("\n".join(lines))

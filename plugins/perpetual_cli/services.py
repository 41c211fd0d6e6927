"""`perpetual services`: what plugins keep running for a project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, OpenGroup, json_option, pass_cli
from perpetual.toolkit.units import seconds_of

if TYPE_CHECKING:
    from perpetual.documents.services import ServiceLine

__all__ = ["services"]


@click.group(cls=OpenGroup, invoke_without_command=True)
@json_option
@pass_cli
@click.pass_context
def services(ctx: click.Context, cli: CliContext) -> None:
    """List the services that plugins bring, start one, or stop it. One process runs each, for each project."""
    if ctx.invoked_subcommand is None:
        _list(cli)


@services.command(name="list")
@json_option
@pass_cli
def list_(cli: CliContext) -> None:
    """List every service with its state: starting, running, stopped or failed."""
    _list(cli)


@services.command()
@click.argument("name")
@click.option("--foreground", is_flag=True, help="Run it in this process until it ends or is interrupted.")
@json_option
@pass_cli
def start(cli: CliContext, name: str, foreground: bool) -> None:
    """Start the service NAME in a process of its own. It ends by `services stop`, or when it has nothing to do."""
    if foreground:
        cli.lab.services.run(name)
    else:
        _show(cli, cli.lab.services.start(name))


@services.command()
@click.argument("name")
@click.option("--grace", metavar="S", default="10", show_default=True, help="Seconds until its process is killed.")
@json_option
@pass_cli
def stop(cli: CliContext, name: str, grace: str) -> None:
    """Ask the service NAME to end, and wait until it has."""
    _show(cli, cli.lab.services.stop(name, grace_s=seconds_of(grace, "--grace")))


def _list(cli: CliContext) -> None:
    cli.items(
        "services",
        cli.lab.services.list(),
        None,
        ("service", "state", "since", "health", "about"),
        lambda item: (item["name"], item["state"], item["started_at"] or "-", _health(item), item["summary"]),
        empty="no plugin here brings a service",
    )


def _show(cli: CliContext, item: ServiceLine) -> None:
    words = f"{item['name']} {item['state']}" + (f" (process {item['pid']})" if item["pid"] else "")
    cli.answer("service", item, words + (f": {item['reason']}" if item["reason"] else ""))


def _health(item: ServiceLine) -> str:
    return item["reason"] or (item["health"]["detail"] if item["health"] else "") or "-"

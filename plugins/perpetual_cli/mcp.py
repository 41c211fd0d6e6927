"""The command mcp: opens the lab's MCP server and serves."""

from __future__ import annotations

import gc
import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from perpetual import Lab
from perpetual.api import CliContext, PersonOption, UsageError, json_option, pass_cli

__all__ = ["mcp"]


@click.command()
@click.option(
    "--allow-approve",
    cls=PersonOption,
    is_flag=True,
    help="Let the client approve experiments, by a token of `approve --token`. [PERPETUAL_APPROVE_TOKEN]",
)
@click.option("--http", metavar="HOST:PORT", help="Listen there instead of standard input and output.")
@click.option(
    "--tools", type=click.Choice(["all", "core"]), default="all", envvar="PERPETUAL_MCP_TOOLS",
    help="core: the few that a campaign needs, for models with a small window. [PERPETUAL_MCP_TOOLS]",
)  # fmt: skip
@click.option(
    "--state/--no-state", default=True, envvar="PERPETUAL_MCP_STATE",
    help="Whether the instructions hold the state; not where a hook brings it. [PERPETUAL_MCP_STATE]",
)  # fmt: skip
@json_option
@pass_cli
def mcp(cli: CliContext, allow_approve: bool, http: str | None, tools: str, state: bool) -> None:
    """Serve the lab to an agent over the Model Context Protocol, until the agent leaves."""
    token, cli.approve_token = cli.approve_token, None
    # A client waits for the first answer, and what is imported until then is kept: collecting it over and over in
    # between is a tenth of the time.
    gc.disable()
    with _prints_to_stderr():
        lab = cli.lab
        root, safe = lab.root, cli.safe
        if http is not None or allow_approve:
            lab.trust.require("serving this project" if http is not None else "approving over MCP")
        server = lab.part("mcp")
        gc.freeze()
        gc.enable()
        # A record that cannot be read is said here, with its exit status, rather than to a client that shows nothing.
        lab.status()
        if allow_approve:
            lab.experiments.redeem(token)
        cli.close()  # the client's lab acts in the client's name, and some stores take one writer at a time

    def open_lab(actor: str) -> Lab:
        return Lab.open(root, actor=actor, safe=safe)

    # Named only where they were chosen: a server of another distribution may be older than they are.
    chosen: dict[str, Any] = {**({} if tools == "all" else {"tools": tools}), **({} if state else {"state": False})}
    known = inspect.signature(server.serve).parameters
    if "tools" in chosen and "tools" not in known:
        raise UsageError("the chosen MCP server offers all its tools at once", hint="perpetual config get mcp")
    chosen = {name: value for name, value in chosen.items() if name in known}
    server.serve(open_lab, allow_approve=allow_approve, http=http, **chosen)


@contextmanager
def _prints_to_stderr() -> Iterator[None]:
    """Sends prints of plugins and their children to stderr while the lab is opened: stdout carries the protocol."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them is closed: the server says so where it needs it
        yield
        return
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)

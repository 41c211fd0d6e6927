"""Environment of a run: that of its launcher, kept from the moment it is queued, whichever process starts it later.

One launch writes one file, `.perpetual/environments/ID.json` (0600), in the transaction that makes its runs, and each
run names it. Secrets are kept by their names alone and read when the run starts. The file is marked with the key of
this user's trust record: one that came with a project counts for nothing. It goes once no run may start from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from perpetual.errors import ConfigError, PerpetualError
from perpetual.lab.context import Context
from perpetual.lab.experiments import approval_tokens
from perpetual.lab.kinds import RunRow
from perpetual.lab.ledger.runs import RunRecords
from perpetual.toolkit import confined
from perpetual.toolkit.agents import DISPATCH
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.causes import KEPT_BY_NAME
from perpetual.toolkit.run_folder import NONCE_VARIABLE
from perpetual.toolkit.secret import follow

__all__ = ["keep", "lacking", "of_run", "tidy"]

_FOLDER = "environments"
_LARGEST_BYTES = 16 << 20
_DROPPED = (*approval_tokens.FOR_A_SERVER, NONCE_VARIABLE, "PERPETUAL_TRUSTED", DISPATCH)
_UNKNOWN = "the environment in which it was queued is not known (perpetual kill {0}, then perpetual retry {0})"
_LACKING = f"needs {{}}, which is {KEPT_BY_NAME} (perpetual scan where it is exported, or set run_secrets)"


def keep(ctx: Context) -> str:
    """Writes this process's environment for the runs that the caller's transaction makes; returns its id."""
    values = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    secrets = [name for name, value in values.items() if ctx.redactor.in_variables({name: value}) is not None]
    for name in secrets:
        del values[name]
    id, kept = os.urandom(8).hex(), json.dumps({"values": values, "secrets": sorted(secrets)})  # ASCII: any byte lives
    confined.make_folder(ctx.folder / _FOLDER)
    write_atomic(_file(ctx, id), json.dumps({"mark": ctx.trust.vouch(f"environment {id}", [kept]), "kept": kept}))
    return id


def lacking(ctx: Context, run: RunRow) -> str | None:
    """Returns why a run cannot have the environment in which it was queued, with a way out; None if it can."""
    found = of_run(ctx, run)
    return found if isinstance(found, str) else None


def of_run(ctx: Context, run: RunRow) -> Mapping[str, str] | str:
    """Returns the environment in which a run was queued, its secrets read now; or why it cannot be had."""
    id = run.body.get("environment")
    try:
        found = json.loads(confined.read_bytes(_file(ctx, str(id)), limit=_LARGEST_BYTES)) if id else {}
        kept = found.get("kept")
        if not isinstance(kept, str) or not ctx.trust.vouches(f"environment {id}", [kept], found.get("mark")):
            return _UNKNOWN.format(run.id)
    except (OSError, ValueError, AttributeError, RecursionError):
        return _UNKNOWN.format(run.id)
    document = json.loads(kept)
    secrets = {name: _secret(ctx, name) for name in document["secrets"]}
    absent = [name for name, value in secrets.items() if value is None]
    if absent:
        return _LACKING.format(", ".join(absent))
    return {**document["values"], **{name: value for name, value in secrets.items() if value is not None}}


def _secret(ctx: Context, name: str) -> str | None:
    """Returns a secret of this process's environment, or of where the configuration says that it is kept."""
    if name in os.environ:
        return os.environ[name]
    for entry in ctx.config["run_secrets"]:
        known, _, reference = str(entry).partition("=")
        if known == name:
            try:
                return follow(f"run_secrets {name}", reference, ctx.config.root)
            except ConfigError:
                return None
    return None


def tidy(ctx: Context) -> None:
    """Removes the environments from which no run may start any longer."""
    try:
        there = [name for name in os.listdir(ctx.folder / _FOLDER) if name.endswith(".json")]
    except OSError:
        return
    try:
        if there and {*there} - _needed(ctx):
            with ctx.store.transaction():  # what another process has written for runs that it makes just now
                left = {*there} - _needed(ctx)
            for name in left:
                (ctx.folder / _FOLDER / name).unlink(missing_ok=True)
    except (OSError, PerpetualError):
        return  # the next look tidies


def _needed(ctx: Context) -> set[str]:
    again = bool(ctx.config.methodology["auto_retry"])
    live = [run.body for run in RunRecords(ctx).live() if run.body["status"] != "running" or again]
    return {f"{body['environment']}.json" for body in live if body.get("environment")}


def _file(ctx: Context, id: str) -> Path:
    return ctx.folder / _FOLDER / f"{os.path.basename(id)}.json"

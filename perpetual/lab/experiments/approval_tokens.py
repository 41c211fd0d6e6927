"""One-time tokens by which a person lets one MCP server approve. Floor 2.

`perpetual approve --token` prints one; `perpetual mcp --allow-approve` takes it from the environment and uses it up
before it serves. Only its hash is kept, in the user's own state folder: nothing in a project can make one. A token
counts for one project, for ten minutes, for the server that was first, and for none that an agent's shell starts.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from perpetual.errors import NotPermitted
from perpetual.lab.context import Context
from perpetual.lab.permissions import person_only
from perpetual.toolkit import user_state
from perpetual.toolkit.units import iso

__all__ = ["FOR_A_SERVER", "VALID_S", "VARIABLE", "issue", "redeem"]

VARIABLE = "PERPETUAL_APPROVE_TOKEN"
# What lets a client of a server approve, or reach it: the server starts runs, and none of them gets these.
FOR_A_SERVER = (VARIABLE, "PERPETUAL_MCP_TOKEN")
VALID_S = 600
_FOLDER = "approve-tokens"
_BYTES = 24
_LARGEST = 4096  # bytes of a kept hash's file
_HINT = f"perpetual approve --token prints one in your terminal; give it to the server as {VARIABLE}"


def issue(ctx: Context) -> dict[str, str]:
    """Makes a token for this project, as `Experiments.approval_token` says."""
    person_only(ctx, "a token that lets a server approve")
    ctx.trust.require("a token that lets a server approve")
    now = ctx.clock()
    folder = user_state.folder() / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    _clear(folder)
    token = secrets.token_urlsafe(_BYTES)
    ends = iso(now + timedelta(seconds=VALID_S))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(_file(folder, token), flags, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"project_id": ctx.config.project_id, "expires_at": ends}, file)
    return {"token": token, "expires_at": ends}


def redeem(ctx: Context, token: str | None) -> None:
    """Uses a token up, as `Experiments.redeem` says."""
    person_only(ctx, "letting a client approve")
    ctx.trust.require("letting a client approve")
    if not token:
        raise NotPermitted("no token lets this server approve", hint=_HINT)
    place = _file(Path(user_state.location()) / _FOLDER, token)
    try:
        with open(place, encoding="utf-8") as file:
            kept = json.loads(file.read(_LARGEST))
        if kept["project_id"] != ctx.config.project_id:
            raise NotPermitted(f"the token in {VARIABLE} is for another project", hint=_HINT)
        os.unlink(place)  # the one that removes it has it
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise NotPermitted(f"the token in {VARIABLE} is unknown or was used", hint=_HINT) from problem
    if iso(ctx.clock()) >= kept["expires_at"]:
        raise NotPermitted(f"the token in {VARIABLE} ended at {kept['expires_at']}", hint=_HINT)


def _file(folder: Path, token: str) -> Path:
    return folder / f"{hashlib.sha256(token.encode('utf-8', 'surrogateescape')).hexdigest()}.json"


def _clear(folder: Path) -> None:
    """Removes what has ended."""
    for file in folder.glob("*.json"):
        with suppress(FileNotFoundError):
            if file.lstat().st_mtime < time.time() - VALID_S:
                file.unlink()

"""Records of store migrations that this user began: without one, a `moving.json` is a stranger's and moves nothing.

The record is kept in the user's state folder under a nonce, which the plan carries. It binds the plan's content and the
project directory, so that neither a changed plan nor a copy of the project is finished. Used by `housing` alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from perpetual.toolkit import user_state
from perpetual.toolkit.atomic import dump_json, read_json, write_atomic
from perpetual.toolkit.confined import make_folder

__all__ = ["BACKUP", "CONFIG", "begin", "end", "is_ours", "wrong"]

BACKUP = re.compile(r"backups/[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# The keys of config.yaml that a migration writes, and what each may hold.
CONFIG = {"store": re.compile(r"[\w./-]{1,200}"), "project_id": re.compile(r"[ -~]{1,200}")}
_NONCE = re.compile(r"[0-9a-f]{32}")
_FOLDER = "moves"


def begin(folder: Path, plan: Mapping[str, object]) -> dict[str, object]:
    """Records a plan that is about to be decided; returns it with its nonce.

    Raises PerpetualError (state_not_writable), OSError.
    """
    place = user_state.folder() / _FOLDER
    make_folder(place)
    whole = {**plan, "nonce": secrets.token_hex(16)}
    record = {"format": 1, "plan": _digest(whole), **_identity(folder)}
    write_atomic(place / f"{whole['nonce']}.json", dump_json(record))
    return whole


def is_ours(folder: Path, plan: Mapping[str, object]) -> bool:
    """Returns whether this user decided exactly this plan in this very directory."""
    nonce = plan.get("nonce")
    if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
        return False
    try:
        record = read_json(_path(nonce))
    except (OSError, ValueError):
        return False
    if not isinstance(record, dict) or record.get("plan") != _digest(plan):
        return False
    here = _identity(folder)
    # A directory that was renamed keeps its inode; a file system mounted anew may give others.
    return bool(record.get("folder") == here["folder"] or record.get("inode") == here["inode"])


def end(plan: Mapping[str, object]) -> None:
    """Forgets a plan that was carried out. A record that stays does no harm."""
    with suppress(OSError):
        _path(str(plan["nonce"])).unlink(missing_ok=True)


def wrong(plan: object) -> str | None:
    """Returns what a plan says that no migration writes, or None."""
    if not isinstance(plan, dict) or plan.get("format") != 1:
        return "it is no plan of format 1"
    backup, config = plan.get("backup"), plan.get("config")
    if not isinstance(backup, str) or not BACKUP.fullmatch(backup):
        return "its backup is not backups/NAME"
    if not isinstance(config, dict):
        return "its config holds no keys"
    for key, value in config.items():
        form = CONFIG.get(key)
        if form is None or not isinstance(value, str) or not form.fullmatch(value):
            return f"it sets {key[:60]!r} to what no migration writes"
    return None


def _path(nonce: str) -> Path:
    return Path(user_state.location(), _FOLDER, f"{nonce}.json")


def _digest(plan: Mapping[str, object]) -> str:
    return hashlib.sha256(dump_json(dict(sorted(plan.items()))).encode()).hexdigest()


def _identity(folder: Path) -> dict[str, object]:
    return {"folder": os.path.realpath(folder), "inode": os.stat(folder).st_ino}

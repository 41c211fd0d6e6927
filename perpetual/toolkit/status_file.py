"""`status.json`: the status of a project, kept beside its store and trusted while nothing that it rests on has changed.

It carries the token of the store's head, of the evidence rules and of the configuration files that it was computed
from. Light: the fast path of the command line reads it. Floor 0.
"""

from __future__ import annotations

import json
import os

from perpetual.toolkit import confined

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from perpetual.documents.status import LabStatus

__all__ = ["FIRST_STEP", "RULES", "RULES_FILE", "STATUS_FILE", "has_stopped", "read_status", "token_of"]

STATUS_FILE = "status.json"
FIRST_STEP = "perpetual run 'python train.py' --metric NAME --direction max --replicates 4 --wait  (a baseline)"
_LARGEST_BYTES = 16 * 1024 * 1024
RULES_FILE = "rules.json"
RULES = 3  # 3: e-values valid under any noise, stale comparisons decide nothing


def token_of(folder: str, head: str) -> str:
    """Returns what a status was computed from.

    The store's head, the evidence rules, the stats of the configuration files.
    """
    parts = [head, f"rules{RULES}"]
    for name in ("config.yaml", "methodology.yaml"):
        try:
            seen = os.lstat(os.path.join(folder, name))
            parts.append(f"{seen.st_ino}-{seen.st_size}-{seen.st_mtime_ns}")
        except FileNotFoundError:
            parts.append("-")
    from perpetual.toolkit.trust_path import stamp

    parts.append(stamp(os.path.dirname(folder)))
    return "/".join(parts)


def has_stopped(folder: str, run_id: str) -> bool:
    """Returns whether a run of the `.perpetual/` folder had a supervisor on this machine that is gone."""
    import fcntl

    try:
        path = os.path.join(folder, "runs", run_id, "supervisor.lock")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    except OSError:  # it is held, or the file system has no locks
        return False
    finally:
        os.close(descriptor)


def read_status(folder: str, token: str) -> LabStatus | None:
    """Returns the kept status document of the `.perpetual/` folder, if it is of exactly the state of that token."""
    try:
        kept = json.loads(confined.read_bytes(os.path.join(folder, STATUS_FILE), limit=_LARGEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(kept, dict) or kept.get("token") != token:
        return None
    document: LabStatus | None = kept.get("document")
    brief = document.get("brief") if isinstance(document, dict) else None
    if not isinstance(brief, dict) or "is_redacted" not in brief:
        return None  # of an earlier version: it does not say what agents are shown, and may hold secrets
    return document

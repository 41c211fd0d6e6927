"""The files of a project's services: process, start and health of each. Floor 0; light, for the instant commands.

`NAME.lock` is held by the process that runs the service, and by nothing else: whether it runs is asked of the operating
system. `NAME.json` says the rest, in the words of that process. `NAME.stop` asks it to end.
"""

from __future__ import annotations

import json
import os

from perpetual.toolkit import confined
from perpetual.toolkit.lock import is_locked

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from perpetual.documents.status import ServiceNow

__all__ = ["FOLDER", "path_of", "service_states", "state_of"]

FOLDER = "services"
_LARGEST_BYTES = 64 * 1024
_EXTENSION = ".lock"


def path_of(folder: str, name: str, extension: str) -> str:
    """Returns the path of a service's file in the project directory `folder`."""
    return os.path.join(folder, FOLDER, f"{name}.{extension}")


def service_states(folder: str) -> list[ServiceNow]:
    """Returns the state of every service that ever ran in the project directory `folder`, by name."""
    try:
        names = sorted(os.listdir(os.path.join(folder, FOLDER)))
    except OSError:
        return []
    return [state_of(folder, name[: -len(_EXTENSION)]) for name in names if name.endswith(_EXTENSION)]


def state_of(folder: str, name: str) -> ServiceNow:
    """Returns `{name, state, pid, started_at, ended_at, health, reason}` of one service.

    `state` is starting, running, stopped or failed; `health` is `{ok, detail, hint}` as the service said last, null
    unless it runs; `reason` says how it failed.
    """
    try:
        said = json.loads(confined.read_bytes(path_of(folder, name, "json"), limit=_LARGEST_BYTES))
    except (OSError, ValueError, RecursionError):
        said = {}
    said = said if isinstance(said, dict) else {}
    is_running = is_locked(path_of(folder, name, "lock"))
    reason = said.get("reason")
    if not is_running and said.get("ended_at") is None and said.get("started_at") is not None:
        reason = "it ended without saying why (killed, or the machine went down)"
    return {
        "name": name,
        "state": ("running" if said.get("serves") else "starting") if is_running else "failed" if reason else "stopped",
        "pid": said.get("pid") if is_running else None,
        "started_at": said.get("started_at"),
        "ended_at": None if is_running else said.get("ended_at"),
        "health": said.get("health") if is_running else None,
        "reason": None if is_running else reason,
    }

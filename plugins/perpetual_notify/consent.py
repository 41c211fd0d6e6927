"""Where notices may go: what a person of this machine has accepted for a notifier, as a mark of its target.

A project's file may name any server and any program, and may come from elsewhere. So a notifier sends only to a target
that was accepted here. The mark is made with a secret of this user that lies outside of the project: nothing in the
project's folder makes one, and a target that differs has another.
"""

from __future__ import annotations

import hmac
import json
from typing import TYPE_CHECKING

from perpetual.api import NotPermitted
from perpetual.toolkit import confined, user_state
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.lock import FileLock
from perpetual.toolkit.readers import FOR_A_PERSON

if TYPE_CHECKING:
    from pathlib import Path

    from perpetual import Lab
    from perpetual_notify.notifier import Notifier

__all__ = ["FOLDER", "accept", "folder_of", "is_accepted", "require_person"]

FOLDER = "notify"  # below `.perpetual`
_FILE = "accepted.json"
_LARGEST_BYTES = 256 * 1024


def folder_of(lab: Lab) -> Path:
    """Returns the folder of the outbox, which need not exist."""
    return lab.root / ".perpetual" / FOLDER


def require_person(lab: Lab, deed: str) -> None:
    """Raises NotPermitted where an agent asks."""
    if lab.settings.withholds:
        raise NotPermitted(f"{deed} is for a person", hint=FOR_A_PERSON)


def is_accepted(lab: Lab, name: str, notifier: Notifier) -> bool:
    """Returns whether a notifier may send to its target; raises ConfigError where it has none."""
    target = notifier.target()
    if not target:
        return True
    given = _marks(lab).get(name)
    return given is not None and hmac.compare_digest(given, _mark(lab, name, target))


def accept(lab: Lab, name: str, notifier: Notifier) -> None:
    """Lets a notifier send to the target that it has now.

    Raises:
        NotPermitted: under a coding agent's shell or in an agent's name, and in a project that is held.
        ConfigError: where it has none.
    """
    lab.trust.require("accepting a notifier")
    require_person(lab, "accepting where notices go")
    lab.trust.refuse_agents()
    target = notifier.target()
    if not target:
        return
    folder = folder_of(lab)
    confined.make_folder(folder)
    with FileLock(folder / "accepted.lock"):
        write_atomic(folder / _FILE, json.dumps({**_marks(lab), name: _mark(lab, name, target)}))


def _mark(lab: Lab, name: str, target: str) -> str:
    text = json.dumps(["notify", lab.config.project_id, str(lab.root), name, target])
    return hmac.new(user_state.secret(), text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def _marks(lab: Lab) -> dict[str, str]:
    try:
        found = json.loads(confined.read_bytes(folder_of(lab) / _FILE, limit=_LARGEST_BYTES))
        return {str(name): str(mark) for name, mark in found.items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}

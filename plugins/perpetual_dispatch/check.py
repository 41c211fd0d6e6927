"""The check `queue-moves`: whether runs that wait will be started with no terminal open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from perpetual import Lab
from perpetual.api import Check, Finding, Section, StatusSection
from perpetual.toolkit import confined, lock
from perpetual.toolkit.causes import KEPT_BY_NAME
from perpetual_dispatch.dispatcher import FAILURE, FOLDER
from perpetual_supervisor.mover import LOCK, WAKE

__all__ = ["QueueMoves", "build", "failure_of"]

_LARGEST_BYTES = 64 * 1024
_NAMED = 3  # runs in a line


class QueueMoves(Check):
    """Says whether the last process that moved the queue failed, or was killed before it was done."""

    def examine(self, lab: Lab) -> Finding:
        """Returns what the process has left behind."""
        if not lab.config["queue_moves"]:
            return Finding(None, "queue_moves is off: perpetual wait or perpetual scan starts what waits")
        folder = lab.root / ".perpetual" / FOLDER
        why = failure_of(folder)
        if why is not None:
            return Finding(False, f"what moves the queue has failed: {why}", "perpetual scan does the same")
        if not folder.is_dir():
            return Finding(True, "no run has ended yet that would move the queue")
        if any(name.name.startswith(WAKE) for name in folder.iterdir()) and not _is_at_work(folder):
            return Finding(False, "what moves the queue was ended before it was done", "perpetual scan goes on")
        return Finding(True, "a run that ends starts what waits")


def _is_at_work(folder: Path) -> bool:
    return (folder / LOCK).exists() and lock.is_locked(folder / LOCK)


def failure_of(folder: Path) -> str | None:
    """Returns why the last process that moved the queue failed; None if it did not."""
    try:
        found = json.loads(confined.read_bytes(folder / FAILURE, limit=_LARGEST_BYTES))
        return f"{found['message']} ({found['code']})"
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return "how is not known"


def build(options: Mapping[str, object]) -> QueueMoves:
    """Builds the check; it has no options."""
    return QueueMoves()


class Stopped(StatusSection):
    """Says that the queue does not move, where that is so; the status is kept until something is recorded."""

    def show(self, lab: Lab) -> Section | None:
        """Returns why, None where nothing is wrong."""
        if not lab.config["queue_moves"]:
            return None
        why = failure_of(lab.root / ".perpetual" / FOLDER)
        if why is None:
            return _lacking(lab)
        return Section("queue", [f"nothing starts by itself: {why}", "perpetual doctor says more"], {"failure": why})


def _lacking(lab: Lab) -> Section | None:
    """Returns which runs wait for a secret that no process has: with no terminal open they wait for ever."""
    runs = {run.id: run.reason for run in lab.queue.waiting().items if run.reason and KEPT_BY_NAME in run.reason}
    if not runs:
        return None
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    why = next(iter(runs.values()))
    return Section("queue", [f"{', '.join([*runs][:_NAMED])}{more}: {why}"], {"lacking": [*runs]})


def build_section(options: Mapping[str, object]) -> Stopped:
    """Builds the section; it has no options."""
    return Stopped()

"""Whether a person of this machine has approved what a trial or a bisection runs.

A project's record may come from elsewhere, with trials that say that they are running. So the approval is a mark of all
that will be run, made with a secret of this user that lies outside of the project. Another user's mark does not count,
nor one of other commands.
"""

from __future__ import annotations

import hmac
import json
from typing import TYPE_CHECKING

from perpetual.toolkit import user_state

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record

__all__ = ["counts", "mark_of"]


def mark_of(lab: Lab, record: Record) -> str:
    """Returns the mark of a trial or a bisection: of its project, its id and its tasks, and how often they run."""
    bound = ["replay", lab.config.project_id, record.id, record["tasks"], record["max_pairs"]]
    text = json.dumps(bound, sort_keys=True, separators=(",", ":"))
    return hmac.new(user_state.secret(), text.encode(), "sha256").hexdigest()


def counts(lab: Lab, record: Record, *, of: Record | None = None) -> bool:
    """Returns whether what a record runs was approved here.

    Args:
        lab: the lab.
        record: a trial or a bisection.
        of: of a comparison its bisection, whose approval it has; it may run no other tasks.
    """
    if of is not None:
        allowed = [_run_of(task) for task in of["tasks"]]
        return counts(lab, of) and all(_run_of(task) in allowed for task in record["tasks"])
    mark = record.fields.get("mark")
    return isinstance(mark, str) and hmac.compare_digest(mark, mark_of(lab, record))


def _run_of(task: dict[str, object]) -> tuple[object, ...]:
    """Returns what a task runs, and where."""
    return task["command"], task["cwd"], task["gpus"], task["wall_s"]

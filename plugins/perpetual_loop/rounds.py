"""The end of a turn of a session that /auto has armed: go on with another round, or stop, and why.

One rule for the Stop hooks of Claude Code and Codex and for the idle loop of OpenCode.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from perpetual.toolkit import confined
from perpetual.toolkit.fence import neutralise
from perpetual.toolkit.readers import agent_steps, is_waiting
from perpetual.toolkit.service_state import path_of
from perpetual.toolkit.units import counted, iso
from perpetual_loop.lease import DAEMON, LEASE_S, Lease, is_dispatched, lease_of, process_fields, put, release

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.documents.status import LabStatus
    from perpetual.toolkit.platform import Identity

__all__ = ["REASONS", "Decision", "clear_stop", "decide", "stop_path"]

# reason -> what it means
REASONS: dict[str, str] = {
    "not_armed": "no /auto is in force for this session",
    "dispatched": "the lab drives this session itself",
    "loop_owned": "another session or the daemon has taken the loop",
    "rounds": "as many rounds as were asked for have been made",
    "stop_requested": "a person asked for the stop",
    "held": "the project waits for a person to accept it",
    "budget_exhausted": "no budget is left",
    "no_news": "the last turn recorded nothing",
    "waiting_for_person": "only a person's work is left",
    "nothing_to_do": "every hypothesis is decided or parked",
}
_QUIET = ("not_armed", "dispatched")
_MOST_STEPS, _LONGEST_STEP, _MOST_RUNS = 3, 200, 5


@dataclass(frozen=True, slots=True)
class Decision:
    """What a session does at the end of a turn.

    - `text`: what it goes on with; None where it stops.
    - `reason`, `explanation`: why it stops, a key of `REASONS` and words; None where it goes on.
    - `rounds_left`: further rounds after this decision.
    """

    text: str | None
    reason: str | None = None
    explanation: str | None = None
    rounds_left: int | None = None

    @property
    def goes_on(self) -> bool:
        """Returns whether another round is to be made."""
        return self.text is not None

    @property
    def was_armed(self) -> bool:
        """Returns whether /auto was in force for the session until now."""
        return self.reason not in _QUIET


def stop_path(lab: Lab) -> str:
    """Returns the path of the file that ends /auto, beside the one by which a service is asked to end."""
    return path_of(os.path.join(lab.root, ".perpetual"), "auto", "stop")


def clear_stop(lab: Lab) -> None:
    """Removes the stop file: a person has started /auto anew."""
    path = stop_path(lab)
    if confined.look(path) is not None:
        os.unlink(path)


def decide(
    lab: Lab, session: str, *, process: Identity | None = None, now: datetime | None = None
) -> Decision:  # fmt: skip
    """Decides at the end of a turn of a session; where it goes on, a round is used and the lease renewed.

    Args:
        lab, session, now: as `arm` takes them.
        process: the session's process, where it is another one since, as of a session that was resumed.

    Raises:
        PerpetualError: if the record cannot be read or written; then nothing goes on.
    """
    if is_dispatched():
        return Decision(None, "dispatched", REASONS["dispatched"])
    now = now or datetime.now(UTC)
    found = lease_of(lab)
    if found is None or found.session != session or found.harness == DAEMON:
        return Decision(None, "not_armed", REASONS["not_armed"])
    status = lab.status()  # before the transaction: computing it takes a while
    with lab.transaction():
        found = lease_of(lab)
        if found is None or found.session != session:
            return Decision(None, "loop_owned", REASONS["loop_owned"])
        if not found.is_held:
            return Decision(None, "not_armed", REASONS["not_armed"])
        why = _stop_reason(lab, found, status)
        if why is not None:
            release(lab, session, reason=why[0], explanation=why[1])
            return Decision(None, *why, rounds_left=found.rounds_left)
        left = None if found.rounds_left is None else found.rounds_left - 1
        kept = None if found.process is None else [*found.process, found.host]
        fields: dict[str, object] = {
            "rounds_left": left, "process": kept if process is None else process_fields(process),
            "seq": lab.feed.last(),
            "renewed_at": iso(now), "until": iso(now + timedelta(seconds=LEASE_S)),
        }  # fmt: skip
        put(lab, found, **fields)
    return Decision(_text(status, left, _steps(lab, status)), rounds_left=left)


def _stop_reason(lab: Lab, found: Lease, status: LabStatus) -> tuple[str, str] | None:
    """Returns why a session that has the lease stops, as (reason, explanation), or None."""
    if status["trust"]["state"] == "held":
        return "held", REASONS["held"]
    if confined.look(stop_path(lab)) is not None:
        return "stop_requested", f"a person left the file {os.path.relpath(stop_path(lab), lab.root)}"
    if found.rounds_left is not None and found.rounds_left < 1:
        asked = found.rounds or 0
        return "rounds", f"{asked} of {counted(asked, 'further round')} made"
    if (spent := _spent(status)) is not None:
        return "budget_exhausted", spent
    if not any(not event.kind.startswith("loop.") for event in lab.feed.read(since=found.seq)):
        live = [run["id"] for run in status["runs"]["active"]]
        return "no_news", REASONS["no_news"] + (f"; still live: {', '.join(live[:_MOST_RUNS])}" if live else "")
    if not _steps(lab, status):
        reason = "waiting_for_person" if status["approvals_waiting"] else "nothing_to_do"
        return reason, REASONS[reason]
    return None


def _spent(status: LabStatus) -> str | None:
    """Returns which limit of the budget is used up, None where none is."""
    budget = status["budget"]
    gpu, limit = budget["limit_gpu_hours"], budget["limit_run_hours"]
    if gpu is not None and budget["spent_gpu_hours"] >= gpu > 0:
        return f"all {gpu:g} GPU-hours are spent"
    if limit is not None and budget["run_hours"] >= limit:
        return f"all {limit:g} run-hours are used"
    return None


def _steps(lab: Lab, status: LabStatus) -> list[str]:
    """Returns the next steps that are an agent's own."""
    if lab.config.methodology["agents_may_approve"]:
        steps = [step for step in status["next"] if not step.startswith("perpetual trust")]
    else:
        steps = [step for step in agent_steps(status["next"]) if not is_waiting(step)]
    return [step for step in steps if not step.startswith("perpetual report")]


def _text(status: LabStatus, left: int | None, steps: list[str]) -> str:
    """Returns what a session goes on with, in the lab's own words."""
    after = "" if left is None else f" ({left} left after it)"
    lines = [f"Go on with the next round of /auto{after}, or say why you stop.", "Next:"]
    lines += [f"- {neutralise(step, _LONGEST_STEP)}" for step in steps[:_MOST_STEPS]]
    if live := [run["id"] for run in status["runs"]["active"]]:
        shown = ", ".join(live[:_MOST_RUNS])
        lines.append(
            f"Live: {shown}. Where you need one's result, wait for it within this turn, with the tool perpetual_wait "
            f"or `perpetual wait {live[0]} --timeout 3600`: ending the turn to wait uses up a round."
        )
    return "\n".join(lines)

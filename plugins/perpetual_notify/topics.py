"""Which events a person is sent, and in which words.

The words are made when the event is read, and kept in the outbox: what is sent again reads the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import NotFound, line

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Event

__all__ = ["FAILURES_IN_A_ROW", "Words", "is_of_interest", "words_of"]

FAILURES_IN_A_ROW = 3  # of runs; sent again at each doubling
_BROKEN = frozenset({"failed", "timeout", "lost"})
_ASKED_FOR = frozenset({"stop_requested", "max_cycles"})  # stops that a person has asked for
_PAUSED = "paused"
_ADOPTED = "adopted"  # the scheduler of a run that was imported
_DIGEST = "digest."
_STOPS = {
    "all_decided": "every hypothesis is decided",
    "queue_empty": "nothing is left to run",
    "budget_exhausted": "the budget is spent",
    "waiting_for_approval": "the loop waits for your approval",
    "no_progress": "the last runs moved no hypothesis",
    "failure_rate": "too many runs failed",
    "harness_down": "no model or harness answers",
}
_WAYS = {
    "all_decided": "perpetual report",
    "queue_empty": "perpetual propose",
    "budget_exhausted": "perpetual budget set GPU_HOURS",
    "no_progress": "perpetual brief",
    "failure_rate": "perpetual runs --status failed",
    "harness_down": "perpetual doctor",
}
_DECISIONS = frozenset({"supported", "refuted", "parked"})
_MOST_NAMED = 5


class Words(NamedTuple):
    """What is sent of an event."""

    kind: str
    title: str
    text: str


def is_of_interest(event: Event) -> bool:
    """Returns whether an event may be sent, or counts towards one that is."""
    return event.kind in _MAKERS or event.kind.startswith(_DIGEST)


def words_of(lab: Lab, event: Event, failures: int) -> tuple[Words | None, int]:
    """Returns what is sent of an event, None for nothing, and the number of runs in a row that have failed since.

    Args:
        failures: that number before the event.
    """
    if event.kind == "run_status":
        return _of_run(lab, event, failures)
    if event.kind.startswith(_DIGEST):
        return _digest(event), failures
    make = _MAKERS.get(event.kind)
    return None if make is None else make(lab, event), failures


def _of_run(lab: Lab, event: Event, failures: int) -> tuple[Words | None, int]:
    to = event.payload.get("to")
    if to == "done":
        return None, 0
    if to not in _BROKEN:
        return None, failures
    if _is_adopted(lab, event.subject):
        return None, failures
    failures += 1
    if failures < FAILURES_IN_A_ROW or failures % FAILURES_IN_A_ROW or not _is_power(failures // FAILURES_IN_A_ROW):
        return None, failures
    reason = event.payload.get("reason")
    text = f"{event.subject} of {event.payload.get('experiment_id')} {to}" + (f": {reason}" if reason else "")
    return Words("failures", f"{failures} runs in a row failed", f"{text}\nperpetual logs {event.subject}"), failures


def _is_adopted(lab: Lab, id: str) -> bool:
    """Returns whether a run is of earlier work, which failed elsewhere."""
    try:
        return lab.runs.get(id).scheduler == _ADOPTED
    except NotFound:
        return False


def _is_power(number: int) -> bool:
    return number & (number - 1) == 0


def _stopped(lab: Lab, event: Event) -> Words | None:
    reason = str(event.payload.get("reason"))
    if reason in _ASKED_FOR:
        return None
    title = f"stopped: {_STOPS.get(reason, reason)}"
    if reason == "waiting_for_approval":
        return Words("waits", title, _waiting(lab))
    saw = line(str(event.payload.get("explanation") or ""))
    lines = [*filter(None, [saw]), f"after {event.payload.get('cycles')} cycles ({reason})",
             *([_WAYS[reason]] if reason in _WAYS else [])]  # fmt: skip
    return Words("stops", title, "\n".join(lines))


def _waits(lab: Lab, event: Event) -> Words | None:
    """Returns what the daemon waits for while it stays; a pause that ends by itself needs no person."""
    reason, why = str(event.payload.get("reason")), str(event.payload.get("explanation") or "")
    if reason == _PAUSED:
        return None
    way = _waiting(lab) if reason == "waiting_for_approval" else _WAYS.get(reason, "")
    return Words("waits", f"the daemon waits: {_STOPS.get(reason, reason)}", "\n".join([*filter(None, [why, way])]))


def _waiting(lab: Lab) -> str:
    """Returns what waits for approval now, a line each, and how to approve it."""
    found = [item for item in lab.experiments.all(status="proposed") if not item.archived]
    if not found:
        return "perpetual status shows what it waits for"
    lines = [f"{item.id}: {item.title}" for item in found[:_MOST_NAMED]]
    more = [f"and {len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return "\n".join([*lines, *more, f"perpetual approve {found[0].id}"])


def _decided(lab: Lab, event: Event) -> Words | None:
    to = str(event.payload.get("to"))
    if to not in _DECISIONS:
        return None
    confidence, bound = event.payload.get("confidence"), event.payload.get("false_alarm_bound")
    lines = [_statement(lab, event.subject)]
    if isinstance(confidence, (int, float)):
        lines.append(f"confidence {confidence:.3g}")
    if isinstance(bound, (int, float)) and to != "parked":
        lines.append(f"were it otherwise, at most {bound:.2g} of labs would come to this verdict")
    return Words("decisions", f"{event.subject} is {to}", "\n".join([*filter(None, lines)]))


def _statement(lab: Lab, id: str) -> str:
    try:
        return lab.hypotheses.get(id).statement
    except NotFound:
        return ""


def _asked(lab: Lab, event: Event) -> Words:
    """Returns what a persistent agent asks a person, and how to answer."""
    approval, question = event.payload.get("approval"), event.payload.get("question")
    if question:
        return Words("waits", f"the agent {event.subject} asks a question",
                     f"{line(str(question))}\nperpetual agent approve {approval} --answer TEXT")  # fmt: skip
    return Words("waits", f"the agent {event.subject} waits for your approval",
                 f"it wants to call {line(str(event.payload.get('tool')))}\n"
                 f"perpetual agent approvals {event.subject}\nperpetual agent approve {approval}")  # fmt: skip


def _paused(lab: Lab, event: Event) -> Words | None:
    """Returns why a persistent agent rests that no person has paused."""
    to = str(event.payload.get("to"))
    if to not in ("paused", "error") or not event.actor.startswith("agent:"):
        return None
    return Words("waits", f"the agent {event.subject} is {'paused' if to == 'paused' else 'in error'}",
                 f"{line(str(event.payload.get('reason') or ''))}\nperpetual agent resume {event.subject}")  # fmt: skip


def _overrun(lab: Lab, event: Event) -> Words:
    return Words("budget", f"{event.subject} takes longer than its budget", f"perpetual runs {event.subject}")


def _digest(event: Event) -> Words | None:
    text = next((event.payload[key] for key in ("text", "markdown", "digest") if event.payload.get(key)), None)
    if not isinstance(text, str):
        return None
    return Words("digest", str(event.payload.get("title") or "digest"), text)


_MAKERS: dict[str, Callable[[Lab, Event], Words | None]] = {
    "run_status": lambda lab, event: None,
    "loop_stopped": _stopped,
    "hypothesis_status": _decided,
    "budget_overrun": _overrun,
    "daemon.waits": _waits,
    "agents.asked": _asked,
    "agents.moved": _paused,
}

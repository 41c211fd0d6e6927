"""What has happened since an event of the feed, and what goes on now. Used by `perpetual_scan` and `perpetual_wait`.

The news are read from the feed, so they do not depend on which process recorded them: a scan of another session, the
daemon or a command takes nothing away.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual import Lab
from perpetual.api import NotFound, PerpetualError, Run, UsageError, to_json
from perpetual.toolkit.units import posix_of
from perpetual_mcp.bounds import plain
from perpetual_mcp.read_tools import evidence_line, say_evidence

if TYPE_CHECKING:
    from perpetual_mcp.read_tools import EvidenceLine
    from perpetual_mcp.schemas import LiveLine


__all__ = ["LIVE", "Live", "News", "live_lines", "live_now", "news_since", "say_live", "shown_left", "shown_seconds"]

LIVE = ("queued", "launching", "running")

MOST_EVENTS = 5000  # that one answer is made of; older ones are left out, which `truncated` says
_MOST_LIVE = 20
_MOST_SAID = 5
_MINUTE_S, _HOUR_S = 60, 3600
# Events that get a line beside the runs and verdicts; {0} is the subject.
_OTHERS = {
    "experiment_approved": "{0} was approved",
    "approval_accepted": "the approval of {0} was accepted",
    "experiment_rejected": "{0} was rejected",
    "budget_set": "the budget was set",
    "budget_overrun": "{0} runs longer than what was reserved for it",
    "run_tainted": "{0} is tainted: what it measures weighs nothing",
    "methodology_set": "the methodology's {0} was set",
    "loop_stopped": "the loop stopped",
}


class News(NamedTuple):
    """What has happened after an event, in the order in which it was recorded.

    Attributes:
        seq: the newest event that was read.
        is_whole: no event was left out.
    """

    seq: int
    changes: list[Mapping[str, object]]
    verdicts: list[Mapping[str, object]]
    evidence: list[EvidenceLine]
    others: list[str]
    is_whole: bool

    def lines(self) -> list[str]:
        """Returns the news in words, a line each."""
        said = [
            f"{item['run_id']} of {item['experiment_id']}: {item['from']} -> {item['to']}"
            + (f" ({plain(item['reason'], 120)})" if item["reason"] else "")
            for item in self.changes
        ]
        said += map(say_evidence, self.evidence)
        said += [
            f"{item['hypothesis_id']}: {item['from']} -> {item['to']}"
            + (f". {plain(item['sentence'], 300)}" if item["sentence"] else "")
            for item in self.verdicts
        ]
        return [*said, *self.others]


def news_since(lab: Lab, since: int) -> News:
    """Returns what has happened after the event `since`; states in between are left out.

    Raises:
        UsageError: for an event that there is not yet.
    """
    last = lab.feed.last()
    if not 0 <= since <= last:
        raise UsageError(f"the newest event is {last}, so nothing is since {since}", hint=f"since={last}")
    events = [event for event in lab.events(since=max(since, last - MOST_EVENTS)) if event.seq <= last]
    runs: dict[str, dict[str, object]] = {}
    claims: dict[str, dict[str, object]] = {}
    evidence: list[EvidenceLine] = []
    others: list[str] = []
    for event in events:
        payload, subject = event.payload, event.subject
        if event.kind == "run_status":
            first = runs.setdefault(subject, {"from": payload["from"]})
            first |= {"run_id": subject, "experiment_id": payload["experiment_id"], "to": payload["to"]}
            first["reason"] = payload["reason"]
        elif event.kind == "hypothesis_status":
            claims.setdefault(subject, {"from": payload["from"]})
            claims[subject] |= {"hypothesis_id": subject, "to": payload["to"], "confidence": payload.get("confidence")}
        elif event.kind == "evidence_added":
            evidence += _row(lab, subject)
        elif event.kind in _OTHERS:
            others.append(_OTHERS[event.kind].format(plain(subject, 60)))
        elif event.kind == "run_annotated":
            others.append(f"seen of {subject}: {plain(payload['text'], 200)}")
    verdicts: list[Mapping[str, object]] = []
    for id, found in claims.items():
        if found["from"] != found["to"]:
            now = lab.hypotheses.get(id)
            verdicts.append({**found, "sentence": now.sentence if now.status == found["to"] else None})
    changes = [found for found in runs.values() if found["from"] != found["to"]]
    others = [f"{text}{f' ({times} times)' if times > 1 else ''}" for text, times in _tallied(others)]
    return News(last, [*changes], verdicts, evidence, others, since >= last - MOST_EVENTS)


def _row(lab: Lab, id: str) -> list[EvidenceLine]:
    try:
        return [evidence_line(to_json(lab.evidence.get(id)))]
    except NotFound:
        return []


def _tallied(texts: Iterable[str]) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    return [*counts.items()]


# --- what goes on -----------------------------------------------------------------------------------------------------


class Live(NamedTuple):
    """What goes on now: the lines of live runs that do not wait, how many wait, and the next steps."""

    lines: list[LiveLine]
    queued: int
    next: list[str]

    def document(self) -> dict[str, object]:
        """Returns the keys of an answer."""
        return {"live": [*self.lines], "queued": self.queued, "next": self.next}

    def said(self) -> str:
        """Returns it on one line."""
        return say_live(self.lines, self.queued)


def live_now(lab: Lab, steps: list[str] | None = None) -> Live:
    """Returns what is live and queued now, and what to do next: `steps`, where the caller has read the status."""
    runs = lab.runs.live()
    waiting = [run for run in runs if run.status == "queued"]
    going = live_lines(lab, [run for run in runs if run.status != "queued"])
    return Live(going, len(waiting), lab.status()["next"] if steps is None else steps)


def live_lines(lab: Lab, runs: Sequence[Run]) -> list[LiveLine]:
    """Returns live runs in short, with the time that is left where something tells it; the first 20."""
    runs = runs[:_MOST_LIVE]
    try:
        known = lab.progress([run.id for run in runs if run.status == "running"])
    except PerpetualError:
        known = {}
    declared = {id: _declared_s(lab, id) for id in dict.fromkeys(run.experiment_id for run in runs)}
    return [_line(run, known.get(run.id, {}), declared[run.experiment_id]) for run in runs]


def _declared_s(lab: Lab, experiment_id: str) -> float | None:
    """Returns how long a run was declared to last: run-hours are hours of the wall clock times GPUs."""
    found = lab.experiments.get(experiment_id)
    hours = found.design.cost_run_hours
    return None if hours is None else round(hours * 3600 / max(1, found.resources.gpus), 1)


def _line(run: Run, known: Mapping[str, object], declared_s: float | None) -> LiveLine:
    elapsed = None if run.started_at is None else max(0.0, time.time() - posix_of(run.started_at))

    def number(name: str) -> float | None:
        found = known.get(name)
        return round(float(found), 1) if isinstance(found, int | float) else None

    return {
        "id": run.id,
        "experiment_id": run.experiment_id,
        "status": run.status,
        "elapsed_s": None if elapsed is None else round(elapsed, 1),
        "left_s": number("left_s"),
        "declared_s": declared_s,
        "step": number("step"),
        "total_steps": number("total_steps"),
        "reason": run.reason,
    }


def say_live(lines: Sequence[LiveLine], queued: int) -> str:
    """Returns live runs on one line: `live: r4 61% 12m left, r5 3m so far; 2 queued`."""
    shown = [f"{line['id']} {shown_left(line)}" for line in lines[:_MOST_SAID]]
    shown += [f"{len(lines) - _MOST_SAID} more"] if len(lines) > _MOST_SAID else []
    waits = f"; {queued} queued" if queued else ""
    return f"live: {', '.join(shown)}{waits}" if shown else f"no run is live{waits}"


def shown_left(line: LiveLine) -> str:
    """Returns how far a live run is: `61% 12m left`, or as much of that as is known."""
    step, total, parts = line["step"], line["total_steps"], []
    if step is not None and total:
        parts.append(f"{min(100.0, 100 * step / total):.0f}%")
    if line["left_s"] is not None:
        parts.append(f"{shown_seconds(line['left_s'])} left")
    elif line["elapsed_s"] is not None:
        of = "" if line["declared_s"] is None else f" of {shown_seconds(line['declared_s'])} declared"
        parts.append(f"{shown_seconds(line['elapsed_s'])} so far{of}")
    return " ".join(parts) or line["status"]


def shown_seconds(seconds: float) -> str:
    """Returns a time in a few characters: `42s`, `12m` or `2.5h`."""
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f}s"
    return f"{seconds / _MINUTE_S:.0f}m" if seconds < 2 * _HOUR_S else f"{seconds / _HOUR_S:.1f}h"

"""What a person does by a key: approve, end a run, pause the queue. Each shows all that it is about before it acts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpetual.api import Conflict, to_json
from perpetual_cli.approval import approved_text
from perpetual_watch.frame import Question

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment

__all__ = ["Deed", "approvals", "kills", "turn_queue"]

_MOST = 100


@dataclass
class Deed:
    """One thing that may be done; `do` returns what was done, in words."""

    question: Question
    doing: str
    do: Callable[[], str]


def approvals(lab: Lab) -> list[Deed]:
    """Returns a deed for each experiment that waits for approval, the oldest first."""
    found = lab.experiments.list(status="proposed", archived=False, limit=_MOST).items
    return [_approval(lab, item, place, len(found)) for place, item in enumerate(found, 1)]


def _approval(lab: Lab, item: Experiment, place: int, of: int) -> Deed:
    differs = lab.experiments.differences(item.id)
    text = approved_text(to_json(item), None if differs is None else {**differs})
    lines = [*text.split("\n"), *([f"  notes: {item.notes}"] if item.notes else [])]
    whole = json.dumps(item.config, ensure_ascii=False) if item.config else ""
    if whole not in text:  # what is approved is shown whole, however long
        lines.append(f"  config: {whole}")
    asks = f"approve {item.id}? y: yes, any other key: no" + (f"   arrows: {place} of {of}" if of > 1 else "")

    def do() -> str:
        if lab.experiments.get(item.id).spec_hash != item.spec_hash:
            raise Conflict(f"{item.id} changed while it was shown: nothing was approved", hint="look at it again")
        lab.experiments.approve(item.id)
        return f"approved {item.id}"

    return Deed(Question(f"Approve {item.id} for {item.hypothesis_id or 'no claim'}", lines, asks), "approving", do)


def kills(lab: Lab) -> list[Deed]:
    """Returns a deed for each run that is live or waits."""
    live = lab.runs.live()[:_MOST]
    now = lab.progress([run.id for run in live if run.status == "running"]) if live else {}
    deeds = []
    for place, run in enumerate(live, 1):
        experiment = lab.experiments.get(run.experiment_id)
        lines = [f"  {run.status}, replicate {run.replicate} of {run.experiment_id}: {experiment.title}"]
        if run.id in now:
            lines.append(f"  {now[run.id]['text']}")
        lines += [f"  command: {experiment.command}", "  what it has measured is kept; its end is recorded as killed"]
        asks = f"end {run.id}? y: yes, any other key: no" + (f"   arrows: {place} of {len(live)}" if live[1:] else "")
        deeds.append(Deed(Question(f"End {run.id}", lines, asks), f"ending {run.id}", _killer(lab, run.id)))
    return deeds


def _killer(lab: Lab, id: str) -> Callable[[], str]:
    def do() -> str:
        return f"{id} is {lab.runs.kill(id).status}"

    return do


def turn_queue(lab: Lab) -> str:
    """Pauses the queue, or lets it go on; returns its state in words."""
    if lab.queue.state() == "running":
        return f"the queue is {lab.queue.set_state('paused')}: nothing is started"
    state = lab.queue.set_state("running")
    if lab.queue.waiting(limit=1).items:
        if lab.queue.moves():
            lab.queue.keep_moving()
        elif lab.config["queue_moves"]:
            lab.scan()
    return f"the queue is {state}"

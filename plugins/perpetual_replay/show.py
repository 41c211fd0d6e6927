"""A trial as a document, and in words: its sentence, its table and its curve."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from perpetual.api import from_json
from perpetual_replay.evalues import curve, interval
from perpetual_replay.tasks import Task
from perpetual_replay.trials import Trials

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_replay.documents import Replay, TaskLine

__all__ = ["lines", "replay", "spark"]

_BARS = "▁▂▃▄▅▆▇█"


def replay(trials: Trials, lab: Lab, trial: Record, waits_for: str | None = None) -> Replay:
    """Returns the document of a trial."""
    pairs = trials.pairs_of(trial)
    differences = trials.differences(trial)
    verdict = trials.judge(trial)
    found = interval(differences)
    tasks: list[TaskLine] = []
    for name in dict.fromkeys(str(one["name"]) for one in trial["tasks"]):
        own = [pair for pair in pairs if pair["task"] == name]
        tasks.append({
            "task": name,
            "pairs": len(own),
            "score_with": math.fsum(float(pair["score_with"]) for pair in own) / len(own) if own else None,
            "score_without": math.fsum(float(pair["score_without"]) for pair in own) / len(own) if own else None,
        })  # fmt: skip
    known = [from_json(Task, one) for one in trial["tasks"]]
    worst = max((task.wall_s * max(1, task.gpus) for task in known), default=0.0)
    low, high = found or (None, None)
    return {
        "id": trial.id,
        "path": trial["note"],
        "blob": trial["blob"],
        "canary": trial["canary"],
        "state": trial["state"],
        "reason": trial["reason"],
        "approved_by": trial["approved_by"],
        "pairs": verdict.found.pairs,
        "max_pairs": trial["max_pairs"],
        "e_help": verdict.found.e_help,
        "e_harm": verdict.found.e_harm,
        "bar": verdict.bar if trial["bar"] is None else trial["bar"],
        "harm_bar": 1 / float(str(lab.options("replay")["harm_alpha"])),
        "effect": verdict.found.mean,
        "low": low,
        "high": high,
        "tasks": tasks,
        "curve": [[helps, harms] for helps, harms in curve(differences)],
        "live": _live(lab, trial),
        "waits_for": waits_for,
        "worst_case_run_hours": 2 * int(trial["max_pairs"]) * worst / 3600,
        "sentence": _sentence(trial, verdict.found.pairs, verdict.found.mean, low, high),
    }


def _live(lab: Lab, trial: Record) -> list[str]:
    if trial["state"] != "running":
        return []
    title = f"replay of {trial['note']}: "
    found = lab.runs.live()
    own = {one.id for one in (lab.experiments.get(run.experiment_id) for run in found) if one.title.startswith(title)}
    return [run.id for run in found if run.experiment_id in own]


def _sentence(trial: Record, count: int, mean: float | None, low: float | None, high: float | None) -> str:
    if mean is None:
        return "Not tested yet: no pair of runs is over."
    between = "" if low is None or high is None else f" (90 % interval {low:+.2f} to {high:+.2f}, at any stop)"
    effect = f"score {mean:+.2f}{between} over {count} pair{'s' * (count != 1)} on this project's replay tasks"
    words = {
        "helps": f"It helps: {effect}.",
        "harms": f"It harms: {effect}.",
        "undecided": f"Not shown to help, nor to harm: {effect}.",
    }
    return words.get(str(trial["state"]), f"Open: {effect}.")


def lines(document: Replay) -> list[str]:
    """Returns a trial for a person: sentence, table and curve."""
    found = [f"replay {document['id']}  {document['state']}  {document['sentence']}"]
    if document["reason"] and document["state"] not in ("helps", "harms", "undecided"):
        found.append(f"  {document['reason']}")
    if document["waits_for"]:
        found.append(f"  waits: {document['waits_for']}")
    if document["live"]:
        found.append(f"  running: {', '.join(document['live'])}")
    if not document["pairs"]:
        return found
    width = max(4, *(len(one["task"]) for one in document["tasks"]))
    found.append(f"  {'task':<{width}}  pairs   with  without  difference")
    for one in document["tasks"]:
        if one["score_with"] is None or one["score_without"] is None:
            found.append(f"  {one['task']:<{width}}  {0:>5}      -        -           -")
            continue
        found.append(
            f"  {one['task']:<{width}}  {one['pairs']:>5}  {one['score_with']:>5.2f}  {one['score_without']:>7.2f}"
            f"  {one['score_with'] - one['score_without']:>+10.2f}"
        )
    helps = [math.log(max(point[0], 1e-12)) for point in document["curve"]]
    found.append(
        f"  e-value that it helps: {document['e_help']:.3g} of {document['bar']:.3g}  {spark(helps)}"
        f"  that it harms: {document['e_harm']:.3g} of {document['harm_bar']:.3g}"
    )
    return found


def spark(values: Sequence[float], most: int = 40) -> str:
    """Returns the values as a line of bars, evenly thinned to `most`."""
    if not values:
        return ""
    if len(values) > most:
        values = [values[index * (len(values) - 1) // (most - 1)] for index in range(most)]
    low, high = min(values), max(values)
    span = high - low or 1.0
    return "".join(_BARS[round((value - low) / span * (len(_BARS) - 1))] for value in values)

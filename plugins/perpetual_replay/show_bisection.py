"""A bisection as a document, and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.api import from_json
from perpetual.toolkit.units import counted
from perpetual_replay.bisections import Bisections
from perpetual_replay.evalues import interval, weigh
from perpetual_replay.search import bar, halvings, most_comparisons
from perpetual_replay.tasks import Task
from perpetual_replay.trials import Trials

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_replay.bisections import Plan, State
    from perpetual_replay.documents import Bisection, Compared, FoundChange, MemoryState

__all__ = ["bisection", "change_in_words", "lines", "planned", "state_lines"]

_DEEDS = {
    "written": "was written", "promoted": "was promoted", "rejected": "was rejected",
    "quarantined": "was put into quarantine", "expired": "expired",
}  # fmt: skip


def planned(plan: Plan) -> Bisection:
    """Returns the document of a bisection that was not asked for."""
    return _document(plan.fields, plan.states)


def bisection(lab: Lab, record: Record, waits_for: str | None = None) -> Bisection:
    """Returns the document of a bisection."""
    bisections, trials = Bisections(lab), Trials(lab)
    made = bisections.trials_of(record)
    document = _document(record.fields, record["states"])
    by_id = {trial.id: _compared(trials, trial) for trial in made}
    document["id"], document["state"], document["reason"] = record.id, record["state"], record["reason"]
    document["approved_by"], document["waits_for"] = record["approved_by"], waits_for
    document["compared"] = [one for one in by_id.values() if one["pairs"]]
    place = bisections.place(record)
    document["unproven"] = place.unproven
    if record["state"] == "found":
        shown = [one["trials"][one["shown"]] for one in record["results"] if one["shown"] is not None]
        document["found"] = {
            "state": document["states"][place.high],
            "shown": place.shown,
            "by": by_id[shown[-1]] if place.shown else None,
            "confirmed": record["confirmed"],
            "confirmation": None if record["confirmation"] is None else by_id[record["confirmation"]],
        }
    if record["state"] == "running":
        document["live"] = _live(lab, made)
    document["sentence"] = _sentence(document)
    return document


def _document(fields: Mapping[str, object], states: Sequence[State]) -> Bisection:
    """Returns the document of a bisection of which nothing was run."""
    tasks = fields["tasks"]
    assert isinstance(tasks, list), tasks
    known = [from_json(Task, one) for one in tasks]
    worst = max(task.wall_s * max(1, task.gpus) for task in known)
    changes, pairs, alpha = len(states) - 1, int(str(fields["max_pairs"])), float(str(fields["alpha"]))
    document: Bisection = {
        "id": None, "state": "planned", "reason": None, "approved_by": None,
        "good": int(str(fields["good"])), "bad": int(str(fields["bad"])), "changes": int(str(fields["changes"])),
        "states": [_state(number, state) for number, state in enumerate(states)],
        "left_out": [" ".join(filter(None, one)) for one in _rows(fields["left_out"])],
        "tasks": [task.name for task in known], "alpha": alpha, "bar": bar(changes, alpha),
        "comparisons": most_comparisons(changes), "max_pairs": pairs,
        "worst_case_run_hours": most_comparisons(changes) * 2 * pairs * worst / 3600,
        "compared": [], "unproven": 0, "found": None, "live": [], "waits_for": None, "sentence": "",
    }  # fmt: skip
    document["sentence"] = _sentence(document)
    return document


def _rows(value: object) -> list[list[str | None]]:
    assert isinstance(value, list), value
    return value


def _state(number: int, state: State) -> MemoryState:
    return {"number": number, "seq": state["seq"], "time": state["time"], "path": state["path"], "deed": state["deed"],
            "before": state["before"], "after": state["after"]}  # fmt: skip


def _compared(trials: Trials, trial: Record) -> Compared:
    differences = trials.differences(trial)
    found = weigh(differences)
    found_interval = interval(differences)
    low, high = (None, None) if found_interval is None else found_interval
    words = str(trial["note"]).partition(", state ")[2].split()  # as `bisections` names it: `5 against 3`
    return {
        "trial": trial.id, "later": int(words[0]) if words else None, "earlier": int(words[2]) if words else None,
        "pairs": found.pairs, "e_value": found.e_harm, "bar": trial["bar"], "shown": found.e_harm >= trial["bar"],
        "effect": found.mean, "low": low, "high": high, "tasks": [one["name"] for one in trial["tasks"]],
    }  # fmt: skip


def _live(lab: Lab, made: Sequence[Record]) -> list[str]:
    titles = tuple(f"replay of {trial['note']}: " for trial in made)
    found = lab.runs.live()
    own = {one.id for one in (lab.experiments.get(run.experiment_id) for run in found) if one.title.startswith(titles)}
    return [run.id for run in found if run.experiment_id in own]


def change_in_words(state: MemoryState) -> str:
    """Returns what happened to a note: its path, the deed, and the versions that agents are shown."""
    deed = _DEEDS.get(str(state["deed"]), str(state["deed"]))
    before, after = (None if blob is None else blob[:10] for blob in (state["before"], state["after"]))
    if after is None:
        versions = f"version {before} is no longer shown"
    else:
        versions = f"version {after}" + (f" in place of {before}" if before else "")
    return f"{state['path']} {deed} ({versions}; event {state['seq']}, {state['time'][:16].replace('T', ' ')} UTC)"


def _effect(one: Compared) -> str:
    if one["effect"] is None:
        return "no pair"
    between = "" if one["low"] is None else f" (90 % interval {one['low']:+.2f} to {one['high']:+.2f}, at any stop)"
    return f"score {one['effect']:+.2f}{between} over {counted(one['pairs'], 'pair')}"


def _sentence(document: Bisection) -> str:
    found, changes = document["found"], len(document["states"]) - 1
    if found is not None:
        return f"{_found(document, found)} {_confirmed(found)}"
    if document["state"] == "none":
        if not document["compared"]:
            return "No fall: the tasks are shown the same in both states."
        return (f"No fall was shown between the two states: {_effect(document['compared'][0])}. Whether scores "
                "fell and rose again in between was not looked at.")  # fmt: skip
    of = f"{counted(changes, 'change')} of {document['changes']} {'reaches' if changes == 1 else 'reach'} the tasks"
    if document["state"] == "planned":
        return f"{of}; {counted(halvings(changes) + 1, 'step')} and a confirmation would be run."
    ends = next((one for one in document["compared"] if one["shown"]), None)
    if ends is None:
        return f"Open: no fall is shown between the two states yet; {of}."
    return f"Open: scores fell between the two states ({_effect(ends)}); {of}."


def _found(document: Bisection, found: FoundChange) -> str:
    said = change_in_words(found["state"])
    if found["by"] is not None:
        return f"Scores fell when {said}: {_effect(found['by'])}, the memory after it against the memory before it."
    return (f"Scores fell between the two states, and the search ends where {said}; that they fell there is not shown: "
            f"{counted(document['unproven'], 'step')} of it ran out of pairs.")  # fmt: skip


def _confirmed(found: FoundChange) -> str:
    one = found["confirmation"]
    where = "in the memory of the bad state, with this change against without it"
    if one is None:
        return "Not confirmed: in the memory of the bad state the tasks are shown the same without this change."
    if found["by"] is not None and one["trial"] == found["by"]["trial"]:
        return "Confirmed by the same pairs: in the bad state the tasks are shown the same."
    return f"{'Confirmed' if found['confirmed'] else 'Not confirmed'}: {_effect(one)}, {where}."


def state_lines(document: Bisection) -> list[str]:
    """Returns the states for a person, one a line."""
    found = []
    for state in document["states"]:
        what = f"the good state, after event {state['seq']}" if state["path"] is None else change_in_words(state)
        found.append(f"  state {state['number']:<3} {what}")
    return found


def lines(document: Bisection) -> list[str]:
    """Returns a bisection for a person: its sentence, and a table of what was compared."""
    found = [f"{document['id']}  {document['state']}  {document['sentence']}"]
    if document["reason"]:
        found.append(f"  {document['reason']}")
    if document["waits_for"]:
        found.append(f"  waits: {document['waits_for']}")
    if document["live"]:
        found.append(f"  running: {', '.join(document['live'])}")
    if document["left_out"]:
        found.append(f"  left out of every state: {', '.join(document['left_out'])}")
    if document["compared"]:
        found.append("  state  against  pairs  difference  e-value of a fall")
    for one in document["compared"]:
        names = ("change", "without") if one["later"] is None else (str(one["later"]), str(one["earlier"]))
        mark = "  shown" if one["shown"] else ""
        found.append(f"  {names[0]:>6}  {names[1]:>7}  {one['pairs']:>5}  {one['effect'] or 0.0:>+10.2f}  "
                     f"{one['e_value']:.3g} of {one['bar']:.3g}{mark}")  # fmt: skip
    return found

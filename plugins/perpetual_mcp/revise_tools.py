"""The tools that correct what was written: `perpetual_edit` and `perpetual_undo`. Registered by `perpetual_mcp.tools`.

Both are the operations of `Lab` behind the commands of those names, in the client's name. So an agent changes its own
waiting proposals and its own hypotheses, and takes back its own deeds alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, cast

from perpetual import Lab
from perpetual.api import Conflict, UsageError, to_json
from perpetual.toolkit.readers import waiting
from perpetual.toolkit.units import bytes_of, hours_of, identifier, seconds_of
from perpetual_mcp.bounds import Answer, fitted, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from perpetual.api import Experiment, Hypothesis
    from perpetual.documents.changes import ExperimentChanges

__all__ = ["MORE_OF_EDIT", "SAID_OF_EDIT", "perpetual_edit", "perpetual_undo"]

Amount = float | str  # a number, or text with a unit
N = TypeVar("N", int, float)
_OF_HYPOTHESES = frozenset({"statement", "metric", "direction", "mde", "baseline", "tags"})
_PARTS = ("design", "resources", "prediction")  # objects of a record, whose fields are edited by their own names
_FOLLOWS = frozenset({"status", "score", "cautions", "spec_hash", "approved_by"})  # from what was edited


# Arguments that stand in no schema: they are given in `more`, or by their own names as ever.
MORE_OF_EDIT = (
    "title", "tags", "priority", "env", "cwd", "direction", "mde", "baseline", "claim", "noise", "tau", "no_output",
    "gpus", "gpu_memory", "cpus", "memory",
)  # fmt: skip
SAID_OF_EDIT = f"Further fields: {', '.join(MORE_OF_EDIT)}."


def perpetual_edit(
    lab: Lab,
    id: Annotated[str, "The hypothesis or experiment, e.g. h1, e2."],
    title: Annotated[str | None, "A line to know it by."] = None,
    notes: Annotated[str | None, "What it is to show."] = None,
    tags: Annotated[list[str] | None, "Replaces the tags; [] takes them away."] = None,
    priority: Annotated[int | None, "The higher goes first in the queue."] = None,
    statement: Annotated[str | None, "Of a hypothesis: the claim in other words."] = None,
    command: Annotated[str | None, "What runs, without a shell."] = None,
    config: Annotated[dict[str, object] | None, "Replaces the configuration."] = None,
    env: Annotated[dict[str, str] | None, "Replaces the variables."] = None,
    cwd: Annotated[str | None, "Where it runs, below the project's folder."] = None,
    metric: Annotated[str | None, "What it measures or predicts."] = None,
    direction: Annotated[Literal["max", "min"] | None, "Which way is better."] = None,
    mde: Annotated[float | None, "The smallest effect worth having."] = None,
    baseline: Annotated[float | str | None, "A number that was measured, or an experiment's id."] = None,
    claim: Annotated[Literal["improves", "at_least", "value", "any", "none"] | None, "As of a proposal."] = None,
    noise: Annotated[float | None, "The standard deviation between seeds."] = None,
    tau: Annotated[float | None, "The same between implementations."] = None,
    replicates: Annotated[int | None, "How many seeds."] = None,
    cost: Annotated[Amount | None, "Run-hours of one replicate; or 30m."] = None,
    wall: Annotated[Amount | None, "Seconds after which a run is ended; or 2h."] = None,
    no_output: Annotated[Amount | None, "A silent run is ended after so many seconds; or 10m."] = None,
    gpus: Annotated[int | None, "GPUs of one run."] = None,
    gpu_memory: Annotated[Amount | None, "Bytes of one GPU; or 24GiB."] = None,
    cpus: Annotated[int | None, "CPUs that a run keeps busy."] = None,
    memory: Annotated[Amount | None, "Bytes of main memory; or 64GiB."] = None,
) -> Answer:
    """Correct your own waiting proposal, or your own hypothesis before evidence. What is not given stays."""
    given: dict[str, object] = {
        "title": title, "notes": notes, "tags": tags, "priority": priority, "statement": statement,
        "command": command, "config": config, "env": env, "cwd": cwd, "metric": metric, "direction": direction,
        "mde": mde, "baseline": baseline, "claim": claim, "noise": noise, "tau": tau, "replicates": replicates,
        "cost_run_hours": _read(cost, "cost", hours_of), "wall_s": _read(wall, "wall", seconds_of),
        "no_output_s": _read(no_output, "no_output", seconds_of), "gpus": gpus,
        "gpu_memory_bytes": _read(gpu_memory, "gpu_memory", bytes_of), "cpus": cpus,
        "memory_bytes": _read(memory, "memory", bytes_of),
    }  # fmt: skip
    changes = {name: value for name, value in given.items() if value is not None}
    id = identifier(id)
    if not changes:
        raise UsageError("nothing to edit", hint=f'id="{plain(id, 20)}", notes="..."')
    voided: list[str] = []
    before: Hypothesis | Experiment
    after: Hypothesis | Experiment
    with lab.transaction():  # or a change of another process, in between, would be taken for the caller's
        if id[:1] == "h":
            if others := sorted(changes.keys() - _OF_HYPOTHESES):
                raise UsageError(f"{plain(id, 20)} is a hypothesis, and has no {', '.join(others)}",
                                 hint=f"a hypothesis has {', '.join(sorted(_OF_HYPOTHESES))}")  # fmt: skip
            before, after = lab.hypotheses.get(id), lab.hypotheses.edit(id, **changes)  # type: ignore[arg-type]
        else:
            if "statement" in changes:
                raise UsageError(f"{plain(id, 20)} is no hypothesis, and has no statement", hint="title or notes")
            before, last = lab.experiments.get(id), lab.feed.last()
            after = lab.experiments.edit(id, **cast("ExperimentChanges", changes))
            edits = [event for event in lab.events(since=last) if event.kind == "experiment_edited"]
            voided = [name for event in edits for name in event.payload["voided"]]
    was, now = _fields(before), _fields(after)
    changed = [name for name, value in now.items() if was.get(name) != value]
    lines = [f"{after.id} {after.status}"]
    lines += [f"{name}: {_shown(was.get(name))} -> {_shown(now[name])}" for name in changed]
    lines += [f"the approval of {name} has ended" for name in voided]
    document: dict[str, object] = {
        "schema": "perpetual.edited/1",
        "id": after.id,
        "status": after.status,
        "before": {name: was.get(name) for name in changed},
        "after": {name: now[name] for name in changed},
        "voided": voided,
    }
    ahead = [*dict.fromkeys([*([after.id] if after.status == "proposed" else []), *voided])]
    return fitted(document, "\n".join(lines), own=waiting(ahead) if ahead else "")


def _read(amount: Amount | None, name: str, read: Callable[[str, str], N]) -> N | None:
    """Returns an amount as a number in the lab's units; raises UsageError for what is none."""
    return None if amount is None else read(amount if isinstance(amount, str) else repr(amount), name)


def _fields(record: Hypothesis | Experiment) -> dict[str, object]:
    """Returns the fields of a record by the names that edits have for them."""
    document = to_json(record)
    flat = {name: value for name, value in document.items() if name not in _PARTS and name not in _FOLLOWS}
    for part in _PARTS:
        flat |= cast("Mapping[str, object]", document.get(part) or {})
    return flat


def _shown(value: object) -> str:
    return "none" if value in (None, "", [], {}) else plain(value, 120)


def perpetual_undo(
    lab: Lab,
    seq: Annotated[int | None, "Only the deed of this event, from `seqs` of a dry run."] = None,
    dry_run: Annotated[bool, "Say what would be taken back, and write nothing."] = False,
) -> Answer:
    """Take back your own last deed, e.g. a proposal or an edit; again, the one before. Evidence and runs stay."""
    with lab.transaction():
        if dry_run or seq is not None:
            found = lab.undo(dry_run=True)
            if seq is not None and seq not in found["seqs"]:
                raise Conflict(f"your last deed is {found['what']} (seq {found['seqs'][0]}), not that of seq {seq}",
                               code="not_last", hint="it was taken back before, or you did more since")  # fmt: skip
        done = found if dry_run else lab.undo()
    word = "would take back" if dry_run else "took back"
    document: dict[str, object] = {"schema": "perpetual.undone/1", **done}
    return fitted(document, f"{word} {plain(done['what'], 400)} of {done['time']}")

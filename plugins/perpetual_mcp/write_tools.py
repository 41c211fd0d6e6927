"""The tools that change the lab, each an operation of `Lab` in the client's name. Registered by `perpetual_mcp.tools`.

No deed here approves but `perpetual_approve`, which is offered only where a person has allowed it, and none launches
what was not approved: that is the lab's own rule, and these tools have no way around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Annotated, Literal

from perpetual import Lab
from perpetual.api import Run, UsageError, to_json
from perpetual.toolkit.readers import waiting
from perpetual.toolkit.units import bytes_of, hours_of, seconds_of
from perpetual_mcp.advice import of_proposal, of_run
from perpetual_mcp.bounds import Answer, fitted, plain
from perpetual_mcp.read_tools import (
    Cursor,
    Limit,
    experiment_line,
    list_evidence,
    list_hypotheses,
    read_memory,
    run_line,
    say_evidence,
    say_run,
    show_hypothesis,
    whole_experiment,
)

__all__ = [
    "MORE_OF_HYPOTHESES",
    "MORE_OF_PROPOSE",
    "SAID_OF_HYPOTHESES",
    "SAID_OF_PROPOSE",
    "perpetual_approve",
    "perpetual_evidence",
    "perpetual_hypotheses",
    "perpetual_kill",
    "perpetual_memory",
    "perpetual_propose",
    "perpetual_run",
]

Key = Annotated[str | None, "The same key: made once."]
Amount = float | str  # a number, or text with a unit


def _text_of(amount: Amount) -> str:
    return amount if isinstance(amount, str) else repr(amount)


# Arguments that stand in no schema: they are given in `more`, or by their own names as ever.
MORE_OF_HYPOTHESES = ("params", "tags", "why", "idempotency_key")
SAID_OF_HYPOTHESES = "Further arguments: params, tags, why, idempotency_key."
MORE_OF_PROPOSE = (
    "tau", "baseline_runs", "paired", "items", "guards", "stop_rule", "runs_of", "kind", "claim", "on_crash",
    "confirmation", "underpowered", "changes", "extends", "rebaseline", "gpu_memory", "cpus", "memory", "nodes",
    "scheduler", "engine", "isolate", "no_output", "wall", "priority", "after", "needs_artifacts", "group", "title",
    "tags", "auto", "dry_run", "withdraw", "why", "idempotency_key",
)  # fmt: skip
SAID_OF_PROPOSE = (
    'Further arguments, e.g. {"wall": "2h", "dry_run": true}; {"withdraw": "e3", "why": "..."} alone takes your own '
    'proposal back, {"extends": "e1"} adds replicates. There is kind, claim, tau, baseline_runs, paired, items, '
    "guards, stop_rule, runs_of, on_crash, confirmation, underpowered, changes, rebaseline, gpu_memory, cpus, memory, "
    "nodes, scheduler, engine, isolate, no_output, priority, after, needs_artifacts, group, title, tags, auto."
)


_TAKES = {
    "list": ("status", "limit", "cursor"),
    "show": ("id",),
    "add": ("text", "prior", "metric", "direction", "mde", "baseline", "params", "tags", "idempotency_key"),
    "update": ("id", "text", "prior", "status", "confidence", "tags", "why"),
}


def _refuse_others(action: str, given: set[str]) -> None:
    """Raises UsageError for arguments that an action on hypotheses does not take, which it would ignore."""
    others = sorted(given.difference(_TAKES[action]))
    if others:
        raise UsageError(
            f"the action {action} of hypotheses takes no {', '.join(others)}",
            hint="; ".join(f"{name}: {', '.join(names)}" for name, names in _TAKES.items()),
        )


def perpetual_hypotheses(
    lab: Lab,
    action: Annotated[Literal["list", "show", "add", "update"], "What to do."] = "list",
    id: Annotated[str | None, "show, update: the hypothesis, e.g. h1."] = None,
    text: Annotated[
        str | None,
        "add: the claim, one that a number can contradict; update: the same in better words.",
    ] = None,
    prior: Annotated[
        float | None,
        "add, update: how likely it is; 0.5 without a reason; an agent's is 0.25 to 0.75.",
    ] = None,
    status: Annotated[
        str | None,
        "list: only these. update: parked, or open again; the evidence decides the others.",
    ] = None,
    confidence: Annotated[
        float | None,
        "update: your opinion, which decides nothing.",
    ] = None,
    metric: Annotated[str | None, "add: what its experiments measure, as runs log it."] = None,
    direction: Annotated[Literal["max", "min"] | None, "add: which way is better."] = None,
    mde: Annotated[float | None, "add: the smallest effect worth having."] = None,
    baseline: Annotated[
        float | str | None, "add: a measured number, or the id of the experiment that measures it."
    ] = None,
    params: Annotated[dict[str, list[object]] | None, 'add: values to try, {"lr": [0.1, 0.01]}.'] = None,
    tags: Annotated[list[str] | None, "add, update: words to find it by."] = None,
    why: Annotated[str | None, "update: the reason, kept in the manual row."] = None,
    limit: Limit = None,
    cursor: Cursor = None,
    idempotency_key: Key = None,
) -> Answer:
    """List, show, add or update hypotheses. Add one, with what it predicts of a metric, before anything runs."""
    given = {
        "id": id, "text": text, "prior": prior, "status": status, "confidence": confidence, "metric": metric,
        "direction": direction, "mde": mde, "baseline": baseline, "params": params, "tags": tags, "why": why,
        "limit": limit, "cursor": cursor, "idempotency_key": idempotency_key,
    }  # fmt: skip
    _refuse_others(action, {name for name, value in given.items() if value is not None})
    if action == "list":
        return list_hypotheses(lab, status, limit, cursor)
    if action == "add":
        if text is None:
            raise UsageError("add needs the claim", hint='text="warm-up lowers val_loss"')
        made = lab.hypotheses.add(
            text,
            prior=prior,
            metric=metric,
            direction=direction,
            mde=mde,
            baseline=baseline,
            params=params,
            tags=tags or (),
            idempotency_key=idempotency_key,
        )
        return show_hypothesis(lab, made.id)
    if id is None:
        raise UsageError(f"{action} needs an id", hint='id="h1"')
    if action == "update":
        id = lab.hypotheses.update(
            id, statement=text, prior=prior, confidence=confidence, status=status, tags=tags, why=why
        ).id
    return show_hypothesis(lab, id)


def perpetual_propose(
    lab: Lab,
    hypothesis: Annotated[str | None, "What it tests, e.g. h1; without one it is a baseline."] = None,
    config: Annotated[dict[str, object] | None, "The run reads it from the file $PERPETUAL_CONFIG."] = None,
    notes: Annotated[str, "What it is to show, for the approving person."] = "",
    command: Annotated[
        str | None,
        "What runs, without a shell: python train.py --lr 0.1. Its seed is in $PERPETUAL_SEED.",
    ] = None,
    metric: Annotated[
        str | None,
        "What it measures, by default as its hypothesis. The run logs it by perpetual.log(val_loss=2.1), or prints "
        "val_loss=2.1.",
    ] = None,
    direction: Annotated[Literal["max", "min"] | None, "Which way is better."] = None,
    mde: Annotated[float | None, "The smallest effect worth having, in its units."] = None,
    noise: Annotated[float | None, "The standard deviation between seeds, where known."] = None,
    tau: Annotated[float | None, "The standard deviation between implementations of the same idea."] = None,
    baseline: Annotated[float | str | None, "A number that was measured, or an experiment's id."] = None,
    baseline_runs: Annotated[int | None, "Runs that a number as baseline was measured with; of a rate, trials."] = None,
    paired: Annotated[bool | None, "Seeds shared with the baseline's runs: the default where it is run."] = None,
    items: Annotated[int | None, "Test items behind each value: the luck of their choice counts."] = None,
    guards: Annotated[
        list[str] | None, "What may not get worse by more than a margin, METRIC:max|min:MARGIN: latency_ms:min:5."
    ] = None,
    stop_rule: Annotated[
        str | None, "wall or exit:CODE: a run that ends so counts at its last value; in both arms, before they run."
    ] = None,
    runs_of: Annotated[
        str | None, "Take the runs of this experiment, which has none yet: a second claim without new runs."
    ] = None,
    kind: Annotated[
        Literal["gaussian", "binary"], "binary: 1 is success, 0 failure, the baseline a rate."
    ] = "gaussian",
    claim: Annotated[
        Literal["improves", "at_least", "value", "any", "none"] | None,
        "improves (better at all, by default), at_least the mde, any effect, or none.",
    ] = None,
    on_crash: Annotated[Literal["supports", "refutes"] | None, "Where the binary claim is that it runs at all."] = None,
    confirmation: Annotated[bool, "It is measured on data that was kept back for this."] = False,
    underpowered: Annotated[bool, "Also where its known noise hides the mde, which is refused otherwise."] = False,
    changes: Annotated[
        str | None, "code, data or environment: that difference from the baseline experiment is the treatment."
    ] = None,
    extends: Annotated[str | None, "More replicates of this experiment, whose own are used up."] = None,
    rebaseline: Annotated[str | None, "Instead of the above: this baseline anew, under the code of now."] = None,
    replicates: Annotated[int, "How many seeds: 3 or more where the metric depends on them."] = 1,
    cost: Annotated[Amount | None, "Expected run-hours of one replicate; or 30m."] = None,
    gpus: Annotated[int, "GPUs of one run."] = 0,
    gpu_memory: Annotated[Amount | None, "Bytes of one GPU; or with a unit: 24GiB."] = None,
    cpus: Annotated[int | None, "CPUs that a run keeps busy."] = None,
    memory: Annotated[Amount | None, "Main memory of a run, on each node, in bytes; or with a unit: 64GiB."] = None,
    nodes: Annotated[int | None, "Machines of one run."] = None,
    scheduler: Annotated[str | None, "What starts its runs; by default the configured one."] = None,
    engine: Annotated[dict[str, object] | None, 'Options of the scheduler, e.g. {"partition": "gpu"}.'] = None,
    isolate: Annotated[
        bool | None, "Each run in a copy of the approved code; by default as the methodology says."
    ] = None,
    no_output: Annotated[Amount | None, "A run that writes nothing for so long is ended; seconds, or 10m."] = None,
    wall: Annotated[Amount | None, "Seconds after which a run is ended; or with a unit: 2h."] = None,
    priority: Annotated[int, "The higher goes first in the queue."] = 0,
    after: Annotated[list[str] | None, "Start once these have succeeded (e3) or ended (e3:any)."] = None,
    needs_artifacts: Annotated[
        list[str] | None, "Files that runs of others leave (e3/model.pt): it starts once they are there."
    ] = None,
    group: Annotated[str | None, "A group of the queue, with its own limit."] = None,
    title: Annotated[str | None, "A short name; by default the command."] = None,
    tags: Annotated[list[str] | None, "Words to find it by."] = None,
    auto: Annotated[int | None, "Instead of the above: let the lab pick so many replicates by what they teach."] = None,
    dry_run: Annotated[bool, "Show what it would be, and write nothing."] = False,
    withdraw: Annotated[str | None, "Instead of the above: take back this proposal of yours, e.g. e3."] = None,
    why: Annotated[str | None, "withdraw: the reason, kept in the feed."] = None,
    idempotency_key: Key = None,
) -> Answer:
    """Propose an experiment: a command with a prediction. It waits for a person's approval and starts nothing."""
    if withdraw is not None:
        if auto is not None or command is not None or hypothesis is not None or dry_run:
            raise UsageError("a withdrawal takes the experiment and why alone", hint='withdraw="e3", why="..."')
        gone = lab.experiments.withdraw(withdraw, why=why or "")
        return fitted(
            {**_experiments([experiment_line(gone)]), "experiment": whole_experiment(gone)}, f"{gone.id} is withdrawn"
        )
    if auto is not None:
        picks = lab.experiments.propose_auto(auto, dry_run=dry_run, idempotency_key=idempotency_key)
        lines = [
            {**experiment_line(pick.experiment), **({"id": None} if dry_run and pick.new else {})} for pick in picks
        ]
        found = "\n".join(
            f"{line['id'] or 'new'}: {plain(line['title'], 80)}: {plain(line['reason'], 120)}" for line in lines
        )
        return fitted(_experiments(lines), found or "nothing is worth proposing: no open hypothesis has room for a run")
    orders = bool(after or group) and not dry_run
    with lab.transaction() if orders else nullcontext():
        made = (
            lab.experiments.rebaseline(rebaseline, notes=notes, dry_run=dry_run, idempotency_key=idempotency_key)
            if rebaseline is not None
            else lab.experiments.propose(
                hypothesis,
                command=command,
                title=title,
                config=config,
                notes=notes,
                tags=tags or (),
                priority=priority,
                metric=metric,
                direction=direction,
                mde=mde,
                noise=noise,
                tau=tau,
                baseline=baseline,
                baseline_runs=baseline_runs,
                paired=paired,
                items=items,
                guards=guards or (),
                stop_rule=stop_rule,
                runs_of=runs_of,
                kind=kind,
                claim=claim,
                on_crash=on_crash,
                confirmation=confirmation,
                underpowered=underpowered,
                changes=changes,
                extends=extends,
                replicates=replicates,
                cost_run_hours=None if cost is None else hours_of(_text_of(cost), "cost"),
                gpus=gpus,
                gpu_memory_bytes=None if gpu_memory is None else bytes_of(_text_of(gpu_memory), "gpu_memory"),
                cpus=cpus,
                memory_bytes=None if memory is None else bytes_of(_text_of(memory), "memory"),
                nodes=nodes,
                scheduler=scheduler,
                engine=engine,
                isolate=isolate,
                needs_artifacts=needs_artifacts or (),
                no_output_s=None if no_output is None else seconds_of(_text_of(no_output), "no_output"),
                wall_s=None if wall is None else seconds_of(_text_of(wall), "wall"),
                dry_run=dry_run,
                idempotency_key=idempotency_key,
            )
        )
        if orders:  # with it, or it could start before it is known what it comes after
            lab.queue.after(made.id, after or ())
            lab.queue.join(made.id, group)
    line = {**experiment_line(made), **({"id": None} if dry_run else {})}
    ahead = waiting([made.id]) if made.status == "proposed" else ""
    ahead = "nothing was written" if dry_run else ahead
    warnings = of_proposal(made, has_wall=wall is not None or extends is not None or rebaseline is not None)
    head = f"{line['id'] or 'would propose'} {made.status}: {plain(made.title, 120)}"
    text = "\n".join(filter(None, [head, plain(made.score.reason, 200)]))
    document = {**_experiments([line]), "experiment": None if dry_run else whole_experiment(made), "warnings": warnings}
    return fitted(document, text, own="\n".join(filter(None, [*_noted(warnings), ahead])))


def _noted(warnings: Sequence[str]) -> list[str]:
    return [f"note: {warning}" for warning in warnings]


def _experiments(lines: Sequence[Mapping[str, object]]) -> dict[str, object]:
    return {
        "schema": "perpetual.experiments/1",
        "items": [*lines],
        "experiment": None,
        "next_cursor": None,
        "truncated": False,
    }


def perpetual_approve(lab: Lab, ids: Annotated[list[str], "The experiments, e.g. e1, e2."]) -> Answer:
    """Approve proposed experiments, all of them or none. A person has allowed it for this client."""
    if not ids:
        raise UsageError("approve needs an experiment", hint='ids=["e1"]')
    changed = lab.experiments.approve_all(ids, allowed=True)
    text = "\n".join(f"{item.id} {item.status}: {plain(item.title, 80)}" for item in changed)
    return fitted(_experiments([experiment_line(item) for item in changed]), text, own="perpetual_run starts them")


def perpetual_run(
    lab: Lab,
    experiment: Annotated[str, "The approved experiment, e.g. e2."],
    command: Annotated[str | None, "The approved one, to be sure."] = None,
    every: Annotated[bool, "Every missing replicate that the budget holds."] = False,
    retry: Annotated[str | None, "Instead: this failed run again, e.g. r4."] = None,
    gpus: Annotated[list[int] | None, "Use these GPUs, by index."] = None,
    idempotency_key: Key = None,
) -> Answer:
    """Start the next missing replicate of an approved experiment and answer at once; what must wait is queued."""
    if retry is not None:
        if every or gpus or command is not None:
            raise UsageError("a retry is the same run again: it takes no command, every or gpus")
        of = lab.runs.get(retry).experiment_id
        if of != lab.experiments.get(experiment).id:
            raise UsageError(f"{plain(retry)} is a run of {of}, not of {plain(experiment)}", hint=f'experiment="{of}"')
        return _runs([lab.runs.retry(retry, idempotency_key=idempotency_key)], "perpetual_wait answers at its end")
    started = lab.runs.launch(
        experiment, command=command, every=every, gpus=tuple(gpus or ()), idempotency_key=idempotency_key
    )
    return _runs(started, "perpetual_wait answers at its end", of_run(lab, started[0].experiment_id) if started else [])


def perpetual_kill(
    lab: Lab,
    run: Annotated[str, "The run, e.g. r4."],
    grace: Annotated[Amount | None, "Seconds between TERM and KILL, or 30s."] = None,
) -> Answer:
    """End a run with all its processes, and record it."""
    ended = lab.runs.kill(run, grace_s=None if grace is None else seconds_of(_text_of(grace), "grace"))
    return _runs([ended], "")


def _runs(runs: Sequence[Run], ahead: str, warnings: Sequence[str] = ()) -> Answer:
    lines = [run_line(item) for item in runs]
    document = {
        "schema": "perpetual.runs/1",
        "items": [*lines],
        "run": to_json(runs[0]) if len(runs) == 1 else None,
        "warnings": [*warnings],
        "next_cursor": None,
        "truncated": False,
    }
    return fitted(document, "\n".join(map(say_run, lines)), own="\n".join(filter(None, [*_noted(warnings), ahead])))


def perpetual_evidence(
    lab: Lab,
    action: Annotated[Literal["list", "add", "retract"], "What to do."] = "list",
    hypothesis: Annotated[str | None, "list: only its rows; add: the hypothesis, e.g. h1."] = None,
    id: Annotated[str | None, "retract: the row of an opinion, e.g. v3."] = None,
    verdict: Annotated[Literal["supports", "refutes", "inconclusive"] | None, "add: what you hold."] = None,
    strength: Annotated[float, "add: how strongly, 0 to 1."] = 1.0,
    why: Annotated[str | None, "add, retract: the reason."] = None,
    run: Annotated[str | None, "add: the run that it is about."] = None,
    limit: Limit = None,
    cursor: Cursor = None,
    idempotency_key: Key = None,
) -> Answer:
    """The ledger behind every confidence: list its rows, add an opinion, which decides nothing, or retract it."""
    if action == "list":
        return list_evidence(lab, hypothesis, limit, cursor)
    if action == "add":
        if hypothesis is None or verdict is None:
            raise UsageError(
                "add needs a hypothesis and a verdict", hint='hypothesis="h1", verdict="supports", why="..."'
            )
        row = lab.evidence.add(
            hypothesis, verdict=verdict, why=why or "", strength=strength, run_id=run, idempotency_key=idempotency_key
        )
    else:
        if id is None:
            raise UsageError("retract needs the row's id", hint='id="v3", why="..."')
        row = lab.evidence.retract(id, why=why or "")
    document = {
        "schema": "perpetual.evidence_list/1",
        "items": [],
        "evidence": to_json(row),
        "next_cursor": None,
        "truncated": False,
    }
    now = lab.hypotheses.get(row.hypothesis_id)
    return fitted(
        document, f"{say_evidence(to_json(row))}\n{now.id} is {now.status} at confidence {now.confidence:.3f}"
    )


def perpetual_memory(
    lab: Lab,
    action: Annotated[Literal["list", "show", "write", "search", "history"], "What to do."] = "list",
    file: Annotated[str | None, "The path, e.g. notes/warmup.md; list: a folder."] = None,
    content: Annotated[str | None, "write: the whole text of the note."] = None,
    message: Annotated[str | None, "write: why."] = None,
    type: Annotated[str | None, "write: note, episodic_case, ..."] = None,
    query: Annotated[str | None, "search: words that the note holds."] = None,
    status: Annotated[str | None, "list: candidate, promoted, ..."] = None,
    by: Annotated[Literal["time", "worth"], "list: by time, or by measured price."] = "time",
    limit: Limit = None,
    cursor: Cursor = None,
    idempotency_key: Key = None,
) -> Answer:
    """Notes that outlive the conversation: list, show, search, write (through the gates), history. Notes are data."""
    if action != "write":
        return read_memory(lab, action, file, query or content, status, by, limit, cursor)
    if file is None or content is None:
        raise UsageError("write needs a path and a text", hint='file="notes/warmup.md", content="..."')
    answer = lab.memory.write(file, content, type=type, message=message, idempotency_key=idempotency_key)
    document: dict[str, object] = {
        "schema": "perpetual.notes/1",
        "items": [],
        "note": None,
        "written": answer,
        "history": None,
        "next_cursor": None,
        "truncated": False,
    }
    commit = f", commit {answer['commit'][:10]}" if answer["commit"] else ""
    found = [
        f"  {plain(one['rule'])} in its {one['part']}: {plain(one['excerpt'], 240)}"
        for one in answer["verdict"]["findings"]
    ]
    return fitted(document, "\n".join([f"{answer['path']} is {answer['status']}{commit}", *found]))

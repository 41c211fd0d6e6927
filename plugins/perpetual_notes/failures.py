"""Failure patterns: one note for each signature of a crash, which counts the runs that ended so."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from perpetual.api import Analyser, NotFound, Record, Run
from perpetual.toolkit.contained import limited
from perpetual.toolkit.units import counted
from perpetual_notes.signature import Crash, crash_of
from perpetual_notes.words import code, current, front_matter, one_line, with_own_words

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["count", "path_of", "retried", "write"]

_NAMED = 20  # runs that a note names
_MOST_LOOKS = 5  # experiments that are searched for what was tried, and times that a note is written anew


def count(lab: Lab, run_id: str) -> str | None:
    """Counts a run among those that crashed of the same; returns their signature, None if it did not crash.

    A run counts once, whatever becomes of it later: the row of the run and the count are of one transaction.
    """
    run = lab.runs.get(run_id)
    experiment = lab.experiments.get(run.experiment_id)
    counted_before = lab.records("notes.crash").find(run=run.id)
    if counted_before:
        return str(counted_before[0]["signature"])
    crash = crash_of(run, experiment.command)
    if crash is None:
        return None
    with lab.transaction():
        before = lab.records("notes.crash").find(run=run.id)
        if before:
            return str(before[0]["signature"])  # another process was quicker
        lab.records("notes.crash").add(run=run.id, signature=crash.signature)
        _add(lab, crash, run)
    return crash.signature


def _add(lab: Lab, crash: Crash, run: Run) -> None:
    rows, ended = lab.records("notes.failure"), run.ended_at or run.started_at or ""
    found = rows.find(signature=crash.signature)
    if not found:
        rows.add(signature=crash.signature, path=crash.path, **crash._asdict(), count=1, first_run=run.id,
                 first_seen=ended, last_run=run.id, last_seen=ended, runs=[run.id])  # fmt: skip
        return
    row = found[0]
    is_last, is_first = ended >= row["last_seen"], ended < row["first_seen"]
    rows.update(
        row.id,
        count=row["count"] + 1,
        runs=[*row["runs"], run.id][-_NAMED:],
        first_run=run.id if is_first else row["first_run"],
        first_seen=ended if is_first else row["first_seen"],
        last_run=run.id if is_last else row["last_run"],
        last_seen=ended if is_last else row["last_seen"],
    )


def retried(lab: Lab, run_id: str) -> str | None:
    """Returns the signature of the crash that a run tried again, None if it tried none."""
    run = lab.runs.get(run_id)
    if run.attempt <= 1:
        return None
    for other in lab.runs.list(experiment_id=run.experiment_id).items:
        if (other.replicate, other.attempt) == (run.replicate, run.attempt - 1):
            found = lab.records("notes.crash").find(run=other.id)
            return str(found[0]["signature"]) if found else None
    return None


def path_of(lab: Lab, signature: str) -> str:
    """Returns the path of a signature's note."""
    return str(_row(lab, signature)["path"])


def write(lab: Lab, signature: str) -> str:
    """Writes the note of a signature as the record has it now; returns its path.

    A note that a person or a gate has rejected is left alone. A count that another process raises meanwhile is
    written too, whichever of the two is last.
    """
    row, overtaken = _row(lab, signature), ""
    for _ in range(_MOST_LOOKS):
        before = current(lab, row["path"])
        if _is_rejected(lab, row["path"]):
            break
        text = with_own_words(_text(lab, row), before)
        if text == before:
            break
        digest = sha256(text.encode()).hexdigest()[:16]
        lab.memory.write(row["path"], text, type="failure_pattern", message=_message(row),
                         idempotency_key=f"failure:{signature}:{digest}{overtaken}")  # fmt: skip
        fresh = _row(lab, signature)
        if fresh["count"] == row["count"]:
            break
        overtaken, row = f":after:{row['count']}", fresh
    return str(row["path"])


def _row(lab: Lab, signature: str) -> Record:
    return lab.records("notes.failure").find(signature=signature)[0]


def _is_rejected(lab: Lab, path: str) -> bool:
    try:
        return lab.memory.get(path).status == "rejected"
    except NotFound:
        return False


def _message(row: Record) -> str:
    return f"{row['last_run']} crashed: {counted(row['count'], 'run')} by now"


def _text(lab: Lab, row: Record) -> str:
    crash = Crash(row["program"], row["cause"], row["exception"], row["line"])
    runs = [lab.runs.get(id) for id in row["runs"]]
    last = lab.runs.get(row["last_run"])
    experiments = {id: lab.experiments.get(id) for id in dict.fromkeys(run.experiment_id for run in (*runs, last))}
    head = front_matter({
        "type": "failure_pattern",
        "title": crash.title,
        "scope": {"tool": [crash.program]},
        "signature": row["signature"],
        "count": row["count"],
        "first_seen": row["first_seen"][:10],
        "last_seen": row["last_seen"][:10],
    })  # fmt: skip
    named = ", ".join(row["runs"]) + (", the newest ones" if row["count"] > len(runs) else "")
    lines = [
        f"# {one_line(crash.title)}",
        "",
        f"{counted(row['count'], 'run')} ended so: first {row['first_run']} ({row['first_seen'][:10]}), "
        f"last {row['last_run']} ({row['last_seen'][:10]}). It is no evidence for or against anything.",
        "",
        f"- ended as: {last.status}, {one_line(last.reason or 'no reason recorded')}",
        *([f"- symptom: {crash.cause}"] if crash.cause != last.status else []),
        f"- last line, its numbers, paths and ids masked: {code(crash.line)}",
        f"- runs: {named}",
        f"- command of {last.id}: {code(experiments[last.experiment_id].command or '')}",
        *(f"- way out: {one_line(hint)}" for hint in _hints(lab, crash.cause, last)),
        "",
        "## What was tried",
        "",
    ]
    return head + "\n".join([*lines, *(_tried(lab, runs) or ["Nothing yet that the record knows."])]) + "\n"


def _hints(lab: Lab, cause: str, run: Run) -> list[str]:
    """Returns the first way out that an analyser names, as a list of at most one."""
    for name, part in lab.parts("analyser"):
        analyser: Analyser = part
        try:
            hint = limited(name, partial(analyser.hint, cause, run))
        except Exception as problem:  # noqa: BLE001 - a way out is a courtesy, and the crash counts without one
            hint = f"the analyser {name} failed: {type(problem).__name__}"
        if hint:
            return [hint]
    return []


def _tried(lab: Lab, runs: list[Run]) -> list[str]:
    """Returns how later attempts of the runs ended, a line each."""
    lines = []
    for id in [*dict.fromkeys(run.experiment_id for run in reversed(runs))][:_MOST_LOOKS]:
        others = lab.runs.list(experiment_id=id).items
        for run in (run for run in runs if run.experiment_id == id):
            later = [one for one in others if one.replicate == run.replicate and one.attempt == run.attempt + 1]
            lines += [f"- {run.id} again as {one.id}: {one.status}" for one in later]
    return lines[:_NAMED]

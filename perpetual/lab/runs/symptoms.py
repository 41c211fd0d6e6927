"""Symptoms: why a run ended without success, as the analysers read it from its output, and ways out of it.

How a run ended is what its exit record says. A symptom is an annotation beside it; the kind `oom` also allows the
retry that the methodology's `auto_retry` asks for. Analysers are plugins, so their answers are checked here. Used by
`reconcile` when a run ends, and by the component of runs for its hints.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from perpetual.lab.context import Context
from perpetual.lab.engines.sight import scheduler_for
from perpetual.lab.kinds import RunRow
from perpetual.lab.ledger.runs import RunRecords
from perpetual.records import Json, Run
from perpetual.slots.analyser import KERNEL_KINDS, Analyser, RunOutput, Symptom
from perpetual.slots.scheduler import Sighting
from perpetual.toolkit.contained import contained
from perpetual.toolkit.deadline import Deadline, OutOfTime, call
from perpetual.toolkit.reserved import is_bundled

__all__ = ["KILLED", "OUT_OF_MEMORY", "hints", "symptoms_of"]

OUT_OF_MEMORY, KILLED = "oom", "killed"
FAULT = "analyser"  # the kind that names an analyser which failed
_MOST_S, _ALL_S = 10.0, 30.0  # of one analyser and of all, for one run: the other runs wait meanwhile
_MOST = 20
_LONGEST = 300  # characters
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,39}\Z")
# Ways out of what the kernel itself notes beside a run.
_HINTS = {
    "overrun": "it lasted longer than its wall limit: propose it with a longer --wall, or perpetual kill {run}",
    "retry": "perpetual retry {run} makes a further attempt all the same",
}


def symptoms_of(
    ctx: Context, run: RunRow, seen: Sighting, status: str, *, by_us: bool
) -> tuple[list[Json], list[Json]]:
    """Returns why a run that ended without success did so, and notes about analysers that failed: annotations.

    Args:
        by_us: the run was cancelled or had reached its limit, so a shell that says "killed" names no cause.
    """
    scheduler, log_dir = scheduler_for(ctx, run), RunRecords(ctx).log_dir(run.id)
    output = RunOutput(status, scheduler.logs(log_dir, stderr=True), scheduler.logs(log_dir), ctx.redactor)
    found, faults = _asked(_analysers(ctx), output)
    if seen.reason == "signalled" and "out-of-memory" in (seen.detail or ""):  # the exit record's own word goes first
        record = {"kind": OUT_OF_MEMORY, "text": str(seen.detail), "source": "exit record"}
        found = [record, *(item for item in found if item["kind"] != OUT_OF_MEMORY)]
    if by_us or seen.reason in ("killed", "timeout"):
        found = [item for item in found if item["kind"] != KILLED]
    texts = [item["text"] for item in found]
    return [item for at, item in enumerate(found) if item["text"] not in texts[:at]], faults


def hints(ctx: Context, run: Run) -> list[str]:
    """Returns ways out of what a run's annotations name, one for each kind that has one."""
    kinds = dict.fromkeys(str(item["kind"]) for item in run.annotations)
    answers = [_HINTS[kind].format(run=run.id) if kind in _HINTS else _hint(ctx, kind, run) for kind in kinds]
    return [answer for answer in answers if answer]


def _analysers(ctx: Context) -> list[tuple[str, Analyser]]:
    """Returns every analyser, bundled ones first: what another distribution reads does not replace what they read."""
    parts: list[tuple[str, Analyser]] = ctx.parts("analyser")
    return sorted(parts, key=lambda pair: not is_bundled(pair[0]))


def _asked(analysers: Sequence[tuple[str, Analyser]], output: RunOutput) -> tuple[list[Json], list[Json]]:
    """Returns what the analysers see, of each kind what the first one answers; and a note for each that failed."""
    found: dict[str, Json] = {}
    faults: list[Json] = []
    left = Deadline(_ALL_S)
    for name, analyser in analysers:
        try:
            with contained():
                answer = call(max(0.1, min(_MOST_S, left.left())), partial(_seen, analyser, output))
        except OutOfTime as problem:
            faults.append(_note(FAULT, f"the analyser {name} {problem}", name))
        except Exception as problem:  # noqa: BLE001 - an analyser is a foreign part: its failure is noted beside the run
            faults.append(_note(FAULT, f"the analyser {name} failed: {type(problem).__name__}: {problem}", name))
        else:
            found |= {kind: item for kind, item in answer.items() if kind not in found}
    return [*found.values()][:_MOST], faults


def _seen(analyser: Analyser, output: RunOutput) -> dict[str, Json]:
    """Returns what one analyser answers, as the record can hold it. Raises ValueError for what is no symptom."""
    found: dict[str, Json] = {}
    item: Any  # a plugin's
    for item in analyser.symptoms(output):
        if not isinstance(item, Symptom) or not _KIND.match(str(item.kind)):
            raise ValueError(f"it answered {item!r:.100}, which is no symptom")
        if item.kind in KERNEL_KINDS:
            raise ValueError(f"the kind {item.kind} is the kernel's own")
        found.setdefault(item.kind, _note(item.kind, item.text, item.source))
    return found


def _hint(ctx: Context, kind: str, run: Run) -> str | None:
    """Returns what the first analyser that knows the kind advises.

    One that fails is passed over, for words decide nothing.
    """
    for _, analyser in _analysers(ctx):
        try:
            with contained():
                answer = call(_MOST_S, partial(analyser.hint, kind, run))
        except Exception:  # noqa: BLE001, S112 - as above; the run's own end has named the analyser
            continue
        if isinstance(answer, str) and answer.strip():
            return _printable(answer)
    return None


def _note(kind: str, text: str, source: str) -> Json:
    return {"kind": kind, "text": _printable(text), "source": _printable(source)}


def _printable(text: object) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text)[:_LONGEST])[:_LONGEST]

"""Episodic cases: what was claimed, what the runs showed, what it cost and what decided it, for each verdict."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, cast

from perpetual.api import Analyser, Evidence, Experiment, Hypothesis
from perpetual.toolkit.claims import effect_in_words
from perpetual.toolkit.contained import limited
from perpetual.toolkit.units import counted, shown_bound, shown_number
from perpetual_notes.words import current, front_matter, one_line, with_own_words

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.documents.ledger import Effect

__all__ = ["DECIDED", "front_matter_key", "write"]

DECIDED = ("supported", "refuted")


def write(lab: Lab, hypothesis_id: str, *, seq: int, month: str) -> tuple[str, str | None]:
    """Writes the note of a hypothesis' verdict, or of its being open again; returns its path and what failed.

    Args:
        seq: of the event that said so.
        month: of that event, `2026-11`, where the note of a first verdict goes.
    """
    hypothesis = lab.hypotheses.get(hypothesis_id)
    rows = lab.records("notes.case").find(hypothesis=hypothesis.id)
    path = str(rows[0]["path"]) if rows else f"cases/{month}/{hypothesis.id}.md"
    if hypothesis.status not in DECIDED and not rows:
        return path, None
    before = current(lab, path)
    words, failed = _words_of_analysers(lab, hypothesis) if hypothesis.status in DECIDED else ([], None)
    text = with_own_words("\n".join([_text(lab, hypothesis), *words]), before)
    if text != before:
        key = f"verdict:{hypothesis.id}:{hypothesis.status}:{hypothesis.evidence_count}"
        # A note of this form may come back to words that it had: then it is the event that tells the two apart.
        key += f":{seq}" if front_matter_key(before, "type") else ""
        if not rows:
            lab.records("notes.case").add(hypothesis=hypothesis.id, path=path, idempotency_key=f"case:{hypothesis.id}")
        lab.memory.write(path, text, type="episodic_case", idempotency_key=key,
                         message=f"{hypothesis.id} is {hypothesis.status}")  # fmt: skip
    return path, failed


def front_matter_key(text: str | None, key: str) -> str | None:
    """Returns a key of a generated front matter as it is written; None where there is none."""
    if text is None or not text.startswith("---\n"):
        return None
    head = text[4:].partition("\n---\n")[0]
    found = [line.partition(": ")[2] for line in head.splitlines() if line.startswith(f"{key}: ")]
    return found[0] if found else None


def _words_of_analysers(lab: Lab, hypothesis: Hypothesis) -> tuple[list[str], str | None]:
    """Returns what analysers say of the verdict, and the failure of the last one that failed."""
    evidence = [*lab.evidence.all(hypothesis_id=hypothesis.id)]
    experiments = [*lab.experiments.all(hypothesis_id=hypothesis.id)]
    words, failed = [], None
    for name, part in lab.parts("analyser"):
        analyser: Analyser = part
        try:
            found = limited(name, partial(analyser.conclude, hypothesis, evidence, experiments))
        except Exception as problem:  # noqa: BLE001 - a verdict without an analyser's words is one all the same
            failed = f"the analyser {name} failed: {type(problem).__name__}: {problem}"
            continue
        if found is not None:
            words.append(found.text.rstrip() + "\n")
    return words, failed


def _text(lab: Lab, hypothesis: Hypothesis) -> str:
    evidence = [*lab.evidence.all(hypothesis_id=hypothesis.id)]
    experiments = [*lab.experiments.all(hypothesis_id=hypothesis.id)]
    rows = [row for row in evidence if row.kind == "measured" and row.retracted_by is None]
    effect = _effect(hypothesis)
    title = one_line(f"{hypothesis.id} {hypothesis.status}: {hypothesis.statement}", 120)
    head = front_matter({
        "type": "episodic_case",
        "title": title,
        "scope": {"tag": [one_line(tag, 80) for tag in hypothesis.tags[:20]]},
        "hypothesis": hypothesis.id,
        "verdict": hypothesis.status,
        "effect": effect or "not measured",
    })  # fmt: skip
    lines = [f"# {title}", "", one_line(hypothesis.sentence or "Nothing was measured.", 1_000), ""]
    if hypothesis.status not in DECIDED:
        lines.append("The verdict that was noted here no longer holds: the claim is not decided.")
    lines += [
        f"As of {counted(hypothesis.evidence_count, 'row')} of evidence: later ones are in the record alone.",
        "",
        f"- effect: {effect or 'not measured'}",
        f"- confidence {hypothesis.confidence:.3f} from a prior of {hypothesis.prior:g}; {_decided(hypothesis)}",
        f"- {counted(len(rows), 'measured run')}; cost {_cost(lab, experiments)}",
        *([f"- to be known: {one_line('; '.join(hypothesis.flags), 1_000)}"] if hypothesis.flags else []),
        *([f"- takes for granted: {one_line('; '.join(hypothesis.assumes), 1_000)}"] if hypothesis.assumes else []),
        *(line for experiment in experiments if (line := _measured(experiment, rows))),
    ]
    return head + "\n".join(lines) + "\n"


def _effect(hypothesis: Hypothesis) -> str:
    if hypothesis.effect is None:
        return ""
    verdict = hypothesis.status if hypothesis.decided_by == "evidence" else None
    return one_line(effect_in_words(cast("Effect", hypothesis.effect), hypothesis.prediction.direction, verdict))


def _decided(hypothesis: Hypothesis) -> str:
    if hypothesis.status not in DECIDED:
        return "not decided"
    if hypothesis.false_alarm_bound is None:
        return f"decided by {hypothesis.decided_by or 'hand'}, no false-alarm bound"
    bound = shown_bound(hypothesis.false_alarm_bound)
    return f"decided by {hypothesis.decided_by or 'evidence'}, false-alarm bound {bound}"


def _cost(lab: Lab, experiments: list[Experiment]) -> str:
    """Returns the hours of all runs of the claim's experiments, those that failed included."""
    runs = [run for experiment in experiments for run in lab.runs.all(experiment_id=experiment.id)]
    run_hours = math.fsum(run.run_hours or 0.0 for run in runs)
    gpu_hours = math.fsum(run.gpu_hours or 0.0 for run in runs)
    return f"{run_hours:.3g} run-hours, {gpu_hours:.3g} GPU-hours over {counted(len(runs), 'run')}"


def _measured(experiment: Experiment, rows: list[Evidence]) -> str:
    own = [row for row in rows if row.experiment_id == experiment.id and row.value is not None]
    if not own:
        return ""
    mean = math.fsum(row.value for row in own if row.value is not None) / len(own)
    named = ", ".join(row.run_id or "?" for row in own[:20]) + (", ..." if len(own) > 20 else "")
    return (
        f"- {experiment.id} ({one_line(experiment.title, 120)}): mean {experiment.design.metric} "
        f"{shown_number(mean, '.5g')} over {counted(len(own), 'run')} against baseline {experiment.design.baseline} "
        f"({named})"
    )

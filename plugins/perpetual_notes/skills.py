"""Skill cards: the recipe of a supported claim, proposed from the difference between its experiment and its baseline.

A card is a candidate: no agent is shown it before a person has promoted it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from perpetual.api import Experiment, Hypothesis
from perpetual.toolkit.claims import effect_in_words
from perpetual_notes.words import code, current, front_matter, one_line, with_own_words

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.documents.ledger import Effect

__all__ = ["path_of", "write"]

_MOST_CHANGES = 20


def path_of(hypothesis_id: str) -> str:
    """Returns the path of a hypothesis' card."""
    return f"skills/{hypothesis_id}.md"


def write(lab: Lab, hypothesis_id: str, *, seq: int) -> str | None:
    """Proposes the recipe of a claim, or says that it no longer holds; returns its path, None if there is none.

    There is one where runs decided the claim against a baseline experiment, the interval of the effect excludes zero,
    and what was changed is known.
    """
    hypothesis = lab.hypotheses.get(hypothesis_id)
    path = path_of(hypothesis.id)
    before = current(lab, path)
    recipe = _recipe(lab, hypothesis)
    is_ours = before is not None and f"\nevidence: [{hypothesis.id}, " in before
    if (recipe is None and not is_ours) or (before is not None and not is_ours):
        return None
    text = recipe or _withdrawn(hypothesis, before or "")
    text = with_own_words(text, before)
    if text == before:
        return path
    lab.memory.write(path, text, type="skill_card", message=f"{hypothesis.id} is {hypothesis.status}",
                     idempotency_key=f"skill:{hypothesis.id}:{seq}")  # fmt: skip
    return path


def _recipe(lab: Lab, hypothesis: Hypothesis) -> str | None:
    if hypothesis.status != "supported" or hypothesis.decided_by != "evidence" or hypothesis.effect is None:
        return None
    effect = cast("Effect", hypothesis.effect)
    low, baseline_id = effect["low"], effect["baseline"]
    if low is None or low <= 0 or not isinstance(baseline_id, str):
        return None
    experiment, baseline = lab.experiments.get(effect["experiments"][0]), lab.experiments.get(baseline_id)
    steps = _changes(experiment, baseline)
    if not steps:
        return None
    return _text(lab, hypothesis, effect, experiment, baseline, steps)


def _text(
    lab: Lab, hypothesis: Hypothesis, effect: Effect, experiment: Experiment, baseline: Experiment, steps: list[str]
) -> str:
    said = one_line(effect_in_words(effect, hypothesis.prediction.direction, hypothesis.status))
    title = one_line(f"Recipe: {hypothesis.statement}", 120)
    versions = _versions(lab, experiment)
    conditions = f"measured as {effect['metric']} against {baseline.id}" + (f", {versions}" if versions else "")
    head = front_matter({
        "type": "skill_card",
        "title": title,
        # Not the hypothesis: it is decided, and the recipe is for those that come after it.
        "scope": {"tag": [one_line(tag, 80) for tag in [*dict.fromkeys((*hypothesis.tags, *experiment.tags))][:20]]},
        "when": conditions,
        "steps": steps,
        "evidence": [hypothesis.id, experiment.id, baseline.id],
        "effect": said,
    })  # fmt: skip
    lines = [
        f"# {title}",
        "",
        one_line(hypothesis.sentence or "", 1_000),
        "",
        f"Changed in {experiment.id} against {baseline.id}:",
        "",
        *(f"- {step}" for step in steps),
        "",
        f"- effect: {said}",
        f"- conditions: {conditions}; nothing is known of others",
        f"- command: {code(experiment.command or '')}",
        *([f"- to be known: {one_line('; '.join(hypothesis.flags), 1_000)}"] if hypothesis.flags else []),
        *([f"- takes for granted: {one_line('; '.join(hypothesis.assumes), 1_000)}"] if hypothesis.assumes else []),
    ]
    return head + "\n".join(lines) + "\n"


def _withdrawn(hypothesis: Hypothesis, before: str) -> str:
    """Returns the card with a first line that says that its claim no longer holds."""
    head, end, _ = before.partition("\n---\n")
    line = f"{hypothesis.id} is {hypothesis.status}: this recipe is no longer supported by its evidence."
    return f"{head}{end}# Withdrawn: {one_line(hypothesis.statement, 100)}\n\n{line}\n"


def _changes(experiment: Experiment, baseline: Experiment) -> list[str]:
    """Returns what differs between two experiments, a line each."""
    found = _changed_words(experiment.command or "", baseline.command or "")
    found += _changed_values("config", baseline.config, experiment.config)
    found += _changed_values("environment", baseline.env, experiment.env)
    if experiment.design.changes:
        found.append(f"{one_line(experiment.design.changes, 60)} changed on purpose")
    return found[:_MOST_CHANGES]


def _changed_words(new: str, old: str) -> list[str]:
    if new == old:
        return []
    after, before = _words(new), _words(old)
    added = [word for word in after if word not in before]
    left = [word for word in before if word not in after]
    words = [*(["add " + " ".join(added)] if added else []), *(["leave out " + " ".join(left)] if left else [])]
    return [one_line(f"command: {', '.join(words) or new}", 400)]


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _changed_values(what: str, old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    found = []
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            found.append(one_line(f"{what} {name}: {old.get(name, 'unset')} -> {new.get(name, 'unset')}", 300))
    return found


def _versions(lab: Lab, experiment: Experiment) -> str:
    """Returns the code and data that the newest run of an experiment started with."""
    runs = [run for run in lab.runs.list(experiment_id=experiment.id).items if run.status == "done"][:1]
    found = []
    for name, value in ((name, run.versions.get(name)) for run in runs for name in ("code", "data")):
        said = next((item for item in value.values() if item), None) if isinstance(value, Mapping) else value
        found += [f"{name} {one_line(str(said))[:12]}"] if said else []
    return ", ".join(found)

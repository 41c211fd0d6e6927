"""The note on an idea that did not help: what was changed, against what, and what the runs have shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.api import line
from perpetual.toolkit.units import counted

if TYPE_CHECKING:
    from perpetual.api import Hypothesis, Record
    from perpetual_campaign.campaigns import Stage

__all__ = ["path_of", "text_of"]

_NAMED = 20


def path_of(campaign: Record, candidate: Record) -> str:
    """Returns the path of the note."""
    return f"failures/campaign-{campaign['name']}-{candidate.id}.md"


def text_of(
    campaign: Record, candidate: Record, stages: Sequence[Stage], claims: Sequence[Hypothesis], runs: int
) -> str:
    """Returns the note, in the form of a failure pattern."""
    deed = "lower" if campaign["direction"] == "min" else "raise"
    day = str(candidate["decided_at"])[:10]
    files = [f"- `{line(path)}`" for path in (candidate["files"] or ())[:_NAMED]]
    said = [f"- {stage['kind']} {stage['arm']} against {stage['best_arm']}: "
            f"{line(claim.sentence or claim.status)}" for stage, claim in zip(stages, claims, strict=True)]  # fmt: skip
    return "\n".join([
        "---",
        "type: failure_pattern",
        f"title: {json.dumps(line(candidate['idea']), ensure_ascii=False)}",
        f"signature: {str(candidate['patch'])[:16]}",
        f"count: {runs}",
        f"first_seen: {str(candidate['submitted_at'])[:10]}",
        f"last_seen: {day}",
        "---",
        f"# {line(candidate['idea'])}",
        "",
        f"It did not {deed} {campaign['metric']} in campaign {campaign['name']}: {candidate['outcome']} after "
        f"{counted(runs, 'run')}.",
        "",
        f"- candidate: {candidate.id}, branch perpetual/archive/{campaign['name']}/{candidate.id}",
        *said,
        "",
        "## What was changed",
        "",
        *files,
        "",
    ])  # fmt: skip

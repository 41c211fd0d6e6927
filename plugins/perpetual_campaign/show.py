"""Campaigns and candidates as documents, for every face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import line
from perpetual.toolkit.units import counted
from perpetual_campaign.by_thinker import ASKED
from perpetual_campaign.campaigns import LIVE, Campaigns, Stage, archive_ref, best_ref, candidate_ref
from perpetual_campaign.records import arms_of, most_pairs

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_campaign.documents import Campaign, CampaignLine, Candidate, Comparison

__all__ = ["campaign", "campaigns", "candidate", "text_of_campaign", "text_of_candidate"]

_TRIED = ("kept", "refuted", "undecided")
_ENDED = ("done", "failed", "timeout", "killed", "lost")


def campaigns(lab: Lab) -> list[CampaignLine]:
    """Returns every campaign, the newest first."""
    known = Campaigns(lab)
    return [_line(known, one) for one in known.all()[::-1]]


def campaign(lab: Lab, name: str) -> Campaign:
    """Returns a campaign with its candidates; raises NotFound."""
    known = Campaigns(lab)
    found = known.named(name)
    short = _line(known, found)
    return {
        **short,
        "command": found["command"],
        "mde": found["mde"],
        "edit": [*found["edit"]],
        "protect": [*found["protect"]],
        "replicates": found["replicates"],
        "max_pairs": most_pairs(found),
        "max_candidates": found["max_candidates"],
        "thinker": found["thinker"],
        "is_thinker_let": known.is_thinker_let(found),
        "worst_case_run_hours": known.worst_case(found),
        "items": [_candidate(lab, known, found, one) for one in known.of(found)[::-1]],
        "sentence": _sentence(short),
    }


def candidate(lab: Lab, id: str) -> Candidate:
    """Returns a candidate; raises NotFound."""
    known = Campaigns(lab)
    found = known.get(id)
    return _candidate(lab, known, known.campaign_of(found), found)


def _line(known: Campaigns, found: Record) -> CampaignLine:
    items = known.of(found)
    tried = sum(one["outcome"] in _TRIED or known.was_measured(one) for one in items)
    return {
        "name": found["name"],
        "state": found["state"],
        "metric": found["metric"],
        "direction": found["direction"],
        "branch": _short(best_ref(found)),
        "base": found["base"],
        "best": found["best"],
        "candidates": len(items),
        "live": sum(one["state"] in LIVE for one in items),
        "kept": sum(one["state"] == "kept" for one in items),
        "archived": sum(one["state"] == "archived" for one in items),
        "tried": tried,
        "alpha": known.alpha_of(found),
        "expected_false_keeps": tried * known.alpha_of(found),
        "run_hours": known.hours(found),
        "budget_run_hours": found["budget_run_hours"],
    }


def _sentence(short: CampaignLine) -> str:
    if not short["tried"]:
        return "No candidate was measured yet."
    return (
        f"Of {counted(short['tried'], 'measured candidate')} {short['kept']} {_are(short['kept'])} kept; did none of "
        f"them change anything, at most {short['expected_false_keeps']:.3g} would be kept on average."
    )


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _candidate(lab: Lab, known: Campaigns, campaign: Record, found: Record) -> Candidate:
    folder = known.worktree(found, campaign)
    comparisons = [_comparison(lab, stage) for stage in found["stages"]]
    is_archived = found["state"] == "archived"
    return {
        "id": found.id,
        "campaign": campaign["name"],
        "idea": found["idea"],
        "state": found["state"],
        "outcome": found["outcome"],
        "reason": found["reason"],
        "branch": _short((archive_ref if is_archived else candidate_ref)(campaign, found)),
        "worktree": str(folder) if (folder / ".git").exists() else None,
        "base": found["base"],
        "commit": found["commit"],
        "kept": found["kept"],
        "files": [*(found["files"] or ())],
        "comparisons": comparisons,
        "e_value": known.e_value(found) if comparisons else None,
        "note": found["note"],
        "created_by": found.created_by,
        "thinker": found["thinker"],
        "expires_at": found["expires_at"],
        "waits_for": _waits_for(lab, found),
        "next": f"perpetual campaign submit {found.id}"
        if found["state"] == "editing" and not found["thinker"]
        else None,
    }


def _comparison(lab: Lab, stage: Stage) -> Comparison:
    claim = lab.hypotheses.get(stage["hypothesis"])
    arms = [lab.experiments.get(id) for id in arms_of(stage)]
    runs = lab.runs.named([arm.id for arm in arms])
    effect = claim.effect or {}
    return {
        "round": stage["round"],
        "kind": stage["kind"],
        "base": stage["base"],
        "commit": stage["commit"],
        "best_arm": stage["best_arm"],
        "arm": stage["arm"],
        "more": [id for pair in stage.get("more", []) for id in pair],
        "hypothesis": claim.id,
        "status": claim.status,
        "confidence": claim.confidence,
        "e_value": claim.e_support,
        "effect": effect.get("value"),
        "low": effect.get("low"),
        "high": effect.get("high"),
        "runs": sum(arm.design.replicates for arm in arms),
        "runs_over": sum(run.status in _ENDED for run in runs),
        "sentence": claim.sentence,
    }


def _waits_for(lab: Lab, found: Record) -> str | None:
    if found["state"] not in ("trial", "confirmation"):
        return None
    stage = found["stages"][-1]
    proposed = [id for id in arms_of(stage) if lab.experiments.get(id).status == "proposed"]
    return f"a person approves {' and '.join(proposed)}" if proposed else None


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


def text_of_campaign(found: Campaign) -> str:
    """Returns a campaign for people, without its candidates."""
    hours = f"{found['run_hours']:.3g} run-hours used"
    if found["budget_run_hours"] is not None:
        hours += f" of {found['budget_run_hours']:.3g}"
    deed = "lower" if found["direction"] == "min" else "raise"
    return "\n".join([
        f"{line(found['name'])} ({found['state']}): {deed} {line(found['metric'])} of {line(found['command'])}",
        f"  candidates may change {line(', '.join(found['edit']))}",
        f"  best {found['best'][:12]} on {found['branch']}, begun at {found['base'][:12]}",
        f"  {hours}; a look takes {found['replicates']} pairs of at most {found['max_pairs']}, "
        f"{found['worst_case_run_hours']:.3g} run-hours at most",
        *([f"  {_of_thinker(found)}"] if found["thinker"] else []),
        f"  {found['sentence']}",
    ])  # fmt: skip


def _of_thinker(found: Campaign) -> str:
    text = f"the thinker edits {counted(found['thinker'] or 0, 'candidate')} at once"
    if found["state"] != "open" or found["is_thinker_let"]:
        return text
    let = f"perpetual campaign think {line(found['name'])} --at-once {found['thinker']}"
    return f"{text}, once a person lets it here: {let}"


def text_of_candidate(found: Candidate) -> str:
    """Returns a candidate for people."""
    state = found["outcome"] or found["state"]
    lines = [f"{found['id']} ({state}): {line(found['idea'])}", f"  branch {found['branch']}"]
    if found["thinker"]:
        deed = "asked of" if found["idea"] == ASKED else "edited by"
        lines.append(f"  {deed} the thinker {line(found['thinker'])}")
    if found["worktree"] is not None:
        lines.append(f"  worktree {line(found['worktree'])}")
    for one in found["comparisons"]:
        said = line(one["sentence"]) if one["sentence"] else f"{one['runs_over']} of {one['runs']} runs are over"
        lines.append(f"  {one['kind']} {one['arm']} against {one['best_arm']}: {said}")
    if found["reason"]:
        lines.append(f"  {line(found['reason'])}")
    if found["kept"]:
        lines.append(f"  kept as {found['kept'][:12]}, e-value {found['e_value']:.3g}")
    if found["note"]:
        lines.append(f"  remembered in {line(found['note'])}")
    if found["waits_for"]:
        lines.append(f"  waits: {found['waits_for']}")
    if found["next"]:
        lines.append(f"  next: {found['next']}")
    return "\n".join(lines)

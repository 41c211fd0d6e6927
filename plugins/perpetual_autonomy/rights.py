"""Which rights are in force: a ceiling of the user, what evidence has earned, and what persons said."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import ConfigError, NotPermitted, PerpetualError, UsageError, unknown
from perpetual.toolkit.readers import FOR_A_PERSON
from perpetual.toolkit.units import counted
from perpetual_autonomy.board import priors_of
from perpetual_autonomy.ceilings import Ceiling, ceilings, ignored
from perpetual_autonomy.figures import clean_needed
from perpetual_autonomy.history import ACTIONS, History, Incident, Standing
from perpetual_autonomy.ledger import RULE, append, day_now, last_change, person_said, used_of_day, uses

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_autonomy.documents import IncidentShown, RightChanged, Rights, RightShown

__all__ = ["Right", "change", "is_agent", "note_changes", "right_of", "rights"]

WORSE_BY = 0.05  # a Brier score that is above that of the base rate by more holds a right back


class Right(NamedTuple):
    """One pair: its ceiling, how it stands, and why it is not in force; nothing in `why` is a right in force."""

    pair: tuple[str, str]
    ceiling: Ceiling | None
    standing: Standing
    needed: int | None
    is_revoked: bool
    why: tuple[str, ...]
    number: int | None  # of the row by which it was earned

    @property
    def in_force(self) -> bool:
        """Returns whether the right is in force."""
        return not self.why

    @property
    def is_earned(self) -> bool:
        """Returns whether the evidence earns it, whatever persons and ceilings say."""
        return self.needed is not None and self.standing.clean >= self.needed


def right_of(lab: Lab, history: History, pair: tuple[str, str], ceiling: Ceiling | None) -> Right:
    """Returns a pair's right by the record as `history` has read it."""
    said = person_said(lab, pair)
    standing = history.standing(lab, pair, revoked_at=said.revoked_at)
    needed = None if ceiling is None else clean_needed(standing.attempt, ceiling.incident_rate)
    why = []
    if ceiling is None:
        why.append(f"your own configuration sets no ceiling for {pair[1]}")
    elif pair[0] not in ceiling.proposers:
        why.append(f"your own configuration does not name {pair[0]} for {pair[1]}")
    if said.is_revoked:
        why.append(f"a person revoked it: {said.why}")
    if needed is not None and standing.clean < needed:
        missing = counted(needed - standing.clean, "more experiment")
        why.append(f"{missing} in a row without incident, of {needed}, that a person approved")
    if needed is not None and standing.clean >= needed and (worse := _worse(lab, history, pair[0])) is not None:
        why.append(worse)
    change = last_change(lab, pair)
    number = change.number if change is not None and change["change"] == "earned" else None
    return Right(pair, ceiling, standing, needed, said.is_revoked, tuple(why), number)


def _worse(lab: Lab, history: History, proposer: str) -> str | None:
    """Returns that declared priors fared worse than the base rate; it only ever holds a right back."""
    score = priors_of(lab, history, proposer)["brier"]
    if score is None or score["score"] <= score["base_rate"] + WORSE_BY:
        return None
    return (f"declared priors fared worse than the base rate: Brier score {score['score']:.3f} "
            f"against {score['base_rate']:.3f}")  # fmt: skip


def note_changes(lab: Lab, history: History, limits: dict[str, Ceiling]) -> list[Right]:
    """Writes what was earned or lost since the last row of each pair that has a ceiling; returns their rights."""
    history.read(lab)
    pairs = [(proposer, action) for action, ceiling in limits.items() for proposer in ceiling.proposers]
    found = [right_of(lab, history, pair, limits[pair[1]]) for pair in dict.fromkeys(pairs)]
    return [_noted(lab, history, right) if _is_news(right) else right for right in found]


def _is_news(right: Right) -> bool:
    is_earned = right.is_earned and not right.is_revoked
    return is_earned != (right.number is not None)


def _noted(lab: Lab, history: History, right: Right) -> Right:
    """Writes that a right was earned or lost, unless another process has written it."""
    with lab.transaction():
        history.read(lab)
        right = right_of(lab, history, right.pair, right.ceiling)
        if not _is_news(right):
            return right
        standing = right.standing
        facts: dict[str, object] = {
            "clean": standing.clean, "needed": right.needed, "attempt": standing.attempt,
            "experiments": [*standing.counted],
            "incidents": [one.words for one in standing.incidents[-3:]],
        }  # fmt: skip
        earned = right.number is None
        why = f"{counted(standing.clean, 'experiment')} in a row without incident" if earned else _lost(lab, right)
        row = append(lab, right.pair, "earned" if earned else "lost", seq=history.seq, why=why, facts=facts)
    return right._replace(number=row.number if earned else None)


def _lost(lab: Lab, right: Right) -> str:
    """Returns why a right that was earned is lost."""
    before, incidents = last_change(lab, right.pair), right.standing.incidents
    said = person_said(lab, right.pair)
    if before is not None and incidents and incidents[-1].seq > before["seq"]:
        return incidents[-1].words
    return f"a person revoked it: {said.why}" if said.is_revoked else "; ".join(right.why) or "the evidence is another"


def rights(lab: Lab) -> Rights:
    """Returns what rights are in force and what is missing of the others; only reads."""
    notes, problem, limits = [], None, dict[str, Ceiling]()
    try:
        limits = ceilings(lab)
    except ConfigError as found:
        problem = found.message
    if ignored(lab):
        notes.append("the project's own file sets plugins.autonomy, which does not count: only your own file does")
    if not limits and problem is None:
        notes.append("no ceiling is set in your own configuration: nothing is approved by a right")
    if lab.config.methodology["on_overrun"] != "kill" and limits:
        notes.append("on_overrun is warn, so that nothing bounds what a run takes: no right approves anything")
    history = History()
    history.read(lab)
    named = [(proposer, action) for action, ceiling in limits.items() for proposer in ceiling.proposers]
    day = day_now(lab)
    return {
        "day": day,
        "rule": RULE,
        "ceilings": [
            {
                "action": one.action, "run_hours": one.run_hours, "run_hours_per_day": one.run_hours_per_day,
                "proposers": [*one.proposers], "incident_rate": one.incident_rate, "code": one.code,
                "used_today": used_of_day(lab, one.action, day),
            }
            for one in limits.values()
        ],
        "rights": [
            _shown(right_of(lab, history, pair, limits.get(pair[1])))
            for pair in dict.fromkeys([*named, *history.pairs()])
        ],
        "notes": notes,
        "problem": problem,
    }  # fmt: skip


def _shown(right: Right) -> RightShown:
    standing = right.standing
    return {
        "proposer": right.pair[0], "action": right.pair[1], "in_force": right.in_force,
        "right": right.number if right.in_force else None, "why": [*right.why], "clean": standing.clean,
        "needed": right.needed, "attempt": standing.attempt, "pending": standing.pending,
        "incidents": len(standing.incidents),
        "last_incident": _incident(standing.incidents[-1]) if standing.incidents else None,
        "revoked": right.is_revoked,
    }  # fmt: skip


def _incident(one: Incident) -> IncidentShown:
    return {"time": one.time, "kind": one.kind, "subject": one.subject, "experiment": one.experiment,
            "actor": one.actor, "words": one.words}  # fmt: skip


def change(lab: Lab, proposer: str, action: str, *, restore: bool = False, why: str) -> RightChanged:
    """Revokes a right, or lifts the revocation; it is then earned anew, from the revocation on.

    Raises:
        NotPermitted: where an agent asks, whatever the methodology says, and in a project that is held.
        UsageError: for a class that there is not, without a reason, and where nothing changes.
    """
    lab.trust.require("changing a right")
    if is_agent(lab):
        raise NotPermitted("changing a right is for a person", hint=FOR_A_PERSON)
    if action not in ACTIONS:
        raise UsageError(unknown("class of action", action, ACTIONS), hint="perpetual rights")
    if not why.strip() or not proposer.strip():
        raise UsageError("it needs a proposer and a reason", hint="--why TEXT")
    pair = (proposer, action)
    with lab.transaction():
        if person_said(lab, pair).is_revoked is not restore:
            state = "not revoked" if restore else "revoked already"
            raise UsageError(f"the right of {proposer} to {action} is {state}", hint="perpetual rights")
        waiting = _unstarted(lab, pair)
        append(lab, pair, "restored" if restore else "revoked", seq=lab.feed.last(), why=why.strip()[:500], facts={})
    return {"proposer": proposer, "action": action, "change": "restored" if restore else "revoked",
            "waiting": [] if restore else waiting}  # fmt: skip


def is_agent(lab: Lab) -> bool:
    """Returns whether an agent asks, by its name or by its shell, whatever the methodology says."""
    try:
        lab.trust.refuse_agents()
    except NotPermitted:
        return True
    return False


def _unstarted(lab: Lab, pair: tuple[str, str]) -> list[str]:
    found = []
    for id in uses(lab, pair):
        try:
            if lab.experiments.get(id).status == "approved":
                found.append(id)
        except PerpetualError:  # of an import that has left it out
            continue
    return found

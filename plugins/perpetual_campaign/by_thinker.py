"""Candidates that a thinker edits: opened for it, filled with its checked edit, or ended with what was wrong with it.

A person gives a campaign a thinker, and so lets its candidates run under that campaign's command, scope and limits: a
mark of this machine binds them. Where one of them is another, or on another machine, each candidate waits for a person.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perpetual.api import Conflict, NotPermitted, TransientError, UsageError
from perpetual.toolkit.fence import neutralise
from perpetual.toolkit.units import posix_of
from perpetual_campaign.progress import Progress
from perpetual_campaign.records import LIVE, candidate_ref
from perpetual_campaign.repository import Commit

if TYPE_CHECKING:
    from perpetual.api import Record

__all__ = ["ASKED", "EDITED", "MOST_AT_ONCE", "ByThinker"]

ASKED = "asked of the thinker"  # the idea of a candidate that has no edit yet
EDITED = "campaign.edited"  # an event
MOST_AT_ONCE = 20
_LONGEST_CLAIM = 200


class ByThinker(Progress):
    """Opens candidates for a thinker, and takes its edits over."""

    def set_thinker(self, name: str, at_once: int, *, max_candidates: int | None = None) -> Record:
        """Lets a thinker edit so many candidates of a campaign at once; 0 lets it edit none.

        Args:
            name: the campaign's.
            at_once: how many.
            max_candidates: a new most of candidates of the campaign, those that it has had included.

        Raises:
            NotPermitted: for an agent: this lets code run that no person has read.
            UsageError: for another number, and for a campaign without a most of candidates.
        """
        campaign = self.named(name)
        self._check_open(campaign)
        most = campaign["max_candidates"] if max_candidates is None else max_candidates
        self.check_thinker(at_once, most)
        if max_candidates is not None:
            self._check_person()
        changed = self._campaigns.update(campaign.id, thinker=at_once, max_candidates=most)
        return self._campaigns.update(campaign.id, thinker_mark=self._thinker_mark(changed) if at_once else None)

    def check_thinker(self, at_once: int, max_candidates: int | None) -> None:
        """Raises as `set_thinker` says."""
        if not 0 <= at_once <= MOST_AT_ONCE:
            raise UsageError(f"a thinker has 0 to {MOST_AT_ONCE} candidates at once, not {at_once}")
        if at_once and max_candidates is None:
            raise UsageError("a campaign with a thinker needs a most of candidates", hint="--max-candidates 20")
        if max_candidates is not None and max_candidates < 1:
            raise UsageError("--max-candidates takes 1 or more", hint="--max-candidates 20")
        if at_once:
            self._check_person()

    def _check_person(self) -> None:
        if self._lab.settings.withholds:
            raise NotPermitted("giving a campaign a thinker is for a person", hint="ask the person at this machine")

    def opened(self, campaign: Record, thinker: str) -> Record | None:
        """Returns a new candidate for the thinker, None where the campaign has no room for one now."""
        with self._at_work():
            campaign = self._campaigns.get(campaign.id)
            items = self.of(campaign)
            live = sum(one["thinker"] is not None and one["state"] in LIVE for one in items)
            if campaign["state"] != "open" or live >= int(campaign["thinker"] or 0) or not self.has_room(campaign):
                return None
            return self._made(campaign, ASKED, thinker)

    def has_room(self, campaign: Record) -> bool:
        """Returns whether a campaign may have another candidate of a thinker, once one of those at once is over."""
        left = self.hours_left(campaign)
        is_full = len(self.of(campaign)) >= int(campaign["max_candidates"] or 0)
        return not is_full and (left is None or self.worst_case(campaign) <= left)

    def filled(self, candidate: Record, base: str, tree: str, claim: str, at: str) -> Record:
        """Commits a checked edit on the branch of its candidate, which the next `advance` submits; once.

        Raises:
            Conflict: where the worktree holds another edit meanwhile.
        """
        with self._at_work():
            candidate = self._candidates.get(candidate.id)
            campaign = self._campaigns.get(candidate["campaign"])
            if candidate["state"] == "new":
                candidate = self._laid(campaign, candidate)
            if candidate["state"] != "editing" or candidate["edited_at"] is not None:
                return candidate
            idea = neutralise(claim, _LONGEST_CLAIM)
            patch = self.git.patch_id(base, tree)
            mark = self._mark(campaign, candidate, patch) if self.is_thinker_let(campaign) else None
            commit = self.git.write(Commit(tree, base, f"{idea}\n", candidate.created_by, int(posix_of(at))))
            folder, ref = self.worktree(candidate, campaign), candidate_ref(campaign, candidate)
            self.git.check_worktree(folder)
            if not any(self.git.is_as(folder, one) for one in (base, commit)):
                raise Conflict(f"{folder} has another edit", hint=f"perpetual campaign submit {candidate.id}")
            self.git.move(ref, commit, base)
            self.git.reset_worktree(folder, commit)
            with self._lab.together():
                made = self._change(candidate, idea=idea, edited_at=at, mark=mark)
                self._lab.feed.emit(EDITED, candidate.id, {"campaign": campaign["name"]})
            return made

    def refuse(self, candidate: Record, why: str) -> None:
        """Ends a candidate for which the thinker gave no edit that could be used."""
        with self._at_work():
            candidate = self._candidates.get(candidate.id)
            if candidate["state"] in ("new", "editing") and candidate["edited_at"] is None:
                self._end(self._campaigns.get(candidate["campaign"]), candidate, "refused", why)

    def is_thinker_let(self, campaign: Record) -> bool:
        """Returns whether a person of this machine has let a thinker edit for this campaign as it is."""
        mark = campaign.fields.get("thinker_mark")
        is_on = campaign["state"] == "open" and int(campaign["thinker"] or 0) > 0
        return is_on and isinstance(mark, str) and hmac.compare_digest(mark, self._thinker_mark(campaign))

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Holds the lock on git; another process that has it is a reason to try again, and no fault of the edit."""
        try:
            with self._locked():
                yield
        except Conflict as problem:
            if problem.code != "locked":
                raise
            raise TransientError(problem.message, hint=problem.hint) from problem

"""Candidates that a thinker edits: opened for it, filled with its checked edit, or ended with what was wrong with it.

A person gives a campaign a thinker, and so lets its candidates run under that campaign's command, scope and limits: a
mark of this machine binds them. Where one of them is another, or on another machine, each candidate waits for a person.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perpetual.api import Conflict, NotPermitted, Refused, TransientError, UsageError
from perpetual.toolkit.fence import neutralise
from perpetual.toolkit.units import counted, posix_of
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
        if at_once:
            self.check_editable(campaign)
        if max_candidates is not None:
            self._check_person()
        changed = self._campaigns.update(campaign.id, thinker=at_once, max_candidates=most)
        mark = self._thinker_mark(changed, draw=True)  # also where it is taken back: no earlier one counts any more
        return self._campaigns.update(campaign.id, thinker_mark=mark if at_once else None)

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

    def check_editable(self, campaign: Record) -> None:
        """Raises UsageError for a campaign whose best has no file that a thinker may edit."""
        from perpetual_campaign.asking import editable

        if not editable(self, campaign, str(campaign["best"])):
            raise UsageError(
                f"no file of {str(campaign['best'])[:12]} matches --edit and no --protect",
                hint="--edit takes paths from the project's folder; the file must be committed",
            )

    def why_full(self, campaign: Record) -> str | None:
        """Returns why a campaign has no room for another candidate of a thinker; None where it has."""
        items, most = self.of(campaign), int(campaign["max_candidates"] or 0)
        if len(items) >= most:
            return f"{campaign['name']} has had its {counted(most, 'candidate')}"
        try:
            self._check_budget(campaign)
        except Refused as problem:
            return problem.message
        return None

    def opened(self, campaign: Record, thinker: str) -> Record | None:
        """Returns a new candidate for the thinker, None where the campaign has no room for one now."""
        with self._at_work():
            campaign = self._campaigns.get(campaign.id)
            items = self.of(campaign)
            live = sum(one["thinker"] is not None and one["state"] in LIVE for one in items)
            is_full = campaign["state"] != "open" or self.why_full(campaign) is not None
            if is_full or live >= int(campaign["thinker"] or 0):
                return None
            return self._made(campaign, ASKED, thinker)

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
            mark = self._mark(campaign, candidate, base, tree) if self.is_thinker_let(campaign) else None
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

"""How a candidate is submitted: its difference is held against the campaign, committed, and its runs are proposed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import Conflict, Refused, line
from perpetual.toolkit.units import iso, posix_of
from perpetual_campaign.endings import Endings
from perpetual_campaign.records import MEASURED, candidate_ref, shown_state
from perpetual_campaign.repository import Commit
from perpetual_campaign.scope import check

if TYPE_CHECKING:
    from perpetual.api import Record

__all__ = ["Submissions"]

_FORGIVEN = ("failed", "expired", "dropped", "stuck", "refused")  # after which the same difference may be tried again


class Submissions(Endings):
    """Submits candidates, and puts them on a best that has moved."""

    def _made(self, campaign: Record, idea: str, thinker: str | None = None) -> Record:
        """Makes a candidate of the best, with its branch and its worktree."""
        made = self._candidates.add(
            campaign=campaign.id, idea=idea, state="new", base=campaign["best"], round=0, stages=[], thinker=thinker,
            expires_at=iso(datetime.now(UTC) + timedelta(hours=self._number("edit_hours"))),
        )  # fmt: skip
        return self._laid(campaign, made)

    def _laid(self, campaign: Record, candidate: Record) -> Record:
        """Makes branch and worktree of a new candidate."""
        folder = self.worktree(candidate, campaign)
        self.git.ensure_worktree(folder, commit=candidate["base"], branch=candidate_ref(campaign, candidate))
        return self._change(candidate, state="editing")

    def _submitted(self, campaign: Record, candidate: Record, *, let: bool | None = None) -> Record:
        """Does what `Campaigns.submit` says; the caller holds the lock.

        Args:
            campaign: which is open.
            candidate: of it.
            let: whether a person let a thinker's edits run; it counts where that very edit is in the worktree. None
                where the actor of the lab decides that.
        """
        if candidate["state"] == "new":
            candidate = self._laid(campaign, candidate)
        if candidate["state"] not in ("editing", *MEASURED):
            another = f'perpetual campaign candidate {campaign["name"]} "IDEA" makes another'
            raise Conflict(f"{candidate.id} is {shown_state(candidate)}", hint=another)
        if candidate["state"] in MEASURED and not self._is_left_behind(campaign, candidate):
            return self._approved(campaign, candidate)
        folder = self._edited_folder(campaign, candidate)
        best = str(campaign["best"])
        if candidate["thinker"] is not None and candidate["edited_at"] is None:
            candidate = self._change(candidate, thinker=None, idea="edited by hand")
        base = candidate["base"]
        if base != best and self.git.is_ancestor(best, candidate_ref(campaign, candidate)):
            base = best  # its author has put it on the new best
        files = check(self.git.changed(folder, base), self.scope(campaign), self.git.below)
        self._check_budget(campaign)
        now = iso(datetime.now(UTC))
        message = f"{candidate['idea']}\n"
        commit = self.git.commit_all(folder, message, self._lab.actor, int(posix_of(now)))
        prefix = f"{self.git.below}/" if self.git.below else ""
        if {*self.git.names(base, commit)} - {prefix + path for path in files}:
            raise Refused(f"{folder} was edited while it was submitted", hint="submit it again", code="edited")
        patch = self.git.patch_id(base, commit)
        self.check_new(campaign, candidate, patch)
        is_let = not self._lab.settings.withholds
        if let is not None:
            is_let = let and self._is_let(campaign, candidate, base, commit)
        if base != best:
            commit, base = self._put_on_best(campaign, candidate, base, commit, now), best
        mark = self._mark(campaign, candidate, base, commit) if is_let else None
        candidate = self._change(
            candidate, base=base, commit=commit, patch=patch, files=files, submitted_at=now, mark=mark
        )
        candidate = self._measured(campaign, candidate, "trial", base, commit)
        if let is None:
            return self._approved(campaign, candidate)
        self._started(campaign, candidate)
        return candidate

    def _edited_folder(self, campaign: Record, candidate: Record) -> Path:
        """Returns a candidate's worktree; raises Conflict unless it is one, on its branch, which builds on its base."""
        folder, ref = self.worktree(candidate, campaign), candidate_ref(campaign, candidate)
        if not (folder / ".git").exists():
            raise Conflict(f"the worktree of {candidate.id} is gone", hint=f"perpetual campaign drop {candidate.id}")
        self.git.check_worktree(folder)
        if self.git.branch_of(folder) != ref:
            short = ref.removeprefix("refs/heads/")
            raise Conflict(f"{folder} is on another branch", hint=f"git -C {folder} switch {short}")
        if not self.git.is_ancestor(candidate["base"], ref):
            base = candidate["base"][:12]
            raise Conflict(f"{candidate.id} does not build on {base} any more", hint=f"git -C {folder} rebase {base}")
        return folder

    def _is_left_behind(self, campaign: Record, candidate: Record) -> bool:
        """Returns whether the best has moved since a candidate was submitted, and its worktree has edits since."""
        folder = self.worktree(candidate, campaign)
        is_moved = self._stages(candidate)[-1]["base"] != campaign["best"]
        return is_moved and (folder / ".git").exists() and not self.git.is_clean(folder)

    def _put_on_best(self, campaign: Record, candidate: Record, base: str, commit: str, at: str) -> str:
        """Returns a candidate's commit on the best, to which its branch and its clean worktree then stand.

        Raises:
            Conflict: where it does not apply there, or the best has all of it.
        """
        best = str(campaign["best"])
        tree = self.git.applied(base, commit, best)
        if tree is None or tree == self.git.tree_of(best):
            why = "it does not apply to the new best" if tree is None else "the new best has all of it"
            raise Conflict(f"{candidate.id}: {why}", code="not_applied",
                           hint=f"git -C {self.worktree(candidate, campaign)} rebase {best[:12]}")  # fmt: skip
        message, when = f"{candidate['idea']}\n", int(posix_of(at))
        made = self.git.write(Commit(tree, best, message, candidate.created_by, when))
        folder = self.worktree(candidate, campaign)
        self.git.ensure_worktree(folder, commit=commit, branch=candidate_ref(campaign, candidate))
        self.git.check_worktree(folder)
        self.git.reset_worktree(folder, made)
        return made

    def check_new(self, campaign: Record, candidate: Record, patch: str) -> None:
        """Raises Refused (tried_before) for the difference of another candidate that was not forgiven."""
        for other in self.of(campaign):
            if other.id == candidate.id or other["patch"] != patch or other["outcome"] in _FORGIVEN:
                continue
            came = f": {line(other['reason'])}" if other["reason"] else ""
            raise Refused(f"{other.id} tried the same difference, and is {shown_state(other)}{came}",
                          hint=f"perpetual campaign show {other.id}", code="tried_before")  # fmt: skip

    def _check_budget(self, campaign: Record) -> None:
        if (left := self.hours_left(campaign)) is not None and self.worst_case(campaign) > left:
            raise Refused(
                f"a trial takes at most {self.worst_case(campaign):.3g} run-hours, and {campaign['name']} has "
                f"{max(0.0, left):.3g} left of {campaign['budget_run_hours']:.3g}",
                hint="a lower --wall makes the worst case smaller, in a new campaign", code="budget",
            )  # fmt: skip

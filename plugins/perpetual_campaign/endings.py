"""How a candidate ends: kept on the campaign's branch with its evidence, or archived and remembered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from perpetual.api import Conflict, PerpetualError, line
from perpetual.toolkit.units import iso, posix_of
from perpetual_campaign.comparisons import Comparisons
from perpetual_campaign.records import (
    ENDED,
    LIVE,
    MEASURED,
    PLACE,
    archive_ref,
    arms_of,
    best_ref,
    candidate_ref,
    shown_state,
    unless_done,
)
from perpetual_campaign.repository import Commit

if TYPE_CHECKING:
    from perpetual.api import Record, Run

__all__ = ["Endings"]

_IS_MEASURED = re.compile(r"(?:best|c\d+)-[0-9a-f]{12}\Z")  # a worktree of ours alone


class Endings(Comparisons):
    """Ends candidates, and closes campaigns. Each step may be done again after any end of the process."""

    def drop(self, id: str, why: str) -> Record:
        """Ends a candidate that is not wanted any more; its branch is archived.

        Raises:
            Conflict: for one that is over.
        """
        candidate = self.get(id)
        with self._locked():
            candidate = self._candidates.get(candidate.id)
            if candidate["state"] not in ("new", "editing", *MEASURED):
                raise Conflict(f"{candidate.id} is {shown_state(candidate)}")
            self._end(self._campaigns.get(candidate["campaign"]), candidate, "dropped", line(why))
        return self._candidates.get(candidate.id)

    def close(self, name: str) -> Record:
        """Ends a campaign: no candidate is added or measured any more. Those that are live are archived."""
        campaign = self.named(name)
        for candidate in self.of(campaign):
            if candidate["state"] in ("new", "editing", *MEASURED):
                self.drop(candidate.id, "the campaign was closed")
        if any(candidate["state"] in LIVE for candidate in self.of(campaign)):
            raise Conflict(f"runs of {name} are still ending",
                           hint=f"perpetual scan, then perpetual campaign close {name}")  # fmt: skip
        return self._campaigns.update(campaign.id, state="closed")

    def _end(self, campaign: Record, candidate: Record, outcome: str, reason: str) -> None:
        made = self._change(candidate, state="archiving", outcome=outcome, reason=reason[:1000],
                            decided_at=iso(datetime.now(UTC)))  # fmt: skip
        self._archive(campaign, made)

    def _keep(self, campaign: Record, candidate: Record) -> None:
        """Commits what was measured on the campaign's branch, which is then the best."""
        if candidate["base"] != campaign["best"] and candidate["kept"] is None:
            # Another was kept since: only from an edited record, as one process at a time decides.
            self._change(candidate, state="confirmation")
            return
        message = str(candidate["message"] or self.message(campaign, candidate))
        when = int(posix_of(candidate["decided_at"]))
        commit = self.git.write(Commit(self.git.tree_of(candidate["commit"]), candidate["base"], message,
                                       candidate.created_by, when))  # fmt: skip
        ref = best_ref(campaign)
        if self.git.commit_of(ref) != commit and (place := self.git.checked_out(ref)) is not None:
            short = ref.removeprefix("refs/heads/")
            raise Conflict(f"{short} is checked out in {place}, where moving it would change what git says",
                           hint="git switch to another branch there; the next scan goes on")  # fmt: skip
        self.git.move(ref, commit, candidate["base"])
        with self._lab.together():
            is_let = self.is_thinker_let(campaign)
            moved = self._campaigns.update(campaign.id, expect_revision=campaign.revision, best=commit)
            if is_let:  # what it lets a thinker edit is now the new best
                self._campaigns.update(moved.id, thinker_mark=self._thinker_mark(moved))
            candidate = self._change(candidate, state="kept", outcome="kept", kept=commit, reason=None)
        self.git.remove_worktree(self.worktree(candidate, campaign))
        self._tidy(campaign)

    def _archive(self, campaign: Record, candidate: Record) -> None:
        """Renames the branch of a candidate that was not kept, and writes down what it was that did not help."""
        ref, archive = candidate_ref(campaign, candidate), archive_ref(campaign, candidate)
        at = self.git.commit_of(ref)
        if at is not None:
            there = self.git.commit_of(archive)
            self.git.move(archive, at, there if there is not None and self.git.is_ancestor(there, at) else None)
        self._stop(candidate)
        if self._live_runs(candidate):
            return  # their folder stays until they are over
        self.git.remove_worktree(self.worktree(candidate, campaign), base=str(candidate["base"]))
        if at is not None:
            self.git.delete(ref, at)
        note = self._noted(campaign, candidate)
        self._change(candidate, state="archived", note=note)
        self._tidy(campaign)

    def _stop(self, candidate: Record) -> None:
        """Ends what is left of a candidate's runs, and parks its claims, so that the loop proposes none."""
        for stage in self._stages(candidate):
            for id in arms_of(stage):
                arm = self._lab.experiments.get(id)
                if arm.status in ("proposed", "approved") and not any(arm.runs.values()):
                    with suppress(PerpetualError):  # an agent takes back no other's proposal: a person sees it waiting
                        self._lab.experiments.reject(id, f"{candidate.id}: {candidate['reason']}"[:500])
            claim = self._lab.hypotheses.get(stage["hypothesis"])
            if claim.status == "open":
                with suppress(PerpetualError):
                    self._lab.hypotheses.update(claim.id, status="parked", why=f"{candidate.id} is over")
        for run in self._live_runs(candidate):
            with unless_done():
                self._lab.runs.kill(run.id)

    def _live_runs(self, candidate: Record) -> list[Run]:
        return [run for run in self._runs_of(candidate) if run.status not in ENDED]

    def _runs_of(self, candidate: Record) -> Sequence[Run]:
        ids = [id for stage in self._stages(candidate) for id in arms_of(stage)]
        return self._lab.runs.named(ids) if ids else ()

    def _noted(self, campaign: Record, candidate: Record) -> str | None:
        """Writes the note on a candidate that was measured and did not help; None where there is nothing to learn."""
        if candidate["outcome"] not in ("refuted", "undecided", "failed") or not candidate["stages"]:
            return None
        from perpetual_campaign.failure import path_of, text_of

        path = path_of(campaign, candidate)
        claims = [self._lab.hypotheses.get(stage["hypothesis"]) for stage in self._stages(candidate)]
        text = text_of(campaign, candidate, self._stages(candidate), claims, len(self._runs_of(candidate)))
        try:
            self._lab.memory.write(path, text, type="failure_pattern",
                                   message=f"{candidate.id} of campaign {campaign['name']}: {candidate['outcome']}",
                                   idempotency_key=f"campaign-note:{candidate.id}")  # fmt: skip
        except PerpetualError:  # the gates refuse what an agent has written: the record holds the reason all the same
            return None
        return path

    def _tidy(self, campaign: Record) -> None:
        """Removes worktrees of a best that no live comparison needs."""
        needed = {folder.name for one in self.of(campaign) if one["state"] in (*MEASURED, "archiving")
                  for stage in self._stages(one)
                  for folder in (self.measured_folder(campaign, stage["base"]),
                                 self.measured_folder(campaign, stage["commit"], one))}  # fmt: skip
        place = self._lab.root / PLACE / str(campaign["name"])
        for folder in place.iterdir() if place.is_dir() else ():
            if _IS_MEASURED.match(folder.name) and folder.name not in needed:
                self.git.remove_worktree(folder)

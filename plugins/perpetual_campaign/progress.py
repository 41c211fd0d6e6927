"""What takes live candidates on: each scan decides on those whose runs are over, and does again what was begun."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from perpetual.api import Conflict, PerpetualError, Refused, line
from perpetual.toolkit.units import counted, iso
from perpetual_campaign.looks import Look, Said, said_of
from perpetual_campaign.records import ENDED, LIVE, arms_of
from perpetual_campaign.submission import Submissions

if TYPE_CHECKING:
    from perpetual.api import Experiment, Hypothesis, Record, Run

__all__ = ["Progress"]

_GONE = ("rejected", "expired")


class Progress(Submissions):
    """Takes candidates on as far as they go without waiting."""

    def advance(self) -> dict[str, str]:
        """Takes live candidates as far as they go without waiting; returns why those that wait do, by their ids."""
        waits: dict[str, str] = {}
        lock = self._lock()
        if not any(self._candidates.find(state=state) for state in LIVE):
            return waits
        if not lock.acquire(blocking=False):
            return waits  # another process is at it
        try:
            for campaign in self._campaigns.find(state="open"):
                # What is in the middle of being kept comes first: the branch may be ahead of the record.
                for candidate in sorted(self.of(campaign), key=lambda one: one["state"] != "keeping"):
                    if candidate["state"] not in LIVE:
                        continue
                    try:
                        why = self._advance(self._campaigns.get(campaign.id), candidate)
                    except PerpetualError as problem:  # one candidate holds up no other
                        why = problem.message
                    if why is not None:
                        waits[candidate.id] = why
        finally:
            lock.release()
        return waits

    def _advance(self, campaign: Record, candidate: Record) -> str | None:
        state = candidate["state"]
        if state == "new":
            self._laid(campaign, candidate)
        elif state == "editing":
            if candidate["edited_at"] is not None:
                self._submit_edited(campaign, candidate)
            elif candidate["thinker"] is not None and (why := self.given_up(candidate)) is not None:
                self._end(campaign, candidate, "refused", why)
            elif iso(datetime.now(UTC)) >= candidate["expires_at"]:
                self._end(campaign, candidate, "expired", "it was not submitted in time")
        elif state == "keeping":
            self._keep(campaign, candidate)
        elif state == "archiving":
            self._archive(campaign, candidate)
        else:
            return self._judge(campaign, candidate)
        return None

    def _submit_edited(self, campaign: Record, candidate: Record) -> None:
        """Submits what a thinker has edited; what is refused ends, since no thinker is asked for it again."""
        try:
            self._submitted(campaign, candidate, let=self.is_thinker_let(campaign))
        except Refused as problem:
            self._end(campaign, candidate, "refused", f"{problem.code}: {problem.message}")
        except Conflict as problem:
            self._end(campaign, candidate, "stuck", problem.message)

    def _judge(self, campaign: Record, candidate: Record) -> str | None:
        """Decides on the last comparison of a candidate once its runs are over; returns why it waits."""
        stage = self._stages(candidate)[-1]
        arms = [self._lab.experiments.get(id) for id in arms_of(stage)]
        gone = [arm for arm in arms if arm.status in _GONE]
        if gone:
            self._end(campaign, candidate, "dropped", f"{gone[0].id} is {gone[0].status}")
            return None
        runs = {arm.id: self._lab.runs.named([arm.id]) for arm in arms}
        if any(len(runs[arm.id]) < arm.design.replicates for arm in arms):
            return self._started(campaign, candidate)
        if any(run.status not in ENDED for each in runs.values() for run in each):
            return None
        look = self.look(campaign, candidate)
        said = said_of(look)
        if said != "passed":
            claim = self._lab.hypotheses.get(stage["hypothesis"])
            own, of_best = ([run for arm in side for run in runs[arm.id]] for side in (arms[1::2], arms[::2]))
            if said == "go_on" and not _failing(own, of_best, str(campaign["metric"])):
                return self._further(campaign, candidate, min(int(campaign["replicates"]), look.most - look.pairs))
            self._end(campaign, candidate, *_verdict(claim, look, said, arms[1], own, of_best, str(campaign["metric"])))
            return None
        self.check_measured(candidate)
        if stage["base"] != campaign["best"]:
            return self._again(campaign, candidate)
        if stage["kind"] == "trial":
            if (left := self.hours_left(campaign)) is not None and self.worst_case(campaign) > left:
                self._end(campaign, candidate, "stuck", "the campaign's budget does not hold its confirmation")
                return None
            candidate = self._measured(campaign, candidate, "confirmation", stage["base"], stage["commit"])
            return self._started(campaign, candidate)
        made = self._change(candidate, state="keeping", decided_at=iso(datetime.now(UTC)))
        self._keep(campaign, self._change(made, message=self.message(campaign, made)))
        return None

    def _further(self, campaign: Record, candidate: Record, pairs: int) -> str | None:
        """Lets an open comparison have further pairs; returns why they wait."""
        each = self.worst_case(campaign) / int(campaign["replicates"])
        if (left := self.hours_left(campaign)) is not None and each * pairs > left:
            self._end(campaign, candidate, "stuck", "the campaign's budget does not hold further pairs")
            return None
        try:
            candidate = self._extended(campaign, candidate, pairs)
        except Conflict as problem:
            if problem.code != "decided":
                raise
            e_value, least = self.e_value(candidate), 1 / self.alpha_of(campaign)
            self._end(campaign, candidate, "undecided", f"its e-value is {e_value:.3g}, and {least:.3g} keeps")
            return None
        return self._started(campaign, candidate)

    def _again(self, campaign: Record, candidate: Record) -> str | None:
        """Puts a candidate on a best that has moved since, and measures it anew against that one."""
        if int(candidate["round"]) >= int(self._number("max_rounds")):
            self._end(campaign, candidate, "stuck", f"the best moved {candidate['round']} times while it was measured")
            return None
        if self._is_left_behind(campaign, candidate):
            folder = self.worktree(candidate, campaign)
            return f"the best has moved, and {folder} has edits since {candidate.id} was submitted: submit it again"
        if (left := self.hours_left(campaign)) is not None and self.worst_case(campaign) > left:
            self._end(campaign, candidate, "stuck", "the campaign's budget does not hold its runs against the new best")
            return None
        try:
            commit = self._put_on_best(
                campaign, candidate, candidate["base"], candidate["commit"], candidate["submitted_at"]
            )
        except Conflict as problem:
            if problem.code != "not_applied":
                raise
            self._end(campaign, candidate, "stuck", problem.message)
            return None
        best = str(campaign["best"])
        if self._is_let(campaign, candidate, candidate["base"], candidate["commit"]):
            candidate = self._change(candidate, mark=self._mark(campaign, candidate, best, commit))
        return self._started(campaign, self._measured(campaign, candidate, "trial", best, commit))


def _lacking(runs: Sequence[Run], metric: str) -> list[Run]:
    return [run for run in runs if run.status != "done" or run.tainted or run.metrics.get(metric) is None]


def _failing(own: Sequence[Run], of_best: Sequence[Run], metric: str) -> bool:
    """Returns whether an arm gave no result at all, which further runs would not change."""
    return any(len(_lacking(runs, metric)) == len(runs) for runs in (own, of_best))


def _verdict(
    claim: Hypothesis, look: Look, said: Said, arm: Experiment, own: Sequence[Run], of_best: Sequence[Run], metric: str
) -> tuple[str, str]:
    """Returns the outcome of a comparison that did not pass, and why."""
    for runs, named in ((of_best, "the best itself"), (own, arm.id)):
        if len(left := _lacking(runs, metric)) == len(runs):
            run = left[-1]
            why = f"{run.status}, {run.reason}" if run.reason else f"{run.status} without {metric}"
            return "stuck" if runs is of_best else "failed", f"{named} gave no result: {run.id} {line(why)}"
    text = claim.sentence or f"{claim.id} is {claim.status} at confidence {claim.confidence:.2f}"
    if said == "refuted":
        return "refuted", text
    if said == "futile":
        return "undecided", f"{text} {counted(look.most, 'pair')} would hardly be enough."
    return "undecided", f"{text} Its e-value is {look.e_value:.3g}, and {look.needed:.3g} passes."

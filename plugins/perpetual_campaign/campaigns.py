"""Campaigns on code: candidates, each in a worktree of its own, measured against the best in pairs of runs.

from perpetual import Lab
from perpetual_campaign.campaigns import Campaigns

with Lab.open() as lab:
    campaigns = Campaigns(lab)
    campaigns.new("speed", command="python train.py", metric="loss", direction="min", edit=["train.py"])
    made = campaigns.candidate("speed", "a warm-up of 100 steps")
    ...  # edit campaigns.worktree(made)
    campaigns.submit(made.id)
    campaigns.advance()  # as every scan does

A candidate is measured twice. The trial runs it and the best in pairs, by turns, with the seeds in common. Where that
supports it, the confirmation does the same again on seeds that nothing was chosen by, so that no later
candidate is compared with a number that was picked for being good. It is kept where both support it and their e-values
multiplied reach 1/alpha: a candidate without an effect is kept with a chance of at most alpha.

The record comes first and git follows: `new`, `keeping` and `archiving` name work in git that is about to be done,
which the next `advance` does again if a process died over it. A file lock lets one process at a time work on git.
"""

from __future__ import annotations

import hmac
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from perpetual.api import Conflict, NotFound, PerpetualError, Refused, UsageError, line, unknown
from perpetual.toolkit import user_state
from perpetual.toolkit.confined import make_folder
from perpetual.toolkit.lock import FileLock
from perpetual.toolkit.units import finite, iso, posix_of
from perpetual.toolkit.worktrees import standing_in
from perpetual_campaign.repository import Commit, Repository
from perpetual_campaign.scope import Scope, check, checked_patterns

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Hypothesis, Record, Run

__all__ = [
    "CAMPAIGN",
    "CANDIDATE",
    "LIVE",
    "REPLICATES",
    "Campaigns",
    "Stage",
    "archive_ref",
    "best_ref",
    "candidate_ref",
]

CAMPAIGN, CANDIDATE = "campaign.campaign", "campaign.candidate"
LIVE = ("new", "editing", "trial", "confirmation", "keeping", "archiving")
_MEASURED = ("trial", "confirmation")
REPLICATES = 6
_MOST_REPLICATES = 100
_LONGEST_IDEA = 200
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?\Z")
_IS_ID = re.compile(r"c\d+\Z")  # names a candidate
_PLACE = ".perpetual/campaigns"
_LOCK_S = 60.0
_ENDED = ("done", "failed", "timeout", "killed", "lost")
_GONE = ("rejected", "expired")
_FORGIVEN = ("failed", "expired", "dropped", "stuck")  # outcomes after which the same difference may be tried again


class Stage(TypedDict):
    """A comparison of a candidate with the best."""

    round: int
    kind: str  # trial or confirmation
    base: str
    commit: str
    best_arm: str
    arm: str
    hypothesis: str


def best_ref(campaign: Record) -> str:
    """Returns the branch of a campaign, which holds what was kept."""
    return f"refs/heads/perpetual/campaign/{campaign['name']}/best"


def candidate_ref(campaign: Record, candidate: Record) -> str:
    """Returns the branch of a candidate."""
    return f"refs/heads/perpetual/campaign/{campaign['name']}/{candidate.id}"


def archive_ref(campaign: Record, candidate: Record) -> str:
    """Returns the branch of a candidate that was not kept."""
    return f"refs/heads/perpetual/archive/{campaign['name']}/{candidate.id}"


class Campaigns:
    """The campaigns of a lab."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._campaigns, self._candidates = lab.records(CAMPAIGN), lab.records(CANDIDATE)
        self._options = lab.options("campaign")

    @cached_property
    def git(self) -> Repository:
        """Returns the repository around the project."""
        return Repository(self._lab.root)

    # --- making -----------------------------------------------------------------------------------------------------

    def new(
        self, name: str, *, command: str, metric: str, direction: str, edit: Sequence[str], mde: float | None = None,
        protect: Sequence[str] = (), replicates: int = REPLICATES, budget_run_hours: float | None = None,
        max_candidates: int | None = None, wall_s: float | None = None, gpus: int = 0, base: str | None = None,
    ) -> Record:  # fmt: skip
        """Starts a campaign at a commit, by default the one that is checked out; its branch is made, and nothing else.

        Raises:
            UsageError: for a value that makes no sense.
            Conflict: where there is a campaign of that name.
        """
        if not _NAME.match(name) or _IS_ID.match(name):
            raise UsageError(
                f"a campaign's name has small letters, digits and dashes, 40 at most: not {line(name)!r}",
                hint=f"for instance {re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')[:40].strip('-') or 'speed'}",
            )
        if direction not in ("max", "min"):
            raise UsageError(f"a direction is max or min, not {line(direction)!r}", hint="--direction min")
        if not 2 <= replicates <= _MOST_REPLICATES:
            raise UsageError(f"--replicates takes 2 to {_MOST_REPLICATES}, not {replicates}", hint="--replicates 6")
        if max_candidates is not None and max_candidates < 1:
            raise UsageError("--max-candidates takes 1 or more")
        for value, flag in ((mde, "--mde"), (budget_run_hours, "--budget-run-hours"), (wall_s, "--wall")):
            if value is not None:
                finite(value, flag, above=0.0)
        edits = checked_patterns(edit, "--edit")
        if not edits:
            raise UsageError("a campaign needs the files that candidates may change", hint="--edit train.py")
        try:
            shlex.split(command)
        except ValueError as problem:
            raise UsageError(f"the command cannot be read: {problem}", hint="quote it as a whole") from problem
        head, branch = self.git.head()
        found = head if base is None else self.git.commit_of(base)
        if found is None:
            raise UsageError(f"{line(base or '')} names no commit", hint="git log --oneline")
        with self._locked():
            if self._campaigns.find(name=name):
                raise Conflict(f"there is a campaign {name}", hint=f"perpetual campaign show {name}")
            ref = f"refs/heads/perpetual/campaign/{name}/best"
            if (there := self.git.commit_of(ref)) not in (None, found):
                raise Conflict(f"the branch {ref.removeprefix('refs/heads/')} exists at {(there or '')[:12]}",
                               hint="another name")  # fmt: skip
            made = self._campaigns.add(
                name=name, command=command, metric=metric, direction=direction, mde=mde, edit=edits,
                protect=checked_patterns(protect, "--protect"), replicates=replicates, max_candidates=max_candidates,
                budget_run_hours=budget_run_hours, wall_s=wall_s, gpus=gpus, base=found, base_branch=branch,
                best=found, state="open",
            )  # fmt: skip
            with self._rehearsed():
                self._hypothesis(made, None, "rehearsal", None)  # a metric that can be none is refused here
            self.git.move(ref, found, None)
        return made

    @contextmanager
    def _rehearsed(self) -> Iterator[None]:
        with self._lab.together(undo=True):
            yield

    def candidate(self, name: str, idea: str) -> Record:
        """Makes a candidate: a branch from the best, and a worktree to edit it in.

        Raises:
            Conflict: for a campaign that is closed.
            Refused: where it has its most candidates.
        """
        campaign = self.named(name)
        text = line(idea).strip()
        if not text:
            raise UsageError("a candidate needs its idea in a line", hint=f'perpetual campaign candidate {name} "IDEA"')
        self._check_open(campaign)
        with self._locked():
            campaign = self._campaigns.get(campaign.id)
            most, have = campaign["max_candidates"], len(self.of(campaign))
            if most is not None and have >= most:
                raise Refused(f"{name} has had {have} candidates, of at most {most}",
                              hint=f"perpetual campaign finalize {name}", code="max_candidates")  # fmt: skip
            made = self._candidates.add(
                campaign=campaign.id, idea=text[:_LONGEST_IDEA], state="new", base=campaign["best"], round=0, stages=[],
                expires_at=iso(datetime.now(UTC) + timedelta(hours=self._number("edit_hours"))),
            )  # fmt: skip
            return self._laid(campaign, made)

    def _laid(self, campaign: Record, candidate: Record) -> Record:
        """Makes branch and worktree of a new candidate."""
        folder = self.worktree(candidate, campaign)
        self.git.ensure_worktree(folder, commit=candidate["base"], branch=candidate_ref(campaign, candidate))
        return self._change(candidate, state="editing")

    def worktree(self, candidate: Record, campaign: Record | None = None) -> Path:
        """Returns the folder in which a candidate is edited, whether it is there or not."""
        found = campaign or self._campaigns.get(candidate["campaign"])
        return self._lab.root / _PLACE / str(found["name"]) / candidate.id

    # --- submitting -------------------------------------------------------------------------------------------------

    def submit(self, id: str) -> Record:
        """Holds a candidate's difference against its campaign, commits it on its branch and proposes its runs.

        A person's submission approves them; an agent's stay proposed, as all that an agent proposes. What was submitted
        already stays as it is; a person's word is added to an agent's.

        Raises:
            Refused: for a difference that is out of scope, protected, too large or was tried before, and where the
                campaign's budget does not hold its runs. Nothing was run then.
            Conflict: for a candidate that is over, for a worktree that is on another branch, and where the best has
                moved and the difference does not apply to it.
        """
        candidate = self.get(id)
        campaign = self._campaigns.get(candidate["campaign"])
        self._check_open(campaign)
        with self._locked():
            campaign, candidate = self._campaigns.get(campaign.id), self._candidates.get(candidate.id)
            if candidate["state"] == "new":
                candidate = self._laid(campaign, candidate)
            if candidate["state"] not in ("editing", *_MEASURED):
                another = f'perpetual campaign candidate {campaign["name"]} "IDEA" makes another'
                raise Conflict(f"{candidate.id} is {_shown_state(candidate)}", hint=another)
            if candidate["state"] in _MEASURED and not self._is_left_behind(campaign, candidate):
                return self._approved(campaign, candidate)
            folder = self._edited_folder(campaign, candidate)
            best = str(campaign["best"])
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
            self._check_new(campaign, candidate, patch)
            mark = None if self._lab.settings.withholds else self._mark(campaign, candidate, patch)
            if base != best:
                commit, base = self._put_on_best(campaign, candidate, base, commit, now), best
            candidate = self._change(
                candidate, base=base, commit=commit, patch=patch, files=files, submitted_at=now, mark=mark
            )
            candidate = self._measured(campaign, candidate, "trial", base, commit)
            return self._approved(campaign, candidate)

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

    def scope(self, campaign: Record) -> Scope:
        """Returns what candidates of a campaign may change: what the methodology protects is protected here too."""
        protected = [str(one) for one in self._lab.config.methodology["protected_paths"]]
        return Scope(campaign["edit"], [*campaign["protect"], *protected], int(self._number("max_files")),
                     int(self._number("max_bytes")))  # fmt: skip

    def _check_new(self, campaign: Record, candidate: Record, patch: str) -> None:
        for other in self.of(campaign):
            if other.id == candidate.id or other["patch"] != patch or other["outcome"] in _FORGIVEN:
                continue
            came = f": {line(other['reason'])}" if other["reason"] else ""
            raise Refused(f"{other.id} tried the same difference, and is {_shown_state(other)}{came}",
                          hint=f"perpetual campaign show {other.id}", code="tried_before")  # fmt: skip

    def _check_budget(self, campaign: Record) -> None:
        if (left := self.hours_left(campaign)) is not None and self.worst_case(campaign) > left:
            raise Refused(
                f"a trial takes at most {self.worst_case(campaign):.3g} run-hours, and {campaign['name']} has "
                f"{max(0.0, left):.3g} left of {campaign['budget_run_hours']:.3g}",
                hint="a lower --wall makes the worst case smaller, in a new campaign", code="budget",
            )  # fmt: skip

    def worst_case(self, campaign: Record) -> float:
        """Returns the run-hours that one comparison takes at most."""
        wall_s = campaign["wall_s"] or self._lab.config.methodology["default_wall_s"] or 0.0
        return 2 * int(campaign["replicates"]) * float(wall_s) / 3600.0 * max(1, int(campaign["gpus"]))

    def hours_left(self, campaign: Record) -> float | None:
        """Returns the run-hours that a campaign has left, those of runs to come taken off; None without a limit."""
        budget = campaign["budget_run_hours"]
        if budget is None:
            return None
        each = self.worst_case(campaign) / 2 / int(campaign["replicates"])
        used = self.hours(campaign)
        for candidate in self.of(campaign):
            for stage in self._stages(candidate):
                runs = self._lab.runs.named([stage["best_arm"], stage["arm"]])
                is_live = candidate["state"] in _MEASURED and stage == self._stages(candidate)[-1]
                over = sum(run.status in _ENDED for run in runs)
                used += each * (2 * int(campaign["replicates"]) - over) if is_live else 0.0
        return float(budget) - used

    def hours(self, campaign: Record) -> float:
        """Returns the run-hours that a campaign's runs have used."""
        ids = [id for candidate in self.of(campaign) for stage in self._stages(candidate)
               for id in (stage["best_arm"], stage["arm"])]  # fmt: skip
        runs = self._lab.runs.named(ids) if ids else ()
        return sum((run.duration_s or 0.0) for run in runs) / 3600.0 * max(1, int(campaign["gpus"]))

    # --- approval ---------------------------------------------------------------------------------------------------

    def _mark(self, campaign: Record, candidate: Record, patch: str) -> str:
        """Returns the mark by which this user has let a difference run, which no record from elsewhere can bring."""
        bound = ["campaign", self._lab.config.project_id, campaign.id, campaign["command"], campaign["replicates"],
                 campaign["wall_s"], campaign["gpus"], candidate.id, patch]  # fmt: skip
        text = json.dumps(bound, sort_keys=True, separators=(",", ":"))
        return hmac.new(user_state.secret(), text.encode(), "sha256").hexdigest()

    def _is_let(self, campaign: Record, candidate: Record) -> bool:
        mark = candidate.fields.get("mark")
        return isinstance(mark, str) and hmac.compare_digest(
            mark, self._mark(campaign, candidate, str(candidate["patch"]))
        )

    def _approved(self, campaign: Record, candidate: Record) -> Record:
        """Approves the proposed runs of a candidate that a person has submitted, and starts them."""
        if not self._lab.settings.withholds and not self._is_let(campaign, candidate):
            mark = self._mark(campaign, candidate, str(candidate["patch"]))
            candidate = self._change(candidate, mark=mark)
        self._started(campaign, candidate)
        return candidate

    def _started(self, campaign: Record, candidate: Record) -> str | None:
        """Approves and starts what is missing of the last comparison, by turns; returns why it waits."""
        stage = self._stages(candidate)[-1]
        arms = [self._lab.experiments.get(id) for id in (stage["best_arm"], stage["arm"])]
        proposed = [arm.id for arm in arms if arm.status == "proposed"]
        if proposed and (self._lab.settings.withholds or not self._is_let(campaign, candidate)):
            return f"a person approves {' and '.join(proposed)}"
        try:
            if proposed:
                with _unless_done():
                    self._lab.experiments.approve_all(proposed)
            missing = {arm.id: arm.design.replicates - len(self._lab.runs.named([arm.id])) for arm in arms}
            for place in range(max(missing.values())):
                # Which of a pair goes first is drawn, so that no drift of the machine favours one of them.
                drawn = sha256(f"{candidate.id}:{stage['round']}:{stage['kind']}:{place}".encode()).digest()[0] % 2
                for arm in arms[::-1] if drawn else arms:
                    if missing[arm.id] > 0:
                        missing[arm.id] -= 1
                        with _unless_done():
                            self._lab.runs.launch(arm.id)
        except PerpetualError as problem:
            return problem.message
        return None

    # --- comparisons ------------------------------------------------------------------------------------------------

    def _measured(self, campaign: Record, candidate: Record, kind: str, base: str, commit: str) -> Record:
        """Proposes a comparison of a commit with the best, once for each round of a candidate."""
        round = int(candidate["round"]) + (kind == "trial")
        key = f"campaign:{candidate.id}:{round}:{kind}"
        best_folder = self._lab.root / _PLACE / str(campaign["name"]) / f"best-{base[:12]}"
        own_folder = self.worktree(candidate, campaign)
        self.git.ensure_worktree(best_folder, commit=base, branch=None)
        name = f"{campaign['name']} {candidate.id}"
        shared = {
            "command": campaign["command"], "metric": campaign["metric"], "direction": campaign["direction"],
            "replicates": int(campaign["replicates"]), "wall_s": campaign["wall_s"], "gpus": int(campaign["gpus"]),
            "isolate": True, "tags": ("campaign", f"campaign-{campaign['name']}"),
        }  # fmt: skip
        with self._lab.together():
            with standing_in(best_folder):
                best = self._lab.experiments.propose(
                    title=f"{name}, {kind}: the best", config={"commit": base, "of": key}, claim="none",
                    idempotency_key=f"{key}:best", **shared,
                )  # fmt: skip
            claim = self._hypothesis(campaign, candidate, kind, best.id, key=key)
            with standing_in(own_folder):
                arm = self._lab.experiments.propose(
                    claim.id, title=f"{name}, {kind}: {candidate['idea']}"[:200], config={"commit": commit, "of": key},
                    claim="improves", mde=campaign["mde"], baseline=best.id, paired=True, changes="code",
                    confirmation=kind == "confirmation", underpowered=True, idempotency_key=key, **shared,
                )  # fmt: skip
            stage = Stage(round=round, kind=kind, base=base, commit=commit, best_arm=best.id, arm=arm.id,
                          hypothesis=claim.id)  # fmt: skip
            others = [one for one in self._stages(candidate) if (one["round"], one["kind"]) != (round, kind)]
            made = self._change(candidate, state=kind, base=base, commit=commit, round=round, stages=[*others, stage])
            # With the proposal: a daemon that saw it alone would end, since a person had to approve it.
            if not self._lab.settings.withholds and self._is_let(campaign, made):
                self._lab.experiments.approve_all([best.id, arm.id])
            return made

    def _hypothesis(
        self, campaign: Record, candidate: Record | None, kind: str, baseline: str | None, *, key: str | None = None
    ) -> Hypothesis:
        deed = "lowers" if campaign["direction"] == "min" else "raises"
        idea = "an idea" if candidate is None else f"{candidate.id} ({candidate['idea']})"
        again = ", on fresh seeds" if kind == "confirmation" else ""
        count = "" if candidate is None or int(candidate["round"]) < 1 else f", attempt {int(candidate['round']) + 1}"
        return self._lab.hypotheses.add(
            f"{idea} {deed} {campaign['metric']} against the best of campaign {campaign['name']}{again}{count}",
            metric=campaign["metric"], direction=campaign["direction"], mde=campaign["mde"], baseline=baseline,
            tags=("campaign",), idempotency_key=None if key is None else f"{key}:claim",
        )  # fmt: skip

    # --- going on ---------------------------------------------------------------------------------------------------

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
            if iso(datetime.now(UTC)) >= candidate["expires_at"]:
                self._end(campaign, candidate, "expired", "it was not submitted in time")
        elif state == "keeping":
            self._keep(campaign, candidate)
        elif state == "archiving":
            self._archive(campaign, candidate)
        else:
            return self._judge(campaign, candidate)
        return None

    def _judge(self, campaign: Record, candidate: Record) -> str | None:
        """Decides on the last comparison of a candidate once its runs are over; returns why it waits."""
        stage = self._stages(candidate)[-1]
        arms = [self._lab.experiments.get(id) for id in (stage["best_arm"], stage["arm"])]
        gone = [arm for arm in arms if arm.status in _GONE]
        if gone:
            self._end(campaign, candidate, "dropped", f"{gone[0].id} is {gone[0].status}")
            return None
        runs = {arm.id: self._lab.runs.named([arm.id]) for arm in arms}
        if any(len(runs[arm.id]) < arm.design.replicates for arm in arms):
            return self._started(campaign, candidate)
        if any(run.status not in _ENDED for each in runs.values() for run in each):
            return None
        claim = self._lab.hypotheses.get(stage["hypothesis"])
        if claim.status != "supported":
            outcome, why = _verdict(claim, arms[1], runs[arms[1].id], runs[arms[0].id], str(campaign["metric"]))
            self._end(campaign, candidate, outcome, why)
            return None
        if stage["base"] != campaign["best"]:
            return self._again(campaign, candidate)
        if stage["kind"] == "trial":
            if (left := self.hours_left(campaign)) is not None and self.worst_case(campaign) > left:
                self._end(campaign, candidate, "stuck", "the campaign's budget does not hold its confirmation")
                return None
            candidate = self._measured(campaign, candidate, "confirmation", stage["base"], stage["commit"])
            return self._started(campaign, candidate)
        e_value = self.e_value(candidate)
        if e_value < 1 / self.alpha:
            self._end(campaign, candidate, "undecided", f"its e-value is {e_value:.3g}, and {1 / self.alpha:.3g} keeps")
            return None
        self._keep(campaign, self._change(candidate, state="keeping", decided_at=iso(datetime.now(UTC))))
        return None

    @property
    def alpha(self) -> float:
        """Returns the chance at most that a candidate without an effect is kept."""
        return self._number("alpha")

    def e_value(self, candidate: Record) -> float:
        """Returns the e-value of a candidate's present round: trial times confirmation, whose runs share nothing."""
        found = 1.0
        for stage in self._stages(candidate):
            if stage["round"] == candidate["round"]:
                found *= self._lab.hypotheses.get(stage["hypothesis"]).e_support
        return found

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
        return self._started(campaign, self._measured(campaign, candidate, "trial", str(campaign["best"]), commit))

    # --- the end of a candidate ---------------------------------------------------------------------------------------

    def drop(self, id: str, why: str) -> Record:
        """Ends a candidate that is not wanted any more; its branch is archived.

        Raises:
            Conflict: for one that is over.
        """
        candidate = self.get(id)
        with self._locked():
            candidate = self._candidates.get(candidate.id)
            if candidate["state"] not in ("new", "editing", *_MEASURED):
                raise Conflict(f"{candidate.id} is {_shown_state(candidate)}")
            self._end(self._campaigns.get(candidate["campaign"]), candidate, "dropped", line(why))
        return self._candidates.get(candidate.id)

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
        message = self.message(campaign, candidate)
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
            self._campaigns.update(campaign.id, expect_revision=campaign.revision, best=commit)
            candidate = self._change(candidate, state="kept", outcome="kept", kept=commit, reason=None)
        self.git.remove_worktree(self.worktree(candidate, campaign))
        self._tidy(campaign)

    def message(self, campaign: Record, candidate: Record) -> str:
        """Returns the commit message of a kept candidate: its idea, what was found, and the evidence as trailers."""
        stages = [stage for stage in self._stages(candidate) if stage["round"] == candidate["round"]]
        last = stages[-1]
        claim = self._lab.hypotheses.get(last["hypothesis"])
        effect = claim.effect or {}
        low, high = effect.get("low"), effect.get("high")
        interval = "" if low is None or high is None else f" [{low:.6g}, {high:.6g}]"
        value = "" if effect.get("value") is None else f"{effect['value']:.6g}{interval} {campaign['metric']}"
        trailers = {
            "Campaign": campaign["name"], "Candidate": candidate.id,
            "Experiment": ", ".join(stage["arm"] for stage in stages),
            "Baseline": ", ".join(stage["best_arm"] for stage in stages),
            "Hypothesis": ", ".join(stage["hypothesis"] for stage in stages),
            "Confidence": f"{claim.confidence:.4f}", "Effect": value, "E-Value": f"{self.e_value(candidate):.4g}",
        }  # fmt: skip
        body = line(claim.sentence or claim.statement)
        lines = [f"Perpetual-{name}: {line(text)}" for name, text in trailers.items() if text]
        return "\n".join([line(candidate["idea"]), "", body, "", *lines, ""])

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
        self.git.remove_worktree(self.worktree(candidate, campaign))
        if at is not None:
            self.git.delete(ref, at)
        note = self._noted(campaign, candidate)
        self._change(candidate, state="archived", note=note)
        self._tidy(campaign)

    def _stop(self, candidate: Record) -> None:
        """Ends what is left of a candidate's runs, and parks its claims, so that the loop proposes none."""
        for stage in self._stages(candidate):
            for id in (stage["best_arm"], stage["arm"]):
                arm = self._lab.experiments.get(id)
                if arm.status in ("proposed", "approved") and not any(arm.runs.values()):
                    with suppress(PerpetualError):  # an agent takes back no other's proposal: a person sees it waiting
                        self._lab.experiments.reject(id, f"{candidate.id}: {candidate['reason']}"[:500])
            claim = self._lab.hypotheses.get(stage["hypothesis"])
            if claim.status == "open":
                with suppress(PerpetualError):
                    self._lab.hypotheses.update(claim.id, status="parked", why=f"{candidate.id} is over")
        for run in self._live_runs(candidate):
            with _unless_done():
                self._lab.runs.kill(run.id)

    def _live_runs(self, candidate: Record) -> list[Run]:
        ids = [id for stage in self._stages(candidate) for id in (stage["best_arm"], stage["arm"])]
        return [run for run in (self._lab.runs.named(ids) if ids else ()) if run.status not in _ENDED]

    def _noted(self, campaign: Record, candidate: Record) -> str | None:
        """Writes the note on a candidate that was measured and did not help; None where there is nothing to learn."""
        if candidate["outcome"] not in ("refuted", "undecided", "failed") or not candidate["stages"]:
            return None
        from perpetual_campaign.failure import path_of, text_of

        path = path_of(campaign, candidate)
        claims = [self._lab.hypotheses.get(stage["hypothesis"]) for stage in self._stages(candidate)]
        text = text_of(campaign, candidate, self._stages(candidate), claims)
        try:
            self._lab.memory.write(path, text, type="failure_pattern",
                                   message=f"{candidate.id} of campaign {campaign['name']}: {candidate['outcome']}",
                                   idempotency_key=f"campaign-note:{candidate.id}")  # fmt: skip
        except PerpetualError:  # the gates refuse what an agent has written: the record holds the reason all the same
            return None
        return path

    def _tidy(self, campaign: Record) -> None:
        """Removes worktrees of a best that no live comparison needs."""
        needed = {f"best-{stage['base'][:12]}" for one in self.of(campaign) if one["state"] in (*_MEASURED, "archiving")
                  for stage in self._stages(one)}  # fmt: skip
        place = self._lab.root / _PLACE / str(campaign["name"])
        for folder in place.glob("best-*") if place.is_dir() else ():
            if folder.name not in needed:
                self.git.remove_worktree(folder)

    # --- reading ----------------------------------------------------------------------------------------------------

    def named(self, name: str) -> Record:
        """Returns a campaign; raises NotFound."""
        found = self._campaigns.find(name=name)
        if not found:
            names = [str(one["name"]) for one in self.all()]
            raise NotFound(unknown("campaign", name, names), hint="perpetual campaign list")
        return found[0]

    def get(self, id: str) -> Record:
        """Returns a candidate; raises NotFound."""
        try:
            return self._candidates.get(id)
        except NotFound:
            raise NotFound(f"there is no candidate {line(id)}", hint="perpetual campaign list") from None

    def all(self) -> list[Record]:
        """Returns every campaign, oldest first."""
        return self._campaigns.find()

    def of(self, campaign: Record) -> list[Record]:
        """Returns the candidates of a campaign, oldest first."""
        return self._candidates.find(campaign=campaign.id)

    def campaign_of(self, candidate: Record) -> Record:
        """Returns the campaign of a candidate."""
        return self._campaigns.get(candidate["campaign"])

    def close(self, name: str) -> Record:
        """Ends a campaign: no candidate is added or measured any more. Those that are live are archived."""
        campaign = self.named(name)
        for candidate in self.of(campaign):
            if candidate["state"] in ("new", "editing", *_MEASURED):
                self.drop(candidate.id, "the campaign was closed")
        if any(candidate["state"] in LIVE for candidate in self.of(campaign)):
            raise Conflict(f"runs of {name} are still ending",
                           hint=f"perpetual scan, then perpetual campaign close {name}")  # fmt: skip
        return self._campaigns.update(campaign.id, state="closed")

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _stages(self, candidate: Record) -> list[Stage]:
        return cast("list[Stage]", candidate["stages"])

    def _number(self, name: str) -> float:
        return float(str(self._options[name]))

    def _change(self, candidate: Record, **fields: object) -> Record:
        return self._candidates.update(candidate.id, expect_revision=candidate.revision, **fields)

    def _check_open(self, campaign: Record) -> None:
        if campaign["state"] != "open":
            raise Conflict(f"{campaign['name']} is {campaign['state']}", hint="perpetual campaign new starts another")

    def _lock(self) -> FileLock:
        place = self._lab.root / _PLACE
        make_folder(place)
        return FileLock(place / ".lock")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self._lock()
        if not lock.acquire(timeout_s=_LOCK_S):
            raise Conflict("another process works on the campaigns of this project", hint="try again")
        try:
            yield
        finally:
            lock.release()


def _shown_state(candidate: Record) -> str:
    return str(candidate["outcome"] or candidate["state"])


def _verdict(
    claim: Hypothesis, arm: Experiment, own: Sequence[Run], of_best: Sequence[Run], metric: str
) -> tuple[str, str]:
    """Returns the outcome of a comparison that supports nothing, and why."""

    def lacking(runs: Sequence[Run]) -> list[Run]:
        return [run for run in runs if run.status != "done" or run.tainted or run.metrics.get(metric) is None]

    for runs, named in ((of_best, "the best itself"), (own, arm.id)):
        if len(left := lacking(runs)) == len(runs):
            run = left[-1]
            why = f"{run.status}, {run.reason}" if run.reason else f"{run.status} without {metric}"
            return "stuck" if runs is of_best else "failed", f"{named} gave no result: {run.id} {line(why)}"
    said = claim.sentence or f"{claim.id} is {claim.status} at confidence {claim.confidence:.2f}"
    return ("refuted" if claim.status == "refuted" else "undecided"), said


@contextmanager
def _unless_done() -> Iterator[None]:
    """Ignores a Conflict: another process has done it meanwhile."""
    try:
        yield
    except Conflict:
        return

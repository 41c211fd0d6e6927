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
multiplied reach 1/alpha: a candidate that changes nothing is kept with a chance of at most alpha.

The record comes first and git follows: `new`, `keeping` and `archiving` name work in git that is about to be done,
which the next `advance` does again if a process died over it. A file lock lets one process at a time work on git.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.api import Conflict, Refused, UsageError, line
from perpetual.toolkit.units import finite
from perpetual_campaign.by_thinker import ByThinker
from perpetual_campaign.records import (
    CAMPAIGN,
    CANDIDATE,
    LIVE,
    REPLICATES,
    Stage,
    archive_ref,
    best_ref,
    candidate_ref,
)
from perpetual_campaign.scope import checked_patterns

if TYPE_CHECKING:
    from perpetual.api import Record

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

_MOST_REPLICATES = 100
_LOOKS = 4  # at a comparison by default
_LONGEST_IDEA = 200
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?\Z")
_IS_ID = re.compile(r"c\d+\Z")  # names a candidate


class Campaigns(ByThinker):
    """The campaigns of a lab."""

    def new(
        self, name: str, *, command: str, metric: str, direction: str, edit: Sequence[str], mde: float | None = None,
        protect: Sequence[str] = (), replicates: int = REPLICATES, max_pairs: int | None = None,
        budget_run_hours: float | None = None, max_candidates: int | None = None, wall_s: float | None = None,
        gpus: int = 0, base: str | None = None, thinker: int = 0,
    ) -> Record:  # fmt: skip
        """Starts a campaign at a commit, by default the one that is checked out; its branch is made, and nothing else.

        Raises:
            UsageError: for a value that makes no sense.
            Refused: (budget) for a budget that does not hold one look.
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
        most = min(_LOOKS * replicates, _MOST_REPLICATES) if max_pairs is None else max_pairs
        if not replicates <= most <= _MOST_REPLICATES:
            raise UsageError(f"--max-pairs takes {replicates} to {_MOST_REPLICATES}, not {most}",
                             hint=f"--max-pairs {min(_LOOKS * replicates, _MOST_REPLICATES)}")  # fmt: skip
        for value, flag in ((mde, "--mde"), (budget_run_hours, "--budget-run-hours"), (wall_s, "--wall")):
            if value is not None:
                finite(value, flag, above=0.0)
        self.check_thinker(thinker, max_candidates)
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

            def added() -> Record:
                return self._campaigns.add(
                    name=name, command=command, metric=metric, direction=direction, mde=mde, edit=edits,
                    protect=checked_patterns(protect, "--protect"), replicates=replicates, max_pairs=most,
                    max_candidates=max_candidates, budget_run_hours=budget_run_hours, wall_s=wall_s, gpus=gpus,
                    alpha=self._number("alpha"), base=found, base_branch=branch, best=found, state="open",
                    thinker=thinker,
                )  # fmt: skip

            with self._lab.together(undo=True):  # what can be none is refused here, before anything is there
                rehearsed = added()
                self._hypothesis(rehearsed, None, "rehearsal", None)
                self._check_budget(rehearsed)
                if thinker:
                    self.check_editable(rehearsed)
            made = added()
            self.git.move(ref, found, None)
            if thinker:
                made = self._campaigns.update(made.id, thinker_mark=self._thinker_mark(made, draw=True))
        return made

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
            return self._made(campaign, text[:_LONGEST_IDEA])

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
            return self._submitted(self._campaigns.get(campaign.id), self._candidates.get(candidate.id))

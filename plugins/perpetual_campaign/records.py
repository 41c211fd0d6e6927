"""Campaigns and candidates as the store has them: their kinds, branches and folders, and the lock on git."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

from perpetual.api import Conflict, NotFound, PerpetualError, line, unknown
from perpetual.toolkit.confined import make_folder
from perpetual.toolkit.lock import FileLock
from perpetual_campaign.objects import listed
from perpetual_campaign.repository import Repository
from perpetual_campaign.scope import Scope

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record

__all__ = [
    "CAMPAIGN",
    "CANDIDATE",
    "EDIT",
    "ENDED",
    "LIVE",
    "MEASURED",
    "PLACE",
    "REPLICATES",
    "CampaignRecords",
    "Stage",
    "archive_ref",
    "arms_of",
    "best_ref",
    "candidate_ref",
    "most_pairs",
    "pairs_of",
    "shown_state",
    "unless_done",
]

CAMPAIGN, CANDIDATE = "campaign.campaign", "campaign.candidate"
EDIT = "edit"  # the kind of the question to a thinker
_THOUGHT = "thinkers.thought"
LIVE = ("new", "editing", "trial", "confirmation", "keeping", "archiving")
MEASURED = ("trial", "confirmation")
ENDED = ("done", "failed", "timeout", "killed", "lost")  # of runs
REPLICATES = 6
PLACE = ".perpetual/campaigns"
_LOCK_S = 60.0


class Stage(TypedDict):
    """A comparison of a candidate with the best; `more` are the pairs of experiments that extend its arms."""

    round: int
    kind: str  # trial or confirmation
    base: str
    commit: str
    best_arm: str
    arm: str
    hypothesis: str
    more: NotRequired[list[list[str]]]


def pairs_of(stage: Stage) -> list[tuple[str, str]]:
    """Returns the experiments of a comparison, that of the best and that of the candidate for each of its looks."""
    return [(stage["best_arm"], stage["arm"]), *((best, own) for best, own in stage.get("more", []))]


def arms_of(stage: Stage) -> list[str]:
    """Returns every experiment of a comparison."""
    return [id for pair in pairs_of(stage) for id in pair]


def most_pairs(campaign: Record) -> int:
    """Returns the pairs that a comparison of a campaign may have."""
    return max(int(campaign["replicates"]), int(campaign["max_pairs"] or 0))


def best_ref(campaign: Record) -> str:
    """Returns the branch of a campaign, which holds what was kept."""
    return f"refs/heads/perpetual/campaign/{campaign['name']}/best"


def candidate_ref(campaign: Record, candidate: Record) -> str:
    """Returns the branch of a candidate."""
    return f"refs/heads/perpetual/campaign/{campaign['name']}/{candidate.id}"


def archive_ref(campaign: Record, candidate: Record) -> str:
    """Returns the branch of a candidate that was not kept."""
    return f"refs/heads/perpetual/archive/{campaign['name']}/{candidate.id}"


class CampaignRecords:
    """Reads the campaigns of a lab and writes their records."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._campaigns, self._candidates = lab.records(CAMPAIGN), lab.records(CANDIDATE)
        self._options = lab.options("campaign")

    @cached_property
    def git(self) -> Repository:
        """Returns the repository around the project."""
        return Repository(self._lab.root)

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

    def worktree(self, candidate: Record, campaign: Record | None = None) -> Path:
        """Returns the folder in which a candidate is edited, whether it is there or not."""
        found = campaign or self._campaigns.get(candidate["campaign"])
        return self._lab.root / PLACE / str(found["name"]) / candidate.id

    def measured_folder(self, campaign: Record, commit: str, candidate: Record | None = None) -> Path:
        """Returns the worktree in which a commit is measured, and not edited: of the best, or of a candidate."""
        first = "best" if candidate is None else candidate.id
        return self._lab.root / PLACE / str(campaign["name"]) / f"{first}-{commit[:12]}"

    def paths(self, commit: str) -> set[str]:
        """Returns the files of a commit, from the top of the repository."""
        return {one.path for one in listed(self.git, commit)}

    def scope(self, campaign: Record) -> Scope:
        """Returns what candidates of a campaign may change: what the methodology protects is protected here too."""
        protected = [str(one) for one in self._lab.config.methodology["protected_paths"]]
        return Scope(campaign["edit"], [*campaign["protect"], *protected], int(self._number("max_files")),
                     int(self._number("max_bytes")))  # fmt: skip

    def given_up(self, candidate: Record) -> str | None:
        """Returns why the thinker gives a candidate no edit any more; None where it may still."""
        try:
            asked = self._lab.records(_THOUGHT).find(kind_of_question=EDIT, subject=candidate.id)
        except PerpetualError:  # without the plugin of thinkers there is none
            return None
        if not asked or asked[-1]["state"] not in ("refused", "failed", "dropped"):
            return None
        return f"{asked[-1].id}: {asked[-1]['reason']}"

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
        place = self._lab.root / PLACE
        make_folder(place)
        return FileLock(place / ".lock")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self._lock()
        if not lock.acquire(timeout_s=_LOCK_S):
            raise Conflict("another process works on the campaigns of this project", hint="try again", code="locked")
        try:
            yield
        finally:
            lock.release()


def shown_state(candidate: Record) -> str:
    """Returns how a candidate came out, else its state."""
    return str(candidate["outcome"] or candidate["state"])


@contextmanager
def unless_done() -> Iterator[None]:
    """Ignores a Conflict: another process has done it meanwhile."""
    try:
        yield
    except Conflict:
        return

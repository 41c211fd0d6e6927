"""The documents of `perpetual campaign`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["Campaign", "CampaignBranch", "CampaignBranches", "CampaignLine", "Candidate", "Comparison"]


class Comparison(TypedDict):
    """A comparison of a candidate with the best: `kind` is trial or confirmation.

    `arm` is the experiment of the candidate, `best_arm` that of the best, `more` those that extend them with further
    pairs; `runs_over` of `runs` have ended. `effect` is positive where the candidate is better, with its interval from
    `low` to `high`, null before there is one.
    """

    round: int
    kind: str
    base: str
    commit: str
    best_arm: str
    arm: str
    more: list[str]
    hypothesis: str
    status: str
    confidence: float
    e_value: float
    effect: float | None
    low: float | None
    high: float | None
    runs: int
    runs_over: int
    sentence: str | None


class Candidate(TypedDict):
    """A candidate of a campaign.

    `state` is new, editing, trial, confirmation, keeping, kept, archiving or archived; `outcome` says how it came out
    once it is over: kept, refuted, undecided, failed, stuck, expired, dropped or refused. `thinker` edits it, null for
    one of a person or an agent. `worktree` is where it is edited, null once that is gone. `e_value` is that of its
    present round. `waits_for` says what it needs of a person.
    """

    id: str
    campaign: str
    idea: str
    state: str
    outcome: str | None
    reason: str | None
    branch: str
    worktree: str | None
    base: str
    commit: str | None
    kept: str | None
    files: list[str]
    comparisons: list[Comparison]
    e_value: float | None
    note: str | None
    created_by: str
    thinker: str | None
    expires_at: str
    waits_for: str | None
    next: str | None


class CampaignLine(TypedDict):
    """A campaign in short; `tried` counts the candidates of which a run is over, whatever came of them.

    `expected_false_keeps` is how many of those would be kept on average at most, if none changed anything: `tried` by
    `alpha`.
    """

    name: str
    state: str
    metric: str
    direction: str
    branch: str
    base: str
    best: str
    candidates: int
    live: int
    kept: int
    archived: int
    tried: int
    alpha: float
    expected_false_keeps: float
    run_hours: float
    budget_run_hours: float | None


class Campaign(CampaignLine):
    """A campaign with its candidates, the newest first; `worst_case_run_hours` is that of one look.

    `thinker` is how many candidates a thinker edits at once; `is_thinker_let` says whether a person of this machine has
    let it. A look has `replicates` pairs of runs, and a comparison as many looks as it takes: `max_pairs` pairs at
    most.
    """

    command: str
    mde: float | None
    edit: list[str]
    protect: list[str]
    replicates: int
    max_pairs: int
    max_candidates: int | None
    thinker: int | None
    is_thinker_let: bool
    worst_case_run_hours: float
    items: list[Candidate]
    sentence: str


class CampaignBranch(TypedDict):
    """A branch for review: `stands_on` is the commit below it, which is the base unless `is_stacked`."""

    branch: str
    commit: str
    candidate: str
    idea: str
    stands_on: str
    is_stacked: bool


class CampaignBranches(TypedDict):
    """The branches that `perpetual campaign finalize` has made."""

    name: str
    onto: str
    items: list[CampaignBranch]

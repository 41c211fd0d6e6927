"""The project as `init` leaves it, and the ledger folded anew."""

from __future__ import annotations

from typing import NotRequired

from perpetual.documents import TypedDict


class ApproveToken(TypedDict):
    """A token that lets one MCP server approve, once, until `expires_at`."""

    token: str
    expires_at: str


class InitFile(TypedDict):
    """One file of a harness: `action` is created, merged, unchanged, removed or conflict; `diff` in a dry run."""

    path: str
    action: str
    reason: str | None
    diff: NotRequired[str]


class Limit(TypedDict):
    """The budget's limit; null is unlimited."""

    limit_gpu_hours: float | None


class Snippet(TypedDict):
    """What a person puts into a file outside of the project; nothing is written there."""

    harness: str
    path: str
    what: str
    text: str


class Init(TypedDict):
    """A project as `init` leaves it; `trust` is what a person must do; `dry_run` is there if nothing was written."""

    project: str
    path: str
    files: list[InitFile]
    trust: list[str]
    snippets: list[Snippet]
    budget: Limit
    notes: list[str]
    dry_run: NotRequired[bool]


class Effect(TypedDict):
    """What a design measured against its baseline, with its interval; positive is better, in the metric's units."""

    value: float
    low: float | None
    high: float | None
    n: int
    n_baseline: int | None
    metric: str
    experiments: list[str]
    baseline: float | str
    how: str
    shrunk: NotRequired[float | None]  # drawn towards none, since what looks good when it is stopped is overstated


class Spread(TypedDict):
    """Mean and sd of a metric over `n` runs; the sd is null for one run, or for runs that are bit-equal."""

    mean: float
    sd: float | None
    n: int


class LeaderboardRow(TypedDict):
    """An experiment with what extends it; `left_out` counts runs that weigh nothing, by reason."""

    id: str
    title: str
    hypothesis_id: str | None
    status: str
    tags: list[str]
    created_at: str
    metrics: dict[str, Spread]
    params: dict[str, object]
    effect: Effect | None
    metric: str | None  # that its design declares, and which way is better
    direction: str | None
    left_out: dict[str, int]
    experiments: list[str]  # whose runs are pooled
    archived: bool  # hidden from lists, not from a leaderboard


class Leaderboard(TypedDict):
    """Experiments in order; `total` counts those that matched, before `best` cut them."""

    items: list[LeaderboardRow]
    total: int
    columns: list[str]  # keys of the rows in which they differ, or that were asked for
    sort: str | None
    direction: str | None
    note: str | None  # what a reader of the first rows must know
    next_cursor: None


class Differing(TypedDict):
    """What something was and is now; null for the one of them that there is not."""

    was: object
    now: object


class Differences(TypedDict):
    """How an experiment differs from the nearest approved one, `id`; null or empty where it does not."""

    id: str
    command: list[Differing]
    cwd: Differing | None
    env: dict[str, Differing]
    config: dict[str, Differing]
    resources: dict[str, Differing]
    code: Differing | None


class Fold(TypedDict):
    """What a ledger amounts to."""

    confidence: float
    e_support: float
    e_refute: float
    false_alarm_bound: float | None
    evidence_count: int
    status: str


class Refolded(TypedDict):
    """A hypothesis whose stored fold differed from that of its ledger."""

    id: str
    stored: Fold
    folded: Fold


class Undone(TypedDict):
    """A deed that was taken back: what it was in words, and its events."""

    what: str
    kind: str  # of the first event
    subjects: list[str]
    seqs: list[int]
    time: str
    dry_run: bool


class Archived(TypedDict):
    """Records that were hidden from lists, or (`archived` false) shown again."""

    ids: list[str]
    archived: bool

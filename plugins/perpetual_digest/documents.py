"""The document of `perpetual digest`."""

from __future__ import annotations

from perpetual.documents import TypedDict
from perpetual.documents.ledger import Effect
from perpetual.documents.status import Totals

__all__ = [
    "Cost",
    "Decided",
    "Digest",
    "Failure",
    "LedgerCost",
    "MethodologyChange",
    "Moved",
    "NoteChange",
    "NowRun",
    "Now",
    "Stop",
    "Waits",
    "Wrong",
]


class Decided(TypedDict):
    """A hypothesis whose status changed.

    `confidence` is that at the change, `confidence_before` that at the start of the time, by the methodology of then;
    `declared` is the threshold that was in force. `e_value` speaks for the verdict, null of one by hand.
    """

    id: str
    statement: str
    was: str
    status: str
    time: str
    confidence_before: float
    confidence: float
    confidence_now: float
    declared: float | None
    decided_by: str | None
    false_alarm_bound: float | None
    e_value: float | None
    effect: Effect | None
    leans: bool
    flags: list[str]
    sentence: str | None
    rows: int  # of evidence, added in the time


class Moved(TypedDict):
    """A hypothesis that got evidence and kept its status."""

    id: str
    statement: str
    status: str
    confidence_before: float
    confidence: float
    effect: Effect | None
    rows: int


class MethodologyChange(TypedDict):
    """A key of the methodology that was set."""

    key: str
    was: object
    value: object


class LedgerCost(TypedDict):
    """What a plugin's ledger says was used; null where it has no such field."""

    ledger: str
    rows: int
    calls: float | None
    tokens: float | None
    usd: float | None


class Cost(TypedDict):
    """What the runs used that ended in the time, each as a whole, and what ledgers of plugins say."""

    runs: dict[str, int]  # by how they ended
    run_hours: float
    gpu_hours: float
    ledgers: list[LedgerCost]
    today: dict[str, float]  # calls, tokens and usd of the calendar day of now, where any were booked
    budget: Totals


class Failure(TypedDict):
    """Runs that ended without a result and for reasons alike; `runs` are the newest."""

    status: str
    reason: str
    count: int
    runs: list[str]


class Stop(TypedDict):
    """How often the loop stopped, or the daemon waited, for a reason."""

    reason: str
    count: int


class NoteChange(TypedDict):
    """A note that the gates or a decision put aside, or that was not written."""

    path: str
    status: str


class Wrong(TypedDict):
    """What went wrong; the totals count what the lists leave out."""

    failures: list[Failure]
    failures_total: int  # groups
    failed_runs: int
    tainted: list[str]
    tainted_total: int
    overruns: int
    retries: int
    notes: list[NoteChange]
    notes_total: int
    stops: list[Stop]
    waited: list[Stop]  # what the daemon waited for
    failing: list[str]  # of other plugins, such as a thinker or a mirror, each with how
    proposers: list[str]  # that failed
    services: list[str]  # that have failed, each with its reason


class Waits(TypedDict):
    """What waits for a person now."""

    approvals: list[str]
    approvals_total: int
    code_changed: int  # experiments whose code was changed since their approval
    notes: int  # under review: quarantined by the gates
    trust: int  # of this project that does not count here until a person accepts it


class NowRun(TypedDict):
    """A run that is live now."""

    id: str
    experiment_id: str
    status: str
    progress: str | None


class Now(TypedDict):
    """What goes on now."""

    runs: list[NowRun]
    live: int
    queued: int
    queue: str
    open: int  # hypotheses


class Digest(TypedDict):
    """What happened from the event after `from_seq` up to `to_seq`; lists are bounded, and totals count all."""

    project: str
    since: str
    until: str
    from_seq: int
    to_seq: int
    decided: list[Decided]
    decided_total: int
    moved: list[Moved]
    moved_total: int
    methodology: list[MethodologyChange]
    together: str | None  # what is said of all tested claims together
    cost: Cost
    wrong: Wrong
    waits: Waits
    now: Now
    next: list[str]

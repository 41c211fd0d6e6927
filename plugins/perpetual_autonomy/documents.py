"""The documents of `perpetual calibration` and `perpetual rights`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["Board", "BrierFigure", "Calibration", "CeilingShown", "Costs", "IncidentShown", "Predictions", "Priors",
           "ReliabilityBin", "RightChanged", "RightShown", "Rights"]  # fmt: skip


class ReliabilityBin(TypedDict):
    """Priors of one bin: `stated` is their mean, `share` was supported, `low` to `high` is its exact 95 % interval."""

    from_prior: float
    to_prior: float
    n: int
    supported: int
    stated: float
    share: float
    low: float
    high: float


class BrierFigure(TypedDict):
    """The Brier score, lower is better; `base_rate` is that of the share itself, `even` that of one half."""

    score: float
    base_rate: float
    even: float


class Priors(TypedDict):
    """How declared priors fared against this lab's verdicts; a figure is null where `why` says so.

    `decided` counts those that the evidence decided, and the figures are of these alone.
    """

    decided: int
    supported: int
    brier: BrierFigure | None
    bins: list[ReliabilityBin]
    why: str | None
    open: int
    parked: int
    by_hand: int
    reopened: int  # once decided, and open again: part of `open`
    not_declared: int
    unknown: int  # of early records, which do not say whether the prior was declared


class Costs(TypedDict):
    """Run-hours that runs took over those declared, one mean ratio for each experiment with a run that was done.

    `censored` runs were ended early: they cost at least what they took. Those among them that had passed the declared
    cost are in `censored_above`.
    """

    experiments: int
    runs: int
    median_ratio: float | None
    low: float | None
    high: float | None
    runs_above: int
    share_above: float | None
    censored: int
    censored_above: int
    lost: int
    not_declared: int  # experiments that have run and declared none
    why: str | None


class Predictions(TypedDict):
    """Claims that an effect is as large as was declared, decided or not, against the measured one."""

    declared: int
    measured: int
    covered: int | None  # whose 95 % interval holds the declared effect
    median_ratio: float | None  # measured over declared
    low: float | None
    high: float | None
    why: str | None


class Board(TypedDict):
    """The figures of one proposer."""

    proposer: str
    priors: Priors
    costs: Costs
    predictions: Predictions


class Calibration(TypedDict):
    """How declared priors, costs and effects fared, by proposer; `notes` say what the figures cannot."""

    proposers: list[Board]
    total: int
    notes: list[str]


class CeilingShown(TypedDict):
    """What the user's own configuration lets rights of a class do at most."""

    action: str
    run_hours: float
    run_hours_per_day: float
    proposers: list[str]
    incident_rate: float
    code: str
    used_today: float


class IncidentShown(TypedDict):
    """Something for which a right is lost."""

    time: str
    kind: str
    subject: str
    experiment: str
    actor: str
    words: str


class RightShown(TypedDict):
    """The right of a proposer to a class of action.

    `needed` experiments in a row without incident earn it, of which there are `clean`; null without a ceiling.
    """

    proposer: str
    action: str
    in_force: bool
    right: int | None  # of the ledger: approvals by it are in the name `right:NUMBER`
    why: list[str]
    clean: int
    needed: int | None
    attempt: int
    pending: str | None
    incidents: int
    last_incident: IncidentShown | None
    revoked: bool


class Rights(TypedDict):
    """What rights are in force, and what is missing of the others."""

    day: str
    rule: int
    ceilings: list[CeilingShown]
    rights: list[RightShown]
    notes: list[str]
    problem: str | None


class RightChanged(TypedDict):
    """A right that a person revoked or restored; `waiting` were approved by it and have not started."""

    proposer: str
    action: str
    change: str
    waiting: list[str]

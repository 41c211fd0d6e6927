"""What a lab knows of a claim before it is planned further: both arms' runs, noise, seed correlation, run-hours.

Imported by `perpetual_scorers.power` and `perpetual_scorers.overturn`; reads through the public methods of a `Lab`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from perpetual.science.evalues import arm
from perpetual.science.versions import declared, nearest, samples_of
from perpetual_scorers.proposing.planning import Noise, noise_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Design, Evidence, Experiment, Run

__all__ = ["Claim", "LabFacts", "Measured", "Seeds", "measured", "rule_of"]

_PAGE = 500
_ENDED = ("done", "failed", "killed", "timeout", "lost")
_GONE = ("rejected", "expired")
_FEWEST_PAIRS = 4
_MOST_RHO = 0.95

T = TypeVar("T", covariant=True)


class _Page(Protocol[T]):
    @property
    def items(self) -> Sequence[T]: ...
    @property
    def next_cursor(self) -> str | None: ...


class Measured(NamedTuple):
    """A noise and where it is known from: how many runs, 0 of a declared one."""

    noise: Noise
    source: str  # measured | declared | given
    runs: int


class Seeds(NamedTuple):
    """Correlation of runs on shared seeds, and of how many pairs it was learned; 0 pairs where none were enough."""

    rho: float
    pairs: int


class Claim(NamedTuple):
    """A design of a hypothesis: the experiment whose prediction holds, its pooled runs, those of its baseline.

    Of each arm the runs that count come first in order of launch; `lost` and `baseline_lost` ended without a value.
    """

    lead: Experiment
    members: tuple[str, ...]
    own: list[Run]
    lost: list[Run]
    baseline: list[Run]
    baseline_lost: list[Run]
    baseline_ids: tuple[str, ...]  # experiments whose runs are the baseline's

    @property
    def design(self) -> Design:
        """Returns the prediction that holds."""
        return self.lead.design


def rule_of(lab: Lab, prior: float = 0.5) -> dict[str, float]:
    """Returns the thresholds of the lab's methodology, as a plan takes them."""
    methodology = lab.config.methodology
    return {
        "support": methodology["confidence_support_threshold"],
        "refute": methodology["confidence_refute_threshold"],
        "prior": prior,
        "least": methodology["min_replicates"],
    }


def measured(runs: Iterable[Run], metric: str | None) -> list[float]:
    """Returns the values of runs that have one."""
    return [value for run in runs if (value := run.metrics.get(metric or "")) is not None]


def _everything(listing: Callable[..., _Page[T]], **filters: object) -> list[T]:
    found: list[T] = []
    cursor: str | None = None
    while True:
        page = listing(limit=_PAGE, cursor=cursor, **filters)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


class LabFacts:
    """Reads a lab once; each list of it at most once."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._runs: dict[str, list[Run]] = {}

    @cached_property
    def experiments(self) -> list[Experiment]:
        """Returns all experiments, oldest first."""
        return _everything(self.lab.experiments.list)

    def runs_of(self, ids: Iterable[str]) -> list[Run]:
        """Returns the newest ended attempt of each replicate of these experiments, oldest first."""
        found: list[Run] = []
        for id in (source for one in ids for source in self._sources(one)):
            if id not in self._runs:
                everything = sorted(_everything(self.lab.runs.list, experiment_id=id), key=_number)
                self._runs[id] = [*{run.replicate: run for run in everything if run.status in _ENDED}.values()]
            found += self._runs[id]
        return found

    def _sources(self, id: str) -> list[str]:
        """Returns the experiments whose runs it is judged by: itself, or that whose runs it takes."""
        owner = next((item.design.runs_of for item in self.experiments if item.id == id), None)
        return [id] if owner is None else [owner, *self._extensions(owner)]

    def baseline_ids(self, baseline: object) -> tuple[str, ...]:
        """Returns the experiments whose runs are a baseline's: itself, what renews it, and what extends either."""
        if not isinstance(baseline, str):
            return ()
        roots = [baseline, *(item.id for item in self.experiments if item.renews == baseline)]
        return tuple(id for root in roots for id in (root, *self._extensions(root)))

    def _extensions(self, id: str) -> list[str]:
        return [item.id for item in self.experiments if item.extends == id and item.status not in _GONE]

    def planned(self, ids: Sequence[str]) -> int:
        """Returns the replicates of these experiments, run or not."""
        return sum(item.design.replicates for item in self.experiments if item.id in ids and item.status not in _GONE)

    def baseline_of(self, design: Design, version: Mapping[str, object] | None) -> tuple[list[Run], list[Run]]:
        """Returns the runs of the baseline that a design is compared with, and those that ended without a value."""
        runs = self.runs_of(self.baseline_ids(design.baseline))
        counting = [run for run in runs if _counts(run) and run.metrics.get(design.metric or "") is not None]
        lost = [run for run in runs if run.status != "done" and run.started_at is not None]
        if not counting:
            return [], lost
        samples = samples_of((run.versions, run) for run in counting)
        return nearest(samples, version, declared(design.changes)).items, lost

    def claims_of(self, hypothesis_id: str) -> list[Claim]:
        """Returns the designs of a hypothesis, those with most runs first."""
        rows = self._counting_rows(hypothesis_id)
        groups: dict[str, list[Experiment]] = {}
        for item in self.experiments:
            if item.hypothesis_id == hypothesis_id and item.design.claim is not None and item.status not in _GONE:
                groups.setdefault(self.lab.experiments.design_of(item), []).append(item)
        found = [self._claim(members, rows) for members in groups.values()]
        return sorted(found, key=lambda each: -len(each.own))

    def _counting_rows(self, hypothesis_id: str) -> dict[str, Evidence]:
        """Returns the rows of measured evidence that count, by run."""
        rows = _everything(self.lab.evidence.list, hypothesis_id=hypothesis_id)
        return {
            row.run_id: row
            for row in rows
            if row.kind == "measured" and row.retracted_by is None and row.weight > 0 and row.run_id is not None
        }

    def _claim(self, members: Sequence[Experiment], rows: Mapping[str, Evidence]) -> Claim:
        runs = self.runs_of(item.id for item in members)
        own = sorted((run for run in runs if run.id in rows), key=_number)
        first = own[0].experiment_id if own else None
        lead = next((item for item in members if item.id == first), members[0])
        own = [run for run in own if run.metrics.get(lead.design.metric or "") is not None]
        lost = [run for run in runs if run.status != "done" and run.started_at is not None]
        baseline, baseline_lost = self.baseline_of(lead.design, own[0].versions if own else None)
        ids = tuple(item.id for item in members)
        return Claim(lead, ids, own, lost, baseline, baseline_lost, self.baseline_ids(lead.design.baseline))

    def noise(self, metric: str | None, baseline: object = None) -> Measured | None:
        """Returns the spread of a metric within experiments: of a baseline and all that is compared with it, or all."""
        found = {item.id: item for item in self.experiments if self._is_alike(item, metric, baseline)}
        alike = [id for id, item in found.items() if item.design.runs_of not in found]  # whose runs are counted there
        arms = [measured(filter(_counts, self.runs_of([id])), metric) for id in alike]
        noise = noise_of(arms)
        return None if noise is None else Measured(noise, "measured", sum(len(each) for each in arms if len(each) > 1))

    def _is_alike(self, item: Experiment, metric: str | None, baseline: object) -> bool:
        if item.design.proxy_of is not None or (baseline is not None and item.id in self.baseline_ids(baseline)):
            return item.design.proxy_of is None  # of a baseline what its runs have shown counts, whatever it declares
        return item.design.metric == metric and (baseline is None or item.design.baseline == baseline)

    def seeds(self, metric: str | None, baseline: object) -> Seeds:
        """Returns the correlation of the runs that share a seed with a run of the baseline, 0 unless it is known."""
        ids = self.baseline_ids(baseline)
        theirs = {run.seed: run.metrics.get(metric or "") for run in self.runs_of(ids) if _counts(run)}
        products, mine, others, freedom, count = 0.0, 0.0, 0.0, 0, 0
        for item in self.experiments:
            if not ids or item.design.baseline != baseline or not self._is_alike(item, metric, baseline):
                continue
            pairs = [(value, other) for run in self.runs_of([item.id]) if _counts(run)
                     and (value := run.metrics.get(metric or "")) is not None
                     and (other := theirs.get(run.seed)) is not None]  # fmt: skip
            if len(pairs) > 1:
                x, y = (arm([pair[side] for pair in pairs]) for side in (0, 1))
                products += math.fsum((a - x.mean) * (b - y.mean) for a, b in pairs)
                mine, others, freedom, count = mine + x.ss, others + y.ss, freedom + x.n - 1, count + x.n
        if freedom + 1 < _FEWEST_PAIRS or mine * others <= 0:
            return Seeds(0.0, 0)
        return Seeds(min(max(products / math.sqrt(mine * others), 0.0), _MOST_RHO), count)

    def run_hours(self, ids: Iterable[str], design: Design | None, like: float | None = None) -> float:
        """Returns what a run costs: the mean of those that were run, else as declared, else `like` another one."""
        hours = [run.run_hours for run in self.runs_of(ids) if run.status == "done" and run.run_hours]
        if hours:
            return math.fsum(hours) / len(hours)
        if design is not None and design.cost_run_hours is not None:
            return design.cost_run_hours
        if like is not None:
            return like
        default: float = self.lab.config.methodology["default_cost_run_hours"]
        return default


def _number(run: Run) -> int:
    return int(run.id[1:])


def _counts(run: Run) -> bool:
    return run.status == "done" and not run.tainted and not run.chosen_seed

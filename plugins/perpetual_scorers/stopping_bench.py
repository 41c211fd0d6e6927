"""What early stopping saves in simulated research, beside the same campaigns with every run completed.

At one threshold, campaigns with stopping may err less often, since what is estimated from curves is weighed with more
care. So both are also taken at equal error: each at the lowest of some thresholds at which it errs at most as often as
campaigns without stopping do at the given one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from perpetual_scorers.figures import Cell, Episode
from perpetual_scorers.simulate import Arm, Broken, Conditions, Job, Mapper, Policy, play
from perpetual_scorers.stopping import Stopping
from perpetual_stoppers.stopper import Stopper

__all__ = ["Saving", "savings"]

LOWER = (0.0, 0.025, 0.05)  # than the threshold of the campaigns whose runs are all completed
_RESAMPLES = 1000
_CHUNK = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """A stopper in one cell, against no stopping.

    `saved` is the share of run-hours that is not spent, with its 95 % bootstrap interval over campaigns. `threshold` is
    the stopper's and `full_threshold` that without it, where both are taken at equal error (`equal_error`) each the
    lowest that errs as seldom. Rates of errors are of decided hypotheses, and of false support of those without an
    effect; `right` and `undecided` are means of a campaign.
    """

    stopper: str
    threshold: float
    full_threshold: float
    batch: int
    equal_error: bool
    saved: float | None
    saved_low: float | None
    saved_high: float | None
    error_rate: float | None
    full_error_rate: float | None
    false_support_rate: float | None
    full_false_support_rate: float | None
    right: float
    full_right: float
    undecided: float
    full_undecided: float


def savings(
    policy: Policy,
    stoppers: Mapping[str, Stopper],
    cells: Sequence[Cell],
    *,
    episodes: int,
    seed: int,
    run: Mapper = map,
    progress: Callable[[int, int], None] | None = None,
) -> list[Saving]:
    """Returns for each stopper and cell what it saves at the same threshold, and at equal error where that differs.

    Raises:
        Broken: if the policy breaks its contract, or a stopper raises.
    """
    rows: list[tuple[str | None, Cell, Cell]] = []
    for cell in cells:
        lower = [cell._replace(threshold=cell.threshold - less) for less in LOWER if cell.threshold - less > 0.5]
        rows += [(name, cell, own) for name in (None, *stoppers) for own in lower]
    chunks = [tuple(range(start, min(start + _CHUNK, episodes))) for start in range(0, episodes, _CHUNK)]
    arms = {name: Arm(policy, Conditions(stopping=Stopping(stopper))) for name, stopper in stoppers.items()}
    jobs = [Job(policy if name is None else arms[name], own, seed, chunk) for name, _, own in rows for chunk in chunks]
    parts = iter(run(play, jobs))
    played: dict[tuple[str | None, Cell, Cell], list[Episode]] = {}
    done = 0
    for row in rows:
        played[row] = []
        for chunk in chunks:
            part = next(parts)
            if isinstance(part, str):
                raise Broken(part)
            played[row] += part
            done += len(chunk)
            if progress is not None:
                progress(done, len(rows) * episodes)
    found = []
    for cell in cells:
        full = {row[2].threshold: played[row] for row in rows if row[:2] == (None, cell)}
        given, most = cell.threshold, _errs(full[cell.threshold])
        for name in stoppers:
            own = {row[2].threshold: played[row] for row in rows if row[:2] == (name, cell)}
            found.append(_saving(name, cell.batch, (given, own[given]), (given, full[given]), str(seed)))
            mine, theirs = (min((t for t in each if _errs(each[t]) <= most), default=None) for each in (own, full))
            if mine is not None and theirs is not None and (mine, theirs) != (given, given):
                pair = (mine, own[mine]), (theirs, full[theirs])
                found.append(_saving(name, cell.batch, *pair, str(seed), equal_error=True))
    return found


def _errs(episodes: Sequence[Episode]) -> float:
    return _error_rate(episodes) or 0.0


def _error_rate(episodes: Sequence[Episode]) -> float | None:
    decided = sum(len(each.said) - each.undecided for each in episodes)
    return sum(each.wrong for each in episodes) / decided if decided else None


def _false_support(episodes: Sequence[Episode]) -> float | None:
    refutable = sum(each.refutable for each in episodes)
    return sum(each.false_supports for each in episodes) / refutable if refutable else None


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _saving(
    name: str,
    batch: int,
    mine: tuple[float, Sequence[Episode]],
    theirs: tuple[float, Sequence[Episode]],
    key: str,
    *,
    equal_error: bool = False,
) -> Saving:
    (threshold, own), (full_threshold, full) = mine, theirs
    pairs = [(one.spent_hours, other.spent_hours) for one, other in zip(own, full, strict=True)]
    rng = Random(f"saving:{key}")
    drawn = sorted(_share([*rng.choices(pairs, k=len(pairs))]) for _ in range(_RESAMPLES))
    saved = _share(pairs)
    return Saving(
        stopper=name, threshold=threshold, full_threshold=full_threshold, batch=batch, equal_error=equal_error,
        saved=saved,
        saved_low=drawn[int(0.025 * _RESAMPLES)], saved_high=drawn[int(0.975 * _RESAMPLES) - 1],
        error_rate=_error_rate(own), full_error_rate=_error_rate(full),
        false_support_rate=_false_support(own), full_false_support_rate=_false_support(full),
        right=_mean([each.right[-1] for each in own]), full_right=_mean([each.right[-1] for each in full]),
        undecided=_mean([each.undecided for each in own]), full_undecided=_mean([each.undecided for each in full]),
    )  # fmt: skip


def _share(pairs: Sequence[tuple[float, float]]) -> float:
    """Returns the share of the second hours that the first ones save; 0 where there are none."""
    theirs = math.fsum(other for _, other in pairs)
    return 1 - math.fsum(mine for mine, _ in pairs) / theirs if theirs else 0.0

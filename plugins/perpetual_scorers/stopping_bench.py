"""What early stopping saves in simulated research, beside the same campaigns with every run completed.

At one threshold, campaigns with stopping may err less often, since what is estimated from curves is weighed with more
care. So both are also taken at equal error: each at the lowest of some thresholds at which it errs at most as often as
campaigns without stopping do at the given one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual_scorers.figures import Cell, Episode, error_rate, paired_ratio
from perpetual_scorers.simulate import Arm, Broken, Conditions, Job, Mapper, Policy, play
from perpetual_scorers.stopping import Stopping
from perpetual_stoppers.stopper import Stopper

if TYPE_CHECKING:
    from perpetual_scorers.documents import StoppingSaving

__all__ = ["savings"]

LOWER = (0.0, 0.025, 0.05)  # than the threshold of the campaigns whose runs are all completed
_CHUNK = 5


def savings(
    policy: Policy,
    stoppers: Mapping[str, Stopper],
    cells: Sequence[Cell],
    *,
    episodes: int,
    seed: int,
    run: Mapper = map,
    progress: Callable[[int, int], None] | None = None,
) -> list[StoppingSaving]:
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
    return error_rate(episodes) or 0.0


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
) -> StoppingSaving:
    (threshold, own), (full_threshold, full) = mine, theirs
    (ratio, low, high), _ = paired_ratio(own, full, lambda each: each.spent_hours, f"saving:{key}")
    return {
        "stopper": name,
        "threshold": threshold,
        "full_threshold": full_threshold,
        "batch": batch,
        "equal_error": equal_error,
        "saved": _left(ratio),
        "saved_low": _left(high),
        "saved_high": _left(low),
        "error_rate": error_rate(own),
        "full_error_rate": error_rate(full),
        "false_support_rate": _false_support(own),
        "full_false_support_rate": _false_support(full),
        "right": _mean([each.right[-1] for each in own]),
        "full_right": _mean([each.right[-1] for each in full]),
        "undecided": _mean([each.undecided for each in own]),
        "full_undecided": _mean([each.undecided for each in full]),
    }


def _left(share: float | None) -> float | None:
    return None if share is None else 1 - share

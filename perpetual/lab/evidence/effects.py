"""The effect of a design: what its runs measured against their baseline, with its interval. Describes; decides nothing.

Folded beside the confidence, from the same rows and the same runs of the baseline, so that the hypothesis, the report
and `compare` show one interval for one effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.lab.evidence.early import Early
from perpetual.lab.evidence.stale import Comparison
from perpetual.science.designs import effect_interval
from perpetual.science.rates import luck_of_rate

if TYPE_CHECKING:
    from perpetual.documents.ledger import Effect
    from perpetual.lab.bodies import DesignBody, FoldRow
    from perpetual.science.evidence import Effect as Together

__all__ = ["effect_of", "headline"]


def effect_of(
    design: DesignBody,
    members: Sequence[str],
    compared: Sequence[Comparison],
    luck_of: Callable[[Comparison], float | None],
    early: Early | None = None,
) -> Effect | None:
    """Returns the effect of the version that has most rows, positive where it is better; None without a baseline.

    Args:
        members: the experiments whose runs are pooled, the one whose prediction holds first.
        compared: the design's comparisons that count, of rows that stand.
        luck_of: the sd that test items give a comparison by their scores; None where there are none.
        early: its runs that were stopped early.
    """
    each = max(compared, key=lambda each: len(each.rows), default=None)
    if each is None or each.baseline is None or each.baseline == {}:
        return None
    sign = -1.0 if design["direction"] == "min" else 1.0
    is_rate = design["kind"] == "binary"

    def oriented(value: float) -> float:
        return 1 - value if is_rate and sign < 0 else sign * value

    own = [(row.get("seed"), value) for row in _distinct(each.rows) if (value := row["value"]) is not None]
    if not own or design["metric"] is None or design["baseline"] is None:
        return None
    others: Sequence[tuple[object, float]] | float
    if isinstance(each.baseline, dict):
        seeds = [run.body["seed"] for run in each.against]
        others = [(seed, oriented(value)) for seed, value in zip(seeds, each.baseline.values(), strict=True)]
    else:
        others = oriented(each.baseline)
    items, luck = design.get("items"), luck_of(each)
    raw = [value for _, value in own] + [*(each.baseline.values() if isinstance(each.baseline, dict) else ())]
    interval, how, small = effect_interval(
        [(seed, oriented(value)) for seed, value in own],
        others,
        tau=design["tau"] or 0.0,
        luck=(luck if luck is not None else luck_of_rate(raw, items) if items else None) or 0.0,
        typed_n=design.get("baseline_runs"),
        is_rate=is_rate,
        planned=design["mde"],
        stopped=None if early is None else early.over(0.0),
    )
    return {
        "value": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "n": len(own),
        "n_baseline": len(others) if not isinstance(others, float) else design.get("baseline_runs"),
        "metric": design["metric"],
        # Those that have runs: one that is only proposed changes no fold.
        "experiments": [id for id in members if any(row["experiment_id"] == id for row in each.rows)],
        "baseline": design["baseline"],
        "how": how,
        "shrunk": small,
    }


def headline(effects: Mapping[str, Effect], together: Together | None = None) -> Effect | None:
    """Returns the effect that stands for a hypothesis: of its design with most runs, the oldest of equals.

    Never the one with the largest effect: which one is shown must not depend on how it came out.

    Args:
        together: what designs that share a baseline showed as one arm, which is shown in place of one of them.
    """
    if together is not None and len(together["designs"]) > 1:
        members = [effects[name] for id in together["designs"] if (name := id.partition("/")[0]) in effects]
        if members:
            first = min(members, key=lambda one: int(one["experiments"][0][1:]))
            return {
                **first,
                "value": together["value"],
                "low": together["low"],
                "high": together["high"],
                "n": together["n"],
                "n_baseline": together["n_baseline"],
                "shrunk": together["shrunk"],
                "experiments": [*dict.fromkeys(id for one in members for id in one["experiments"])],
                "how": f"{first['how']}; {len(members)} designs as one arm",
            }
    return min(effects.values(), key=lambda one: (-one["n"], int(one["experiments"][0][1:])), default=None)


def _distinct(rows: Sequence[FoldRow]) -> list[FoldRow]:
    """Returns the rows that have a value; the same value on the same seed is the same run, seen again."""
    seen: set[tuple[int | None, float | None]] = set()
    kept = []
    for row in rows:
        content = (row.get("seed"), row["value"])
        if row["value"] is None or (content[0] is not None and content in seen):
            continue
        seen.add(content)
        kept.append(row)
    return kept

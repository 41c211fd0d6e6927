"""Computes which outcome of one more replicate would decide a hypothesis, computed before it is run.

Imported by the lab where it explains a pick. Everything is asked of the evidence rule itself, at outcomes
about what was seen and predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from perpetual.science.evidence import confidence, live_rows, measured, number, quantity

__all__ = ["Outlook", "Span", "explain", "outlook"]

_POINTS = 31  # at which an outcome is tried
_NEAR = 7  # and so often, each four times as near to what was seen
_BISECTIONS = 18
_REACH = 12  # in gaps, about what was seen and predicted
_NEXT = "the next run"


class Span(NamedTuple):
    """Outcomes from `low` to `high`, in the metric's units as a difference in favour; None is no bound."""

    low: float | None
    high: float | None


class Outlook(NamedTuple):
    """What one more replicate can decide.

    Outcomes that leave the confidence at the support threshold or above, and at the refute threshold or below;
    None where none does. Of a binary design 1 is a success and 0 a failure.
    """

    confidence: float
    support: Span | None
    refute: Span | None
    is_binary: bool
    gap: float  # mu1 - mu0; of a design that predicts nothing, the scale of what it has seen
    also: Span | None = None  # a second stretch that supports: some effect may lie on either side


def outlook(
    hypothesis: Mapping[str, object],
    designs: Mapping[str, Mapping[str, object]],
    evidence: Iterable[Mapping[str, object]],
    design_id: str,
    config: Mapping[str, object],
) -> Outlook:
    """Returns what the next replicate of `designs[design_id]` can decide, given all that is known.

    Arguments as for `perpetual.science.confidence`; `config` holds "support" and "refute" (0.8, 0.2), and "verdict"
    where an outcome counts only if it gives the verdict, for which what was measured must pass the threshold by itself
    too. What is pending is not guessed at.
    """
    design = designs[design_id]
    rows = live_rows([*evidence], hypothesis.get("id"))
    known = confidence(hypothesis, designs, rows, {})
    found = measured(rows, designs)[0].get(design_id)
    values = found.values if found is not None else []
    is_binary = design.get("model") == "binary"
    gap = _gap(design, values)

    def decides(value: float, verdict: str) -> bool:
        row = {"id": _NEXT, "run_id": _NEXT, "kind": "measured", "metric": design.get("metric"), "design_id": design_id,
               "value": value, "status": "done"}  # fmt: skip
        result = confidence(hypothesis, designs, [*rows, row], config)
        return result["reached" if config.get("verdict") else "past"] == verdict

    if is_binary:
        support = next((Span(x, x) for x in (1.0, 0.0) if decides(x, "supported")), None)
        refute = next((Span(x, x) for x in (0.0, 1.0) if decides(x, "refuted")), None)
        return Outlook(known["confidence"], support, refute, True, gap)
    ends = [*values, 0.0, gap]
    low, high = min(ends) - _REACH * abs(gap), max(ends) + _REACH * abs(gap)
    points = [low + (high - low) * (at + 0.5) / _POINTS for at in range(_POINTS)]
    middle = quantity(design, "mu0", 0.0) if design.get("mu1") is not None else 0.0
    points += [0.0, gap, middle, middle + gap]
    if values:  # what agrees with the runs seen may be a narrow stretch
        middle = math.fsum(values) / len(values)
        points += [middle + sign * abs(gap) * 4.0**-k for k in range(1, _NEAR) for sign in (1.0, -1.0)]
        points = [point for point in points if point not in values]  # which would be the same run, seen again
    ups = _spans(points, lambda x: decides(x, "supported"), gap)
    downs = _spans(points, lambda x: decides(x, "refuted"), 0.0)
    also = ups[1] if len(ups) > 1 and design.get("model") == "any" else None
    return Outlook(known["confidence"], next(iter(ups), None), next(iter(downs), None), False, gap, also)


def _gap(design: Mapping[str, object], values: Sequence[float]) -> float:
    """Returns how far apart the predictions lie; where nothing was predicted, how far apart results do."""
    if design.get("mu1") is not None and (gap := quantity(design, "mu1") - quantity(design, "mu0")):
        return gap
    seen = max((abs(value) for value in values), default=0.0)
    n = number(design, "baseline_n", 0.0)
    return seen or (math.sqrt(number(design, "baseline_ss", 0.0) / (n - 1)) if n > 1 else 0.0) or 1.0


def _spans(points: Sequence[float], holds: Callable[[float], bool], near: float) -> list[Span]:
    """Returns the stretches of outcomes on which `holds` is true, the nearest to `near` first."""
    ordered = sorted({*points})
    spans: list[Span] = []
    start, was = None, holds(ordered[0])
    for left, right in pairwise(ordered):
        now = holds(right)
        if now == was:
            continue
        edge = _edge(left, right, holds, was=was)
        if now:
            start = edge
        else:
            spans.append(Span(start, edge))
            start = None
        was = now
    if was:
        spans.append(Span(start, None))
    return sorted(spans, key=lambda span: _distance(span, near))


def _edge(left: float, right: float, holds: Callable[[float], bool], *, was: bool) -> float:
    """Returns where between two points the rule changes its mind, by bisection."""
    for _ in range(_BISECTIONS):
        middle = (left + right) / 2
        left, right = (middle, right) if holds(middle) == was else (left, middle)
    return (left + right) / 2


def _distance(span: Span, near: float) -> float:
    if span.low is not None and near < span.low:
        return span.low - near
    return near - span.high if span.high is not None and near > span.high else 0.0


# --- in words ---------------------------------------------------------------------------------------------------------


def explain(found: Outlook, name: str, config: Mapping[str, object]) -> str:
    """Returns the outlook in one line: which outcome would support the hypothesis `name`, and which refute it."""
    support, refute = number(config, "support", 0.8), number(config, "refute", 0.2)
    p, parts = found.confidence, []
    if found.support is not None:
        deed = f"leaves {name} at {support:.2f} or above" if p >= support else f"would support {name}"
        change = "" if p >= support else f" ({p:.2f} -> {support:.2f})"
        either = "" if found.also is None else f" or {_outcome(found, found.also).removeprefix('an effect ')}"
        parts.append(f"{_outcome(found, found.support)}{either} {deed}{change}")
    if found.refute is not None:
        whom = "it" if parts else name
        deed = f"leaves {whom} at {refute:.2f} or below" if p <= refute else f"would refute {whom}"
        change = "" if p <= refute else f" ({'' if parts else f'{p:.2f} '}-> {refute:.2f})"
        parts.append(f"{_outcome(found, found.refute)} {deed}{change}")
    return ", ".join(parts) if parts else f"no single outcome decides {name}"


def _outcome(found: Outlook, span: Span) -> str:
    if found.is_binary:
        return "a success" if span.low == 1 else "a failure"
    reach = 10 * abs(found.gap)  # the search goes no farther
    low = None if span.low is None or span.low < -reach else span.low
    high = None if span.high is None or span.high > reach else span.high
    if low is None and high is None:
        return "any effect"
    if high is None:
        return f"an effect above {low:+.3g}"
    return f"an effect below {high:+.3g}" if low is None else f"an effect from {low:+.3g} to {high:+.3g}"

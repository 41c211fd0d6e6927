"""Computes which outcome of one more replicate would decide a hypothesis, computed before it is run.

Imported by the lab where it explains a pick. Everything is asked of the evidence rule itself: the boundaries are its
closed form turned around, and each is kept only where the rule says so on either side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from perpetual.science.evidence import (
    DESIGN_CAP_NATS,
    GUESSED_NOISE_DF,
    TAU_SHARE,
    confidence,
    jzs_log_bayes_factor,
    live_rows,
    measured,
    number,
    quantity,
    spread,
    weigh,
)

__all__ = ["Outlook", "Span", "explain", "outlook"]

_SAMPLES = 9  # within a stretch between boundaries: finds where both predictions misfit, which has no closed form
_BISECTIONS = 60
_BESIDE = 1e-7  # in gaps
_LARGEST_T = 1e6
_NEAR_ENOUGH_NATS = 1e-12
_FAR = (1.0, 10.0, 100.0)  # in gaps, beyond the outermost boundary


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
    own = math.fsum(part["log_bayes_factor"] for part in known["parts"] if part.get("design_id") == design_id)
    rest = known["log_odds"] - own
    values = measured(rows, designs)[0].get(design_id, [])
    high, low = _logit(number(config, "support", 0.8)), _logit(number(config, "refute", 0.2))
    up, down = high - rest, low - rest
    if config.get("verdict"):
        for_it, against_it = (_e_of_others(known, design, values, sign) for sign in (1.0, -1.0))
        up, down = max(up, high - for_it), min(down, low + against_it)
    is_any = design.get("model", "gaussian") == "any"
    gap = _scale(design, values) if is_any else quantity(design, "mu1") - quantity(design, "mu0")

    def nats(value: float) -> float:
        if values and all(value == seen for seen in values):
            value += _BESIDE * (abs(gap) or 1.0)  # bit-equal it would pass for the same run, seen again
        weighed = weigh(design, [*values, value])
        return 0.0 if weighed.misfit else min(max(weighed.factor, -DESIGN_CAP_NATS), DESIGN_CAP_NATS)

    if design.get("model") == "binary":
        support = next((Span(x, x) for x in (1.0, 0.0) if nats(x) >= up), None)
        refute = next((Span(x, x) for x in (0.0, 1.0) if nats(x) <= down), None)
        return Outlook(known["confidence"], support, refute, True, gap)
    if is_any:
        mean = math.fsum(values) / len(values) if values else 0.0
        ups = _spans(_any_boundaries(design, values, up), lambda x: nats(x) >= up, mean, gap)
        downs = _spans(_any_boundaries(design, values, down), lambda x: nats(x) <= down, _next(values, 0.0), gap)
        also = ups[1] if len(ups) > 1 else None
        return Outlook(known["confidence"], next(iter(ups), None), next(iter(downs), None), False, gap, also)
    return Outlook(
        known["confidence"],
        _span(_boundaries(design, values, up), lambda x: nats(x) >= up, _next(values, quantity(design, "mu1")), gap),
        _span(
            _boundaries(design, values, down), lambda x: nats(x) <= down, _next(values, quantity(design, "mu0")), gap
        ),
        False,
        gap,
    )


def _e_of_others(known: Mapping[str, Any], design: Mapping[str, object], values: Sequence[float], sign: float) -> float:
    """Returns the other designs' log e-value, in favour (sign 1) or against; cuts a gain at the cap, but no loss."""
    total = math.log(known["e_support" if sign > 0 else "e_refute"])
    if not values:
        return total
    weighed = weigh(design, values)
    return total - min(sign * weighed.factor, 0.0 if weighed.misfit else DESIGN_CAP_NATS)


def _logit(p: float) -> float:
    return math.log(p / (1 - p))


def _next(values: Sequence[float], mean: float) -> float:
    """Returns the next value that would bring the mean of all to `mean`."""
    return (len(values) + 1) * mean - math.fsum(values)


def _boundaries(design: Mapping[str, object], values: Sequence[float], nats: float) -> list[float]:
    """Returns the next values at which the design's log Bayes factor may be exactly `nats`.

    One of them is, if any value is.

    With x the next value and d = x - mean, the pooled mean moves by d/(n+1) and the sum of squares grows by
    d^2 n/(n+1), so that the ratio of the two Student densities is `nats` at the roots of a quadratic. Beyond the peak
    of the ratio, where the mean is clipped, the factor depends on the spread alone, which gives one more pair.
    """
    if abs(nats) > DESIGN_CAP_NATS:
        return []
    mu1, mu0 = quantity(design, "mu1"), quantity(design, "mu0")
    gap, tau = mu1 - mu0, spread(design, "tau", TAU_SHARE * abs(mu1 - mu0))
    sampled, squares = _sampled(design)
    if design.get("sigma") is not None:
        sampled = int(number(design, "baseline_n", 0))  # a known noise needs no spread
    n = len(values)
    whole = n + 1
    share = 1 / whole + (1 / sampled if sampled > 0 else 0.0)
    if design.get("sigma") is not None:
        v = tau * tau + share * spread(design, "sigma") ** 2
        return [_next(values, (mu1 + mu0) / 2 + nats * v / gap)] if gap else []
    prior_nu = 0.0 if design.get("s0") is None else number(design, "nu0", GUESSED_NOISE_DF)
    nu = prior_nu + n + max(sampled - 1, 0)
    if nu <= 0 or not gap:
        return []
    mean = math.fsum(values) / n if n else 0.0
    squares += math.fsum((value - mean) ** 2 for value in values)
    squares += prior_nu * (spread(design, "s0") ** 2 if prior_nu else 0.0)
    fixed, grows = nu * tau * tau + share * squares, share * n / whole  # nu v = fixed + grows d^2
    ratio = math.exp(2 * nats / (nu + 1))
    found = _roots(
        (1 - ratio) * (grows + 1 / whole**2),
        2 / whole * ((mean - mu0) - ratio * (mean - mu1)),
        (1 - ratio) * fixed + (mean - mu0) ** 2 - ratio * (mean - mu1) ** 2,
    )
    if grows > 0 and ratio != 1:
        found += _roots(grows, 0.0, fixed - gap * gap * ratio / (1 - ratio) ** 2)
    return sorted(mean + d for d in found if math.isfinite(d))


def _sampled(design: Mapping[str, object]) -> tuple[int, float]:
    """Returns how many runs a baseline has had, and their sum of squares; without any spread it is one, seen again."""
    sampled, squares = int(number(design, "baseline_n", 0)), number(design, "baseline_ss", 0.0)
    return (1 if sampled > 1 and squares == 0 else sampled), (squares if sampled > 1 else 0.0)


def _scale(design: Mapping[str, object], values: Sequence[float]) -> float:
    """Returns how far apart results lie that have been seen; 1 where nothing tells."""
    sampled, squares = _sampled(design)
    if values:
        mean = math.fsum(values) / len(values)
        squares += math.fsum((value - mean) ** 2 for value in values)
    freedom = max(len(values) - 1, 0) + max(sampled - 1, 0)
    seen = math.sqrt(squares / freedom) if freedom else 0.0
    return seen or max((abs(value) for value in values), default=0.0) or 1.0


def _any_boundaries(design: Mapping[str, object], values: Sequence[float], nats: float) -> list[float]:
    """Returns `_boundaries` of the default test: where its t statistic is the one at which its factor is `nats`."""
    n = len(values)
    sampled, squares = _sampled(design)
    whole, nu = n + 1, n + max(sampled - 1, 0)
    if nu <= 0:
        return []
    effective = whole * sampled / (whole + sampled) if sampled > 0 else whole
    one_sided = bool(design.get("one_sided"))
    t = _crossing(
        lambda t: jzs_log_bayes_factor(t, nu, effective, one_sided=one_sided) - nats, -_LARGEST_T if one_sided else 0.0
    )
    if t is None:
        return []
    t2 = t * t / nu
    mean = math.fsum(values) / n if n else 0.0
    squares += math.fsum((value - mean) ** 2 for value in values)
    share = 1 / whole + (1 / sampled if sampled > 0 else 0.0)
    # With x the next value and d = x - mean: (mean + d/whole)^2 = t^2 v, and nu v = share (squares + d^2 n/whole).
    found = _roots(1 / whole**2 - t2 * share * n / whole, 2 * mean / whole, mean * mean - t2 * share * squares)
    return sorted(mean + d for d in found if math.isfinite(d))


def _crossing(rises: Callable[[float], float], start: float = 0.0) -> float | None:
    """Returns where a function that rises from `start` on is 0, by false position.

    None where it is not up to `_LARGEST_T`.
    """
    low, high = start, 1.0
    below, above = rises(low), rises(high)
    while above < 0 and high < _LARGEST_T:
        low, below, high = high, above, high * 2
        above = rises(high)
    if below > 0 or above < 0:
        return None
    for _ in range(_BISECTIONS):
        middle = high - above * (high - low) / (above - below) if above > below else high
        found = rises(middle)
        if abs(found) < _NEAR_ENOUGH_NATS or not low < middle < high:
            return middle
        if found < 0:
            low, below, above = middle, found, above / 2  # the side that stays is leaned on less (Illinois)
        else:
            high, above, below = middle, found, below / 2
    return high


def _roots(a: float, b: float, c: float) -> list[float]:
    """Returns the real roots of a x^2 + b x + c, without cancellation."""
    if a == 0:
        return [-c / b] if b else []
    inside = b * b - 4 * a * c
    if inside < 0:
        return []
    q = -(b + math.copysign(math.sqrt(inside), b)) / 2
    return [q / a, c / q] if q else [0.0]


def _span(edges: Sequence[float], holds: Callable[[float], bool], near: float, gap: float) -> Span | None:
    """Returns the stretch of outcomes nearest to `near` on which `holds` is true; None if there is none."""
    return next(iter(_spans(edges, holds, near, gap)), None)


def _spans(edges: Sequence[float], holds: Callable[[float], bool], near: float, gap: float) -> list[Span]:
    """Returns the stretches of outcomes on which `holds` is true, the nearest to `near` first."""
    step = abs(gap) or 1.0
    ends = [near, *edges]
    inner = sorted({*edges, near})
    points = [min(ends) - far * step for far in reversed(_FAR)]
    for left, right in pairwise(inner):
        points += [left + (right - left) * (i + 0.5) / _SAMPLES for i in range(_SAMPLES)]
    points += [max(ends) + far * step for far in _FAR]
    # A stretch may be narrow where it meets a misfit, so the sides of each edge are looked at.
    points += [end + side * _BESIDE * step for end in inner for side in (-1, 1)]
    points = sorted({*points})
    spans: list[Span] = []
    start: float | None = None
    was = holds(points[0])
    for left, right in pairwise(points):
        now = holds(right)
        if now == was:
            continue
        edge = _edge(left, right, edges, holds)
        if now:
            start = edge
        else:
            spans.append(Span(start, edge))
            start = None
        was = now
    if was:
        spans.append(Span(start, None))
    return sorted(spans, key=lambda span: _distance(span, near))


def _edge(left: float, right: float, edges: Sequence[float], holds: Callable[[float], bool]) -> float:
    """Returns where between two points the rule changes its mind.

    A closed form where one lies there, else by bisection.
    """
    between = [edge for edge in edges if left <= edge <= right]
    tiny = 1e-9 * (right - left)
    for edge in between:
        if holds(max(edge - tiny, left)) != holds(min(edge + tiny, right)):
            return edge
    was = holds(left)
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

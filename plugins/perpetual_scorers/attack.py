"""Measures a rule of evidence in worlds whose truth is known: how often it is ever wrong, and whether it warns.

Imported by `perpetual_scorers.cells` and by tests. Standard library, seeded: campaign n of a seed is the same whatever
computes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from random import Random
from typing import Literal, NamedTuple, cast

from perpetual_scorers.null_worlds import Look
from perpetual_scorers.process_pool import Mapper

__all__ = ["Cell", "Judge", "Tally", "failures", "measure", "most_by_chance", "the_judge", "upper_limit"]

Judge = Callable[[list[list[object]]], Sequence[Mapping[str, object]]]
"""What works like `perpetual.science.judge_many`."""

E_BAR = 20.0
MOST_E = 0.05  # P(ever e >= 20) where there is nothing
MOST_FALSE = 0.25  # P(ever the false verdict) at prior 0.5 and threshold 0.8
MOST_MISSES = 0.05  # of intervals
ISSUE_NULLS = 2000  # from here on the shares themselves are held to the promise, not to what chance allows
MOST_E_UPPER = 0.065  # then, the upper 99 % limit of P(ever e >= 20)
_CHUNK = 50  # campaigns of a job, all judged in one call
_LEVEL = 0.99
_ROUNDING = 1e-3  # a document may show three digits


@dataclass(frozen=True, slots=True)
class Cell:
    """One violation: what is violated, what the record can see of it, and the campaigns in which it is.

    Attributes:
        defect: The row of the audit (D1 to D17) that it covers.
        violates: One sentence.
        generate: Yields the looks of one campaign.
        seen: The record can see it: then the rates must hold.
        cautions: One of these must be beside each false verdict and at the last look; demanded where nothing is seen.
        false: The verdict that is false; "by truth": supported where the campaign's effect is 0 or less, else refuted.
        true: The verdict that is true, in a cell that measures power.
        covers: Whether the intervals must cover the truth.
        stays_open: No verdict may be given at all.
        may_refuse: The judge may refuse the input, with an error.
        bar: e-value that a power cell counts the replicates to.
        least_share: Share of campaigns of a power cell that must reach `bar`.
        calibrated: Of the campaigns said to be supported as many must be true as their confidence states.
    """

    name: str
    defect: str
    violates: str
    generate: Callable[[Random], Iterator[Look]]
    seen: bool = True
    cautions: tuple[str, ...] = ()
    false: Literal["supported", "refuted", "by truth"] = "supported"
    true: Literal["supported", "refuted"] | None = None
    covers: bool = True
    stays_open: bool = False
    may_refuse: bool = False
    bar: float = E_BAR
    least_share: float | None = None
    calibrated: bool = False


@dataclass(slots=True)
class Tally:
    """Counts over campaigns; sums are of campaigns unless said otherwise."""

    nulls: int = 0
    looks: int = 0
    refused: int = 0  # looks
    malformed: int = 0  # looks whose document lacks what is promised
    ever_e: int = 0  # the false direction's e-value was ever 20 or more
    ever_false: int = 0
    ever_decided: int = 0
    cautioned: int = 0  # a demanded caution was beside every look with the false verdict or an e-value of 20
    cautioned_last: int = 0
    covered: int = 0  # by the interval, at every look that has one
    covered_at_verdict: int = 0  # of `ever_decided`: an interval was there and covered
    bound_wrong: int = 0  # looks whose bound is not that of their verdict
    last_e: float = 0.0  # sum of the false direction's e-value at the last look, each cut to 1e6
    bias: float = 0.0  # sum over `ever_decided` of the effect said at the first verdict less the truth, in mde
    with_bias: int = 0
    supported: int = 0  # ever
    supported_true: int = 0
    stated: float = 0.0  # sum of the confidences at the first `supported`
    ever_true: int = 0
    runs_to_true: int = 0  # sum of treatment runs to the first true verdict
    reached: int = 0  # the true direction's e-value reached the bar
    runs_to_bar: int = 0
    problem: str = ""  # the first error or malformed document

    def add(self, other: Tally) -> None:
        """Adds another tally to this one."""
        for each in fields(self):
            if each.name == "problem":
                self.problem = self.problem or other.problem
            else:
                setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class _Said(NamedTuple):
    """What is used of a judge's document."""

    status: str
    e: dict[str, float]  # by the verdict that it is for
    bound: float
    low: float | None
    high: float | None
    effect: float | None
    confidence: float
    cautions: frozenset[str]


_OPPOSITE = {"supported": "refuted", "refuted": "supported"}


def _number(document: Mapping[str, object], key: str) -> float:
    value = document[key]
    if not isinstance(value, int | float) or math.isnan(value):
        raise ValueError(f"{key} is {value!r}, not a number")
    return float(value)


def _optional(document: Mapping[str, object], key: str) -> float | None:
    return None if document[key] is None else _number(document, key)


def _said(document: Mapping[str, object]) -> _Said:
    """Returns the document, checked. Raises KeyError or ValueError where it is not as documented."""
    status = document["status"]
    if status not in ("open", "supported", "refuted"):
        raise ValueError(f"status is {status!r}")
    e = {"supported": _number(document, "e_support"), "refuted": _number(document, "e_refute")}
    if min(e.values()) < 0:
        raise ValueError("an e-value is negative")
    effect = cast("Mapping[str, object]", document["effect"] or {"value": None, "low": None, "high": None})
    low, high, value = (_optional(effect, key) for key in ("low", "high", "value"))
    cautions = document["cautions"]
    if not isinstance(cautions, list | tuple) or not all(isinstance(code, str) for code in cautions):
        raise ValueError(f"cautions are {cautions!r}, not codes")
    bound = _number(document, "false_alarm_bound")
    return _Said(str(status), e, bound, low, high, value, _number(document, "confidence"), frozenset(cautions))


def _is_bound_right(said: _Said) -> bool:
    if said.status == "open":
        return True
    e = said.e[said.status]
    least = 1.0 if e <= 1 else 1 / e
    return abs(said.bound - least) <= _ROUNDING * least + 1e-9 and said.bound <= MOST_FALSE + _ROUNDING


def _treatment_runs(look: Look) -> int:
    return sum(len(runs) for runs in look.runs) if isinstance(look.claim, list) else len(look.runs)


def _covers(look: Look, said: _Said) -> bool:
    """Returns whether the interval, if there is one, covers the truth."""
    slack = 1e-9 * look.unit
    return said.low is None or said.high is None or said.low - slack <= look.truth <= said.high + slack


def _scored(cell: Cell, looks: Sequence[Look], documents: Sequence[Mapping[str, object]]) -> Tally:
    """Returns what one campaign adds to the tally."""
    tally = Tally(nulls=1, looks=len(looks))
    said: list[tuple[Look, _Said]] = []
    for look, document in zip(looks, documents, strict=True):
        if "error" in document:
            tally.refused += 1
            tally.problem = tally.problem or str(document["error"])
            continue
        try:
            said.append((look, _said(document)))
        except (KeyError, ValueError, TypeError) as problem:
            tally.malformed += 1
            tally.problem = tally.problem or f"{type(problem).__name__}: {problem}"
    truth = looks[-1].truth
    false = ("supported" if truth <= 0 else "refuted") if cell.false == "by truth" else cell.false
    wrong = [answer for _, answer in said if answer.status == false or answer.e[false] >= E_BAR]
    demanded = frozenset(cell.cautions)
    tally.ever_e = int(any(answer.e[false] >= E_BAR for answer in wrong))
    tally.ever_false = int(any(answer.status == false for answer in wrong))
    tally.cautioned = int(all(demanded & answer.cautions for answer in wrong))
    tally.cautioned_last = int(not said or bool(demanded & said[-1][1].cautions))
    tally.covered = int(all(_covers(look, answer) for look, answer in said))
    tally.bound_wrong = sum(not _is_bound_right(answer) for _, answer in said)
    tally.last_e = min(said[-1][1].e[false], 1e6) if said else 0.0
    _score_first(tally, said, is_true=truth > 0)
    if cell.true is not None:
        _score_power(tally, said, cell.true, cell.bar)
    return tally


def _score_first(tally: Tally, said: Sequence[tuple[Look, _Said]], *, is_true: bool) -> None:
    """Adds what was said at the first verdict, and at the first support."""
    first = next(((look, answer) for look, answer in said if answer.status != "open"), None)
    if first is not None:
        look, answer = first
        tally.ever_decided = 1
        tally.covered_at_verdict = int(answer.low is not None and _covers(look, answer))
        if answer.effect is not None:
            tally.with_bias, tally.bias = 1, (answer.effect - look.truth) / look.unit
    support = next((answer for _, answer in said if answer.status == "supported"), None)
    if support is not None:
        tally.supported, tally.supported_true, tally.stated = 1, int(is_true), support.confidence


def _score_power(tally: Tally, said: Sequence[tuple[Look, _Said]], true: str, bar: float) -> None:
    """Adds how soon the truth was found."""
    verdict = next((look for look, answer in said if answer.status == true), None)
    if verdict is not None:
        tally.ever_true, tally.runs_to_true = 1, _treatment_runs(verdict)
    reached = next((look for look, answer in said if answer.e[true] >= bar), None)
    if reached is not None:
        tally.reached, tally.runs_to_bar = 1, _treatment_runs(reached)


def the_judge() -> Judge:
    """Returns the project's rule."""
    from perpetual.science import judge_many

    return cast("Judge", judge_many)


class _Job(NamedTuple):
    """Some campaigns of one cell; may be played by any process. Without a judge it is the project's."""

    cell: Cell
    seed: int
    first: int
    size: int
    judge: Judge | None


def _played(job: _Job) -> Tally:
    """Plays campaigns, judges all their looks in one call, and counts."""
    judge = job.judge or the_judge()
    campaigns = [
        list(job.cell.generate(Random(f"{job.seed}:{job.cell.name}:{number}")))
        for number in range(job.first, job.first + job.size)
    ]
    answers = iter(judge([[*look[:4]] for looks in campaigns for look in looks]))
    whole = Tally()
    for looks in campaigns:
        whole.add(_scored(job.cell, looks, [next(answers) for _ in looks]))
    return whole


def measure(cell: Cell, nulls: int, seed: int = 0, *, judge: Judge | None = None, run: Mapper = map) -> Tally:
    """Returns the counts over `nulls` campaigns of the cell.

    Args:
        judge: Another rule than the project's; with a `run` of several processes it must be picklable.
        run: Where campaigns are played, as `perpetual_scorers.process_pool.mapper` gives it.
    """
    jobs = [_Job(cell, seed, first, min(_CHUNK, nulls - first), judge) for first in range(0, nulls, _CHUNK)]
    whole = Tally()
    for part in run(_played, jobs):
        whole.add(part)
    return whole


# --- limits -----------------------------------------------------------------------------------------------------------


def _at_most(k: int, n: int, p: float) -> float:
    """Returns P(X <= k) of a binomial X."""
    if k >= n or p <= 0:
        return 1.0
    if p >= 1:
        return 0.0
    whole = math.lgamma(n + 1)
    logs = (
        whole - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(p) + (n - i) * math.log1p(-p)
        for i in range(k + 1)
    )
    return min(math.fsum(math.exp(x) for x in logs), 1.0)


@lru_cache(maxsize=4096)
def upper_limit(k: int, n: int, level: float = _LEVEL) -> float:
    """Returns the one-sided upper limit of a share of which `k` of `n` were seen (Clopper and Pearson, 1934)."""
    if k >= n:
        return 1.0
    low, high = k / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(k, n, middle) > 1 - level else (low, middle)
    return high


@lru_cache(maxsize=4096)
def most_by_chance(n: int, p: float, level: float = _LEVEL) -> int:
    """Returns the quantile of a binomial: the least k with P(X <= k) >= `level`, where each of `n` happens with p."""
    k = 0
    while _at_most(k, n, p) < level:
        k += 1
    return k


def _is_too_many(k: int, n: int, promised: float) -> bool:
    """Returns whether `k` of `n` breaks the promise: by itself in a full bench, else beyond what chance allows."""
    return k > promised * n if n >= ISSUE_NULLS else k > most_by_chance(n, promised)


def failures(cell: Cell, tally: Tally) -> list[str]:
    """Returns in words what the rule broke in this cell; empty where it held."""
    n, found = tally.nulls, []
    if tally.malformed or (tally.refused and not cell.may_refuse):
        found.append(f"{tally.malformed} looks malformed, {tally.refused} refused: {tally.problem}")
    if tally.bound_wrong:
        found.append(f"bound of another verdict, or above {MOST_FALSE}, at {tally.bound_wrong} looks")
    if cell.stays_open and tally.ever_decided:
        found.append(f"decided in {tally.ever_decided} of {n}, and must stay open")
    if cell.cautions:
        missing = {"a look with the false verdict": tally.cautioned, "the last look": tally.cautioned_last}
        codes = " or ".join(cell.cautions)
        found += [f"no {codes} at {where} in {n - k} of {n}" for where, k in missing.items() if k < n]
    if not cell.seen:
        return found
    if _is_too_many(tally.ever_e, n, MOST_E) or (n >= ISSUE_NULLS and upper_limit(tally.ever_e, n) > MOST_E_UPPER):
        found.append(f"e >= {E_BAR:g} in {tally.ever_e} of {n}")
    if _is_too_many(tally.ever_false, n, MOST_FALSE):
        found.append(f"false verdict in {tally.ever_false} of {n}")
    if cell.covers:
        decided = tally.ever_decided
        if _is_too_many(n - tally.covered, n, MOST_MISSES):
            found.append(f"interval missed the truth in {n - tally.covered} of {n}")
        if decided and _is_too_many(decided - tally.covered_at_verdict, decided, MOST_MISSES):
            found.append(f"interval missed at the verdict in {decided - tally.covered_at_verdict} of {decided}")
    if cell.least_share is not None and _is_too_many(n - tally.reached, n, 1 - cell.least_share):
        found.append(f"e >= {cell.bar:g} in {tally.reached} of {n} only")
    if cell.calibrated and tally.supported:
        said, untrue = tally.stated / tally.supported, tally.supported - tally.supported_true
        if untrue > most_by_chance(tally.supported, 1 - said):
            found.append(f"{untrue} untrue of {tally.supported} supported, at a stated {said:.0%}")
    return found

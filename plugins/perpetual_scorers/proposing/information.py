"""Expected information gain of a run per run-hour, and the batch worth launching next.

Imported by the scorers. Gains are in bits, costs in run-hours (wall hours times GPUs, at least one), `d2` is the
squared separation of what the two predictions would show, in units of its noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from perpetual.science.costs import COST_FLOOR_RUN_HOURS, DEFAULT_FAILURE, failure_probability, learned_cost
from perpetual.science.draws import uniform
from perpetual.science.evidence import TAU_SHARE, number, quantity, spread
from perpetual_scorers.proposing.prospects import NOTHING, Prospect, Setting, prospect
from perpetual_scorers.proposing.strategies import STRATEGIES, Look, strategy, verdict_probability

if TYPE_CHECKING:
    from typing import TypedDict

    class ScoredCandidate(TypedDict):
        """What one more replicate of a candidate is worth; the score is in bits per run-hour."""

        candidate_id: str
        hypothesis_id: str
        information_gain_bits: float
        cost_run_hours: float
        score: float
        offered: bool
        reason: str


__all__ = ["COST_FLOOR_RUN_HOURS", "DEFAULT_FAILURE", "MIN_GAIN_BITS", "binary_entropy", "binary_information_gain",
           "binary_separation", "conditional_gain", "expected_information_gain", "failure_probability", "learned_cost",
           "propose", "score_candidates", "separation"]  # fmt: skip

MIN_GAIN_BITS = 0.01

_P_FLOOR = 1e-100  # nearer to certainty there is nothing to learn, and squares vanish
_D2_LIMIT = 1e6  # certainty long before; noise declared as nil would be infinite
_RATE_FLOOR = 1e-6
_SERIES = (1, 2, 3, 4, 6, 8, 12, 16, 24)  # runs that are looked ahead
_FIRST_LOOK = 2
_TRUST_NATS = 1.5  # in a prediction, beside what its runs have brought
_BASELINE_SERIES = (1, 2, 4)
_EXHAUST_PICKS = 1000  # where candidates cost nothing, no budget ends the comparison
_BUDGET_SLACK_RUN_HOURS = 1e-9  # sums of costs that fill a budget exactly may round past it
# Positive nodes and weights of the 20-point Gauss-Hermite rule for the standard normal density.
_NODES = (
    (0.3469641570813559, 0.2607930634495549),
    (1.0429453488027511, 0.16173933398399995),
    (1.7452473208141268, 0.061506372063976904),
    (2.458663611172368, 0.013997837447101003),
    (3.1890148165533896, 0.0018301031310804928),
    (3.9439673506573163, 0.00012882627996192944),
    (4.734581334046055, 4.402121090230853e-06),
    (5.5787388058932015, 6.127490259982948e-08),
    (6.510590157013654, 2.4820623623151786e-10),
    (7.619048541679758, 1.257800672437927e-13),
)


def binary_entropy(p: float) -> float:
    """Returns entropy of a yes-or-no question in bits."""
    return -(p * math.log2(p) + (1 - p) * math.log2(1 - p)) if 0 < p < 1 else 0.0


def expected_information_gain(p: float, d2: float) -> float:
    """Bits, 0..H(p), expected at confidence `p` of a Gaussian observation with squared separation `d2`.

    Mutual information of a binary truth and its outcome, by Gauss-Hermite quadrature: to 1e-6 for d2 <= 4.
    """
    if not _P_FLOOR < p < 1 or d2 <= 0:
        return 0.0
    half, d, q = min(d2, _D2_LIMIT) / 2, math.sqrt(min(d2, _D2_LIMIT)), 1 - p
    loss, exp, log2 = 0.0, math.exp, math.log2
    for node, weight in _NODES:
        # The nodes are symmetric, so the ratio given "false" is met at the mirrored node.
        up, down = exp(d * node - half), exp(-d * node - half)
        loss += weight * (p * log2((p + q * up) * (p + q * down)) + q * log2((q + p * up) * (q + p * down)))
    return min(max(-loss, 0.0), binary_entropy(p))


def conditional_gain(p: float, pending_d2: float, new_d2: float) -> float:
    """Bits that `new_d2` adds to what is pending: exact, because Gaussian log likelihood ratios add."""
    gain = expected_information_gain(p, pending_d2 + new_d2) - expected_information_gain(p, pending_d2)
    return max(gain, 0.0)


def separation(gap: float, *, s2: float, tau: float, n_seen: int = 0, k: int = 1, baseline_n: int = 0) -> float:
    """Returns squared separation that `k` replicates add to the `n_seen` ones of a design; `gap` = mu1 - mu0.

    `s2` is the variance of a replicate; `tau`, the sd between implementations, and the error of a baseline
    sampled `baseline_n` times are shared by all replicates. n replicates separate by gap^2 / (shared + s2/n),
    and what k more add is the difference of two such terms: the same number as shrinking gap and shared
    variance by those seen.
    """
    shared = tau * tau + (s2 / baseline_n if baseline_n > 0 else 0.0)

    def total(n: int) -> float:
        spread = s2 + n * shared
        return min(gap * gap * n / spread, _D2_LIMIT) if spread > 0 else (_D2_LIMIT if n and gap else 0.0)

    return max(total(n_seen + k) - total(n_seen), 0.0)


def binary_information_gain(p: float, p1: float, p0: float) -> float:
    """Bits, exactly, of one success-or-fail run at confidence `p`: success rate `p1` if true, `p0` if not."""
    mixed = binary_entropy(p * p1 + (1 - p) * p0)
    return max(mixed - p * binary_entropy(p1) - (1 - p) * binary_entropy(p0), 0.0)


def binary_separation(p1: float, p0: float) -> float:
    """Returns squared separation of one success-or-fail run: the symmetrised KL divergence of the two rates."""
    p1, p0 = (min(max(rate, _RATE_FLOOR), 1 - _RATE_FLOOR) for rate in (p1, p0))
    return (p1 - p0) * math.log(p1 * (1 - p0) / (p0 * (1 - p1)))


def _hours(cost: float) -> str:
    """Returns a cost in words."""
    shown = f"{cost:.3g}"
    return f"{shown} run-hour{'' if shown == '1' else 's'}"


class _Baseline:
    """Runs that claims are compared with: those that have ended, and those that wait for their result."""

    def __init__(self, n: int) -> None:
        self.n, self.waiting = n, 0
        self.members: list[int] = []  # the candidates that are compared with it
        self.run: int | None = None  # the candidate that is one more run of it


class _Candidate:
    """One candidate, read and checked."""

    def __init__(self, row: Mapping[str, object]) -> None:
        self.is_baseline = row.get("kind") == "baseline"
        self.id = str(row.get("id", row.get("baseline_id")) if self.is_baseline else row["id"])
        self.hypothesis_id = "" if self.is_baseline else str(row["hypothesis_id"])
        self.baseline: _Baseline | None = None
        self.cost = number(row, "cost")
        if self.cost < 0:
            raise ValueError(f"cost must not be negative (in {self.id})")
        self.price = max(self.cost, COST_FLOOR_RUN_HOURS)
        self.p_fail = min(max(number(row, "p_fail", DEFAULT_FAILURE), 0.0), 1.0)
        self.waiting = int(number(row, "n_pending", 0))
        self.left = math.inf if row.get("n_left") is None else number(row, "n_left")
        self.setting: Setting | None = None
        self.is_proxy = bool(row.get("proxy"))
        self.plan: tuple[int, Prospect] | None = None  # see `_planned`
        self.claims = 0  # open ones that are compared with it
        if not self.is_baseline:
            self._read_prediction(row)

    def _read_prediction(self, row: Mapping[str, object]) -> None:
        self.mu1, self.mu0 = quantity(row, "mu1"), quantity(row, "mu0")
        self.binary = row.get("model") == "binary"
        self.tau = spread(row, "tau", TAU_SHARE * abs(self.mu1 - self.mu0))
        known = next((key for key in ("sigma", "s0") if row.get(key) is not None), None)
        # Of unknown noise no replicate has taught anything yet, so one more is worth asking for.
        self.s2 = spread(row, known) ** 2 if known else 0.0
        self.n_seen = int(number(row, "n_seen", 0)) if known else 0
        self.baseline_n = int(number(row, "baseline_n", 0))
        gap = abs(self.mu1 - self.mu0)
        # A stand-in that shows so much too much, or too little, brings the wrong verdict nearer by as much.
        self.gap = math.sqrt(gap * max(gap - 2 * abs(quantity(row, "bias", 0.0)), 0.0))
        sd = math.sqrt(self.s2)
        if not self.binary and sd > 0 and (known == "s0" or row.get("baseline_id") is not None):
            rho = None if row.get("rho") is None else number(row, "rho")
            self.setting = Setting(min(self.gap / sd, _D2_LIMIT), min(self.tau / sd, _D2_LIMIT), rho)

    def d2(self, more: int = 0) -> float:
        """Returns squared separation of the replicates waiting for their result, and `more`."""
        k = self.waiting + more
        if k <= 0:
            return 0.0
        if self.binary:
            return k * binary_separation(self.mu1, self.mu0)
        return separation(self.gap, s2=self.s2, tau=self.tau, n_seen=self.n_seen, k=k, baseline_n=self.baseline_n)

    def evidence(self, more: int = 0, of_baseline: int = 0) -> Prospect:
        """Returns what is to come of the runs waiting for their result, and of `more`, of the baseline's too."""
        if self.setting is None:
            return Prospect(d2 := self.d2(more), d2)
        seen = waits = None
        if self.baseline is not None:
            seen = self.baseline.n
            waits = seen + self.baseline.waiting + of_baseline
        k = self.waiting + more
        if not k and waits == seen:
            return NOTHING
        return prospect(self.setting, self.n_seen + k, waits).beyond(prospect(self.setting, self.n_seen, seen))

    def said(self) -> float:
        """Returns the nats that were expected of the runs so far."""
        if self.setting is None:
            return 0.0
        return prospect(self.setting, self.n_seen, None if self.baseline is None else self.baseline.n).d2 / 2


def _promise(candidate: _Candidate) -> float:
    return candidate.setting.gap**2 / candidate.price if candidate.setting is not None else 0.0


class _Belief(NamedTuple):
    """A hypothesis: its confidence, what is to come of what waits, and its chance to bring a verdict."""

    p: float
    before: Prospect
    chance: float
    is_open: bool
    pace: float  # the evidence that its runs brought, as a share of the expected
    whole: _Candidate | None = None  # runs at full scale that a verdict needs beside stand-ins; None where it has some


def _per_run(found: Sequence[tuple[Look, tuple[Prospect, float]]], k: int) -> tuple[float, float]:
    """Returns the bits a run that `k` runs of a baseline bring to all claims, and the most that it could be."""
    return (
        math.fsum(conditional_gain(look.confidence, look.pending_d2, look.new_d2) for look, _ in found) / k,
        math.fsum(conditional_gain(0.5, before.spread, most) for _, (before, most) in found) / k,
    )


class _Batch:
    """A batch as it grows: each pick lowers what the next one of the same hypothesis is worth.

    A pick changes only what is known of its own hypothesis, or of those that share a baseline, so a heap with the
    entries of these renewed holds the exact order: a batch costs its candidates once and each pick its siblings.
    """

    def __init__(self, state: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        self.strategy = strategy(config.get("strategy") or "hypothesis_driven")
        self.support, self.refute = number(config, "support", 0.8), number(config, "refute", 0.2)
        self.min_gain = number(config, "min_information_gain_bits", MIN_GAIN_BITS)
        self.explore = number(config, "explore_fraction", 0.0)
        self.exponent = number(config, "cost_exponent", 1.0)
        self.seed = state.get("seed", 0)
        self.budget = math.inf if state.get("budget_left") is None else number(state, "budget_left")
        hypotheses = {str(row["id"]): row for row in state["hypotheses"]}
        self.confidence = {name: number(row, "confidence") for name, row in hypotheses.items()}
        self.owed = {name: number(row, "missing_replicates", 0) for name, row in hypotheses.items()}
        self.order = {name: n / len(self.confidence) for n, name in enumerate(self.confidence)}
        self.candidates = [_Candidate(row) for row in state["candidates"]]
        self.baselines = self._read_baselines(state["candidates"])
        self.siblings: dict[str, list[int]] = {}
        seen = dict.fromkeys(self.confidence, 0.0)
        for i, candidate in enumerate(self.candidates):
            if candidate.is_baseline:
                continue
            self.siblings.setdefault(candidate.hypothesis_id, []).append(i)
            if candidate.hypothesis_id in self.confidence:
                self.owed[candidate.hypothesis_id] -= candidate.waiting
                seen[candidate.hypothesis_id] += candidate.n_seen + candidate.waiting
        self.runs = {name: number(row, "n_runs", seen[name]) for name, row in hypotheses.items()}
        self.beliefs: dict[str, _Belief] = {}
        count = len(self.candidates)
        self.gain_bits, self.worth, self.score = [0.0] * count, [0.0] * count, [0.0] * count
        self.most_of_baseline: dict[int, float] = {}  # bits, were the noise known and the odds even
        self.picks: list[int] = []
        self.drawn: set[int] = set()  # picks that were drawn at random
        self.total_bits = 0.0
        self._version = [0] * count
        self._heap: list[tuple[float, float, int, int]] = []
        for name in self.siblings:
            self._rate(name)
        for baseline in self.baselines.values():
            self._rate_baseline(baseline)
        heapify(self._heap)

    def _read_baselines(self, rows: Sequence[Mapping[str, object]]) -> dict[str, _Baseline]:
        """Returns the baselines that candidates name, with their runs: as their own candidate, or a claim, counts them.

        A baseline that is never run in this state is a number, unless a claim says how many runs it has.
        """
        found: dict[str, _Baseline] = {}
        for i, (row, candidate) in enumerate(zip(rows, self.candidates, strict=True)):
            name = row.get("baseline_id")
            runs = int(number(row, "n_seen" if candidate.is_baseline else "baseline_n", 0))
            if name is None and (candidate.is_baseline or not runs or candidate.setting is None):
                continue
            known = found.setdefault(f"own {i}" if name is None else f"id {name}", _Baseline(0))
            known.n = max(known.n, runs)
            candidate.baseline = known
            if candidate.is_baseline:
                known.run, known.waiting = i, candidate.waiting
            elif candidate.setting is not None:
                known.members.append(i)
        for baseline in found.values():
            if not baseline.n and baseline.run is None:
                for i in baseline.members:
                    self.candidates[i].baseline = None
        return found

    def _rate(self, name: str) -> None:
        """Rates one hypothesis's candidates, and gives each a new entry at the end of the heap's list."""
        p = self.confidence.get(name)
        if p is None:
            return
        before = NOTHING
        for i in self.siblings[name]:
            if (waits := self.candidates[i].evidence()) is not NOTHING:
                before = before.plus(waits)
        before = before.slowed(pace := self._pace(name, p))
        is_open = self.refute < p < self.support
        chance = verdict_probability(p, before.d2, before.spread, self.support, self.refute)
        belief = _Belief(p, before, chance, is_open, pace)
        self.beliefs[name] = belief = belief._replace(whole=self._whole(name, belief))
        known = expected_information_gain(p, before.d2)
        for i in self.siblings[name]:
            candidate = self.candidates[i]
            verdicts = None
            if candidate.setting is not None:
                k, more = self._planned(candidate, belief)
                bits = max(expected_information_gain(p, before.d2 + more.d2) - known, 0.0) / k
                new, verdicts = more.d2 / k, self._verdicts(belief, candidate, k, more) / k if is_open else None
            else:
                new = candidate.d2(1) - candidate.d2()
                if candidate.binary and before.d2 == 0:
                    bits = binary_information_gain(p, candidate.mu1, candidate.mu0)
                else:
                    bits = max(expected_information_gain(p, before.d2 + new) - known, 0.0)
            self.gain_bits[i] = (1 - candidate.p_fail) * bits
            look = Look(p, before.d2, new, bits, self.support, self.refute, self.seed, len(self.picks),
                        candidate.id, name, self.runs[name], self.order[name], verdicts)  # fmt: skip
            self._value(i, self.strategy.worth(look))

    def _pace(self, name: str, p: float) -> float:
        """Returns what the runs so far brought as a share of what was expected of them, with some trust in the latter.

        Effects lie between none and what was planned for, and noise is declared wrong: what has brought little, brings
        little.
        """
        expected = math.fsum(self.candidates[i].said() for i in self.siblings[name])
        if expected <= 0 or not 0 < p < 1:
            return 1.0
        return min((abs(math.log(p / (1 - p))) + _TRUST_NATS) / (expected + _TRUST_NATS), 1.0)

    def _planned(self, candidate: _Candidate, belief: _Belief) -> tuple[int, Prospect]:
        """Returns how many runs together bring most verdicts a run, with nothing else pending, and what they say.

        One run of unknown noise says nothing, so that a run is worth its share of the runs that say something.
        """
        if candidate.plan is not None:
            return candidate.plan
        already = candidate.evidence()

        alone = belief._replace(before=NOTHING, chance=0.0)

        @cache
        def rate(place: int) -> float:
            k = _SERIES[place]
            more = candidate.evidence(k).beyond(already).slowed(belief.pace)
            return (self._verdicts(alone, candidate, k, more) if belief.is_open else more.d2) / k

        place = _FIRST_LOOK
        while place + 1 < len(_SERIES) and rate(place + 1) >= rate(place):
            place += 1
        while place > 0 and rate(place - 1) > rate(place):
            place -= 1
        k = _SERIES[place]
        candidate.plan = k, candidate.evidence(k).beyond(already).slowed(belief.pace)
        return candidate.plan

    def _whole(self, name: str, belief: _Belief) -> _Candidate | None:
        """Returns the runs at full scale that are planned for a hypothesis of which only stand-ins were run, if any."""
        found: list[tuple[float, _Candidate]] = []
        own = [self.candidates[i] for i in self.siblings[name]]
        for candidate in own if belief.is_open and any(each.is_proxy for each in own) else ():
            if candidate.is_proxy or candidate.setting is None:
                continue
            if candidate.n_seen + candidate.waiting:
                return None
            k, more = self._planned(candidate, belief)
            found.append((self._verdicts(belief, candidate, k, more) / k / candidate.price, candidate))
        return max(found, key=lambda each: each[0])[1] if found else None

    def _verdicts(self, belief: _Belief, candidate: _Candidate, k: int, more: Prospect) -> float:
        """Returns how much likelier `more` makes a verdict, which `k` runs of the candidate bring.

        Stand-ins bring none by themselves: beside runs at full scale they earn their share of the price of both.
        """
        chance, before, share = belief.chance, belief.before, 1.0
        if belief.whole is not None and candidate.is_proxy:
            n, planned = self._planned(belief.whole, belief)
            before = before.plus(planned)
            chance = verdict_probability(belief.p, before.d2, before.spread, self.support, self.refute)
            share = k * candidate.price / (k * candidate.price + n * belief.whole.price)
        d2, spread = before.plus(more)
        return share * max(verdict_probability(belief.p, d2, spread, self.support, self.refute) - chance, 0.0)

    def _rate_baseline(self, baseline: _Baseline) -> None:
        """Rates one more run of a baseline: it is worth what it adds to all claims that are compared with it."""
        if baseline.run is None:
            return
        candidate = self.candidates[baseline.run]
        members: dict[str, list[_Candidate]] = {}
        for i in baseline.members:
            member = self.candidates[i]
            if member.hypothesis_id in self.beliefs and self.beliefs[member.hypothesis_id].is_open:
                members.setdefault(member.hypothesis_id, []).append(member)
        compared = [
            (self.beliefs[name], max(each, key=lambda one: one.n_seen + one.waiting), max(each, key=_promise))
            for name, each in members.items()
        ]
        worth, gains = -1.0, (0.0, 0.0)
        for k in _BASELINE_SERIES:
            found = [self._of_baseline(candidate, k, *each) for each in compared]
            total = math.fsum(self.strategy.worth(look) for look, _ in found) / k
            if total > worth:
                worth = total
                gains = _per_run(found, k)
        bits, self.most_of_baseline[baseline.run] = gains
        if not self.strategy.by_cost:
            runs = float(baseline.n + baseline.waiting)
            worth = self.strategy.worth(Look(0.5, 0.0, 0.0, bits, self.support, self.refute, self.seed,
                                             len(self.picks), candidate.id, candidate.id, runs))  # fmt: skip
        candidate.claims = len(compared)
        self.gain_bits[baseline.run] = (1 - candidate.p_fail) * bits
        self._value(baseline.run, worth)

    def _of_baseline(
        self, run: _Candidate, k: int, belief: _Belief, seen: _Candidate, next: _Candidate
    ) -> tuple[Look, tuple[Prospect, float]]:
        """Returns what `k` more runs of a baseline add to one claim; what waits, and the most that it could be.

        They add to its runs so far, or to those planned: of that they earn their share of the price of both.
        """
        now = seen.evidence(0, k).beyond(seen.evidence()).slowed(belief.pace)
        n = self._planned(next, belief)[0] if next.evidence(_SERIES[-1]).d2 else k + 1  # a baseline that never ran
        plan, without = next.evidence(n, k).slowed(belief.pace), next.evidence(n).slowed(belief.pace)
        more, share = plan.beyond(without), k * run.price / (k * run.price + n * next.price)
        verdicts = self._verdicts(belief, seen, k, now)
        later = share * (self._verdicts(belief, next, n, plan) - self._verdicts(belief, next, n, without))
        most = max(now.spread, more.spread)
        if later > verdicts:
            verdicts, now = later, Prospect(share * more.d2, share * more.spread)
        look = Look(belief.p, belief.before.d2, now.d2, 0.0, self.support, self.refute, self.seed, len(self.picks),
                    run.id, seen.hypothesis_id, verdicts=verdicts)  # fmt: skip
        return look, (belief.before, most)

    def _value(self, i: int, worth: float) -> None:
        """Notes what a candidate is worth, and gives it a new entry at the end of the heap's list."""
        candidate = self.candidates[i]
        self.worth[i] = self.score[i] = worth
        if self.strategy.by_cost:
            self.score[i] *= (1 - candidate.p_fail) / candidate.price**self.exponent
        self._version[i] += 1
        self._heap.append((-self.score[i], candidate.cost, i, self._version[i]))

    def _most_bits(self, i: int) -> float:
        """Returns the bits of one run; of unknown noise those at even odds, were it known."""
        candidate = self.candidates[i]
        if candidate.is_baseline:
            return (1 - candidate.p_fail) * self.most_of_baseline[i]
        if candidate.setting is None:
            return self.gain_bits[i]
        more = candidate.evidence(1).beyond(candidate.evidence()).spread
        before = self.beliefs[candidate.hypothesis_id].before.spread
        return (1 - candidate.p_fail) * conditional_gain(0.5, before, more)

    def affords(self, i: int) -> bool:
        return self.candidates[i].cost <= self.budget + _BUDGET_SLACK_RUN_HOURS

    def offered(self) -> list[int]:
        return [i for i in range(len(self.candidates)) if not self.refusal(i)]

    def refusal(self, i: int) -> str:
        """Returns why candidate `i` is not offered now; empty where it is."""
        candidate = self.candidates[i]
        p = self.confidence.get(candidate.hypothesis_id)
        if candidate.is_baseline and not candidate.claims:
            return "no open hypothesis is compared with it"
        if p is None and not candidate.is_baseline:
            return "its hypothesis is not open"
        if candidate.left < 1:
            return "no replicate left"
        if not self.affords(i):
            return f"needs {_hours(candidate.cost)}, {self.budget:.3g} are left"
        if p is None or self.refute < p < self.support:
            most = self._most_bits(i)
            if most < self.min_gain:
                return f"{most:.4f} bit is under {self.min_gain:g}"
            waits = p is not None and self.worth[i] <= 0 and self.beliefs[candidate.hypothesis_id].before.d2 > 0
            return "what is pending is expected to decide its hypothesis" if waits else ""
        return "" if self.owed[candidate.hypothesis_id] >= 1 else "its hypothesis is past a threshold"

    def take(self, i: int) -> None:
        candidate = self.candidates[i]
        self.picks.append(i)
        self.total_bits += self.gain_bits[i]
        self.budget -= candidate.cost
        candidate.waiting += 1
        candidate.left -= 1
        candidate.plan = None
        touched = {candidate.hypothesis_id}
        if candidate.is_baseline and candidate.baseline is not None:
            candidate.baseline.waiting += 1
            for member in candidate.baseline.members:
                self.candidates[member].plan = None
            touched = {self.candidates[member].hypothesis_id for member in candidate.baseline.members}
        else:
            for sibling in self.siblings[candidate.hypothesis_id]:
                if self.candidates[sibling].is_proxy:
                    self.candidates[sibling].plan = None
            self.owed[candidate.hypothesis_id] -= 1
            self.runs[candidate.hypothesis_id] += 1
        end = len(self._heap)
        for name in sorted(touched):
            self._rate(name)
        for baseline in self.baselines.values():
            if baseline.run is not None and any(self.candidates[n].hypothesis_id in touched for n in baseline.members):
                self._rate_baseline(baseline)
        renewed = self._heap[end:]
        del self._heap[end:]
        for entry in renewed:
            heappush(self._heap, entry)

    def next(self) -> int | None:
        """Returns the candidate that the strategy would take now: the cheaper, then the earlier, of equals."""
        turn = len(self.picks)
        if self.strategy.fresh or (self.explore > 0 and uniform(self.seed, "explore", turn) < self.explore):
            return self._draw(turn)
        while self._heap:
            _, _, i, version = self._heap[0]
            # What is refused now is refused until its hypothesis is rated again: a budget only shrinks.
            if version == self._version[i] and not self.refusal(i):
                return i
            heappop(self._heap)
        return None

    def _draw(self, turn: int) -> int | None:
        """Returns a candidate by lot: first one of the hypotheses, each as likely, then one of its candidates."""
        offered = self.offered()
        if not offered:
            return None
        by_lot = STRATEGIES["random"].worth

        def lot(i: int) -> float:
            candidate = self.candidates[i]
            return by_lot(Look(0.5, 0.0, 0.0, 0.0, self.support, self.refute, self.seed, turn,
                               candidate.id, candidate.hypothesis_id or candidate.id))  # fmt: skip

        drawn = max(offered, key=lot)
        self.drawn.add(turn)
        return drawn

    def fill(self, size: int, enough_bits: float = math.inf) -> None:
        """Picks by score up to `size` picks or `enough_bits`, while any candidate is offered."""
        while len(self.picks) < size and self.total_bits < enough_bits:
            i = self.next()
            if i is None:
                return
            self.take(i)


def score_candidates(state: Mapping[str, object], config: Mapping[str, object]) -> list[ScoredCandidate]:
    """Returns what one more replicate of each candidate is worth, in the candidates' order, given what is pending.

    Rows of "candidate_id", "hypothesis_id", "information_gain_bits", "cost_run_hours", "score" (per
    run-hour), "offered" and "reason". Arguments and errors as for `propose`.
    """
    batch = _Batch(state, config)
    explored = batch.next() if batch.explore > 0 else None
    rows: list[ScoredCandidate] = []
    for i, candidate in enumerate(batch.candidates):
        refusal = batch.refusal(i)
        of = f" of {candidate.claims} claim{'s' * (candidate.claims != 1)}" if candidate.is_baseline else ""
        worth = f"{batch.strategy.note}{batch.gain_bits[i]:.3f} bit expected{of} for {_hours(candidate.price)}"
        if i == explored and batch.drawn:
            worth = f"drawn at random to explore: {worth}"
        rows.append(
            {
                "candidate_id": candidate.id,
                "hypothesis_id": candidate.hypothesis_id,
                "information_gain_bits": batch.gain_bits[i],
                "cost_run_hours": candidate.price,
                "score": batch.score[i],
                "offered": not refusal,
                "reason": refusal or worth,
            }
        )
    return rows


def propose(state: Mapping[str, object], k: int, config: Mapping[str, object]) -> list[str]:
    """Ids of up to `k` candidates to launch next, an id again for each further replicate of it.

    An empty list means that nothing is worth its cost.
    `state`: "hypotheses" {"id", "confidence", "missing_replicates"?}, "candidates" {"id", "hypothesis_id",
    "mu1", "mu0", "sigma" (or "s0"), "tau", "cost" in run-hours, "p_fail", "n_seen", "n_pending", "model"?,
    "baseline_n"?, "n_left"? (replicates that may still be launched, unlimited by default)}, "budget_left"? in
    run-hours, "seed"? (of all that is drawn). A hypothesis may hold "n_runs", all it has had, by which round_robin
    takes turns. `config`: "support", "refute", "min_information_gain_bits", "strategy" (a key of `STRATEGIES`),
    "explore_fraction" (0: share of the picks that are drawn at random) and "cost_exponent" (1; 0 ignores cost). A
    hypothesis past a threshold is offered only its "missing_replicates", those whatever they gain. Raises ValueError
    for a number that is none and for an unknown strategy.

    A state with "sweep" is answered with ids of settings: {"settings": [{"id", "x" [numbers], "cost" of a full run,
    "seen" [values of full runs, null for one that gave none], "curve"?, "pending"? (runs in flight)}], "direction"
    "max" or "min", "rungs"? [lengths that rise to the full one]}. With rungs an id means that setting's next rung:
    "curve" holds its values at those that it has passed, below the full one. See `sweep`.

    Where the noise is unknown ("s0" is what it seems to be, or the candidate names its "baseline_id") the gain is that
    of a t statistic: one run says nothing, and a run is worth its share of the series that brings most verdicts for
    its price; what brought less than expected so far is expected to go on so. "min_information_gain_bits" refuses a
    run that could not teach as much even at even odds and with known noise. Of such a candidate may be said too "rho",
    the correlation of the seeds that it shares with its baseline; "bias", what a stand-in shows too much; and "proxy":
    runs of stand-ins alone bring no verdict. See `seed_correlation` and `stand_in` of `perpetual.science.prospects`.

    A candidate {"kind": "baseline", "baseline_id", "cost", "id"?, "p_fail", "n_seen", "n_pending"} is one more run of a
    baseline, worth what it adds to all open claims that name it. Its "n_seen", or the largest "baseline_n" of these
    claims, says how many runs it has. A baseline without either is a number.

    Each pick has the highest worth per run-hour, by default the conditional gain. Under a budget, where the picks
    would shut out the best single candidate, that one goes first if it teaches more than all that the budget buys by
    density: the better of the two is within half of 1 - 1/e of the best that the budget can buy, because the
    gain is submodular. The strategies that ignore cost, kept to be compared with, are left as they are.
    """
    if state.get("sweep") is not None:
        from perpetual_scorers.proposing.sweep import picks as picks_of_sweep

        return picks_of_sweep(state, k, config)
    batch = _Batch(state, config)
    is_bounded = batch.strategy.by_cost and math.isfinite(batch.budget)
    offered, alone_bits = batch.offered() if is_bounded else [], list(batch.gain_bits)
    batch.fill(k)
    picks = list(batch.picks)
    if picks and is_bounded:
        best = max(offered, key=lambda i: alone_bits[i])
        if best not in picks and not batch.affords(best):
            batch.fill(_EXHAUST_PICKS, enough_bits=alone_bits[best])
            if alone_bits[best] > batch.total_bits:
                batch = _Batch(state, config)
                batch.take(best)
                batch.fill(k)
                picks = batch.picks
    return [batch.candidates[i].id for i in picks]

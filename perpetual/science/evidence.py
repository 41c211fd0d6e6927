"""The evidence rule: confidence as a fold of an append-only ledger, never a stored opinion.

Imported by the lab's evidence package and by audits of a confidence. All values are oriented
(bigger = more in favour) and differenced from the baseline, in the metric's units; all log Bayes factors are
in nats.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, cast

from perpetual.science.intervals import student_tail

if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    # A row of the ledger and a design come from the record, whose keys depend on their kind and model.
    Row = Mapping[str, Any]
    Design = Mapping[str, Any]

    class Part(TypedDict):
        """What a part of the ledger adds to the log-odds, in nats, and of how many rows."""

        design_id: NotRequired[object]
        judged: NotRequired[object]
        manual: NotRequired[object]
        log_bayes_factor: float
        capped: bool
        n: int
        flags: list[str]

    class Confidence(TypedDict):
        """What `confidence` returns."""

        confidence: float
        log_odds: float
        e_support: float
        e_refute: float
        past: str | None
        reached: str | None
        n_measured: int
        parts: list[Part]
        false_alarm_bound: float
        established: NotRequired[bool]


CONFIDENCE_FLOOR = 1e-4
DESIGN_CAP_NATS = math.log(99)
JUDGED_CAP_NATS = math.log(3)
GUESSED_NOISE_DF = 2.0  # a declared noise is a guess worth two degrees of freedom
TAU_SHARE = 0.25  # default spread between implementations, as a share of the gap mu1 - mu0

_DIRECTION = {"supports": 1.0, "refutes": -1.0}
_RATE_FLOOR = 1e-6  # a declared rate of 0 or 1 would make one contrary run infinite
_WILD = 1e100  # influence is bounded long before; this keeps squares finite
_MISFIT_TAIL = 0.005
_MISFIT_Z = 2.5758  # its normal quantile: Student tails are heavier, so nearer than this needs no integral
_LEAST_SHARE = 1e-300
_ROUNDING_NATS = 1e-9
_EXPONENT_LIMIT = 700.0  # exp() beyond overflows, and its reciprocal is no longer exact


def is_finite(value: object) -> TypeGuard[float]:
    """Returns whether `value` is a number that evidence may carry (integers too large for a float are not)."""
    return isinstance(value, int | float) and -sys.float_info.max <= value <= sys.float_info.max


def number(record: Mapping[str, object], key: str, default: float | None = None) -> float:
    """Returns `record[key]` as a finite float, `default` where it is missing or null. Raises ValueError otherwise."""
    value = record.get(key)
    value = default if value is None else value
    if value is None or not is_finite(value):
        raise ValueError(f"{key} must be a finite number, not {value!r} (in {record.get('id', 'a design')})")
    return float(value)


def quantity(
    record: Mapping[str, object], key: str, default: float | None = None, *, least: float = -math.inf
) -> float:
    """Returns `number` in the metric's units, cut to what can be squared; raises ValueError below `least`."""
    value = number(record, key, default)
    if value < least:
        raise ValueError(f"{key} must be at least {least:g}, not {value!r} (in {record.get('id', 'a design')})")
    return min(max(value, -_WILD), _WILD)


def spread(record: Mapping[str, object], key: str, default: float | None = None) -> float:
    """Returns a standard deviation: a `quantity` that is not negative."""
    return quantity(record, key, default, least=0.0)


class _Noise(NamedTuple):
    """What is believed of the noise; see `log_bayes_factor_gaussian`."""

    tau: float
    sigma: float | None
    s0: float | None
    nu0: float
    baseline_n: int
    baseline_ss: float

    @property
    def flat_baseline(self) -> bool:
        """Returns whether baseline runs show no spread, so that they share a seed (unless the noise is known)."""
        return self.sigma is None and self.baseline_n > 1 and self.baseline_ss == 0


class _Pool(NamedTuple):
    """The replicates of one design as one observation: mean, effective count, df, variance."""

    mean: float
    n: int
    nu: float
    v: float

    @property
    def mute(self) -> bool:
        """Returns nothing seen, or no idea of the noise: it can say nothing."""
        return self.n == 0 or self.nu <= 0 or self.v <= 0


def _all_equal(values: Sequence[float]) -> bool:
    return len(values) > 1 and all(value == values[0] for value in values)


def _pool(values: Sequence[float], noise: _Noise) -> _Pool:
    if not values:
        return _Pool(0.0, 0, 0.0, 0.0)
    tau, sigma, s0, nu0, n_b, ss_b = noise
    values = [min(max(value, -_WILD), _WILD) for value in values]
    if _all_equal(values):  # bit-equal replicates share a seed: one draw, seen again
        values = values[:1]
    if noise.flat_baseline:
        n_b = 1
    n, mean = len(values), math.fsum(values) / len(values)
    if sigma is not None:
        nu, s2 = math.inf, sigma * sigma
    else:
        prior_nu = 0.0 if s0 is None else nu0
        nu = prior_nu + (n - 1) + max(n_b - 1, 0)
        own = math.fsum((x - mean) * (x - mean) for x in values)
        s2 = (prior_nu * (s0 or 0.0) ** 2 + own + (ss_b if n_b > 1 else 0.0)) / nu if nu > 0 else 0.0
    return _Pool(mean, n, nu, tau * tau + s2 / n + (s2 / n_b if n_b > 0 else 0.0))


def _factor(pool: _Pool, mu1: float, mu0: float) -> float:
    mean, _, nu, v = pool
    if pool.mute:
        return 0.0
    middle, gap = (mu1 + mu0) / 2, mu1 - mu0
    if math.isinf(nu):
        return gap * (mean - middle) / v
    scale = nu * v
    # The ratio peaks at this distance from the middle; beyond it a better result would count for less.
    reach = math.sqrt(gap * gap / 4 + scale)
    clipped = min(max(mean, middle - reach), middle + reach)
    lead = 2 * gap * (clipped - middle)  # the difference of the two squared distances, without cancellation
    near = clipped - (mu1 if lead >= 0 else mu0)
    return math.copysign((nu + 1) / 2 * math.log1p(abs(lead) / (scale + near * near)), lead)


def log_bayes_factor_gaussian(
    values: Sequence[float],
    *,
    mu1: float,
    mu0: float,
    tau: float,
    sigma: float | None = None,
    s0: float | None = None,
    nu0: float = 0.0,
    baseline_n: int = 0,
    baseline_ss: float = 0.0,
) -> float:
    """Returns log Bayes factor (nats) of one design's pooled replicates: effect `mu1` against `mu0`.

    `values` are oriented differences from the baseline. `tau` is the sd between implementations of one idea,
    which replicates share: it bounds what a single design can ever say. With `sigma` the replicate noise is
    taken as known; else it is estimated from the replicates, the baseline's `baseline_ss` (sum of squares
    about its mean, over `baseline_n` runs) and a prior sd `s0` worth `nu0` degrees of freedom, and the
    marginal densities are Student-t. `baseline_n` stays 0 where the baseline is a constant or paired by seed.
    Bit-equal replicates count once, and a baseline of bit-equal runs as one run. 0.0 where there is no value
    or no idea of the noise.

    With tau = 0 and nothing sampled but the treatment this is the exact conjugate (normal, scaled inverse
    chi-squared) ratio; the mean is clipped to the peak of the ratio, so that it is monotone in the mean and
    bounded.
    """
    return _factor(_pool(values, _Noise(tau, sigma, s0, nu0, baseline_n, baseline_ss)), mu1, mu0)


def _rate(p: float) -> float:
    return min(max(p, _RATE_FLOOR), 1 - _RATE_FLOOR)


def log_bayes_factor_binary(k: int, n: int, *, p1: float, p0: float) -> float:
    """Returns log Bayes factor (nats) of `k` successes in `n` runs: success rate `p1` against `p0`."""
    p1, p0 = _rate(p1), _rate(p0)
    return k * math.log(p1 / p0) + (n - k) * math.log((1 - p1) / (1 - p0))


def jzs_log_bayes_factor(
    t: float, nu: float, n_effective: float, *, r: float = math.sqrt(0.5), one_sided: bool = False
) -> float:
    """Returns log of the JZS default Bayes factor (nats) for "any effect" against none, nothing having been declared.

    `t` is the t statistic on `nu` degrees of freedom; `n_effective` is n, or n1*n2/(n1+n2) for two groups;
    `r` the Cauchy scale; with `one_sided` only effects above 0 are claimed, a half-Cauchy prior, so that the factor
    grows with t and never favours the claim for a loss. Source: Rouder, Speckman, Sun, Morey and Iverson (2009),
    Psychonomic Bulletin & Review 16; one-sided: Morey and Wagenmakers (2014), Statistics & Probability Letters 92.
    """
    low, high, steps = -6.0, 40.0, 400
    width = (high - low) / steps
    null = -(nu + 1) / 2 * math.log1p(t * t / nu)
    logs = []
    for i in range(steps + 1):  # trapezoid in ln g: the integrand is smooth and vanishes at both ends
        u = low + i * width
        spread = 1 + n_effective * math.exp(u) * r * r
        alternative = -math.log(spread) / 2 - (nu + 1) / 2 * math.log1p(t * t / (nu * spread))
        half = _log_share_above(t, nu, spread) if one_sided else 0.0
        logs.append(alternative - null - u / 2 - math.exp(-u) / 2 + half)
    peak = max(logs)
    area = math.fsum(math.exp(x - peak) for x in logs) * width
    return peak + math.log(area) - math.log(2 * math.pi) / 2


def _log_share_above(t: float, nu: float, spread: float) -> float:
    """Returns log of twice the posterior probability of an effect above 0, given the variance g of its normal prior.

    Given g and sigma the effect is normal; with sigma integrated out its sign follows Student's t on nu + 1.
    `spread` is 1 + n g r^2.
    """
    x2 = (nu + 1) * t * t / nu * (spread - 1) / spread / (1 + t * t / (nu * spread))
    tail = student_tail(math.sqrt(x2), nu + 1)
    return math.log(2 * max(1 - tail if t > 0 else tail, _LEAST_SHARE))


def judged_weight(verdict: str, strength: float) -> float:
    """Nats of one opinion: at most ln 2 either way; 0 for another verdict or a strength that is none."""
    share = min(max(float(strength), 0.0), 1.0) if is_finite(strength) else 0.0
    return _DIRECTION.get(verdict, 0.0) * share * math.log(2)


def _gaussian_misfit(pool: _Pool, mu1: float, mu0: float, claim: object) -> bool:
    """Returns whether both predictions are far off: short of one and past the other ("value": off either way)."""
    if pool.mute:
        return False
    sign = math.copysign(1 / math.sqrt(pool.v), mu1 - mu0)
    distances = [sign * (mu1 - pool.mean), sign * (pool.mean - mu0)]
    if claim == "value":
        distances = [abs(z) for z in distances]
    return min(distances) > _MISFIT_Z and student_tail(min(distances), pool.nu) < _MISFIT_TAIL


class Weighed(NamedTuple):
    """One design's share: raw log Bayes factor, whether both predictions are off, effective n, flags."""

    factor: float
    misfit: bool
    n: int
    flags: list[str]


def _weigh_binary(values: Sequence[float], p1: float, p0: float) -> Weighed:
    hits = [value for value in values if value in (0, 1)]
    n, k = len(hits), round(math.fsum(hits))
    flags = ["value is not 0 or 1"] if n < len(values) else []
    return Weighed(log_bayes_factor_binary(k, n, p1=p1, p0=p0), False, n, flags)


def _flags_of_equal(design: Mapping[str, object], values: Sequence[float], noise: _Noise) -> list[str]:
    """Returns what is said where all runs of an arm measured the same; the design may know more of why."""
    flags = [str(design.get("equal") or "seed not applied")] if _all_equal(values) else []
    if noise.flat_baseline:
        flags.append(str(design.get("baseline_equal") or "seed not applied in the baseline"))
    return flags


def _weigh_any(design: Mapping[str, object], values: Sequence[float]) -> Weighed:
    """Returns the default factor for "any effect".

    The noise is what the runs themselves show, nothing declared counts.
    """
    baseline_n, baseline_ss = int(number(design, "baseline_n", 0)), number(design, "baseline_ss", 0.0)
    noise = _Noise(0.0, None, None, 0.0, baseline_n, baseline_ss)
    pool = _pool(values, noise)
    flags = _flags_of_equal(design, values, noise)
    if pool.mute:
        return Weighed(0.0, False, pool.n, [*flags, "noise unknown: one more replicate"])
    others = 1 if noise.flat_baseline else baseline_n
    effective = pool.n * others / (pool.n + others) if others > 0 else pool.n
    t = pool.mean / math.sqrt(pool.v)
    factor = jzs_log_bayes_factor(t, pool.nu, effective, one_sided=bool(design.get("one_sided")))
    return Weighed(factor, False, pool.n, flags)


def weigh(design: Mapping[str, object], values: Sequence[float]) -> Weighed:
    """Returns what the values of one design's replicates say.

    See `confidence` for the design. Raises ValueError for none.
    """
    model = design.get("model", "gaussian")
    if model == "any":
        return _weigh_any(design, values)
    mu1, mu0 = quantity(design, "mu1"), quantity(design, "mu0")
    if model == "binary":
        return _weigh_binary(values, mu1, mu0)
    if model != "gaussian":
        raise ValueError(f"model must be gaussian, binary or any, not {model!r}")
    sigma, s0 = (None if design.get(key) is None else spread(design, key) for key in ("sigma", "s0"))
    s0 = s0 or None  # a declared noise of 0 says nothing: no run is without noise
    noise = _Noise(
        spread(design, "tau", TAU_SHARE * abs(mu1 - mu0)),
        sigma,
        s0,
        number(design, "nu0", GUESSED_NOISE_DF),
        int(number(design, "baseline_n", 0)),
        number(design, "baseline_ss", 0.0),
    )
    pool = _pool(values, noise)
    flags = _flags_of_equal(design, values, noise)
    if pool.nu <= 0:
        flags.append("noise unknown: one more replicate")
    if design.get("mde") is not None and pool.mean > 8 * number(design, "mde"):
        flags.append("too good: check leakage")
    misfit = _gaussian_misfit(pool, mu1, mu0, design.get("claim"))
    return Weighed(_factor(pool, mu1, mu0), misfit, pool.n, flags)


def live_rows(evidence: Iterable[Mapping[str, object]], hypothesis_id: object) -> list[Row]:
    """Returns this hypothesis' rows that stand: not retracted, not weightless. A retraction can be retracted too."""
    rows = [row for row in evidence if row.get("hypothesis_id", hypothesis_id) in (hypothesis_id, None)]
    retractions: dict[object, list[object]] = {}
    for row in rows:
        if row.get("kind") == "retraction" and row.get("target") is not None:
            retractions.setdefault(row["target"], []).append(row.get("id"))

    def retracted(row_id: object) -> bool:
        return any(not retracted(by) for by in retractions.get(row_id, ()))

    return [
        row
        for row in rows
        if row.get("kind") != "retraction"
        and not row.get("post_hoc")
        and row.get("weight") != 0
        and not retracted(row.get("id"))
    ]


def _outcome(row: Mapping[str, Any], design: Mapping[str, object]) -> float | None:
    """Returns what a run contributes: a failed one nothing, unless "it trains at all" is the binary claim itself."""
    if row.get("status", "done") == "done":
        return float(row["value"]) if is_finite(row.get("value")) else None
    if row["status"] == "failed" and design.get("model") == "binary":
        return {"supports": 1.0, "refutes": 0.0}.get(str(design.get("on_crash")))
    return None


def measured(
    rows: Iterable[Row], designs: Mapping[str, Mapping[str, object]]
) -> tuple[dict[str, list[float]], set[object]]:
    """Values by design, and the runs that gave one: once per run and metric, run and design, and content."""
    values: dict[str, list[float]] = {}
    runs: set[object] = set()
    seen: set[object] = set()
    for row in rows:
        design = designs.get(row.get("design_id") or "") if row.get("kind") == "measured" else None
        if design is None or design.get("metric") not in (None, row.get("metric")):
            continue
        value = _outcome(row, design)
        run = row.get("run_id") or row.get("id")
        keys = {("metric", run, row.get("metric")), ("design", run, row["design_id"])}
        if row.get("content_hash") is not None:
            keys.add(("content", row["content_hash"], None))
        if value is None:
            continue
        runs.add(run)
        if keys & seen:
            continue
        seen |= keys
        values.setdefault(row["design_id"], []).append(value)
    return values, runs


def _opinions(rows: Iterable[Mapping[str, Any]], measured_runs: set[object]) -> dict[object, float]:
    """Nats by evidence id: each judge's last verdict on each run that gave no measured evidence."""
    last = {
        (row.get("run_id"), row.get("judge")): row
        for row in rows
        if row.get("kind") == "judged" and row.get("run_id") not in measured_runs
    }
    return {row.get("id"): judged_weight(row.get("verdict", ""), row.get("strength", 1.0)) for row in last.values()}


def _clip(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def _part(source: str, name: object, nats: float, cap: float, n: int, flags: list[str]) -> Part:
    counted = _clip(nats, cap) + 0.0  # never -0.0
    part = {source: name, "log_bayes_factor": counted, "capped": abs(nats) > cap, "n": n, "flags": flags}
    return cast("Part", part)


def probability(log_odds: float) -> float:
    """Returns the confidence of log odds, kept off certainty."""
    p = 1 / (1 + math.exp(-_clip(log_odds, _EXPONENT_LIMIT)))
    return min(max(p, CONFIDENCE_FLOOR), 1 - CONFIDENCE_FLOOR)


def confidence(
    hypothesis: Mapping[str, object],
    designs: Mapping[str, Design],
    evidence: Iterable[Mapping[str, object]],
    config: Mapping[str, object],
) -> Confidence:
    """Refolds a hypothesis' ledger: logit(prior) + capped factor per design + capped opinions + manual shifts.

    `hypothesis` {"id", "prior"}. `designs` by id: "model" gaussian | binary | any (a default test, which needs no
    prediction; with "one_sided" only of an effect in favour), "mu1", "mu0", "tau", and "sigma" or "s0" with "nu0";
    optional "baseline_n", "baseline_ss", "mde", "claim", "metric", "on_crash", `"told"`, flags to show with it,
    "share", what its factor is multiplied by (at most 1: the samples of one design share its say), and
    "equal" and "baseline_equal", what to say where all runs of an arm measured the same. `evidence` is the ledger in
    its order: rows of kind measured, judged, manual ("log_odds"; "bounded" where it is an opinion too) and retraction
    ("target"). `config`: "support" and "refute" (0.8, 0.2); "alpha" asks for the label `established`.

    Prior and opinions together move the log odds by at most ln 3.

    Returns "confidence" (within 1e-4 of 0 and 1 at most), "log_odds", "e_support" and "e_refute" (valid
    however often one looks; measured designs only), "past" (supported | refuted: the threshold that the confidence has
    passed), "reached" (the same, where what was measured passes it by itself, from even odds), "false_alarm_bound" (of
    the verdict reached, else of the direction in which the confidence leans), "n_measured" (replicates that
    count), and "parts", whose log Bayes factors, as capped, add up to the log-odds beyond the prior's. Raises
    ValueError for a design that is no design; rows that cannot count are left out, never guessed.
    """
    rows = live_rows(evidence, hypothesis.get("id"))
    values, runs = measured(rows, designs)
    weighed = {name: weigh(design, values[name]) for name, design in designs.items() if name in values}
    parts: list[Part] = []
    support: list[float] = []
    refute: list[float] = []
    for name, (factor, misfit, n, flags) in weighed.items():
        factor *= number(designs[name], "share", 1.0)
        # A misfit goes to a human. E-values lose its gain but keep its loss: only cutting a gain is free.
        cap = 0.0 if misfit else DESIGN_CAP_NATS
        support.append(min(factor, cap))
        refute.append(min(-factor, cap))
        flags = [*flags, *(["model misfit"] if misfit else []), *designs[name].get("told", ())]
        parts.append(_part("design_id", name, factor, cap, n, flags))
    opinions = _opinions(rows, runs)
    shifts = {
        row.get("id"): (float(row["log_odds"]), row.get("bounded"))
        for row in rows
        if row.get("kind") == "manual" and is_finite(row.get("log_odds"))
    }
    opinions |= {name: shift for name, (shift, bounded) in shifts.items() if bounded}
    prior = _prior_log_odds(number(hypothesis, "prior", 0.5))
    if opinions:
        total = math.fsum(opinions.values())
        together = prior + _clip(total, JUDGED_CAP_NATS)
        counted = _clip(together, JUDGED_CAP_NATS) - prior
        part = _part("judged", list(opinions), counted, math.inf, len(opinions), [])
        parts.append(part | {"capped": max(abs(total), abs(together)) > JUDGED_CAP_NATS})
    parts += [_part("manual", name, shift, math.inf, 0, []) for name, (shift, bounded) in shifts.items() if not bounded]

    log_odds = math.fsum([prior, *(part["log_bayes_factor"] for part in parts)])
    p, for_it, against_it = probability(log_odds), math.fsum(support), math.fsum(refute)
    past, reached = _verdict(p, for_it, against_it, config)
    side = reached or ("supported" if log_odds >= 0 else "refuted")
    e_support, e_refute = (math.exp(_clip(nats, _EXPONENT_LIMIT)) for nats in (for_it, against_it))
    bound = bound_of({"e_support": e_support, "e_refute": e_refute}, side)
    result: Confidence = {
        "confidence": p,
        "log_odds": log_odds,
        "e_support": e_support,
        "e_refute": e_refute,
        "past": past,
        "reached": reached,
        "n_measured": sum(part.n for part in weighed.values()),
        "parts": parts,
        "false_alarm_bound": bound,
    }
    if config.get("alpha") is not None:
        result["established"] = reached is not None and bound <= number(config, "alpha")
    return result


def bound_of(result: Mapping[str, object], verdict: str) -> float:
    """Returns how often at most an opposite claim would ever get this verdict (supported | refuted)."""
    return min(1.0, 1 / number(result, "e_support" if verdict == "supported" else "e_refute"))


def _prior_log_odds(prior: float) -> float:
    """Returns the log odds of a prior, as far from even as prior and opinions together may go."""
    prior = min(max(prior, CONFIDENCE_FLOOR), 1 - CONFIDENCE_FLOOR)
    return _clip(math.log(prior / (1 - prior)), JUDGED_CAP_NATS)


def _verdict(p: float, for_it: float, against_it: float, config: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Returns the threshold that the confidence has passed, and the same where measured evidence alone passes it too.

    Else a favourable prior, opinions or a hand could carry a verdict that what was measured does not.
    """
    high, low = number(config, "support", 0.8), number(config, "refute", 0.2)
    if p >= high:
        return "supported", "supported" if _enough(for_it, high) else None
    if p <= low:
        return "refuted", "refuted" if _enough(against_it, 1 - low) else None
    return None, None


def _enough(nats: float, threshold: float) -> bool:
    needed = math.log(threshold / (1 - threshold)) if threshold < 1 else math.inf
    return nats >= max(needed, _ROUNDING_NATS) - _ROUNDING_NATS / 2

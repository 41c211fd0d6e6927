"""The evidence rule: confidence as a fold of an append-only ledger, never a stored opinion.

Imported by the lab's evidence package and by audits of a confidence. All values are oriented
(bigger = more in favour) and differenced from the baseline, in the metric's units; all log Bayes factors are
in nats.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, cast

from perpetual.science.designs import Measured, Said, shrunk, weigh_designs, weigh_rates
from perpetual.science.evalues import either

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

    class Effect(TypedDict):
        """What was measured of the effect: better where positive, bounded at 95 % at all looks at once."""

        value: float
        low: float | None
        high: float | None
        n: int
        n_baseline: int | None
        metric: object
        designs: list[str]  # that were weighed together
        sd: float | None  # noise of one run
        declared_sd: float  # of luck that all runs share, as declared or from test items
        shrunk: float | None  # the value drawn towards none, by the effect planned for

    class Confidence(TypedDict):
        """What `confidence` returns."""

        confidence: float
        log_odds: float
        e_support: float
        e_refute: float
        past: str | None
        reached: str | None
        held: str | None
        n_measured: int
        parts: list[Part]
        effect: Effect | None
        false_alarm_bound: float
        established: NotRequired[bool]


CONFIDENCE_FLOOR = 1e-4
DESIGN_CAP_NATS = math.log(99)
JUDGED_CAP_NATS = math.log(3)
GUESSED_NOISE_DF = 2.0  # a declared noise is a guess worth two degrees of freedom
TAU_SHARE = 0.25  # default spread between implementations, as a share of the gap mu1 - mu0

# How flags of parts begin, and the codes of the cautions that they are.
CAUTION_FLAGS = (
    ("outlier", "outlier"),
    ("misfit", "misfit"),
    ("model misfit", "misfit"),
    ("seed not applied", "correlated_seeds"),
)
_VAGUE = 2.0  # spread between implementations, in gaps
_BOTH_SURE = _GUARDED = math.log(20)

_DIRECTION = {"supports": 1.0, "refutes": -1.0}
_RATE_FLOOR = 1e-6  # a declared rate of 0 or 1 would make one contrary run infinite
_WILD = 1e100  # influence is bounded long before; this keeps squares finite
_MISFIT_Z = 2.5758  # beyond it lies one value in 200
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


def _all_equal(values: Sequence[float]) -> bool:
    return len(values) > 1 and all(value == values[0] for value in values)


def _rate(p: float) -> float:
    return min(max(p, _RATE_FLOOR), 1 - _RATE_FLOOR)


def log_bayes_factor_binary(k: int, n: int, *, p1: float, p0: float) -> float:
    """Returns log Bayes factor (nats) of `k` successes in `n` runs: success rate `p1` against `p0`."""
    p1, p0 = _rate(p1), _rate(p0)
    return k * math.log(p1 / p0) + (n - k) * math.log((1 - p1) / (1 - p0))


def judged_weight(verdict: str, strength: float) -> float:
    """Nats of one opinion: at most ln 2 either way; 0 for another verdict or a strength that is none."""
    share = min(max(float(strength), 0.0), 1.0) if is_finite(strength) else 0.0
    return _DIRECTION.get(verdict, 0.0) * share * math.log(2)


class _Weight(NamedTuple):
    """What designs of one baseline say: log e-values, runs that count, what is said of each design, the effect."""

    designs: list[str]
    counts: list[int]
    support: float
    refute: float
    flags: list[list[str]]
    effect: Said | None = None

    @property
    def factor(self) -> float:
        """Returns the nats that it adds to the log odds: what is said for, less what is said against."""
        return max(self.support, 0.0) - max(self.refute, 0.0)


def _weigh_binary(name: str, design: Design, found: Measured) -> _Weight:
    hits = [value for value in found.values if value in (0, 1)]
    flags = ["value is not 0 or 1"] if len(hits) < len(found.values) else []
    flags += design.get("warnings", ())
    lost = len(found.lost)
    if design.get("baseline_count") is not None:
        said = weigh_rates(design, hits, lost)
        return _Weight([name], [len(hits)], said.support, said.refute, [flags], said)
    k, n = round(math.fsum(hits)), len(hits)
    p1, p0 = quantity(design, "mu1"), quantity(design, "mu0")
    # Lost runs count as what is worst for what is said.
    readings = (k, n), (k, n + lost), (k + lost, n + lost)
    nats = [log_bayes_factor_binary(*each, p1=p1, p0=p0) for each in readings]
    if design.get("rate") is None or not n:
        return _Weight([name], [n], min(nats), -max(nats), [flags])
    said = weigh_rates(design, hits, lost)
    is_planned = p1 != p0 and design.get("one_sided") is not False and not number(design, "null", 0.0)
    if is_planned:  # the planned rate too: more power where the plan was right
        support, refute = either(said.support, min(nats)), either(said.refute, -max(nats))
        free = either(said.support + said.held[0], nats[0]), either(said.refute + said.held[1], -nats[0])
        said = said._replace(support=support, refute=refute, held=(free[0] - support, free[1] - refute))
    return _Weight([name], [n], said.support, said.refute, [flags], said)


def _weigh_known(names: Sequence[str], designs: Sequence[Design], found: Sequence[Measured]) -> _Weight:
    """Returns what designs of known noise say, those that share a baseline in one: a ratio of two normal densities.

    It is that of their mean, each weighted by its precision. The baseline's error is in it once, not once a design.
    """
    counts, flags, precisions, shifts, gaps, base = [], [], [], [], [], 0.0
    for design, each in zip(designs, found, strict=True):
        seen = each.values[:1] if _all_equal(each.values) else each.values
        n, mean = len(seen), math.fsum(seen) / len(seen)
        mu1, mu0, sigma = quantity(design, "mu1"), quantity(design, "mu0"), spread(design, "sigma")
        tau, n_b = spread(design, "tau", TAU_SHARE * abs(mu1 - mu0)), int(number(design, "baseline_n", 0))
        base = max(base, sigma * sigma / n_b if n_b > 0 else 0.0)
        v = tau * tau + sigma * sigma / n
        counts.append(n)
        flags.append([*_flags_of_equal(design, each.values), *_too_good(design, mean), *design.get("warnings", ())])
        precisions.append(1 / v if v > 0 else 0.0)
        shifts.append(mean - (mu1 + mu0) / 2)
        gaps.append(mu1 - mu0)
    whole = math.fsum(precisions)
    if not whole:
        return _Weight([*names], counts, 0.0, 0.0, flags)
    shift, gap = (math.fsum(map(mul, precisions, each)) / whole for each in (shifts, gaps))
    v = 1 / whole + base
    factor, most = gap * shift / v, math.inf
    if _is_misfit(shift, v, gap / 2, -gap / 2, designs[0].get("claim")):
        flags[0].append("model misfit")
        most = 0.0
    return _Weight([*names], counts, min(factor, most), min(-factor, most), flags)


def _is_misfit(mean: float, v: float, mu1: float, mu0: float, claim: object) -> bool:
    """Returns whether both predictions are far off: short of one and past the other ("value": off either way)."""
    sign = math.copysign(1 / math.sqrt(v), mu1 - mu0)
    distances = [sign * (mu1 - mean), sign * (mean - mu0)]
    if claim == "value":
        distances = [abs(z) for z in distances]
    return min(distances) > _MISFIT_Z


def _flags_of_equal(design: Design, values: Sequence[float]) -> list[str]:
    """Returns what is said where all runs of an arm measured the same; the design may know more of why."""
    flags = [str(design.get("equal") or "seed not applied")] if _all_equal(values) else []
    base = design.get("baseline") or ()
    is_flat = (
        len({*base}) == 1 if len(base) > 1 else number(design, "baseline_n", 0) > 1 and not design.get("baseline_ss")
    )
    if is_flat and design.get("sigma") is None:
        flags.append(str(design.get("baseline_equal") or "seed not applied in the baseline"))
    return flags


def _too_good(design: Design, mean: float) -> list[str]:
    mde = number(design, "mde", 0.0)
    return ["too good: check leakage"] if mde and mean > 8 * mde else []


def _weigh_together(
    names: Sequence[str], designs: Sequence[Design], found: Sequence[Measured], *, is_factor: bool
) -> _Weight:
    """Returns what designs of unknown noise say that share a baseline."""
    first = designs[0]
    tau = max(spread(design, "tau", TAU_SHARE * abs(_gap(design))) for design in designs)
    declared = [value for design in designs if (value := design.get("s0")) is not None and spread(design, "s0") > 0]
    seen = [
        each._replace(values=each.values[:1], seeds=each.seeds[:1]) if _all_equal(each.values) else each
        for each in found
    ]
    said = weigh_designs(designs, seen, (tau, max(declared, default=None)), is_factor=is_factor)
    flags = []
    for design, each in zip(designs, found, strict=True):
        own = [*_flags_of_equal(design, each.values), *design.get("warnings", ())]
        flags.append(own + (_too_good(design, math.fsum(each.values) / len(each.values)) if each.values else []))
    if said.low is None:
        flags[0].append("noise unknown" if "seed not applied" in flags[0] else "noise unknown: one more replicate")
    if said.outliers:
        flags[0].append(f"outlier: {said.outliers} of the values count half, as the nearest other one")
    support, refute = said.support, said.refute
    if first.get("claim") == "value" and said.value is not None and said.high is not None:
        is_beyond = said.value - quantity(first, "mu1") > said.high - said.value
        flags[0] += ["model misfit"] if is_beyond else []
        support, refute = (0.0, 0.0) if is_beyond else (support, refute)
    if min(support, refute) >= _BOTH_SURE:
        flags[0].append("misfit: the effect lies between none and what was planned for")
    return _Weight([*names], [len(each.values) for each in seen], support, refute, flags, said)


def _gap(design: Design) -> float:
    """Returns how far apart the predictions lie; 0 of a design that makes none."""
    return 0.0 if design.get("model") == "any" else quantity(design, "mu1") - quantity(design, "mu0")


def _group(name: str, design: Design) -> tuple[object, ...]:
    """Returns what designs that are weighed together have in common."""
    shared = design.get("baseline_id")
    gap = _gap(design)
    # A design that is declared to say next to nothing is not to drag down what others of its baseline say.
    is_vague = gap != 0 and spread(design, "tau", 0.0) > _VAGUE * abs(gap)
    if shared is None or is_vague:
        return ("own", name)
    sides = bool(design.get("one_sided")), _gap(design) < 0, design.get("claim") == "value"
    if design.get("sigma") is not None:
        return (shared, "known", design.get("metric"), bool(design.get("stale")), *sides)
    said = design.get("metric"), design.get("model", "gaussian"), bool(design.get("paired")), bool(design.get("stale"))
    return (shared, *said, *sides)


def _weigh(designs: Mapping[str, Design], found: Mapping[str, Measured], *, joint: bool = True) -> list[_Weight]:
    """Returns what was measured, by groups of designs that share a baseline; shaped for a product, or each alone."""
    weighed: list[_Weight] = []
    groups: dict[object, list[str]] = {}
    for name, design in designs.items():
        if name not in found:
            continue
        model = design.get("model", "gaussian")
        if model == "binary":
            weighed.append(_weigh_binary(name, design, found[name]))
        elif model not in ("gaussian", "any"):
            raise ValueError(f"model must be gaussian, binary or any, not {model!r}")
        else:
            groups.setdefault(_group(name, design), []).append(name)
    unknown = [
        key for key, names in groups.items()
        if designs[names[0]].get("sigma") is None and not designs[names[0]].get("stale")
    ]  # fmt: skip
    # The one with most runs is weighed as if alone, the others are shaped for their product with it.
    whole = max(unknown, key=lambda key: sum(len(found[name].values) for name in groups[key]), default=None)
    for name, design in designs.items():  # one whose every run was lost counts beside those of its baseline
        if name not in found and design.get("lost") and design.get("sigma") is None:
            groups.get(_group(name, design), []).append(name)
    for key, names in groups.items():
        own = [designs[name] for name in names]
        values = [found.get(name) or Measured([], [], [*designs[name]["lost"]]) for name in names]
        if own[0].get("sigma") is not None:
            weighed.append(_weigh_known(names, own, values))
        else:
            weighed.append(_weigh_together(names, own, values, is_factor=joint and key != whole))
    full = []
    for place, each in enumerate(weighed):
        # Runs on other code, data or environment than their baseline's decide nothing until it is run anew.
        share = min(0.0 if designs[name].get("stale") else _share(designs[name]) for name in each.designs)
        weighed[place] = each._replace(support=each.support * share, refute=each.refute * share)
        full += [place] if share == 1 else []
    return _by_seeds(weighed, found, full) if joint else weighed


def _by_seeds(weighed: list[_Weight], found: Mapping[str, Measured], full: Sequence[int]) -> list[_Weight]:
    """Returns the weights, where several baselines' claims ran on the same seeds the mean e-value for the product.

    What a seed does to all treatments alike is one draw of its luck, whichever baselines they have.
    """
    linked: list[tuple[set[object], list[int]]] = []
    for place in full:
        if (said := weighed[place].effect) is None or said.statistic is None:
            continue
        names = [name for name in weighed[place].designs if name in found]
        seeds = {seed for name in names for seed in found[name].seeds if seed is not None}
        others = [other for other in linked if other[0] & seeds]
        linked = [other for other in linked if not other[0] & seeds]
        linked.append(
            (seeds.union(*(other[0] for other in others)), [place, *(n for other in others for n in other[1])])
        )
    for _, places in linked:
        k = len(places)
        support, refute = (either(*side) / k for side in zip(*(weighed[n][2:4] for n in places), strict=True))
        for n in places if k > 1 else ():
            said = cast("Said", weighed[n].effect)
            said = said._replace(held=(said.held[0] / k, said.held[1] / k))
            weighed[n] = weighed[n]._replace(support=support, refute=refute, effect=said)
    return weighed


def _share(design: Design) -> float:
    share = number(design, "share", 1.0)
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie between 0 and 1, not {share:g}")
    return share


def live_rows(evidence: Iterable[Mapping[str, object]], hypothesis_id: object) -> list[Row]:
    """Returns this hypothesis' rows that stand: not retracted, not weightless. A retraction can be retracted too."""
    rows = [row for row in evidence if row.get("hypothesis_id", hypothesis_id) in (hypothesis_id, None)]
    retracted = _retracted([row for row in rows if row.get("kind") == "retraction" and row.get("target") is not None])
    return [
        row
        for row in rows
        if row.get("kind") != "retraction"
        and not row.get("post_hoc")
        and row.get("weight") != 0
        and row.get("id") not in retracted
    ]


def _retracted(retractions: Sequence[Row]) -> set[object]:
    """Returns the ids that retractions which stand take back; those that take back one another in a ring do not."""
    targets: dict[object, set[object]] = {}
    for row in retractions:
        targets.setdefault(row.get("id"), set()).add(row["target"])
    waiting = dict.fromkeys(targets, 0)
    for aims in targets.values():
        for target in aims & targets.keys():
            waiting[target] += 1
    found: set[object] = set()
    decided = [name for name, count in waiting.items() if not count]
    for name in decided:  # grows: a retraction is decided once all that aim at it are
        for target in targets[name]:
            if name not in found:
                found.add(target)
            if target in waiting:
                waiting[target] -= 1
                decided += [target] if not waiting[target] else []
    return found


def _outcome(row: Row, design: Mapping[str, object]) -> float | None:
    """Returns what a run contributes: a failed one nothing, unless "it trains at all" is the binary claim itself."""
    if row.get("status", "done") == "done":
        return float(row["value"]) if is_finite(row.get("value")) else None
    if row["status"] == "failed" and design.get("model") == "binary":
        return {"supports": 1.0, "refutes": 0.0}.get(str(design.get("on_crash")))
    return None


def measured(
    rows: Iterable[Row], designs: Mapping[str, Mapping[str, object]]
) -> tuple[dict[str, Measured], set[object]]:
    """Values by design, and the runs that gave one: once per run and metric, run and design, and content."""
    values: dict[str, Measured] = {}
    runs: set[object] = set()
    seen: set[object] = set()
    for row in rows:
        design = designs.get(row.get("design_id") or "") if row.get("kind") == "measured" else None
        if design is None or design.get("metric") not in (None, row.get("metric")):
            continue
        value = _outcome(row, design)
        if value is None:
            continue
        run = row.get("run_id")
        run = row.get("id") if run is None else run
        keys = [("metric", run, row.get("metric")), ("design", run, row["design_id"])]
        if row.get("content_hash") is not None:
            keys.append(("content", row["content_hash"], None))
        runs.add(run)
        if not seen.isdisjoint(keys):
            continue
        seen.update(keys)
        known = values.setdefault(
            row["design_id"], Measured([], [], list(cast("Iterable[float | None]", design.get("lost") or ())))
        )
        known.values.append(min(max(value, -_WILD), _WILD))
        known.seeds.append(row.get("seed"))
    return values, runs


def _opinions(rows: Iterable[Row], measured_runs: set[object]) -> dict[object, float]:
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
    optional "baseline_n", "baseline_ss", "mde", "claim", "metric", "on_crash", `"warnings"`, flags to show with it,
    "share", what its factor is multiplied by (at most 1: the samples of one design share its say), and
    "equal" and "baseline_equal", what to say where all runs of an arm measured the same. `evidence` is the ledger in
    its order: rows of kind measured, judged, manual ("log_odds"; "bounded" where it is an opinion too) and retraction
    ("target"). `config`: "support" and "refute" (0.8, 0.2); "alpha" asks for the label `established`.

    Prior and opinions together move the log odds by at most ln 3.

    Returns "confidence" (within 1e-4 of 0 and 1 at most), "log_odds", "e_support" and "e_refute" (valid
    however often one looks; measured designs only), "past" (supported | refuted: the threshold that the confidence has
    passed), "reached" (the same, where what was measured passes it by itself, from even odds), "held" (the verdict that
    runs without a value keep open), "false_alarm_bound" (of the verdict reached, else of the direction in which the
    confidence leans), "effect" of the designs with most runs, "n_measured" (replicates that count), and "parts", whose
    log Bayes factors, as capped, add up to the log-odds beyond the prior's. Raises
    ValueError for a design that is no design; rows that cannot count are left out, never guessed.
    """
    rows = live_rows(evidence, hypothesis.get("id"))
    values, runs = measured(rows, designs)
    guards = {name: design for name, design in designs.items() if design.get("guard_of")}
    weighed = _weigh({name: design for name, design in designs.items() if name not in guards}, values)
    for_it, against_it = (math.fsum(each) for each in ([w.support for w in weighed], [w.refute for w in weighed]))
    parts: list[Part] = []
    if guards:
        for_it, against_it, parts = _under_guard(for_it, against_it, guards, values)
    own = _parts(weighed, for_it, against_it)
    if parts:  # a guard that is worse speaks against the claim
        counted = math.fsum(part["log_bayes_factor"] for part in own)
        together = max(max(for_it, 0.0) - max(against_it, 0.0), -DESIGN_CAP_NATS)
        parts[0]["log_bayes_factor"] = min(together - counted, 0.0)
    parts = [*own, *parts]
    opinions = _opinions(rows, runs)
    shifts = {
        row.get("id"): (quantity(row, "log_odds"), row.get("bounded"))
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
    p = probability(log_odds)
    past, reached = _verdict(p, for_it, against_it, config)
    held = None if reached is not None else _held(weighed, guards, values, prior, config)
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
        "held": held,
        "n_measured": sum(sum(each.counts) for each in weighed),
        "parts": parts,
        "effect": _effect(weighed, designs),
        "false_alarm_bound": bound,
    }
    if config.get("alpha") is not None:
        result["established"] = reached is not None and bound <= number(config, "alpha")
    return result


def _effect(weighed: Sequence[_Weight], designs: Mapping[str, Design]) -> Effect | None:
    """Returns the effect of the designs that have most runs together, the first of equals; None of fewer than two.

    Never the largest effect: which one is shown must not depend on how it came out.
    """
    found = max((each for each in weighed if each.effect is not None), key=lambda each: sum(each.counts), default=None)
    if found is None or found.effect is None or found.effect.value is None or sum(found.counts) < 2:
        return None
    first, said = designs[found.designs[0]], found.effect
    sampled = first.get("baseline") or ()
    known = said.statistic
    typed: float = first.get("baseline_n") or first.get("typed_n") or (first.get("baseline_count") or (0, 0))[1]
    value: float = found.effect.value
    return {
        "value": value,
        "low": said.low,
        "high": said.high,
        "n": sum(found.counts),
        "n_baseline": len(sampled) or int(typed) or None,
        "metric": first.get("metric"),
        "designs": [*found.designs],
        "sd": math.sqrt(known.v * known.n) if known is not None else None,
        "declared_sd": math.sqrt(known.fixed) if known is not None else 0.0,
        "shrunk": shrunk(value, known, first.get("mde")),
    }


def _under_guard(
    for_it: float, against_it: float, guards: Mapping[str, Design], values: Mapping[str, Measured]
) -> tuple[float, float, list[Part]]:
    """Returns both log e-values of a claim with its guards, and the guards' parts.

    The claim holds where its metric is better and no guard is worse: the least of the e-values counts. Against it
    speaks what speaks against any of them: the mean of the e-values counts.
    """
    weighed = _weigh(guards, values, joint=False)
    unseen = [name for name in guards if name not in values]
    sides = [against_it, *(each.refute for each in weighed)]
    against = either(*sides)
    parts = []
    for each in weighed:
        metric, margin = guards[each.designs[0]].get("metric"), number(guards[each.designs[0]], "margin", 0.0)
        holds = each.support >= _GUARDED
        said = "stays" if holds else "is not shown to stay"
        flag = f"guard: {metric} {said} within {margin:g} (e-value {math.exp(_clip(each.support, 700.0)):.3g})"
        parts.append(_part("design_id", each.designs[0], 0.0, math.inf, sum(each.counts), [flag]))
    parts += [_part("design_id", name, 0.0, math.inf, 0, [f"guard: {guards[name].get('metric')} was not measured"])
              for name in unseen]  # fmt: skip
    return min([for_it, *(each.support for each in weighed), *([0.0] if unseen else [])]), against, parts


def _parts(weighed: Sequence[_Weight], for_it: float, against_it: float) -> list[Part]:
    """Returns the designs' shares of the log odds: what is said for the claim less what is said against it.

    The sum stays within what both e-values allow, so no confidence says more than they do. A design's share of what its
    group says goes by its runs.
    """
    total = math.fsum(_clip(each.factor, DESIGN_CAP_NATS) for each in weighed)
    allowed = min(max(total, -max(against_it, 0.0)), max(for_it, 0.0))
    scale = allowed / total if total else 0.0
    parts = []
    for each in weighed:
        runs = sum(each.counts)
        for name, n, flags in zip(each.designs, each.counts, each.flags, strict=True):
            nats = _clip(each.factor, DESIGN_CAP_NATS) * scale * (n / runs if runs else 0.0)
            part = _part("design_id", name, nats, math.inf, n, flags)
            parts.append(part | {"capped": abs(each.factor) > DESIGN_CAP_NATS})
    return parts


def bound_of(result: Mapping[str, object], verdict: str) -> float:
    """Returns how often at most an opposite claim would ever get this verdict (supported | refuted)."""
    return min(1.0, 1 / number(result, "e_support" if verdict == "supported" else "e_refute"))


def _prior_log_odds(prior: float) -> float:
    """Returns the log odds of a prior, as far from even as prior and opinions together may go."""
    prior = min(max(prior, CONFIDENCE_FLOOR), 1 - CONFIDENCE_FLOOR)
    return _clip(math.log(prior / (1 - prior)), JUDGED_CAP_NATS)


def _verdict(p: float, for_it: float, against_it: float, config: Mapping[str, object]) -> tuple[str | None, str | None]:
    """Returns the threshold that the confidence has passed, and the same where measured evidence alone passes it too.

    Else a favourable prior, opinions or a hand could carry a verdict that what was measured does not.
    """
    high, low = number(config, "support", 0.8), number(config, "refute", 0.2)
    if not 0.5 <= high <= 1:
        raise ValueError(f"support must lie between 0.5 and 1, not {high:g}")
    if not 0 <= low <= 0.5:
        raise ValueError(f"refute must lie between 0 and 0.5, not {low:g}")
    if p >= high:
        return "supported", "supported" if _enough(for_it, high) else None
    if p <= low:
        return "refuted", "refuted" if _enough(against_it, 1 - low) else None
    return None, None


def _held(
    weighed: Sequence[_Weight],
    guards: Mapping[str, Design],
    values: Mapping[str, Measured],
    prior: float,
    config: Mapping[str, object],
) -> str | None:
    """Returns the verdict that there would be if the runs without a value were left out."""
    if not any(each.effect is not None and max(each.effect.held) > 0 for each in weighed):
        return None
    sides = []
    for side in (0, 1):
        own = [(each.support, each.refute)[side] for each in weighed]
        sides.append(math.fsum([*own, *(each.effect.held[side] for each in weighed if each.effect is not None)]))
    for_it, against_it = sides
    if guards:
        for_it, against_it, _ = _under_guard(for_it, against_it, guards, values)
    return _verdict(probability(prior + max(for_it, 0.0) - max(against_it, 0.0)), for_it, against_it, config)[1]


def _enough(nats: float, threshold: float) -> bool:
    needed = math.log(threshold / (1 - threshold)) if threshold < 1 else math.inf
    return nats >= max(needed, _ROUNDING_NATS) - _ROUNDING_NATS / 2

"""The whole rule, as the lab applies it, to one claim: its baseline, its runs and what is thought of it.

Pure. `judge` builds designs and rows and folds them by `perpetual.science.evidence.confidence`; the lab builds the same
from its record. Served to other languages by `perpetual.science.stdio_server`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from perpetual.science.evidence import CAUTION_FLAGS, GUESSED_NOISE_DF, confidence, is_finite, number, quantity
from perpetual.science.rates import item_luck, luck_of_rate
from perpetual.science.versions import ASPECTS, Match, Sample, matched, samples_of

if TYPE_CHECKING:
    from typing import TypedDict

    from perpetual.science.evidence import Confidence, Effect

    Json = Mapping[str, Any]
    Built = dict[str, Any]

    class Judgement(Confidence):
        """What `judge` returns."""

        status: str
        effect: Effect | None
        cautions: list[str]

    class Refused(TypedDict):
        """An item that `judge_many` could not judge."""

        error: str


__all__ = ["drifts", "judge", "judge_many", "stopped_by_rule"]

MIN_REPLICATES = 2
_STATES = ("done", "failed", "killed", "timeout", "lost")
_CLAIMS = ("improves", "at_least", "any", "value")
_WILD = 1e100  # more is cut: the square must be finite
_SEPARATED = 0.8  # how far the orders of two arms lie apart, 1 being one arm wholly before the other


class _Run(NamedTuple):
    """One run, read and checked; its value is oriented."""

    value: float | None
    last: float | None
    seed: object
    order: float | None
    items: list[float] | None
    status: str
    by: str | None
    rung: float | None = None
    is_stopped: bool = False


def judge(
    claim: Json | Sequence[Json], baseline: object, runs: Sequence[object], config: Mapping[str, object]
) -> Judgement:
    """Returns the document of `confidence` with "status", "effect" and "cautions" (codes).

    Args:
        claim: {"metric", "direction" max | min, "kind" gaussian | binary, "claim" improves | at_least | any | value,
            "mde", "noise", "tau", "paired", "items", "prior", "opinions", "changes", "stop_rule"}; or a list of them,
            several designs of one hypothesis, with a list of run lists. "stop_rule" is declared for both arms: "wall"
            or "exit:CODE", see `stopped_by_rule`; a run that it ended counts at its last value.
        baseline: a number, {"value", "n"}, or a list of runs; for several designs one for all, or a list of them.
        runs: {"seed", "value", "status", "by", "order", "code", "data", "environment", "items", "last_value",
            "exit_code", "stopped", "rung"}. "stopped": whether it was stopped early; "rung": where its curve
            stood then, and where those of complete runs had stood.
        config: as for `confidence`; the methodology's thresholds and `min_replicates` by their own names too.

    Raises:
        ValueError: for a claim, baseline or run that is none, by the name of the key.
    """
    if not isinstance(config, Mapping):
        raise ValueError(f"config must be an object, not {config!r}")
    claims, baselines, lists = _arguments(claim, baseline, runs)
    found = _Found({}, [], [], [])
    for place, (one, against, own) in enumerate(zip(claims, baselines, lists, strict=True)):
        shared = f"b{next(i for i, other in enumerate(baselines) if other is against or other == against)}"
        _add_design(found, place, one, against, own, shared)
    if len(claims) > 1 and any(len({*group}) > 1 for group in found.sharing()):
        found.cautions.append("shared_baseline")
    opinions = [opinion for one in claims for opinion in _list(one.get("opinions") or (), "opinions")]
    rows = [*found.rows, *_opinions(opinions)]
    thresholds = {
        "support": config.get("support", config.get("confidence_support_threshold")),
        "refute": config.get("refute", config.get("confidence_refute_threshold")),
        "alpha": config.get("alpha"),
    }
    document = confidence({"id": "h", "prior": claims[0].get("prior")}, found.designs, rows, thresholds)
    flags = {flag for part in document["parts"] for flag in part["flags"]}
    found.cautions.extend(code for flag in sorted(flags) if (code := _code_of(flag)) is not None)
    least = number(config, "min_replicates", MIN_REPLICATES)
    reached = document["reached"] if document["n_measured"] >= least else None
    return {**document, "status": reached or "open", "cautions": [*dict.fromkeys(found.cautions)]}


def judge_many(items: Iterable[Sequence[object]]) -> list[Judgement | Refused]:
    """Returns `judge` of each [claim, baseline, runs, config], in order; {"error"} for one that is refused."""
    found: list[Judgement | Refused] = []
    for item in items:
        try:
            claim, baseline, runs, config = item
            found.append(
                judge(
                    cast("Json", claim),
                    baseline,
                    cast("Sequence[object]", runs),
                    cast("Mapping[str, object]", config),
                )
            )
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as exc:
            found.append({"error": f"{type(exc).__name__}: {exc}"})
    return found


class _Found(NamedTuple):
    """What was built of claims and runs."""

    designs: dict[str, Json]
    rows: list[Json]
    cautions: list[str]
    groups: list[tuple[str, str]]  # shared baseline, design

    def sharing(self) -> list[list[str]]:
        """Returns the designs by shared baseline that was run."""
        by: dict[str, list[str]] = {}
        for shared, name in self.groups:
            by.setdefault(shared, []).append(name)
        return [*by.values()]


def _arguments(
    claim: object, baseline: object, runs: object
) -> tuple[list[Json], list[object], list[Sequence[object]]]:
    """Returns claims, baselines and lists of runs, as many of each."""
    several = not isinstance(claim, Mapping)
    claims = [*_list(claim, "claim")] if several else [claim]
    lists = [_list(each, "runs") for each in (_list(runs, "runs") if several else [runs])]
    if not claims or not all(isinstance(one, Mapping) for one in claims):
        raise ValueError("claim must be an object, or a list of one or more")
    is_many = several and _is_runs(baseline) and baseline and all(map(_is_baseline, cast("Sequence[object]", baseline)))
    baselines = [*cast("Sequence[object]", baseline)] if is_many else [baseline] * len(claims)
    if not len(lists) == len(claims) == len(baselines):
        raise ValueError(f"{len(claims)} claims need as many lists of runs and baselines")
    return cast("list[Json]", claims), baselines, lists


def _is_baseline(one: object) -> bool:
    """Returns whether an entry of a list is a baseline by itself, rather than a run of one."""
    return "n" in one if isinstance(one, Mapping) else True


def _list(found: object, key: str) -> Sequence[object]:
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        raise ValueError(f"{key} must be a list, not {found!r}")
    return found


def _code_of(flag: str) -> str | None:
    return next((code for start, code in CAUTION_FLAGS if flag.startswith(start)), None)


def _add_design(found: _Found, place: int, claim: Json, baseline: object, runs: Sequence[object], shared: str) -> None:
    """Adds the designs and rows of one claim: one design a version of its code, data and environment."""
    direction = claim.get("direction") or "max"
    if direction not in ("max", "min"):
        raise ValueError(f"direction must be max or min, not {direction!r}")
    kind, what = claim.get("kind") or "gaussian", claim.get("claim") or "improves"
    if kind not in ("gaussian", "binary"):
        raise ValueError(f"kind must be gaussian or binary, not {kind!r}")
    if what not in _CLAIMS:
        raise ValueError(f"claim must be one of {', '.join(_CLAIMS)}, not {what!r}")
    sign = -1.0 if direction == "min" else 1.0
    mde = None if claim.get("mde") is None else quantity(claim, "mde", least=0.0)
    if what in ("at_least", "value") and not mde:
        raise ValueError(f"mde must be above 0 for the claim {what}")
    rule = claim.get("stop_rule")
    against = cast("Sequence[object]", baseline) if _is_runs(baseline) else None
    if rule is not None:
        if not isinstance(rule, str) or rule.partition(":")[0] not in ("wall", "exit") or against is None:
            raise ValueError(f"stop_rule must be wall or exit:CODE, of both arms as runs, not {rule!r}")
        runs, against = ([_stopped(run, rule) for run in each] for each in (runs, against))
        found.cautions.append("stop_rule")
    own = [_read(run, sign, kind) for run in runs]
    others = None if against is None else [_read(run, sign, kind) for run in against]
    found.cautions.extend(_cautions_of_runs(own, others, kind))
    if others is None:
        _typed(baseline)
        found.cautions.extend(["typed_baseline"] if _typed_n(baseline) is None else [])
    changes = _list(claim.get("changes") or (), "changes")
    if not {*map(str, changes)} <= {*ASPECTS}:
        raise ValueError(f"changes must be a list of {', '.join(ASPECTS)}, not {changes!r}")
    theirs = _samples(against or (), others or ())
    matches = _matches(_samples(runs, own), theirs, [*map(str, changes)])
    is_mixed = len(theirs) > len({id(match.baseline) for match in matches})
    if any(match.stale or not match.counts for match in matches) or (is_mixed and "code" not in changes):
        found.cautions.append("stale")
    counting = [match for match in matches if match.counts]
    luck = []
    for at, match in enumerate(counting):
        name = f"d{place}" if not at else f"d{place}/{at + 1}"
        sample = next((n for n, each in enumerate(theirs) if each is match.baseline), at)
        design, rows = _design(claim, name, kind, what, mde, sign, match, baseline, f"{shared}/{sample}{direction}")
        share = {"share": 1 / len(counting)} if len(counting) > 1 else {}
        found.designs[name] = design | share | ({"stale": [*match.stale]} if match.stale else {})
        found.rows.extend(rows)
        luck.append(design.get("luck"))
        if others is not None and rows:
            found.groups.append((shared, name))
    if kind == "gaussian" and any(len(_merged(match.baseline.items, kind)) == 1 for match in counting):
        found.cautions.append("lone_baseline")
    if kind == "gaussian" and None in luck:
        found.cautions.append("one_test_set")
    if kind == "gaussian" and luck and not claim.get("paired"):
        found.cautions.append("correlated_seeds")


def _is_runs(baseline: object) -> bool:
    return isinstance(baseline, Sequence) and not isinstance(baseline, str)


def _typed_n(baseline: object) -> float | None:
    if isinstance(baseline, Mapping) and baseline.get("n") is not None:
        n = number(baseline, "n")
        if n <= 0:
            raise ValueError(f"n of a baseline must be above 0, not {n:g}")
        return n
    return None


def _typed(baseline: object) -> float:
    value = baseline.get("value") if isinstance(baseline, Mapping) else baseline
    if isinstance(value, bool) or not is_finite(value):
        raise ValueError(f"baseline must be a number, a value with its n, or a list of runs, not {baseline!r}")
    return float(value)


def _read(run: object, sign: float, kind: str) -> _Run:
    if not isinstance(run, Mapping):
        raise ValueError(f"a run must be an object, not {run!r}")
    status = run.get("status") or "done"
    if status not in _STATES:
        raise ValueError(f"status must be one of {', '.join(_STATES)}, not {status!r}")
    items = run.get("items")
    scores = None
    if items is not None:
        if not all(is_finite(item) for item in _list(items, "items")):
            raise ValueError("items must be finite numbers")
        scores = [sign * quantity({"items": item}, "items") for item in items] or None
    value = _number(run, "value")
    if value is None and scores and status == "done" and run.get("value") is None:
        value = sign * math.fsum(scores) / len(scores)
    seen = sign * value if status == "done" and value is not None else None
    if kind == "binary" and seen is not None and sign < 0:
        seen += 1.0  # a failure is what is to become more frequent
    last, rung = _number(run, "last_value"), _number(run, "rung")
    return _Run(
        seen,
        None if last is None else sign * last,
        _seed(run.get("seed")),
        _number(run, "order"),
        scores,
        status,
        run.get("by"),
        None if rung is None else sign * rung,
        bool(run.get("stopped")) and status != "done" and rung is not None and run.get("seed") is not None,
    )


def stopped_by_rule(rule: str | None, status: str, exit_code: object, by: object) -> bool:
    """Returns whether a run was ended by the stopping rule that was declared for both arms; never what `by` ended.

    Args:
        rule: "wall", or "wall:" and seconds: at the wall limit; "exit:CODE": by itself, with that exit code.
        status: how it ended.
        exit_code: of a run that ended by itself.
        by: the agent or person that ended it.
    """
    if rule is None or by is not None:
        return False
    what, _, code = rule.partition(":")
    return status == "timeout" if what == "wall" else status == "failed" and str(exit_code) == code


def _stopped(run: object, rule: str) -> object:
    """Returns a run that the rule ended as one that gave its last value; any other as it is."""
    if not isinstance(run, Mapping) or _number(run, "last_value") is None:
        return run
    if not stopped_by_rule(rule, str(run.get("status")), run.get("exit_code"), run.get("by")):
        return run
    return {**run, "status": "done", "value": run["last_value"]}


def _number(run: Mapping[str, object], key: str) -> float | None:
    """Returns a number of a run; None for one that is not finite, as of a run that diverged."""
    value = run.get(key)
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise ValueError(f"{key} of a run must be a number or null, not {value!r}")
    return min(max(float(value), -_WILD), _WILD) if is_finite(value) else None


def _lost(runs: Sequence[_Run]) -> list[float | None]:
    """Returns the last values of runs that gave none, but for those whose seed was run again and gave one."""
    again = {run.seed for run in runs if run.value is not None and run.seed is not None}
    return [run.last for run in runs if run.value is None and run.seed not in again and not run.is_stopped]


def _rungs(runs: Sequence[_Run], mean: float, *, is_stopped: bool = False) -> list[tuple[object, float]]:
    """Returns seed and value at the rung over a mean, of runs that were stopped there or of those that gave a value."""
    again = {run.seed for run in runs if run.value is not None} if is_stopped else set()
    return [
        (run.seed, run.rung - mean)
        for run in runs
        if run.rung is not None and run.seed not in again and (run.is_stopped if is_stopped else run.value is not None)
    ]


def _seed(seed: object) -> str | None:
    """Returns a seed as text, the same for 1, 1.0 and "1"."""
    if seed is None or isinstance(seed, str):
        return seed
    if not is_finite(seed):
        raise ValueError(f"seed must be a number or text, not {seed!r}")
    return str(int(seed)) if seed == int(seed) else str(seed)


def _cautions_of_runs(own: Sequence[_Run], others: Sequence[_Run] | None, kind: str) -> list[str]:
    """Returns the codes of what no weight can say of the runs of both arms."""
    found, everything = [], [*own, *(others or ())]
    ended = [run for run in everything if run.value is None and not run.is_stopped]
    if any(run.status == "killed" and run.by is not None for run in ended):
        found.append("killed_runs")
    if ended:
        found.append("lost_runs")
    for arm in (own, others or ()):
        seeds = [run.seed for run in arm if run.seed is not None and run.value is not None]
        if len({*seeds}) < len(seeds):
            found.append("correlated_seeds")
    if kind == "binary" and any(run.value not in (None, 0, 1) for run in everything):
        found.append("weightless_runs")
    if others is not None and drifts([run.order for run in own], [run.order for run in others]):
        found.append("drift")
    return found


def drifts(own: Iterable[float | None], others: Iterable[float | None]) -> bool:
    """Returns whether one arm was launched before the other, so that drift would pass for an effect."""
    mine, theirs = ([order for order in orders if order is not None] for orders in (own, others))
    if not mine or not theirs:
        return False
    after = sum((a > b) - (a < b) for a in mine for b in theirs)
    return abs(after) >= _SEPARATED * len(mine) * len(theirs)


def _matches(mine: list[Sample[_Run]], theirs: list[Sample[_Run]], changes: Sequence[str]) -> list[Match[_Run, _Run]]:
    if not theirs:
        return [Match(sample, sample._replace(items=[]), (), True) for sample in mine]
    return matched(mine, theirs, changes)


def _samples(runs: Sequence[object], read: Sequence[_Run]) -> list[Sample[_Run]]:
    versions = [tuple(map(cast("Json", run).get, ASPECTS)) for run in runs]
    if not any(part is not None for version in versions for part in version):
        return [Sample({}, [*read])] if read else []
    return samples_of((_version(*each), found) for each, found in zip(versions, read, strict=True))


def _version(code: object, data: object, environment: object) -> dict[str, object]:
    """Returns a run's version as `perpetual.science.versions` compares it."""
    return {
        "code": None if code is None else {"tree": str(code), "ignored": None, "programs": {}},
        "data": None if data is None else f"data:{data}",
        "environment": None if environment is None else str(environment),
    }


def _design(
    claim: Json,
    name: str,
    kind: str,
    what: str,
    mde: float | None,
    sign: float,
    match: Match[_Run, _Run],
    baseline: object,
    shared: str,
) -> tuple[Built, list[Json]]:
    """Returns a design of one version, and its rows."""
    own, others = match.sample.items, match.baseline.items
    metric = None if claim.get("metric") is None else str(claim["metric"])
    values, lost = _merged(own, kind), _lost(own)
    base = _merged(others, kind)
    base_lost = _lost(others)
    if _is_runs(baseline) and not base:
        return {"model": "gaussian", "mu1": 1.0, "mu0": 0.0, "metric": metric, "baseline_id": shared}, []
    if kind == "binary":
        rates, rows = _rate_design(claim, name, what, mde, sign, values, base, baseline)
        return rates | {"lost": lost, "baseline_lost": base_lost}, rows
    mean = math.fsum(value for _, value in base) / len(base) if base else sign * _typed(baseline)
    rows = [_row(name, n, value - mean, seed, metric) for n, (seed, value) in enumerate(values)]
    noise = claim.get("noise")
    design: Built = {
        "model": "any" if what == "any" or mde is None else "gaussian",
        "one_sided": what != "any" or claim.get("direction") is not None,
        "metric": metric,
        "claim": what,
        "mde": mde,
        "baseline_id": shared,
        "paired": claim.get("paired") is not False and bool(base),
        "lost": [None if last is None else last - mean for last in lost],
    }
    if any(run.is_stopped for run in (*own, *others)):
        design["baseline_stopped"] = _rungs(others, mean, is_stopped=True)
        design["stopped"] = _rungs(own, mean, is_stopped=True)
        design |= {"rung": _rungs(own, mean), "baseline_rung": _rungs(others, mean)}
    if mde is not None:
        design |= {"mu1": mde, "mu0": 0.0, "null": mde if what == "at_least" else 0.0}
    if claim.get("tau") is not None:
        design["tau"] = quantity(claim, "tau", least=0.0)
    if noise is not None:
        design |= {"s0": quantity(claim, "noise", least=0.0), "nu0": GUESSED_NOISE_DF}
    if base:
        design |= {
            "baseline": [value - mean for _, value in base],
            "baseline_seeds": [seed for seed, _ in base],
            "baseline_lost": [None if last is None else last - mean for last in base_lost],
        }
    else:
        design["typed_n"] = _typed_n(baseline)
    luck = item_luck(
        [run.items for run in own if run.items and run.value is not None],
        [run.items for run in others if run.items and run.value is not None],
    )
    if luck is None and claim.get("items") is not None:
        luck = luck_of_rate([abs(value) for _, value in [*values, *base]], number(claim, "items"))
    if luck is not None:
        design["luck"] = luck
    return design, rows


def _merged(runs: Sequence[_Run], kind: str) -> list[tuple[object, float]]:
    """Returns seed and value of each run that gave one; runs on one seed are one draw of it, their mean.

    Of a success or a failure it is the first one.
    """
    found: dict[tuple[int | None, object], list[float]] = {}
    for place, run in enumerate(runs):
        if run.value is not None:
            found.setdefault((place, None) if run.seed is None else (None, run.seed), []).append(run.value)
    return [
        (seed, values[0] if kind == "binary" else math.fsum(values) / len(values))
        for (_, seed), values in found.items()
    ]


def _row(name: str, n: int, value: float, seed: object, metric: object) -> Json:
    id = f"{name}r{n}"
    return {"id": id, "run_id": id, "kind": "measured", "metric": metric, "design_id": name, "value": value,
            "seed": seed, "status": "done"}  # fmt: skip


def _rate_design(
    claim: Json,
    name: str,
    what: str,
    mde: float | None,
    sign: float,
    values: Sequence[tuple[object, float]],
    base: Sequence[tuple[object, float]],
    baseline: object,
) -> tuple[Built, list[Json]]:
    metric = None if claim.get("metric") is None else str(claim["metric"])
    gap = mde or 0.0
    design: Built = {
        "model": "binary",
        "one_sided": what != "any" or claim.get("direction") is not None,
        "metric": metric,
        "mde": gap,
        "null": gap if what == "at_least" else 0.0,
    }
    rows = [_row(name, n, value, None, metric) for n, (_, value) in enumerate(values)]
    if _is_runs(baseline):
        hits = [value for _, value in base if value in (0, 1)]
        return design | {"baseline_count": [math.fsum(hits), len(hits)]}, rows
    rate, n = _typed(baseline), _typed_n(baseline)
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"baseline of a binary claim must be a rate between 0 and 1, not {rate:g}")
    rate = rate if sign > 0 else 1 - rate
    if n is not None:
        return design | {"baseline_count": [rate * n, n]}, rows
    return design | {"rate": rate, "mu1": min(rate + gap, 1.0), "mu0": rate}, rows


def _opinions(opinions: Iterable[object]) -> list[Json]:
    rows: list[Json] = []
    for place, opinion in enumerate(opinions):
        if not isinstance(opinion, Mapping):
            raise ValueError(f"an opinion must be an object, not {opinion!r}")
        if opinion.get("verdict") not in ("supports", "refutes", "inconclusive"):
            raise ValueError(f"verdict must be supports, refutes or inconclusive, not {opinion.get('verdict')!r}")
        actor = opinion.get("actor")
        rows.append({
            "id": f"o{place}", "kind": "judged", "run_id": None, "judge": None if actor is None else str(actor),
            "verdict": opinion["verdict"], "strength": number(opinion, "strength", 1.0),
        })  # fmt: skip
    return rows

"""Design of an experiment: its prediction, checked, completed from its hypothesis, and frozen by its approval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.errors import UsageError, unknown
from perpetual.lab.context import Context
from perpetual.lab.evidence.guards import guards_of
from perpetual.lab.kinds import EXPERIMENT, HypothesisRow
from perpetual.lab.ledger.hypotheses import baseline_value, check_baseline, check_direction, check_metric
from perpetual.lab.ledger.specification import MOST_RUN_HOURS, Specification
from perpetual.records import Design
from perpetual.science.versions import ASPECTS
from perpetual.toolkit.units import finite

if TYPE_CHECKING:
    from perpetual.lab.bodies import PredictionBody

__all__ = ["design_of"]

_PROXY = {"args", "cost_run_hours", "tau"}
_TAU_SHARE = 0.25  # of the mde: how much two implementations of one idea differ, unless the design says otherwise

_NO_PREDICTION: PredictionBody = {"metric": None, "direction": None, "mde": None, "baseline": None}


def design_of(ctx: Context, hypothesis: HypothesisRow | None, spec: Specification) -> Design:
    """Returns the design; what it leaves out comes from the hypothesis's prediction.

    Raises:
        UsageError: for an impossible number or a combination that predicts nothing.
    """
    prediction = hypothesis.body["prediction"] if hypothesis else _NO_PREDICTION
    metric = check_metric(spec.metric) or prediction.get("metric")
    direction = check_direction(spec.direction) or prediction.get("direction")
    mde, baseline = spec.mde, spec.baseline
    if hypothesis is not None:
        mde = prediction.get("mde") if mde is None and spec.claim not in ("any", "none") else mde
        baseline = prediction.get("baseline") if baseline is None and spec.claim != "none" else baseline
    if mde is not None:
        finite(mde, "mde", above=0.0)
    against = baseline_value(ctx, baseline)
    claim = _claim(hypothesis, spec.claim, metric, direction, mde, against)
    # What shares runs is of another metric than they declare, which a baseline that has not run cannot show yet.
    is_seen = isinstance(against, str) and (spec.runs_of is None or ctx.need(EXPERIMENT, against).body["runs"])
    if claim is not None and is_seen:
        check_baseline(ctx, str(against), str(metric))
    if claim is None and metric is not None and direction is None and against is not None:
        raise UsageError("a baseline without a direction says nothing", hint="--direction max or min, and --mde")
    if spec.paired and not isinstance(against, str):
        raise UsageError("--paired needs a baseline experiment whose seeds are shared")
    if spec.baseline_runs is not None and not isinstance(against, float):
        raise UsageError("--baseline-runs belongs to a number as baseline", hint="an experiment's runs are counted")
    if spec.items is not None and (claim is None or spec.kind == "binary"):
        raise UsageError("--items belongs to a claim on a rate over test items", hint="leave --items out")
    if spec.kind == "binary":
        _check_rates(claim, against, mde, direction)
    if spec.runs_of is not None and claim is None:
        raise UsageError(f"what takes the runs of {spec.runs_of} needs a claim", hint="--metric, --direction, --mde")
    if spec.confirmation and claim is None:
        raise UsageError("a confirmation needs a claim", hint="--claim improves, --metric, --direction, --baseline")
    return Design(
        metric=metric,
        direction=direction,
        kind=spec.kind,
        baseline=against,
        claim=claim,
        mde=mde,
        noise=spec.noise,
        tau=_tau(spec, claim, mde),
        replicates=spec.replicates,
        cost_run_hours=spec.cost_run_hours,
        paired=isinstance(against, str) and claim is not None and spec.paired is not False,
        on_crash=_on_crash(spec.on_crash, spec.kind, claim),
        confirmation=spec.confirmation,
        proxy=_proxy(spec.proxy, mde, against),
        proxy_of=None if spec.proxy_of is None else ctx.need(EXPERIMENT, spec.proxy_of).id,
        changes=_changes(spec.changes, claim, against),
        null_effect=mde if claim == "at_least" else None,
        items=spec.items,
        baseline_runs=spec.baseline_runs,
        stop_rule=_stop_rule(ctx, spec, metric, claim, against),
        runs_of=spec.runs_of,
        guards=[{**guard} for guard in guards_of(spec.guards, claim, metric, against)] or None,
    )


def _changes(changes: str | None, claim: str | None, against: float | str | None) -> str | None:
    """Returns what is declared to be changed on purpose: aspects of a version, in their order."""
    if changes is None:
        return None
    given = [word.strip() for word in changes.split(",")]
    for word in given:
        if word not in ASPECTS:
            raise UsageError(unknown("thing to change", word, ASPECTS), hint="--changes code, data or environment")
    if claim is None or not isinstance(against, str):
        raise UsageError(
            "--changes declares the difference from a baseline experiment", hint="--baseline EXPERIMENT, and a claim"
        )
    return ",".join(name for name in ASPECTS if name in given)


def _stop_rule(
    ctx: Context, spec: Specification, metric: str | None, claim: str | None, against: float | str | None
) -> str | None:
    """Returns the declared stopping rule, with its limit; raises UsageError unless the baseline has the same."""
    theirs = ctx.need(EXPERIMENT, against).body["design"].get("stop_rule") if isinstance(against, str) else None
    rule = spec.stop_rule or (theirs if claim is not None else None)
    if rule is None:
        return None
    what, _, given = rule.partition(":")
    if what == "wall":
        if spec.wall_s is None or given not in ("", repr(float(spec.wall_s))):
            raise UsageError("a run that stops at its wall limit needs that limit", hint=f"--wall {given or 'TIME'}")
        rule = f"wall:{float(spec.wall_s)!r}"
    elif what != "exit" or given not in map(str, range(3, 126)):
        raise UsageError(f"{rule} is no stopping rule", hint="wall, or exit:CODE with a code of 3 to 125")
    if metric is None or spec.on_crash is not None or spec.proxy is not None or spec.proxy_of is not None:
        raise UsageError("a stopping rule needs a metric, and goes with no proxy or --on-crash")
    if claim is not None and rule != theirs:
        raise UsageError(
            f"a stopping rule holds in both arms, and the baseline's is {theirs or 'none'}",
            hint=f"propose the baseline with --stop-rule {what if what == 'wall' else rule}",
        )
    return rule


def _tau(spec: Specification, claim: str | None, mde: float | None) -> float | None:
    """Returns how much implementations of one idea differ; rates and claims of some effect have none."""
    if spec.kind == "binary" or claim == "any":
        return None
    return _TAU_SHARE * mde if spec.tau is None and mde is not None else spec.tau


def _claim(
    hypothesis: HypothesisRow | None, claim: str | None, metric: str | None, direction: str | None,
    mde: float | None, against: float | str | None,
) -> str | None:  # fmt: skip
    """Returns what is claimed, if anything, once all that it needs is there."""
    if claim == "none" and mde is not None:
        raise UsageError("an mde without a claim says nothing", hint="leave out --claim none or --mde")
    if claim == "none" or (claim is None and mde is None):
        return None
    claim = claim or "improves"
    if hypothesis is None:
        what = "an mde belongs to a claim, and a claim" if mde is not None else "a claim belongs"
        raise UsageError(f"{what} to a hypothesis", hint="-h HYPOTHESIS")
    if claim == "any" and mde is not None:
        raise UsageError("the claim `any` is of some effect, whatever its size", hint="leave --mde out")
    needs = [("--metric", metric), ("--direction", "" if claim == "any" else direction),
             ("--mde", 0.0 if claim in ("any", "improves") else mde), ("--baseline", against)]  # fmt: skip
    lacking = [flag for flag, value in needs if value is None]
    if lacking:
        raise UsageError(
            f"a claim {'with an mde ' if mde is not None else ''}also needs {', '.join(lacking)}",
            hint="a metric's name; max or min; a number or an experiment's id. The baseline itself: --claim none",
        )
    return claim


def _check_rates(claim: str | None, against: float | str | None, mde: float | None, direction: str | None) -> None:
    """Checks the success rates that a binary claim compares: the baseline, and the baseline plus the mde."""
    if claim is None:
        return
    if claim == "any" or mde is None:
        raise UsageError("a binary claim says which rate it expects", hint="--baseline RATE --mde DIFFERENCE")
    if isinstance(against, str):
        return
    if against is None or not 0.0 <= against <= 1.0:
        raise UsageError(f"the baseline of a binary claim is a rate between 0 and 1, not {against}")
    expected = against + mde if direction == "max" else against - mde
    if not 0.0 <= expected <= 1.0:
        raise UsageError(f"the expected rate would be {expected:g}", hint="baseline and mde must stay within 0 and 1")


def _on_crash(on_crash: str | None, kind: str, claim: str | None) -> str | None:
    if on_crash is not None and (kind != "binary" or claim is None):
        raise UsageError(
            "a crash is evidence only for a binary claim that the command runs at all", hint="--kind binary"
        )
    return on_crash


def _proxy(
    proxy: Mapping[str, object] | None, mde: float | None, against: float | str | None
) -> dict[str, object] | None:
    """Returns the declared stand-in, complete: its spread between implementations is a whole mde unless it says so."""
    if proxy is None:
        return None
    if mde is None:
        raise UsageError("a proxy replaces a claim with an mde")
    if not isinstance(against, str):
        raise UsageError(
            "a proxy is compared with a stand-in of the baseline, which must be an experiment",
            hint="propose the baseline, and name it: --baseline e1",
        )
    for name in proxy:
        if name not in _PROXY:
            raise UsageError(unknown("key of a proxy", str(name), sorted(_PROXY)))
    args = proxy.get("args")
    if not isinstance(args, str) or not args.strip():
        raise UsageError("a proxy needs the words that make the command cheaper", hint='{"args": "--steps 500", ...}')
    numbers = {"cost_run_hours": proxy.get("cost_run_hours", 0.0), "tau": proxy.get("tau", mde)}
    found: dict[str, object] = {"args": args}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UsageError(f"the proxy's {name} must be a number, not {value!r}")
        finite(value, f"the proxy's {name}", minimum=0.0, maximum=MOST_RUN_HOURS if name != "tau" else None)
        found[name] = float(value)
    return found

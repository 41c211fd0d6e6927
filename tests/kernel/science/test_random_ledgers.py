"""Random ledgers and random claims, of honest and of hostile numbers: what must hold of every answer."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perpetual.science import confidence, judge

EXAMPLES = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)

near = st.floats(-3, 3).map(lambda x: round(x, 3))
wild = st.sampled_from([0.0, 1e-300, 5e-324, 1e-9, 1e9, 1e100, 1e300, -1e300, 1.7e308, math.nan, math.inf, -math.inf])
numbers = st.one_of(*[near] * 12, wild)
positive = numbers.map(abs)
lasts = st.lists(st.none() | numbers, max_size=2)
names = st.sampled_from(["a", "b", "c"])


def maybe(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=optional)


gaussian = st.builds(
    lambda first, second: {"model": "gaussian", "mu1": 1.0, "mu0": 0.0, **first, **second},
    maybe(mu1=numbers, mu0=numbers, tau=positive, sigma=st.none() | positive, s0=st.none() | positive, null=numbers,
          mde=positive, claim=st.sampled_from(["improves", "at_least", "value"]), nu0=positive),
    maybe(baseline=st.lists(numbers, max_size=6), baseline_n=st.integers(-1, 5), baseline_ss=positive,
          guard_of=st.just("a"), margin=numbers,
          typed_n=st.none() | numbers, luck=numbers, paired=st.booleans(), lost=lasts,
          baseline_lost=lasts, baseline_id=names, share=st.floats(0, 1),
          stale=st.lists(st.just("code"), max_size=1)),
)  # fmt: skip
anything = st.builds(
    lambda more: {"model": "any", **more},
    maybe(one_sided=st.booleans(), mde=st.none() | positive, baseline=st.lists(numbers, max_size=6), tau=positive,
          lost=lasts, baseline_id=names),
)  # fmt: skip
binary = st.builds(
    lambda more: {"model": "binary", "mu1": 0.7, "mu0": 0.4, **more},
    maybe(mu1=numbers, mu0=numbers, rate=st.floats(-0.1, 1.1) | wild, mde=positive, null=numbers,
          baseline_count=st.tuples(st.integers(-1, 9), st.integers(0, 9)).map(list) | st.just([1e300, 1e301]),
          lost=st.lists(st.none(), max_size=3), one_sided=st.booleans(),
          on_crash=st.sampled_from(["supports", "refutes"])),
)  # fmt: skip
design = st.one_of(gaussian, gaussian, anything, binary)
designs = st.builds(lambda first, more: {"a": first, **more}, design, st.dictionaries(names, design, max_size=2))

measured = st.builds(
    lambda run, more: {"id": f"e{run}", "run_id": run, "kind": "measured", "design_id": "a", "value": 0.5, **more},
    st.integers(0, 12),
    maybe(design_id=names | st.none(), value=numbers | st.sampled_from([0, 1, None, True, 10**400]),
          status=st.sampled_from(["done", "failed", "killed", "lost"]), seed=st.none() | st.integers(0, 3),
          post_hoc=st.booleans(), weight=st.sampled_from([0, 1]), content_hash=st.sampled_from(["x", "y"])),
)  # fmt: skip
opinion = st.builds(
    lambda n, verdict, strength: {"id": f"j{n}", "run_id": None, "kind": "judged", "judge": n, "verdict": verdict,
                                  "strength": strength},
    st.integers(0, 9), st.sampled_from(["supports", "refutes", "inconclusive", "?"]), numbers,
)  # fmt: skip
manual = st.builds(
    lambda n, nats, bounded: {"id": f"m{n}", "kind": "manual", "log_odds": nats, "bounded": bounded},
    st.integers(0, 3), numbers, st.booleans(),
)  # fmt: skip
retraction = st.builds(
    lambda n, target: {"id": f"x{n}", "kind": "retraction", "target": target},
    st.integers(0, 4),
    st.sampled_from(["e0", "e1", "e2", "j0", "m0", "x0", "x1", "x2", "nothing", None]),
)
shifts = st.sampled_from([-30.0, -2.0, 0.0, 0.5, 2.0, 30.0])
plain = st.builds(
    lambda values, shift, is_rate: [
        {"id": f"e{n}", "run_id": n, "kind": "measured", "design_id": "a", "seed": n,
         "value": int(value + shift > 0) if is_rate else value / 3 + shift}
        for n, value in enumerate(values)
    ],
    st.lists(near, min_size=2, max_size=9), shifts, st.booleans(),
)  # fmt: skip
extra = st.lists(st.one_of(measured, measured, measured, opinion, manual, retraction), max_size=6)
ledgers = st.builds(lambda first, more: first + more, plain, extra)


def check(result: dict[str, Any], prior: float) -> None:
    json.dumps(result, allow_nan=False)
    for verdict, key in (("supported", "e_support"), ("refuted", "e_refute")):
        if result["reached"] == verdict:
            assert result["past"] == verdict
            assert result["false_alarm_bound"] == min(1, 1 / result[key]) <= 0.25 + 1e-9
    parts = math.fsum(part["log_bayes_factor"] for part in result["parts"])
    start = min(max(math.log(prior / (1 - prior)), -math.log(3)), math.log(3))
    assert start + parts == pytest.approx(result["log_odds"], rel=1e-9, abs=1e-9)
    measured_nats = math.fsum(part["log_bayes_factor"] for part in result["parts"] if "design_id" in part)
    limits = -max(math.log(result["e_refute"]), 0.0), max(math.log(result["e_support"]), 0.0)
    assert limits[0] - 1e-9 <= measured_nats <= limits[1] + 1e-9
    judged = math.fsum(part["log_bayes_factor"] for part in result["parts"] if "judged" in part)
    assert abs(start + judged) <= math.log(3) + 1e-9
    assert 0 < result["confidence"] < 1
    effect = result["effect"]
    if effect is not None and effect["low"] is not None:
        assert effect["low"] <= effect["high"]


@EXAMPLES
@given(designs, ledgers, st.floats(0.01, 0.99))
def test_every_ledger_is_folded_or_refused(known: dict[str, Any], ledger: list[dict[str, Any]], prior: float) -> None:
    hypothesis = {"id": "H", "prior": prior}
    try:
        result = {**confidence(hypothesis, known, ledger, {})}
    except ValueError:
        return
    check(result, prior)
    assert confidence(hypothesis, known, ledger + ledger, {}) == result, "what is said twice counts once"


values = st.one_of(numbers, st.none(), st.sampled_from([0, 1]))
run = st.builds(
    lambda value, more: {"value": value, **more},
    values,
    maybe(seed=st.none() | st.integers(0, 4) | st.sampled_from(["1", 1.0, True]), order=st.none() | numbers,
          status=st.sampled_from(["done", "done", "failed", "killed", "timeout", "lost"]),
          by=st.none() | st.just("agent"),
          code=st.none() | st.sampled_from(["x", "y"]), data=st.none() | st.just("d"), last_value=st.none() | numbers,
          items=st.none() | st.lists(near, min_size=3, max_size=3)),
)  # fmt: skip
plain_runs = st.builds(
    lambda values, shift, is_rate: [
        {"value": int(value + shift > 0) if is_rate else value / 3 + shift, "seed": n} for n, value in enumerate(values)
    ],
    st.lists(near, min_size=2, max_size=9), shifts, st.booleans(),
)  # fmt: skip
runs = st.builds(lambda first, more: first + more, plain_runs, st.lists(run, max_size=3))
claim = maybe(
    metric=st.none() | st.just("acc"), direction=st.sampled_from([None, "max", "min"]),
    kind=st.sampled_from(["gaussian", "gaussian", "binary"]),
    claim=st.sampled_from(["improves", "at_least", "any", "value"]),
    mde=st.none() | positive, noise=st.none() | positive, tau=st.none() | positive,
    paired=st.sampled_from([None, True, False]),
    items=st.none() | st.integers(2, 500), prior=st.floats(0.01, 0.99),
    opinions=st.lists(st.fixed_dictionaries({"verdict": st.sampled_from(["supports", "refutes"]), "strength": numbers}),
                      max_size=3),
    changes=st.lists(st.sampled_from(["code", "data"]), max_size=2),
)  # fmt: skip
baseline = st.one_of(numbers, st.fixed_dictionaries({"value": numbers, "n": st.none() | numbers}), runs)


@EXAMPLES
@given(st.lists(st.tuples(claim, baseline, runs), min_size=1, max_size=3), st.booleans())
def test_every_claim_is_judged_or_refused(items: list[tuple[Any, Any, Any]], is_shared: bool) -> None:
    claims, baselines, lists = (list(each) for each in zip(*items, strict=True))
    prior = claims[0].get("prior", 0.5)
    against = baselines[0] if is_shared or len(items) == 1 else baselines
    one = len(items) == 1
    try:
        result: dict[str, Any] = {**judge(claims[0] if one else claims, against, lists[0] if one else lists, {})}
    except ValueError:
        return
    check(result, prior)
    if result["status"] != "open":
        assert result["n_measured"] >= 2
        assert result["status"] == result["reached"]

"""Claims on one set of runs: declared before it ran they need no new runs, and afterwards they are refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import Conflict, UsageError
from perpetual.records import Experiment
from perpetual.science import judge
from tests.support import until

# It prints both metrics; with `half` it ends badly after the first of them.
PROGRAM = """
import os, random, sys
r = random.Random(os.environ["PERPETUAL_SEED"] + sys.argv[3])
print("acc:", 0.7 + float(sys.argv[1]) + r.gauss(0, 0.01))
if len(sys.argv) > 4 and os.environ["PERPETUAL_RUN"] == "r4":
    sys.exit(9)
print("latency:", 1 + float(sys.argv[2]) + r.gauss(0, 0.02))
"""
ACC: dict[str, Any] = {"metric": "acc", "direction": "max", "mde": 0.03}
LATENCY: dict[str, Any] = {"metric": "latency", "direction": "min", "mde": 0.1}


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as lab:
        (lab.config.root / "two.py").write_text(PROGRAM)
        yield lab


def command(arguments: str) -> str:
    return f"{sys.executable} two.py {arguments}"


def run(lab: Lab, *ids: str) -> None:
    """Runs all replicates of approved experiments."""
    for id in ids:
        runs = [run.id for run in lab.runs.launch(id, every=True)]

        def are_over(runs: list[str] = runs) -> bool:
            lab.scan()
            return all(lab.runs.get(id).ended_at for id in runs)

        until(are_over)


def claimed(lab: Lab, arguments: str = "0.1 -0.4 b", replicates: int = 3) -> tuple[Experiment, Experiment, Experiment]:
    """A baseline, a claim on acc, and one on latency that takes its runs; all are approved, and nothing has run."""
    base = lab.experiments.propose(None, command=command("0 0 a"), metric="acc", direction="max", replicates=3)
    first = lab.experiments.propose(
        lab.hypotheses.add("better").id, command=command(arguments), baseline=base.id, replicates=replicates, **ACC
    )
    second = lab.experiments.propose(
        lab.hypotheses.add("faster").id, runs_of=first.id, baseline=base.id, idempotency_key="once", **LATENCY
    )
    lab.experiments.approve_all([base.id, first.id, second.id])
    return base, first, second


def test_two_claims_are_decided_by_one_set_of_runs(lab: Lab) -> None:
    base, first, second = claimed(lab)
    assert second.command == first.command
    with pytest.raises(Conflict, match="no runs of its own"):
        lab.runs.launch(second.id)
    assert second.id not in " ".join(lab.status()["next"])
    run(lab, base.id, first.id)
    found = [lab.hypotheses.get(item.hypothesis_id or "") for item in (first, second)]
    assert [each.status for each in found] == ["supported", "supported"]
    assert [each.effect and each.effect["metric"] for each in found] == ["acc", "latency"]
    assert [each.effect and each.effect["value"] for each in found] == pytest.approx([0.1, 0.4], abs=0.1)
    assert len(lab.runs.list().items) == 6
    own, shared = (lab.experiments.get(item.id) for item in (first, second))
    assert shared.runs == own.runs == {"done": 3}
    assert shared.status == own.status
    assert not any("seen_before" in text for each in found for text in each.flags)
    again = lab.experiments.propose(
        second.hypothesis_id, runs_of=first.id, baseline=base.id, idempotency_key="once", **LATENCY
    )
    assert again.id == second.id
    assert lab.evidence.refold() == []
    assert lab.storage.verify() == []
    retract(lab, first, second)


def test_a_claim_that_is_declared_after_the_runs_is_refused(lab: Lab) -> None:
    base, first, _ = claimed(lab)
    late = lab.experiments.propose(lab.hypotheses.add("late").id, runs_of=first.id, baseline=base.id, **LATENCY)
    run(lab, base.id, first.id)
    with pytest.raises(Conflict, match="comes too late"):  # it was proposed, and no person had approved it
        lab.experiments.approve(late.id)
    claim = lab.hypotheses.add("hindsight").id
    with pytest.raises(Conflict, match="comes too late"):
        lab.experiments.propose(claim, runs_of=first.id, baseline=base.id, **LATENCY)
    assert lab.evidence.list(hypothesis_id=late.hypothesis_id).items == ()
    # With a command it needs new runs, and says what was in view.
    fresh = lab.experiments.propose(claim, command=command("0.1 -0.4 b"), baseline=base.id, replicates=2, **LATENCY)
    assert lab.evidence.list(hypothesis_id=claim).items == ()
    lab.experiments.approve(fresh.id)
    run(lab, fresh.id)
    assert len(lab.evidence.list(hypothesis_id=claim).items) == 2
    assert any(text.startswith(f"seen_before: the command of {fresh.id}") for text in lab.hypotheses.get(claim).flags)


def retract(lab: Lab, first: Experiment, second: Experiment) -> None:
    """Takes back a row of the first claim, and so the run in both."""
    rows = lab.evidence.list(hypothesis_id=first.hypothesis_id).items
    lab.evidence.retract(rows[0].id, why="wrong data")
    for item in (first, second):
        ledger = lab.evidence.list(hypothesis_id=item.hypothesis_id).items
        assert [row.run_id for row in ledger if row.kind == "retraction"] == [rows[0].run_id]
        assert lab.hypotheses.get(item.hypothesis_id or "").counting == 2
    shared = next(row for row in lab.evidence.list(hypothesis_id=second.hypothesis_id).items if row.kind == "measured")
    with pytest.raises(Conflict, match="taken back"):
        lab.evidence.retract(shared.id, why="again")
    assert lab.evidence.refold() == []


def test_a_lost_shared_run_counts_for_every_claim_at_the_worst_value(lab: Lab) -> None:
    base, first, second = claimed(lab, "0.1 -0.4 b half")
    run(lab, base.id, first.id)
    for item in (first, second):
        found = lab.hypotheses.get(item.hypothesis_id or "")
        assert any(text.startswith("lost_runs: 1 of 3 runs") for text in found.flags)
        assert len(lab.evidence.list(hypothesis_id=item.hypothesis_id).items) == 2
        lost, without = judged(lab, item, base, first), judged(lab, item, base, first, but="failed")
        assert found.e_support == pytest.approx(lost, rel=1e-6)
        assert lost < without


def judged(lab: Lab, item: Experiment, base: Experiment, owner: Experiment, but: str = "") -> float:
    """The e-value for a claim by the pure rule, of the owner's runs but those that ended so."""
    metric = str(item.design.metric)
    arms = [
        [
            {"seed": run.seed, "status": run.status, "last_value": run.metrics.get(metric),
             "value": run.metrics.get(metric) if run.status == "done" else None}
            for run in lab.runs.list(experiment_id=id).items
            if run.status != but
        ]
        for id in (base.id, owner.id)
    ]  # fmt: skip
    claim = {"metric": metric, "direction": item.design.direction, "mde": item.design.mde, "tau": item.design.tau}
    return float(judge(claim, arms[0], arms[1], {})["e_support"])


def test_more_of_either_is_pooled(lab: Lab) -> None:
    base, first, second = claimed(lab, replicates=1)  # which decides nothing
    run(lab, base.id, first.id)
    more = lab.experiments.propose(None, extends=first.id, replicates=1)
    lab.experiments.approve(more.id)
    run(lab, more.id)
    assert len(lab.evidence.list(hypothesis_id=first.hypothesis_id).items) == 2
    assert len(lab.evidence.list(hypothesis_id=second.hypothesis_id).items) == 2
    assert lab.evidence.refold() == []


def test_what_makes_no_claim_on_runs_is_refused(lab: Lab) -> None:
    base, first, second = claimed(lab)
    claim = lab.hypotheses.add("another").id
    common = {"runs_of": first.id, "baseline": base.id, **LATENCY}
    cases: tuple[tuple[str | None, dict[str, Any], str], ...] = (
        (claim, {"command": "true"}, "takes no command"),
        (claim, {"replicates": 9, "gpus": 1}, "takes no replicates, gpus"),
        (claim, {"stop_rule": "exit:75"}, "takes no stop_rule"),
        (None, {}, "hypothesis of its own"),
        (first.hypothesis_id, {}, "hypothesis of its own"),
        (claim, {"runs_of": second.id}, "no runs of its own"),
        (claim, {"mde": None, "claim": "none"}, "needs a claim"),
    )
    for id, wrong, said in cases:
        with pytest.raises(UsageError, match=said):
            lab.experiments.propose(id, **{**common, **wrong})
    assert len(lab.experiments.list().items) == 3

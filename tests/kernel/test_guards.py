"""Guard metrics: a claim is supported where its metric is better and no guard is worse, from the same runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.errors import UsageError
from tests.support import until

PROGRAM = """
import os, random, sys
r = random.Random(os.environ["PERPETUAL_SEED"] + sys.argv[3])
print("acc:", 0.7 + float(sys.argv[1]) + r.gauss(0, 0.01))
print("latency:", 1 + float(sys.argv[2]) + r.gauss(0, 0.02))
"""


def run(lab: Lab, experiment_id: str) -> None:
    lab.experiments.approve(experiment_id)
    ids = [run.id for run in lab.runs.launch(experiment_id, every=True)]

    def are_done() -> bool:
        lab.scan()
        return all(lab.runs.get(id).status == "done" for id in ids)

    until(are_done)


def test_a_better_metric_counts_only_where_its_guard_is_no_worse(project: Path) -> None:
    with Lab.open(project) as lab:
        (lab.config.root / "two.py").write_text(PROGRAM)
        base = lab.experiments.propose(
            None, command=f"{sys.executable} two.py 0 0 a", metric="acc", direction="max", replicates=4
        )
        run(lab, base.id)
        found = []
        for shift, name in (("0", "same"), ("0.3", "slower")):
            claim = lab.hypotheses.add(f"better and not slower: {name}")
            experiment = lab.experiments.propose(
                claim.id, command=f"{sys.executable} two.py 0.1 {shift} {name}", metric="acc", direction="max",
                mde=0.03, baseline=base.id, guards=["latency:min:0.1"], replicates=4,
            )  # fmt: skip
            run(lab, experiment.id)
            found.append(lab.hypotheses.get(claim.id))
        assert found[0].status == "supported"
        assert "latency stays within" in (found[0].sentence or "")
        assert found[1].status == "refuted"
        assert found[1].effect is not None
        assert found[1].effect["value"] > 0.05
        assert "harm to latency" in (found[1].sentence or "")
        assert lab.storage.verify() == []


@pytest.mark.parametrize(
    ("guard", "said"),
    [("latency", "no direction"), ("latency:min:x", "no margin"), ("latency:min:-1", "margin"), ("acc:max:1", "own")],
)
def test_a_wrong_guard_is_refused_by_name(project: Path, guard: str, said: str) -> None:
    with Lab.open(project) as lab:
        claim = lab.hypotheses.add("better")
        base = lab.experiments.propose(None, command="true", metric="acc", direction="max")
        with pytest.raises(UsageError, match=said):
            lab.experiments.propose(
                claim.id, command="true", metric="acc", direction="max", mde=0.1, baseline=base.id, guards=[guard]
            )
        assert lab.experiments.list().items == (base,)

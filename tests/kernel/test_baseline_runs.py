"""More runs of a baseline: on the seeds that its claims go on with, proposed and weighed like any other run."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.records import Experiment
from perpetual_scorers.information_gain import InformationGain

TRAIN = """import os, random, sys
luck = random.Random(int(os.environ["PERPETUAL_SEED"])).gauss(0, 0.1)
print(f"acc={float(sys.argv[1]) + luck:.6f}")
"""

# What it measures follows from the run's number alone.
KNOWN = """import math, os, sys
print(f"acc={float(sys.argv[1]) + 0.1 * math.sin(2 * int(os.environ['PERPETUAL_RUN'].strip('r'))):.6f}")
"""

LEVEL = """import os, sys
print(f"acc={float(sys.argv[1]) + 0.1 * (int(os.environ['PERPETUAL_RUN'].strip('r')) % 2):.6f}")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose program scatters with its seed."""
    with Lab.init(tmp_path / "project", name="baseline runs") as lab:
        (lab.root / "train.py").write_text(TRAIN)
        return lab.root


def run(lab: Lab, made: Experiment) -> list[int]:
    """Runs all of an experiment; answers its seeds by replicate."""
    lab.experiments.approve(made.id)
    lab.runs.launch(made.id, every=True)
    lab.wait([made.id], timeout_s=60)
    ended = lab.runs.list(experiment_id=made.id).items
    assert {item.status for item in ended} == {"done"}
    found = {item.replicate: item.seed for item in ended}
    return [seed for _, seed in sorted(found.items()) if seed is not None]


def baseline_of(lab: Lab, replicates: int = 2) -> Experiment:
    return lab.experiments.propose(
        command="python3 train.py 0.5", metric="acc", replicates=replicates, cost_run_hours=0.1
    )


def claim_of(lab: Lab, baseline: Experiment, effect: float, *, paired: bool = True) -> Experiment:
    claim = lab.hypotheses.add(f"{effect} more", metric="acc", direction="max", mde=0.1, baseline=baseline.id)
    return lab.experiments.propose(
        claim.id, command=f"python3 train.py {0.5 + effect}", replicates=2, cost_run_hours=0.1, paired=paired
    )


def test_claim_and_baseline_share_seeds_however_often_either_is_extended(project: Path) -> None:
    with Lab.open(project) as lab:
        base = baseline_of(lab)
        seeds = run(lab, base)
        claim = claim_of(lab, base, 0.05)
        assert run(lab, claim) == seeds
        hypothesis = claim.hypothesis_id or ""
        further = run(lab, lab.experiments.propose(hypothesis, extends=claim.id, replicates=2))
        assert not {*further} & {*seeds}, "a seed that was run says nothing new"
        ahead = [*seeds, *further]
        for _ in range(2):
            extension = lab.experiments.propose(extends=base.id, replicates=1)
            seeds += run(lab, extension)
        assert seeds == ahead
        effect = lab.hypotheses.get(hypothesis).effect
        assert effect is not None
        assert effect["n_baseline"] == 4
        other = claim_of(lab, base, 0.3, paired=False)
        assert not {*run(lab, other)} & {*seeds}


def test_a_baseline_keeps_pace_with_its_claims(project: Path) -> None:
    (project / "train.py").write_text(KNOWN)
    with Lab.open(project) as lab:
        base = baseline_of(lab, 4)
        run(lab, base)
        claim = claim_of(lab, base, 0.01)
        run(lab, claim)

        def proposed() -> list[int]:
            lab.loop.propose()
            made = [item for item in lab.experiments.list(limit=100).items if item.status == "proposed"]
            return [item.design.replicates for item in made if item.title.startswith(f"more of {base.id}")]

        assert proposed() == [], "four runs are a noise floor, and no claim has more"
        run(lab, lab.experiments.propose(claim.hypothesis_id, extends=claim.id, replicates=4))
        assert proposed() == [2]
        assert proposed() == [2], "once"


def test_a_thin_baseline_is_picked_before_more_of_its_claims(project: Path) -> None:
    with Lab.open(project) as lab:
        (lab.root / "train.py").write_text(LEVEL)
        base = baseline_of(lab)
        run(lab, base)
        for effect in (0.0, 0.02, 0.04):
            run(lab, claim_of(lab, base, effect, paired=False))
        (picked,) = lab.experiments.propose_auto(1, dry_run=True)
        assert picked.new
        assert picked.experiment.title.startswith(f"more of {base.id}")
        assert "bit expected of 3 claims for " in picked.score.reason


def test_a_scorer_that_weighs_no_baselines_sees_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lab.open(project) as lab:
        base = baseline_of(lab)
        run(lab, base)
        run(lab, claim_of(lab, base, 0.0))
        monkeypatch.setattr(InformationGain, "weighs_baselines", False)
        picks = lab.experiments.propose_auto(5, dry_run=True)
        assert not any(pick.experiment.title.startswith("more of e1") for pick in picks)

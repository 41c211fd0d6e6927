"""The rule-based analyser and proposer, on the records of a real lab."""

from __future__ import annotations

from pathlib import Path

from perpetual import Lab
from perpetual_metrics.proposer import build


def test_a_grid_is_proposed_nearest_first_and_never_twice(project: Path) -> None:
    with Lab.open() as lab:
        claim = lab.hypotheses.add(
            "lr matters", metric="acc", direction="max", mde=0.1, baseline=0.5, params={"lr": [0.1, 0.2], "wd": [0, 1]}
        )
        assert build({}).drafts([claim], []) == [], "without a pattern there is no command to repeat"
        lab.experiments.propose(claim.id, command="python train.py", config={"lr": 0.1, "wd": 0}, cost_run_hours=0.1)
        picks = lab.experiments.propose_auto(3)
        assert all(pick.new for pick in picks)
        assert [pick.experiment.config for pick in picks][:2] != []
        configs = [pick.experiment.config for pick in picks]
        assert {"lr": 0.1, "wd": 0} not in configs
        assert len({str(config) for config in configs}) == 3
        assert lab.experiments.propose_auto(3) == [], "every point is proposed, and none is approved"
        drafts = build({}).drafts([claim], [lab.experiments.get("e1")])
        tried = {"lr": 0.1, "wd": 0}
        distances = [sum(draft.arguments["config"][key] != tried[key] for key in tried) for draft in drafts]
        assert distances == sorted(distances)


def test_a_failed_run_becomes_a_note(project: Path) -> None:
    with Lab.open() as lab:
        trial = lab.experiments.propose(command="sh -c 'exit 3'", metric="acc")
        lab.experiments.approve(trial.id)
        assert len(lab.runs.launch(trial.id)) == 1
        lab.loop.wait_any(30)
        lab.scan(analyse=False)
        assert lab.loop.analyse() == ["r1"]
        assert lab.loop.analyse() == [], "once is enough"
        lab.loop.note()
        (note,) = lab.memory.list().items
        assert note.type == "failure_pattern"
        assert "exit code 3" in lab.memory.read(note.path)
        assert "no evidence" in lab.memory.read(note.path)

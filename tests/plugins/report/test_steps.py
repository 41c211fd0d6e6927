"""What the ledger said step by step: the last step is the present fold, and each earlier one is what was shown then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual_report.snapshot import everything, take
from perpetual_report.steps import Step, steps_of

_SHOWN = ("confidence", "e_support", "e_refute", "false_alarm_bound", "status", "evidence_count")


def measured(lab: Lab, experiment_id: str) -> None:
    """Approves an experiment and runs it to its end, one replicate after the other."""
    lab.experiments.approve(experiment_id)
    for _ in range(lab.experiments.get(experiment_id).design.replicates):
        lab.wait([lab.runs.launch(experiment_id)[0].id], timeout_s=60)


def shown(lab: Lab) -> dict[str, dict[str, Any]]:
    """What every hypothesis says of itself now."""
    return {item.id: {key: getattr(item, key) for key in _SHOWN} for item in lab.hypotheses.list().items}


def told(lab: Lab, until: int | None = None) -> dict[str, dict[str, Any]]:
    """The same of every hypothesis of a snapshot."""
    return {item.id: {key: getattr(item, key) for key in _SHOWN} for item in take(lab, seq=until).hypotheses}


def stepped(lab: Lab, hypothesis_id: str, *, last: int = 100) -> list[Step]:
    """The hypothesis' steps until now."""
    return steps_of(lab, lab.events(), everything(lab.experiments.list), last=last)[hypothesis_id]


@pytest.fixture
def moments(project: Path) -> list[tuple[int, dict[str, dict[str, Any]]]]:
    """What was shown after each deed of a small campaign, with the number of events at that moment."""
    seen = []
    with Lab.open() as lab:

        def note() -> None:
            seen.append((lab.feed.last(), shown(lab)))

        base = lab.experiments.propose(command="sh -c 'echo loss=2.$PERPETUAL_SEED'", metric="loss", direction="min",
                                       replicates=2)  # fmt: skip
        claim = lab.hypotheses.add("a", metric="loss", direction="min", mde=0.2, baseline=base.id)
        note()
        lab.hypotheses.update(claim.id, prior=0.4)
        note()
        trial = lab.experiments.propose(
            claim.id, command="sh -c 'echo loss=1.$PERPETUAL_SEED'", noise=0.3, replicates=2
        )
        measured(lab, trial.id)
        note()
        measured(lab, base.id)  # the baseline comes last: it moves what was measured before
        note()
        lab.evidence.add(claim.id, verdict="refutes", why="a hunch")
        note()
        lab.evidence.retract("v1", why="wrong file")
        note()
        lab.hypotheses.update(claim.id, confidence=0.3, why="thought again")
        note()
        lab.hypotheses.add("b")
        lab.hypotheses.update("h2", status="parked")
        note()
    return seen


def test_each_step_is_derived_as_it_was_shown(project: Path, moments: list[tuple[int, dict[str, Any]]]) -> None:
    with Lab.open() as lab:
        assert told(lab) == shown(lab)
        for seq, then in moments:
            assert told(lab, seq) == then, seq


def test_steps_name_what_moved_them(project: Path, moments: list[tuple[int, dict[str, Any]]]) -> None:
    with Lab.open() as lab:
        steps = stepped(lab, "h1")
        assert [step.no for step in steps] == list(range(1, len(steps) + 1))
        assert [(step.cause, step.subject) for step in steps] == [
            ("prior", "h1"), ("prior", "h1"), ("evidence", "v1"), ("evidence", "v2"), ("baseline", "r3"),
            ("baseline", "r4"), ("evidence", "v3"), ("evidence", "v4"), ("evidence", "v5"),
        ]  # fmt: skip
        assert [step.prior for step in steps[:2]] == [0.5, 0.4]
        assert [step.seq for step in steps] == sorted(step.seq for step in steps)
        assert stepped(lab, "h1", last=2) == steps[-2:]
        assert take(lab, seq=0).steps == {}


def test_a_renewed_baseline_moves_what_names_it(project: Path) -> None:
    with Lab.open() as lab:
        base = lab.experiments.propose(command="sh -c 'echo loss=2'", metric="loss", direction="min")
        measured(lab, base.id)
        renewed = lab.experiments.rebaseline(base.id)
        claim = lab.hypotheses.add("a", metric="loss", direction="min", mde=0.2, baseline=renewed.id)
        trial = lab.experiments.propose(claim.id, command="sh -c 'echo loss=1'", noise=0.3)
        measured(lab, trial.id)
        measured(lab, renewed.id)
        steps = stepped(lab, claim.id)
        assert [(step.cause, step.subject) for step in steps] == [
            ("prior", "h1"), ("evidence", "v1"), ("baseline", "r3"),
        ]  # fmt: skip


def test_steps_of_a_report_write_nothing(project: Path, moments: list[tuple[int, dict[str, Any]]]) -> None:
    with Lab.open() as lab:
        before = (lab.feed.last(), lab.context.store.seq())
        take(lab)
        assert (lab.feed.last(), lab.context.store.seq()) == before

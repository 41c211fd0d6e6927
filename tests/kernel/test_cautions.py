"""What no weight can say is said beside the confidence: runs that were ended early, looks beforehand, other claims."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run as program
from perpetual.errors import NotPermitted
from perpetual.records import Experiment, Hypothesis
from perpetual.slots.analyser import Draft
from perpetual_report.snapshot import take
from tests.kernel.by_hand import log_e_values

AGENT = "mcp:c/1"
MUTE = "noise unknown: one more replicate"  # of a single run nothing more is said
# It waits as long as there is a file `hold`, and fails if there is a file `fail`.
SCRIPT = """touch begun
while [ -e hold ]; do sleep 0.02; done
[ ! -e fail ] && echo "score=1.2$PERPETUAL_SEED"
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A project without runs, and the script."""
    with Lab.init(
        tmp_path / "project", name="honest", project_id="fixed", methodology={"max_concurrent_runs": 8}
    ) as made:
        (made.root / "score.sh").write_text(SCRIPT)
        yield made


def _propose(lab: Lab, hypothesis: Hypothesis, **design: Any) -> Experiment:
    given: dict[str, Any] = {"command": "echo score=1.2", "metric": "score", "direction": "max", "mde": 1.0,
                             "noise": 0.1, "tau": 0.8, "baseline": 0.0, "wall_s": 60.0}  # fmt: skip
    made = lab.experiments.propose(hypothesis.id, **{**given, **design})
    lab.experiments.approve(made.id)
    return made


def _measure(lab: Lab, experiment: Experiment) -> Experiment:
    lab.wait([run.id for run in lab.runs.launch(experiment.id, every=True)], timeout_s=60)
    return experiment


def _baseline(lab: Lab, command: str = "echo score=0", replicates: int = 1) -> Experiment:
    made = lab.experiments.propose(command=command, metric="score", replicates=replicates, wall_s=60.0)
    lab.experiments.approve(made.id)
    return _measure(lab, made)


def _flags(lab: Lab, hypothesis: Hypothesis) -> tuple[str, ...]:
    """The flags, which are the same wherever they are told, and folded anew."""
    found = lab.hypotheses.get(hypothesis.id).flags
    assert next(item for item in take(lab).hypotheses if item.id == hypothesis.id).flags == found
    assert lab.evidence.refold(check=True) == []
    assert lab.storage.verify() == []
    return found


def test_a_run_ended_before_its_measurement_is_named(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    claim = _propose(lab, hypothesis, command="sh score.sh", replicates=4)
    hold = lab.root / "hold"
    hold.touch()
    (first,) = lab.runs.launch(claim.id)
    _until_there(lab.root / "begun")
    lab.runs.kill(first.id)
    said = "lost_runs: 1 of 1 runs gave no result (1 killed)"
    assert _flags(lab, hypothesis) == (said,)
    hold.unlink()
    (lab.root / "fail").touch()
    lab.wait([run.id for run in lab.runs.launch(claim.id)], timeout_s=60)
    (lab.root / "fail").unlink()
    before = lab.hypotheses.get(hypothesis.id).confidence
    _measure(lab, claim)
    said = "lost_runs: 2 of 4 runs gave no result (1 failed, 1 killed)"
    assert _flags(lab, hypothesis) == (said,)
    found = lab.hypotheses.get(hypothesis.id)
    assert found.confidence == before == 0.5, "two runs beside two that are lost"
    shown = [run.metrics["score"] for run in lab.runs.list().items if run.status == "done"]
    values = [value for value in shown if value is not None]
    # A lost run counts at the worst value seen, the baseline's number among them, where that says less.
    worst = [*values, *[min(*values, 0.0)] * 2]
    least = min(log_e_values(each, mde=1.0, noise=0.1, tau=0.8)[0] for each in (values, worst))
    assert found.e_support == pytest.approx(math.exp(least))
    lab.close()
    monkeypatch.chdir(lab.root)
    for words in (("hypotheses", "show", "h1"), ("evidence", "list"), ("brief",)):
        assert program([*words]) == 0
        assert said in " ".join(capsys.readouterr().out.split())
    assert program(["evidence", "list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 2


def test_a_run_taken_from_the_queue_counts_as_unseen(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    claim = _propose(lab, hypothesis)
    lab.queue.set_state("paused")
    (waiting,) = lab.runs.launch(claim.id)
    assert lab.runs.kill(waiting.id).status == "killed"
    assert _flags(lab, hypothesis) == ()


def test_a_baseline_can_be_selected_too(lab: Lab) -> None:
    made = lab.experiments.propose(command="sh score.sh", metric="score", replicates=2, wall_s=60.0)
    lab.experiments.approve(made.id)
    (lab.root / "fail").touch()
    lab.wait([run.id for run in lab.runs.launch(made.id)], timeout_s=60)
    (lab.root / "fail").unlink()
    _measure(lab, made)
    hypothesis = lab.hypotheses.add("it matters")
    _measure(lab, _propose(lab, hypothesis, baseline=made.id))
    assert _flags(lab, hypothesis) == (MUTE, "lost_runs: 1 of 2 runs of the baseline e1 gave no result (1 failed)")


def test_a_replicate_with_a_picked_seed_is_named(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    claim = _propose(lab, hypothesis, replicates=2)
    lab.wait([run.id for run in lab.runs.launch(claim.id, seed=7)], timeout_s=60)
    _measure(lab, claim)
    assert _flags(lab, hypothesis) == (
        MUTE, "weightless_runs: 1 of 2 runs weighs nothing (1 with a seed picked by hand)",
    )  # fmt: skip


def test_a_pair_without_its_other_half_counts_unpaired(lab: Lab) -> None:
    base = lab.experiments.propose(command="sh score.sh", metric="score", replicates=2, wall_s=60.0)
    lab.experiments.approve(base.id)
    lab.wait([run.id for run in lab.runs.launch(base.id)], timeout_s=60)
    hypothesis = lab.hypotheses.add("it matters")
    _measure(lab, _propose(lab, hypothesis, command="sh score.sh a", baseline=base.id, paired=True, replicates=2))
    effect = lab.hypotheses.get(hypothesis.id).effect or {}
    assert (effect["n"], effect["n_baseline"], effect["how"]) == (2, 1, "95 % at every look, of both arms")
    assert _flags(lab, hypothesis) == ()
    _measure(lab, base)
    effect = lab.hypotheses.get(hypothesis.id).effect or {}
    assert (effect["n"], effect["n_baseline"]) == (2, 2)
    assert effect["how"] == "95 % at every look, of both arms and of their pairs by seed"


def test_an_experiment_that_claims_less_than_its_hypothesis_is_named(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters", metric="score", direction="max", mde=5.0, baseline=0.0)
    _measure(lab, _propose(lab, hypothesis, mde=1.0))
    assert _flags(lab, hypothesis) == (MUTE, "other_claim: e1 claims mde 1.0 where h1 predicts 5.0")
    _propose(lab, hypothesis, mde=2.0, command="echo score=3")
    assert len(_flags(lab, hypothesis)) == 2, "what was not measured weighs nothing yet"
    _measure(lab, _propose(lab, hypothesis, mde=5.0, baseline=-3.0, command="echo score=4"))
    assert _flags(lab, hypothesis)[-1] == "other_claim: e3 claims baseline -3.0 where h1 predicts 0.0"


def test_a_command_measured_before_its_claim_is_named(lab: Lab) -> None:
    """An exploration, another hypothesis's claim; not more of the same claim, and not what came later."""
    lab.experiments.approve(lab.experiments.propose(command="echo score=1.2", wall_s=60.0).id)
    _measure(lab, lab.experiments.get("e1"))
    first, second = lab.hypotheses.add("it matters"), lab.hypotheses.add("it matters indeed")
    claim = _measure(lab, _propose(lab, first))
    other = _measure(lab, _propose(lab, second, command="echo  'score=1.2'"))
    more = lab.experiments.propose(extends=claim.id, replicates=1)
    lab.experiments.approve(more.id)
    _measure(lab, more)
    assert _flags(lab, first)[-1] == "seen_before: the command of e2 had been measured before: e1"
    assert _flags(lab, second) == (
        MUTE, f"seen_before: the command of {other.id} had been measured before: e1, e2",
    )  # fmt: skip


def test_picked_and_shared_baselines_are_named(lab: Lab) -> None:
    bases = [_baseline(lab) for _ in range(2)]
    hypothesis = lab.hypotheses.add("it matters")
    _measure(lab, _propose(lab, hypothesis, baseline=bases[1].id))
    _baseline(lab)
    picked = "picked_baseline: e3 is compared with e2, and e1 had measured the same"
    assert _flags(lab, hypothesis) == (MUTE, picked)
    _measure(lab, _propose(lab, hypothesis, baseline=bases[1].id, command="echo score=1.21"))
    found = _flags(lab, hypothesis)
    assert picked in found
    assert found[-1].startswith("shared_baseline: 2 designs share the baseline e2 and its luck")


def test_a_second_confirmation_is_named(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    _measure(lab, _propose(lab, hypothesis, confirmation=True))
    assert _flags(lab, hypothesis) == (MUTE,)
    _measure(lab, _propose(lab, hypothesis, confirmation=True, command="echo score=1.1"))
    assert _flags(lab, hypothesis)[-1] == (
        "confirmation: 2 designs are confirmations: data is kept back only until it is looked at"
    )


def test_the_words_of_what_was_measured_are_not_an_agents_to_change(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    with Lab.open(lab.root, actor=AGENT) as agent:
        agent.hypotheses.update(hypothesis.id, statement="it matters a lot")
        _measure(lab, _propose(lab, hypothesis))
        with pytest.raises(NotPermitted, match="h1 already has 1 row of evidence"):
            agent.hypotheses.update(hypothesis.id, statement="it does not matter")
    assert _flags(lab, hypothesis) == (MUTE,)
    lab.hypotheses.update(hypothesis.id, statement="it matters a lot!")
    assert _flags(lab, hypothesis) == (MUTE, "statement_changed: its statement was changed after evidence had come in")


@pytest.mark.parametrize("is_run", [False, True])
def test_wider_beliefs_that_come_later_unsay_nothing(lab: Lab, is_run: bool) -> None:
    """A claim that fails is not saved by saying afterwards that its results may lie anywhere."""
    hypothesis = lab.hypotheses.add("it matters")
    command = "sh -c 'echo score=0.0$PERPETUAL_SEED'"
    _measure(lab, _propose(lab, hypothesis, command=command, tau=0.1, replicates=2))
    before = lab.hypotheses.get(hypothesis.id)
    assert before.confidence < 0.2
    excuse = _propose(lab, hypothesis, command=command, tau=1e6, noise=1e6)
    if is_run:
        _measure(lab, excuse)
    after = lab.hypotheses.get(hypothesis.id)
    assert (after.confidence < before.confidence) if is_run else (after.confidence == before.confidence)
    told = ("a later prediction of the same command: that of e1 holds",) if is_run else ()
    assert _flags(lab, hypothesis) == told


def test_another_number_of_a_command_that_was_seen_is_worth_nothing(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    _measure(lab, _propose(lab, hypothesis))
    other = _propose(lab, hypothesis, metric="other", mde=0.01, noise=0.01)
    assert (other.score.information_gain_bits, other.score.score) == (0.0, 0.0)
    assert "the same command was measured for e1" in other.score.reason
    assert lab.experiments.propose_auto(3) == []
    assert lab.loop.launch().runs == ()


def test_a_later_prediction_is_scored_as_it_will_be_weighed(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    _measure(lab, _propose(lab, hypothesis, command="echo score=0.5"))
    same = lab.experiments.propose(extends="e1", replicates=1)
    sharper = _propose(lab, hypothesis, command="echo score=0.5", mde=100.0, tau=0.0, noise=0.001)
    assert sharper.score.information_gain_bits == pytest.approx(same.score.information_gain_bits)


def test_a_proposer_that_fails_holds_up_no_other(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    hypothesis = lab.hypotheses.add("it matters", params={"lr": [0.1, 0.2]})
    _propose(lab, hypothesis, config={"lr": 0.1})

    def fail(*_: object) -> None:
        raise ValueError("no idea")

    monkeypatch.setattr("perpetual_metrics.rules.NoiseFloor.drafts", fail)
    impossible = Draft(hypothesis.id, {"command": "echo 'open"}, "a slip")
    monkeypatch.setattr("perpetual_metrics.rules.Proxies.drafts", lambda *_: [impossible])
    before = len([*lab.events()])
    assert [pick.new for pick in lab.experiments.propose_auto(2, dry_run=True)].count(True) == 1
    assert len([*lab.events()]) == before, "looking writes nothing"
    assert lab.loop.propose() == ["e2"]
    lab.loop.propose()
    told = [event for event in lab.events() if event.kind == "proposer_failed"]
    assert [event.payload["error"].partition(":")[0] for event in told] == [
        "ValueError", "a draft that cannot be proposed",
    ]  # fmt: skip


def test_launches_of_the_loop_name_the_deciding_outcome(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    claim = _propose(lab, hypothesis, command="sh score.sh", tau=0.1, replicates=2)
    (pick,) = lab.experiments.propose_auto(1, dry_run=True)
    assert "no single outcome decides h1" in pick.score.reason, "one run does not know its noise"
    lab.wait([run.id for run in lab.runs.launch(claim.id)], timeout_s=60)
    lab.wait([*lab.loop.launch().runs], timeout_s=60)
    assert "would support h1" in lab.experiments.get(claim.id).score.reason


def test_some_effect_has_an_outlook_too(lab: Lab) -> None:
    base = _baseline(lab, "sh score.sh", replicates=2)
    hypothesis = lab.hypotheses.add("it changes something")
    given = {"mde": None, "tau": None, "noise": None, "direction": None, "claim": "any", "baseline": base.id}
    claim = _propose(lab, hypothesis, command="sh -c 'echo score=3.2$PERPETUAL_SEED'", replicates=3, **given)
    lab.wait([run.id for run in lab.runs.launch(claim.id)], timeout_s=60)
    picks = {pick.experiment.id: pick for pick in lab.experiments.propose_auto(2)}
    more = next(pick for id, pick in picks.items() if id != claim.id)
    assert "bit expected of 1 claim for " in more.score.reason, "the baseline is thin, too"
    pick = picks[claim.id]
    found = re.search(r"an effect from \+([\d.]+) to \+([\d.]+) would support h1", pick.score.reason)
    assert found is not None, "an outcome that agrees with the run seen, 2.0 or so above the baseline"
    assert 1.0 < float(found[1]) < 2.0 < float(found[2]) < 3.0


def test_text_written_after_the_end_is_not_the_run_s(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    claim = _propose(lab, hypothesis, command="true")
    (run,) = lab.runs.launch(claim.id)
    ended = lab.root / ".perpetual" / "runs" / run.id / "exit.json"
    _until_there(ended)
    forged = lab.root / "results.json"
    forged.write_text(json.dumps({"metrics": {"score": 1.3}}))
    later = ended.stat().st_mtime + 60.0
    os.utime(forged, (later, later))
    lab.wait([run.id], timeout_s=30)  # the end is believed once its supervisor has left, just after writing it
    found = lab.runs.get(run.id)
    assert (found.metrics, found.reason) == ({}, "no_metric: score was not found in the run's output")
    assert any("after the run had ended" in item["text"] for item in found.annotations)
    assert lab.evidence.list().items == ()


def _until_there(path: Path) -> None:
    from time import monotonic, sleep

    deadline = monotonic() + 30.0
    while not path.exists():
        assert monotonic() < deadline, path
        sleep(0.01)

"""A lab at work, through Python and with real runs: from a claim to a verdict, and what must not count on the way."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Provider, hookimpl
from perpetual.errors import Conflict, CorruptData, NotPermitted, PerpetualError, Refused, UsageError
from perpetual.lab.kinds import EXPERIMENT, RUN
from perpetual.lab.ledger.runs import RunRecords
from perpetual.records import Event, Experiment, Hypothesis, Run
from perpetual.registry import Registry
from perpetual.toolkit import platform
from perpetual.toolkit.agents import AGENT_VARIABLES
from tests.kernel.by_hand import judged, log_e_values, log_odds_of
from tests.support import finding

Campaign = Callable[..., tuple[Hypothesis, Experiment]]


def _run(lab: Lab, experiment: Experiment, count: int = 1, **given: Any) -> list[str]:
    """Launches so many replicates, one after the other, and waits; their ids."""
    ids = []
    for _ in range(count):
        ids.append(lab.runs.launch(experiment.id, **given)[0].id)
        lab.wait(ids[-1:], timeout_s=30)
    return ids


def _values(lab: Lab, *values: float) -> str:
    """A command whose run r1 measures the first value, r2 the second, and so on."""
    (lab.root / "values.txt").write_text("".join(f"acc={value!r}\n" for value in values))
    return "sh -c 'sed -n ${PERPETUAL_RUN#r}p values.txt'"


# --- from a claim to a verdict --------------------------------------------------------------------------------------


def test_from_a_claim_to_a_verdict(lab: Lab, campaign: Campaign) -> None:
    hypothesis, experiment = campaign(approve=False, config={"lr": 0.1}, env={"MY_OWN": "x"})
    assert (hypothesis.id, hypothesis.status, hypothesis.confidence, hypothesis.evidence_count) == (
        "h1",
        "open",
        0.5,
        0,
    )
    assert (experiment.status, experiment.approved_by, experiment.design.claim) == ("proposed", None, "improves")
    with pytest.raises(NotPermitted) as caught:
        lab.runs.launch(experiment.id)
    assert (caught.value.code, lab.runs.list().items) == ("not_approved", ())
    experiment = lab.experiments.approve(experiment.id)
    assert (experiment.status, experiment.approved_by) == ("approved", lab.actor)
    run = lab.runs.launch(experiment.id)[0]
    assert (run.id, run.replicate, run.attempt, run.scheduler) == ("r1", 1, 1, "local")
    assert lab.wait(["R1"], timeout_s=30) == {"r1": "done"}
    run = lab.runs.get("r1")
    assert run.metrics["acc"] == float(f"1.5{run.seed}")
    assert (run.exit_code, run.signal, run.reason) == (0, None, None)
    assert run.duration_s is not None
    assert run.run_hours == pytest.approx(run.duration_s / 3600.0)
    assert run.gpu_hours == 0.0
    assert lab.experiments.get("e1").status == "active"
    assert lab.experiments.get("e1").runs == {"done": 1}
    _run(lab, experiment)
    verdict = lab.hypotheses.get("h1")
    assert (verdict.status, verdict.evidence_count) == ("supported", 2)
    assert verdict.confidence > 0.8
    assert verdict.false_alarm_bound == pytest.approx(min(1.0, 1.0 / max(verdict.e_support, verdict.e_refute)))
    assert lab.experiments.get("e1").status == "analysed"
    told = [event.kind for event in lab.events()]
    for kind in ("project_created", "hypothesis_added", "experiment_proposed", "experiment_approved", "run_created",
                 "run_status", "evidence_added", "hypothesis_status"):  # fmt: skip
        assert kind in told
    with pytest.raises(Conflict):
        lab.runs.launch(experiment.id)


def test_a_run_gets_what_it_needs_to_know(lab: Lab, campaign: Campaign) -> None:
    _, experiment = campaign("env", config={"lr": [0.1, {"a": None}]}, env={"MY_OWN": "ü x", "HOME": "/nowhere"})
    (run,) = (lab.runs.get(id) for id in _run(lab, experiment))
    folder = lab.root / run.log_dir
    env = dict(line.partition("=")[::2] for line in (folder / "stdout.log").read_text().splitlines())
    assert (env["PERPETUAL_RUN"], env["PERPETUAL_SEED"], env["MY_OWN"]) == ("r1", str(run.seed), "ü x")
    assert env["HOME"] == "/nowhere"
    assert env["PERPETUAL_PROJECT"] == str(lab.root)
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert json.loads(Path(env["PERPETUAL_CONFIG"]).read_text()) == {"lr": [0.1, {"a": None}]}
    assert env["PERPETUAL_METRICS"] == str(folder / "metrics.jsonl")
    spec = json.loads((folder / "spec.json").read_text())
    assert spec["spec_hash"] == experiment.spec_hash
    assert spec["experiment"]["env"]["MY_OWN"] == "ü x"


def test_a_run_logs_its_metrics(lab: Lab, campaign: Campaign) -> None:
    script = "import perpetual\nfor step in range(3): perpetual.log(step=step, acc=1.3 + step / 10)\n"
    (lab.root / "train.py").write_text(script)
    hypothesis, experiment = campaign(f"{sys.executable} train.py", replicates=1)
    (id,) = _run(lab, experiment)
    assert lab.runs.get(id).metrics == {"acc": pytest.approx(1.5)}
    row = lab.evidence.list(hypothesis_id=hypothesis.id).items[0]
    assert row.source == "metrics.jsonl:3"
    assert row.value == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ((1.5, 1.52, 1.49), "supported"),
        ((0.6, 0.62, 0.59), "refuted"),
        ((1.02, 1.09, 1.05), "open"),
    ],
)
def test_evidence_folds_to_the_formula(lab: Lab, campaign: Campaign, values: tuple[float, ...], status: str) -> None:
    hypothesis, experiment = campaign(_values(lab, *values), replicates=3)
    _run(lab, experiment, 3)
    found = lab.hypotheses.get(hypothesis.id)
    for_it, against_it = log_e_values([value - 1.0 for value in values], mde=0.1, tau=0.025, noise=0.05)
    log_odds = log_odds_of(for_it, against_it)
    assert found.confidence == pytest.approx(1 / (1 + math.exp(-log_odds)), abs=1e-9)
    assert found.status == status
    assert math.fsum(row.log_bayes_factor or 0.0 for row in lab.evidence.list().items) == pytest.approx(log_odds)
    assert found.e_support == pytest.approx(math.exp(for_it))
    assert found.e_refute == pytest.approx(math.exp(against_it))
    assert lab.evidence.refold(check=True) == []


def test_a_smaller_metric_may_be_the_better_one(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("loss falls", metric="acc", direction="min", mde=0.1, baseline=1.0)
    command = _values(lab, 0.6, 0.62)
    experiment = lab.experiments.propose(hypothesis.id, command=command, noise=0.05, replicates=2)
    lab.experiments.approve(experiment.id)
    _run(lab, experiment, 2)
    assert lab.hypotheses.get(hypothesis.id).status == "supported"


# --- baselines and seeds --------------------------------------------------------------------------------------------


def test_a_baseline_that_is_an_experiment(lab: Lab) -> None:
    command = _values(lab, 1.2, 1.25, 1.0, 1.02, 0.98, 1.01)
    baseline = lab.experiments.propose(command=command, metric="acc", replicates=4)
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=baseline.id)
    claim = lab.experiments.propose(hypothesis.id, command=command, replicates=2)
    for experiment in (baseline, claim):
        lab.experiments.approve(experiment.id)
    assert baseline.design.claim is None
    _run(lab, claim, 2)  # before its baseline: it says nothing yet
    waiting = lab.hypotheses.get(hypothesis.id)
    assert (waiting.confidence, waiting.evidence_count, waiting.status) == (0.5, 2, "open")
    seen = []
    for _ in range(4):
        _run(lab, baseline)
        seen.append(lab.hypotheses.get(hypothesis.id).confidence)
    assert len(set(seen)) == 4  # each run of the baseline refolds the claim
    # Nothing was declared of the noise: the spread of both is all that is known.
    base = [1.0, 1.02, 0.98, 1.01]
    for n in range(1, 5):
        assert seen[n - 1] == pytest.approx(judged([1.2, 1.25], base[:n], shared=2)["confidence"], abs=1e-9)
    assert lab.hypotheses.get(hypothesis.id).status == "supported"
    assert [row.experiment_id for row in lab.evidence.list().items] == [claim.id, claim.id]
    assert lab.evidence.refold(check=True) == []


def test_a_baseline_must_measure_the_same(lab: Lab) -> None:
    baseline = lab.experiments.propose(command="true", metric="accuracy")
    with pytest.raises(UsageError, match="measures accuracy, not acc"):
        lab.hypotheses.add("x", metric="acc", direction="max", mde=0.1, baseline=baseline.id)
    hypothesis = lab.hypotheses.add("x", direction="max", mde=0.1, baseline=baseline.id)
    with pytest.raises(UsageError, match="measures accuracy, not acc"):
        lab.experiments.propose(hypothesis.id, command="true", metric="acc")


def _seed(project_id: str, group: str, replicate: int) -> int:
    return int.from_bytes(sha256(f"{project_id}\n{group}\n{replicate}".encode()).digest()[:4], "big") >> 1


def test_seeds_are_drawn_from_project_group_and_replicate(lab: Lab) -> None:
    command = _values(lab, 1.0, 1.02, 1.5, 1.55, 1.5, 1.6)
    baseline = lab.experiments.propose(command=command, metric="acc", replicates=2)
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=baseline.id)
    paired = lab.experiments.propose(hypothesis.id, command=command, replicates=2, noise=0.05)
    plain = lab.experiments.propose(
        hypothesis.id, command=command, replicates=2, config={"n": 1}, noise=0.05, paired=False
    )
    assert (paired.design.paired, plain.design.paired) == (True, False)
    seeds = {}
    for experiment in (baseline, paired, plain):
        lab.experiments.approve(experiment.id)
        seeds[experiment.id] = [lab.runs.get(id).seed for id in _run(lab, experiment, 2)]
    project = lab.config.project_id
    assert seeds["e1"] == [_seed(project, "e1", 1), _seed(project, "e1", 2)]
    assert seeds["e2"] == seeds["e1"]
    assert seeds["e3"] == [_seed(project, "e3", 1), _seed(project, "e3", 2)]
    assert len({*seeds["e1"], *seeds["e3"]}) == 4
    assert all(seed is not None and 0 <= seed < 2**31 for group in seeds.values() for seed in group)


def test_a_paired_design_compares_seed_by_seed(lab: Lab) -> None:
    # The seeds differ by far more than the effect: only in pairs does it show.
    command = _values(lab, 1.0, 5.0, 9.0, 1.51, 5.49, 9.5)
    baseline = lab.experiments.propose(command=command, metric="acc", replicates=3)
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=baseline.id)
    claim = lab.experiments.propose(hypothesis.id, command=command, replicates=3, noise=0.05)
    for experiment in (baseline, claim):
        lab.experiments.approve(experiment.id)
        _run(lab, experiment, 3)
    found, values = lab.hypotheses.get(hypothesis.id), ([1.51, 5.49, 9.5], [1.0, 5.0, 9.0])
    assert found.confidence == pytest.approx(judged(*values, shared=3, noise=0.05)["confidence"], abs=1e-6)
    assert found.status == "supported"
    assert 0.3 < judged(*values, noise=0.05)["confidence"] < 0.7, "on other seeds the same values say nothing"
    # The mean of what both arms and what their pairs say, and the arms show nothing of it: half at most.
    alone, _ = log_e_values([0.51, 0.49, 0.5], mde=0.1, tau=0.025, noise=0.05)
    assert math.exp(alone) / 2 <= found.e_support <= math.exp(alone) / 2 + 1


def test_a_retry_keeps_its_seed(lab: Lab, campaign: Campaign) -> None:
    (lab.root / "gate").write_text("")
    _, experiment = campaign("sh -c 'test ! -e gate && echo acc=1.5$PERPETUAL_SEED'", replicates=1)
    (first,) = _run(lab, experiment)
    assert lab.runs.get(first).status == "failed"
    (lab.root / "gate").unlink()
    again = lab.runs.retry(first)
    lab.wait([again.id], timeout_s=30)
    old, new = lab.runs.get(first), lab.runs.get(again.id)
    assert (new.status, new.attempt, new.replicate, new.seed) == ("done", 2, old.replicate, old.seed)
    with pytest.raises(Conflict):
        lab.runs.retry(first)
    with pytest.raises(Conflict):
        lab.runs.retry(again.id)


def test_a_seed_picked_by_hand_weighs_nothing(lab: Lab, campaign: Campaign) -> None:
    hypothesis, experiment = campaign(replicates=1)
    (id,) = _run(lab, experiment, seed=7)
    assert lab.runs.get(id).seed == 7
    row = lab.evidence.list().items[0]
    assert (row.weight, row.log_bayes_factor) == (0.0, 0.0)
    found = lab.hypotheses.get(hypothesis.id)
    assert (found.confidence, found.status, found.evidence_count) == (0.5, "open", 1)
    for wrong in (-1, 2**31):
        with pytest.raises(UsageError):
            lab.runs.launch(experiment.id, seed=wrong)


# --- what is no evidence --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "status", "reason"),
    [
        ("echo nothing of interest", "done", "no_metric"),
        ("echo acc=nan", "done", "no_metric"),
        ("echo acc=inf", "done", "no_metric"),
        ("sh -c 'echo acc=1.5; exit 3'", "failed", "exit code 3"),
        ("sh -c 'echo acc=1.5; kill -9 $$'", "failed", "signal 9"),
    ],
)
def test_a_run_without_evidence_is_debited(
    lab: Lab, campaign: Campaign, command: str, status: str, reason: str
) -> None:
    hypothesis, experiment = campaign(command, replicates=1)
    (id,) = _run(lab, experiment)
    run = lab.runs.get(id)
    assert run.status == status
    assert reason in (run.reason or "")
    assert lab.evidence.list().items == ()
    assert lab.hypotheses.get(hypothesis.id).confidence == 0.5
    spent = lab.budget.show()
    assert spent["by_experiment"][experiment.id]["runs"] == 1
    assert spent["run_hours"] == pytest.approx(run.run_hours)
    assert spent["run_hours"] > 0
    assert spent["reserved_gpu_hours"] == 0
    assert lab.budget.room_run_hours() is None


def test_a_run_beyond_its_limit_is_ended(lab: Lab, campaign: Campaign) -> None:
    _, experiment = campaign("sleep 60", replicates=1, wall_s=0.3)
    (id,) = _run(lab, experiment)
    run = lab.runs.get(id)
    assert run.status == "timeout"
    assert 0.3 <= (run.duration_s or 0.0) < 30
    assert lab.evidence.list().items == ()


def test_a_killed_run_is_gone_and_is_no_evidence(lab: Lab, campaign: Campaign) -> None:
    _, experiment = campaign("sh -c 'echo acc=1.5; sleep 60'", replicates=1)
    run = lab.runs.launch(experiment.id)[0]
    assert run.pid is not None
    identity = platform.identity_of(run.pid)
    assert identity is not None
    killed = lab.runs.kill(run.id, grace_s=0.0)
    assert killed.status == "killed"
    assert not platform.is_alive(identity)
    assert lab.evidence.list().items == ()
    with pytest.raises(Conflict):
        lab.runs.kill(run.id)


_MUTE = "noise unknown: one more replicate"


def test_the_same_value_from_every_seed_counts_once(lab: Lab, campaign: Campaign) -> None:
    hypothesis, experiment = campaign("echo acc=1.5", replicates=3)
    _run(lab, experiment)
    once = lab.hypotheses.get(hypothesis.id)
    _run(lab, experiment, 2)
    found = lab.hypotheses.get(hypothesis.id)
    assert (found.confidence, once.confidence) == (0.5, 0.5), "one run says nothing, nor does its copy"
    assert (once.flags, found.flags) == ((_MUTE,), ("noise unknown", "seed not applied"))


def test_too_few_replicates_decide_nothing(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("min_replicates", "3")
    hypothesis, experiment = campaign(replicates=3)
    _run(lab, experiment)
    found = lab.hypotheses.get(hypothesis.id)
    assert (found.confidence, found.flags) == (0.5, (_MUTE,)), "of one run no noise is known, whatever was declared"
    _run(lab, experiment)
    found = lab.hypotheses.get(hypothesis.id)
    assert found.confidence > 0.8
    assert found.status == "open"
    _run(lab, experiment)
    assert lab.hypotheses.get(hypothesis.id).status == "supported"


# --- opinions, manual rows, retractions -----------------------------------------------------------------------------


def test_opinions_cannot_decide(lab: Lab, campaign: Campaign) -> None:
    hypothesis, _ = campaign()
    for n in range(12):
        with Lab.open(lab.root, actor=f"agent:{n}") as other:
            other.evidence.add(hypothesis.id, verdict="supports", strength=1.0, why="it is so")
    found = lab.hypotheses.get(hypothesis.id)
    assert found.confidence == pytest.approx(0.75)
    assert (found.status, found.evidence_count) == ("open", 12)
    for n in range(12):
        with Lab.open(lab.root, actor=f"agent:{n}") as other:
            other.evidence.add(hypothesis.id, verdict="refutes", strength=1.0, why="it is not so")
    found = lab.hypotheses.get(hypothesis.id)  # a later opinion of the same judge takes the place of the earlier one
    assert found.confidence == pytest.approx(0.25)
    assert found.status == "open"


def test_an_opinion_on_a_measured_run_weighs_nothing(lab: Lab, campaign: Campaign) -> None:
    hypothesis, experiment = campaign(replicates=1)
    (id,) = _run(lab, experiment)
    before = lab.hypotheses.get(hypothesis.id).confidence
    lab.evidence.add(hypothesis.id, verdict="supports", why="look at it", run_id=id)
    assert lab.hypotheses.get(hypothesis.id).confidence == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"verdict": "proves"},
        {"strength": 1.5},
        {"strength": -0.1},
        {"strength": float("nan")},
        {"why": "  "},
    ],
)
def test_an_opinion_is_checked(lab: Lab, campaign: Campaign, wrong: dict[str, Any]) -> None:
    hypothesis, _ = campaign()
    with pytest.raises(UsageError):
        lab.evidence.add(hypothesis.id, **{"verdict": "supports", "why": "so", **wrong})
    assert lab.evidence.list().items == ()


def test_a_confidence_by_hand_is_a_row(lab: Lab, campaign: Campaign) -> None:
    hypothesis, experiment = campaign(replicates=1)
    updated = lab.hypotheses.update(hypothesis.id, confidence=0.7, why="I have seen it")
    assert updated.confidence == pytest.approx(0.7)
    row = lab.evidence.list().items[0]
    assert (row.kind, row.reason) == ("manual", "I have seen it")
    _run(lab, experiment)
    with_both = lab.hypotheses.get(hypothesis.id).confidence
    lab.evidence.retract(row.id, why="I had not")
    without = lab.hypotheses.get(hypothesis.id).confidence
    shift = math.log(with_both / (1 - with_both)) - math.log(without / (1 - without))
    assert shift == pytest.approx(math.log(0.7 / 0.3))
    with pytest.raises(Conflict):
        lab.hypotheses.update(hypothesis.id, prior=0.3)


def test_a_verdict_by_hand_can_be_taken_back(lab: Lab, campaign: Campaign) -> None:
    hypothesis, _ = campaign()
    assert lab.hypotheses.update(hypothesis.id, status="supported", why="enough").status == "supported"
    assert lab.hypotheses.update(hypothesis.id, status="open").status == "open"
    refuted = lab.hypotheses.update(hypothesis.id, status="refuted", why="no")
    assert refuted.status == "refuted"
    last = lab.evidence.list().items[-1]
    lab.evidence.retract(last.id, why="it was wrong")
    assert lab.hypotheses.get(hypothesis.id).status == "open"
    assert lab.hypotheses.update(hypothesis.id, status="parked").status == "parked"
    assert lab.hypotheses.update(hypothesis.id, status="open").status == "open"


def test_a_retraction_reopens(lab: Lab, campaign: Campaign) -> None:
    hypothesis, experiment = campaign(replicates=2)
    _run(lab, experiment, 2)
    assert lab.hypotheses.get(hypothesis.id).status == "supported"
    rows = lab.evidence.list().items
    retraction = lab.evidence.retract(rows[0].id, why="the data leaked")
    assert (retraction.kind, retraction.target, retraction.reason) == ("retraction", rows[0].id, "the data leaked")
    found = lab.hypotheses.get(hypothesis.id)
    assert (found.status, found.evidence_count) == ("open", 3)
    assert lab.evidence.get(rows[0].id).retracted_by == retraction.id
    last = [event.payload for event in lab.events() if event.kind == "hypothesis_status"][-1]
    assert (last["from"], last["to"]) == ("supported", "open")
    for wrong in (retraction.id, rows[0].id):
        with pytest.raises(Conflict):
            lab.evidence.retract(wrong, why="again")
    # With every row taken back, nothing is left but the prior.
    lab.evidence.retract(rows[1].id, why="so did this one")
    assert lab.hypotheses.get(hypothesis.id).confidence == pytest.approx(0.5)
    assert lab.evidence.refold(check=True) == []


# --- approval binds -------------------------------------------------------------------------------------------------


def test_approval_binds_the_specification(lab: Lab, campaign: Campaign) -> None:
    _, experiment = campaign(approve=False)
    approved = lab.experiments.approve(experiment.id)
    event = next(event for event in lab.events() if event.kind == "experiment_approved")
    assert event.payload["spec_hash"] == approved.spec_hash == experiment.spec_hash
    assert len(experiment.spec_hash) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"command": "echo acc=99"},
        {"env": {"CHEAT": "1"}},
        {"cwd": "elsewhere"},
        {"config": {"lr": 9}},
        {"resources": {"gpus": 0, "gpu_memory_bytes": None, "cpus": None, "wall_s": 1e6}},
        {"design": {"mde": 1e-9}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_experiment_changed_after_its_approval_does_not_run(
    lab: Lab, campaign: Campaign, change: dict[str, Any]
) -> None:
    _, experiment = campaign()
    ctx = lab.context
    with ctx.store.transaction() as tx:
        body = ctx.need(EXPERIMENT, experiment.id).body
        merged = {key: {**body["design"], **value} if key == "design" else value for key, value in change.items()}
        tx.put("experiment", experiment.id, {**body, **merged})
    with pytest.raises(NotPermitted) as caught:
        lab.runs.launch(experiment.id)
    assert caught.value.code == "not_approved"
    assert "changed" in caught.value.message
    assert lab.runs.list().items == ()


def test_a_command_that_a_person_types(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    hypothesis = lab.hypotheses.add("x", metric="acc", direction="max", mde=0.1, baseline=1.0)
    experiment = lab.experiments.propose(hypothesis.id, noise=0.05)
    with monkeypatch.context() as under:
        under.setenv("CLAUDECODE", "1")
        with pytest.raises(NotPermitted):
            lab.runs.launch(experiment.id, command="echo acc=1.5")
    run = lab.runs.launch(experiment.id, command="echo acc=1.5")[0]
    lab.wait([run.id], timeout_s=30)
    found = lab.experiments.get(experiment.id)
    assert (found.command, found.approved_by) == ("echo acc=1.5", lab.actor)
    assert found.spec_hash != experiment.spec_hash
    event = next(event for event in lab.events() if event.kind == "spec_completed")
    assert event.payload == {"command": "echo acc=1.5", "spec_hash": found.spec_hash}
    with pytest.raises(Conflict) as caught:
        lab.runs.launch(experiment.id, command="echo acc=2.5")
    assert caught.value.code == "command_differs"


def test_an_agent_does_not_approve(lab: Lab, campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    _, experiment = campaign(approve=False)
    for variable in AGENT_VARIABLES:
        with monkeypatch.context() as under:
            under.setenv(variable, "1")
            with pytest.raises(NotPermitted):
                lab.experiments.approve(experiment.id)
    assert lab.experiments.get(experiment.id).status == "proposed"


# --- budget ---------------------------------------------------------------------------------------------------------


def _at_once(deeds: list[Callable[[], Any]]) -> list[Any]:
    """What each answers or raises, all started together."""
    barrier = threading.Barrier(len(deeds))

    def one(deed: Callable[[], Any]) -> Any:
        barrier.wait(30)
        try:
            return deed()
        except PerpetualError as problem:
            return problem

    with ThreadPoolExecutor(len(deeds)) as pool:
        return [*pool.map(one, deeds)]


def test_ten_launches_race_for_the_last_hours(lab: Lab) -> None:
    lab.settings.set_methodology("max_run_hours", "3")
    lab.settings.set_methodology("max_concurrent_runs", "10")
    ids = []
    for n in range(10):
        experiment = lab.experiments.propose(command="sleep 60", config={"n": n}, wall_s=3600.0)
        ids.append(lab.experiments.approve(experiment.id).id)
    with Lab.open(lab.root) as other:
        answers = _at_once([partial(door.runs.launch, id) for id, door in zip(ids, [lab, other] * 5, strict=True)])
        started = [answer[0].id for answer in answers if isinstance(answer, list)]
        refused = [answer for answer in answers if isinstance(answer, Refused)]
        assert (len(started), len(refused)) == (3, 7), answers
        assert all(problem.code == "budget" and problem.exit == 7 for problem in refused)
    assert len(lab.runs.list().items) == 3
    assert lab.budget.room_run_hours() == 0.0
    # What ends gives back what it did not use, so the next one fits.
    lab.runs.kill(started[0], grace_s=0.0)
    left = lab.budget.room_run_hours()
    assert left is not None
    assert 0.9 < left < 1.0
    lab.runs.kill(started[1], grace_s=0.0)
    more = next(id for id, answer in zip(ids, answers, strict=True) if isinstance(answer, Refused))
    assert lab.runs.launch(more)[0].status in ("queued", "running")


_GPUS = """
from perpetual.api import Gpu, GpuBackend, GpuReading

class Four(GpuBackend):
    def read(self, deadline_s=5.0):
        return GpuReading("1", tuple(Gpu(n, f"GPU-{n}", "fake", 2**30, 0, 2**30, 0.0, 30.0, 50.0, None, (), n != 3,
                                      "fallen off the bus" if n == 3 else None) for n in range(4)), None)

def build(options):
    return Four()
"""


class _GpuPlugin:
    @hookimpl
    def perpetual_gpu_backends(self) -> list[Provider]:
        return [Provider("gpus", "four", "four_gpus:build", "three GPUs that work, and one that does not")]


@pytest.fixture
def gpu_lab(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The lab on a machine with four GPUs, the last of them broken."""
    (tmp_path / "four_gpus.py").write_text(_GPUS)
    monkeypatch.syspath_prepend(str(tmp_path))
    lab.config.set("gpus", "four")
    with Lab.open(lab.root, registry=Registry(extra=[("acme", "gpus", "1", _GpuPlugin)])) as opened:
        yield opened
    monkeypatch.delitem(sys.modules, "four_gpus", raising=False)


def test_launches_race_for_the_last_gpu_hour(gpu_lab: Lab) -> None:
    gpu_lab.budget.set_limit(2.5)
    ids = []
    for n in range(6):
        experiment = gpu_lab.experiments.propose(command="sleep 60", config={"n": n}, gpus=1, wall_s=3600.0)
        ids.append(gpu_lab.experiments.approve(experiment.id).id)
    answers = _at_once([partial(gpu_lab.runs.launch, id) for id in ids])
    assert [type(answer).__name__ for answer in answers].count("list") == 2, answers
    assert [type(answer).__name__ for answer in answers].count("Refused") == 4
    totals = gpu_lab.budget.totals()
    assert totals["reserved_gpu_hours"] == pytest.approx(2.0)
    assert totals["left_gpu_hours"] == pytest.approx(0.5)
    for run in gpu_lab.runs.list().items:
        ended = gpu_lab.runs.kill(run.id, grace_s=0.0)
        assert ended.gpu_hours == pytest.approx((ended.duration_s or 0.0) / 3600.0)
    totals = gpu_lab.budget.totals()
    assert totals["reserved_gpu_hours"] == 0
    assert 0 < totals["spent_gpu_hours"] < 0.01
    assert totals["left_gpu_hours"] == pytest.approx(2.5 - totals["spent_gpu_hours"])


def test_a_gpu_is_leased_to_one_run(gpu_lab: Lab) -> None:
    runs: list[Run] = []
    for n in range(4):
        command = "sh -c 'echo devices: $CUDA_VISIBLE_DEVICES.; exec sleep 60'"
        experiment = gpu_lab.experiments.propose(command=command, config={"n": n}, gpus=1, wall_s=60.0)
        gpu_lab.experiments.approve(experiment.id)
        runs += gpu_lab.runs.launch(experiment.id)
    assert sorted(run.gpus for run in runs[:3]) == [("GPU-0",), ("GPU-1",), ("GPU-2",)]
    assert (runs[3].status, runs[3].gpus) == ("queued", ())
    assert "0 of 4 are free" in (runs[3].reason or "")
    assert gpu_lab.scan()["changes"] == []
    gpu_lab.runs.kill(runs[1].id, grace_s=0.0)
    assert [change["run_id"] for change in gpu_lab.scan()["changes"]] == [runs[3].id]
    assert gpu_lab.runs.get(runs[3].id).gpus == runs[1].gpus
    too_many = gpu_lab.experiments.propose(command="true", gpus=5, wall_s=60.0)
    gpu_lab.experiments.approve(too_many.id)
    with pytest.raises(PerpetualError) as caught:
        gpu_lab.runs.launch(too_many.id)
    assert caught.value.code == "does_not_fit"
    assert len(gpu_lab.runs.list().items) == 4
    for run in runs:
        if gpu_lab.runs.get(run.id).status == "running":
            gpu_lab.runs.kill(run.id, grace_s=0.0)


# --- the queue ------------------------------------------------------------------------------------------------------


def test_a_run_that_must_wait_says_for_what(lab: Lab, campaign: Campaign) -> None:
    lab.settings.set_methodology("max_concurrent_runs", "1")
    _, experiment = campaign("sleep 60", replicates=3)
    first, second, third = lab.runs.launch(experiment.id, every=True)
    assert (first.status, second.status, third.status) == ("running", "queued", "queued")
    assert "max_concurrent_runs" in (second.reason or "")
    assert lab.scan() == {"changes": [], "debits": [], "evidence": [], "problems": []}
    lab.runs.kill(first.id, grace_s=0.0)
    changes = lab.scan()["changes"]
    assert [(change["run_id"], change["from"], change["to"]) for change in changes] == [
        (second.id, "queued", "running")
    ]
    assert lab.runs.get(second.id).reason is None
    assert lab.runs.kill(third.id).status == "killed"  # from the queue, without ever having run
    assert not (lab.root / third.log_dir / "started.json").exists()


def test_a_paused_queue_starts_nothing(lab: Lab, campaign: Campaign) -> None:
    _, experiment = campaign(replicates=1)
    lab.queue.set_state("paused")
    run = lab.runs.launch(experiment.id)[0]
    assert (run.status, "paused" in (run.reason or "")) == ("queued", True)
    assert lab.scan()["changes"] == []
    lab.queue.set_state("running")
    assert [change["to"] for change in lab.scan()["changes"]] == ["running"]
    assert lab.wait([run.id], timeout_s=30) == {run.id: "done"}


def _dead() -> list[Any]:
    """The identity of a process that has ended."""
    import subprocess

    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = platform.identity_of(process.pid)
    process.communicate(b"\n")
    assert identity is not None
    assert not platform.is_alive(identity)
    return [*identity]


def test_a_launcher_that_died_before_the_start(lab: Lab, campaign: Campaign) -> None:
    hypothesis, experiment = campaign(replicates=1)
    lab.queue.set_state("paused")
    run = lab.runs.launch(experiment.id)[0]
    ctx = lab.context
    with ctx.store.transaction() as tx:
        RunRecords(lab.context).change(
            tx, ctx.need(RUN, run.id), {"status": "launching", "reason": None, "launcher": _dead()}
        )
    first = lab.scan()["changes"]
    assert [(change["from"], change["to"]) for change in first] == [("launching", "queued")]
    assert "died" in (first[0]["reason"] or "")
    lab.queue.set_state("running")
    second = lab.scan()["changes"]
    assert [(change["from"], change["to"]) for change in second] == [("queued", "running")]
    lab.wait([run.id], timeout_s=30)
    assert lab.runs.get(run.id).status == "done"
    assert len(lab.runs.list().items) == 1
    assert (lab.root / run.log_dir / "stdout.log").read_text().count("acc=") == 1  # it ran once
    assert lab.hypotheses.get(hypothesis.id).evidence_count == 1
    assert lab.budget.show()["by_experiment"][experiment.id]["runs"] == 1


def test_a_launcher_that_died_after_the_start(lab: Lab, campaign: Campaign) -> None:
    (lab.root / "hold").write_text("")
    _, experiment = campaign("sh -c 'while test -e hold; do sleep 0.02; done; echo acc=1.5'", replicates=1)
    run = lab.runs.launch(experiment.id)[0]
    ctx = lab.context
    with ctx.store.transaction() as tx:
        lost = {"status": "launching", "launcher": _dead(), "native_id": None, "pid": None, "started_at": None}
        RunRecords(lab.context).change(tx, ctx.need(RUN, run.id), lost)
    assert [(change["from"], change["to"]) for change in lab.scan()["changes"]] == [("launching", "running")]
    assert lab.runs.get(run.id).pid == run.pid
    (lab.root / "hold").unlink()
    assert lab.wait([run.id], timeout_s=30) == {run.id: "done"}
    assert (lab.root / run.log_dir / "stdout.log").read_text() == "acc=1.5\n"


def test_a_launcher_that_is_at_work_is_left_alone(lab: Lab, campaign: Campaign) -> None:
    import os

    _, experiment = campaign(replicates=1)
    lab.queue.set_state("paused")
    run = lab.runs.launch(experiment.id)[0]
    me = platform.identity_of(os.getpid())
    assert me is not None
    ctx = lab.context
    with ctx.store.transaction() as tx:
        RunRecords(lab.context).change(tx, ctx.need(RUN, run.id), {"status": "launching", "launcher": [*me]})
    assert lab.scan()["changes"] == []
    with ctx.store.transaction() as tx:
        RunRecords(lab.context).change(tx, ctx.need(RUN, run.id), {"status": "queued"})


def test_a_launcher_on_another_machine_is_left_alone(lab: Lab, campaign: Campaign) -> None:
    """It cannot be looked for: a machine that shares the project starts nothing beside it."""
    _, experiment = campaign(replicates=1)
    lab.queue.set_state("paused")
    run = lab.runs.launch(experiment.id)[0]
    ctx = lab.context
    there = {"launcher": ["of another boot", 1, 1], "launcher_host": "of another machine"}

    def found(launching_at: str) -> str:
        with ctx.store.transaction() as tx:
            values = {"status": "launching", **there, "launching_at": launching_at}
            RunRecords(lab.context).change(tx, ctx.need(RUN, run.id), values)
        lab.scan()
        return lab.runs.get(run.id).status

    assert found(ctx.now()) == "launching"
    assert found("2020-01-01T00:00:00Z") == "queued"


# --- the feed -------------------------------------------------------------------------------------------------------


class _Observer:
    def __init__(self) -> None:
        self.heard: list[Event] = []
        self.failing = False

    @hookimpl
    def perpetual_event(self, event: Event) -> None:
        if self.failing:
            raise RuntimeError("not now")
        self.heard.append(event)
        event.payload.clear()  # its own copy


def _of_observers(lab: Lab) -> tuple[bool | None, str]:
    ok, detail, _ = finding(lab, "observers")
    return ok, detail


def test_every_observer_hears_everything_in_order(lab: Lab, campaign: Campaign) -> None:
    good, bad = _Observer(), _Observer()
    bad.failing = True
    registry = Registry(extra=[("acme", "bad", "1", lambda: bad), ("acme", "good", "1", lambda: good)])
    _, experiment = campaign(replicates=1)
    with Lab.open(lab.root, registry=registry) as watched:
        _run(watched, experiment)
        assert watched.feed.deliver() == {"acme/bad": "RuntimeError: not now"}
        told = watched.events()
        assert [event.seq for event in told] == [*range(1, len(told) + 1)]
        assert [event.seq for event in good.heard] == [event.seq for event in told]  # once: the other holds nobody up
        assert all(event.payload for event in told)
        assert bad.heard == []
        assert _of_observers(watched) == (False, "did not take what the feed offered: acme/bad: RuntimeError: not now")
        noted = watched.context.store.seq()
        assert watched.feed.deliver()
        assert watched.context.store.seq() == noted  # failing on is no news, and wakes nobody
        bad.failing = False
        assert watched.feed.deliver() == {}
        assert [event.seq for event in bad.heard] == [event.seq for event in told]
        assert watched.feed.deliver() == {}
        assert len(bad.heard) == len(good.heard) == len(told)
        assert _of_observers(watched) == (True, "2 plugins notified of events")
    # The cursor is in the record: another process goes on where this one stopped.
    later = _Observer()
    with Lab.open(lab.root, registry=Registry(extra=[("acme", "good", "1", lambda: later)])) as again:
        again.hypotheses.add("one more")
        again.scan()
        assert [event.kind for event in later.heard] == ["hypothesis_added"]


def test_an_observer_that_always_fails_starves_no_other(lab: Lab) -> None:
    good, bad = _Observer(), _Observer()
    bad.failing = True
    registry = Registry(extra=[("acme", "a", "1", lambda: bad), ("acme", "b", "1", lambda: good)])
    ctx = lab.context
    with ctx.store.transaction() as tx:
        for n in range(450):
            ctx.emit(tx, "hypothesis_updated", "h1", {"n": n})
    with Lab.open(lab.root, registry=registry) as watched:
        for _ in range(3):
            assert set(watched.feed.deliver()) == {"acme/a"}
        assert [event.seq for event in good.heard] == [*range(1, 452)]


def test_a_run_that_cannot_be_looked_at_holds_up_no_other(lab: Lab, campaign: Campaign) -> None:
    _, experiment = campaign("sleep 30")
    broken = lab.runs.launch(experiment.id)[0]
    folder = Path(broken.log_dir)
    pid = lab.runs.get(broken.id).pid
    spec = folder / "started.json"
    assert spec.exists(), [*folder.iterdir()]
    kept = spec.read_bytes()
    spec.write_bytes(b"{")
    fine = lab.experiments.approve(lab.experiments.propose(command="true", cost_run_hours=0.001, wall_s=60.0).id)
    other = lab.runs.launch(fine.id)[0]
    try:
        assert lab.wait([other.id], timeout_s=20) == {other.id: "done"}
        found = lab.scan()
        assert found["changes"] == []
        assert [(item["run_id"], item["code"]) for item in found["problems"]] == [(broken.id, "corrupt")]
        assert str(spec) in found["problems"][0]["message"]
        with pytest.raises(CorruptData):
            lab.wait([broken.id], timeout_s=20)
    finally:
        spec.write_bytes(kept)
    assert lab.runs.get(broken.id).status == "running"
    assert pid is not None

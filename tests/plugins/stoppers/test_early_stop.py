"""Early stopping of real runs: who is stopped, what the record then says, and that nothing else is ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Conflict, NotPermitted, UsageError
from perpetual.cli.app import run as command
from perpetual_scorers import sweeps
from perpetual_stoppers.judge import judge
from tests.support import LONG_S
from tests.support import until as wait_until

# Logs a curve as far as `until` says, waits there for the file `go`, and logs the rest.
PROGRAM = """
import json, os, random, sys, time
from pathlib import Path
import perpetual

until, shift, spread = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
rng = random.Random(int(os.environ["PERPETUAL_SEED"]))
level = shift + rng.gauss(0, 1)
for step in range(1, 21):
    if step == until + 1:
        while not Path("go").exists():
            time.sleep(0.02)
    foretold = rng.gauss(0, spread) * (1 - step / 20)
    perpetual.log({"acc": level - 5 / step + foretold, "loss": 100 - 3 * level}, step=step)
"""


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    """A lab with a baseline of five complete runs; its runs have ended when the test is over."""
    (project / "train.py").write_text(PROGRAM)
    with Lab.open(project) as made:
        made.settings.set_methodology("max_concurrent_runs", "8")
        baseline = made.experiments.propose(
            None, command=f"{sys.executable} train.py 10 0 0.02", metric="acc", direction="max", replicates=5, wall_s=60
        )
        made.experiments.approve(baseline.id)
        complete(made, baseline.id, 5)
        yield made
        made.queue.set_state("paused")
        for run in made.runs.live():
            with suppress(Conflict):
                made.runs.kill(run.id, grace_s=0.0)


def run_all(lab: Lab, experiment_id: str, n: int) -> list[str]:
    made = [lab.runs.launch(experiment_id)[0].id for _ in range(n)]
    lab.wait(made, timeout_s=LONG_S)
    return made


def claimed(lab: Lab, *, until: int = 10, shift: float = 0.0, spread: float = 0.02, statement: str = "it helps") -> str:
    """An approved claim of the program, whose runs wait after step `until`."""
    made = lab.hypotheses.add(statement, metric="acc", direction="max", mde=1.0, baseline="e1")
    found = lab.experiments.propose(
        made.id, command=f"{sys.executable} train.py {until} {shift} {spread}", replicates=8, wall_s=60
    )
    lab.experiments.approve(found.id)
    return found.id


def complete(lab: Lab, experiment_id: str, n: int = 2) -> None:
    """Runs replicates to their ends."""
    Path("go").touch()
    run_all(lab, experiment_id, n)
    Path("go").unlink()


def waiting(lab: Lab, experiment_id: str) -> str:
    """A live run that has come to where it waits."""
    run = lab.runs.launch(experiment_id)[0]
    wait_until(lambda: len(lab.runs.curves(run.id).get("acc", EMPTY).steps) >= 10)
    return run.id


class _Empty:
    steps = ()


EMPTY = _Empty()


def verdicts(lab: Lab, **more: object) -> dict[str, str]:
    return {each["run_id"]: each["verdict"] for each in judge(lab, **more)["runs"]}  # type: ignore[arg-type]


def test_a_claims_third_run_is_stopped_and_counts(lab: Lab) -> None:
    lab.settings.set_methodology("stoppers.active", "curve")
    claim = claimed(lab)
    complete(lab, claim)
    before = lab.hypotheses.get("h1")
    run = waiting(lab, claim)
    assert verdicts(lab, dry_run=True) == {run: "would_stop"}
    assert lab.runs.get(run).status == "running"
    assert verdicts(lab) == {run: "stopped"}
    found = lab.runs.get(run)
    assert found.status == "killed"
    assert found.reason == "stopped early at step 5 by curve"
    assert found.stopped is not None
    assert found.stopped["step"] == 5
    assert len(found.stopped["at_step"]) == 7, "where the five of the baseline and the two of the claim had stood"
    after = lab.hypotheses.get("h1")
    assert after.confidence != before.confidence
    assert any(text.startswith(f"stopped_runs: {run} was stopped early by curve") for text in after.flags)
    assert not any(text.startswith(("lost_runs", "killed_runs")) for text in after.flags)
    assert after.effect is not None
    assert "with 1 stopped early" in after.effect["how"]
    assert lab.storage.verify() == []


def test_the_first_two_runs_and_one_in_three_are_completed(lab: Lab) -> None:
    lab.settings.set_methodology("stoppers.active", "curve")
    claim = claimed(lab)
    first = waiting(lab, claim)
    assert verdicts(lab) == {first: "goes_on"}
    with pytest.raises(Conflict, match="2 are wanted first"):
        lab.runs.stop_early(first, step=5.0, by="me", why="by hand")
    Path("go").touch()
    lab.wait([first], timeout_s=LONG_S)
    Path("go").unlink()
    complete(lab, claim, 1)
    stopped = [waiting(lab, claim) for _ in range(5)]
    found = [verdicts(lab)[run] for run in stopped[:1]] + [*verdicts(lab).values()]
    assert sum(lab.runs.get(run).status == "killed" for run in stopped) == 4, found
    assert lab.runs.get(stopped[-1]).status == "running", "two of seven are complete, and one in three is completed"


def test_a_curve_that_foretells_nothing_goes_on(lab: Lab) -> None:
    lab.settings.set_methodology("stoppers.active", "curve")
    lab.settings.set_config("plugins.stopper.curve.spread", "0.0001")
    claim = claimed(lab)
    complete(lab, claim)
    run = waiting(lab, claim)
    assert verdicts(lab) == {run: "goes_on"}
    assert judge(lab)["runs"][0]["why"] == "no stopper in force stops it"


def test_what_has_not_come_to_the_rung_is_not_judged(lab: Lab) -> None:
    lab.settings.set_methodology("stoppers.active", "curve")
    lab.settings.set_methodology("stoppers.at", "0.7")
    claim = claimed(lab)
    complete(lab, claim)
    run = waiting(lab, claim)
    assert verdicts(lab) == {run: "not_yet"}
    lab.settings.set_methodology("stoppers.at", "0.25")
    late = claimed(lab, until=18, statement="it helps late")
    complete(lab, late)
    waits = lab.runs.launch(late)[0].id
    wait_until(lambda: len(lab.runs.curves(waits)["acc"].steps) >= 18 if lab.runs.curves(waits) else False)
    assert verdicts(lab, dry_run=True)[waits] == "past"


def test_a_baseline_s_run_is_stopped_and_counts(lab: Lab) -> None:
    """Its fifth one and further ones, where a claim is compared with it."""
    claim = claimed(lab)
    complete(lab, claim, 3)
    lab.settings.set_methodology("stoppers.active", "curve")
    more = lab.experiments.propose(extends="e1", replicates=2)
    lab.experiments.approve(more.id)
    before = lab.hypotheses.get("h1").effect
    run = waiting(lab, more.id)
    assert verdicts(lab) == {run: "stopped"}
    found = lab.hypotheses.get("h1")
    assert before is not None
    assert found.effect is not None
    assert found.effect["value"] != before["value"]
    assert any(text.startswith(f"stopped_runs: {run} was stopped early by curve") for text in found.flags)
    assert not any(text.startswith("lost_runs") for text in found.flags)


def test_a_baseline_s_run_that_was_stopped_by_another_metric_is_lost_to_a_claim(lab: Lab) -> None:
    """Its value is one of accuracy, and says nothing of a loss."""
    more = lab.experiments.propose(extends="e1", replicates=1)
    lab.experiments.approve(more.id)
    lab.runs.stop_early(waiting(lab, more.id), step=5.0, by="curve", why="it shows enough")
    made = lab.hypotheses.add("the loss falls", metric="loss", direction="min", mde=1.0, baseline="e1")
    claim = lab.experiments.propose(made.id, command=f"{sys.executable} train.py 10 1 0", replicates=2, wall_s=60)
    lab.experiments.approve(claim.id)
    complete(lab, claim.id)
    found = lab.hypotheses.get(made.id)
    assert found.effect is not None
    assert found.effect["value"] == pytest.approx(mean(lab, "e1", "loss") - mean(lab, claim.id, "loss"))
    assert "stopped early" not in found.effect["how"]
    assert not any(text.startswith("stopped_runs") for text in found.flags)


def mean(lab: Lab, experiment_id: str, metric: str) -> float:
    values = [run.metrics[metric] for run in lab.runs.named([experiment_id])]
    return fmean(value for value in values if value is not None)


@pytest.mark.slow
def test_a_stopped_run_of_an_experiment_that_is_not_pooled_says_nothing(lab: Lab) -> None:
    """The runs of a claim that ends by a rule of its own, where the same command was measured without one first."""
    claim = claimed(lab)
    complete(lab, claim)
    lab.runs.stop_early(waiting(lab, claim), step=5.0, by="curve", why="it shows enough")
    rule = lab.experiments.propose(None, command=f"{sys.executable} train.py 10 0 0.03", metric="acc", direction="max",
                                   replicates=1, wall_s=60, stop_rule="exit:7")  # fmt: skip
    lab.experiments.approve(rule.id)
    ruled = lab.experiments.propose("h1", command=lab.experiments.get(claim).command, baseline=rule.id, replicates=8,
                                    wall_s=60)  # fmt: skip
    assert ruled.design.stop_rule == "exit:7"
    lab.experiments.approve(ruled.id)
    complete(lab, ruled.id)
    before = lab.hypotheses.get("h1")
    lab.runs.stop_early(waiting(lab, ruled.id), step=5.0, by="curve", why="it shows enough")
    after = lab.hypotheses.get("h1")
    assert after.effect == before.effect
    assert after.confidence == before.confidence


def test_a_baseline_s_run_is_completed_where_a_claim_needs_more_than_its_curve(lab: Lab) -> None:
    lab.settings.set_methodology("stoppers.active", "curve")
    complete(lab, claimed(lab), 3)
    again = lab.experiments.propose(extends="e1", replicates=2)
    lab.experiments.approve(again.id)
    run = waiting(lab, again.id)
    assert verdicts(lab, dry_run=True) == {run: "would_stop"}
    others: list[dict[str, Any]] = [{"metric": "loss", "direction": "min", "mde": 1.0}, {"guards": ["loss:min:1"]}]
    for number, more in enumerate(others):
        made = lab.hypotheses.add(f"idea {number}", metric="acc", direction="max", mde=1.0, baseline="e1")
        other = lab.experiments.propose(made.id, command=f"{sys.executable} train.py 10 1 0", wall_s=60, **more)
        found = [(each["verdict"], each["why"]) for each in judge(lab)["runs"]]
        assert found == [("not_eligible", f"{other.id} needs more than {run}'s curve")]
        with pytest.raises(UsageError, match=f"{other.id} needs more than {run}'s curve"):
            lab.runs.stop_early(run, step=5.0, by="me", why="by hand")
        assert lab.runs.get(run).status == "running"
        lab.experiments.reject(other.id, "it will not run")
    assert verdicts(lab) == {run: "stopped"}


def test_the_runs_that_two_claims_share_are_completed(lab: Lab) -> None:
    lab.settings.set_methodology("stoppers.active", "curve")
    made = lab.hypotheses.add("it helps", metric="acc", direction="max", mde=1.0, baseline="e1")
    own = lab.experiments.propose(made.id, command=f"{sys.executable} train.py 10 0 0.02", replicates=3, wall_s=60)
    shares = lab.hypotheses.add("the loss falls", metric="loss", direction="min", mde=1.0, baseline="e1")
    sharing = lab.experiments.propose(shares.id, runs_of=own.id)
    lab.experiments.approve_all([own.id, sharing.id])
    complete(lab, own.id)
    run = waiting(lab, own.id)
    assert [each["why"] for each in judge(lab)["runs"]] == [f"{sharing.id} needs more than {run}'s curve"]
    assert verdicts(lab) == {run: "not_eligible"}


def test_runs_of_no_claim_confirmations_and_typed_baselines_are_completed(lab: Lab) -> None:
    lab.settings.set_methodology("stoppers.active", "curve")
    more = lab.experiments.propose(
        None, command=f"{sys.executable} train.py 10 0 0.03", metric="acc", direction="max", replicates=2, wall_s=60
    )
    lab.experiments.approve(more.id)
    complete(lab, more.id, 1)
    made = lab.hypotheses.add("a number", metric="acc", direction="max", mde=1.0, baseline=0.5)
    typed = lab.experiments.propose(made.id, command=f"{sys.executable} train.py 10 0 0", replicates=2, wall_s=60)
    lab.experiments.approve(typed.id)
    runs = [waiting(lab, more.id), waiting(lab, typed.id)]
    assert verdicts(lab) == dict.fromkeys(runs, "not_eligible")


def test_a_stop_that_was_recorded_and_not_carried_out_loses_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after kill -9 between the two: the run goes on to its end, and what it measured counts."""
    lab.settings.set_methodology("stoppers.active", "curve")
    claim = claimed(lab)
    complete(lab, claim)
    run = waiting(lab, claim)
    with monkeypatch.context() as patch:
        patch.setattr("perpetual.lab.runs.cancel._cancel", _dies)
        with pytest.raises(KeyboardInterrupt):
            judge(lab)
    assert lab.runs.get(run).status == "running"
    Path("go").touch()
    lab.wait([run], timeout_s=LONG_S)
    assert lab.runs.get(run).status == "done"
    assert len(lab.evidence.list(hypothesis_id="h1").items) == 3
    assert not any(text.startswith("stopped_runs") for text in lab.hypotheses.get("h1").flags)


def _dies(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_agent_stops_no_run_early(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have seen more of the curve than the rung; what it kills counts at the worst value seen."""
    lab.settings.set_methodology("stoppers.active", "curve")
    claim = claimed(lab)
    complete(lab, claim)
    run = waiting(lab, claim)
    with Lab.open(lab.root, actor="agent:claude-code") as agents, pytest.raises(NotPermitted, match="for the loop"):
        judge(agents)
    monkeypatch.setenv("CLAUDECODE", "1")
    assert command(["early-stop"]) == 4
    assert command(["early-stop", "--dry-run"]) == 0
    assert lab.runs.get(run).status == "running"


def test_off_it_stops_nothing_and_a_wrong_name_is_named(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    claim = claimed(lab)
    complete(lab, claim)
    run = waiting(lab, claim)
    assert judge(lab)["runs"] == []
    with pytest.raises(UsageError, match="no stopper is called 'curves'"):
        judge(lab, dry_run=True, stoppers=["curves"])
    assert command(["early-stop"]) == 0
    assert capsys.readouterr().out.startswith("off: no stopper is in force")
    assert command(["early-stop", "--dry-run", "--stopper", "curve", "--json"]) == 0
    dry = json.loads(capsys.readouterr().out)
    assert [(each["run_id"], each["verdict"]) for each in dry["runs"]] == [(run, "would_stop")]
    assert command(["early-stop", "--stopper", "curve"]) == 2
    assert lab.runs.get(run).status == "running"


def test_the_companion_stops_runs_and_says_what_is_wrong(lab: Lab) -> None:
    import threading

    from perpetual_stoppers.companion import EarlyStopCompanion

    claim = claimed(lab)
    complete(lab, claim)
    run = waiting(lab, claim)
    companion, stop = EarlyStopCompanion(look_s=0.05), threading.Event()
    with Lab.open(lab.root) as other:
        thread = threading.Thread(target=companion.run, args=(other, stop))
        thread.start()
        try:
            lab.settings.set_methodology("stoppers.active", "cruve")
            wait_until(lambda: companion.trouble() is not None)
            assert "no stopper is called 'cruve'" in str(companion.trouble())
            assert lab.runs.get(run).status == "running"
            lab.settings.set_methodology("stoppers.active", "curve")
            wait_until(lambda: lab.runs.get(run).status == "killed")
            wait_until(lambda: companion.trouble() is None)
        finally:
            stop.set()
            thread.join(10)
    assert not thread.is_alive()


def test_a_sweep_s_poor_settings_are_stopped_and_estimated(lab: Lab) -> None:
    """Halving: of the settings that have come to the rung the best third goes on; the rest is worth its estimate."""
    lab.settings.set_methodology("stoppers.active", "async-halving")
    lab.settings.set_methodology("max_concurrent_runs", "1")
    command = f"{sys.executable} train.py 10 {{shift}} 0.01"
    made = sweeps.new(lab, command, ["shift=0,10,20,30,40"], metric="acc", direction="max", runs=5, wall_s=60)
    sweeps.approve(lab, made["id"])
    Path("go").touch()
    for n in range(1, 4):
        sweeps.run(lab, made["id"], runs=1)
        lab.wait([run.id for run in lab.runs.live()], timeout_s=LONG_S)
        assert sweeps.show(lab, made["id"])["runs"] == n
    Path("go").unlink()
    sweeps.run(lab, made["id"], runs=1)
    run = lab.runs.live()[0]
    wait_until(lambda: len(lab.runs.curves(run.id).get("acc", EMPTY).steps) >= 10)
    shift = float(str(lab.experiments.get(run.experiment_id).config["shift"]))
    settings = sweeps.show(lab, made["id"])["settings"]
    others = [float(each["parameters"]["shift"]) for each in settings if each["mean"] is not None]
    is_best = all(shift > other for other in others)
    assert verdicts(lab) == {run.id: "goes_on" if is_best else "stopped"}
    assert not is_best, "the order of the settings follows from the project's id"
    shown = {float(each["parameters"]["shift"]): each for each in sweeps.show(lab, made["id"])["settings"]}[shift]
    assert shown["n_failed"] == 0
    assert shown["mean"] == pytest.approx(shift, abs=4), "what its curve lets expect, and no failure"

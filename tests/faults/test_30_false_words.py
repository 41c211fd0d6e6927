"""Row 30: what is said of a claim is what was measured: direction, bound, who decided it, who intervened."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run as command_line
from perpetual.errors import UsageError
from perpetual.lab.evidence_rules import forget
from perpetual.records import Experiment
from perpetual.science import confidence
from perpetual.science.discoveries import discoveries
from perpetual.science.evalues import CASH, Statistic, either, log_e
from perpetual.toolkit.claims import WORDS, claim_in_words

AGENT = "mcp:c/1"
NOISE = {"mu1": 1.0, "mu0": 0.0, "tau": 0.25, "sigma": 1.0}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A project without runs."""
    methodology = {"max_concurrent_runs": 8}
    project = tmp_path / "project"  # the seeds follow from the id
    with Lab.init(project, name="words", project_id="false-words-0001", methodology=methodology) as made:
        yield made


def measured(values: Sequence[float], design: str = "d") -> list[dict[str, Any]]:
    return [{"id": f"{design}{n}", "kind": "measured", "design_id": design, "value": x} for n, x in enumerate(values)]


def ran(lab: Lab, hypothesis: str | None, value: str, replicates: int = 2, **given: Any) -> Experiment:
    """An experiment whose runs print the value with the digits of their seed behind it."""
    made = lab.experiments.propose(
        hypothesis, command=f"sh -c 'echo loss={value}$PERPETUAL_SEED'", metric="loss", replicates=replicates,
        wall_s=60.0, **given,
    )  # fmt: skip
    lab.experiments.approve(made.id)
    lab.wait([run.id for run in lab.runs.launch(made.id, every=True)], timeout_s=60)
    return made


# --- the bound ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [0.25, 0.5, 0.75, 0.99])
@pytest.mark.parametrize("mean", [-2.0, 0.1, 0.5, 0.9, 3.0])
def test_the_bound_is_that_of_the_verdict(prior: float, mean: float) -> None:
    opinions = [{"id": "j", "kind": "judged", "verdict": "supports", "judge": "a"}]
    said = confidence({"id": "h", "prior": prior}, {"d": NOISE}, [*measured([mean] * 1 + [mean + 0.1]), *opinions], {})
    own = said["e_support"] if said["confidence"] >= 0.5 else said["e_refute"]
    assert said["false_alarm_bound"] == pytest.approx(min(1.0, 1 / own))
    if said["reached"] is not None:
        assert said["false_alarm_bound"] <= 0.25 + 1e-9


def test_evidence_against_bounds_no_support() -> None:
    """Three runs that speak against a claim of a sure believer."""
    said = confidence({"id": "h", "prior": 0.99}, {"d": NOISE}, measured([0.3, 0.2, 0.25]), {})
    assert said["e_refute"] > 1 > said["e_support"]
    assert said["confidence"] > 0.5
    assert (said["reached"], said["false_alarm_bound"]) == (None, 1.0)


# --- prior and opinions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("verdict", ["supports", "refutes"])
def test_prior_and_opinions_together_are_worth_three_to_one(prior: float, verdict: str) -> None:
    opinions = [{"id": f"j{n}", "kind": "judged", "verdict": verdict, "judge": n} for n in range(9)]
    hands = [{"id": "m", "kind": "manual", "log_odds": 9.0 if verdict == "supports" else -9.0, "bounded": True}]
    said = confidence({"id": "h", "prior": prior}, {}, [*opinions, *hands], {})
    assert abs(said["log_odds"]) <= math.log(3) + 1e-12
    assert said["log_odds"] == pytest.approx(
        math.log(prior / (1 - prior)) + math.fsum(part["log_bayes_factor"] for part in said["parts"])
    )


@pytest.mark.slow
@pytest.mark.parametrize(("prior", "verdict"), [(0.75, "supported"), (0.25, "refuted")])
def test_a_prior_and_opinions_raise_no_false_alarms(prior: float, verdict: str) -> None:
    """Of claims without any effect, looked at after each of 20 runs, at most a quarter may get the verdict."""
    rng, wrong, truth = Random(7), 0, 0.0 if verdict == "supported" else 1.0
    opinion = {"id": "j", "kind": "judged", "verdict": "supports" if prior > 0.5 else "refutes", "judge": "a"}
    for _ in range(300):
        values = [rng.gauss(truth, 2.0) for _ in range(20)]
        design = {**NOISE, "sigma": 2.0, "tau": 0.0}
        wrong += any(
            confidence({"id": "h", "prior": prior}, {"d": design}, [*measured(values[:n]), opinion], {})["reached"]
            == verdict
            for n in range(2, 21)
        )
    assert wrong / 300 <= 0.25 + 3 * math.sqrt(0.25 * 0.75 / 300)


@pytest.mark.slow
def test_no_verdict_rests_on_a_word_and_a_little_evidence(lab: Lab) -> None:
    claim = lab.hypotheses.add("it lowers loss", prior=0.75)
    ran(lab, claim.id, "1.00", direction="min", mde=1.0, baseline=1.4, noise=0.5)
    lab.hypotheses.update(claim.id, confidence=0.95, why="I believe it")
    found = lab.hypotheses.get(claim.id)
    assert (found.status, found.needs, found.decided_by) == ("open", "evidence", None)
    assert any("does not pass it by itself" in flag for flag in found.flags)


def test_a_status_by_hand_is_a_persons_and_bounds_nothing(lab: Lab) -> None:
    from perpetual_report.document import render

    claim = lab.hypotheses.add("it lowers loss")
    by_hand = lab.hypotheses.update(claim.id, status="supported", why="seen elsewhere")
    assert (by_hand.decided_by, by_hand.false_alarm_bound) == ("person", None)
    assert lab.status()["hypotheses"][0]["decided_by"] == "person"
    assert "decided by person, no false-alarm bound" in lab.brief()
    text = render(lab)
    assert "by hand (person)" in text
    assert "0 of 0 tested hypotheses" in text, "of no family of tests"
    assert lab.storage.verify() == []
    opened = lab.hypotheses.update(claim.id, status="open")
    assert (opened.decided_by, opened.false_alarm_bound) == (None, 1.0)


def test_a_prior_of_an_earlier_version_is_clipped_and_named(lab: Lab) -> None:
    """As a project has it that was made before priors were bounded."""
    claim = lab.hypotheses.add("it lowers loss")
    store = lab.context.store
    with store.transaction() as tx:
        body = store.get("hypothesis", claim.id).body  # type: ignore[union-attr]
        tx.put("hypothesis", claim.id, {**body, "prior": 0.95, "confidence": 0.95})
    forget(lab.context.folder)
    with Lab.open(lab.root) as later:
        found = later.hypotheses.get(claim.id)
        assert found.confidence == pytest.approx(0.75)
        assert "its prior of 0.95 counts as 0.75" in found.flags
        told = [event for event in later.events() if event.kind == "rules_changed"]
        assert len(told) == 1
        assert told[0].payload["hypotheses"][claim.id]["was"]["confidence"] == 0.95
        assert later.storage.verify() == []
    with Lab.open(lab.root) as again:
        assert len([event for event in again.events() if event.kind == "rules_changed"]) == 1


# --- some effect, in a direction ---------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [1, 2, 5, 20])
@pytest.mark.parametrize("n", [0.7, 2.0, 9.0])
def test_a_one_sided_e_value_grows_with_the_effect_and_favours_no_loss(nu: float, n: float) -> None:
    ts = (-1e6, -30.0, -3.0, -1.0, 0.0, 1.0, 3.0, 30.0)
    found = [log_e(Statistic(t / math.sqrt(n), 1 / n, nu, n)) for t in ts]
    assert found == sorted(found)
    assert all(math.log(CASH) <= each < 0 for each in found[:5]), "a loss costs the stake but for what is kept"
    two_sided = either(found[-1], found[1])
    assert two_sided < found[-1] <= two_sided + math.log(2)


def test_a_loss_supports_no_claim_of_some_effect_in_a_direction(lab: Lab) -> None:
    claim = lab.hypotheses.add("what was kept helps", metric="loss", direction="min")
    base = ran(lab, None, "0.99")
    ran(lab, claim.id, "1.30", claim="any", baseline=base.id)
    found = lab.hypotheses.get(claim.id)
    assert found.status in ("open", "refuted")
    assert found.confidence < 0.5


# --- noise -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, -0.0, -1.0, math.nan, math.inf])
def test_a_noise_that_is_none_is_refused(lab: Lab, noise: float) -> None:
    claim = lab.hypotheses.add("it lowers loss")
    with pytest.raises(UsageError, match="noise") as problem:
        lab.experiments.propose(claim.id, command="true", metric="loss", direction="min", mde=1.0, baseline=2.0,
                                noise=noise)  # fmt: skip
    assert problem.value.exit == 2
    assert noise != 0 or "--noise" in (problem.value.hint or "")


def test_a_noise_of_nothing_in_an_older_design_declares_nothing() -> None:
    design = {"mu1": 1.0, "mu0": 0.0, "tau": 0.25, "s0": 0.0, "nu0": 2.0}
    said = confidence({"id": "h", "prior": 0.5}, {"d": design}, measured([1.0]), {})
    assert said["confidence"] == 0.5
    assert said["parts"][0]["flags"] == ["noise unknown: one more replicate"]


# --- runs that an agent killed -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "runs", "status", "needs"), [("4", 3, "open", "lost_runs"), ("2", 8, "supported", None)]
)
def test_a_run_that_an_agent_killed_counts_at_the_worst_that_it_had_printed(
    lab: Lab, shown: str, runs: int, status: str, needs: str | None
) -> None:
    """No better than the number that the claim is compared with, which more runs outweigh."""
    claim = lab.hypotheses.add("it lowers loss")
    first_only = f"echo loss={shown}.0$PERPETUAL_SEED && exec sleep 60"
    script = f"test $PERPETUAL_REPLICATE -le 1 && {first_only}; echo loss=2.0$PERPETUAL_SEED"
    (lab.root / "train.sh").write_text(
        f"PERPETUAL_REPLICATE=$(cat n 2>/dev/null || echo 1); echo 2 > n\n{script}\nexit 0\n"
    )
    made = lab.experiments.propose(claim.id, command="sh train.sh", metric="loss", direction="min", mde=1.0,
                                   baseline=3.5, noise=0.1, replicates=runs, wall_s=60.0)  # fmt: skip
    lab.experiments.approve(made.id)
    first = lab.runs.launch(made.id)[0]
    for piece in lab.runs.stream(first.id, follow=True):
        if "loss" in piece:
            break
    with Lab.open(lab.root, actor=AGENT) as agent:
        agent.runs.kill(first.id, grace_s=0.0)
    lab.wait([run.id for run in lab.runs.launch(made.id, every=True)], timeout_s=60)
    found = lab.hypotheses.get(claim.id)
    assert (found.status, found.needs) == (status, needs)
    assert f"lost_runs: 1 of {runs} runs gave no result (1 killed)" in found.flags
    said = "killed_runs: r1 was killed by mcp:c/1 after loss was printed: counted at the worst value seen"
    assert said in found.flags
    assert lab.storage.verify() == []
    assert lab.hypotheses.update(claim.id, status="supported", why="the killed one was mistyped").decided_by == "person"


def test_the_family_of_nothing_has_no_discoveries() -> None:
    assert discoveries({}, 0.05) == []


# --- seeds -------------------------------------------------------------------------------------------------------


def test_a_paired_replicate_takes_the_seed_that_its_partner_ran_with(lab: Lab) -> None:
    """Also a larger one, as earlier versions drew them; so does a retry."""
    base = ran(lab, None, "2.3", 2)
    store = lab.context.store
    with store.transaction() as tx:
        tx.put("run", "r1", {**store.get("run", "r1").body, "seed": 2**62 + 1})  # type: ignore[union-attr]
    claim = lab.hypotheses.add("it lowers loss")
    made = ran(lab, claim.id, "2.1", 2, direction="min", mde=0.1, baseline=base.id, noise=0.1)
    assert [run.seed for run in lab.runs.list(experiment_id=made.id).items if run.replicate == 1] == [2**62 + 1]
    effect = lab.hypotheses.get(claim.id).effect or {}
    assert effect["how"].endswith("of both arms and of their pairs by seed")
    with store.transaction() as tx:
        tx.put("run", "r1", {**store.get("run", "r1").body, "seed": 3})  # type: ignore[union-attr]
    lab.evidence.refold()
    effect = lab.hypotheses.get(claim.id).effect or {}
    assert effect["how"].endswith("of both arms"), "what ran on another seed is no pair, and one pair says nothing"


@pytest.mark.slow
def test_a_failed_run_of_an_earlier_version_is_tried_again_with_its_seed(lab: Lab) -> None:
    lab.experiments.approve(lab.experiments.propose(command="false", wall_s=60.0).id)
    lab.wait([lab.runs.launch("e1")[0].id], timeout_s=60)
    store = lab.context.store
    with store.transaction() as tx:
        tx.put("run", "r1", {**store.get("run", "r1").body, "seed": 2**62 + 1})  # type: ignore[union-attr]
    again = lab.runs.retry("r1")
    assert (again.seed, again.chosen_seed) == (2**62 + 1, False)
    lab.wait([again.id], timeout_s=60)


# --- waiting for nothing -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("output", "words"), [
    ("val_acc=0.9", "it shows val_acc"), ("val_accuracy=nan", "is NaN, infinite, beyond"),
    ("val_accuracy=1e300", "beyond 1e100"), ("val_accuracy: 0,75", "printed with a comma (stdout.log:1)"),
])  # fmt: skip
def test_waiting_for_a_run_that_measured_nothing_fails(
    lab: Lab, output: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = lab.hypotheses.add("it is better", metric="val_accuracy", direction="max", mde=0.1, baseline=0.5)
    lab.experiments.approve(lab.experiments.propose(claim.id, command=f"echo {output}", wall_s=60.0).id)
    monkeypatch.chdir(lab.root)
    assert command_line(["run", "e1", "--wait"]) == 1
    assert command_line(["wait", "e1"]) == 1
    assert words in capsys.readouterr().out
    assert lab.hypotheses.get(claim.id).flags == ("lost_runs: 1 of 1 runs gave no result (1 without the metric)",)


# --- words -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_claim_at_least_is_made_of_an_untested_effect(lab: Lab) -> None:
    """An effect of 0.9 of the mde supports the claim, whose interval excludes the mde."""
    from perpetual_report.document import render

    claim = lab.hypotheses.add("it lowers loss", metric="loss", direction="min", mde=1.0, baseline=3.0)
    ran(lab, claim.id, "2.10", 3, noise=0.01, tau=0.01)
    found = lab.hypotheses.get(claim.id)
    assert found.status == "supported"
    shown = [render(lab), lab.brief(), claim_in_words("loss", "min", 3.0, 1.0), *WORDS.values()]
    for text in shown:
        assert "by at least" not in text
        assert "at least 1" not in text.replace("at least 1 measured", "")
    assert "Predicted: loss lower than 3, planned for 1 (the smallest effect worth having)" in shown[0]
    assert "(better)" in shown[0]


@pytest.mark.parametrize(("design", "words"), [
    (("acc", "max", "e1", 0.05, "improves", "gaussian"),
     "acc higher than e1 (planned for 0.05, the smallest effect worth having)"),
    (("acc", "max", "e1", 0.05, "at_least", "gaussian"),
     "acc higher than e1 (planned for 0.05, the smallest effect worth having)"),  # as older projects call it
    (("acc", "max", "e1", 0.05, "value", "gaussian"),
     "acc exactly 0.05 higher than e1"),
    (("acc", "min", 0.5, None, "any", "gaussian"), "acc lower than 0.5, by any amount"),
    (("acc", None, 0.5, None, "any", "gaussian"), "acc higher or lower than 0.5, by any amount"),
    (("ok", "max", 0.2, 0.6, "at_least", "binary"),
     "rate of ok higher than 0.2 (planned for 0.6, the smallest effect worth having)"),
    (("acc", "max", None, None, "at_least", "gaussian"), "acc higher"),
])  # fmt: skip
def test_a_claim_is_said_in_words_that_hold(design: tuple[Any, ...], words: str) -> None:
    metric, direction, baseline, mde, claim, kind = design
    assert claim_in_words(metric, direction, baseline, mde, claim=claim, kind=kind) == words


def test_more_than_the_mde_is_said_where_that_was_tested() -> None:
    said = claim_in_words("acc", "max", "e1", 0.05, claim="at_least", null_effect=0.05)
    assert said == "acc more than 0.05 higher than e1"


@pytest.mark.slow
@pytest.mark.parametrize(("output", "flag"), [
    ("acc=0.944 train=0.$PERPETUAL_SEED", "2 runs measured exactly 0.944: counted as one"),
    ("acc=0.944 train=0.5", "seed not applied"),
])  # fmt: skip
def test_no_seed_is_said_to_be_ignored_that_another_metric_shows(lab: Lab, output: str, flag: str) -> None:
    claim = lab.hypotheses.add("it is better", metric="acc", direction="max", mde=0.1, baseline=0.8)
    made = lab.experiments.propose(claim.id, command=f"sh -c 'echo {output}'", replicates=2, noise=0.1, wall_s=60.0)
    lab.experiments.approve(made.id)
    lab.wait([run.id for run in lab.runs.launch(made.id, every=True)], timeout_s=60)
    found = lab.hypotheses.get(claim.id)
    more = "" if flag == "seed not applied" else ": one more replicate"  # which would measure the same
    assert found.flags == tuple(sorted((flag, f"noise unknown{more}")))


def test_the_cause_is_the_last_error_line_and_the_configuration_is_shown(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from perpetual_report.document import render

    lab.settings.set_methodology("protected_paths", "nothing/**")
    script = "echo warming up >&2; echo RuntimeError: boom shapes >&2; echo bye >&2; exit 1"
    lab.experiments.approve(
        lab.experiments.propose(command=f"sh -c '{script}'", config={"lr": 0.125}, wall_s=60.0).id
    )  # fmt: skip
    lab.wait([lab.runs.launch("e1")[0].id], timeout_s=60)
    monkeypatch.chdir(lab.root)
    assert command_line(["runs"]) == 0
    assert "exit code 1: RuntimeError: boom shapes" in " ".join(capsys.readouterr().out.split())
    text = render(lab)
    assert "exit code 1: RuntimeError: boom shapes" in text
    assert '{"lr": 0.125}' in text
    assert "boom shapes" in next(note.title for note in lab.memory.list().items)
    assert "boom shapes" in lab.brief()
    assert command_line(["logs", "r1"]) == 0
    assert "stdout is empty; 3 lines on stderr: perpetual logs r1 --stderr" in capsys.readouterr().err


def test_a_hypothesis_names_a_baseline_that_measures_its_metric(lab: Lab) -> None:
    lab.experiments.propose(command="true", metric="val_acc", wall_s=60.0)
    with pytest.raises(UsageError, match="e1 measures val_acc, not accuracy") as problem:
        lab.hypotheses.add("it is better", metric="accuracy", direction="max", mde=0.1, baseline="e1")
    assert problem.value.hint


def test_rows_that_were_taken_back_are_not_counted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = lab.hypotheses.add("it lowers loss")
    row = lab.evidence.add(claim.id, verdict="supports", why="seen")
    lab.evidence.retract(row.id, why="it was another one")
    found = lab.hypotheses.get(claim.id)
    assert (found.evidence_count, found.counting) == (2, 0)
    assert "0 rows" in lab.brief()
    monkeypatch.chdir(lab.root)
    assert command_line(["hypotheses", "show", "h1"]) == 0
    assert "2 rows, 0 of which count" in capsys.readouterr().out


@pytest.mark.slow
def test_a_setting_that_moves_a_verdict_says_which(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = lab.hypotheses.add("it lowers loss", metric="loss", direction="min", mde=1.0, baseline=3.0)
    ran(lab, claim.id, "2.0", 2, noise=0.1)
    monkeypatch.chdir(lab.root)
    assert command_line(["methodology", "set", "require_confirmation", "true"]) == 0
    assert "h1: supported -> open" in capsys.readouterr().err


def test_one_effect_has_one_interval(lab: Lab) -> None:
    """In the hypothesis, the report and `compare`, whichever arm is named first; more runs of the baseline included."""
    from perpetual_report.comparison import compare
    from perpetual_report.effects import effects_of
    from perpetual_report.snapshot import take

    base = ran(lab, None, "2.3", 2)
    claim = lab.hypotheses.add("it lowers loss", metric="loss", direction="min", mde=0.1, baseline=base.id)
    made = ran(lab, claim.id, "2.1", 2, noise=0.01)
    lab.scan()
    more = lab.experiments.approve(lab.experiments.propose(extends=base.id).id)
    lab.wait([lab.runs.launch(more.id)[0].id], timeout_s=60)
    effect = lab.hypotheses.get(claim.id).effect
    assert effect is not None
    assert (effect["n"], effect["n_baseline"], effect["metric"]) == (2, 3, "loss")
    assert effect["low"] < 0.2 < effect["high"]
    reported = effects_of(take(lab))[made.id].interval
    assert reported is not None
    assert (reported.mean, reported.low, reported.high) == pytest.approx(
        (effect["value"], effect["low"], effect["high"])
    )
    for ids in ((base.id, made.id), (made.id, base.id)):
        pair = compare(lab, ids)["pairs"][0]
        assert (pair["a"], pair["b"], pair["effect"]) == (made.id, base.id, effect)
        notes = compare(lab, ids)["notes"]
        assert any(f"{made.id} against {base.id} is not the difference of the means" in note for note in notes)
        assert pair["difference"] == pytest.approx(-effect["value"])
        assert (pair["n_a"], pair["n_b"]) == (2, 3)
    assert lab.storage.verify() == []


def test_nothing_is_proposed_for_the_reason_that_is_said(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(lab.root)
    lab.experiments.approve(lab.experiments.propose(command="true", metric="acc", wall_s=60.0).id)
    lab.hypotheses.add("a grid helps", params={"lr": [0.1, 0.2]})
    claim = lab.hypotheses.add("it is better", metric="acc", direction="max", mde=0.1, baseline="e1")
    lab.experiments.approve(lab.experiments.propose(claim.id, command="echo acc=1", wall_s=60.0).id)
    assert command_line(["propose", "--auto", "1"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "h1: it has no experiment that claims something" in said
    assert "h2: e2 waits for its baseline e1" in said

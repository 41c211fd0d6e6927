"""What a claim says and what decides it, by the rule of evidence: through the lab, with real runs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import UsageError
from perpetual.records import Experiment, Hypothesis
from perpetual.science.evalues import Statistic, log_e
from tests.kernel.by_hand import log_e_values, log_odds_of


def _measured(lab: Lab, values: list[float | str], hypothesis: Hypothesis | None = None, **design: Any) -> Experiment:
    """An experiment whose run r1 prints the first value, r2 the second, and so on; each was run once, at once."""
    lab.settings.set_methodology("max_concurrent_runs", "16")
    first = len(lab.runs.list(limit=1000).items) + 1
    script = lab.root / f"values{first}.txt"
    script.write_text("\n" * (first - 1) + "".join(f"{_line(value)}\n" for value in values))
    command = f"sh -c 'sh -c \"$(sed -n ${{PERPETUAL_RUN#r}}p {script.name})\"'"
    about = hypothesis.id if hypothesis else None
    made = lab.experiments.propose(about, command=command, metric="acc", replicates=len(values), wall_s=60.0, **design)
    lab.experiments.approve(made.id)
    lab.wait([run.id for run in lab.runs.launch(made.id, every=True)], timeout_s=60)
    return lab.experiments.get(made.id)


def _line(value: float | str) -> str:
    return value if isinstance(value, str) else f"echo acc={value!r}"


def _claim(lab: Lab, baseline: Experiment | float = 1.0, **prediction: Any) -> Hypothesis:
    """A hypothesis "acc rises by 0.1" above 1.0, or above a baseline that was run."""
    against = baseline if isinstance(baseline, float) else baseline.id
    given = {"metric": "acc", "direction": "max", "mde": 0.1, "baseline": against, **prediction}
    return lab.hypotheses.add("acc rises", **given)


def _found(lab: Lab, hypothesis: Hypothesis) -> Hypothesis:
    """The hypothesis, once the record holds by itself."""
    assert lab.evidence.refold(check=True) == []
    assert lab.storage.verify() == []
    return lab.hypotheses.get(hypothesis.id)


# --- what a claim says ----------------------------------------------------------------------------------------------


def test_to_improve_is_to_beat_nothing_and_at_least_is_to_beat_the_mde(lab: Lab) -> None:
    values: list[float | str] = [1.105, 1.12, 1.135]
    improves, at_least = _claim(lab), _claim(lab)
    one = _measured(lab, values, improves, tau=0.0)
    other = _measured(lab, values, at_least, tau=0.0, claim="at_least")
    assert (one.design.claim, one.design.null_effect) == ("improves", None)
    assert (other.design.claim, other.design.null_effect) == ("at_least", 0.1)
    found, beyond = _found(lab, improves), _found(lab, at_least)
    effects = [value - 1.0 for value in (1.105, 1.12, 1.135)]
    assert found.e_support == pytest.approx(math.exp(log_e_values(effects)[0]))
    assert beyond.e_support == pytest.approx(math.exp(log_e_values([effect - 0.1 for effect in effects])[0]))
    assert (found.status, beyond.status) == ("supported", "open")
    assert (found.sentence or "").startswith("Leans to help: about 0.12 better, between ")
    further = _claim(lab)
    _measured(lab, [1.31, 1.32, 1.33], further, tau=0.0, claim="at_least")
    assert (_found(lab, further).sentence or "").startswith("Helps by at least 0.1: about 0.32 better, between ")
    short = _claim(lab)
    _measured(lab, [1.05, 1.06, 1.04], short, tau=0.0, claim="at_least")
    assert _found(lab, short).status == "refuted", "0.05 is better than nothing, and less than 0.1"


def test_an_effect_far_from_the_claim_refutes_it_the_more(lab: Lab) -> None:
    near, far = _claim(lab), _claim(lab)
    _measured(lab, [0.95, 0.96, 0.94], near)
    _measured(lab, [0.05, 0.06, 0.04], far)
    less, more = _found(lab, near), _found(lab, far)
    assert (less.status, more.status) == ("refuted", "refuted")
    assert more.e_refute > less.e_refute
    assert more.false_alarm_bound == pytest.approx(1 / more.e_refute)


def test_a_rate_may_be_compared_with_a_baseline_that_was_run(lab: Lab) -> None:
    base = _measured(lab, [0.0] * 4, kind="binary")
    sampled, typed = _claim(lab, base, mde=0.5), _claim(lab, 0.0, mde=0.5)
    _measured(lab, [1.0] * 4, sampled, kind="binary")
    _measured(lab, [1.0] * 4, typed, kind="binary")
    found = _found(lab, sampled)
    # Both rates averaged over all, beside their largest likelihood where they are equal: one half of eight runs.
    mixed = (math.gamma(4.5) * math.gamma(0.5) / math.gamma(5) / math.pi) ** 2
    assert found.e_support == pytest.approx(mixed * 2**8)
    assert found.status == "supported"
    assert ((found.effect or {})["value"], (found.effect or {})["n_baseline"]) == (1.0, 4)
    assert lab.hypotheses.get(typed.id).e_support > 1e3 * found.e_support, "a number is taken as exact"
    assert not [text for text in found.assumes if text.startswith("typed_baseline")]


def test_the_luck_of_test_items_counts(lab: Lab) -> None:
    values: list[float | str] = [0.81, 0.82, 0.83]
    with_items, without = _claim(lab, 0.75, mde=0.05), _claim(lab, 0.75, mde=0.05)
    assert _measured(lab, values, with_items, tau=0.0, items=100).design.items == 100
    _measured(lab, values, without, tau=0.0)
    found, loose = _found(lab, with_items), _found(lab, without)
    p = (0.82 * 100 + 1) / 102
    luck = math.sqrt(2 * p * (1 - p) / 100)  # two models that disagree at random
    assert found.e_support == pytest.approx(math.exp(log_e_values([0.06, 0.07, 0.08], tau=luck)[0]))
    assert (found.status, loose.status) == ("open", "supported")
    codes = [[text.partition(":")[0] for text in each.assumes] for each in (found, loose)]
    assert ("one_test_set" in codes[0], "one_test_set" in codes[1]) == (False, True)


def test_a_number_that_few_runs_made_is_known_as_well_as_they_know_it(lab: Lab) -> None:
    values: list[float | str] = [1.1, 1.12, 1.14]
    few, exact = _claim(lab), _claim(lab)
    assert _measured(lab, values, few, tau=0.0, baseline_runs=2).design.baseline_runs == 2
    _measured(lab, values, exact, tau=0.0)
    found, sure = _found(lab, few), _found(lab, exact)
    v = 0.0004 / 3 * (1 + 3 / 2)  # its own two runs are as noisy as the claim's three
    assert found.e_support == pytest.approx(math.exp(log_e(Statistic(0.12, v, 2.0, 1 / (1 / 3 + 1 / 2)))))
    assert found.e_support < sure.e_support
    assert (found.effect or {})["n_baseline"] == 2
    assert (sure.effect or {})["n_baseline"] is None
    assert (sure.assumes[0], found.assumes[0].partition(":")[0]) == (
        "typed_baseline: 1 is taken as exact; --baseline-runs N says how many runs it was", "one_test_set",
    )  # fmt: skip


def test_the_noise_of_a_baseline_of_one_run_is_taken_for_granted(lab: Lab) -> None:
    lone, pair = _measured(lab, [1.0]), _measured(lab, [1.0, 1.01])
    few, enough = _claim(lab, lone), _claim(lab, pair)
    experiment = _measured(lab, [1.2, 1.22], few)
    _measured(lab, [1.2, 1.22], enough)
    said = f"lone_baseline: the one run of {lone.id} is taken to be as noisy as those of {experiment.id}"
    assert said in _found(lab, few).assumes
    assert not [text for text in _found(lab, enough).assumes if text.startswith("lone_baseline")]


@pytest.mark.parametrize(
    ("design", "words"),
    [
        ({"items": 1}, "--items must be a whole number from 2 to"),
        ({"baseline_runs": 0}, "--baseline-runs must be a whole number from 1 to"),
        ({"items": 10, "kind": "binary", "baseline": 0.5}, "items belongs to"),
        ({"baseline_runs": 3, "baseline": "e1"}, "runs belongs to a number"),
        ({"paired": True}, "needs a baseline experiment"),
    ],
)
def test_what_a_design_cannot_count_is_refused(lab: Lab, design: dict[str, Any], words: str) -> None:
    lab.experiments.propose(command="true", metric="acc")
    given = {"metric": "acc", "direction": "max", "mde": 0.1, "baseline": 1.0, **design}
    with pytest.raises(UsageError, match=words):
        lab.experiments.propose(lab.hypotheses.add("acc rises").id, command="true", **given)
    assert len(lab.experiments.list().items) == 1


# --- what decides ---------------------------------------------------------------------------------------------------


def test_a_stale_comparison_decides_nothing_until_its_baseline_is_run_anew(lab: Lab) -> None:
    program = lab.root / "score.sh"
    program.write_text("echo acc=1.0$PERPETUAL_SEED\n")
    base = lab.experiments.propose(command="sh score.sh", metric="acc", replicates=3, wall_s=60.0)
    lab.experiments.approve(base.id)
    lab.wait([run.id for run in lab.runs.launch(base.id, every=True)], timeout_s=60)
    program.write_text("echo acc=3.0$PERPETUAL_SEED\n")  # the evaluation is mended in between
    hypothesis = _claim(lab, base)
    claim = lab.experiments.propose(hypothesis.id, command="sh score.sh --new", replicates=3, wall_s=60.0)
    lab.experiments.approve(claim.id)
    lab.wait([run.id for run in lab.runs.launch(claim.id, every=True)], timeout_s=60)
    found = _found(lab, hypothesis)
    assert (found.status, found.confidence, found.e_support, found.counting) == ("open", 0.5, 1.0, 3)
    assert any(flag.startswith("stale: e2 ran on code ") for flag in found.flags)
    assert (found.sentence or "").startswith("Undecided, as baseline and claim ran on other code: about 2")
    anew = lab.experiments.approve(lab.experiments.rebaseline(base.id).id)
    lab.wait([run.id for run in lab.runs.launch(anew.id, every=True)], timeout_s=60)
    found = _found(lab, hypothesis)
    assert not [flag for flag in found.flags if flag.startswith("stale")]
    assert "ran on other" not in (found.sentence or "")
    assert found.e_refute > 1 > found.e_support, "3 is no better than 3"


def test_a_lost_run_holds_a_verdict_open_until_it_is_run_again(lab: Lab) -> None:
    base = _measured(lab, [1.0, 1.01, 0.99, 1.0])
    hypothesis = _claim(lab, base)
    gate = lab.root / "gate"
    claim = _measured(lab, [1.3, 1.33, "test -e gate && echo acc=1.31"], hypothesis, tau=0.0)
    found = _found(lab, hypothesis)
    assert (found.status, found.needs, found.counting) == ("open", "lost_runs", 2)
    assert "lost_runs: 1 of 3 runs gave no result (1 failed)" in found.flags
    assert any("at the worst value seen they would change the verdict" in flag for flag in found.flags)
    (lost,) = [run for run in lab.runs.list(experiment_id=claim.id).items if run.status == "failed"]
    gate.touch()
    script = lab.root / "values5.txt"  # each run reads its own line, and the second attempt is run r8
    script.write_text(script.read_text() + "test -e gate && echo acc=1.31\n")
    again = lab.runs.retry(lost.id)
    lab.wait([again.id], timeout_s=60)
    found = _found(lab, hypothesis)
    assert (found.status, found.needs, found.counting) == ("supported", None, 3)
    assert "lost_runs: 1 of 4 runs gave no result (1 failed)" in found.flags, "it did end without a result"


def test_runs_lost_in_the_baseline_hold_it_open_too(lab: Lab) -> None:
    base = _measured(lab, [1.0, 1.05, 0.95, "echo acc=1.25; exit 3"])
    hypothesis = _claim(lab, base)
    _measured(lab, [1.2, 1.25, 1.15, 1.2], hypothesis, tau=0.0)
    found = _found(lab, hypothesis)
    assert (found.status, found.needs) == ("open", "lost_runs"), "the lost one had shown 1.25"
    assert "lost_runs: 1 of 4 runs of the baseline e1 gave no result (1 failed)" in found.flags


def test_one_run_says_nothing_and_two_know_a_noise(lab: Lab) -> None:
    hypothesis = _claim(lab)
    _measured(lab, [1.5], hypothesis, noise=0.001)
    found = _found(lab, hypothesis)
    assert (found.confidence, found.e_support, found.e_refute) == (0.5, 1.0, 1.0)
    assert found.flags == ("noise unknown: one more replicate",)
    assert found.sentence == "Undecided: the noise is not known yet; one more run is needed."


# --- what is taken for granted --------------------------------------------------------------------------------------


def test_a_claim_shares_the_seeds_of_its_baseline_unless_it_says_otherwise(lab: Lab) -> None:
    base = _measured(lab, [1.0, 3.0, 5.0])  # the seeds differ by far more than the effect
    paired, apart = _claim(lab, base), _claim(lab, base)
    one = _measured(lab, [1.21, 3.2, 5.19], paired, tau=0.0, underpowered=True)
    other = _measured(lab, [1.21, 3.2, 5.19], apart, tau=0.0, paired=False, underpowered=True)
    assert (one.design.paired, other.design.paired) == (True, False)
    seeds = {
        item.id: {run.replicate: run.seed for run in lab.runs.list(experiment_id=item.id).items}
        for item in (base, one, other)
    }
    assert seeds[one.id] == seeds[base.id]
    assert not {*seeds[other.id].values()} & {*seeds[base.id].values()}
    together, alone = _found(lab, paired), _found(lab, apart)
    assert together.e_support > 5 * alone.e_support
    codes = [[text.partition(":")[0] for text in each.assumes] for each in (together, alone)]
    assert codes == [["one_test_set", "drift"], ["one_test_set", "correlated_seeds", "drift"]]
    assert "of their pairs by seed" in (together.effect or {})["how"]


def test_a_verdict_is_led_by_a_sentence(lab: Lab) -> None:
    hypothesis = _claim(lab)
    assert _found(lab, hypothesis).sentence is None
    _measured(lab, [1.2, 1.22, 1.21, 1.2], hypothesis, tau=0.0)
    found = _found(lab, hypothesis)
    effect, labs = found.effect or {}, math.floor(found.e_support)
    assert found.sentence == (
        f"Helps: about 0.21 better, between {effect['low']:.2g} and {effect['high']:.2g}; 4 runs; a false claim would "
        f"look this good in at most 1 of {labs} labs."
    )
    undecided = _claim(lab)
    _measured(lab, [1.2, 0.9, 1.1], undecided)
    found = _found(lab, undecided)
    assert (found.sentence or "").startswith("Undecided: about 0.067 better, between ")
    assert found.confidence == pytest.approx(
        1 / (1 + math.exp(-log_odds_of(*log_e_values([0.2, -0.1, 0.1], mde=0.1, tau=0.025))))
    )
    by_hand = lab.hypotheses.update(undecided.id, status="refuted", why="seen elsewhere")
    assert by_hand.sentence == "Refuted, as a person said; no runs decided it."


def test_what_is_picked_is_previewed_beside_the_designs_of_its_baseline(lab: Lab) -> None:
    """The first run of a second design is one more run of the arm that both make."""
    base = _measured(lab, [1.0, 1.03, 0.97, 1.01])
    hypothesis = _claim(lab, base)
    _measured(lab, [1.1, 1.058, 1.07], hypothesis)
    assert _found(lab, hypothesis).status == "open"
    second = lab.experiments.propose(hypothesis.id, command="echo acc=1.1", wall_s=60.0)
    lab.experiments.approve(second.id)
    reasons = {pick.experiment.id: pick.score.reason for pick in lab.experiments.propose_auto(9, dry_run=True)}
    assert "would support h1" in reasons[second.id]

"""What an experiment may claim, and what the ledger makes of it: with real runs that print what the case needs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import Conflict, UsageError
from perpetual.lab.evidence import confidence
from perpetual.lab.runs import settle
from perpetual.records import Evidence, Experiment, Hypothesis
from perpetual.slots.store import Document, Transaction
from tests.kernel.by_hand import log_e_values, log_e_values_of_rate, log_odds_of


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A project without runs."""
    with Lab.init(tmp_path / "project", name="designs", methodology={"max_concurrent_runs": 8}) as made:
        yield made


def _values(lab: Lab, name: str, values: list[str]) -> str:
    """A command that prints the next of these values each time it runs, so that replicates differ."""
    script = lab.root / f"{name}.sh"
    cases = "".join(f"{n}) echo score={value};;\n" for n, value in enumerate(values, 1))
    script.write_text(
        f"n=$(cat {name}.n 2>/dev/null || echo 0); n=$((n+1)); echo $n > {name}.n\ncase $n in\n{cases}esac\n"
    )
    return f"sh {name}.sh"


def _run(lab: Lab, experiment: Experiment) -> None:
    """Every replicate, one after another: the order of the values is part of the case."""
    lab.experiments.approve(experiment.id)
    for _ in range(experiment.design.replicates):
        lab.wait([lab.runs.launch(experiment.id)[0].id], timeout_s=60)


def _claim(lab: Lab, hypothesis: Hypothesis, values: list[str], name: str = "claim", **design: Any) -> Experiment:
    given: dict[str, Any] = {"metric": "score", "direction": "max", "mde": 1.0, "noise": 0.2, "baseline": 0.0}
    given = {key: value for key, value in {**given, **design}.items() if value is not None}
    made = lab.experiments.propose(
        hypothesis.id, command=_values(lab, name, values), replicates=len(values), wall_s=60.0, **given
    )
    _run(lab, made)
    return made


def _measured(lab: Lab, hypothesis: Hypothesis) -> list[Evidence]:
    return [row for row in lab.evidence.list(hypothesis_id=hypothesis.id).items if row.kind == "measured"]


def _log_odds(lab: Lab, hypothesis: Hypothesis) -> float:
    p = lab.hypotheses.get(hypothesis.id).confidence
    return math.log(p / (1 - p))


def test_a_binary_claim_counts_successes(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it converges more often")
    _claim(lab, hypothesis, ["1", "1", "0"], kind="binary", baseline=0.3, mde=0.4, noise=None)
    expected = log_e_values_of_rate(2, 3, rate=0.3, mde=0.4)
    assert _log_odds(lab, hypothesis) == pytest.approx(log_odds_of(*expected))
    assert lab.hypotheses.get(hypothesis.id).e_support == pytest.approx(math.exp(expected[0]))


def test_a_binary_claim_may_be_of_a_lower_rate(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it diverges less often")
    _claim(lab, hypothesis, ["0", "0"], kind="binary", baseline=0.5, mde=0.4, noise=None, direction="min")
    expected = log_e_values_of_rate(2, 2, rate=0.5, mde=0.4)  # of failures, which are to become more frequent
    assert _log_odds(lab, hypothesis) == pytest.approx(log_odds_of(*expected))
    assert lab.hypotheses.get(hypothesis.id).e_refute == pytest.approx(math.exp(expected[1]))


@pytest.mark.parametrize(("on_crash", "direction"), [("refutes", -1), ("supports", 1)])
def test_a_crash_counts_where_that_is_the_claim(lab: Lab, on_crash: str, direction: int) -> None:
    hypothesis = lab.hypotheses.add("it runs at all")
    made = lab.experiments.propose(
        hypothesis.id, command="false", metric="score", direction="max", kind="binary", baseline=0.2, mde=0.6,
        on_crash=on_crash, wall_s=60.0,
    )  # fmt: skip
    _run(lab, made)
    expected = log_e_values_of_rate(1 if on_crash == "supports" else 0, 1, rate=0.2, mde=0.6)
    assert _log_odds(lab, hypothesis) == pytest.approx(log_odds_of(*expected))
    assert math.copysign(1, _log_odds(lab, hypothesis)) == direction
    assert [row.value for row in _measured(lab, hypothesis)] == [None]


def test_a_crash_is_no_evidence_otherwise(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it succeeds more often")
    made = lab.experiments.propose(
        hypothesis.id, command="false", metric="score", direction="max", kind="binary", baseline=0.2, mde=0.6
    )
    _run(lab, made)
    assert lab.hypotheses.get(hypothesis.id).evidence_count == 0


def test_any_effect_is_weighed_by_the_default_test(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it makes some difference")
    _claim(lab, hypothesis, ["1.0", "1.2", "1.4"], claim="any", mde=None, noise=None)
    expected = log_e_values([1.0, 1.2, 1.4])  # in its direction, since it has one
    assert _log_odds(lab, hypothesis) == pytest.approx(log_odds_of(*expected))
    assert lab.hypotheses.get(hypothesis.id).evidence_count == 3


def test_one_run_says_nothing_of_any_effect(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it makes some difference")
    _claim(lab, hypothesis, ["1.0"], claim="any", mde=None, noise=None)
    found = lab.hypotheses.get(hypothesis.id)
    assert found.confidence == 0.5
    assert "noise unknown: one more replicate" in found.flags


@pytest.mark.parametrize(
    ("design", "words"),
    [
        ({"kind": "ternary"}, "kind of metric"),
        ({"claim": "maybe"}, "claim"),
        ({"claim": "any", "mde": 1.0}, "some effect"),
        ({"claim": "none", "mde": 1.0}, "without a claim"),
        ({"kind": "binary", "mde": 0.5, "baseline": 0.8}, "expected rate"),
        ({"kind": "binary", "mde": 0.5, "baseline": 1.8}, "rate between 0 and 1"),
        ({"kind": "binary", "claim": "any"}, "which rate"),
        ({"mde": 0.5, "on_crash": "refutes"}, "binary claim"),
        ({"mde": 0.5, "on_crash": "explodes"}, "outcome of a crash"),
        ({"mde": 0.5, "proxy": {"args": "--short"}}, "must be an experiment"),
        ({"mde": 0.5, "proxy": {"argz": "--short"}, "baseline": "e1"}, "key of a proxy"),
        ({"mde": 0.5, "proxy": {"args": " "}, "baseline": "e1"}, "cheaper"),
        ({"mde": 0.5, "proxy": {"args": "-s", "tau": "wide"}, "baseline": "e1"}, "must be a number"),
        ({"confirmation": True, "claim": "none", "mde": None}, "needs a claim"),
    ],
)
def test_a_design_that_predicts_nothing_is_refused(lab: Lab, design: dict[str, Any], words: str) -> None:
    lab.experiments.propose(command="true", metric="score")
    hypothesis = lab.hypotheses.add("it matters")
    given = {"metric": "score", "direction": "max", "baseline": 0.0, **design}
    with pytest.raises(UsageError, match=words) as caught:
        lab.experiments.propose(hypothesis.id, command="true", **given)
    assert "confirmation" not in design or "--claim improves" in str(caught.value.hint)
    assert len(lab.experiments.list().items) == 1


def test_the_same_design_under_another_number_of_replicates_is_pooled(lab: Lab) -> None:
    """Else a claim could be repeated, a little differently each time, until luck of one implementation counts often."""
    pooled, once = lab.hypotheses.add("in two parts"), lab.hypotheses.add("in one")
    first = lab.experiments.propose(
        pooled.id, command=_values(lab, "parts", ["1.1", "1.2", "0.9"]), metric="score", direction="max", mde=1.0,
        noise=0.2, baseline=0.0, tau=0.3, replicates=2, wall_s=60.0,
    )  # fmt: skip
    _run(lab, first)
    more = lab.experiments.propose(
        pooled.id, command=first.command, metric="score", direction="max", mde=1.0, noise=0.2, baseline=0.0, tau=0.1,
        replicates=1, cost_run_hours=0.5, wall_s=60.0,
    )  # fmt: skip
    _run(lab, more)
    _claim(lab, once, ["1.1", "1.2", "0.9"], "whole", tau=0.3)
    assert [row.value for row in _measured(lab, pooled)] == [1.1, 1.2, 0.9]
    assert _log_odds(lab, pooled) == pytest.approx(_log_odds(lab, once))


def test_an_extension_has_the_specification_of_its_source(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    first = _claim(lab, hypothesis, ["0.5", "0.6"], noise=1.0)
    assert lab.hypotheses.get(hypothesis.id).status == "open"
    more = lab.experiments.propose(extends=first.id, replicates=2)
    assert (more.command, more.config, more.resources, more.status) == (
        first.command, first.config, first.resources, "proposed",
    )  # fmt: skip
    assert more.spec_hash == lab.experiments.get(first.id).spec_hash
    assert more.title == f"more of {first.id}: {first.title}"
    with pytest.raises(Conflict, match="replicates of its own"):
        lab.experiments.propose(extends=more.id, replicates=2)
    with pytest.raises(UsageError, match="its specification"):
        lab.experiments.propose(extends=first.id, command="true")


def test_nothing_is_extended_once_it_is_decided(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add("it matters")
    first = _claim(lab, hypothesis, ["2.5", "2.6", "2.55", "2.5", "2.6", "2.5"])
    assert lab.hypotheses.get(hypothesis.id).status == "supported"
    with pytest.raises(Conflict, match="is supported at confidence"):
        lab.experiments.propose(extends=first.id, replicates=2)


def test_more_runs_of_a_baseline_measure_its_noise(lab: Lab) -> None:
    baseline = lab.experiments.propose(
        command=_values(lab, "base", ["0.0", "0.1", "0.2", "0.1"]), metric="score", replicates=2, wall_s=60.0
    )
    _run(lab, baseline)
    hypothesis = lab.hypotheses.add("it matters")
    _claim(lab, hypothesis, ["0.9", "0.8"], baseline=baseline.id)
    before = lab.hypotheses.get(hypothesis.id).confidence
    _run(lab, lab.experiments.propose(extends=baseline.id, replicates=2))
    after = lab.hypotheses.get(hypothesis.id).confidence
    assert after != before
    assert lab.evidence.refold(check=True) == []
    assert lab.storage.verify() == []


def test_users_of_a_baseline_are_known_among_many_experiments(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A baseline's run refolds whom it concerns, those proposed since included, and does not read all the others."""
    baseline = lab.experiments.propose(command="echo score=1", metric="score", direction="max", replicates=8)
    lab.experiments.approve(baseline.id)
    told: list[list[str]] = []

    def refolded(ctx: Any, tx: Any, baseline_id: str) -> list[str]:
        told.append(confidence.refold_users_of(ctx, tx, baseline_id))
        return told[-1]

    def claim(number: int) -> str:
        made = lab.hypotheses.add(f"it rises {number}", metric="score", direction="max", mde=0.1, baseline=baseline.id)
        lab.experiments.propose(made.id, command=f"echo score={number}")
        return made.id

    monkeypatch.setattr(settle, "refold_users_of", refolded)
    monkeypatch.setattr(confidence, "KEEP_EVERY", 5)
    first = claim(1)
    for number in range(5):
        lab.experiments.propose(command=f"echo {number}")
    lab.wait([lab.runs.launch(baseline.id)[0].id], timeout_s=60)
    second = claim(2)
    read: list[str] = []
    get = Transaction.get

    def reading(self: Transaction, kind: str, id: str) -> Document | None:
        read.append(id)
        return get(self, kind, id)

    monkeypatch.setattr(Transaction, "get", reading)
    lab.wait([lab.runs.launch(baseline.id)[0].id], timeout_s=60)
    assert told == [[first], [first, second]]
    assert "e8" in read
    assert not {"e3", "e4", "e5", "e6", "e7"} & {*read}, "of these it was known"


def test_what_others_are_compared_with_is_not_read_at_an_end(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's end costs the same after a long history: of the kept folds those of its own baseline are read."""
    monkeypatch.setattr(confidence, "KEEP_EVERY", 1)
    baselines = []
    for number in range(3):
        made = lab.experiments.propose(command=f"echo score={number}", metric="score", direction="max", replicates=8)
        lab.experiments.approve(made.id)
        claim = lab.hypotheses.add(f"rises {number}", metric="score", direction="max", mde=0.1, baseline=made.id)
        lab.experiments.propose(claim.id, command=f"echo score={number}.5")
        baselines.append((made.id, claim.id))
    lab.wait([lab.runs.launch(baselines[0][0])[0].id], timeout_s=60)  # what was proposed is kept now
    read: list[str] = []
    get = Transaction.get

    def reading(self: Transaction, kind: str, id: str) -> Document | None:
        found = get(self, kind, id)
        if kind == "fold" and found is not None:
            read.append(f"{id} {found.body}")
        return found

    monkeypatch.setattr(Transaction, "get", reading)
    (mine, claim_of_mine), *others = baselines
    lab.wait([lab.runs.launch(mine)[0].id], timeout_s=60)
    assert any(f"'{claim_of_mine}'" in one for one in read)
    assert not [one for one in read for _, claim_of_other in others if f"'{claim_of_other}'" in one]


def test_a_claim_past_the_threshold_waits_for_its_confirmation(tmp_path: Path) -> None:
    with Lab.init(tmp_path / "project", name="held out", methodology={"require_confirmation": True}) as lab:
        hypothesis = lab.hypotheses.add("it matters")
        _claim(lab, hypothesis, ["1.5", "1.6"])
        found = lab.hypotheses.get(hypothesis.id)
        assert (found.status, found.needs) == ("open", "confirmation")
        assert found.confidence > 0.8
        assert any("confirmation" in flag for flag in found.flags)
        assert any("--confirmation" in step for step in lab.status()["next"])
        _claim(lab, hypothesis, ["1.4", "1.3"], "kept_back", confirmation=True)
        found = lab.hypotheses.get(hypothesis.id)
        assert (found.status, found.needs, found.flags) == ("supported", None, ())


def test_a_confirmation_that_fails_confirms_nothing(tmp_path: Path) -> None:
    with Lab.init(tmp_path / "project", name="held out", methodology={"require_confirmation": True}) as lab:
        hypothesis = lab.hypotheses.add("it matters", prior=0.75)
        _claim(lab, hypothesis, ["1.5", "1.6", "1.55", "1.52"])
        _claim(lab, hypothesis, ["1.9", "0.5"], "kept_back", confirmation=True)
        found = lab.hypotheses.get(hypothesis.id)
        assert found.confidence > 0.95
        for_it, against_it = log_e_values([1.9, 0.5], mde=1.0, tau=0.25, noise=0.2)
        assert log_odds_of(for_it, against_it) < math.log(3), "what was kept back says next to nothing by itself"
        assert (found.status, found.needs) == ("open", "confirmation")


def test_stand_ins_alone_decide_nothing(lab: Lab) -> None:
    """The proposers ask for the stand-ins first, then for the experiment itself."""
    baseline = lab.experiments.propose(
        command=_values(lab, "base", ["0.0", "0.1", "0.0", "0.1", "0.0", "0.1"]), metric="score", replicates=2,
        wall_s=60.0,
    )  # fmt: skip
    _run(lab, baseline)
    hypothesis = lab.hypotheses.add("it matters")
    values = _values(lab, "claim", ["3.1", "3.2", "3.0"])
    whole = lab.experiments.propose(
        hypothesis.id, command=values, metric="score", direction="max", mde=1.0, noise=0.2, baseline=baseline.id,
        replicates=2, proxy={"args": "--short", "cost_run_hours": 0.01, "tau": 0.2}, wall_s=60.0,
    )  # fmt: skip
    (below,) = [item for item in _proposed(lab) if item.design.proxy_of == baseline.id]
    assert (below.command, below.design.claim) == (f"{baseline.command} --short", None)
    _run(lab, below)
    (short,) = [item for item in _proposed(lab) if item.design.proxy_of == whole.id]
    assert (short.command, short.design.tau, short.design.baseline) == (f"{values} --short", 0.2, below.id)
    _run(lab, short)
    found = lab.hypotheses.get(hypothesis.id)
    assert found.confidence > 0.8
    assert (found.status, found.needs) == ("open", "full_scale")
    lab.experiments.approve(whole.id)
    lab.wait([lab.runs.launch(whole.id)[0].id], timeout_s=60)
    assert lab.hypotheses.get(hypothesis.id).status == "supported"


def test_the_best_picks_begin_with_the_stand_in_of_a_baseline(lab: Lab) -> None:
    baseline = lab.experiments.propose(command="echo score=0.1", metric="score", replicates=2, wall_s=60.0)
    _run(lab, baseline)
    hypothesis = lab.hypotheses.add("it matters")
    whole = lab.experiments.propose(
        hypothesis.id, command="true", metric="score", direction="max", mde=1.0, noise=0.2, baseline=baseline.id,
        proxy={"args": "--short", "cost_run_hours": 0.01, "tau": 0.2}, wall_s=60.0,
    )  # fmt: skip
    lab.experiments.approve(whole.id)
    looked, made = (lab.experiments.propose_auto(2, dry_run=dry)[0] for dry in (True, False))
    assert (looked.score.reason, made.score.reason) == (f"a cheaper look at {baseline.id} first",) * 2
    assert (made.new, made.experiment.design.proxy_of) == (True, baseline.id)
    assert made.experiment.command == "echo score=0.1 --short"
    assert all(pick.experiment.design.proxy_of != baseline.id for pick in lab.experiments.propose_auto(2))


def _proposed(lab: Lab) -> list[Experiment]:
    lab.loop.propose()
    return [item for item in lab.experiments.list(limit=1000).items if item.status == "proposed"]


def test_a_thin_baseline_gets_its_noise_floor(lab: Lab) -> None:
    baseline = lab.experiments.propose(command="echo score=0.1", metric="score", replicates=2, wall_s=60.0)
    _run(lab, baseline)
    hypothesis = lab.hypotheses.add("it matters")
    lab.experiments.propose(
        hypothesis.id, command="true", metric="score", direction="max", mde=1.0, baseline=baseline.id, noise=0.2
    )
    floors = [item for item in _proposed(lab) if item.title.startswith(f"more of {baseline.id}")]
    assert [item.design.replicates for item in floors] == [2]
    assert len([item for item in _proposed(lab) if item.title.startswith("more of")]) == 1


def test_many_replicates_are_queued_at_once_without_reading_all_of_them_for_each(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.queue.set_state("paused")
    made = lab.experiments.propose(command="true", metric="score", replicates=12)
    lab.experiments.approve(made.id)
    looks: list[int] = []
    find = Transaction.find

    def finding(self: Transaction, kind: str, /, **equals: Any) -> list[Document]:
        found = find(self, kind, **equals)
        looks.append(len(found) if kind == "run" and "experiment_id" in equals else 0)
        return found

    monkeypatch.setattr(Transaction, "find", finding)
    assert len(lab.runs.launch(made.id, every=True)) == 12
    assert sum(looks) <= 2 * 12
    assert lab.experiments.get(made.id).runs == {"queued": 12}


_OTHERS: dict[str, Any] = {
    "command": "true", "config": {"lr": 0.1}, "cwd": "code", "env": {"A": "b"}, "metric": "m", "direction": "max",
    "mde": 0.1, "noise": 0.1, "tau": 0.1, "baseline": 1.0, "paired": True, "kind": "binary", "claim": "any",
    "on_crash": "refutes", "confirmation": True, "proxy": {"args": "--fast"}, "proxy_of": "e1", "cost_run_hours": 1.0,
    "items": 100, "baseline_runs": 3, "underpowered": True,
    "guards": ["n:min:0.1"], "stop_rule": "exit:75", "runs_of": "e1",
    "changes": "code", "gpus": 1, "gpu_memory_bytes": 2**30, "cpus": 2, "wall_s": 60.0, "no_output_s": 60.0,
    "memory_bytes": 2**30, "nodes": 1, "scheduler": "local", "engine": {"partition": "long"},
    "isolate": True, "needs_artifacts": ["e1/model.pt"],
}  # fmt: skip


def test_an_extension_says_nothing_that_its_source_has_said(lab: Lab) -> None:
    from dataclasses import fields

    from perpetual.lab.ledger.specification import Specification

    own = {"extends", "title", "notes", "tags", "priority", "replicates"}
    assert set(_OTHERS) == {field.name for field in fields(Specification)} - own, "say what a new field is here"
    source = lab.experiments.propose(command="true")
    for name, value in _OTHERS.items():
        with pytest.raises(UsageError, match=f"and {name} would be another"):
            lab.experiments.propose(extends=source.id, **{name: value})
    with pytest.raises(TypeError, match="metrc"):
        lab.experiments.propose(metrc="m")  # type: ignore[call-arg]

"""A stopping rule that both arms declare: a run that it ends counts at its last value; what anybody ends does not."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import UsageError
from perpetual.records import Experiment
from perpetual.science import judge, judge_many
from tests.support import until

# It stops itself with code 75 where it looks bad half way. With the word `hang` it sleeps far beyond its wall limit, so
# that the supervisor ends it.
PROGRAM = """
import os, random, sys, time
r = random.Random(os.environ["PERPETUAL_SEED"] + sys.argv[2])
half = float(sys.argv[1]) + r.gauss(0, 0.02)
print("acc:", half, flush=True)
if sys.argv[2].startswith("hang"):
    time.sleep(60)
if sys.argv[2].startswith("stop"):
    sys.exit(75)
print("acc:", half + r.gauss(0, 0.02))
"""


def proposed(lab: Lab, arguments: str, **more: Any) -> Experiment:
    """An approved experiment, and its runs launched."""
    claim = lab.hypotheses.add(f"helps {arguments}").id if "baseline" in more else None
    made = lab.experiments.propose(
        claim, command=f"{sys.executable} two.py {arguments}", metric="acc", direction="max",
        **{"replicates": 3, **more},
    )  # fmt: skip
    lab.experiments.approve(made.id)
    lab.runs.launch(made.id, every=True)
    return made


def ended(lab: Lab, experiment: Experiment) -> list[Any]:
    def runs() -> list[Any]:
        lab.scan()
        found = lab.runs.list(experiment_id=experiment.id).items
        return [run for run in found if run.ended_at is not None]

    until(lambda: len(runs()) == experiment.design.replicates)
    return runs()


@pytest.fixture
def lab(project: Path) -> Any:
    with Lab.open(project) as lab:
        (lab.config.root / "two.py").write_text(PROGRAM)
        yield lab


def test_runs_that_the_declared_exit_code_ends_count_in_both_arms(lab: Lab) -> None:
    base = proposed(lab, "0 stop-a", stop_rule="exit:75")
    assert {run.status for run in ended(lab, base)} == {"done"}
    claim = proposed(lab, "0.5 stop-b", baseline=base.id, mde=0.2)  # takes over its baseline's rule
    runs = ended(lab, claim)
    assert claim.design.stop_rule == "exit:75"
    assert all(run.exit_code == 75 and "stopped by its rule exit:75" in run.reason for run in runs)
    found = lab.hypotheses.get(claim.hypothesis_id or "")
    assert found.status == "supported"
    assert found.counting == 3
    assert not any(text.startswith("lost_runs") for text in found.flags)
    assert any(text.startswith("stop_rule") for text in found.assumes)
    assert lab.storage.verify() == []


def test_without_a_rule_the_same_runs_are_lost(lab: Lab) -> None:
    base = proposed(lab, "0 a", replicates=1)
    claim = proposed(lab, "0.5 stop-b", baseline=base.id, mde=0.2, replicates=2)
    assert {run.status for run in ended(lab, claim)} == {"failed"}
    assert "lost_runs: 2 of 2" in " ".join(lab.hypotheses.get(claim.hypothesis_id or "").flags)


def test_a_run_counts_at_its_wall_limit_and_not_where_it_was_killed(lab: Lab) -> None:
    base = proposed(lab, "0 hang-a", stop_rule="wall", wall_s=1.0, replicates=2)
    shown = ended(lab, base)
    assert [(run.status, run.metrics["acc"] is not None) for run in shown] == [("done", True)] * 2
    limited = {"stop_rule": "wall", "wall_s": 30.0, "replicates": 1}
    lasting = proposed(lab, "0 hang-c", **limited)
    quiet = proposed(lab, "0 hang-d", **limited, no_output_s=1.0)
    coded = proposed(lab, "0 hang-e", stop_rule="exit:75", replicates=1)
    killed = [lab.runs.list(experiment_id=item.id).items[0].id for item in (lasting, coded)]
    until(lambda: bool(lab.scan()) and all("acc" in lab.runs.logs(id)["text"] for id in killed))
    with Lab.open(lab.root, actor="mcp:c/1") as agent:
        for id in killed:
            agent.runs.kill(id)
    assert [ended(lab, item)[0].status for item in (lasting, coded, quiet)] == ["killed", "killed", "timeout"]


def test_a_rule_that_the_baseline_does_not_have_is_refused(lab: Lab) -> None:
    claim = lab.hypotheses.add("helps").id
    common: dict[str, Any] = {"command": "true", "metric": "acc", "direction": "max"}
    plain = lab.experiments.propose(None, **common)
    ruled = lab.experiments.propose(None, **common, stop_rule="wall", wall_s=60.0)
    proxy = {"args": "--steps 5", "cost_run_hours": 0.1}
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"baseline": plain.id, "stop_rule": "exit:75"}, "both arms"),
        ({"baseline": 0.5, "stop_rule": "exit:75"}, "both arms"),
        ({"baseline": ruled.id, "stop_rule": "exit:75"}, "both arms"),
        ({"baseline": ruled.id, "wall_s": 90.0}, "needs that limit"),
        ({"baseline": ruled.id}, "needs that limit"),
        ({"baseline": ruled.id, "wall_s": 60.0, "proxy": proxy}, "no proxy"),
        *(({"baseline": plain.id, "stop_rule": rule}, "no stopping rule")
          for rule in ("exit:1", "exit:137", "exit:", "exit:075", "exit:x", "nan", "kill")),
    )  # fmt: skip
    for wrong, said in cases:
        with pytest.raises(UsageError, match=said):
            lab.experiments.propose(claim, **common, mde=0.1, **wrong)
    kept = lab.experiments.propose(claim, **common, mde=0.1, baseline=ruled.id, wall_s=60)
    assert kept.design.stop_rule == ruled.design.stop_rule == "wall:60.0"
    assert kept.spec_hash != plain.spec_hash


def test_runs_under_another_rule_are_not_pooled(lab: Lab) -> None:
    plain, ruled = proposed(lab, "0 a", replicates=2), proposed(lab, "0 stop-a", stop_rule="exit:75", replicates=2)
    first = proposed(lab, "0.5 b", baseline=plain.id, mde=0.2, replicates=2)
    for item in (plain, ruled, first):
        ended(lab, item)
    again = lab.experiments.propose(
        first.hypothesis_id, command=first.command, metric="acc", direction="max", mde=0.2, baseline=ruled.id,
        replicates=2,
    )  # fmt: skip
    assert "says nothing" in again.score.reason
    before = lab.hypotheses.get(first.hypothesis_id or "").e_support
    lab.experiments.approve(again.id)
    lab.runs.launch(again.id, every=True)
    ended(lab, again)
    found = lab.hypotheses.get(first.hypothesis_id or "")
    assert (found.e_support, found.evidence_count) == (before, 4)


# The pure rule, and its false alarms

CLAIM: dict[str, Any] = {"metric": "acc", "direction": "max", "mde": 0.5, "prior": 0.5}


def drawn(chance: Random, seed: int, sd: float, *, stop: bool, by: str | None = None) -> dict[str, Any]:
    """A run of no effect: half of its luck shows half way, where it is stopped if that looks bad."""
    half = chance.gauss(0, sd * 0.7)
    run: dict[str, Any] = {"seed": seed, "status": "done", "value": half + chance.gauss(0, sd * 0.7), "by": None}
    if stop and half < -0.3 * sd:
        run |= {"status": "failed" if by is None else "killed", "value": None, "last_value": half, "by": by,
                "exit_code": 75}  # fmt: skip
    return run


def alarms(count: int, sd: float, *, by: str | None = None) -> tuple[float, float]:
    """The shares of nulls with an e-value of 20 ever, and that were ever called supported."""
    chance = Random(7)
    items: list[Any] = []
    ruled, sizes = {**CLAIM, "stop_rule": "exit:75"}, range(2, 9)
    for _ in range(count):
        base = [drawn(chance, n, 1.0, stop=by is None) for n in range(6)]
        own = [drawn(chance, 50 + n, sd, stop=True, by=by) for n in range(8)]
        items += [[ruled, base, own[:size], {}] for size in sizes]
    found: list[Any] = [*judge_many(items)]
    worlds = [found[at : at + len(sizes)] for at in range(0, len(found), len(sizes))]
    ever = [max(each["e_support"] for each in world) >= 20 for world in worlds]
    said = [any(each["status"] == "supported" for each in world) for world in worlds]
    return sum(ever) / count, sum(said) / count


@pytest.mark.parametrize(("sd", "by"), [(2.0, None), (2.0, "agent:a")])
def test_nulls_stay_within_the_bounds(sd: float, by: str | None) -> None:
    ever, said = alarms(200, sd, by=by)
    assert ever <= 0.05
    assert said <= 0.25


def test_the_rule_reads_last_values_and_never_those_of_a_kill() -> None:
    base = [{"seed": n, "value": value} for n, value in enumerate((0.0, 0.1, -0.1, 0.05))]
    good = [{"seed": 10 + n, "value": 0.9 + n / 10} for n in range(3)]

    def said(rule: str | None, **end: Any) -> dict[str, Any]:
        run = {"seed": 20, "value": None, "last_value": 0.8, **end}
        return {**judge({**CLAIM, "stop_rule": rule}, base, [*good, run], {})}

    counted = said("wall", status="timeout")
    assert counted["n_measured"] == said("exit:75", status="failed", exit_code=75)["n_measured"] == 4
    assert "lost_runs" not in counted["cautions"]
    assert "stop_rule" in counted["cautions"]
    for rule, end in (
        (None, {"status": "timeout"}),
        ("wall", {"status": "timeout", "by": "agent:a"}),
        ("wall", {"status": "killed", "by": None}),
        ("wall", {"status": "failed", "exit_code": 75}),
        ("exit:75", {"status": "failed", "exit_code": 1}),
        ("exit:75", {"status": "failed"}),
        ("exit:75", {"status": "failed", "exit_code": 75, "last_value": None}),
    ):
        found = said(rule, **end)
        assert found["n_measured"] == 3, (rule, end)
        assert "lost_runs" in found["cautions"]
    for wrong in (7, "now", ""):
        with pytest.raises(ValueError, match="stop_rule"):
            judge({**CLAIM, "stop_rule": wrong}, base, good, {})
    with pytest.raises(ValueError, match="stop_rule"):
        judge({**CLAIM, "stop_rule": "wall"}, 0.5, good, {})

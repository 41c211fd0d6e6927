"""Sweeps of a project, with real runs: what is proposed, who may start it, and what the winner's claim rests on."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Conflict, NotFound, NotPermitted, PerpetualError, UsageError
from perpetual.cli.app import run
from perpetual.testing.projects import trust_project
from perpetual_scorers import sweeps
from perpetual_scorers.space import Value

TRAIN = """
import os, random, sys
x = float(sys.argv[1])
rng = random.Random(int(os.environ["PERPETUAL_SEED"]))
if x > 0.9:
    raise SystemExit(3)
print("loss=%.6f" % ((x - 0.3) ** 2 + rng.gauss(0, 0.01) + 0.1 / float(sys.argv[2])))
"""
COMMAND = f"{sys.executable} train.py {{x}} 9"
AT_LENGTH = f"{sys.executable} train.py {{x}} {{rung}}"
LEVELS = "x=0,0.1,0.3,0.5,0.7,0.95"


@pytest.fixture
def lab(project: Path) -> Any:
    (project / "train.py").write_text(TRAIN, "utf-8")
    with Lab.open() as opened:
        yield opened


def made(lab: Lab, command: str = COMMAND, *parameters: str, **more: Any) -> str:
    """A new sweep's id."""
    given: dict[str, Any] = {"metric": "loss", "direction": "min", "runs": 10, **more}
    return sweeps.new(lab, command, parameters or (LEVELS,), **given)["id"]


def seeds_of(lab: Lab, *experiments: str) -> set[int | None]:
    return {each.seed for each in lab.runs.named(experiments)}


# --- a sweep from beginning to end ------------------------------------------------------------------------------------


def test_a_sweep_finds_the_best_setting_and_claims_it_on_fresh_seeds(lab: Lab) -> None:
    id = made(lab, mde=0.05)
    assert sweeps.show(lab, id)["status"] == "new"
    found = sweeps.run(lab, id, wait=True)
    assert (found["status"], found["runs"], found["runs_pending"], found["runs_left"]) == ("complete", 10, 0, 0)
    assert found["best_parameters"] == {"x": 0.3}
    assert found["regret_bound"] is not None
    assert found["regret_bound"] >= 0
    by_id = {item["id"]: item for item in found["settings"]}
    best = by_id[str(found["best"])]
    assert best["mean"] == pytest.approx(0.1 / 9, abs=0.05)
    assert sum(item["n"] + item["n_failed"] for item in found["settings"]) == 10
    assert by_id["s6"]["n"] == 0
    assert by_id["s6"]["n_failed"] >= 1  # a setting that crashes is a poor one, and is hardly run again
    assert by_id["s6"]["n_failed"] <= 2
    assert sum(item["chance_best"] or 0 for item in found["settings"]) == pytest.approx(1)
    assert "by the fitted model" in found["sentence"]

    mine = [id for item in found["settings"] for id in item["experiments"]]
    assert {lab.experiments.get(each).design.claim for each in mine} == {None}
    base = lab.experiments.propose(command=f"{sys.executable} train.py 0.7 9", metric="loss", replicates=4)
    lab.experiments.approve(base.id)
    lab.wait([each.id for each in lab.runs.launch(base.id, every=True)], timeout_s=60)
    claimed = sweeps.claim(lab, id, baseline=base.id)
    assert claimed["setting"] == found["best"]
    claim, hypothesis = claimed["experiment"]["id"], claimed["hypothesis"]["id"]
    assert claimed["experiment"]["status"] == "proposed"
    assert claimed["hypothesis"]["evidence_count"] == 0  # what chose the setting is no evidence for it
    lab.experiments.approve(str(claim))
    lab.wait([each.id for each in lab.runs.launch(str(claim), every=True)], timeout_s=60)
    assert not seeds_of(lab, str(claim)) & (seeds_of(lab, *mine) | seeds_of(lab, base.id))
    evidence = lab.evidence.list(hypothesis_id=str(hypothesis)).items
    assert {row.experiment_id for row in evidence} == {claim}
    assert lab.hypotheses.get(str(hypothesis)).confidence > 0.5
    assert sweeps.claim(lab, id, baseline=base.id) == sweeps.claimed(lab, id)  # asked again, it is the same
    assert sweeps.show(lab, id)["status"] == "claimed"
    assert [line["claim"] for line in sweeps.listed(lab)[0]] == [sweeps.show(lab, id)["claim"]]


@pytest.mark.slow
def test_most_settings_run_short_where_there_are_rungs(lab: Lab) -> None:
    id = made(lab, AT_LENGTH, "x=0.05..0.85/9", method="grid", rungs=[1, 3, 9], runs=8)
    found = sweeps.run(lab, id, wait=True)
    lengths = [len(item["curve"]) for item in found["settings"]]
    assert len(found["settings"]) == 9
    assert min(lengths) == 1  # each has begun
    assert lengths.count(2) >= 4
    assert sum(item["n"] > 0 for item in found["settings"]) == 4
    assert abs(float((found["best_parameters"] or {})["x"]) - 0.3) < 0.2
    assert found["runs_left"] < 1
    titles = {lab.experiments.get(each).title for item in found["settings"] for each in item["experiments"]}
    assert any(" at 1: x=" in title for title in titles)
    configs = [lab.experiments.get(each).config for item in found["settings"] for each in item["experiments"]]
    assert {config["rung"] for config in configs} == {1, 3, 9}


# --- picks ------------------------------------------------------------------------------------------------------------


def test_next_proposes_within_the_budget_and_never_the_same_twice(lab: Lab) -> None:
    id = made(lab, runs=5)
    first = sweeps.next_runs(lab, id, 3, idempotency_key="one")
    assert [item.status for item in first] == ["proposed"] * 3
    assert sweeps.next_runs(lab, id, 3, idempotency_key="one") == first
    second = sweeps.next_runs(lab, id, 9)
    assert sum(item.design.replicates for item in second) == 2
    assert len({item.command for item in [*first, *second]}) == 5
    assert sweeps.next_runs(lab, id) == []
    lab.experiments.reject(second[0].id, "not that one")
    assert len(sweeps.next_runs(lab, id, 9)) == 1  # what was turned down is free again
    with pytest.raises(UsageError, match="at least one run"):
        sweeps.next_runs(lab, id, 0)
    with pytest.raises(UsageError, match="at least one, not 0"):
        sweeps.run(lab, id, runs=0)


def test_the_same_record_has_the_same_picks(lab: Lab, project: Path, tmp_path: Path) -> None:
    id = made(lab, COMMAND, "x=0.0..0.9", settings=12)
    twin = tmp_path / "twin"
    shutil.copytree(project, twin)
    trust_project(twin, like=project)
    with Lab.open(twin) as other:
        picks = [item.title for item in sweeps.next_runs(other, id, 4)]
    assert [item.title for item in sweeps.next_runs(lab, id, 4)] == picks


def test_the_same_request_makes_the_same_settings(lab: Lab) -> None:
    first, second = (sweeps.show(lab, made(lab, COMMAND, "x=0.0..0.9")) for _ in range(2))
    assert first["id"] != second["id"]
    assert first["settings"] == second["settings"]
    assert len(first["settings"]) == 16
    one, again = (made(lab, idempotency_key="k") for _ in range(2))
    assert one == again


@pytest.mark.slow
def test_a_sweep_goes_on_where_it_was(lab: Lab) -> None:
    id = made(lab, runs=6)
    assert sweeps.run(lab, id, runs=2, wait=True)["runs"] == 2
    assert sweeps.run(lab, id, runs=1, wait=True)["runs"] == 3
    assert sweeps.run(lab, id, wait=True)["runs"] == 6
    assert sweeps.run(lab, id, wait=True)["runs"] == 6


def test_a_wrong_command_is_found_out_early(lab: Lab) -> None:
    id = made(lab, "echo {x}", runs=30)
    with pytest.raises(PerpetualError, match="none gave loss") as caught:
        sweeps.run(lab, id, wait=True)
    assert caught.value.code == "no_values"
    assert sweeps.show(lab, id)["runs"] <= 8
    assert sweeps.show(lab, id)["best"] is None or sweeps.show(lab, id)["settings"][0]["n"] == 0


def test_a_setting_is_added_by_hand(lab: Lab) -> None:
    id = sweeps.new(
        lab, "echo {x} {opt} {momentum}", ["x=2..8", "opt=sgd,adam"], conditions=["opt=sgd: momentum=0.8..0.99"],
        metric="m", direction="max", settings=4, method="random",
    )["id"]  # fmt: skip
    added: dict[str, Any] = {"opt": "sgd", "x": 5, "momentum": 0.9}
    grown = sweeps.grow(lab, id, [added, {"x": 3, "opt": "adam"}, {**added}])
    assert [item["parameters"] for item in grown["settings"][4:]] == [added, {"x": 3, "opt": "adam"}]
    assert sweeps.grow(lab, id, [added]) == grown
    wrong: list[tuple[dict[str, Value], str]] = [
        ({"x": 5}, "opt is missing"),
        ({"x": 5, "opt": "sgd"}, "momentum is missing"),
        ({"x": 5, "opt": "adam", "momentum": 0.9}, "it needs opt"),
        ({"x": 9, "opt": "adam"}, "a whole number from 2 to 8"),
        ({"x": 2.5, "opt": "adam"}, "a whole number"),
        ({"x": "5", "opt": "adam"}, "a whole number"),
        ({"x": 5, "opt": "lion"}, "one of sgd, adam"),
        ({"y": 5}, "unknown parameter 'y'"),
    ]
    for values, said in wrong:
        with pytest.raises(UsageError, match=said):
            sweeps.grow(lab, id, [values])
    assert run(["sweep", "add", id, "x=8", "opt=adam"]) == 0
    assert len(sweeps.show(lab, id)["settings"]) == 7
    many: list[dict[str, Any]] = [{"x": 2, "opt": "sgd", "momentum": 0.8 + n / 10_000} for n in range(500)]
    with pytest.raises(UsageError, match="at most 500"):
        sweeps.grow(lab, id, many)


# --- approval ---------------------------------------------------------------------------------------------------------


def test_an_agent_runs_what_a_person_has_approved_once(
    lab: Lab, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = made(lab, runs=6)
    approved = sweeps.approve(lab, id)
    assert approved["approved_by"] == lab.actor
    assert approved["runs_pending"] == 4  # the first ones, approved as any experiment is
    monkeypatch.setenv("CLAUDECODE", "1")
    with Lab.open(project) as agent:
        assert sweeps.run(agent, id, wait=True)["runs"] == 6
        with pytest.raises(NotPermitted):
            sweeps.approve(agent, id, runs=9)
    monkeypatch.delenv("CLAUDECODE")
    assert sweeps.approve(lab, id, runs=7)["runs_left"] == 1
    with pytest.raises(UsageError, match="it can take more"):
        sweeps.approve(lab, id, runs=6)


def test_an_agent_starts_nothing_that_no_person_has_approved(
    lab: Lab, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = made(lab)
    monkeypatch.setenv("CLAUDECODE", "1")
    with Lab.open(project) as agent:
        (proposed,) = sweeps.next_runs(agent, id)  # which it may
        with pytest.raises(NotPermitted, match="is not approved"):
            sweeps.run(agent, id)
        assert agent.experiments.get(proposed.id).status == "proposed"
        agent.records("scorers.sweep").update(id, approval={"by": "user:me", "digest": "x", "runs": 10})
        with pytest.raises(NotPermitted, match="has changed since"):
            sweeps.run(agent, id)
        digest = sweeps.digest_of(agent.records("scorers.sweep").get(id))
        agent.records("scorers.sweep").update(id, approval={"by": "user:me", "digest": digest, "runs": 10})
        with pytest.raises(NotPermitted, match="approved elsewhere"):  # no run of it that a person here approved
            sweeps.run(agent, id)
        assert agent.runs.list().items == ()


def test_code_that_changed_is_approved_anew(lab: Lab, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    id = made(lab)
    sweeps.approve(lab, id)
    assert sweeps.run(lab, id, runs=1, wait=True)["runs"] == 5
    (project / "train.py").write_text(TRAIN + "\nprint('more')\n", "utf-8")
    monkeypatch.setenv("CLAUDECODE", "1")
    with Lab.open(project) as agent:
        with pytest.raises(NotPermitted, match="other code"):
            sweeps.run(agent, id, wait=True)
        assert {item.status for item in agent.experiments.list().items} == {"analysed", "proposed"}
        assert len(agent.runs.list().items) == 5
    monkeypatch.delenv("CLAUDECODE")
    sweeps.approve(lab, id)
    monkeypatch.setenv("CLAUDECODE", "1")
    with Lab.open(project) as agent:
        assert sweeps.run(agent, id, wait=True)["runs"] == 10


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_claim_needs_a_winner_and_a_baseline_of_its_own(lab: Lab) -> None:
    id = made(lab, runs=6)
    with pytest.raises(Conflict, match="no winner"):
        sweeps.claim(lab, id, baseline=0.5, mde=0.1)
    found = sweeps.run(lab, id, wait=True)
    mine = found["settings"][4]["experiments"]
    with pytest.raises(UsageError, match="smallest effect"):
        sweeps.claim(lab, id, baseline=0.5)
    with pytest.raises(UsageError, match="chose its winner"):
        sweeps.claim(lab, id, baseline=(mine or found["settings"][0]["experiments"])[0], mde=0.1)
    with pytest.raises(NotFound, match="claimed nothing"):
        sweeps.claimed(lab, id)
    assert lab.hypotheses.list().items == ()


@pytest.mark.parametrize(
    ("command", "more", "said"),
    [
        ("echo {x} {y}", {}, "unknown parameter of the command 'y'"),
        ("echo {x", {"metric": " "}, "needs a metric"),
        ("echo '{x}", {}, "cannot be split"),
        ("echo {x} | cat", {}, "shell operator"),
        ("echo {x}", {"runs": 0}, "1 to 10000 runs"),
        ("echo {x}", {"direction": "up"}, "max or min"),
        ("echo {x}", {"rungs": [3]}, "no ladder"),
        ("echo {x} {rung}", {"rungs": [3, 1]}, "rungs rise"),
        ("echo {x}", {"rungs": [1, 3]}, r"takes no \{rung\}"),
        ("echo {x} {rung}", {}, "there are no rungs"),
        ("echo {x}", {"noise": -1.0}, "noise"),
        ("echo {x}", {"mde": 0.0}, "mde"),
        ("echo {x}", {"cwd": "../elsewhere"}, "inside the project"),
    ],
)
def test_a_sweep_that_cannot_run_is_not_created(lab: Lab, command: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        made(lab, command, **more)
    assert lab.records("scorers.sweep").count() == 0
    assert lab.experiments.list().items == ()


# --- the command line -------------------------------------------------------------------------------------------------


def test_the_promised_keys_are_there(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "new", COMMAND, "--param", LEVELS, "--metric", "loss", "--direction", "min", "--runs", "4"]
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "perpetual.sweep/1"
    assert {"id", "settings", "best", "regret_bound", "runs"} <= document.keys()
    assert (document["best"], document["regret_bound"], document["runs"]) == (None, None, 0)
    assert run(["sweep", "run", document["id"], "--wait"]) == 0
    shown = capsys.readouterr()
    assert "4 runs ended" in shown.out
    assert "is the pick" in shown.out
    assert "next: perpetual sweep claim sweep-1" in shown.out
    assert "r1" in shown.err
    assert run(["sweep", "list"]) == 0
    assert "4 of 4" in capsys.readouterr().out
    assert run(["store", "verify"]) == 0

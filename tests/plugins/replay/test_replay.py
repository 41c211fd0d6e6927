"""`memory replay` with real runs: a note that helps is proven, one that harms is rejected, and nothing else moves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import StatusSection
from perpetual.cli.app import run
from perpetual.errors import ConfigError, Conflict, NotFound, UsageError
from perpetual.testing.projects import trust_project
from perpetual.testing.sections import StatusSectionContract
from perpetual_replay.actions import ask, listed
from perpetual_replay.section import build as build_section
from perpetual_replay.stage import ReplayStage
from perpetual_replay.trials import Trials

Json = dict[str, Any]
NOTE = "skills/step.md"
# The score is 0.9 where the note says "good", 0.05 where it says "bad", else 0.1; it depends on nothing else.
PROGRAM = """\
import os, sys
text = open(os.environ["PERPETUAL_CONTEXT_FILE"], encoding="utf-8").read()
assert os.environ["PERPETUAL_SEED"] == os.environ["PERPETUAL_REPLAY_SEED"]
if "crash" in text: sys.exit("the advice broke it")
print(0.9 if "good advice" in text else 0.05 if "bad advice" in text else 0.6)
"""


class TestReplays(StatusSectionContract):
    @pytest.fixture
    def section(self) -> StatusSection:
        return build_section({})


@pytest.fixture
def task(project: Path) -> Callable[..., None]:
    (project / "replay").mkdir()
    (project / "replay" / "solve.py").write_text(PROGRAM)

    def write(name: str = "solve", **keys: object) -> None:
        known = {"command": f"{sys.executable} replay/solve.py", "wall": "60s", **keys}
        (project / "replay" / f"{name}.yaml").write_text(json.dumps(known))

    write()
    return write


@pytest.fixture
def lab(project: Path, task: Callable[..., None]) -> Any:
    with Lab.open() as lab:
        yield lab


def note(lab: Lab, text: str, path: str = NOTE) -> None:
    lab.memory.write(path, f"# Step\n\n{text}\n", type="skill_card")


@pytest.mark.slow
def test_a_note_that_helps_is_promoted_and_proven(lab: Lab) -> None:
    note(lab, "good advice: use step 0.1")
    found = ask(lab, NOTE, wait=True, timeout_s=120)
    (item,) = found["items"]
    assert (item["state"], item["waits_for"], item["live"]) == ("helps", None, [])
    assert item["e_help"] >= item["bar"] == 20
    assert item["effect"] == pytest.approx(0.3)
    assert item["pairs"] == len(item["curve"]) == item["tasks"][0]["pairs"]
    kept = lab.memory.get(NOTE)
    assert (kept.status, kept.proven) == ("promoted", True)
    assert "good advice" in lab.memory.read(NOTE, exposed_only=True)
    assert f"- {NOTE} (promoted, proven): Step" in lab.brief()
    canary = next(one for one in listed(lab)["items"] if one["canary"])
    assert (canary["state"], canary["pairs"], canary["effect"]) == ("undecided", 5, 0.0)
    runs = lab.runs.list(tag="replay", limit=500).items
    assert len(runs) == 2 * (item["pairs"] + canary["pairs"])
    assert all(run.status == "done" for run in runs)
    assert lab.experiments.list(status="approved").items == ()
    status = lab.status()
    assert (status["experiments"], status["brief"]["results"]) == ({}, []), "replays are no results of the research"
    assert status["sections"]["replays"]["data"] == {
        "trials": {"helps": 1},
        "bisections": 0,
        "pairs": item["pairs"] + canary["pairs"],
    }
    board = lab.runs.table()
    assert (board["items"], board["note"]) == (
        [], f"without {len(runs)} archived experiments of replays: --tag replay lists them",
    )  # fmt: skip
    assert lab.runs.table(tag="replay")["total"] == len(runs)


@pytest.mark.slow
def test_results_of_the_research_are_found_behind_many_replays(lab: Lab) -> None:
    """What a person archived is left out as well."""
    with lab.transaction():
        for number in range(3):
            made = lab.experiments.propose(command=f"{sys.executable} -c 'print({number})'", wall_s=60)
            lab.experiments.approve(made.id)
    runs = [run.id for number in (1, 2, 3) for run in lab.runs.launch(f"e{number}")]
    lab.wait(runs, timeout_s=60)
    assert lab.status()["experiments"] == {"analysed": 3}
    lab.experiments.archive("e2")
    status = lab.status()
    assert status["experiments"] == {"analysed": 2}
    assert sorted(one["experiment_id"] for one in status["brief"]["results"]) == ["e1", "e3"]
    assert {one.experiment_id for one in lab.runs.list().items} == {"e1", "e2", "e3"}
    lab.experiments.archive("e2", restore=True)
    assert lab.status()["experiments"] == {"analysed": 3}
    assert len(lab.status()["brief"]["results"]) == 3


@pytest.mark.slow
def test_a_decision_that_failed_is_taken_when_asked_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no")

    note(lab, "good advice")
    with monkeypatch.context() as patch:
        patch.setattr(ReplayStage, "judge", fail)
        (item,) = ask(lab, NOTE, wait=True, timeout_s=120)["items"]
        assert (item["state"], lab.memory.get(NOTE).status) == ("helps", "candidate")
    (again,) = ask(lab, NOTE)["items"]
    assert (again["id"], again["pairs"]) == (item["id"], item["pairs"])
    assert (lab.memory.get(NOTE).status, lab.memory.get(NOTE).proven) == ("promoted", True)


def test_it_never_promotes_a_note_without_use(lab: Lab) -> None:
    lab.settings.set_config("plugins.replay.max_pairs", "6")
    note(lab, "notes are kept in folders")
    (item,) = ask(lab, NOTE, wait=True, timeout_s=120)["items"]
    assert (item["state"], item["pairs"], item["e_help"]) == ("undecided", 6, 1.0)
    assert item["sentence"].startswith("Not shown to help, nor to harm: score +0.00")
    assert lab.memory.get(NOTE).status == "candidate"


@pytest.mark.parametrize("text", ["bad advice", pytest.param("crash", marks=pytest.mark.slow)])
def test_a_note_that_harms_is_rejected(lab: Lab, text: str) -> None:
    """Also where its runs give no score: they score 0, and say so."""
    note(lab, text)
    (item,) = ask(lab, NOTE, wait=True, timeout_s=120)["items"]
    assert item["state"] == "harms"
    assert item["e_harm"] >= item["harm_bar"] == pytest.approx(5)
    assert lab.memory.get(NOTE).status == "rejected"
    remarks = [one for pair in lab.records("replay.pair").find() for one in pair["remarks"]]
    assert bool(remarks) == (text == "crash")


@pytest.mark.slow
def test_tasks_that_reward_any_note_promote_nothing(lab: Lab, project: Path) -> None:
    program = PROGRAM.replace('"good advice" in text', '"skills/" in text or "canary" in text')
    (project / "replay" / "solve.py").write_text(program.replace("0.6)", "0.0)"))
    note(lab, "good advice")
    (item,) = ask(lab, NOTE, wait=True, timeout_s=120)["items"]
    assert item["state"] == "helps"
    assert lab.memory.get(NOTE).status == "candidate"
    said = lab.memory.decide(NOTE, dry_run=True)["evidence"]
    assert said is not None
    one = said["perpetual-lab/replay"]
    assert (one["decision"], "a note of no use seemed to help" in one["reason"]) == ("wait", True)


@pytest.mark.slow
def test_an_agents_request_waits_for_a_person(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    note(lab, "good advice")
    with monkeypatch.context() as patch:
        patch.setenv("CLAUDECODE", "1")
        with Lab.open() as agents:
            (item,) = ask(agents, NOTE, wait=True, timeout_s=10)["items"]
            assert (item["state"], item["approved_by"]) == ("proposed", None)
            agents.scan()
            assert agents.runs.list().items == ()
    (item,) = ask(lab, NOTE)["items"]
    assert (item["id"], item["state"]) == ("trial-1", "running")
    assert (item["approved_by"] or "").startswith("user:")
    with monkeypatch.context() as patch:  # an agent's scans take it on: a person has approved it
        patch.setenv("CLAUDECODE", "1")
        with Lab.open() as agents:
            assert ask(agents, NOTE, wait=True, timeout_s=120)["items"][0]["state"] == "helps"
            assert agents.memory.get(NOTE).proven


def test_the_budget_holds_it_up(lab: Lab, task: Callable[..., None]) -> None:
    task(wall="100h", gpus=1)
    lab.budget.set_limit(1.0)
    note(lab, "good advice")
    (item,) = ask(lab, NOTE, wait=True, timeout_s=1)["items"]
    assert (item["state"], item["pairs"]) == ("running", 0)
    assert item["waits_for"]


def test_a_task_of_the_notes_own_work_is_left_out(lab: Lab, task: Callable[..., None]) -> None:
    lab.hypotheses.add("steps of 0.1 are good")
    task(source="h1")
    note(lab, "good advice, learned from h1")
    with pytest.raises(UsageError, match="every replay task comes from the work"):
        ask(lab, NOTE)
    task("other", source=["h2", "skills/else.md"])
    (item,) = ask(lab, NOTE)["items"]
    assert [one["task"] for one in item["tasks"]] == ["other"]


@pytest.mark.slow
def test_a_changed_note_is_not_judged_by_the_old_ones_trial(lab: Lab) -> None:
    note(lab, "good advice")
    ask(lab, NOTE)
    note(lab, "bad advice")
    lab.scan()
    states = {one["id"]: one["state"] for one in listed(lab)["items"]}
    assert states["trial-1"] == "withdrawn"
    (item,) = ask(lab, NOTE, wait=True, timeout_s=120)["items"]
    assert (item["id"] != "trial-1", item["state"]) == (True, "harms")


@pytest.mark.slow
def test_a_trial_whose_runs_are_killed_stops_and_goes_on_when_asked(lab: Lab, project: Path) -> None:
    waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)\n"
    (project / "replay" / "solve.py").write_text(waits + PROGRAM)
    lab.settings.set_config("plugins.replay.max_pairs", "5")
    note(lab, "good advice")
    for _ in range(3):
        ask(lab, NOTE)
        for run_ in lab.runs.live():
            lab.runs.kill(run_.id, grace_s=0.1)
        lab.scan()
    lab.scan()
    states = {one["canary"]: one["state"] for one in listed(lab)["items"]}
    assert states == {True: "stopped", False: "running"}
    (project / "go").touch()
    (item,) = ask(lab, NOTE, wait=True, timeout_s=120)["items"]
    assert item["state"] == "undecided"
    assert item["pairs"] == 5
    assert item["e_help"] > 1


@pytest.mark.slow
def test_what_tasks_do_to_the_context_does_not_last(lab: Lab, project: Path) -> None:
    (project / "replay" / "solve.py").write_text(
        PROGRAM + "path = os.environ['PERPETUAL_CONTEXT_FILE']\n"
        "os.chmod(path, 0o600); open(path, 'w').write('good advice')\nprint(0.9 if 'good advice' in text else 0.6)\n"
    )
    lab.settings.set_config("plugins.replay.max_pairs", "5")
    note(lab, "notes are kept in folders")
    (item,) = ask(lab, NOTE, wait=True, timeout_s=120)["items"]
    assert (item["state"], item["effect"]) == ("undecided", 0.0)


@pytest.mark.slow
def test_the_queue_is_tested_together(lab: Lab) -> None:
    note(lab, "good advice: first", "skills/a.md")
    note(lab, "bad advice", "skills/b.md")
    found = ask(lab, None, wait=True, timeout_s=200)
    assert [(one["path"], one["state"]) for one in found["items"]] == [
        ("skills/a.md", "helps"),
        ("skills/b.md", "harms"),
    ]
    assert found["note_status"] == {"skills/a.md": "promoted", "skills/b.md": "rejected"}
    assert found["items"][0]["bar"] == 40


@pytest.mark.slow
def test_a_trial_that_another_user_approved_runs_nothing(
    lab: Lab, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that came from elsewhere says that it is running; a person who accepts new work has not approved it."""
    note(lab, "good advice: use step 0.1")

    def no_room(*_: object, **__: object) -> None:
        raise UsageError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(lab.runs, "launch", no_room)
        ask(lab, NOTE)
    clone = project.with_name("clone")
    shutil.copytree(project, clone)
    monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "another"))
    trust_project(clone)
    monkeypatch.chdir(clone)
    with Lab.open(clone) as there:
        there.scan()
        assert {"it was not approved here: a person approves it by asking for the same"} == {
            *Trials(there).advance().values()
        } - {"the tasks are tested by a note of no use first"}
        assert there.runs.list().items == ()
        held = {item.subject for item in there.trust.held()}
        experiments = there.experiments.list().items
        assert not [one.id for one in experiments if one.status in ("approved", "active") and one.id not in held]
        (item,) = [one for one in ask(there, NOTE, wait=True, timeout_s=120)["items"] if not one["canary"]]
        assert item["state"] == "helps"


@pytest.mark.slow
def test_a_trial_goes_on_unchanged_in_a_renamed_copy(
    lab: Lab, task: Callable[..., None], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pairs follow from its declaration: the same tasks, seeds and orders wherever the folder is by then."""
    for number in range(4):
        task(f"task{number}")
    lab.settings.set_config("plugins.replay.max_pairs", "5")
    note(lab, "no advice")
    with monkeypatch.context() as patch:
        patch.setenv("CLAUDECODE", "1")
        (asked,) = ask(lab, NOTE)["items"]
    assert (asked["state"], asked["live"]) == ("proposed", [])
    copy, moved = project.with_name("copy"), project.with_name("moved")
    shutil.copytree(project, copy)
    trust_project(copy, like=project)

    def no_room(*_: object, **__: object) -> None:
        raise UsageError("no room")

    def settle(lab: Lab) -> None:
        while live := [run.id for run in lab.runs.live()]:
            lab.wait(live, timeout_s=60)

    def pairs(lab: Lab) -> list[tuple[object, ...]]:
        trials = Trials(lab)
        keys = ("place", "task", "seed", "with_first", "score_with", "score_without", "remarks")
        return [tuple(str(one[key]) for key in keys) for one in trials.pairs_of(trials.get(asked["id"]))]

    monkeypatch.chdir(copy)
    with Lab.open(copy) as there:
        ask(there, NOTE)
        while len(pairs(there)) < 2:
            settle(there)
            there.scan()
        with monkeypatch.context() as patch:
            patch.setattr(there.runs, "launch", no_room)
            settle(there)
            assert Trials(there).advance() == {asked["id"]: "no room"}, "the next pair is proposed, and waits"
    shutil.copytree(copy, moved)
    trust_project(moved, like=copy)
    copy.rename(project.with_name("gone"))
    monkeypatch.chdir(moved)
    with Lab.open(moved) as there:
        made = ask(there, NOTE, wait=True, timeout_s=120)["items"][0]
        assert (made["state"], made["waits_for"]) == ("undecided", None)
        found = pairs(there)
    monkeypatch.chdir(project)
    ask(lab, NOTE, wait=True, timeout_s=120)
    assert found == pairs(lab)
    assert len(found) == 5
    assert len({pair[1] for pair in found}) > 1, "the draws differ"


def test_without_tasks_a_person_decides(project: Path) -> None:
    with Lab.open() as lab:
        note(lab, "good advice")
        for path in (NOTE, None):
            with pytest.raises(UsageError) as caught:
                ask(lab, path)
            assert "perpetual memory promote" in (caught.value.hint or "")
        with pytest.raises(NotFound):
            ask(lab, "skills/none.md")


def test_a_rejected_note_is_not_tested(lab: Lab) -> None:
    note(lab, "good advice")
    lab.memory.reject(NOTE, "no")
    with pytest.raises(Conflict):
        ask(lab, NOTE)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
     ({"command": ""}, "command"), ({"command": None}, "command"), ({"weight": 0}, "weight"),
     ({"weight": "x"}, "weight"),
     ({"seed": -1}, "seed"), ({"seed": 1.5}, "seed"), ({"wall": "soon"}, "wall"), ({"gpus": -1}, "gpus"),
     ({"source": 3}, "source"), ({"colour": 1}, "colour"), ({"query": 5}, "query")],
)  # fmt: skip
def test_a_bad_task_is_named(lab: Lab, task: Callable[..., None], keys: Json, words: str) -> None:
    task("bad", **keys)
    note(lab, "good advice")
    with pytest.raises(ConfigError, match=rf"replay/bad\.yaml.*{words}"):
        ask(lab, NOTE)


@pytest.mark.slow
def test_kill_at_any_moment_loses_and_repeats_no_pair(lab: Lab, project: Path) -> None:
    """The process that keeps it going is killed time and again; the trial ends as it would have."""
    note(lab, "good advice")
    for attempt in range(8):
        process = subprocess.Popen(
            [sys.executable, "-m", "perpetual", "memory", "replay", NOTE, "--wait", "--json"],
            cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(0.7 + 0.25 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
    (item,) = ask(lab, NOTE, wait=True, timeout_s=120)["items"]
    pairs = Trials(lab).pairs_of(lab.records("replay.trial").get(item["id"]))
    assert item["state"] == "helps"
    assert [pair["place"] for pair in pairs] == list(range(item["pairs"]))
    used = [pair[name] for pair in pairs for name in ("run_with", "run_without")]
    assert len(set(used)) == len(used)
    assert lab.memory.get(NOTE).proven
    assert lab.storage.verify() == []


@pytest.mark.slow
def test_many_processes_take_one_trial_on(lab: Lab, project: Path) -> None:
    note(lab, "good advice")
    words = [sys.executable, "-m", "perpetual", "memory", "replay", NOTE, "--wait", "--json"]
    several = [subprocess.Popen(words, cwd=project, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = [json.loads(process.communicate(timeout=200)[0]) for process in several]
    assert {answer["items"][0]["state"] for answer in answers} == {"helps"}
    assert {process.returncode for process in several} == {0}
    pairs = lab.records("replay.pair").find(trial=answers[0]["items"][0]["id"])
    assert sorted(pair["place"] for pair in pairs) == list(range(len(pairs)))


@pytest.mark.slow
def test_the_command_shows_table_and_curve(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert run(["memory", "replay", "--example"]) == 0
    assert "next: perpetual memory replay skills/step-size.md --wait" in capsys.readouterr().out
    assert run(["memory", "replay", "--example"]) == 2
    assert run(["memory", "replay", "skills/step-size.md", "--wait", "--timeout", "120"]) == 0
    shown = capsys.readouterr().out
    assert "It helps: score +0." in shown
    assert "steep" in shown
    assert run(["memory", "show", "skills/step-size.md"]) == 0
    shown = capsys.readouterr().out
    assert "[promoted proven skill_card]" in shown
    assert "e-value that it helps" in shown
    assert run(["memory", "show", "skills/step-size.md", "--json"]) == 0
    evidence = json.loads(capsys.readouterr().out)["evidence"]["perpetual-lab/replay"]
    assert evidence["decision"] == "promote"
    assert evidence["evidence"]["curve"][-1][0] == evidence["evidence"]["e_help"]
    assert run(["memory", "replay", "a.md", "--queue"]) == 2

"""`memory bisect` ends at the note after which scores fell, says how far that is shown, and touches no note."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Record
from perpetual.cli.app import run
from perpetual.errors import UsageError
from perpetual_replay.actions import bisect, plan_of_bisection
from perpetual_replay.bisections import BISECTION, Bisections
from perpetual_replay.consent import mark_of
from perpetual_replay.show_bisection import bisection as document_of
from perpetual_replay.trials import Trials

Json = dict[str, Any]
PROGRAM = """\
import os
text = open(os.environ["PERPETUAL_CONTEXT_FILE"], encoding="utf-8").read()
print(0.0 if "bad advice" in text else 1.0)
"""


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    (project / "replay").mkdir()
    (project / "replay" / "solve.py").write_text(PROGRAM)
    task(project)
    with Lab.open() as made:
        yield made


def task(project: Path, name: str = "steps", **keys: object) -> None:
    known = {"command": f"{sys.executable} replay/solve.py", "wall": "60s", "query": "steps of descent", **keys}
    (project / "replay" / f"{name}.yaml").write_text(json.dumps(known))


def note(lab: Lab, number: int, text: str = "are kept in figures") -> str:
    path = f"notes/{number}.md"
    lab.memory.write(path, f"# Steps {number} of descent\n\nsteps {text} {number}\n")
    return path


class Simulated(Trials):
    """Trials whose pairs are recorded at once, without runs: the score is 0.8, or less with bad advice, plus noise."""

    def __init__(self, lab: Lab, fall: float, noise: Callable[[], float]) -> None:
        super().__init__(lab)
        self.lab, self.fall, self.noise = lab, fall, noise
        self.run = _any_run(lab)

    def take(self, trial: Record, pairs: int) -> str | None:
        for place in range(trial["pairs"], pairs):
            later, earlier = (self._score_in(trial["tasks"][0][name]) for name in ("with", "without"))
            self.lab.records("replay.pair").append(
                trial=trial.id, place=place, task="steps", seed=1, with_first=True, run_with=self.run,
                run_without=self.run, remarks=[], score_with=later, score_without=earlier,
            )  # fmt: skip
            self.lab.records("replay.trial").update(trial.id, pairs=place + 1)
        return None

    def _score_in(self, digest: str) -> float:
        (context,) = self.lab.records("replay.context").find(digest=digest)
        mean = 0.8 - (self.fall if "bad advice" in context["text"] else 0.0)
        return max(0.0, min(1.0, mean + self.noise()))


def _any_run(lab: Lab) -> str:
    experiment = lab.experiments.propose(command="true", title="any", idempotency_key="any")
    if experiment.status == "proposed":
        lab.experiments.approve(experiment.id)
        lab.runs.launch(experiment.id)
    return str(lab.runs.list().items[0].id)


def simulated(
    lab: Lab, good: str | None = "seq:0", bad: str | None = None, *, fall: float = 0.7, noise: float = 0.0
) -> Json:
    lab.settings.set_config("plugins.replay.bisect_alpha", "0.5")  # fewer pairs
    draw = random.Random("noise")
    bisections = Bisections(lab, Simulated(lab, fall, lambda: draw.gauss(0, noise)))
    asked = bisections.request(good, bad)
    assert bisections.advance() == {}
    return {**document_of(lab, bisections.again(asked))}


@pytest.mark.parametrize(("after", "noise"), [(1, 0.0), (3, 0.2), (5, 0.0)])
def test_the_kth_of_several_notes_is_found(lab: Lab, after: int, noise: float) -> None:
    for number in range(1, 6):
        note(lab, number, "bad advice" if number == after else "are kept in figures")
    found = simulated(lab, noise=noise)
    assert (found["state"], found["changes"], len(found["states"]), found["unproven"]) == ("found", 5, 6, 0)
    change = found["found"]
    assert (change["state"]["path"], change["state"]["deed"]) == (f"notes/{after}.md", "written")
    assert (change["shown"], change["confirmed"]) == (True, True)
    assert change["by"]["effect"] == pytest.approx(-0.7, abs=0.25)
    assert change["by"]["e_value"] >= change["by"]["bar"] == found["bar"] == 16
    assert (change["confirmation"]["trial"] == change["by"]["trial"]) == (after == 5)
    assert found["sentence"].startswith(f"Scores fell when notes/{after}.md was written (version ")
    assert "Confirmed" in found["sentence"]
    assert len(found["compared"]) <= found["comparisons"]
    assert lab.memory.get(f"notes/{after}.md").status == "candidate"
    section = lab.status()["sections"]["replays"]["data"]
    assert (section["trials"], section["bisections"]) == ({}, 1), "its comparisons are no trials of notes"
    said = lab.memory.decide(f"notes/{after}.md", dry_run=True)["evidence"]
    assert said is not None
    assert said["perpetual-lab/replay"]["evidence"]["lines"] == [f"bisection-1: {found['sentence']}"]


def test_without_a_fall_nothing_else_is_said(lab: Lab) -> None:
    lab.settings.set_config("plugins.replay.bisect_pairs", "8")
    for number in range(1, 5):
        note(lab, number)
    found = simulated(lab, noise=0.2)
    assert (found["state"], found["found"], len(found["compared"])) == ("none", None, 1)
    assert found["sentence"].startswith("No fall was shown between the two states: score ")
    assert "90 % interval" in found["sentence"]


def test_a_fall_that_was_taken_back_is_found_and_not_confirmed(lab: Lab) -> None:
    """The bad state is bad by another note: the first one's change lowers nothing in it."""
    lab.settings.set_config("plugins.replay.bisect_pairs", "10")
    note(lab, 1, "bad advice")
    note(lab, 2)
    lab.memory.promote("notes/2.md", "seen")
    note(lab, 3, "bad advice, too, of another sort")
    found = simulated(lab, fall=0.8)
    assert found["found"]["state"]["path"] == "notes/1.md"
    assert (found["found"]["shown"], found["found"]["confirmed"]) == (True, False)
    assert "Not confirmed: score +0.00" in found["sentence"]


def test_what_a_promotion_replaced_is_found_by_its_event(lab: Lab) -> None:
    note(lab, 1)
    lab.memory.promote("notes/1.md", "seen")
    good = lab.feed.last()
    note(lab, 2)
    note(lab, 1, "bad advice")  # not shown before it is promoted
    note(lab, 3)
    lab.memory.promote("notes/1.md", "newer")
    event = lab.feed.last()
    note(lab, 4)
    assert plan_of_bisection(lab)["good"] == good
    found = simulated(lab, None)
    state = found["found"]["state"]
    assert (state["path"], state["deed"], state["seq"]) == ("notes/1.md", "promoted", event)
    assert state["before"] not in (None, state["after"])
    assert f"in place of {state['before'][:10]}" in found["sentence"]


def test_changes_that_reach_no_task_are_not_searched(lab: Lab) -> None:
    for number in range(1, 4):
        lab.memory.write(f"notes/plots-{number}.md", "# Plots\n\nFigures have axes.")
        if number == 2:
            note(lab, 1, "bad advice")
    found = simulated(lab)
    assert (found["changes"], [state["path"] for state in found["states"]]) == (4, [None, "notes/1.md"])
    assert (found["comparisons"], len(found["compared"])) == (2, 1)


def test_a_version_that_a_gate_rejects_by_now_is_in_no_state(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    note(lab, 1)
    note(lab, 2, "bad advice")
    scan = lab.memory.scan
    monkeypatch.setattr(
        lab.memory, "scan", lambda text, **of: {**scan(text, **of), **({"outcome": "reject"} if "bad" in text else {})}
    )
    found = plan_of_bisection(lab, "0")
    assert [state["path"] for state in found["states"]] == [None, "notes/1.md"]
    assert found["left_out"] == [f"notes/2.md {lab.memory.get('notes/2.md').blob}"]


def test_it_stops_where_a_text_is_lost_and_goes_on_when_asked(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.settings.set_config("plugins.replay.bisect_alpha", "0.5")
    note(lab, 1, "bad advice")
    note(lab, 2)
    bisections = Bisections(lab, Simulated(lab, 0.7, lambda: 0.0))
    asked = bisections.request("0")
    with monkeypatch.context() as patch:
        patch.setattr(lab.part("memory"), "read", lambda path, commit=None: None)
        assert bisections.advance() == {}
    found = document_of(lab, bisections.again(asked))
    assert (found["state"], len(found["compared"])) == ("stopped", 3)
    assert (found["reason"] or "").startswith("the memory does not hold version ")
    assert bisections.request("0").id == asked.id
    bisections.advance()
    assert document_of(lab, bisections.again(asked))["state"] == "found"


def test_an_imported_one_says_that_its_contexts_are_missing(lab: Lab, project: Path, tmp_path: Path) -> None:
    task(project, wall="100h", gpus=1)
    lab.budget.set_limit(1.0)
    note(lab, 1)
    note(lab, 2, "bad advice")
    bisect(lab, "0")
    lab.storage.export_file(tmp_path / "record.jsonl")
    with Lab.init(tmp_path / "other", name="other") as other:
        other.storage.import_file(tmp_path / "record.jsonl")
        assert Bisections(other).advance() == {
            "bisection-1": "it was not approved here: a person approves it by asking for the same"
        }
        (found,) = Bisections(other).newest()
        other.records(BISECTION).update(found.id, mark=mark_of(other, found))
        assert Bisections(other).advance() == {
            "bisection-1": "this record was imported without the contexts of its replays"
        }


def test_a_dry_run_records_nothing(lab: Lab) -> None:
    note(lab, 1)
    note(lab, 2)
    before = lab.feed.last()
    found = plan_of_bisection(lab, "0")
    assert (found["id"], found["state"], found["comparisons"], found["max_pairs"]) == (None, "planned", 4, 60)
    assert found["worst_case_run_hours"] == pytest.approx(4 * 60 * 2 * 60 / 3600)
    assert [lab.records(f"replay.{kind}").count() for kind in ("bisection", "trial", "context")] == [0, 0, 0]
    assert lab.runs.list().items == ()
    assert lab.feed.last() == before


def test_an_agents_request_waits_for_a_person(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    note(lab, 1)
    note(lab, 2, "bad advice")
    with monkeypatch.context() as patch:
        patch.setenv("CLAUDECODE", "1")
        with Lab.open() as agents:
            found = bisect(agents, "0", wait=True, timeout_s=10)
            assert (found["state"], found["approved_by"]) == ("proposed", None)
            agents.scan()
            assert agents.runs.list().items == ()
    found = bisect(lab, f"seq:{found['good']}", f"seq:{found['bad']}")
    assert (found["id"], found["state"]) == ("bisection-1", "running")
    assert (found["approved_by"] or "").startswith("user:")


def test_the_budget_holds_it_up(lab: Lab, project: Path) -> None:
    task(project, wall="100h", gpus=1)
    lab.budget.set_limit(1.0)
    note(lab, 1)
    note(lab, 2, "bad advice")
    found = bisect(lab, "0", wait=True, timeout_s=30)
    assert (found["state"], found["compared"]) == ("running", [])
    assert found["waits_for"]


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
     ("soon", None, "--good: no moment: 'soon'"), ("seq:999", None, "--good: the record has .* none numbered 999"),
     ("0", "yesterday", "--bad: the record has nothing as early as"), ("abcdef0", None, "the memory has no commit"),
     ("0", "2999-01-01", "--bad: .* is in the future"), ("seq:4", "seq:2", r"\(event 4\) is not before the bad one"),
     ("", None, "--good: no moment")],
)  # fmt: skip
def test_what_names_no_state_is_named(lab: Lab, good: str, bad: str | None, words: str) -> None:
    note(lab, 1)
    note(lab, 2)
    with pytest.raises(UsageError, match=words):
        bisect(lab, good, bad)
    assert lab.records("replay.bisection").count() == 0


def test_a_commit_of_the_memory_names_a_state(lab: Lab) -> None:
    note(lab, 1)
    note(lab, 2)
    commit = lab.memory.history("notes/1.md")[0].commit
    found = plan_of_bisection(lab, commit[:12])
    assert [state["path"] for state in found["states"]] == [None, "notes/2.md"]


def test_it_needs_tasks_and_changes(lab: Lab, project: Path) -> None:
    with pytest.raises(UsageError, match="what agents are shown did not change"):
        bisect(lab)
    lab.memory.write("notes/plots.md", "# Plots\n\nFigures have axes.")
    with pytest.raises(UsageError, match=r"changed 1 time .* no change reaches what a replay task is shown"):
        bisect(lab, "0")
    (project / "replay" / "steps.yaml").unlink()
    with pytest.raises(UsageError, match="no replay task"):
        bisect(lab)


@pytest.mark.slow
def test_processes_share_one_bisection_and_a_kill_loses_nothing(
    lab: Lab, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With real runs: two processes at once, both killed in the middle, then two to the end."""
    lab.settings.set_config("plugins.replay.bisect_alpha", "0.5")
    for number, text in enumerate(("are kept", "bad advice", "are drawn"), 1):
        note(lab, number, text)
    words = [sys.executable, "-m", "perpetual", "memory", "bisect", "--good", "0", "--wait", "--json"]
    for pause in (1.0, 1.3):
        killed = [subprocess.Popen(words, cwd=project, stdout=subprocess.DEVNULL) for _ in range(2)]
        for process in killed:
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
            process.wait()
    several = [subprocess.Popen(words, cwd=project, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [json.loads(process.communicate(timeout=100)[0]) for process in several]
    assert [process.returncode for process in several] == [0, 0]
    for answer in answers:
        assert (answer["id"], answer["state"]) == ("bisection-1", "found")
        assert answer["found"]["state"]["path"] == "notes/2.md"
        assert (answer["found"]["shown"], answer["found"]["confirmed"]) == (True, True)
    pairs = lab.records("replay.pair").find()
    used = [pair[name] for pair in pairs for name in ("run_with", "run_without")]
    assert len(set(used)) == len(used) == len(lab.runs.list(tag="replay", limit=500).items)
    for trial in lab.records("replay.trial").find():
        places = [pair["place"] for pair in pairs if pair["trial"] == trial.id]
        assert sorted(places) == list(range(trial["pairs"]))
    # A kill in the middle of a launch leaves its folder, which the next launch sets aside.
    assert [one for one in lab.storage.verify() if ".aside-" not in one] == []
    assert run(["memory", "bisect", "--good", "0"]) == 0
    shown = capsys.readouterr().out
    assert "Scores fell when notes/2.md was written" in shown
    assert "next: perpetual memory show notes/2.md" in shown
    assert run(["memory", "show", "notes/2.md"]) == 0
    assert "bisection-1: Scores fell when notes/2.md was written" in capsys.readouterr().out
    assert run(["memory", "replay"]) == 0
    assert "no trial yet" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.soak
def test_a_bisection_whose_runs_are_killed_stops_and_goes_on_when_asked(lab: Lab, project: Path) -> None:
    (project / "replay" / "solve.py").write_text("import time\ntime.sleep(60)\n")
    lab.settings.set_config("plugins.replay.bisect_alpha", "0.5")
    note(lab, 1)
    note(lab, 2, "bad advice")
    bisect(lab, "0")
    for _ in range(3):
        for run_ in lab.runs.live():
            lab.runs.kill(run_.id, grace_s=0.1)
        lab.scan()
    assert (
        document_of(lab, Bisections(lab).again(lab.records("replay.bisection").get("bisection-1")))["state"]
        == "stopped"
    )
    (project / "replay" / "solve.py").write_text(PROGRAM)
    found = bisect(lab, "0", wait=True, timeout_s=100)
    assert (found["id"], found["state"], found["reason"]) == ("bisection-1", "found", None)


def test_an_agent_reads_bisections_over_mcp_and_a_person_starts_them(
    lab: Lab, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mcp.client.client import Client

    from tests.plugins.mcp.clients import opener, talk

    for number in range(1, 4):
        note(lab, number, "bad advice" if number == 2 else "are kept in figures")

    async def deed(client: Client) -> Any:
        async def call(name: str, **arguments: object) -> Any:
            return (await client.call_tool(name, arguments)).structured_content

        none = await call("perpetual_bisections")
        before = lab.feed.last()
        plan = await call("perpetual_bisect", good="seq:0")
        assert lab.feed.last() == before, "a plan records nothing"
        asked = await call("perpetual_bisect", action="ask", good="seq:0")
        again = await call("perpetual_bisect", action="ask", good="seq:0")
        return none, plan, asked, again, await call("perpetual_bisections")

    none, plan, asked, again, listed = talk(opener(project), deed)
    assert none == {"schema": "perpetual.bisections/1", "items": [], "next": None, "truncated": False}
    (item,) = plan["items"]
    assert (item["id"], item["state"], item["reaching"], item["found"]) == (None, "planned", 3, None)
    assert item["worst_case_run_hours"] > 0
    (item,) = asked["items"]
    assert (item["state"], item["approved"], item["pairs"]) == ("proposed", False, 0)
    assert asked["next"] == "a proposed bisection waits until a person starts its runs"
    assert again["items"] == listed["items"] == [item]
    lab.scan()
    assert lab.runs.list().items == (), "no run starts without a person"
    simulated(lab)

    async def look(client: Client) -> Any:
        found = [await client.call_tool("perpetual_bisections", {"file": f"notes/{n}.md"}) for n in (1, 2)]
        return [one.structured_content["items"] for one in found]

    other, (item,) = talk(opener(project), look)
    assert other == []
    change = item["found"]
    assert (item["state"], change["path"], change["deed"], change["shown"], change["confirmed"]) == (
        "found", "notes/2.md", "written", True, True,
    )  # fmt: skip
    assert change["effect"] == pytest.approx(-0.7)
    assert change["low"] <= change["effect"] <= change["high"]
    assert run(["memory", "bisect", "--list", "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)["items"]] == ["bisection-2", "bisection-1"]
    assert run(["memory", "bisect", "--list"]) == 0
    assert "Scores fell when notes/2.md was written" in capsys.readouterr().out
    assert run(["memory", "bisect", "--list", "--wait"]) == 2

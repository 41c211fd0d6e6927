"""`perpetual watch` on a real terminal: what it shows, what its keys do, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.cells import cell_len

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.toolkit.fence import outside
from perpetual_watch.documents import Watch
from perpetual_watch.facts import collected
from perpetual_watch.frame import Question, frame, question
from tests.plugins.watch.screens import on_screen
from tests.support import LONG_S

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\r\x9b31m\u202e>>end"
STEPS = """
import sys, time, perpetual
for step in range(40):
    perpetual.log(step=step, acc=step / 40)
print("logged", flush=True)
time.sleep(600)
"""


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as opened:
        yield opened
        opened.queue.set_state("paused")
        for item in opened.runs.live():
            if item.status != "queued":
                opened.runs.kill(item.id, grace_s=0.0)


def started(lab: Lab, command: str = "sleep 600", title: str = "long", **given: Any) -> str:
    """The id of a run that is live."""
    made = lab.experiments.propose(command=command, title=title, wall_s=900.0, **given)
    lab.experiments.approve(made.id)
    (run_,) = lab.runs.launch(made.id)
    return run_.id


# --- one frame --------------------------------------------------------------------------------------------------------


@pytest.fixture
def crowded(lab: Lab) -> Watch:
    """More of everything than a screen holds, all of it hostile."""
    lab.hypotheses.add(HOSTILE)
    lab.experiments.propose("h1", command=f"echo '{HOSTILE}'", title=HOSTILE)
    found = deepcopy(collected(lab, None))
    hostile = HOSTILE * 30 + "広い" * 50
    found["project"] = hostile
    found["hypotheses"] = [{**found["hypotheses"][0], "statement": hostile}] * 20
    found["hypotheses_total"] = 70
    found["services"] = [hostile] * 3
    found["runs"] = [
        {"id": "r1", "experiment_id": "e1", "title": hostile, "replicate": 1, "status": "running", "metric": hostile,
         "value": None, "curve": [0.0, None, 1.0] * 9, "progress": hostile, "reason": hostile, "gpus": ["0"]}
    ] * 30  # fmt: skip
    found["gpus"] = [
        {"index": 0, "name": hostile, "state": "leased", "utilization": 99.6, "memory_used_bytes": 2**34,
         "memory_total_bytes": 2**36, "run_ids": ["r1"]}
    ] * 8  # fmt: skip
    found["approvals"] = [{"id": "e1", "title": hostile, "command": hostile}] * 5
    found["approvals_total"] = 40
    found["events"] = [{**found["events"][0], "subject": hostile, "text": hostile}] * 30
    return found


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (40, 10), (20, 6), (3, 2), (1, 1)])
def test_a_frame_fits_any_screen_and_takes_nothing_from_others(crowded: Watch, size: tuple[int, int]) -> None:
    columns, lines = size
    found = frame(crowded, columns, lines)
    assert 1 <= len(found) <= lines
    for line in found:
        assert cell_len(line.text) <= columns
        assert line.text.isprintable()


def test_at_80_by_24_each_part_has_rows_and_says_how_many_it_has(crowded: Watch) -> None:
    found = frame(crowded, 80, 24)
    text = "\n".join(line.text for line in found)
    assert len(found) == 24
    titles = [line.text for line in found if line.style == "title"]
    assert [title.split()[0] for title in titles] == ["Claims", "Runs", "GPUs", "Approvals", "Events"]
    assert all(" of " in title for title in titles), titles
    assert "of 70)" in titles[0]
    assert found[-1].text.startswith("a approve")
    assert "100%" in text  # of the GPU
    assert "▁" in text  # a curve


def test_a_part_without_anything_is_left_out(lab: Lab) -> None:
    titles = [line.text for line in frame(collected(lab, None), 80, 24) if line.style == "title"]
    assert titles == ["Events"]


def test_it_names_the_limit_in_run_hours(lab: Lab) -> None:
    assert frame(collected(lab, None), 80, 24)[1].text == "budget 0 GPU-hours, no limit, 0.0 s of run time"
    lab.settings.set_methodology("max_run_hours", "0.5")
    assert frame(collected(lab, None), 80, 24)[1].text == "budget 0 GPU-hours, 0 of 0.5 run-hours"


def test_a_question_is_read_to_its_end_before_it_is_answered() -> None:
    asked = Question("Approve e1", [f"line {n}" for n in range(50)], "approve e1? y: yes")
    shown = question(asked, 80, 24)
    assert not asked.is_read
    assert shown[-1].text == "28 more lines below: read on with the arrow down"
    asked.offset = 1000
    shown = question(asked, 80, 24)
    assert asked.is_read
    assert asked.offset == 28
    assert shown[-1].text == "approve e1? y: yes"
    assert " line 49" in [line.text for line in shown]
    wide = Question("x", ["word " * 1000], "sure?")
    assert not question(wide, 80, 24)[0].text.isspace()
    assert not wide.is_read  # a line that is broken counts as its parts


def test_without_a_terminal_it_prints_one_frame(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.hypotheses.add("wider is better")
    for words in (["watch"], ["watch", "--once"]):
        assert run(words) == 0
        text = capsys.readouterr().out
        assert "wider is better" in text
        assert "\x1b" not in text
        assert "q quit" not in text
        assert len(text.splitlines()) <= 24


def test_json_is_of_its_schema(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.hypotheses.add("wider is better")
    lab.experiments.propose("h1", command="echo acc=1", title="waits")
    made = lab.experiments.propose("h1", command="echo acc=0.9", metric="acc", direction="max", baseline=0.5)
    lab.experiments.approve(made.id)
    lab.wait([item.id for item in lab.runs.launch(made.id)], timeout_s=LONG_S)
    assert run(["watch", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((files("perpetual_cli") / "schemas" / "watch.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["schema"] == "perpetual.watch/1"
    assert [item["id"] for item in document["approvals"]] == ["e1"]
    (ended,) = document["runs"]
    assert (ended["id"], ended["status"], ended["metric"], ended["value"]) == ("r1", "done", "acc", 0.9)
    assert document["events"][0]["seq"] == document["seq"]


def test_an_agent_gets_one_frame_inside_a_fence(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.hypotheses.add("wider is better")
    monkeypatch.setenv("CLAUDECODE", "1")
    assert run(["watch"]) == 0
    text = capsys.readouterr().out
    assert "wider is better" in text
    assert "wider is better" not in outside(text)


# --- on a terminal ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_follows_the_record_and_gives_the_terminal_back(lab: Lab, project: Path) -> None:
    with on_screen(project, "watch") as screen:
        screen.until(lambda text: "q quit" in text)
        assert screen.modes == {"1049": True, "25": False, "7": False}
        lab.hypotheses.add("added meanwhile")
        screen.until(lambda text: "added meanwhile" in text)
        screen.resize(100, 12)
        screen.until(lambda text: "added meanwhile" in text and "q quit" in screen.lines[11])
        screen.resize(80, 24)
        screen.until(lambda text: "q quit" in screen.lines[23])
        screen.type(b"?")
        screen.until(lambda text: "quit; runs go on" in text)
        screen.type(b"x")
        screen.until(lambda text: "added meanwhile" in text)
        screen.type(b"q")
        assert screen.ends() == 0
        assert screen.modes == {"1049": False, "25": True, "7": True}
        assert screen.before.strip() == ""


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 0)])
def test_a_signal_gives_the_terminal_back(lab: Lab, project: Path, sent: signal.Signals, code: int) -> None:
    with on_screen(project, "watch") as screen:
        screen.until(lambda text: "q quit" in text)
        screen.process.send_signal(sent)
        assert screen.ends() == code
        assert screen.modes == {"1049": False, "25": True, "7": True}
        assert "Traceback" not in screen.before


@pytest.mark.slow
def test_it_gives_the_terminal_back_while_it_is_stopped(lab: Lab, project: Path) -> None:
    with on_screen(project, "watch") as screen:
        screen.until(lambda text: "q quit" in text)
        screen.process.send_signal(signal.SIGTSTP)
        screen.until(lambda text: not screen.modes["1049"])
        assert screen.modes == {"1049": False, "25": True, "7": True}
        screen.lines = [""] * 24  # the shell has written over it
        _, status = os.waitpid(screen.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        screen.process.send_signal(signal.SIGCONT)
        screen.until(lambda text: "q quit" in text)
        screen.type(b"q")
        assert screen.ends() == 0


@pytest.mark.slow
def test_names_of_others_reach_no_terminal_as_sequences(lab: Lab, project: Path) -> None:
    """The screen of the tests fails at every sequence that the view itself does not use."""
    lab.hypotheses.add(HOSTILE)
    started(lab, title=HOSTILE, command=f"sh -c 'printf \"{HOSTILE}\"; sleep 600'")
    lab.experiments.propose("h1", command="echo x", title=HOSTILE)
    with on_screen(project, "watch") as screen:
        screen.until(lambda text: "e2 " in text and "r1 " in text and "h1 " in text)
        assert "\\x1b[2J" in screen.text
        assert "\u202e" not in screen.text
        screen.type(b"k")
        screen.until(lambda text: "end r1?" in text)
        screen.type(b"n")
        screen.until(lambda text: "q quit" in text)
        screen.type(b"q")
        assert screen.ends() == 0


@pytest.mark.slow
def test_a_person_approves_what_was_shown_whole(lab: Lab, project: Path) -> None:
    lab.experiments.propose(command="echo first " + "x" * 3000 + " LAST", title="long one")
    lab.experiments.propose(command="echo second", title="short one")
    with on_screen(project, "watch") as screen:
        screen.until(lambda text: "long one" in text)
        screen.type(b"ay")  # typed ahead: no answer to what was not shown
        screen.until(lambda text: "Approve e1" in text)
        screen.type(b"y")
        screen.until(lambda text: "more lines below" in text or "approve e1?" in text)
        assert lab.experiments.get("e1").status == "proposed"
        for _ in range(5):
            screen.type(b"\x1b[6~")
        screen.until(lambda text: "LAST" in text and "approve e1?" in text)
        screen.type(b"\x1b[C")
        screen.until(lambda text: "echo second" in text and "approve e2?" in text)
        screen.type(b"y")
        screen.until(lambda text: "approved e2" in text)
        assert [lab.experiments.get(id).status for id in ("e1", "e2")] == ["proposed", "approved"]
        assert lab.experiments.get("e2").approved_by is not None
        screen.type(b"a")
        screen.until(lambda text: "Approve e1" in text)
        screen.type(b"z")
        screen.until(lambda text: "q quit" in text)
        assert lab.experiments.get("e1").status == "proposed"


def test_what_changed_while_it_was_shown_is_not_approved(lab: Lab, project: Path) -> None:
    lab.experiments.propose(command="echo harmless", title="changes")
    with on_screen(project, "watch") as screen:
        screen.until(lambda text: "changes" in text)
        screen.type(b"a")
        screen.until(lambda text: "approve e1?" in text)
        lab.experiments.edit("e1", command="echo other")
        screen.type(b"y")
        screen.until(lambda text: "changed while it was shown" in text)
        assert lab.experiments.get("e1").status == "proposed"


@pytest.mark.slow
def test_a_person_ends_a_run_and_pauses_the_queue(lab: Lab, project: Path) -> None:
    (project / "steps.py").write_text(STEPS)
    id = started(lab, f"{sys.executable} steps.py", metric="acc", direction="max")
    with on_screen(project, "watch") as screen:
        screen.until(lambda text: "▁" in text and "█" in text and "running" in text)  # its curve
        screen.type(b"p")
        screen.until(lambda text: "queue PAUSED" in text)
        assert lab.queue.state() == "paused"
        screen.type(b"p")
        screen.until(lambda text: "queue PAUSED" not in text)
        screen.type(b"k")
        screen.until(lambda text: f"end {id}?" in text)
        assert lab.runs.get(id).status == "running"
        screen.type(b"y")
        screen.until(lambda text: f"{id} is killed" in text)
        assert lab.runs.get(id).status == "killed"
        screen.type(b"k")
        screen.until(lambda text: "no run is live" in text)
        screen.type(b"a")
        screen.until(lambda text: "nothing waits for approval" in text)


@pytest.mark.slow
def test_idle_it_costs_next_to_nothing(lab: Lab, project: Path) -> None:
    """Nothing changes, so nothing is drawn, and the processor has nothing to do."""
    with on_screen(project, "watch") as screen:
        screen.until(lambda text: "q quit" in text)
        while screen.read(1.5):
            pass
        fields = Path(f"/proc/{screen.process.pid}/stat")
        if not fields.exists():
            pytest.skip("needs /proc")

        def used_s() -> float:
            words = fields.read_text().rpartition(")")[2].split()
            return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

        before = used_s()
        assert screen.read(3.0) == b""
        assert used_s() - before < 0.3


@pytest.mark.slow
def test_a_held_project_says_why_a_key_does_nothing(lab: Lab, project: Path, tmp_path: Path) -> None:
    lab.experiments.propose(command="echo x", title="waits")
    with on_screen(project, "watch", variables={"PERPETUAL_STATE_DIR": str(tmp_path / "other")}) as screen:
        screen.until(lambda text: "waits" in text and "q quit" in text)
        screen.type(b"p")
        screen.until(lambda text: "perpetual trust" in text)
        assert lab.queue.state() == "running"
        screen.type(b"q")
        assert screen.ends() == 0


@pytest.mark.slow
@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"PERPETUAL_PLAIN": "1"}, {"CLAUDECODE": "1"}])
def test_a_terminal_that_is_not_drawn_on_gets_one_frame(lab: Lab, project: Path, variables: dict[str, str]) -> None:
    lab.hypotheses.add("wider is better")
    with on_screen(project, "watch", variables=variables) as screen:
        assert screen.ends() == 0
        assert "wider is better" in screen.before
        assert "1049" not in screen.modes


@pytest.mark.slow
def test_a_terminal_that_goes_away_ends_it(lab: Lab, project: Path) -> None:
    with on_screen(project, "watch") as screen:
        screen.until(lambda text: "q quit" in text)
        screen.process.send_signal(signal.SIGHUP)
        screen.ends()
        assert screen.process.returncode == 0


def test_a_frame_is_bounded(lab: Lab, project: Path) -> None:
    """A frame of a long record reads its end."""
    with lab.transaction():
        for number in range(300):
            lab.hypotheses.add(f"claim {number}")
    found = collected(lab, None)
    assert len(found["events"]) == 30
    assert len(found["hypotheses"]) == 20
    assert found["hypotheses_total"] == 300

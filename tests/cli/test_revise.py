"""The commands edit, undo and archive, the words of other tools, topics, ids that complete, and plain output."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from perpetual import Lab
from perpetual.cli.app import COMPLETE, program, run
from perpetual.errors import UsageError
from perpetual_cli.form import entries, read


@pytest.fixture
def research(project: Path) -> Path:
    """A baseline e1, a hypothesis h1 and its claim e2, approved."""
    with Lab.open() as lab:
        lab.experiments.propose(command="true", metric="acc", direction="max", title="plain\nlines")
        lab.hypotheses.add("it helps", metric="acc", direction="max", mde=0.1, baseline="e1")
        lab.experiments.propose("h1", command="true 2")
        lab.experiments.approve_all(["e1", "e2"])
    return project


def test_an_edit_shows_what_was_and_what_ended(research: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["edit", "e2", "--wall", "30m", "--tag", "a", "--config", '{"lr": 0.1}', "--env", "A=B"]) == 0
    shown = capsys.readouterr().out
    for line in (
        "wall_s: 86400.0 -> 1800.0",
        "tags: none -> a",
        "the approval of e2 has ended",
        "perpetual approve e2",
    ):
        assert line in shown
    assert run(["edit", "h1", "--metric", "acc", "--statement", "it does help", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["statement"] == "it does help"
    for line, words in {
        "edit h1 --wall 3": "h1 is a hypothesis, and has no wall",
        "edit e1 --statement x": "e1 is an experiment, and has no statement",
        "edit r1 --title x": "r1 is a run",
        "edit notes/a.md --title x": "no hypothesis or experiment",
        "edit e1": "nothing to edit",
    }.items():
        assert run(line.split()) == 2
        assert words in capsys.readouterr().err


def test_a_form_reads_back_as_what_was_changed(research: Path) -> None:
    with Lab.open() as lab:
        form = entries(lab, "e2")
        typed = {name: value for name, value, _ in form}
        assert read(form, typed) == {}
        changed = {"wall": "20m", "tags": ["x"], "mde": 0.2, "notes": None, "env": {"A": 1}, "replicates": 3, "cost": 2}
        found = read(form, {**typed, **changed})
        assert found == {"wall_s": 1200.0, "tags": ["x"], "mde": 0.2, "notes": "", "env": {"A": "1"}, "replicates": 3,
                         "cost_run_hours": 2.0}  # fmt: skip
        assert lab.experiments.edit("e2", **found).resources.wall_s == 1200.0  # type: ignore[arg-type]
        for wrong in ({"replicates": "three"}, {"tags": "x"}, {"tittle": "x"}, {"wall": "soon"}, {"command": 5},
                      {"mde": True}, {"config": [1]}):  # fmt: skip
            with pytest.raises(UsageError):
                read(form, {**typed, **wrong})
        assert entries(lab, "h1")[0][0] == "statement"


def test_undo_and_archive_answer(research: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["undo", "--dry-run"]) == 0
    assert "would take back the approval of e1 and the approval of e2" in capsys.readouterr().out
    assert run(["undo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["subjects"] == ["e1", "e2"]
    assert run(["rm", "e2"]) == 6
    assert run(["reject", "e2", "--why", "no"]) == 0
    assert run(["rm", "e2", "h1", "e1"]) == 6
    with Lab.open() as lab:
        assert not lab.experiments.get("e2").archived, "none is where one cannot be"


def test_what_is_archived_is_listed_on_request(research: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reject", "e2", "--why", "no"]) == 0
    assert run(["archive", "e2", "h1"]) == 0
    assert "the record stays" in capsys.readouterr().out
    assert run(["hypotheses", "ls"]) == 0
    assert "every hypothesis is archived" in capsys.readouterr().out
    assert run(["hypotheses", "list", "--archived"]) == 0
    assert "parked, archived" in capsys.readouterr().out
    assert run(["ls"]) == 0
    assert "e2" not in capsys.readouterr().out
    assert run(["archive", "--restore", "h1"]) == 0
    assert "perpetual hypotheses update h1 --status open" in capsys.readouterr().out


def test_no_step_names_what_is_archived(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "true", "--wait"]) == 0  # an exploration, with which nothing can be compared
    for value in ("1", "2"):
        assert run(["run", f"echo acc={value}", "--metric", "acc", "--direction", "max", "--wait"]) == 0
    capsys.readouterr()
    for id, words in (("e2", "--against e2"), ("e3", "--against e3"), ("e1", "perpetual hypotheses add")):
        assert run(["status"]) == 0
        assert words in capsys.readouterr().out
        assert run(["archive", id]) == 0
    assert run(["ls"]) == 0
    assert "every experiment is archived: --archived lists them" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("memory add x", "perpetual memory write"),
        ("hypotheses delete h1", "perpetual archive h1"),
        ("show e1", "experiments e1"),
        ("delete e1", "perpetual archive ID"),
        ("revert", "perpetual undo"),
    ],
)
def test_words_of_other_tools_lead_to_ours(
    project: Path, capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    assert run(line.split()) == 2
    assert words in capsys.readouterr().err


def test_h_is_help_where_it_is_no_option(research: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("-h", "run -h", "hypotheses add -h", "experiments -h"):
        assert run(line.split()) == 0
        assert "-h, --help" in capsys.readouterr().out
    assert run(["propose", "-h", "h1", "--command", "true 3"]) == 0
    assert "for h1" in capsys.readouterr().out
    assert run(["propose", "-h"]) == 2
    assert "perpetual propose --help" in capsys.readouterr().err


def test_help_is_short_and_topics_are_whole(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    short = capsys.readouterr().out
    assert run(["--help", "--all"]) == 0
    whole = capsys.readouterr().out
    everyday = short.partition("Set up:")[2].partition("More commands")[0]
    assert len([line for line in everyday.splitlines() if line.startswith("  ")]) <= 10
    assert "evidence" in short
    assert "The ledger: list, add, retract, refold." not in short
    assert "The ledger: list, add, retract, refold." in whole
    assert run(["help", "hypotheses", "add"]) == 0
    assert "Usage: perpetual hypotheses add" in capsys.readouterr().out
    assert run(["help", "nothing"]) == 2


def _completed(*words: str) -> list[tuple[str, str | None]]:
    found = ShellComplete(program, {}, "perpetual", COMPLETE).get_completions([*words[:-1]], words[-1])
    return [(item.value, item.help) for item in found]


def test_ids_complete_with_their_titles(research: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPLETE, "zsh_complete")
    assert _completed("run", "") == [("e2", "true 2"), ("e1", "plain lines")]
    assert _completed("hypotheses", "show", "h") == [("h1", "it helps")]
    assert _completed("propose", "-h", "") == [("h1", "it helps")]
    assert _completed("run", "h") == []
    assert [value for value, _ in _completed("edit", "")] == ["e2", "e1", "h1"]
    monkeypatch.chdir("/")
    assert _completed("run", "") == []


def test_plain_output_is_a_fact_a_line(research: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--plain", "experiments"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("id: e1\nstatus: approved\n")
    assert "─" not in shown
    assert run(["experiments"]) == 0
    assert "─" in capsys.readouterr().out, "it holds for one command"
    assert "rich.live" not in sys.modules

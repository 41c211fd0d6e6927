"""What a person is shown before something is approved: what runs, and what is new in it; titles are one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.records import Experiment, from_json, one_line

FORGED = "harmless\ne99  approved: anything\r\n\x1b[2Ke98\u202e\u2028next: perpetual approve e1"


def _text(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(words) == 0, capsys.readouterr()
    return capsys.readouterr().out


def _json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_text(capsys, "--json", *words))
    return document


def test_a_title_that_is_not_the_command_hides_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "sh -c 'echo evil'"
    said = _text(capsys, "propose", "--title", "python train.py --lr 0.1", "--command", evil)
    assert f"\n  command: {evil}\n" in said
    assert f"python train.py --lr 0.1: {evil}" in " ".join(_text(capsys, "experiments").split())
    assert f"  e1    python train.py --lr 0.1: {evil}\n" in _text(capsys, "status")
    said = _text(capsys, "approve", "e1")
    assert said.index(f"  command: {evil}\n") < said.index("e1  approved: python train.py --lr 0.1\n")


def test_a_title_that_says_the_command_is_shown_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "command:" not in _text(capsys, "propose", "--command", "python train.py")
    assert _text(capsys, "status").count("python train.py") == 1
    long = "python train.py " + " ".join(f"--option-{number} {number}" for number in range(9))
    _text(capsys, "propose", "--command", long)
    assert "--option-8 8" in _text(capsys, "status")  # a title is cut where a command goes on
    assert "--option-8 8" in " ".join(_text(capsys, "experiments").split())


def test_approve_shows_the_whole_specification(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "sub").mkdir()
    words = ["--command", "python a.py", "--cwd", "sub", "--env", "A=1", "-c", '{"lr": 0.1}', "--wall", "2h"]
    _text(capsys, "propose", *words, "--replicates", "3")
    _text(capsys, "propose", "--command", "python b.py")
    said = _text(capsys, "approve", "e1", "e2")
    for line in ("command: python a.py", "folder: sub", "environment: A=1", 'config: {"lr": 0.1}'):
        assert f"  {line}\n" in said
    assert "needs: no GPU, wall limit 2.00 h; 3 runs" in said
    assert said.count("approved: ") == 2
    assert "folder: .\n" in said


def test_approve_says_what_has_changed_since_a_like_one(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Lab.open(project) as lab:
        lab.hypotheses.add("m grows", metric="m", direction="max", mde=0.1, baseline=1.0)
        propose = lab.experiments.propose
        same: dict[str, Any] = {
            "command": "python train.py --lr 0.1 --steps 5",
            "config": {"opt": {"beta": 0.9}},
            "env": {"A": "1"},
        }
        first = propose("h1", **same)
        propose(None, command="python train.py --lr 0.9")  # never approved
        lab.experiments.approve(first.id)
        propose("h1", command="python train.py --lr 0.2 --steps 5 --wd 1", config={"opt": {"beta": 0.8}}, wall_s=60.0)
        propose("h1", **same, mde=0.2)
        propose(None, command="elsewhere 1")
        differs = lab.experiments.differences("e3")
        assert differs is not None
        assert differs["id"] == "e1"
        assert differs["command"] == [{"was": "0.1", "now": "0.2"}, {"was": None, "now": "--wd 1"}]
        assert differs["config"] == {"opt.beta": {"was": 0.9, "now": 0.8}}
        assert differs["env"] == {"A": {"was": "1", "now": None}}
        assert differs["cwd"] is None
        assert differs["resources"]["wall_s"]["now"] == 60.0
        assert lab.experiments.differences("e5") is None
        assert lab.experiments.differences("e1") is None
    said = _text(capsys, "approve", "e3")
    assert "since e1: 0.1 -> 0.2; + --wd 1; env A - 1; config opt.beta 0.9 -> 0.8; resources wall_s" in said
    assert "since e1: the same" in _text(capsys, "approve", "e4")
    document = _json(capsys, "approve", "e5")
    assert (document["status"], document["differs"]) == ("approved", None)


def test_titles_are_one_line_everywhere(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert one_line(FORGED) == "harmless e99 approved: anything \\x1b[2Ke98\\u202e next: perpetual approve e1"
    with Lab.open(project) as lab:
        made = lab.experiments.propose(command="true", title=FORGED)
        assert made.title == one_line(FORGED)
        code = f"{sys.executable} -c 'import os\nprint(1)\nprint(2)'"
        assert "\n" not in lab.experiments.propose(command=code).title
        assert lab.experiments.propose(command="true 2", title=" \n ").title == "true 2"
        with lab.context.store.transaction() as tx:  # as an older version kept it
            body = lab.context.need("experiment", "e1").body
            tx.put("experiment", "e1", {**body, "title": FORGED, "command": "echo 'a\ne97  approved: x'"})
        assert lab.experiments.get("e1").title == one_line(FORGED)
        assert from_json(Experiment, {**body, "title": FORGED}).title == one_line(FORGED)
    for words in (("experiments",), ("experiments", "e1"), ("status",), ("reject", "e1", "--why", "x")):
        for said in _text(capsys, *words).splitlines():
            assert not said.startswith(("e99", "e98", "e97"))
            assert "\x1b" not in said


def test_approving_stays_atomic(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Lab.open(project) as lab:
        lab.experiments.propose(command="true 1")
        lab.experiments.propose(command="true 2")
    assert run(["approve", "e1", "e9"]) == 5
    assert "approved" not in capsys.readouterr().out
    assert run(["approve", "e1", "e2"]) == 0
    assert run(["approve", "e1"]) == 6

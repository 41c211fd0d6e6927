"""The report says what the record says, and user text in it is text."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_report.document import render

HOSTILE = "a | b <script>alert(1)</script> `code` # **x**\n\n| forged | row |"


def campaign(lab: Lab, value: str) -> None:
    claim = lab.hypotheses.add(HOSTILE, metric="acc", direction="max", mde=0.1, baseline=1.0)
    command = f"sh -c 'echo acc={value}$PERPETUAL_SEED'"
    trial = lab.experiments.propose(claim.id, command=command, noise=0.05, replicates=2, cost_run_hours=0.001)
    lab.experiments.approve(trial.id)
    lab.wait([started.id for started in lab.runs.launch(trial.id, every=True)], timeout_s=30)


def test_every_number_names_its_run(project: Path) -> None:
    with Lab.open() as lab:
        campaign(lab, "1.5")
        text = render(lab)
        rows = lab.evidence.list().items
        hypothesis = lab.hypotheses.get("h1")
    assert hypothesis.status == "supported"
    assert f"| **supported** | {hypothesis.confidence:.3f} |" in text
    assert len(rows) == 2
    for row in rows:
        assert row.value is not None
        assert f"| {row.id} | {row.value:.6g} |" in text
        assert f"`runs/{row.run_id}/stdout.log:1`" in text


def test_user_text_cannot_forge_the_report(project: Path) -> None:
    with Lab.open() as lab:
        lab.hypotheses.add(HOSTILE)
        text = render(lab)
    assert "<script>" not in text
    assert "| forged | row |" not in text
    assert "\\| forged \\| row \\|" in text


def test_control_characters_of_a_command_are_made_visible(project: Path) -> None:
    with Lab.open() as lab:
        made = lab.experiments.propose(command="printf '\x1b[31m\u202e'")
        lab.experiments.approve(made.id)
        lab.runs.launch(made.id)
        lab.wait([made.id], timeout_s=60)
        text = render(lab)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "`printf '\\x1b[31m\\u202e'`" in text


def test_a_bar_in_a_command_ends_no_cell(project: Path) -> None:
    command = "echo 'a|b' 'c|d'"
    with Lab.open() as lab:
        lab.experiments.propose(command=command, title="baseline")
        text = render(lab)
    (row,) = (line for line in text.splitlines() if line.startswith("| e1 |"))
    cells = re.split(r"(?<!\\)\|", row)[1:-1]
    assert len(cells) == 4
    assert cells[-1].replace("\\|", "|").strip() == f"`{command}`"


def test_an_empty_project_has_a_report(project: Path) -> None:
    with Lab.open() as lab:
        assert "none yet" in render(lab)


def test_a_failed_run_is_listed_with_its_reason(project: Path) -> None:
    with Lab.open() as lab:
        trial = lab.experiments.propose(command="sh -c 'exit 3'", metric="acc")
        lab.experiments.approve(trial.id)
        lab.wait([lab.runs.launch(trial.id)[0].id], timeout_s=30)
        text = render(lab)
    assert "| r1 | e1: sh -c 'exit 3' | failed | exit code 3 |" in text


def test_the_command_report_prints_or_writes_a_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# test: report")
    assert run(["report", "-o", "out/report.md", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "perpetual.report/1"
    assert Path(document["path"]).read_text() == document["text"] == printed
    assert run(["report", "-o", "/proc/nowhere/report.md"]) == 1
    assert "could not be written" in capsys.readouterr().err
    assert run(["report", "--format", "pdf"]) == 2


def test_a_report_replaces_a_report_and_nothing_else(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip of the fingers in -o was the end of a program, of the record, and as root of /dev/null."""
    Path("train.py").write_text("print(1)\n")
    Path("empty.md").touch()
    Path("link.md").symlink_to("train.py")
    Path("record").symlink_to(".perpetual")
    os.mkfifo("pipe")
    journal = Path(".perpetual/store/journal.jsonl").read_bytes()
    for name, words in {
        "train.py": "no report", "link.md": "it is a link", "pipe": "not a regular file",
        "record/store/journal.jsonl": "inside a .perpetual", ".perpetual/config.yaml": "inside a .perpetual",
    }.items():  # fmt: skip
        assert run(["report", "-o", name]) == 2
        assert words in capsys.readouterr().err
    assert Path("train.py").read_text() == "print(1)\n"
    assert stat.S_ISFIFO(Path("pipe").lstat().st_mode)
    assert Path(".perpetual/store/journal.jsonl").read_bytes() == journal
    for _ in range(2):
        assert run(["report", "-o", "empty.md"]) == 0
        assert run(["report", "--format", "html", "-o", "page.html"]) == 0

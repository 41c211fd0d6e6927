"""An autoresearch loop goes on as a campaign, from the commit of its best row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from tests.plugins.campaign.support import git, users_state

HEADER = "commit\tval_bpb\tmemory_gb\tstatus\tdescription\n"


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A loop's folder: a baseline, a try that was kept, a better one that was discarded, and a crash."""
    folder = tmp_path / "gpt loop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "autoresearch/nov")
    rows = [("keep", 1.0, "baseline"), ("keep", 0.9, "a wider layer"), ("discard", 0.8, "cheating"),
            ("crash", 0.0, "too wide")]  # fmt: skip
    for name in ("prepare.py", "program.md"):
        (folder / name).write_text("x\n")
    (folder / ".gitignore").write_text("results.tsv\n")
    table = HEADER
    for place, (status, value, text) in enumerate(rows):
        (folder / "train.py").write_text(f"print('val_bpb: {value}')  # {place}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", text)
        table += f"{git(folder, 'rev-parse', '--short=7', 'HEAD')}\t{value:.6f}\t44.0\t{status}\t{text}\n"
    (folder / "results.tsv").write_text(table)
    monkeypatch.chdir(folder)
    return folder


def test_one_command_goes_on_from_the_best_commit(loop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (loop / ".git" / "info" / "exclude").write_text(".perpetual\n")
    before = users_state(loop)
    assert run(["campaign", "adopt", "--mde", "0.01", "--max-candidates", "9", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (found["name"], found["metric"], found["direction"]) == ("gpt-loop", "val_bpb", "min")
    assert (found["command"], found["edit"]) == ("python train.py", ["train.py"])
    assert found["best"] == git(loop, "rev-parse", "HEAD~2"), "the best kept row, not the best row"
    assert {"prepare.py", "program.md", "*.tsv"} <= {*found["protect"]}
    assert users_state(loop) == before
    with Lab.open() as lab:
        assert len(lab.experiments.list(tag="autoresearch").items) == 4
    assert run(["campaign", "candidate", "gpt-loop", "an idea"]) == 0
    assert "# 1" in (loop / ".perpetual" / "campaigns" / "gpt-loop" / "c1" / "train.py").read_text()


def test_a_loops_budget_holds_its_first_candidate(loop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["campaign", "adopt", "--budget-run-hours", "20"]) == 0
    assert "2 run-hours at most" in capsys.readouterr().out
    assert run(["campaign", "candidate", "gpt-loop", "an idea"]) == 0
    (loop / ".perpetual" / "campaigns" / "gpt-loop" / "c1" / "train.py").write_text("print('val_bpb: 0.85')\n")
    with Lab.open() as lab:
        lab.queue.set_state("paused")
    assert run(["campaign", "submit", "c1"]) == 0
    assert run(["campaign", "new", "other", "--command", "python train.py", "--metric", "val_bpb", "--direction", "min",
                "--edit", "train.py", "--budget-run-hours", "20"]) == 7  # fmt: skip
    assert "a lower --wall" in capsys.readouterr().err


def test_a_table_without_commits_that_are_there_is_refused(loop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (loop / "results.tsv").write_text(HEADER + "1234567\t0.5\t1.0\tkeep\tlost\n")
    assert run(["campaign", "adopt"]) == 2
    assert "no kept row" in capsys.readouterr().err
    with Lab.open() as lab:
        assert lab.experiments.list().items == (), "nothing is taken over by halves"

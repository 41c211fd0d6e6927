"""A notebook's cell as a supervised run, in a real IPython."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual_export.magic import CELLS, CellRuns

CELL = """# halves the step
import json, os
config = json.load(open(os.environ["PERPETUAL_CONFIG"]))
print("loss:", config["step"] / 2)
"""
Cell = Callable[..., Any]


@pytest.fixture(scope="module")
def shell() -> Any:
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))  # type: ignore[no-untyped-call]
    shell.run_line_magic("load_ext", "perpetual")
    return shell


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.chdir(tmp_path)
    with Lab.init(tmp_path, name="notebook", methodology={"memory_write_on_completion": False}) as lab:
        yield lab


@pytest.fixture
def cell(shell: Any, lab: Lab) -> Cell:
    def ran(line: str, text: str) -> Any:
        done = shell.run_cell(f"%%perpetual {line}\n{text}", store_history=False)
        return done.result if done.success else done.error_in_exec

    return ran


def test_a_cell_is_proposed_approved_and_run(
    lab: Lab, cell: Cell, shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.user_ns["settings"] = {"step": 3}
    runs = cell("--metric loss --direction min --replicates 2 --config settings", CELL)
    assert [(run.status, run.metrics) for run in runs] == [("done", {"loss": 1.5})] * 2
    assert "loss: 1.5" in capsys.readouterr().out
    experiment = lab.experiments.get("e1")
    assert (experiment.title, experiment.config, experiment.tags) == ("halves the step", {"step": 3}, ("notebook",))
    (file,) = (lab.root / CELLS).iterdir()
    assert file.read_text() == CELL
    assert str(experiment.command).endswith(f"python {CELLS}/{file.name}")
    assert experiment.approved_by is not None
    assert "<table>" in runs._repr_html_()

    again = cell("--metric loss --direction min --config settings", CELL)
    assert lab.experiments.get(again[0].experiment_id).extends == "e1"  # the same cell: more replicates
    shell.user_ns["settings"] = {"step": 4}
    other = cell("--metric loss --direction min --config settings", CELL)
    assert lab.experiments.get(other[0].experiment_id).extends is None


def test_a_cell_that_fails_says_why(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    runs = cell("", "raise ValueError('b\\x1boo')")
    assert [run.status for run in runs] == ["failed"]
    assert isinstance(runs, CellRuns)
    out = capsys.readouterr().out
    assert "ValueError: b" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("line", "text", "words"),
    [
        ("", "!ls", "the cell is no plain Python at line 1"),
        ("--direction up", "1", "--direction"),
        ("--replicates x", "1", "--replicates"),
        ("--config nothing", "1", "the notebook has no variable of that name"),
        ("--config '{'", "1", "--config is no JSON"),
        ("--title 'open", "1", "No closing quotation"),
        ("-h h9", "1", "h9"),
        ("--wall -3", "1", "--wall"),
    ],
)
def test_a_mistake_is_one_line_and_writes_no_record(lab: Lab, cell: Cell, line: str, text: str, words: str) -> None:
    problem = cell(line, text)
    assert words in str(problem)
    assert len(problem._render_traceback_()) == 1
    assert [*lab.experiments.all()] == []


def test_an_agent_s_cell_waits_for_a_person(
    lab: Lab, cell: Cell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    assert cell("", "print(1)") is None
    assert "e1 is proposed and waits for a person's approval" in capsys.readouterr().out
    assert [*lab.runs.all()] == []
    monkeypatch.delenv("CLAUDECODE")
    assert [run.status for run in cell("", "print(1)")] == ["done"]


def test_the_options_are_listed(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_line_magic("perpetual", "")
    assert "--replicates" in capsys.readouterr().out

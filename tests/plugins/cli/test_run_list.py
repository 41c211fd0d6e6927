"""`perpetual runs` on a screen: a wide one says what each run was of, and what else it measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run


def test_a_wide_screen_has_room_for_title_and_metrics(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Lab.open(project) as lab:
        made = lab.experiments.propose(
            command="sh -c 'echo acc=0.5; echo loss=2.5'", title="a wider layer", metric="acc", direction="max"
        )
        lab.experiments.approve(made.id)
        lab.wait([lab.runs.launch(made.id)[0].id], timeout_s=30)
    shown = {}
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for columns in ("80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        assert run(["runs"]) == 0
        shown[columns] = capsys.readouterr().out
    assert "acc 0.5, and 1 more" in shown["80"]
    assert "a wider layer" not in shown["80"]
    assert "acc 0.5, loss 2.5" in shown["200"], "the metric that the run was for comes first"
    assert "a wider layer" in shown["200"]

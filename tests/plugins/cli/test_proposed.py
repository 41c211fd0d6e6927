"""What `propose` says of an experiment that tests nothing of the hypothesis that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run


def test_an_experiment_without_a_claim_says_that_it_tests_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of a hypothesis without a smallest effect, where a claim has to be asked for."""
    with Lab.open(project) as lab:
        lab.hypotheses.add("it raises acc", metric="acc", direction="max", baseline=0.5)
    words = ["propose", "-h", "h1", "--command", "true", "--dry-run"]
    assert run(words) == 0
    assert "it tests nothing of h1: --claim improves does" in capsys.readouterr().out
    assert run([*words, "--claim", "improves"]) == 0
    assert "tests nothing" not in capsys.readouterr().out

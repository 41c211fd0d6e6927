"""What a report says of a baseline, and of an effect whose interval is wide."""

from __future__ import annotations

from pathlib import Path

from perpetual import Lab
from perpetual_report.content import _form
from perpetual_report.document import render
from perpetual_report.verification import verify


def test_a_baseline_shows_what_it_measured(project: Path) -> None:
    with Lab.open() as lab:
        h = lab.hypotheses.add("it is better").id
        command = "sh -c 'echo acc=0.8$PERPETUAL_SEED'"
        made = lab.experiments.propose(h, command=command, metric="acc", direction="max", replicates=3)
        silent = lab.experiments.propose(h, command="true", replicates=1)
        for item in (made, silent):
            lab.experiments.approve(item.id)
            lab.wait([run.id for run in lab.runs.launch(item.id, every=True)], timeout_s=60)
        text = render(lab)
        Path("report.md").write_text(text)
        assert "Measured, without a claim: acc 0.8" in text
        assert "(mean of n = 3, sd " in text
        assert "It claims nothing; its runs: 1 done." in text
        assert "No value that counts" not in text
        assert verify(lab, Path("report.md"))["ok"]


def test_a_wide_interval_takes_no_digit_from_its_effect() -> None:
    assert format(0.0649, _form(1.37, 0.0649)) == "+0.065"
    assert format(-0.31007, _form(0.011, -0.31007)) == "-0.310"
    assert format(0.0, _form(1.37, 0.0)) == "+0.0"

"""The prior of a new claim where the methodology takes it from the record, and where the base rate is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run


def decided(lab: Lab, effects: list[float]) -> None:
    """Runs a claim of each effect, against a number; noise of a tenth of the mde."""
    made = []
    for effect in effects:
        claim = lab.hypotheses.add(f"{effect} better", metric="acc", direction="max", mde=0.1, baseline=0.5)
        command = f"printf 'acc={0.5 + effect:.3f}%d' $((${{PERPETUAL_SEED}} % 10))"
        made.append(lab.experiments.propose(claim.id, command=f'sh -c "{command}"', replicates=4).id)
        lab.experiments.approve(made[-1])
        lab.runs.launch(made[-1], every=True)
    lab.wait(made, timeout_s=100)


@pytest.mark.slow
def test_the_record_s_base_rate_becomes_the_prior_of_new_claims(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Lab.open(project) as lab:
        lab.settings.set_methodology("prior", "empirical")
        decided(lab, [0.211, 0.311] + [-0.211] * 7)
        assert lab.status()["family"]["tested"] == 9
        assert lab.hypotheses.add("too few to say").prior == 0.5
        decided(lab, [-0.311])
        share = lab.status()["family"]["base_rate"]
        assert share is not None
        assert 0.05 < share < 0.5
        assert lab.hypotheses.add("one like the others").prior == round(max(share, 0.25), 3)
        assert lab.hypotheses.add("of its own", prior=0.6).prior == 0.6
        words = f"about {share:.0%} of such claims are true"
        assert words in lab.status()["family"]["sentence"]
        for command in (["status"], ["brief"], ["hypotheses", "list"], ["report", "--format", "md"]):
            assert run(command) == 0
            assert f"bout {share:.0%} of such claims are true" in capsys.readouterr().out.replace("\n", " ")
        lab.settings.set_methodology("prior", "even")
        assert lab.hypotheses.add("as before").prior == 0.5


def test_another_word_is_refused(project: Path) -> None:
    with Lab.open(project) as lab, pytest.raises(Exception, match="prior"):
        lab.settings.set_methodology("prior", "hopeful")

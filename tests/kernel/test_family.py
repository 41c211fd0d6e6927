"""The prior of a new claim where the methodology takes it from the record, and where the base rate is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from tests.decided import decided


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

"""Arms of a campaign: both runs of each pair are completed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Conflict
from perpetual_stoppers.judge import judge
from tests.plugins.campaign.support import edited, repository, started
from tests.support import until


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    """A lab in a repository; its runs have ended when the test is over."""
    repository(project)
    with Lab.open() as made:
        made.settings.set_methodology("max_concurrent_runs", "8")
        yield made
        made.queue.set_state("paused")
        for run in made.runs.live():
            with suppress(Conflict):
                made.runs.kill(run.id, grace_s=0.0)


@pytest.mark.slow
def test_no_arm_of_a_campaign_is_stopped(lab: Lab) -> None:
    # They are live for as long as the test looks at them; the fixture ends them.
    campaigns = started(lab, command=f"{sys.executable} -c 'import time; time.sleep(600)'", replicates=2)
    campaigns.submit(edited(campaigns, "GAIN = 0.1\n").id)
    lab.scan()
    until(lambda: {run.status for run in lab.runs.live()} == {"running"})
    found = judge(lab, stoppers=["curve"], dry_run=True)["runs"]
    arms = {each["experiment_id"]: lab.experiments.get(each["experiment_id"]).design.claim for each in found}
    assert sorted(map(str, arms.values())) == ["None", "improves"], "the best, and the candidate"
    assert len(found) == 4
    assert {(each["verdict"], each["why"]) for each in found} == {
        ("not_eligible", "it is of a pair of a campaign, which needs both runs complete")
    }

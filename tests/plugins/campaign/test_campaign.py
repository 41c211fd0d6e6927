"""Campaigns with real runs: what is kept, what is archived, and that nothing of the user's is touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from tests.plugins.campaign.support import edited, git, repository, settled, started, users_state


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    repository(project)
    with Lab.open() as lab:
        yield lab


def test_an_idea_that_helps_is_kept_with_its_evidence(lab: Lab) -> None:
    import time

    before = users_state(lab.root)
    campaigns = started(lab)
    made = edited(campaigns, "GAIN = 0.2\n", "a higher gain")
    t = time.time()
    campaigns.submit(made.id)
    print("submit", time.time() - t)
    found = settled(lab, made.id)
    print("settled", time.time() - t)
    print(found.fields)
    assert found["state"] == "kept", found.fields
    print(git(lab.root, "log", "--format=%an %B", "-2", "perpetual/campaign/demo/best"))
    print(git(lab.root, "branch", "-a"), git(lab.root, "worktree", "list"))
    assert users_state(lab.root) == before

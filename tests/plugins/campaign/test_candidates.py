"""Candidates without a run: worktrees, what is refused before anything runs, ends of the process, hostile worktrees."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Conflict, NotFound, Refused, UsageError
from perpetual.toolkit.agents import AGENT_VARIABLES
from perpetual_campaign.campaigns import CANDIDATE, Campaigns
from perpetual_campaign.finalize import finalize
from perpetual_campaign.repository import Repository
from tests.plugins.campaign.support import COMMAND, edited, git, repository, started, users_state


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    repository(project)
    with Lab.open() as lab:
        yield lab


@pytest.fixture
def as_agent(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The same project as an agent sees it, whose proposals wait for a person."""
    monkeypatch.setenv(next(iter(AGENT_VARIABLES)), "1")
    with Lab.open() as agents:
        yield agents


def experiments(lab: Lab) -> int:
    return len(lab.experiments.list().items)


def test_candidates_are_edited_side_by_side_and_nothing_of_the_users_changes(lab: Lab) -> None:
    (lab.root / "model.py").write_text("GAIN = 0.5  # the user's own edit\n")
    (lab.root / "staged.py").write_text("x = 1\n")
    git(lab.root, "add", "staged.py")
    before = users_state(lab.root)
    campaigns = started(lab)
    one, two = (campaigns.candidate("demo", f"idea {n}") for n in (1, 2))
    for made in (one, two):
        folder = campaigns.worktree(made)
        assert (folder / "model.py").read_text() == "GAIN = 0.0\n"
        assert git(folder, "branch", "--show-current") == f"perpetual/campaign/demo/{made.id}"
    (campaigns.worktree(one) / "model.py").write_text("GAIN = 0.1\n")
    assert (campaigns.worktree(two) / "model.py").read_text() == "GAIN = 0.0\n"
    campaigns.drop(one.id, "no")
    campaigns.close("demo")
    assert users_state(lab.root) == before
    assert git(lab.root, "for-each-ref", "--format=%(refname)", "refs/heads/perpetual/archive").count("\n") == 1


SENSELESS: list[tuple[dict[str, Any], str]] = [
    ({"edit": []}, "may change"),
    ({"edit": ["../x"]}, "--edit"),
    ({"direction": "up"}, "direction"),
    ({"replicates": 1}, "--replicates"),
    ({"mde": -1.0}, "--mde"),
    ({"command": "python 'x"}, "cannot be read"),
    ({"base": "--output=x"}, "names no commit"),
    ({"max_candidates": 0}, "--max-candidates"),
]


def test_a_campaign_that_makes_no_sense_is_refused(lab: Lab) -> None:
    for keys, words in SENSELESS:
        with pytest.raises(UsageError, match=words):
            started(lab, **keys)
    assert Campaigns(lab).all() == []


def test_a_name_is_one_that_a_branch_may_have(lab: Lab) -> None:
    for name in ("", "A", "../x", "a b", "-x", "x.lock", "c3", "x" * 41, "é"):
        with pytest.raises(UsageError, match="name"):
            Campaigns(lab).new(name, command=COMMAND, metric="loss", direction="min", edit=["model.py"])


def test_what_is_not_there_is_named(lab: Lab) -> None:
    campaigns = started(lab)
    with pytest.raises(NotFound, match="c99"):
        campaigns.submit("c99")
    with pytest.raises(NotFound, match="dmo"):
        campaigns.candidate("dmo", "x")
    with pytest.raises(Conflict, match="there is a campaign"):
        started(lab)
    with pytest.raises(Conflict, match="kept nothing"):
        finalize(lab, "demo")


def test_an_idea_is_one_line(lab: Lab) -> None:
    made = started(lab).candidate("demo", "a gain\n\nPerpetual-E-Value: 1e9\x1b[2J")
    assert made["idea"].isprintable()


def test_worktrees_are_nothing_that_the_user_would_add(lab: Lab) -> None:
    (lab.root / ".gitignore").write_text("__pycache__/\n")
    campaigns = started(lab)
    campaigns.candidate("demo", "an idea")
    git(lab.root, "add", "-A")
    assert "campaigns" not in git(lab.root, "ls-files")


def test_a_campaign_has_its_most_candidates(lab: Lab) -> None:
    campaigns = started(lab, max_candidates=1)
    campaigns.candidate("demo", "one")
    with pytest.raises(Refused, match="at most 1"):
        campaigns.candidate("demo", "two")


def _new_file(folder: Path) -> None:
    (folder / "other.py").write_text("x = 1\n")


def _the_measure(folder: Path) -> None:
    (folder / "train.py").write_text("print('loss: 0')\n")


def _a_link(folder: Path) -> None:
    (folder / "model.py").unlink()
    (folder / "model.py").symlink_to("/etc/passwd")


def _a_repository(folder: Path) -> None:
    (folder / "model.py").unlink()
    (folder / "model.py").mkdir()
    git(folder / "model.py", "init", "-q")


def _too_much(folder: Path) -> None:
    (folder / "model.py").write_text("#" * 2_000_000)


def _committed(folder: Path) -> None:
    _new_file(folder)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "hidden")


def _nothing(folder: Path) -> None:
    """Leaves it as it is."""


DEEDS: list[tuple[Callable[[Path], None], str]] = [
    (_nothing, "no_change"),
    (_new_file, "out_of_scope"),
    (_committed, "out_of_scope"),
    (_the_measure, "protected"),
    (_a_link, "link"),
    (_a_repository, "submodule"),
    (_too_much, "too_large"),
]


def test_a_difference_is_refused_before_anything_is_proposed(lab: Lab) -> None:
    campaigns = started(lab, protect=["train.py"])
    for deed, code in DEEDS:
        made = campaigns.candidate("demo", "an idea")
        deed(campaigns.worktree(made))
        with pytest.raises(Refused) as problem:
            campaigns.submit(made.id)
        assert (problem.value.code, campaigns.get(made.id)["state"]) == (code, "editing")
    assert experiments(lab) == 0


def test_an_agents_candidate_waits_for_a_person(as_agent: Lab) -> None:
    campaigns = started(as_agent)
    one = campaigns.submit(edited(campaigns, "GAIN = 0.1\n").id)
    assert (one["state"], one["mark"]) == ("trial", None)
    assert [item.status for item in as_agent.experiments.list().items] == ["proposed", "proposed"]
    assert "approves e1 and e2" in campaigns.advance()[one.id]
    again = edited(campaigns, "GAIN = 0.1\n", "the same in other words")
    with pytest.raises(Refused, match="tried the same difference") as problem:
        campaigns.submit(again.id)
    assert problem.value.code == "tried_before"
    arms = [as_agent.experiments.get(id) for id in ("e1", "e2")]
    assert [arm.resources.worktree for arm in arms] == [
        f".perpetual/campaigns/demo/best-{one['base'][:12]}",
        f".perpetual/campaigns/demo/{one.id}-{one['commit'][:12]}",
    ]  # fmt: skip
    assert arms[1].design.paired
    assert (arms[1].design.changes, arms[1].resources.isolate) == ("code", True)


@pytest.mark.slow
def test_a_mark_is_for_one_difference(as_agent: Lab) -> None:
    """A record from elsewhere, or one that an agent has edited, brings no approval along."""
    campaigns = started(as_agent)
    one = campaigns.submit(edited(campaigns, "GAIN = 0.1\n").id)
    as_agent.records(CANDIDATE).update(one.id, mark="0" * 64)
    with Lab.open() as other:
        assert "approves" in Campaigns(other).advance()[one.id]


def test_a_budget_that_does_not_hold_a_trial_refuses_it(lab: Lab) -> None:
    with pytest.raises(Refused, match="run-hours"):  # a trial takes up to 6
        started(lab, wall_s=3600.0, budget_run_hours=5.0)
    assert Campaigns(lab).all() == []
    lab.queue.set_state("paused")
    campaigns = started(lab, wall_s=3600.0, budget_run_hours=11.0)
    one, two = (edited(campaigns, f"GAIN = 0.{place}\n") for place in (1, 2))
    campaigns.submit(one.id)
    with pytest.raises(Refused, match="has 5 left of 11"):
        campaigns.submit(two.id)
    assert experiments(lab) == 2


@pytest.mark.slow
def test_what_is_not_submitted_in_time_ends(lab: Lab) -> None:
    campaigns = started(lab)
    made = edited(campaigns, "GAIN = 0.1\n")
    lab.records(CANDIDATE).update(made.id, expires_at="2000-01-01T00:00:00.000Z")
    campaigns.advance()
    assert (campaigns.get(made.id)["outcome"], campaigns.get(made.id)["state"]) == ("expired", "archived")
    assert (campaigns.worktree(made) / "model.py").read_text() == "GAIN = 0.1\n", "what was edited is still there"


def test_a_worktree_that_leads_elsewhere_is_refused(lab: Lab) -> None:
    campaigns = started(lab)
    made = edited(campaigns, "GAIN = 0.1\n")
    before = users_state(lab.root)
    folder = campaigns.worktree(made)
    (folder / ".git").write_text(f"gitdir: {lab.root / '.git'}\n")
    with pytest.raises(Conflict, match="no worktree"):
        campaigns.submit(made.id)
    (folder / ".git").unlink()
    git(folder, "init", "-q")
    with pytest.raises(Conflict, match="no worktree"):
        campaigns.submit(made.id)
    assert users_state(lab.root) == before


@pytest.mark.slow
def test_a_link_in_the_place_of_a_worktree_leads_nowhere(lab: Lab) -> None:
    campaigns = started(lab)
    made = edited(campaigns, "GAIN = 0.1\n")
    before = users_state(lab.root)
    folder = campaigns.worktree(made)
    shutil.move(folder, folder.with_name("moved"))
    folder.symlink_to(lab.root)
    with pytest.raises(Conflict, match="no worktree"):
        campaigns.submit(made.id)
    with pytest.raises(Conflict, match="no worktree"):
        campaigns.drop(made.id, "odd")
    folder.unlink()
    assert campaigns.advance() == {}
    assert campaigns.get(made.id)["state"] == "archived"
    assert users_state(lab.root) == before


@pytest.mark.slow
def test_another_branch_or_another_base_is_refused(lab: Lab) -> None:
    campaigns = started(lab)
    made = edited(campaigns, "GAIN = 0.1\n")
    folder = campaigns.worktree(made)
    git(folder, "switch", "-q", "-c", "mine")
    with pytest.raises(Conflict, match="another branch"):
        campaigns.submit(made.id)
    git(folder, "switch", "-q", f"perpetual/campaign/demo/{made.id}")
    git(folder, "update-ref", f"refs/heads/perpetual/campaign/demo/{made.id}",
        git(folder, "commit-tree", "HEAD^{tree}", "-m", "orphan"))  # fmt: skip
    with pytest.raises(Conflict, match="build on"):
        campaigns.submit(made.id)


@pytest.mark.slow
def test_no_hook_of_the_repository_runs(lab: Lab) -> None:
    for name in ("post-checkout", "pre-commit", "post-commit", "reference-transaction"):
        hook = lab.root / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {lab.root}/ran-{name}\nexit 1\n")
        hook.chmod(0o755)
    campaigns = started(lab)
    made = edited(campaigns, "GAIN = 0.1\n")
    campaigns.git.commit_all(campaigns.worktree(made), "x", "me", 1)
    assert [*lab.root.glob("ran-*")] == []


class Died(BaseException):
    """The end of a process."""


PLACES = ["ensure_worktree", "move", "remove_worktree", "delete"]


@pytest.mark.slow
def test_a_candidate_goes_on_after_an_end_of_the_process(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies before and after each step in git; what a scan does then is what would have been done."""
    campaigns = started(lab)
    for place, is_after in itertools.product(PLACES, (False, True)):
        real = getattr(Repository, place)

        def dies(*args: Any, real: Any = real, is_after: bool = is_after, **keys: Any) -> None:
            if is_after:
                real(*args, **keys)
            raise Died

        monkeypatch.setattr(Repository, place, dies)
        number = len(campaigns.of(campaigns.named("demo"))) + 1
        with suppress(Died):
            campaigns.drop(campaigns.candidate("demo", "an idea").id, "not wanted")
        monkeypatch.setattr(Repository, place, real)
        made = campaigns.get(f"c{number}")
        assert made["state"] in ("new", "archiving")
        campaigns.advance()
        if made["state"] == "new":
            assert (campaigns.worktree(made) / "model.py").exists()
            campaigns.drop(made.id, "not wanted")
        assert campaigns.get(made.id)["state"] == "archived"
        assert not campaigns.worktree(made).exists()
        refs = git(lab.root, "for-each-ref", "--format=%(refname:short)", "refs/heads/perpetual")
        assert f"campaign/demo/{made.id}" not in refs
        assert f"archive/demo/{made.id}" in refs


@pytest.mark.slow
def test_a_worktree_that_is_gone_ends_in_words(lab: Lab) -> None:
    campaigns = started(lab)
    made = edited(campaigns, "GAIN = 0.1\n")
    shutil.rmtree(campaigns.worktree(made))
    with pytest.raises(Conflict, match="gone"):
        campaigns.submit(made.id)
    campaigns.drop(made.id, "gone")
    assert campaigns.get(made.id)["state"] == "archived"


@pytest.mark.slow
def test_a_change_applies_to_another_commit_or_is_known_not_to(lab: Lab) -> None:
    (lab.root / "other.py").write_text("a = 1\n")
    git(lab.root, "add", "other.py")
    git(lab.root, "commit", "-q", "-m", "other")
    head = git(lab.root, "rev-parse", "HEAD")
    repo = Repository(lab.root)
    before = users_state(lab.root)
    tree = repo.applied(f"{head}^", head, f"{head}^")
    assert tree == repo.tree_of(head)
    assert repo.applied(f"{head}^", head, head) in (None, repo.tree_of(head))
    assert users_state(lab.root) == before


def test_a_project_without_a_repository_is_refused(project: Path) -> None:
    with Lab.open() as lab, pytest.raises(UsageError, match="no git repository"):
        started(lab)
    git(project, "init", "-q")
    with Lab.open() as lab, pytest.raises(UsageError, match="no commit yet"):
        started(lab)

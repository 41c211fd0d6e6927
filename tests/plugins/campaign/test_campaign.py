"""Campaigns with runs: what is kept, what is archived, and that nothing of the user's is touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Conflict, Record, Refused
from perpetual.toolkit.lock import FileLock
from perpetual_campaign.campaigns import Campaigns
from perpetual_campaign.finalize import finalize
from perpetual_campaign.repository import Repository
from perpetual_campaign.show import campaign
from tests.plugins.campaign.support import apart, edited, git, instantly, repository, settled, started, users_state


@pytest.fixture
def lab(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A lab whose runs are over at once."""
    instantly(monkeypatch)
    repository(project)
    with Lab.open() as lab:
        yield lab


def tried(lab: Lab, text: str, idea: str = "another gain") -> Record:
    """A candidate that was submitted, and is over."""
    campaigns = Campaigns(lab)
    made = edited(campaigns, text, idea)
    campaigns.submit(made.id)
    return settled(lab, made.id)


def trailers(folder: Path, commit: str) -> dict[str, str]:
    """The trailers of a commit, as git reads them."""
    lines = git(folder, "log", "-1", "--format=%(trailers:only)", commit).splitlines()
    return dict(line.split(": ", 1) for line in lines if line)


@pytest.mark.slow
def test_what_helps_is_kept_with_its_evidence(lab: Lab) -> None:
    before = users_state(lab.root)
    campaigns = started(lab, replicates=3)
    kept = tried(lab, "GAIN = 0.2\n", "a higher gain")
    assert kept["state"] == "kept", kept.fields
    now = campaigns.named("demo")
    assert now["best"] == kept["kept"] == git(lab.root, "rev-parse", "perpetual/campaign/demo/best")
    assert git(lab.root, "show", f"{kept['kept']}:model.py") == "GAIN = 0.2"
    assert git(lab.root, "rev-parse", f"{kept['kept']}^") == now["base"]
    found = trailers(lab.root, kept["kept"])
    assert (found["Perpetual-Experiment"], found["Perpetual-Baseline"]) == ("e2, e4", "e1, e3")
    assert float(found["Perpetual-E-Value"]) >= 20
    assert "[" in found["Perpetual-Effect"]
    # The two comparisons have their seeds in pairs, and share none with each other.
    seeds = {id: [run.seed for run in lab.runs.named([id])] for id in ("e1", "e2", "e3", "e4")}
    assert seeds["e1"] == seeds["e2"] != seeds["e3"] == seeds["e4"]
    assert not {*seeds["e1"]} & {*seeds["e3"]}
    # By turns: each pair is over before the next one begins.
    order = [run.experiment_id for run in sorted(lab.runs.named(["e1", "e2"]), key=lambda run: int(run.id[1:]))]
    assert all({*order[place : place + 2]} == {"e1", "e2"} for place in range(0, 6, 2))
    assert users_state(lab.root) == before


@pytest.mark.slow
def test_what_does_not_help_is_archived_and_remembered(lab: Lab) -> None:
    campaigns = started(lab, replicates=3)
    kept = tried(lab, "GAIN = 0.2\n", "a higher gain")
    lost = tried(lab, "GAIN = 0.1\n", "a lower gain")
    assert (lost["state"], lost["base"]) == ("archived", kept["kept"])
    assert lost["outcome"] in ("refuted", "undecided")
    assert git(lab.root, "show", f"perpetual/archive/demo/{lost.id}:model.py") == "GAIN = 0.1"
    note = lab.memory.read(lost["note"], exposed_only=False)
    assert "a lower gain" in note
    assert lab.memory.get(lost["note"]).type == "failure_pattern"
    assert lab.hypotheses.list(status="open").items == (), "nothing is left for the loop to go on with"

    crashed = tried(lab, 'GAIN = "crash"\n', "no gain")
    assert (crashed["outcome"], "gave no result" in crashed["reason"]) == ("failed", True)
    with pytest.raises(Refused, match="nothing differs"):
        campaigns.submit(edited(campaigns, "GAIN = 0.2\n", "the best again").id)
    again = edited(campaigns, "GAIN = 0.1\n", "a lower gain, in other words")
    with pytest.raises(Refused, match="tried the same"):
        campaigns.submit(again.id)

    shown = campaign(lab, "demo")
    assert (shown["tried"], shown["kept"]) == (3, 1), "also the one that failed"
    assert shown["expected_false_keeps"] == pytest.approx(0.15)
    assert "at most 0.15 would be kept" in shown["sentence"]
    campaigns.close("demo")
    assert git(lab.root, "worktree", "list").count("\n") == 0


@pytest.mark.slow
def test_a_candidate_of_an_older_best_is_measured_against_the_new_one(lab: Lab) -> None:
    (lab.root / "other.py").write_text("# nothing yet\n")
    git(lab.root, "add", "other.py")
    git(lab.root, "commit", "-q", "-m", "other")
    campaigns = started(lab, edit=["model.py", "other.py"])
    one = edited(campaigns, "GAIN = 0.2\n", "a higher gain")
    two = edited(campaigns, "GAIN = 0.3\n", "a much higher gain")  # of the same line: it does not apply afterwards
    three = campaigns.candidate("demo", "a file more")
    (campaigns.worktree(three) / "other.py").write_text("# something\n")
    for made in (one, two):
        campaigns.submit(made.id)
    assert settled(lab, one.id)["state"] == "kept"
    found = settled(lab, two.id)
    assert (found["outcome"], found["reason"].partition(": ")[2]) == ("stuck", "it does not apply to the new best")
    campaigns.submit(three.id)
    best = campaigns.named("demo")["best"]
    assert campaigns.get(three.id)["base"] == best
    folder = campaigns.worktree(three)
    assert (folder / "model.py").read_text() == "GAIN = 0.2\n"
    assert (folder / "other.py").read_text() == "# something\n"


@pytest.mark.slow
def test_what_was_submitted_is_measured_whatever_is_edited_since(lab: Lab) -> None:
    campaigns = started(lab)
    made = edited(campaigns, "GAIN = 0.2\n")
    campaigns.submit(made.id)
    folder = campaigns.worktree(made)
    (folder / "model.py").write_text("GAIN = 5.0\n")
    best = next(one for one in folder.parent.glob("best-*") if one.is_dir())
    git(best, "update-index", "--skip-worktree", "model.py")
    (best / "model.py").write_text("GAIN = -5.0\n")
    assert settled(lab, made.id)["state"] == "kept"
    losses = [run.metrics["loss"] for run in lab.runs.list().items]
    assert all(0.7 < float(str(loss)) < 1.1 for loss in losses), losses
    assert (folder / "model.py").read_text() == "GAIN = 5.0\n", "what was edited since is still there"
    assert best.with_name(f"{best.name}.1").is_dir(), "so is what was done to the worktree of the best"


@pytest.mark.slow
def test_an_open_comparison_has_further_pairs_until_it_is_decided(lab: Lab) -> None:
    campaigns = started(lab, replicates=2, max_pairs=12, mde=None)
    kept = tried(lab, "GAIN = 0.02\n", "a gain of two standard deviations")
    assert kept["state"] == "kept", kept.fields
    shown = campaign(lab, "demo")["items"][0]
    assert any(one["more"] for one in shown["comparisons"])
    for one in shown["comparisons"]:
        assert one["runs"] == one["runs_over"] == 2 * (2 + len(one["more"]))
        arms = [[one["best_arm"], *one["more"][::2]], [one["arm"], *one["more"][1::2]]]
        seeds = [[run.seed for id in arm for run in lab.runs.named([id])] for arm in arms]
        assert sorted(seeds[0], key=str) == sorted(seeds[1], key=str), "in pairs"
        assert len({*seeds[0]}) == len(seeds[0]), "each pair on a seed of its own"
    assert campaigns.hours_left(campaigns.named("demo")) is None

    lost = tried(lab, "GAIN = 0.01\n", "a loss of one standard deviation")
    assert lost["outcome"] == "undecided"
    assert "12 pairs would hardly be enough" in lost["reason"]
    assert len(lost["stages"]) == 1
    assert "4 runs" in lab.memory.read(lost["note"], exposed_only=False)


@pytest.mark.slow
def test_two_at_once_that_both_help_are_both_kept_one_on_the_other(lab: Lab) -> None:
    (lab.root / "model.py").write_text(apart(0.0, 0.0))
    git(lab.root, "commit", "-q", "-a", "-m", "two settings")
    campaigns = started(lab, replicates=3)
    one, two = edited(campaigns, apart(0.2, 0.0), "a gain"), edited(campaigns, apart(0.0, 0.3), "more")
    three = edited(campaigns, apart(0.0, 0.4), "even more")
    for made in (one, two, three):
        campaigns.submit(made.id)
    (campaigns.worktree(three) / "model.py").write_text(apart(0.0, 0.5))  # edited on after it was submitted
    first, second = settled(lab, one.id), settled(lab, two.id)
    assert (first["state"], second["state"]) == ("kept", "kept")
    assert git(lab.root, "show", f"{second['kept']}:model.py") == apart(0.2, 0.3).strip()
    assert git(lab.root, "rev-parse", f"{second['kept']}^") == first["kept"]
    rounds = [(stage["round"], stage["kind"], stage["base"]) for stage in second["stages"]]
    base = campaigns.named("demo")["base"]
    assert rounds[-2:] == [(2, "trial", first["kept"]), (2, "confirmation", first["kept"])]
    assert rounds[0] == (1, "trial", base)
    found = finalize(lab, "demo", into="review")
    assert [item["is_stacked"] for item in found["items"]] == [False, False]
    assert git(lab.root, "show", f"{found['items'][1]['branch']}:model.py") == apart(0.0, 0.3).strip()
    assert "not here" in git(lab.root, "log", "-1", "--format=%B", found["items"][1]["branch"])
    lab.scan()
    assert "submit it again" in campaigns.advance()[three.id]
    assert (campaigns.worktree(three) / "model.py").read_text() == apart(0.0, 0.5), "nothing of it is lost"


@pytest.mark.slow
def test_kept_candidates_become_branches_for_review(lab: Lab) -> None:
    before = users_state(lab.root)
    campaigns = started(lab)
    first = tried(lab, "GAIN = 0.2\n", "a higher gain")
    second = tried(lab, "GAIN = 0.4\n", "an even higher gain; rm -rf / ../..")
    assert [first["state"], second["state"]] == ["kept", "kept"]
    found = finalize(lab, "demo")
    assert [item["branch"] for item in found["items"]] == [
        "perpetual/review/demo/01-a-higher-gain", "perpetual/review/demo/02-an-even-higher-gain-rm-rf",
    ]  # fmt: skip
    base = campaigns.named("demo")["base"]
    assert [item["is_stacked"] for item in found["items"]] == [False, True]
    assert found["items"][0]["stands_on"] == base
    last = found["items"][-1]["branch"]
    assert git(lab.root, "show", f"{last}:model.py") == "GAIN = 0.4"
    assert trailers(lab.root, last)["Perpetual-Candidate"] == second.id
    assert finalize(lab, "demo") == found, "doing it again makes nothing new"
    git(lab.root, "update-ref", f"refs/heads/{last}", base)
    with pytest.raises(Conflict, match="stands at"):
        finalize(lab, "demo")
    for into in ("../x", "a//b", "refs/heads/x", "-x", "x.lock", "a b"):
        with pytest.raises(Exception, match="--into"):
            finalize(lab, "demo", into=into)
    assert users_state(lab.root) == before


class Died(BaseException):
    """The end of a process."""


@pytest.mark.slow
@pytest.mark.parametrize(("place", "is_after"), [("write", True), ("move", True), ("remove_worktree", False)])
def test_what_is_kept_is_kept_once_whatever_ends_the_process(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, place: str, is_after: bool
) -> None:
    campaigns = started(lab, replicates=3)
    made = edited(campaigns, "GAIN = 0.2\n")
    campaigns.submit(made.id)
    real = getattr(Repository, place)

    def dies(*args: Any, **keys: Any) -> None:
        if is_after:
            real(*args, **keys)
        raise Died

    with FileLock(lab.root / ".perpetual" / "campaigns" / ".lock"):
        lab.scan()  # which then leaves the campaign to another process
    campaigns.advance()
    with FileLock(lab.root / ".perpetual" / "campaigns" / ".lock"):
        lab.scan()
    monkeypatch.setattr(Repository, place, dies)
    with pytest.raises(Died):
        campaigns.advance()
    monkeypatch.setattr(Repository, place, real)
    assert campaigns.get(made.id)["state"] in ("keeping", "kept")
    with Lab.open() as again:
        found = settled(again, made.id)
        commits = git(lab.root, "rev-list", f"{found['base']}..perpetual/campaign/demo/best").splitlines()
        assert commits == [found["kept"]] == [Campaigns(again).named("demo")["best"]]
        assert again.runs.list().items == lab.runs.list().items


@pytest.mark.slow
def test_a_branch_that_another_moved_is_left_alone(lab: Lab) -> None:
    campaigns = started(lab, replicates=3)
    made = edited(campaigns, "GAIN = 0.2\n")
    other = git(lab.root, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "mine")
    git(lab.root, "update-ref", "refs/heads/perpetual/campaign/demo/best", other)
    campaigns.submit(made.id)
    for _ in range(4):
        lab.scan()
    assert campaigns.get(made.id)["state"] == "keeping"
    assert "stands at" in campaigns.advance()[made.id]
    assert git(lab.root, "rev-parse", "perpetual/campaign/demo/best") == other
    git(lab.root, "update-ref", "refs/heads/perpetual/campaign/demo/best", campaigns.named("demo")["best"])
    git(lab.root, "switch", "-q", "perpetual/campaign/demo/best")
    before = users_state(lab.root)
    assert "checked out" in campaigns.advance()[made.id]
    assert users_state(lab.root) == before
    git(lab.root, "switch", "-q", "main")
    assert settled(lab, made.id)["state"] == "kept"


@pytest.mark.slow
def test_a_campaign_of_noise_keeps_almost_nothing(lab: Lab) -> None:
    """Each of 20 ideas changes the noise alone.

    One is kept with a chance of at most alpha = 0.05, so at most one of them on average. The bound here is one: by the
    rule 'keep what measures better once' about half of them would be kept.
    """
    campaigns = started(lab, replicates=3, max_pairs=6, mde=None)
    made = [edited(campaigns, f"GAIN = 0.0\n# idea {n}\n", f"idea {n}") for n in range(20)]
    for one in made:
        campaigns.submit(one.id)
    found = [settled(lab, one.id) for one in made]
    naive = 0
    for one in found:
        first = one["stages"][0]
        base, own = (lab.runs.named([first[arm]])[0].metrics["loss"] for arm in ("best_arm", "arm"))
        naive += bool(own is not None and base is not None and own < base)
    shown = campaign(lab, "demo")
    assert shown["tried"] == 20
    assert shown["expected_false_keeps"] == pytest.approx(1.0)
    assert naive >= 5, "or the test would show nothing"
    assert sum(one["state"] == "kept" for one in found) <= 1


@pytest.mark.slow
def test_with_real_processes_the_same_comes_out(project: Path) -> None:
    repository(project)
    before = users_state(project)
    with Lab.open() as lab:
        started(lab, replicates=3)
        assert tried(lab, "GAIN = 0.2\n")["state"] == "kept"
        assert all(run.status == "done" and run.isolated for run in lab.runs.list().items)
    assert users_state(project) == before

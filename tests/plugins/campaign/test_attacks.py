"""What is measured and kept is what was submitted, and numbers count every candidate, whatever is done meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import PerpetualError, UsageError
from perpetual_campaign.campaigns import CAMPAIGN, CANDIDATE, Campaigns
from perpetual_campaign.finalize import finalize
from perpetual_campaign.question import EditQuestion
from perpetual_campaign.repository import Repository
from perpetual_campaign.show import campaign, candidate
from perpetual_thinkers.records import thoughts
from perpetual_thinkers.thinking import Thinking
from tests.plugins.campaign.support import edited, git, instantly, repository, settled, started
from tests.plugins.thinkers.conftest import NEVER, Scripted


@pytest.fixture
def lab(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A person's lab whose runs are over at once."""
    instantly(monkeypatch)
    repository(project)
    with Lab.open(actor="user:test") as lab:
        lab.settings.set_config("slots.thinker", "command")
        yield lab


def edit(text: str, path: str = "model.py") -> dict[str, object]:
    return {"claim": "a gain", "files": [{"path": path, "text": text}]}


def asked(lab: Lab, *answers: object, steps: int = 20) -> Scripted:
    """Asks a scripted thinker for edits alone."""
    thinker = Scripted(*answers)
    with Lab.open(lab.root, actor="agent:thinker-scripted") as own:
        thinking = Thinking(own, thinker, "scripted", questions=[EditQuestion()], own=False, draw=lambda: 0.0)
        for _ in range(steps):
            if not thinking.step(NEVER):
                break
    return thinker


@pytest.mark.slow
def test_a_file_that_git_ignores_is_not_measured(lab: Lab) -> None:
    campaigns = started(lab)
    made = edited(campaigns, "GAIN = 0.2\n")
    campaigns.submit(made.id)
    folders = [one for one in campaigns.worktree(made).parent.glob("*-*") if one.is_dir()]
    assert len(folders) == 2, folders
    with (lab.root / ".git" / "info" / "exclude").open("a") as exclude:
        exclude.write("random.py\n")
    for folder in folders:
        (folder / "random.py").write_text("raise SystemExit\n")
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / "x.pyc").write_bytes(b"x")
    kept = settled(lab, made.id)
    assert kept["state"] == "kept"
    confirmation = lab.runs.named([kept["stages"][-1]["arm"]])[0]
    assert confirmation.status == "done"
    assert all(folder.with_name(f"{folder.name}.1").is_dir() for folder in folders), "put aside"


@pytest.mark.slow
def test_white_space_makes_another_difference(lab: Lab) -> None:
    """In Python a dedent has a meaning: such an edit is not that of the thinker, nor one that was tried."""
    campaigns = started(lab, thinker=1, max_candidates=5)
    asked(lab, edit("GAIN = 0.2\nif GAIN:\n    MORE = 0.1\n    REST = 1\n"), steps=1)
    folder = campaigns.worktree(campaigns.get("c1"))
    (folder / "model.py").write_text("GAIN = 0.2\nif GAIN:\n    MORE = 0.1\nREST = 1\n")
    assert "approves e1 and e2" in {**campaigns.advance(), **campaigns.advance()}["c1"]
    other = edited(campaigns, "GAIN = 0.2\nif GAIN:\n    MORE = 0.1\n    REST = 1\n", "the other")
    assert campaigns.submit(other.id)["state"] == "trial"


@pytest.mark.slow
def test_another_commit_in_the_record_is_not_kept(lab: Lab) -> None:
    campaigns = started(lab)
    made = campaigns.submit(edited(campaigns, "GAIN = 0.2\n").id)
    other = edited(campaigns, "GAIN = 9.0\n", "another")
    folder = campaigns.worktree(other)
    git(folder, "commit", "-q", "-am", "x")
    swapped = git(folder, "rev-parse", "HEAD")
    stage = {**made["stages"][0], "commit": swapped}
    lab.records(CANDIDATE).update(made.id, commit=swapped, stages=[stage])
    lab.wait([run.id for run in lab.runs.live()] or ["r1"], timeout_s=30)
    lab.scan()
    assert "has measured another commit" in campaigns.advance()[made.id]
    assert campaigns.get(made.id)["state"] == "trial"
    assert campaigns.named("demo")["best"] == campaigns.named("demo")["base"]


def test_what_was_taken_back_or_changed_lets_no_thinker_edit(lab: Lab) -> None:
    campaigns = started(lab, thinker=1, max_candidates=5)
    before = campaigns.named("demo")
    assert campaigns.is_thinker_let(before)
    campaigns.set_thinker("demo", 0)
    lab.records(CAMPAIGN).update(before.id, thinker=1, thinker_mark=before["thinker_mark"])
    assert not campaigns.is_thinker_let(campaigns.named("demo")), "an older record brings nothing back"
    campaigns.set_thinker("demo", 1)
    assert campaigns.is_thinker_let(campaigns.named("demo"))
    (lab.root / "train.py").write_text("print('loss: 0')\n")
    git(lab.root, "commit", "-q", "-am", "a kinder measure")
    lab.records(CAMPAIGN).update(before.id, best=git(lab.root, "rev-parse", "HEAD"))
    assert not campaigns.is_thinker_let(campaigns.named("demo")), "another best"
    assert asked(lab, edit("GAIN = 0.2\n")).asked == []


@pytest.mark.slow
def test_a_kept_candidate_leaves_the_thinker_let(lab: Lab) -> None:
    campaigns = started(lab, thinker=1, max_candidates=5)
    asked(lab, edit("GAIN = 0.2\n"))
    assert settled(lab, "c1")["state"] == "kept"
    assert campaigns.is_thinker_let(campaigns.named("demo"))
    assert len(asked(lab, edit("GAIN = 0.4\n")).asked) == 1


def test_an_answer_that_git_cannot_take_ends_the_questions_for_a_while(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaigns = started(lab, thinker=1, max_candidates=100)

    def fails(*_: object) -> None:
        raise PerpetualError("git reset: no space")

    with monkeypatch.context() as patch:
        patch.setattr(Repository, "reset_worktree", fails)
        thinker = asked(lab, edit("GAIN = 0.2\n"))
    assert len(thinker.asked) == 1
    assert [(one.state, one.reason) for one in thoughts(lab)] == [("refused", "git reset: no space")]
    campaigns.advance()
    assert campaigns.get("c1")["outcome"] == "refused"
    assert candidate(lab, "c1")["worktree"] is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (edit("x\n", "a" * 299), "255 bytes"),
        (edit("x\n", "lib"), "is a folder"),
        (edit("x\n", "CLAUDE.md"), "protected unless"),
        (edit("x\n", ".github/workflows/a.yml"), "protected unless"),
    ],
)
def test_an_edit_in_a_wide_scope_is_refused_for(lab: Lab, answer: dict[str, object], why: str) -> None:
    (lab.root / "lib").mkdir()
    (lab.root / "lib" / "big.py").write_text("x = 1\n")
    git(lab.root, "add", "lib")
    git(lab.root, "commit", "-q", "-m", "a folder")
    started(lab, thinker=1, max_candidates=5, edit=["**"], protect=["train.py"])
    asked(lab, answer, steps=2)
    assert why in str(thoughts(lab)[0].reason)


def test_a_named_file_that_instructs_agents_may_be_edited(lab: Lab) -> None:
    campaigns = started(lab, edit=["CLAUDE.md", ".github"])
    made = campaigns.candidate("demo", "say less")
    (campaigns.worktree(made) / "CLAUDE.md").write_text("Say less.\n")
    assert campaigns.submit(made.id)["files"] == ["CLAUDE.md"]


@pytest.mark.slow
def test_a_sparse_checkout_leaves_nothing_out(lab: Lab) -> None:
    (lab.root / "data").mkdir()
    (lab.root / "data" / "rows.txt").write_text("1\n")
    git(lab.root, "add", "data")
    git(lab.root, "commit", "-q", "-m", "data")
    git(lab.root, "sparse-checkout", "set", "--no-cone", "/*", "!/data/")
    assert not (lab.root / "data" / "rows.txt").exists()
    campaigns = started(lab, thinker=1, max_candidates=5)
    asked(lab, edit("GAIN = 0.2\n"))
    assert (campaigns.worktree(campaigns.get("c1")) / "data" / "rows.txt").exists()
    assert settled(lab, "c1")["state"] == "kept"
    assert not list((lab.root / ".perpetual" / "campaigns" / "demo").glob("*.1"))


@pytest.mark.slow
def test_an_idea_that_looks_like_a_comment_is_committed(lab: Lab) -> None:
    git(lab.root, "config", "commit.cleanup", "strip")
    campaigns = started(lab)
    made = campaigns.candidate("demo", "# a gain")
    (campaigns.worktree(made) / "model.py").write_text("GAIN = 0.2\n")
    commit = str(campaigns.submit(made.id)["commit"])
    assert git(lab.root, "log", "-1", "--format=%s", commit) == "# a gain"


@pytest.mark.slow
def test_what_is_dropped_after_its_runs_counts_and_alpha_stays(lab: Lab) -> None:
    campaigns = started(lab, replicates=2, mde=None)
    made = edited(campaigns, "GAIN = 0.001\n")
    assert campaign(lab, "demo")["tried"] == 0
    campaigns.submit(made.id)
    lab.wait([run.id for run in lab.runs.live()] or ["r1"], timeout_s=30)
    lab.scan()
    if campaigns.get(made.id)["outcome"] is None:
        campaigns.drop(made.id, "it looks bad")
    lab.settings.set_config("plugins.campaign.alpha", "0.0001")
    with Lab.open(actor="user:test") as again:
        found = campaign(again, "demo")
    assert (found["tried"], found["alpha"], found["expected_false_keeps"]) == (1, 0.05, 0.05)


@pytest.mark.slow
def test_branches_for_review_are_the_same_whatever_the_evidence_is_later(lab: Lab) -> None:
    campaigns = started(lab)
    made = campaigns.submit(edited(campaigns, "GAIN = 0.2\n").id)
    kept = settled(lab, made.id)
    first = finalize(lab, "demo")
    lab.hypotheses.update(kept["stages"][0]["hypothesis"], confidence=0.6, why="I doubt it")
    assert finalize(lab, "demo") == first
    statement = lab.hypotheses.get(kept["stages"][-1]["hypothesis"]).statement
    assert statement.endswith("on fresh seeds"), "and no second attempt"


def test_an_edit_by_hand_while_the_thinker_is_asked_is_its_authors(lab: Lab) -> None:
    campaigns = started(lab, thinker=1, max_candidates=5)
    asked(lab, "no JSON", steps=1)  # the answer to its second question is still to come
    assert "asked of the thinker" in candidate(lab, "c1")["idea"]
    (campaigns.worktree(campaigns.get("c1")) / "model.py").write_text("GAIN = 0.3\n")
    campaigns.submit("c1")
    thinker = asked(lab, edit("GAIN = 0.2\n"), steps=1)
    assert (campaigns.get("c1")["idea"], campaigns.get("c1")["thinker"]) == ("edited by hand", None)
    assert thoughts(lab)[0].state == "dropped"
    assert [one.state for one in thoughts(lab)[1:]] in ([], ["used"])
    assert len(thinker.asked) <= 1


def test_a_thinker_needs_a_file_to_edit(lab: Lab) -> None:
    with pytest.raises(UsageError, match="no file of"):
        started(lab, thinker=1, max_candidates=5, edit=["missing.py"])
    assert Campaigns(lab).all() == []

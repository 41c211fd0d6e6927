"""Candidates that a thinker edits: what is asked, which replies change nothing, and that no kill asks twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Conflict, NotPermitted, TransientError, UsageError
from perpetual.toolkit.agents import AGENT_VARIABLES
from perpetual_campaign.campaigns import CAMPAIGN, CANDIDATE, Campaigns
from perpetual_campaign.edits import SCHEMA
from perpetual_campaign.question import EditQuestion, build
from perpetual_campaign.show import campaign
from perpetual_campaign.thinking import think
from perpetual_thinkers.base import Reply
from perpetual_thinkers.question import Question
from perpetual_thinkers.records import REPLY, thoughts
from perpetual_thinkers.testing.questions import AnsweredQuestionContract, Answers
from perpetual_thinkers.thinking import Thinking
from tests.plugins.campaign.support import git, instantly, repository, settled, started, users_state
from tests.plugins.thinkers.conftest import NEVER, Scripted
from tests.plugins.thinkers.model_server import Server, serving, template_in


class TestEdit(AnsweredQuestionContract):
    @pytest.fixture
    def question(self) -> Question:
        return build({})

    @pytest.fixture
    def asking(self, project: Path) -> Iterator[Lab]:
        """Returns a lab in the thinker's name, with a campaign that a person lets it edit for."""
        repository(project)
        with Lab.open(actor="user:test") as person:
            started(person, thinker=2, max_candidates=5)
        with Lab.open(actor="agent:thinker-test") as lab:
            yield lab

    @pytest.fixture
    def answers(self) -> Answers:
        return edit("a gain", "GAIN = 0.2\n"), edit("a kinder measure", "print('loss: 0')\n", "train.py")


@pytest.fixture
def lab(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A person's lab whose runs are over at once."""
    instantly(monkeypatch)
    repository(project)
    (project / "secret.txt").write_text("not for models\n")
    (project / "other.py").write_text("# no candidate's to change\n")
    git(project, "add", "secret.txt", "other.py")
    git(project, "commit", "-q", "-m", "another file")
    with Lab.open(actor="user:test") as lab:
        lab.settings.set_config("slots.thinker", "command")
        yield lab


def edit(claim: str, text: str | None = None, path: str = "model.py", **more: Any) -> dict[str, Any]:
    """An answer with the whole text of a file."""
    files = [] if text is None else [{"path": path, "text": text}]
    return {"claim": claim, **({"files": files} if files else {}), **more}


def asked(lab: Lab, *answers: object, steps: int = 20) -> tuple[Scripted, int]:
    """Asks a scripted thinker for edits alone, as the companion does; returns it and how many steps there were."""
    thinker = Scripted(*answers)
    with Lab.open(lab.root, actor="agent:thinker-scripted") as own:
        thinking = Thinking(own, thinker, "scripted", questions=[EditQuestion()], own=False, draw=lambda: 0.0)
        for number in range(steps):
            if not thinking.step(NEVER):
                return thinker, number
    return thinker, steps


def test_a_thinkers_edit_is_committed_and_submitted_under_the_campaigns_approval(lab: Lab) -> None:
    before = users_state(lab.root)
    campaigns = started(lab, thinker=1, max_candidates=5, protect=["train.py"])
    thinker, _ = asked(lab, edit("a higher gain", "GAIN = 0.2\n"))
    assert len(thinker.asked) == 1, "one candidate at once"
    request = thinker.asked[0]
    state = json.loads(request.state)
    assert request.kind == "edit"
    assert request.schema == SCHEMA
    assert state["files"] == [{"path": "model.py", "text": "GAIN = 0.0\n"}], "and no other file"
    assert state["campaign"]["direction"] == "min"
    assert "lowers the metric `loss`" in state["task"]
    assert "/files" in state["untrusted"]
    made = campaigns.get("c1")
    assert (made["state"], made["idea"], made["stages"]) == ("editing", "a higher gain", [])
    assert made.created_by == "agent:thinker-scripted"
    assert lab.experiments.list().items == (), "the thinker starts nothing"
    assert campaigns.advance() == {}
    made = campaigns.get("c1")
    assert (made["state"], made["files"]) == ("trial", ["model.py"])
    assert {item.status for item in lab.experiments.list().items} <= {"approved", "active", "complete", "analysed"}
    shown = campaign(lab, "demo")
    assert shown["items"][0]["thinker"] == "scripted"
    assert shown["is_thinker_let"]
    assert users_state(lab.root) == before


@pytest.mark.slow
def test_several_at_once_are_asked_measured_and_told_of_each_other(lab: Lab) -> None:
    campaigns = started(lab, thinker=2, max_candidates=3)
    first, _ = asked(lab, edit("less", "GAIN = -0.2\n"), edit("a higher gain", "GAIN = 0.2\n"))
    assert [one["state"] for one in campaigns.of(campaigns.named("demo"))] == ["editing", "editing"]
    assert len(first.asked) == 2
    campaigns.advance()
    assert settled(lab, "c1")["state"] == "archived"
    assert settled(lab, "c2")["state"] == "kept"
    again, _ = asked(lab, edit("more", "GAIN = 0.4\n"))
    state = json.loads(again.asked[0].state)
    assert [(one["claim"], one["outcome"]) for one in state["tried"]][1] == ("a higher gain", "kept")
    assert state["best"]["commit"] == campaigns.named("demo")["best"]
    assert state["files"][0]["text"] == "GAIN = 0.2\n"
    assert settled(lab, "c3")["state"] == "kept"
    assert asked(lab, edit("another", "GAIN = 0.5\n"))[1] == 0, "the campaign has had its candidates"


@pytest.mark.slow
def test_a_difference_that_was_tried_is_asked_for_again_once(lab: Lab) -> None:
    campaigns = started(lab, thinker=1, max_candidates=3, protect=["train.py"])
    asked(lab, edit("less", "GAIN = -0.2\n"))
    campaigns.advance()
    assert settled(lab, "c1")["outcome"] == "refuted"
    thinker, _ = asked(lab, edit("much less", "GAIN = -0.2\n"), edit("a gain", "GAIN = 0.2\n"))
    state = json.loads(thinker.asked[1].state)
    assert state["tried"][0]["outcome"] == "refuted"
    assert "tried_before: c1 tried the same difference" in state["previous_answer_was_refused"]
    assert campaigns.get("c2")["idea"] == "a gain"


PATCH = """\
--- a/{path}
+++ b/{path}
@@ -1 +1 @@
-GAIN = 0.0
+GAIN = 0.3
"""
LINK = """\
diff --git a/model.py b/model.py
deleted file mode 100644
--- a/model.py
+++ /dev/null
@@ -1 +0,0 @@
-GAIN = 0.0
diff --git a/model.py b/model.py
new file mode 120000
--- /dev/null
+++ b/model.py
@@ -0,0 +1 @@
+/etc/passwd
\\ No newline at end of file
"""
BINARY = "diff --git a/model.py b/model.py\nGIT binary patch\nliteral 4\nLcmZQzWMT#Y01f~L\n\n"
HOSTILE: list[tuple[object, str]] = [
    (edit("x", "x\n", "../outside.py"), "outside"),
    (edit("x", "x\n", "/etc/passwd"), "outside"),
    (edit("x", "x\n", "a/../../x.py"), "outside"),
    (edit("x", "x\n", "./model.py"), "outside"),
    (edit("x", "x\n", "mo\u202edel.py"), "outside"),
    (edit("x", "x\n", "..\\model.py"), "outside"),
    (edit("x", "x\n", ".git/hooks/post-checkout"), "protected"),
    (edit("x", "x\n", "GIT~1/hooks/post-checkout"), "outside"),
    (edit("x", "x\n", ".gitattributes"), "protected"),
    (edit("x", "x\n", "sub/.gitmodules"), "protected"),
    (edit("x", "x\n", ".perpetual/config.yaml"), "protected"),
    (edit("x", "print('loss: 0')\n", "train.py"), "protected"),
    (edit("x", "x\n", "other.py"), "not_shown"),
    (edit("x", "x\n", "new.py"), "out_of_scope"),
    (edit("x", "x\n", "model.py/below"), "link"),
    (edit("x", "GAIN = 0.0\n"), "no_change"),
    (edit("x", "a\0b"), "binary"),
    (edit("x", "a\ud800b"), "binary"),
    (edit("x", "#" * 50_001), "too_large"),
    (edit("x"), "form"),
    (edit("x", "GAIN = 0.1\n", diff=PATCH.format(path="model.py")), "form"),
    ({"claim": "x", "files": [{"path": "model.py", "text": "1"}] * 2}, "form"),
    ({"claim": "x", "files": [{"path": "model.py", "text": "1"}] * 21}, "files"),
    ({"files": [{"path": "model.py", "text": "1"}]}, "claim"),
    ({"claim": 1, "files": [{"path": "model.py", "text": "1"}]}, "claim"),
    ({"claim": "x", "files": "model.py"}, "files"),
    ({"claim": "x", "diff": PATCH.format(path="../model.py")}, "not_applied"),
    ({"claim": "x", "diff": PATCH.format(path="train.py")}, "not_applied"),
    ({"claim": "x", "diff": PATCH.format(path=".git/config")}, "not_applied"),
    ({"claim": "x", "diff": "no diff at all"}, "not_applied"),
    ({"claim": "x", "diff": LINK}, "link"),
    ({"claim": "x", "diff": BINARY}, "binary"),
    ({"claim": "x", "diff": LINK.partition("diff --git a/model.py b/model.py\nnew")[0].replace("model", "train")},
     "not_applied"),
    ("I cannot help with that.", "no JSON"),
    ("[" * 100_000, "longer than"),
    ("x" * 70_000, "longer than"),
]  # fmt: skip


@pytest.mark.slow
def test_a_hostile_reply_changes_nothing(lab: Lab) -> None:
    before = users_state(lab.root)
    campaigns = started(lab, thinker=1, max_candidates=100, protect=["train.py"])
    lab.settings.set_config("plugins.campaign.max_bytes", "50000")
    heads = git(lab.root, "for-each-ref")
    with Lab.open(lab.root, actor="agent:thinker-scripted") as own:
        for number, (answer, why) in enumerate(HOSTILE, 1):
            question = EditQuestion()
            chosen = Scripted(answer)
            thinking = Thinking(own, chosen, f"scripted-{number}", questions=[question], own=False, draw=lambda: 0.0)
            taken = 0
            while taken < 4 and thinking.step(NEVER):
                taken += 1
                if thoughts(own)[-1].state == "refused":
                    break
            thought = thoughts(own)[-1]
            if why == "longer than":
                assert thought.state == "asking", "it is a failure of the thinker, which is asked later"
                lab.records("thinkers.thought").update(thought.id, state="failed", reason="too long")
            else:
                assert (thought.state, len(chosen.asked)) == ("refused", 2), (answer, thought)
                assert why in str(thought.reason), (answer, thought.reason)
                assert why in chosen.asked[1].state, "the second question says what was wrong"
            assert question.new(own, thinker="other") is not None
            found = campaigns.get(f"c{number}")
            assert (found["state"], found["outcome"]) == ("archived", "refused"), found.fields
            assert thought.id in found["reason"]
            dropped = campaigns.get(f"c{number + 1}")
            assert dropped["state"] == "editing"
    assert lab.experiments.list().items == ()
    assert users_state(lab.root) == before
    left = {line for line in git(lab.root, "for-each-ref").splitlines() if "/archive/" not in line}
    assert {line.rpartition("/")[2] for line in left - {*heads.splitlines()}} == {f"c{len(HOSTILE) + 1}"}
    assert not list(lab.root.rglob("outside.py"))


def test_a_diff_with_wrong_counts_applies_and_a_new_file_in_scope_is_made(lab: Lab) -> None:
    campaigns = started(lab, thinker=2, max_candidates=5, edit=["model.py", "lib"])
    wrong = PATCH.format(path="model.py").replace("@@ -1 +1 @@", "@@ -1,9 +1,7 @@")
    asked(lab, {"claim": "by a diff", "diff": wrong}, edit("a file", "x = 1\n", "lib/a b\u00e9.py"))
    campaigns.advance()
    one, two = campaigns.get("c1"), campaigns.get("c2")
    assert (one["files"], two["files"]) == (["model.py"], ["lib/a b\u00e9.py"])
    assert git(lab.root, "show", f"{one['commit']}:model.py") == "GAIN = 0.3"


def test_a_link_in_the_repository_is_not_written_through(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.py").write_text("mine\n")
    (lab.root / "lib").symlink_to(tmp_path / "outside")
    (lab.root / "one.py").symlink_to(tmp_path / "outside" / "x.py")
    git(lab.root, "add", "lib", "one.py")
    git(lab.root, "commit", "-q", "-m", "links")
    campaigns = started(lab, thinker=1, max_candidates=5, edit=["lib", "one.py", "model.py"])
    thinker, _ = asked(lab, edit("x", "theirs\n", "lib/x.py"), edit("x", "theirs\n", "one.py"))
    assert [one["path"] for one in json.loads(thinker.asked[0].state)["files"]] == ["model.py"]
    assert "link" in str(thoughts(lab)[0].problem)
    assert "not_shown" in str(thoughts(lab)[0].reason)
    assert (tmp_path / "outside" / "x.py").read_text() == "mine\n"
    assert campaigns.get("c1")["commit"] is None


def test_long_files_are_named_and_not_overwritten(lab: Lab) -> None:
    (lab.root / "big.py").write_text("# long\n" * 1000)
    git(lab.root, "add", "big.py")
    git(lab.root, "commit", "-q", "-m", "a long file")
    lab.settings.set_config("plugins.campaign.thinker_tokens", "1200")
    started(lab, thinker=1, max_candidates=5, edit=["*.py"], protect=["train.py", "other.py"])
    thinker, _ = asked(lab, edit("x", "short\n", "big.py"))
    state = json.loads(thinker.asked[0].state)
    assert len(thinker.asked[0].state.encode()) <= 3600
    assert state["left_out"] == [{"path": "big.py", "bytes": 7000}]
    assert [one["path"] for one in state["files"]] == ["model.py"]
    assert "not_shown" in str(thoughts(lab)[0].reason)


def test_without_a_persons_word_nothing_is_asked(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    campaigns = started(lab, max_candidates=5)
    with pytest.raises(Conflict, match="no thinker may edit"):
        think(lab, "demo")
    with pytest.raises(UsageError, match="most of candidates"):
        campaigns.new("other", command="true", metric="loss", direction="min", edit=["model.py"], thinker=1)
    with monkeypatch.context() as patch:
        patch.setenv(next(iter(AGENT_VARIABLES)), "1")
        with Lab.open() as agents:
            with pytest.raises(NotPermitted, match="for a person"):
                Campaigns(agents).set_thinker("demo", 1)
            with pytest.raises(NotPermitted, match="for a person"):
                started(agents, thinker=1, max_candidates=5)
    campaigns.set_thinker("demo", 2)
    asked(lab, edit("a gain", "GAIN = 0.2\n"), steps=1)
    # An agent that widens the scope, or another command in the record, takes the approval away.
    record = campaigns.named("demo")
    lab.records(CAMPAIGN).update(record.id, edit=["model.py", "train.py"])
    assert not campaigns.is_thinker_let(campaigns.named("demo"))
    assert "approves e1 and e2" in {**campaigns.advance(), **campaigns.advance()}["c1"]
    assert campaigns.get("c1")["mark"] is None
    assert asked(lab, edit("another", "GAIN = 0.3\n"))[1] == 0
    lab.records(CAMPAIGN).update(record.id, edit=["model.py"])
    assert campaigns.is_thinker_let(campaigns.named("demo"))
    campaigns.set_thinker("demo", 0)
    assert asked(lab, edit("another", "GAIN = 0.3\n"))[1] == 0


def test_a_question_whose_candidate_is_over_is_not_asked(lab: Lab) -> None:
    campaigns = started(lab, thinker=1, max_candidates=1)
    asked(lab, Reply("{}"), steps=1)
    campaigns.drop("c1", "not wanted")
    thinker, _ = asked(lab, edit("x", "GAIN = 1.0\n"))
    assert thinker.asked == []
    assert [(one.state, one.reason) for one in thoughts(lab)] == [("dropped", "c1 is dropped")]


def test_an_edit_by_hand_in_the_thinkers_worktree_is_not_overwritten(lab: Lab) -> None:
    campaigns = started(lab, thinker=1, max_candidates=5)
    asked(lab, Reply("{}"), steps=1)
    path = campaigns.worktree(campaigns.get("c1")) / "model.py"
    path.write_text("GAIN = 9.0\n")
    asked(lab, edit("x", "GAIN = 1.0\n"), steps=1)
    assert "another edit" in str(thoughts(lab)[0].reason)
    assert path.read_text() == "GAIN = 9.0\n"


@pytest.mark.parametrize("place", ["worktree", "branch", "record"])
def test_what_is_put_in_the_place_of_a_thinkers_edit_waits_for_a_person(lab: Lab, place: str) -> None:
    campaigns = started(lab, thinker=1, max_candidates=5)
    asked(lab, edit("a gain", "GAIN = 0.2\n"), steps=1)
    made = campaigns.get("c1")
    folder = campaigns.worktree(made)
    if place == "record":  # such as one that came from elsewhere
        lab.records(CANDIDATE).update("c1", mark="0" * 64)
    else:
        (folder / "model.py").write_text("GAIN = 7.0\n")
    if place == "branch":
        git(folder, "commit", "-q", "-am", "another")
    assert "approves e1 and e2" in {**campaigns.advance(), **campaigns.advance()}["c1"]
    assert {item.status for item in lab.experiments.list().items} == {"proposed"}
    assert campaigns.get("c1")["mark"] is None
    assert campaigns.submit("c1")["mark"] is not None, "a person may submit it as it is"
    assert "proposed" not in {item.status for item in lab.experiments.list().items}


def test_a_campaign_gets_a_thinker_and_more_candidates_later(lab: Lab) -> None:
    campaigns = started(lab, replicates=2)
    with pytest.raises(UsageError, match="most of candidates"):
        campaigns.set_thinker("demo", 1)
    with pytest.raises(UsageError, match="1 or more"):
        campaigns.set_thinker("demo", 1, max_candidates=0)
    campaigns.set_thinker("demo", 1, max_candidates=2)
    asked(lab, edit("a gain", "GAIN = 0.2\n"))
    assert len(campaigns.of(campaigns.named("demo"))) == 1
    with Lab.open(actor="agent:codex") as agent, pytest.raises(NotPermitted):
        Campaigns(agent).set_thinker("demo", 0, max_candidates=100)


def test_think_says_why_it_ends(lab: Lab) -> None:
    started(lab, thinker=1, max_candidates=5)
    with pytest.raises(TransientError, match=r"is not asked before .*no command that counts here"):
        think(lab, "demo")  # its command is not set
    assert thoughts(lab)[0].state == "asking"


WORKER = """\
import os, signal, sys
from perpetual import Lab
from perpetual_campaign import by_thinker, question
from perpetual_campaign.repository import Repository
from perpetual_campaign.thinking import think
die = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
place = sys.argv[1]
if place == "opened":
    question.asked_of = die
elif place == "stored":
    question.EditQuestion.check = die
elif place == "moved":
    Repository.reset_worktree = die
elif place == "filled":
    real = by_thinker.ByThinker.filled
    by_thinker.ByThinker.filled = lambda *a: (real(*a), die())
elif place == "proposed":
    from perpetual_campaign.comparisons import Comparisons
    Comparisons._started = die
with Lab.open(actor="user:test") as lab:
    think(lab, "demo")
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving() as server:
        monkeypatch.setenv("THINKER_URL", server.url)
        yield server


@pytest.fixture
def configured(project: Path, server: Server) -> Campaigns:
    """Returns a campaign whose thinker is the page's template, which asks the server."""
    repository(project)
    template_in(project)
    numbers = iter(range(1, 100))
    server.answer = lambda _: json.dumps(edit("a gain", f"GAIN = 0.{next(numbers)}\n"))
    with Lab.open(actor="user:test") as lab:
        lab.settings.set_config("slots.thinker", "command")
        lab.settings.set_config("plugins.command.command", json.dumps([sys.executable, "ask_model.py"]))
        lab.settings.set_config("plugins.command.environment", '["THINKER_URL"]')
        return started(lab, thinker=2, max_candidates=4, replicates=2)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["opened", "stored", "moved", "filled", "proposed"])
def test_a_kill_asks_nothing_twice_and_makes_no_candidate_twice(
    project: Path, configured: Campaigns, server: Server, place: str
) -> None:
    died = subprocess.run([sys.executable, "-c", WORKER, place], capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    on = subprocess.run([sys.executable, "-c", WORKER, "on"], capture_output=True, text=True, check=False)
    assert on.returncode == 0, on.stderr
    with Lab.open(actor="user:test") as lab:
        campaigns = Campaigns(lab)
        found = campaigns.of(campaigns.named("demo"))
        assert [one["idea"] for one in found] == ["a gain", "a gain"]
        stages = [[stage["kind"] for stage in one["stages"]] for one in found]
        assert all(one in (["trial"], ["trial", "confirmation"]) for one in stages), stages
        assert len(server.asked) == len({*server.asked}) == 2
        assert [one.state for one in thoughts(lab)] == ["used", "used"]
        assert len(lab.records(REPLY).find()) == 2
        assert len(lab.experiments.list().items) == 2 * sum(map(len, stages))
        for one in found:
            campaigns.drop(one.id, "enough")
        lab.wait([run.id for run in lab.runs.live()] or ["r1"], timeout_s=30)


@pytest.mark.slow
def test_the_daemon_ends_once_the_campaign_has_had_its_candidates(project: Path, configured: Campaigns) -> None:
    with Lab.open(actor="user:test") as lab:
        lab.settings.set_config("plugins.thinkers.analyse", "false")
        lab.settings.set_methodology("auto_propose", "false")
    words = [sys.executable, "-P", "-m", "perpetual", "daemon"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "all_decided" in done.stdout
    with Lab.open(actor="user:test") as lab:
        found = campaign(lab, "demo")
        assert len(found["items"]) == 4
        assert {one["outcome"] for one in found["items"]} <= {"kept", "refuted", "undecided", "stuck", "refused"}
        assert found["kept"] >= 1
        assert all(one["thinker"] == "command" for one in found["items"])
        assert not lab.runs.live()

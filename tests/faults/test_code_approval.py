"""Approval binds the code: what is to run is compared with what was there when it was approved."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run as program
from perpetual.errors import Conflict, NotPermitted
from perpetual.records import Experiment


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A project in a git repository with a program and a module."""
    with Lab.init(tmp_path / "project", name="t", project_id="fixed") as made:
        _git(made, "init", "-q", ".")
        (made.root / ".gitignore").write_text(".perpetual/\n")
        (made.root / "job.sh").write_text("echo score=1\n")
        (made.root / "model.cfg").write_text("width = 1\n")
        _git(made, "add", "-A")
        _git(made, "commit", "-qm", "one")
        yield made


def _git(lab: Lab, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=lab.root, check=True)


def _edit(lab: Lab, text: str = "width = 2\n") -> None:
    (lab.root / "model.cfg").write_text(text)


def _approved(lab: Lab, command: str = "sh job.sh", **given: Any) -> Experiment:
    return lab.experiments.approve(lab.experiments.propose(command=command, **{"wall_s": 60.0, **given}).id)


def _as_agent(lab: Lab) -> Lab:
    return Lab.open(lab.root, actor="mcp:c/1")


def test_a_person_is_warned_and_an_agent_is_refused(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _approved(lab, replicates=3)
    spec = made.spec_hash
    _edit(lab)
    with _as_agent(lab) as agent:
        for attempt in (agent.runs.launch, agent.runs.plan):
            with pytest.raises(
                NotPermitted, match=r"the code of e1 has changed since it was approved: model\.cfg"
            ) as no:
                attempt(made.id)
            assert (no.value.code, no.value.exit) == ("code_changed", 4)
            assert "perpetual approve" not in (no.value.hint or "")
    assert lab.runs.list().items == ()
    (run,) = lab.runs.launch(made.id)
    assert [note["text"] for note in run.annotations] == ["the code of e1 has changed since it was approved: model.cfg"]
    lab.wait([run.id], timeout_s=60)
    monkeypatch.chdir(lab.root)
    assert program(["run", "e1", "--wait"]) == 0
    assert "warning: the code of e1 has changed since it was approved: model.cfg" in capsys.readouterr().err
    assert lab.experiments.approve(made.id).spec_hash == spec
    assert [event.kind for event in lab.events()].count("code_approved") == 1
    (run,) = lab.runs.launch(made.id)
    assert run.annotations == ()
    with pytest.raises(Conflict, match="only a proposed experiment"):
        lab.experiments.approve(made.id)


@pytest.mark.parametrize(("rule", "becomes"), [("ask", "code_changed"), ("warn", 1), ("allow", 0)])
def test_the_rule_holds_for_everybody(lab: Lab, rule: str, becomes: Any) -> None:
    made = _approved(lab, "false")
    failed = lab.runs.launch(made.id)[0]
    lab.wait([failed.id], timeout_s=60)
    lab.settings.set_methodology("code_changes", rule)
    _edit(lab)
    for actor in ("user:me", "mcp:c/1"):
        with Lab.open(lab.root, actor=actor) as other:
            try:
                plan = other.runs.plan_retry(failed.id)
                seen: Any = int(plan["code_changed"] is not None)
            except NotPermitted as problem:
                seen = problem.code
            assert seen == becomes


@pytest.mark.slow
def test_a_queued_run_waits_for_a_person_and_holds_up_no_other(lab: Lab) -> None:
    changed, other = _approved(lab, replicates=2), _approved(lab, "echo score=2")
    lab.queue.set_state("paused")
    runs = [*lab.runs.launch(changed.id, every=True), *lab.runs.launch(other.id)]
    _edit(lab)
    lab.experiments.approve(other.id)  # its code is the whole repository's too
    lab.queue.set_state("running")
    lab.wait([runs[2].id], timeout_s=60)
    held = [lab.runs.get(run.id) for run in runs[:2]]
    assert {run.status for run in held} == {"queued"}
    assert held[0].reason == (
        "the code of e1 has changed since it was approved: model.cfg; it waits until a person approves it again"
    )
    assert lab.scan()["changes"] == [], "said once"
    with pytest.raises(NotPermitted, match="r1 does not start: the code of e1") as no:
        lab.wait([changed.id], timeout_s=60)
    assert no.value.code == "code_changed"
    status = lab.status()
    assert (status["approvals_waiting"], "perpetual approve e1" in status["next"]) == (1, True)
    lab.experiments.approve(changed.id)
    assert set(lab.wait([run.id for run in held], timeout_s=60).values()) == {"done"}


@pytest.mark.slow
def test_runs_that_a_person_started_with_changed_code_keep_it(lab: Lab) -> None:
    lab.settings.set_methodology("max_concurrent_runs", "1")
    made = _approved(lab, replicates=2)
    _edit(lab)
    runs = lab.runs.launch(made.id, every=True)
    assert set(lab.wait([run.id for run in runs], timeout_s=60).values()) == {"done"}


@pytest.mark.slow
def test_the_loop_waits_for_approval(lab: Lab) -> None:
    made = _approved(lab)
    _edit(lab)
    launches = lab.loop.launch()
    assert (launches.runs, launches.held) == ((), (made.id,))
    reason, why = lab.loop.stop_reason(launches) or ("", "")
    assert (reason, made.id in why) == ("waiting_for_approval", True)
    lab.settings.set_methodology("code_changes", "warn")
    (id,) = lab.loop.launch().runs
    assert [note["kind"] for note in lab.runs.get(id).annotations] == ["code_changed"]


def test_code_that_is_the_same_is_not_changed(lab: Lab) -> None:
    """A commit of what was there, a text, a loose file; and an approval of an earlier release bound no code."""
    _edit(lab)
    made = _approved(lab, replicates=3)
    _git(lab, "commit", "-qam", "two")
    (lab.root / "README.md").write_text("text")
    (lab.root / "loose.py").write_text("pass")
    assert lab.runs.plan(made.id)["code_changed"] is None
    _edit(lab, "width = 3\n")
    assert lab.runs.plan(made.id)["code_changed"] is not None
    store = lab.context.store
    with store.transaction() as tx:
        document = store.get("experiment", made.id)
        assert document is not None
        body = {key: value for key, value in document.body.items() if key != "approved_code"}
        tx.put("experiment", made.id, body | lab.context.trust.seal(made.id, body))
    assert lab.runs.plan(made.id)["code_changed"] is None


@pytest.mark.slow
def test_an_untracked_program_and_one_without_git_are_bound(tmp_path: Path, lab: Lab) -> None:
    (lab.root / "new.sh").write_text("echo 1")
    with Lab.init(tmp_path / "plain", name="t", project_id="fixed") as plain:
        (plain.root / "new.sh").write_text("echo 1")
        for one in (lab, plain):
            made = _approved(one, "sh -c 'sh new.sh'")
            assert one.runs.plan(made.id)["code_changed"] is None
            (one.root / "new.sh").write_text("echo 2")
            assert str(one.runs.plan(made.id)["code_changed"]).endswith(": new.sh")


@pytest.mark.slow
def test_a_typed_command_binds_the_code(lab: Lab) -> None:
    made = lab.experiments.propose(title="later", replicates=2, wall_s=60.0)
    (first,) = lab.runs.launch(made.id, command="sh job.sh")
    assert first.annotations == ()
    _edit(lab)
    assert lab.runs.plan(made.id)["code_changed"] is not None


def test_no_program_of_the_repository_is_started(lab: Lab) -> None:
    _git(lab, "config", "core.fsmonitor", "touch fired")
    _git(lab, "config", "filter.x.clean", "touch fired; cat")
    _git(lab, "config", "diff.x.textconv", "touch fired; cat")
    (lab.root / ".gitattributes").write_text("*.cfg filter=x diff=x\n")
    _edit(lab)
    made = _approved(lab)
    _edit(lab, "width = 3\n")
    assert "model.cfg" in str(lab.runs.plan(made.id)["code_changed"])
    assert not (lab.root / "fired").exists()

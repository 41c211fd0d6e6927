"""An autoresearch table with its git history becomes experiments that are shown and not believed."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run

HEADER = "commit\tval_bpb\tmemory_gb\tstatus\tdescription"
TRAIN = "import os\nprint('val_bpb:', {value} + int(os.environ['PERPETUAL_SEED']) % 7 / 1e4)\n"


def git(folder: Path, *words: str) -> str:
    """A git command that depends on nobody's configuration."""
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=autoresearch/mar5")
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def commit(folder: Path, value: float, message: str) -> str:
    """A version of the training script; answers its short name."""
    (folder / "train.py").write_text(TRAIN.format(value=value))
    git(folder, "add", "train.py")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "--short=7", "HEAD")


@pytest.fixture
def research(project: Path) -> Path:
    """A repository in which such a loop has worked: a baseline, a discard, a crash, and two improvements."""
    git(project, "init", "-q")
    base = commit(project, 1.0, "baseline")
    worse = commit(project, 1.5, "wider")
    git(project, "reset", "-q", "--hard", base)
    better = commit(project, 0.9, "higher LR\n\nfrom 0.02 to 0.04")
    best = commit(project, 0.8, "GeLU")
    rows = [
        f"{base}\t1.000000\t44.0\tkeep\tbaseline",
        f"{worse}\t1.500000\t44.2\tdiscard\tmuch wider",
        f'{better}\t0.900000\t44.0\tkeep\tincrease LR to 0.04, "twice" as much',
        f"{better}\t0.000000\t0.0\tcrash\tdouble the depth (OOM)",
        f"{best}\t0.800000\t44.0\tkeep\tswitch to GeLU",
        "fffffff\t0.950000\t44.0\tdiscard\tof a repository that was cleaned up",
    ]
    (project / "results.tsv").write_text("\n".join([HEADER, *rows]) + "\n")
    return project


def adopt(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """The document that `perpetual adopt` answers."""
    capsys.readouterr()
    assert run(["adopt", *words, "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def sound(lab: Lab) -> None:
    """The record holds together."""
    assert lab.storage.verify() == []
    assert lab.evidence.refold(check=True) == []


def test_every_row_is_an_experiment_with_its_commit(research: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (research / "results.tsv").read_bytes()
    told = adopt(capsys)
    assert (told["kind"], told["hypotheses"], told["experiments"], told["runs"]) == ("autoresearch", 1, 6, 6)
    assert told["evidence"] == 5
    assert told["skipped"] == [
        {"what": "the commits of 1 rows (fffffff)", "why": "the repository has no such commit, or more than one"}
    ]
    with Lab.open() as lab:
        sound(lab)
        (claim,) = lab.hypotheses.list().items
        experiments = lab.experiments.list().items
        runs = lab.runs.list().items[::-1]
        evidence = lab.evidence.list().items
    assert "branch autoresearch/mar5" in claim.statement
    assert (claim.confidence, claim.evidence_count, claim.tags) == (0.5, 5, ("adopted", "autoresearch"))
    assert (claim.prediction.metric, claim.prediction.direction) == ("val_bpb", "min")
    assert [item.status for item in experiments] == ["analysed"] * 6
    assert [item.title for item in experiments][2] == 'increase LR to 0.04, "twice" as much'
    assert experiments[4].config == {"commit": git(research, "rev-parse", "HEAD")}
    assert [item.status for item in runs] == ["done", "done", "done", "failed", "done", "done"]
    assert runs[0].metrics == {"val_bpb": 1.0, "memory_gb": 44.0}
    assert runs[0].metric_sources["val_bpb"] == "results.tsv:2"
    assert runs[3].metrics == {}, "0.000000 of a crash is no value"
    assert runs[3].reason == "the loop noted: crash"
    assert runs[2].git.commit == git(research, "rev-parse", "HEAD~1")
    assert runs[5].git.commit is None
    assert {item.actor for item in evidence} == {"adopt:autoresearch"}
    assert {(item.weight, item.reason) for item in evidence} == {(0.0, "measured before it was predicted")}
    assert (research / "results.tsv").read_bytes() == before


def test_a_commit_brings_its_date_author_message_and_parent(research: Path) -> None:
    run(["adopt", "--json"])
    with Lab.open() as lab:
        origin = lab.context.need("run", "r3").body["adopted"]
        created = lab.experiments.get("e3").created_at
    assert origin["commit"]["message"] == "higher LR\n\nfrom 0.02 to 0.04"
    assert origin["commit"]["author"] == "Ada <ada@example.org>"
    assert origin["commit"]["parent"] == git(research, "rev-parse", "HEAD~2")
    assert created == origin["commit"]["committed_at"]


def test_twice_is_once_and_a_longer_table_adds_what_is_new(
    research: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    adopt(capsys)
    again = adopt(capsys)
    assert (again["experiments"], again["known"]["experiments"], again["evidence"]) == (0, 6, 0)
    # The same table elsewhere is the same table; equal rows are two tries.
    copied = tmp_path / "elsewhere" / "renamed.tsv"
    copied.parent.mkdir()
    last = (research / "results.tsv").read_text().splitlines()[-1]
    copied.write_text((research / "results.tsv").read_text() + last + "\n")
    grown = adopt(capsys, str(copied))
    assert (grown["hypotheses"], grown["experiments"], grown["known"]["experiments"]) == (0, 1, 6)
    with Lab.open() as lab:
        sound(lab)
        assert lab.hypotheses.get("h1").evidence_count == 6


def test_the_printed_next_commands_run_unchanged(research: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = adopt(capsys)
    steps = told["next"]
    assert [step.split()[0] for step in steps] == ["git", "perpetual"] * 3 + ["perpetual"]
    assert "--replicates 4" in steps[1]
    assert "switch to GeLU" in steps[3]
    assert "--claim any --baseline e7" in steps[3]
    for step in steps:
        words = shlex.split(step)
        if words[0] == "git":
            git(research, *words[1:])
        else:
            assert run([*words[1:], "--json"]) == 0, capsys.readouterr()
    with Lab.open() as lab:
        assert [lab.experiments.get(id).status for id in ("e7", "e8", "e9")] == ["approved"] * 3
        assert lab.experiments.get("e8").design.baseline == "e7"
        (first,) = lab.runs.launch("e8")
        assert lab.wait([first.id], timeout_s=60) == {first.id: "done"}
        value = lab.runs.get(first.id).metrics["val_bpb"]
    assert value is not None
    assert 0.8 <= value < 0.81, "the code of the commit ran, not that of the working tree"


def test_a_dry_run_writes_nothing(research: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Lab.open() as lab:
        seq = lab.status()["seq"]
    told = adopt(capsys, "--dry-run")
    assert (told["dry_run"], told["experiments"], told["next"]) == (True, 6, [])
    with Lab.open() as lab:
        assert lab.status()["seq"] == seq


def test_another_header_decides(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = "Commit\tscore\tsharpe\tval_pass\tstatus\tdescription\na1b2c3d\t0.42\t0.58\ttrue\tkeep\tbaseline\n"
    Path("results.tsv").write_text(table)
    refused = adopt(capsys, code=2)
    assert "nothing says whether more or less score is better" in refused["error"]["message"]
    assert adopt(capsys, "--metric", "shrpe", "--direction", "max", code=2)["error"]["code"] == "usage"
    told = adopt(capsys, "--metric", "sharpe", "--direction", "max")
    assert told["evidence"] == 1
    with Lab.open() as lab:
        assert lab.runs.get("r1").metrics == {"score": 0.42, "sharpe": 0.58}
        assert lab.evidence.get("v1").value == 0.58
        assert lab.context.need("run", "r1").body["adopted"]["cells"] == {"val_pass": "true"}


def test_tables_with_commas_and_several_tables_are_read(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.tsv").write_text("commit,val_loss,status\nabc1234,0.5,keep\n")
    Path("b.tsv").write_text("commit\tval_loss\tstatus\nabc1234\t0.4\tkeep\n")
    Path("other.tsv").write_text("name\tvalue\nx\t1\n")
    told = adopt(capsys)
    assert (told["hypotheses"], told["runs"], told["name"]) == (2, 2, "a.tsv, b.tsv")


def test_one_row_by_its_commit_or_description(research: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = git(research, "rev-parse", "HEAD")
    assert adopt(capsys, "--experiment", head, "--dry-run")["experiments"] == 1
    assert adopt(capsys, "--experiment", "much wider", "--dry-run")["experiments"] == 1
    assert adopt(capsys, "--experiment", "no such", code=2)["error"]["code"] == "usage"


def test_under_a_hypothesis_that_is_there(research: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hypotheses", "add", "depth helps"]) == 0
    told = adopt(capsys, "-h", "H1")
    assert (told["hypotheses"], told["experiments"]) == (0, 6)
    assert adopt(capsys, "-h", "h9", code=5)["error"]["code"] == "not_found"
    with Lab.open() as lab:
        sound(lab)
        assert {item.hypothesis_id for item in lab.experiments.list().items} == {"h1"}
        assert lab.hypotheses.get("h1").statement == "depth helps"


def test_nothing_of_the_repository_is_executed(research: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trap = research / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {research / 'sprung'}\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "core.hooksPath", "gpg.program", "core.sshCommand", "diff.external"):
        git(research, "config", key, str(trap))
    git(research, "config", "log.showSignature", "true")
    assert adopt(capsys)["experiments"] == 6
    assert not (research / "sprung").exists()


def test_a_broken_repository_costs_the_commits_alone(research: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (research / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(b"garbage")
    told = adopt(capsys)
    assert told["experiments"] == 6
    assert "cannot be read" in told["skipped"][-1]["why"]

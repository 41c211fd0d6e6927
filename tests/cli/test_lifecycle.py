"""The research lifecycle through the command line, with real runs; every document checked against its promise."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.records import Evidence, Experiment, Hypothesis, Run

Json = dict[str, Any]
Call = Callable[..., Json]

# The machine interface's own words: these keys are always there.
PROMISED = {
    "hypothesis": "id statement status confidence prior e_support e_refute false_alarm_bound created_at tags "
    "evidence_count",
    "experiment": "id hypothesis_id title status command cwd env config notes tags priority resources design spec_hash "
    "score runs proposed_by approved_by created_at",
    "run": "id experiment_id attempt replicate status seed scheduler native_id pid gpus started_at ended_at duration_s "
    "exit_code signal reason gpu_hours run_hours metrics log_dir git tainted",
    "evidence": "id hypothesis_id experiment_id run_id kind value log_bayes_factor weight actor created_at "
    "retracted_by reason",
}
RECORDS = {"hypothesis": Hypothesis, "experiment": Experiment, "run": Run, "evidence": Evidence}
DESIGN = "metric direction kind baseline claim mde noise tau replicates cost_run_hours"
BUDGET = "limit_gpu_hours spent_gpu_hours reserved_gpu_hours left_gpu_hours run_hours limit_run_hours"

TRAIN = """
import json, os, random
config = json.load(open(os.environ["PERPETUAL_CONFIG"]))
noise = random.Random(int(os.environ["PERPETUAL_SEED"])).gauss(0, 0.01)
print(json.dumps({"step": 1, "val_loss": config["loss"] + noise}))
"""


def check_record(document: Json, name: str) -> None:
    """Exactly the record's keys, the promised ones among them, and the schema."""
    assert document["schema"] == f"perpetual.{name}/1"
    check_keys({key: value for key, value in document.items() if key != "schema"}, name)


def check_keys(item: Json, name: str) -> None:
    assert {*item} - {"progress"} == {spec.name for spec in fields(RECORDS[name])}, "a live run has progress too"
    assert set(PROMISED[name].split()) <= set(item)


def check_list(document: Json, schema: str, name: str) -> list[Json]:
    assert document["schema"] == f"perpetual.{schema}/1"
    assert set(document) == {"schema", "items", "next_cursor"}
    for item in document["items"]:
        check_keys(item, name)
    items: list[Json] = document["items"]
    return items


@pytest.fixture
def call(project: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs one command with --json and answers its one document."""
    (project / "train.py").write_text(TRAIN)

    def run_json(*arguments: str, code: int = 0) -> Json:
        capsys.readouterr()
        assert run([*arguments, "--json"]) == code, capsys.readouterr()
        out, err = capsys.readouterr()
        assert err == ""
        assert out.count("\n") == 1
        document: Json = json.loads(out, parse_constant=pytest.fail)
        return document

    return run_json


@pytest.fixture
def text(call: Call, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs one command for people and answers its standard output."""

    def run_text(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run(arguments) == code
        return capsys.readouterr().out

    return run_text


def test_a_campaign_from_statement_to_verdict(call: Call) -> None:
    """A baseline and a claim, proposed, approved, run and judged by what they measured."""
    hypothesis = call("hypotheses", "add", "warm-up lowers val_loss", "--prior", "0.5", "--tag", "lr", "--tag", "lr")
    check_record(hypothesis, "hypothesis")
    assert (hypothesis["id"], hypothesis["status"], hypothesis["tags"]) == ("h1", "open", ["lr"])

    baseline = call("propose", "--command", "python train.py", "-c", '{"loss": 2.3}', "--metric", "val_loss",
                    "--replicates", "3", "--cost", "10s", "--title", "without")  # fmt: skip
    check_record(baseline, "experiment")
    assert baseline["design"]["claim"] is None
    assert baseline["score"]["score"] is None

    claim = call("propose", "-h", "H1", "--command", "python train.py", "--config", '{"loss": 2.0}', "-n", "a note",
                 "--metric", "val_loss", "--direction", "min", "--mde", "0.1", "--noise", "0.02", "--tau", "0.02",
                 "--baseline", "E1", "--replicates", "3", "--cost", "10s", "--wall", "2m", "--priority", "5",
                 "--gpu-memory", "1GiB", "--env", "A=b=c", "--tag", "warm")  # fmt: skip
    check_record(claim, "experiment")
    assert set(DESIGN.split()) <= set(claim["design"])
    assert claim["status"] == "proposed"
    assert (claim["config"], claim["notes"], claim["env"]) == ({"loss": 2.0}, "a note", {"A": "b=c"})
    assert (claim["priority"], claim["tags"], claim["hypothesis_id"]) == (5, ["warm"], "h1")
    assert claim["resources"] == {
        "gpus": 0,
        "gpu_memory_bytes": 2**30,
        "cpus": None,
        "wall_s": 120.0,
        "no_output_s": None,
        "memory_bytes": None,
        "nodes": None,
        "scheduler": None,
        "isolate": False,
        "worktree": None,
        "needs_artifacts": [],
        "engine": {},
    }
    assert claim["design"]["baseline"] == "e1"
    assert claim["design"]["cost_run_hours"] == pytest.approx(10 / 3600)
    assert (claim["runs"], claim["approved_by"]) == ({}, None)
    assert set(claim["score"]) == {"information_gain_bits", "cost_run_hours", "score", "reason"}

    approved = check_list(call("approve", "e1", "E2", "e1"), "experiments", "experiment")
    assert [(item["id"], item["status"]) for item in approved] == [("e1", "approved"), ("e2", "approved")]
    assert approved[1]["spec_hash"] == claim["spec_hash"]

    first = call("run", "e1", "--wait")
    check_record(first, "run")
    assert (first["id"], first["status"], first["exit_code"]) == ("r1", "done", 0)
    assert first["metrics"]["val_loss"] == pytest.approx(2.3, abs=0.1)
    assert first["gpu_hours"] == 0.0
    assert first["run_hours"] == pytest.approx(first["duration_s"] / 3600)
    assert first["log_dir"] == ".perpetual/runs/r1"

    rest = check_list(call("run", "e1", "--all", "--wait"), "runs", "run")
    assert [(item["replicate"], item["status"]) for item in rest] == [(2, "done"), (3, "done")]
    assert call("run", "e1", code=6)["error"]["code"] == "conflict"

    started = check_list(call("run", "e2", "--all"), "runs", "run")
    assert {item["status"] for item in started} == {"running"}
    waited = check_list(call("wait", "e2", "--timeout", "1m"), "runs", "run")
    assert [item["status"] for item in waited] == ["done"] * 3
    again = call("scan")
    assert again == {"schema": "perpetual.scan/1", "changes": [], "debits": [], "evidence": [], "problems": []}

    decided = call("hypotheses", "show", "h1")
    check_record(decided, "hypothesis")
    assert decided["status"] == "supported"
    assert decided["confidence"] > 0.8
    assert decided["evidence_count"] == 3
    rows = check_list(call("evidence", "list", "--hypothesis", "h1"), "evidence_list", "evidence")
    # The three ran at once: rows come in the order in which the runs ended, whichever that was.
    assert [(row["id"], row["kind"]) for row in rows] == [("v1", "measured"), ("v2", "measured"), ("v3", "measured")]
    assert {row["run_id"] for row in rows} == {"r4", "r5", "r6"}
    assert all(row["weight"] == 1.0 and row["reason"] is None and row["retracted_by"] is None for row in rows)

    spent = call("budget")
    assert set(spent) == {"schema", *BUDGET.split(), "by_experiment", "by_hypothesis", "by_day"}
    assert (spent["limit_gpu_hours"], spent["left_gpu_hours"], spent["spent_gpu_hours"]) == (None, None, 0.0)
    assert set(spent["by_experiment"]) == {"e1", "e2"}
    assert spent["by_hypothesis"]["h1"]["runs"] == 3
    assert sum(line["run_hours"] for line in spent["by_day"].values()) == pytest.approx(spent["run_hours"])

    status = call("status")
    assert set(status["experiments"]) == {"analysed"}
    assert status["runs"] == {"active": [], "queued": 0}
    assert call("evidence", "refold", "--check")["items"] == []


def test_scan_tells_what_has_ended(call: Call, project: Path) -> None:
    """Without --wait the record follows at `scan`: change, debit and evidence in one answer."""
    call("hypotheses", "add", "more is more", "--metric", "m", "--direction", "max", "--mde", "0.1", "--baseline", "1")
    call("propose", "-h", "h1", "--command", "sh -c 'echo m=2; touch ended'", "--noise", "0.1")
    call("approve", "e1")
    started = call("run", "e1")
    check_record(started, "run")
    assert (started["status"], started["ended_at"], started["metrics"]) == ("running", None, {})
    subprocess.run(["tail", f"--pid={started['pid']}", "-f", "/dev/null"], check=True, timeout=30)
    assert call("runs", "r1")["status"] == "running"  # nobody has reconciled
    assert call("status")["runs"]["active"][0]["id"] == "r1"

    found = call("scan")
    while not found["changes"]:  # the supervisor writes its record a moment after the command is gone
        found = call("scan")
    assert set(found) == {"schema", "changes", "debits", "evidence", "problems"}
    assert found["changes"] == [
        {"run_id": "r1", "experiment_id": "e1", "from": "running", "to": "done", "reason": None}
    ]
    assert found["debits"][0]["run_id"] == "r1"
    check_keys(found["evidence"][0], "evidence")
    assert found["evidence"][0]["value"] == 2.0


def test_manual_rows_opinions_and_retractions_fold_into_the_confidence(call: Call) -> None:
    """Opinions, retractions and manual rows; each is a row, and the confidence is their fold."""
    call("hypotheses", "add", "it helps")
    row = call("evidence", "add", "h1", "--verdict", "supports", "--strength", "0.5", "--why", "read it", "--json")
    check_record(row, "evidence")
    assert (row["id"], row["kind"], row["verdict"], row["strength"]) == ("v1", "judged", "supports", 0.5)
    assert call("hypotheses", "show", "h1")["confidence"] > 0.5
    gone = call("evidence", "retract", "v1", "--why", "misread")
    assert (gone["kind"], gone["target"], gone["reason"]) == ("retraction", "v1", "misread")
    rows = check_list(call("evidence", "list"), "evidence_list", "evidence")
    assert [item["retracted_by"] for item in rows] == ["v2", None]
    assert call("hypotheses", "show", "h1")["confidence"] == pytest.approx(0.5)

    raised = call("hypotheses", "update", "h1", "--confidence", "0.7", "--why", "a hunch", "--tag", "x")
    assert raised["confidence"] == pytest.approx(0.7)
    assert raised["tags"] == ["x"]
    assert call("evidence", "list")["items"][-1]["reason"] == "a hunch"
    assert call("hypotheses", "update", "h1", "--prior", "0.3", code=6)["error"]["code"] == "conflict"
    assert call("hypotheses", "update", "h1", "--status", "supported")["status"] == "supported"
    assert call("hypotheses", "update", "h1", "--status", "open")["status"] == "open"
    assert call("hypotheses", "update", "h1", "--status", "parked")["status"] == "parked"
    assert [item["id"] for item in call("hypotheses", "list", "--status", "parked")["items"]] == ["h1"]
    assert call("hypotheses", "update", "h1", "--tag", "", "--statement", "it  helps much")["tags"] == []
    assert call("hypotheses", "show", "h1")["statement"] == "it helps much"


def test_refold_check_finds_a_confidence_written_by_hand(call: Call, project: Path) -> None:
    call("hypotheses", "add", "it helps")
    call("evidence", "add", "h1", "--verdict", "refutes", "--strength", "1", "--why", "no")
    with Lab.open(project) as lab, lab.context.store.transaction() as tx:
        written = tx.get("hypothesis", "h1")
        assert written is not None
        tx.put("hypothesis", "h1", {**written.body, "confidence": 0.99})
    found = call("evidence", "refold", "--check", code=1)
    assert found["schema"] == "perpetual.refold/1"
    assert found["items"][0]["id"] == "h1"
    assert found["items"][0]["stored"]["confidence"] == 0.99
    assert call("hypotheses", "show", "h1")["confidence"] == 0.99  # --check changes nothing
    assert len(call("evidence", "refold")["items"]) == 1
    assert call("evidence", "refold", "--check")["items"] == []


def test_lists_have_pages(call: Call) -> None:
    for number in range(5):
        call("hypotheses", "add", f"claim {number}")
        call("propose", "--command", f"echo {number}")
    for name, record in (("hypotheses", "hypothesis"), ("experiments", "experiment")):
        command = (name, "list") if name == "hypotheses" else (name,)
        seen: list[str] = []
        cursor: str | None = None
        while True:
            page = call(*command, "--limit", "2", *(("--cursor", cursor) if cursor else ()))
            seen += [item["id"] for item in check_list(page, name, record)]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == [f"{name[0]}{number}" for number in range(1, 6)]
    assert call("experiments", "--status", "approved")["items"] == []
    check_record(call("experiments", "E5"), "experiment")


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("hypotheses", "add", "once"), "hypotheses"),
        (("propose", "--command", "echo once"), "experiments"),
        (("evidence", "add", "h1", "--verdict", "supports", "--why", "once"), "evidence"),
    ],
)
def test_an_idempotency_key_answers_what_it_made(call: Call, arguments: tuple[str, ...], kind: str) -> None:
    call("hypotheses", "add", "first")
    made = call(*arguments, "--idempotency-key", "k-1")
    assert call(*arguments, "--idempotency-key", "k-1") == made
    assert call(*arguments, "--idempotency-key", "k-2")["id"] != made["id"]
    other = "propose" if kind != "experiments" else "hypotheses"
    rest = ("--command", "true") if other == "propose" else ("add", "x")
    assert call(other, *rest, "--idempotency-key", "k-1", code=6)["error"]["code"] == "conflict"


def test_propose_auto_picks_what_teaches_most(call: Call, text: Callable[..., str]) -> None:
    """Untried points of a hypothesis's grid become proposals, in the order of their worth; a dry run writes none."""
    call("hypotheses", "add", "lr matters", "--metric", "m", "--direction", "max", "--mde", "0.1", "--baseline", "1",
         "--params", '{"lr": [0.1, 0.2, 0.3]}')  # fmt: skip
    assert call("propose", "--auto", "3")["items"] == []
    call("propose", "-h", "h1", "--command", "sh -c 'echo m=1'", "--noise", "0.1", "--cost", "30s")
    call("approve", "e1")
    planned = check_list(call("propose", "--auto", "2", "--dry-run"), "experiments", "experiment")
    assert len(planned) == 2
    assert None in [item["id"] for item in planned]
    assert len(call("experiments")["items"]) == 1
    picked = check_list(call("propose", "--auto", "3", "--idempotency-key", "a"), "experiments", "experiment")
    assert len(picked) == 3
    assert all(item["score"]["score"] > 0 and item["score"]["reason"] for item in picked)
    count = len(call("experiments")["items"])
    assert count > 1
    assert call("propose", "--auto", "3", "--idempotency-key", "a")["items"] == picked
    assert len(call("experiments")["items"]) == count
    assert "next: perpetual approve e4" in text("propose", "--auto", "9")


def test_a_dry_run_of_propose_writes_nothing(call: Call, text: Callable[..., str]) -> None:
    shown = call("propose", "--command", "echo 1", "--dry-run")
    assert (shown["id"], shown["title"], shown["status"]) == (None, "echo 1", "proposed")
    assert "nothing was written" in text("propose", "--command", "echo 1", "--dry-run")
    assert call("experiments")["items"] == []


@pytest.mark.parametrize(
    ("variable", "refused"),
    [
        ("LR=0.1", False),
        ("HF_TOKEN=abc", True),
        ("MIRROR=https://me:pass@host/x", True),
        ("TOKENIZERS_PARALLELISM=false", False),
    ],
)
def test_a_secret_in_the_specification_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str], variable: str, refused: bool
) -> None:
    assert run(["propose", "--command", "true", "--env", variable]) == (2 if refused else 0)
    _, err = capsys.readouterr()
    assert ("holds a secret" in err) is refused
    assert variable.split("=")[1] not in err


def test_reject_ends_a_proposal(call: Call) -> None:
    for word in "abc":
        call("propose", "--command", f"echo {word}")
    one = call("reject", "e1", "--why", "too dear")
    check_record(one, "experiment")
    assert one["status"] == "rejected"
    several = check_list(call("reject", "e2", "e3", "--why", "too dear"), "experiments", "experiment")
    assert [item["status"] for item in several] == ["rejected"] * 2
    told = [item for item in call("events")["items"] if item["kind"] == "experiment_rejected"]
    assert [item["payload"]["reason"] for item in told] == ["too dear"] * 3


def test_the_budget_is_set_and_shown(call: Call, text: Callable[..., str]) -> None:
    limited = call("budget", "set", "90m")
    assert (limited["limit_gpu_hours"], limited["left_gpu_hours"]) == (1.5, 1.5)
    assert set(BUDGET.split()) <= set(limited)
    assert call("budget", "set", "none")["limit_gpu_hours"] is None
    assert "unlimited" in text("budget")
    assert "0.000 left of 0" in text("budget", "set", "0")


def test_the_status_says_the_limit_in_run_hours(text: Callable[..., str]) -> None:
    assert "budget: 0 GPU-hours spent (unlimited), 0.0 s of run time\n" in text("status")
    text("methodology", "set", "max_run_hours", "0.5")
    assert "budget: 0 GPU-hours spent, 0 of 0.5 run-hours\n" in text("status")
    text("budget", "set", "2")
    assert "budget: 0 of 2 GPU-hours spent, 0 of 0.5 run-hours\n" in text("status")


def test_people_are_shown_the_next_step(text: Callable[..., str]) -> None:
    said = text("hypotheses", "add", "bold \x1b[31mclaim", "--metric", "m", "--direction", "max", "--mde", "0.5",
                "--baseline", "1")  # fmt: skip
    assert "next: perpetual propose -h h1" in said
    assert "\x1b" not in said
    assert "\\x1b[31mclaim" in text("hypotheses", "list")
    proposed = text("propose", "-h", "h1", "--command", "sh -c 'echo m=2'", "--replicates", "2", "--noise", "0.1")
    assert "e1  proposed for h1" in proposed
    assert "design: m higher than 1 (planned for 0.5, the smallest effect worth having); 2 replicates" in proposed
    assert "bits per run-hour" not in proposed
    assert "next: perpetual approve e1" in proposed
    assert "next: perpetual run e1 --all" in text("approve", "e1")
    assert "r1  running: replicate 1 of e1" in text("run", "e1")
    ended = text("wait", "r1")
    assert "r1  done" in ended
    assert "h1  open: confidence" in ended
    assert "false-alarm bound" in text("hypotheses", "list")
    assert "m 2" in text("evidence", "list")
    assert "m 2" in text("runs")
    assert "m: 2" in text("runs", "r1")
    assert "sh -c 'echo m=2'" in text("experiments", "e1")
    assert "hypothesis" in text("budget")
    assert "experiments: e1 active" in text("hypotheses", "show", "h1")


def test_each_command_prints_one_document_in_its_own_process(project: Path) -> None:
    """The same through processes of its own: one document on standard output, nothing else; -h is the hypothesis."""

    def perpetual(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "perpetual", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=project, check=False)

    made = perpetual("--json", "hypotheses", "add", "größer ist besser")
    assert (made.returncode, made.stderr) == (0, "")
    assert json.loads(made.stdout)["statement"] == "größer ist besser"
    proposed = perpetual("propose", "-h", "h1", "--command", "sh -c 'exit 3'", "--json")
    assert json.loads(proposed.stdout)["hypothesis_id"] == "h1"
    assert perpetual("approve", "e1").returncode == 0
    failed = perpetual("run", "e1", "--wait", "--json")
    assert failed.returncode == 1
    check_record(json.loads(failed.stdout), "run")
    assert json.loads(failed.stdout)["reason"] == "exit code 3"
    unknown = perpetual("runs", "r9", "--json")
    assert (unknown.returncode, json.loads(unknown.stdout)["error"]["code"]) == (5, "not_found")

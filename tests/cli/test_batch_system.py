"""A batch system below the lab: pending jobs, many at once, logs on the nodes, requeues, and truth that comes late."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from perpetual.cli.app import run
from perpetual.testing.scheduler_site import Run, Site, make_site
from perpetual.testing.schedulers.engines import Engines
from tests.cli.engine_harness import Call, caller, happens, installed, until

SOURCE = Path(__file__).parents[1] / "fixtures" / "third_party" / "acme-batch"
CLAIM = ("--metric", "acc", "--direction", "max", "--mde", "0.1", "--baseline", "1.0", "--noise", "0.05")
_SCAN = "from perpetual.cli.app import run; raise SystemExit(run(['scan', '--json']))"


class Batch:
    """The state of the batch system, and what a test does to it."""

    def __init__(self, state: Path) -> None:
        self.state = state
        state.mkdir()

    def hold(self, reason: str = "Priority") -> None:
        (self.state / "hold").write_text(reason)

    def release(self) -> None:
        engine = SOURCE / "acme_batch" / "engine.py"
        subprocess.run([sys.executable, str(engine), str(self.state), "release"], check=True, capture_output=True)

    def requeue(self) -> None:
        """Has the first job ended and begun anew, which `hold` puts off."""
        job = self.state / "jobs" / "1"
        (job / "requeue-1").touch()
        happens(lambda: not (job / "running").exists())

    def calls(self) -> list[str]:
        """The commands since the last look."""
        path = self.state / "calls"
        found = path.read_text().split() if path.exists() else []
        path.write_text("")
        return found


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Batch]:
    """The stranger's distribution is installed, for other processes too."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    with installed(SOURCE, tmp_path / "site", monkeypatch):
        yield Batch(tmp_path / "engine")


@pytest.fixture
def call(project: Path, batch: Batch, capsys: pytest.CaptureFixture[str]) -> Iterator[Call]:
    """Runs one command with --json and answers its document, an error's too."""
    assert run(["config", "set", "plugins.acme-batch.state", str(batch.state)]) == 0
    assert run(["config", "set", "scheduler", "acme-batch"]) == 0
    yield caller(capsys)
    (project / "go").touch()  # whatever is left ends with the test


def propose(call: Call, *words: str) -> str:
    made = call("propose", *words, "--cost", "1m")
    call("approve", made["id"])
    return str(made["id"])


def dying_at(step: str, project: Path) -> None:
    """A scan in a process that is killed there."""
    done = subprocess.run([sys.executable, "-c", _SCAN], cwd=project, capture_output=True,
                          env={**os.environ, "PERPETUAL_DIE_AT": step}, timeout=60)  # fmt: skip
    assert done.returncode == -9, done.stderr


def two_scans(project: Path) -> None:
    scans = [subprocess.Popen([sys.executable, "-c", _SCAN], cwd=project, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [scan.wait() for scan in scans] == [0, 0]


def lost_and_tried_again(call: Call, batch: Batch) -> None:
    """The engine has forgotten r1, which runs until the file `go` is there; r2 is its further attempt, and is held."""
    hypothesis = call("hypotheses", "add", "acc rises")["id"]
    call("methodology", "set", "auto_retry", "lost")
    e1 = propose(call, "--command", "sh -c 'echo acc=1.2; while [ ! -e go ]; do sleep 0.01; done'",
                 "--hypothesis", hypothesis, *CLAIM)  # fmt: skip
    call("run", e1)
    until(call, "r1", "running")
    batch.hold()
    (batch.state / "forgotten").write_text("1")
    until(call, "r1", "lost")
    assert call("runs", "r2")["attempt"] == 2


def hours(call: Call) -> tuple[float, float]:
    found = call("budget")
    return found["spent_gpu_hours"], found["run_hours"]


@pytest.mark.slow
def test_a_pending_run_is_shown_and_costs_nothing(call: Call, batch: Batch, project: Path) -> None:
    call("methodology", "set", "max_concurrent_runs", "1")
    e1 = propose(
        call, "--command", "sh -c 'while [ ! -e go ]; do sleep 0.01; done'", "--gpus", "2", "--replicates", "2"
    )
    here = propose(call, "--command", "true", "--scheduler", "local")
    batch.hold()
    call("run", e1, "--all")
    changes = call("scan")["changes"]
    assert {change["run_id"]: change["reason"] for change in changes} == dict.fromkeys(
        ("r1", "r2"), "PENDING (Priority)"
    )
    assert call("scan")["changes"] == []
    batch.hold("Licenses")
    call("scan")
    found = call("runs", "r1")
    assert (found["status"], found["pending"], found["reason"]) == ("launching", True, "PENDING (Licenses)")
    assert (found["started_at"], found["native_id"], found["gpus"]) == (None, "1", [])
    shown = call("status")["runs"]["active"]
    assert [(item["id"], item["started_at"], item["reason"]) for item in shown] == [
        (id, None, "PENDING (Licenses)") for id in ("r1", "r2")
    ]
    assert call("run", here, "--wait")["status"] == "done"  # the engine's queue takes none of the places
    call("wait", "r1", "--timeout", "0.1", code=3)
    spent = hours(call)
    killed = call("kill", "r2")
    assert (killed["status"], killed["pending"], killed["run_hours"], killed["started_at"]) == (
        "killed",
        False,
        0.0,
        None,
    )
    assert hours(call) == spent
    batch.release()
    found = until(call, "r1", "running")
    assert (found["pending"], found["reason"], found["gpus"], found["host"]) == (
        False, None, ["GPU-0", "GPU-1"], "node1",
    )  # fmt: skip
    (project / "go").touch()
    found = until(call, "r1", "done")
    assert found["gpu_hours"] == pytest.approx(2 * found["duration_s"] / 3600)
    assert call("store", "verify")["problems"] == []


@pytest.mark.slow
def test_many_runs_are_submitted_in_one_call(call: Call, batch: Batch) -> None:
    e1 = propose(call, "--command", "true", "--replicates", "43")
    batch.hold()
    (batch.state / "refuse").write_text("r7")
    batch.calls()
    assert "invalid account" in call("run", e1, "--all", code=1)["error"]["message"]
    assert batch.calls().count("sbatch") == 2  # of at most 40 jobs
    call("scan")
    assert batch.calls() == ["squeue"]
    found = {item["id"]: item for item in call("runs", "--limit", "100")["items"]}
    assert [id for id, item in found.items() if not item["pending"]] == ["r7"]
    assert found["r7"]["status"] == "failed"
    (batch.state / "down").touch()
    assert {item["code"] for item in call("scan", code=1)["problems"]} == {"busy"}
    (batch.state / "down").unlink()
    assert call("scan")["changes"] == []


@pytest.mark.slow
def test_an_engine_out_of_reach_at_the_start(call: Call, batch: Batch) -> None:
    """What it has not taken is started by the next scan, which says why it was not started before."""
    e1 = propose(call, "--command", "true", "--replicates", "2")
    (batch.state / "down").touch()
    error = call("run", e1, "--all", code=3)["error"]
    assert error["hint"] == "perpetual scan asks the engine again, and starts what it has not taken"
    why = f"its engine was out of reach when it was to start: {error['message']}"
    assert {(item["status"], item["reason"]) for item in call("runs")["items"]} == {("launching", why)}
    (batch.state / "down").unlink()
    changes = call("scan")["changes"]
    assert {change["reason"] for change in changes if change["to"] == "queued"} == {why}
    for id in ("r1", "r2"):
        assert until(call, id, "done")["reason"] is None
    assert call("store", "verify")["problems"] == []


@pytest.mark.slow
def test_a_launcher_that_dies_has_started_each_once(call: Call, batch: Batch, project: Path) -> None:
    """Between the call of the batch and the record; each is found by the nonce in its folder."""
    e1 = propose(call, "--command", "sh -c 'echo x >> count'", "--replicates", "3")
    call("queue", "pause")
    call("run", e1, "--all")
    call("queue", "resume")
    batch.hold()
    dying_at("launch:started", project)
    assert {item["status"] for item in call("runs")["items"]} == {"launching"}
    changes = call("scan")["changes"]
    assert {change["reason"] for change in changes} == {"PENDING (Priority)"}
    assert sorted(item["native_id"] for item in call("runs")["items"]) == ["1", "2", "3"]
    batch.release()
    for id in ("r1", "r2", "r3"):
        until(call, id, "done")
    assert batch.calls().count("sbatch") == 1
    assert (project / "count").read_text().split() == ["x"] * 3


@pytest.mark.slow
def test_logs_are_fetched(call: Call, batch: Batch, project: Path) -> None:
    hypothesis = call("hypotheses", "add", "acc rises")["id"]
    e1 = propose(call, "--command", "sh -c 'echo begun; while [ ! -e go ]; do sleep 0.01; done; echo acc=1.2'",
                 "--hypothesis", hypothesis, *CLAIM)  # fmt: skip
    call("run", e1)
    until(call, "r1", "running")
    assert call("logs", "r1")["text"] == "begun\n"
    (batch.state / "scp-down").touch()
    (project / "go").touch()
    happens(lambda: run(["scan", "--json"]) != 0)
    assert call("runs", "r1")["status"] == "running"  # it is not measured yet, and nothing is lost
    assert call("logs", "r1")["text"] == "begun\n"
    (batch.state / "scp-down").unlink()
    assert until(call, "r1", "done")["metrics"] == {"acc": 1.2}
    assert call("logs", "r1")["text"] == "begun\nacc=1.2\n"
    assert len(call("evidence", "list")["items"]) == 1


@pytest.mark.parametrize(
    "step", [None, *(pytest.param(step, marks=pytest.mark.slow) for step in ("scan:evidence", "scan:settled"))]
)
def test_a_requeued_job_is_a_new_attempt(call: Call, batch: Batch, project: Path, step: str | None) -> None:
    """Once, also where a scan dies over it, and with two scans at a time."""
    e1 = propose(call, "--command", "sh -c 'echo acc=1.$PERPETUAL_SEED; while [ ! -e go ]; do sleep 0.01; done'",
                 "--metric", "acc")  # fmt: skip
    call("run", e1)
    first = until(call, "r1", "running")
    batch.hold("BeginTime")
    batch.requeue()
    if step is None:
        call("scan")
    else:
        dying_at(step, project)
        two_scans(project)
    old, new = call("runs", "r1"), call("runs", "r2")
    assert (old["status"], old["reason"]) == ("killed", "requeued by the engine (PENDING (BeginTime))")
    assert old["run_hours"] > 0
    assert (new["status"], new["pending"], new["attempt"], new["replicate"]) == ("launching", True, 2, 1)
    assert (new["seed"], new["native_id"], new["log_dir"]) == (first["seed"], "1", first["log_dir"])
    (batch.state / "hold").unlink()
    assert until(call, "r2", "running")["started_at"] > first["started_at"]
    (project / "go").touch()
    assert until(call, "r2", "done")["metrics"]["acc"] == pytest.approx(float(f"1.{first['seed']}"))
    assert [item["id"] for item in call("runs")["items"]] == ["r2", "r1"]
    assert call("store", "verify")["problems"] == []


def test_a_late_end_replaces_the_status_lost(call: Call, batch: Batch, project: Path) -> None:
    hypothesis = call("hypotheses", "add", "acc rises")["id"]
    e1 = propose(call, "--command", "sh -c 'echo acc=1.2; while [ ! -e go ]; do sleep 0.01; done'", "--gpus", "1",
                 "--hypothesis", hypothesis, *CLAIM)  # fmt: skip
    call("run", e1)
    until(call, "r1", "running")
    (batch.state / "forgotten").write_text("1")
    lost = until(call, "r1", "lost")
    charged = hours(call)
    assert charged[1] == lost["run_hours"]
    (project / "go").touch()
    happens(lambda: (batch.state / "jobs" / "1" / "ended").exists())
    assert call("scan")["changes"] == []
    (batch.state / "forgotten").unlink()
    answer = call("scan")
    assert [(change["from"], change["to"]) for change in answer["changes"]] == [("lost", "done")]
    assert ([debit["kind"] for debit in answer["debits"]], len(answer["evidence"])) == (["correct"], 1)
    found = call("runs", "r1")
    assert (found["metrics"], found["gpus"]) == ({"acc": 1.2}, ["GPU-0"])
    assert hours(call) == pytest.approx((found["gpu_hours"], found["run_hours"]))
    assert hours(call) != charged
    assert call("budget")["by_hypothesis"][hypothesis]["runs"] == 1
    batch.calls()
    again = call("scan")
    assert (again["changes"], again["debits"], again["evidence"], batch.calls()) == ([], [], [], [])
    told = [event for event in call("events", "--limit", "100")["items"] if event["kind"] == "run_status"]
    assert told[-1]["payload"]["from"] == "lost"
    assert call("store", "verify")["problems"] == []


@pytest.mark.slow
def test_the_reason_a_run_cannot_be_seen_is_shown(
    call: Call, batch: Batch, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine out of reach is waited for; a run whose scheduler is not installed is not."""
    batch.hold()
    call("run", propose(call, "--command", "echo acc=1.2"))
    (batch.state / "down").touch()
    capsys.readouterr()
    assert run(["wait", "r1", "--timeout", "1"]) == 3
    assert capsys.readouterr().err.splitlines() == [
        "r1 cannot be looked at now: squeue: error: unable to contact the controller",
        "the time is over, and r1 went on",
    ]
    monkeypatch.setenv("PERPETUAL_WITHOUT", "acme-batch")
    monkeypatch.setenv("PERPETUAL_SCHEDULER", "local")
    for words in (["wait", "r1"], ["logs", "r1"]):
        assert call(*words, code=2)["error"]["message"] == (
            "r1 was started by the scheduler 'acme-batch', which is not here"
        )
    monkeypatch.delenv("PERPETUAL_WITHOUT")
    monkeypatch.delenv("PERPETUAL_SCHEDULER")
    (batch.state / "down").unlink()
    batch.release()
    until(call, "r1", "done")


@pytest.mark.slow
def test_one_of_two_attempts_counts(call: Call, batch: Batch, project: Path) -> None:
    """A lost run was tried again before its end came to be known."""
    lost_and_tried_again(call, batch)
    (project / "go").touch()
    (batch.state / "forgotten").unlink()
    until(call, "r1", "done")
    batch.release()
    until(call, "r2", "done")
    weights = {row["run_id"]: (row["weight"], row["reason"]) for row in call("evidence", "list")["items"]}
    assert weights == {
        "r1": (0.0, "r2 is a further attempt of it, made while it was taken for lost"),
        "r2": (1.0, None),
    }
    assert call("store", "verify")["problems"] == []


@pytest.mark.slow
def test_a_lost_run_that_goes_on_is_found_again(call: Call, batch: Batch, project: Path) -> None:
    """Its engine forgets it for a while, remembers it as running, and then how it ended."""
    hypothesis = call("hypotheses", "add", "acc rises")["id"]
    e1 = propose(call, "--command", "sh -c 'echo acc=1.2; while [ ! -e go ]; do sleep 0.01; done'", "--gpus", "1",
                 "--hypothesis", hypothesis, *CLAIM)  # fmt: skip
    call("run", e1)
    until(call, "r1", "running")
    held = call("budget")["reserved_gpu_hours"]
    (batch.state / "forgotten").write_text("1")
    until(call, "r1", "lost")
    assert call("budget")["reserved_gpu_hours"] == 0
    (batch.state / "forgotten").unlink()
    answer = call("scan")
    assert [(change["from"], change["to"]) for change in answer["changes"]] == [("lost", "running")]
    found = call("runs", "r1")
    assert [note["kind"] for note in found["annotations"]] == ["late"]
    assert (found["ended_at"], found["run_hours"]) == (None, None)
    assert call("budget")["reserved_gpu_hours"] == held
    assert hours(call) == pytest.approx((0.0, 0.0))  # the charge as lost is taken back: the worst case holds it too
    assert call("status")["runs"]["active"][0]["id"] == "r1"
    assert call("scan")["changes"] == []
    assert call("store", "verify")["problems"] == []
    (project / "go").touch()
    until(call, "r1", "done")
    found = call("runs", "r1")
    assert hours(call) == pytest.approx((found["gpu_hours"], found["run_hours"]))
    assert call("budget")["reserved_gpu_hours"] == 0
    assert [row["weight"] for row in call("evidence", "list")["items"]] == [1.0]
    assert call("store", "verify")["problems"] == []


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True], ids=["once", "lost twice"])
def test_a_lost_run_that_goes_on_is_ended(call: Call, batch: Batch, again: bool) -> None:
    e1 = propose(call, "--command", "sleep 600")
    call("run", e1)
    until(call, "r1", "running")
    for _ in range(1 + again):
        (batch.state / "forgotten").write_text("1")
        until(call, "r1", "lost")
        (batch.state / "forgotten").unlink()
        if again:
            call("scan")
    call("kill", "r1")
    until(call, "r1", "killed")
    assert (batch.state / "jobs" / "1" / "ended").exists()
    assert call("budget")["reserved_gpu_hours"] == 0
    assert call("store", "verify")["problems"] == []


@pytest.mark.slow
def test_a_lost_run_that_was_tried_again_and_requeued_counts_once(call: Call, batch: Batch, project: Path) -> None:
    """Three attempts of one replicate: the lost one, the lab's and the engine's."""
    lost_and_tried_again(call, batch)
    batch.requeue()
    (batch.state / "forgotten").unlink()
    until(call, "r1", "killed")
    assert (call("runs", "r3")["attempt"], call("runs", "r3")["reason"]) == (3, "PENDING (Priority)")
    (project / "go").touch()
    batch.release()
    until(call, "r2", "done")
    until(call, "r3", "done")
    weights = {row["run_id"]: row["weight"] for row in call("evidence", "list")["items"]}
    assert sorted(weights.values()) == [0.0, 1.0]
    assert call("store", "verify")["problems"] == []


@pytest.mark.slow
class TestBatchKeepsTheContract(Engines):
    """The part of the slot's suite that asks for an engine's queue."""

    settles_s: ClassVar[float] = 0.5

    @pytest.fixture
    def site(self, batch: Batch, tmp_path: Path) -> Iterator[Site]:
        """Where its runs live."""
        scheduler = importlib.import_module("acme_batch.scheduler").build({"state": str(batch.state)})
        with make_site(tmp_path / "runs", scheduler, patience_s=30.0) as site:
            yield site

    @contextmanager
    def hold(self, site: Site) -> Iterator[None]:
        """The controller starts nothing."""
        held = site.folder.parent / "engine" / "hold"
        held.write_text("Priority")
        yield
        held.unlink()

    def requeue(self, site: Site, run: Run) -> None:
        """As its administrator does."""
        (site.folder.parent / "engine" / "jobs" / run.launched.native_id / "requeue-1").touch()

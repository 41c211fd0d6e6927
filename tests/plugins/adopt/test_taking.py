"""Taking over: all or nothing a batch, once however often, and nothing that was not predicted counts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.errors import NotFound, TransientError
from perpetual.records import Run, from_json, to_json
from perpetual.toolkit.import_records import Batch, ImportedExperiment, ImportedHypothesis, ImportedRun
from perpetual.toolkit.lock import FileLock

SAMPLES = Path(__file__).parents[2] / "fixtures" / "adopt"


def table(path: Path, rows: int) -> None:
    """A long table of kept rows."""
    with path.open("w") as file:
        file.write("commit\tval_loss\tstatus\tdescription\n")
        for number in range(rows):
            file.write(f"{number:07x}\t{1 - number / (rows + 1):.6f}\tkeep\ttry {number}\n")


def program(*words: str, folder: Path, die_at: str | None = None) -> int:
    """`perpetual` in a process of its own, which ends itself at a step."""
    env = {**os.environ, **({"PERPETUAL_DIE_AT": die_at} if die_at else {})}
    done = subprocess.run(
        [sys.executable, "-m", "perpetual", *words], cwd=folder, env=env, capture_output=True, timeout=100, check=False
    )
    return done.returncode


def state(folder: Path) -> dict[str, Any]:
    """What an adoption leaves, without the moments at which it wrote."""
    with Lab.open(folder) as lab:
        assert lab.storage.verify() == []
        assert lab.evidence.refold(check=True) == []
        return {
            "hypotheses": [(item.id, item.evidence_count, item.status) for item in lab.hypotheses.list().items],
            "experiments": [(item.id, item.title, item.status) for item in lab.experiments.list(limit=1000).items],
            "runs": [(item.id, item.status, dict(item.metrics)) for item in lab.runs.list(limit=1000).items],
            "evidence": [(item.id, item.run_id, item.value) for item in lab.evidence.list(limit=1000).items],
            "spent": lab.budget.totals()["spent_gpu_hours"],
            "limit": lab.budget.limit_gpu_hours(),
            "notes": [(item.path, item.status) for item in lab.memory.list().items],
            "folders": {
                path.name: sorted(file.name for file in path.iterdir())
                for path in sorted((folder / ".perpetual" / "runs").glob("*"))
            },
        }


@pytest.mark.slow
def test_a_long_table_killed_after_a_batch_is_finished_by_the_next_call(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(project / "results.tsv", 150)
    assert program("adopt", "results.tsv", folder=project, die_at="adopt:written") == -9
    with Lab.open() as lab:
        assert 0 < len(lab.experiments.list(limit=1000).items) < 150
        assert lab.storage.verify() == []
    assert run(["adopt", "results.tsv", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"] + told["known"]["runs"], told["known"]["runs"] > 0) == (150, True)
    whole = tmp_path / "whole"
    Lab.init(whole, name="whole").close()
    shutil.copyfile("results.tsv", whole / "results.tsv")
    assert run(["--project", str(whole), "adopt", str(whole / "results.tsv")]) == 0
    assert state(project) == state(whole)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["adopt:aside", "adopt:laid", "adopt:written", "note:intent", "note:committed"])
def test_a_takeover_killed_anywhere_is_finished_by_the_next_call(tmp_path: Path, step: str) -> None:
    for name in ("cut", "whole"):
        shutil.copytree(SAMPLES / "agent", tmp_path / name / ".perpetual")
    assert program("adopt", folder=tmp_path / "cut", die_at=step) == -9
    assert program("adopt", folder=tmp_path / "cut") == 0
    assert program("adopt", folder=tmp_path / "whole") == 0
    assert state(tmp_path / "cut") == state(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("step", ["adopt:laid", "adopt:written"])
@pytest.mark.parametrize("store", ["mlruns", "mlflow.db"])
def test_mlflow_killed_anywhere_is_finished_by_the_next_call(tmp_path: Path, step: str, store: str) -> None:
    for name in ("cut", "whole"):
        Lab.init(tmp_path / name, name=name).close()
    source = str(SAMPLES / store)
    assert program("adopt", source, folder=tmp_path / "cut", die_at=step) == -9
    assert program("adopt", source, folder=tmp_path / "cut") == 0
    assert program("adopt", source, folder=tmp_path / "whole") == 0
    assert state(tmp_path / "cut") == state(tmp_path / "whole")


def test_a_limit_takes_the_next_ones_each_time(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(project / "results.tsv", 25)
    taken, complete = [], []
    for _ in range(3):
        assert run(["adopt", "--limit", "10", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        taken.append((told["experiments"], told["runs"]))
        complete.append(told["is_complete"])
    assert taken == [(10, 10), (10, 10), (5, 5)]
    assert complete == [False, False, True]
    with Lab.open() as lab:
        assert lab.hypotheses.get("h1").evidence_count == 25


def test_adopted_work_neither_counts_nor_stops_the_loop(project: Path) -> None:
    rows = [
        f"{number:07x}\t0.0\tcrash\tbad" if number % 2 else f"{number:07x}\t0.5\tkeep\tgood" for number in range(40)
    ]
    Path("results.tsv").write_text("commit\tval_loss\tstatus\tdescription\n" + "\n".join(rows) + "\n")
    assert run(["adopt"]) == 0
    with Lab.open() as lab:
        assert lab.loop.halt_reason() is None
        claim = lab.hypotheses.get("h1")
        assert (claim.status, claim.confidence, claim.evidence_count) == ("open", 0.5, 20)
        # Nor does a claim lean on it as a baseline.
        tried = lab.experiments.propose(
            "h1", command="echo val_loss=0.1", mde=0.1, baseline="e1", noise=0.01, replicates=2
        )
        lab.experiments.approve(tried.id)
        lab.wait([started.id for started in lab.runs.launch(tried.id, every=True)], timeout_s=60)
        assert lab.hypotheses.get("h1").confidence == 0.5


def test_commands_and_mcp_show_adopted_runs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(SAMPLES / "mlruns", project / "mlruns")
    assert run(["adopt", "--metric", "val/loss"]) == 0
    shown = capsys.readouterr().out
    assert "taken over: 2 hypotheses, 4 experiments, 4 runs" in shown
    assert "weight 0" in shown
    for words, expected in (
        (("status",), "4 analysed"),
        (("runs",), "MLflow says FAILED"),
        (("experiments",), "base/line ☃"),
        (("evidence", "list"), "measured before it was predicted"),
        (("compare", "r2", "r3"), " seed "),
        (("report",), "base/line ☃"),
        (("events", "--limit", "1000"), "work_adopted"),
    ):
        assert run([*words]) == 0, words
        assert expected in capsys.readouterr().out, words


def test_an_adoption_excludes_another(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(project / "results.tsv", 3)
    with FileLock(project / ".perpetual" / "adopt.lock"):
        assert run(["adopt", "--json"]) == TransientError.exit
    assert run(["adopt", "--json"]) == 0


def test_lab_imports_adopts_from_python(project: Path) -> None:
    def items() -> Iterator[Any]:
        yield ImportedHypothesis("q", "does it help?", metric="acc", direction="max", parked=True)
        yield ImportedExperiment("q:1", "q", "one", metric="acc", direction="max")
        yield ImportedRun("q:1:r", "q:1", "done", metrics={"acc": 0.5}, seed=3)
        yield ImportedRun("q:1:again", "q:1", "failed", reason="it broke")

    with Lab.open() as lab:
        told = lab.imports.take(Batch("adopt", "notebook", "mine", items()))
        assert (told.runs, told.evidence, told.remarks) == (2, 1, [])
        assert lab.imports.id_of("notebook", "q:1") == "e1"
        assert lab.imports.id_of("notebook", "q:2") is None
        assert lab.hypotheses.get("h1").status == "parked"
        assert (lab.runs.get("r1").seed, lab.runs.get("r2").replicate) == (3, 2)
        assert lab.runs.get("r2").seed is None, "nobody tells it"
        assert lab.evidence.get("v1").seed == 3
        assert lab.storage.verify() == []
        older = {**to_json(lab.runs.get("r2")), "seed": 0, "is_seed_known": False}
        assert from_json(Run, older).seed is None
        assert from_json(Run, {**older, "is_seed_known": True}).seed == 0


def test_records_that_an_agent_adopts_are_its_word(project: Path) -> None:
    """A file that says it is sure is written in a moment."""
    items = [ImportedHypothesis("q", "does it help?", prior=0.99, confidence=0.9999, verdict="supported")]
    with Lab.open(actor="agent:claudecode") as agent:
        told = agent.imports.take(Batch("adopt", "notebook", "mine", items))
        found = agent.hypotheses.get("h1")
        assert (found.status, found.prior) == ("open", 0.75)
        assert found.confidence == pytest.approx(0.75), "a prior and opinions, bounded together"
        assert "is for a person" in told.remarks[0].why
        assert agent.evidence.refold(check=True) == []
    with Lab.open() as lab:
        more = [ImportedHypothesis("other", "does it help?", prior=0.99, confidence=0.9999, verdict="supported")]
        lab.imports.take(Batch("adopt", "notebook", "mine", more))
        assert (lab.hypotheses.get("h2").status, lab.hypotheses.get("h2").prior) == ("supported", 0.75)


def test_numbers_that_the_record_cannot_hold_are_left_out_of_what_is_adopted(project: Path) -> None:
    series = [{"step": 1, "acc": 0.5, "huge": 1e200, "odd\u0007": 1.0, "x" * 300: 1.0}]

    items: list[ImportedExperiment | ImportedRun] = [
        ImportedExperiment("q:1", None, "one", metric="acc", direction="max"),
        ImportedRun("q:1:r", "q:1", "done", series=series),
    ]
    with Lab.open() as lab:
        told = lab.imports.take(Batch("adopt", "notebook", "mine", items))
        assert lab.runs.get("r1").metrics == {"acc": 0.5, "huge": None}
        assert len(told.remarks) == 2


def test_a_reader_that_names_what_it_did_not_give_leaves_nothing_of_the_batch(project: Path) -> None:
    items: list[ImportedHypothesis | ImportedRun] = [
        ImportedHypothesis("q", "does it help?"),
        ImportedRun("r", "nothing", "done"),
    ]
    with Lab.open() as lab:
        with pytest.raises(NotFound, match="nothing"):
            lab.imports.take(Batch("adopt", "notebook", "mine", items))
        assert lab.hypotheses.list().items == ()
        assert not (lab.root / ".perpetual" / "adopting").exists()


def test_outside_a_project_the_way_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "results.tsv", 3)
    assert run(["adopt", "--json"]) == 5
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["hint"]) == ("no_project", "perpetual init")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("rows", [20_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_many_rows_in_bounded_memory(tmp_path: Path, rows: int) -> None:
    Lab.init(tmp_path, name="large", store="sqlite").close()
    table(tmp_path / "results.tsv", rows)
    # Not by getrusage: its peak would be that of the process which started this one.
    measure = (
        "import sys; from perpetual.cli.app import run; code = run(['adopt']);"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'));"
        "print(peak.split()[1], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", measure], cwd=tmp_path, capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == 0, done.stderr
    told = done.stderr.splitlines()
    assert told[0].endswith("records"), "progress is told on standard error"
    assert int(told[-1]) < 200 * 1024, "kilobytes"
    with Lab.open(tmp_path) as lab:
        assert lab.hypotheses.get("h1").evidence_count == rows
        assert lab.evidence.refold(check=True) == []

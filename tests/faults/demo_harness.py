"""Campaigns of the demo as programs that are killed, and what must hold of them once they have gone on to their end.

Used by tests/faults/test_demo_survives.py and tests/plugins/demo/test_resume.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from perpetual import Lab
from perpetual_demo.campaign import MAX_CONCURRENT_RUNS

__all__ = ["FULL", "SMALL", "Table", "audit", "die_at", "end", "finish", "same", "start"]

LONG_S = 100.0

# The demo's own hypotheses, two of them, on little text and with four replicates an arm, enough for a verdict.
SMALL = (
    sys.executable,
    "-c",
    """
import sys
from dataclasses import replace
from pathlib import Path
from perpetual_demo.campaign import CAMPAIGN
from perpetual_demo.campaign_run import open_lab, register, turn

short = " --chars 20000"
claims = [replace(one, baseline=one.baseline + short, treatment=one.treatment + short) for one in CAMPAIGN[2:4]]
with open_lab(Path(sys.argv[1])) as lab:
    register(lab, claims, replicates=4)
    turn(lab, lambda done: None)
""",
)
FULL = (sys.executable, "-m", "perpetual", "demo")


@dataclass(frozen=True)
class Table:
    """What a campaign found: the value of each (experiment, replicate), and each hypothesis's verdict."""

    values: dict[tuple[str, int], float | None]
    verdicts: dict[str, str]


def start(campaign: tuple[str, ...], folder: Path, **environment: str) -> subprocess.Popen[str]:
    """Starts a campaign in `folder`, or lets it go on."""
    return subprocess.Popen(
        [*campaign, os.fspath(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def end(program: subprocess.Popen[str]) -> tuple[int, str]:
    """Waits for a program; its exit status and what it said on stderr."""
    try:
        _, told = program.communicate(timeout=LONG_S)
    finally:
        program.kill()
        program.wait()
    return program.returncode, told


def finish(campaign: tuple[str, ...], folder: Path) -> Table:
    """Lets the campaign in `folder` go on to its end, and checks its books."""
    status, told = end(start(campaign, folder))
    assert status == 0, told
    return audit(folder)


def die_at(campaign: tuple[str, ...], folder: Path, step: str) -> None:
    """Runs the campaign until it kills itself at the named step."""
    status, told = end(start(campaign, folder, PERPETUAL_DIE_AT=step))
    assert status == -signal.SIGKILL, f"{step} was not reached: {status} {told}"


def same(found: Table, expected: Table) -> None:
    """The same verdicts, and the same value for every (experiment, replicate).

    Which replicates of a treatment are worth a run depends on which results came first, so beyond the two that every
    verdict needs there may be more or fewer.
    """
    assert found.verdicts == expected.verdicts
    for table, other in ((found, expected), (expected, found)):
        assert {key for key in table.values if key not in other.values and key[1] <= 2} == set()
    shared = found.values.keys() & expected.values.keys()
    assert {key: found.values[key] for key in shared} == {key: expected.values[key] for key in shared}


def audit(folder: Path) -> Table:
    """The table of a campaign that has ended; checks that nothing in its books is there twice or left over."""
    with Lab.open(folder) as lab:
        store = lab.context.store
        assert lab.evidence.refold(check=True) == []
        assert lab.scan() == {"changes": [], "debits": [], "evidence": [], "problems": []}
        runs = sorted(lab.runs.list(limit=1000).items, key=lambda run: int(run.id[1:]))
        assert {(run.status, run.reason, run.attempt) for run in runs} == {("done", None, 1)}
        assert len({(run.experiment_id, run.replicate) for run in runs}) == len(runs)
        for run in runs:
            output = (lab.root / run.log_dir / "stdout.log").read_text()
            assert output.count("val_bpc: ") == 1, f"{run.id} ran twice: {output}"
            kept = {path.name for path in (lab.root / run.log_dir).iterdir()}
            assert "launch.json" not in kept, "what may hold secrets is removed at the start"

        debits: dict[str, list[str]] = {run.id: [] for run in runs}
        for row in store.rows("debit"):
            debits[row.body["run_id"]].append(row.body["kind"])
        assert debits == {run.id: ["reserve", "settle"] for run in runs}

        claims = {item.id for item in lab.experiments.list(limit=1000).items if item.design.claim is not None}
        measured = Counter(row.body["run_id"] for row in store.find("evidence", kind="measured"))
        assert measured == Counter(run.id for run in runs if run.experiment_id in claims)

        events = lab.events()
        assert [event.seq for event in events] == [*range(1, len(events) + 1)]
        created = [event.subject for event in events if event.kind == "run_created"]
        assert created == [run.id for run in runs]
        status = [(event.subject, event.payload["to"]) for event in events if event.kind == "run_status"]
        assert sorted(id for id, to in status if to == "done") == sorted(created)
        live: set[str] = set()  # queued ones too: the loop makes no run that would have to wait
        for event in events:
            if event.kind == "run_created":
                live.add(event.subject)
            elif event.kind == "run_status" and event.payload["to"] == "done":
                live.remove(event.subject)
            assert len(live) <= MAX_CONCURRENT_RUNS

        hypotheses = lab.hypotheses.list(limit=1000).items
        decided = sorted(item.id for item in hypotheses if item.status in ("supported", "refuted"))
        notes = [note for note in lab.memory.list(limit=1000).items if note.type == "episodic_case"]
        assert sorted(note.path.rpartition("/")[2].removesuffix(".md") for note in notes) == decided
        for note in notes:
            commits = [entry.commit for entry in lab.memory.history(note.path)]
            assert commits
            assert commits[0] == note.commit
            assert len(commits) == len(store.find("intent", path=note.path))
        return Table(
            {(run.experiment_id, run.replicate): run.metrics["val_bpc"] for run in runs},
            {item.id: item.status for item in hypotheses},
        )

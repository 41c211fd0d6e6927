"""The demo's campaign with real runs: as it is, and with the two arms of every hypothesis swapped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perpetual.loop import Cycle
from perpetual_demo.campaign import CAMPAIGN, FIXED_PROJECT_ID, MAX_CONCURRENT_RUNS, Claim, swapped
from perpetual_demo.campaign_run import open_lab, register, turn

MIRROR = {"supported": "refuted", "refuted": "supported", "open": "open"}


def decide(folder: Path, claims: Sequence[Claim]) -> dict[str, str]:
    """Runs a campaign to its end and answers each statement's status; checks what must hold on the way."""
    cycles: list[Cycle] = []
    with open_lab(folder) as lab:
        register(lab, claims)

        def watch(done: Cycle) -> None:
            cycles.append(done)
            assert len([run for run in lab.runs.live() if run.status != "queued"]) <= MAX_CONCURRENT_RUNS

        last = turn(lab, watch)
        assert last.reason == "queue_empty"
        assert lab.evidence.refold(check=True) == []
        assert lab.scan() == {"changes": [], "debits": [], "evidence": [], "problems": []}
        budget = lab.budget.totals()
        assert budget["reserved_gpu_hours"] == 0
        assert budget["spent_gpu_hours"] == 0
        runs = lab.runs.list(limit=1000).items
        assert {run.status for run in runs} == {"done"}
        assert len({(run.experiment_id, run.replicate) for run in runs}) == len(runs)
        assert budget["run_hours"] == pytest.approx(sum(run.run_hours or 0.0 for run in runs))
        baselines = [item.id for item in lab.experiments.list(limit=1000).items if item.design.claim is None]
        first_claim = next(n for n, done in enumerate(cycles) if _of(lab, done, baselines, claim=True))
        last_baseline = max(n for n, done in enumerate(cycles) if _of(lab, done, baselines, claim=False))
        assert last_baseline <= first_claim, "baselines come first"
        noted = {note.path.rpartition("/")[2].removesuffix(".md") for note in lab.memory.list(limit=1000).items}
        hypotheses = lab.hypotheses.list().items
        assert noted == {item.id for item in hypotheses if item.status != "open"}
        for item in hypotheses:
            sure = {"supported": "Helps: ", "refuted": "Does not help by ", "open": "Undecided: "}
            assert (item.sentence or "").startswith(sure[item.status]), item.sentence
        return {item.statement: item.status for item in hypotheses}


def _of(lab: object, done: Cycle, baselines: list[str], *, claim: bool) -> bool:
    from perpetual import Lab

    assert isinstance(lab, Lab)
    return any((lab.runs.get(id).experiment_id not in baselines) == claim for id in done.launched)


@pytest.mark.slow  # the demo itself runs in every check
def test_the_campaign_decides_as_it_says(tmp_path: Path) -> None:
    found = decide(tmp_path, CAMPAIGN)
    assert found == {claim.statement: claim.expected for claim in CAMPAIGN}
    assert sorted(found.values()) == ["open", "refuted", "refuted", "supported", "supported"]


@pytest.mark.slow
def test_swapped_arms_swap_the_verdicts(tmp_path: Path) -> None:
    mirrored = swapped()
    found = decide(tmp_path, mirrored)
    assert found == {claim.statement: claim.expected for claim in mirrored}
    for claim, mirror in zip(CAMPAIGN, mirrored, strict=True):
        assert (mirror.baseline, mirror.treatment) == (claim.treatment, claim.baseline)
        assert mirror.expected == MIRROR[claim.expected]
        assert found[mirror.statement] == MIRROR[claim.expected]


@pytest.mark.slow
def test_the_command_goes_on_where_it_was(tmp_path: Path) -> None:
    """Run again in the same place: the same answer, and nothing runs twice. Plain lines go to standard error."""

    def demo() -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "perpetual", "--json", "demo", "here"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    first, second = demo(), demo()
    for changing in ("elapsed_s", "explanation"):
        del first[changing], second[changing]
    assert first == second
    assert Path(str(first["report"])).read_text().count("**supported**") >= 2
    assert len(first["next"]) == 5


def test_another_project_is_left_alone(tmp_path: Path) -> None:
    from perpetual import Lab
    from perpetual.errors import Conflict

    Lab.init(tmp_path, name="mine").close()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(Conflict, match="another project"):
        open_lab(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / "train.py").write_text("print('mine')")
    with pytest.raises(Conflict, match="not the demo's"):
        open_lab(stranger)
    assert os.listdir(stranger) == ["train.py"]


def test_the_seeds_are_the_same_everywhere(tmp_path: Path) -> None:
    """A fixed project id gives every machine the same seeds, and so the same values per (design, replicate)."""
    from perpetual.lab.ledger.runs import seed_of

    assert FIXED_PROJECT_ID == "perpetual-demo-0001"
    with open_lab(tmp_path) as lab:
        assert lab.config.project_id == FIXED_PROJECT_ID
    assert seed_of(FIXED_PROJECT_ID, "e1", 1) == seed_of("perpetual-demo-0001", "e1", 1) < 2**31
    assert len({seed_of(FIXED_PROJECT_ID, "e1", n) for n in range(1, 50)}) == 49

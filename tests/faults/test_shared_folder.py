"""Runs that write their results into one working directory at the same time: nobody gets another's number."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.records import Run

# Held until all are at work: how long it takes to start them is not to decide who shares a folder with whom.
_HELD = "while test ! -e %s; do sleep 0.02; done; "
_OWN = "sh -c '" + _HELD % "go" + 'echo {\\"acc\\": 0.$PERPETUAL_SEED} > %s/results.json\''


def _runs(lab: Lab, command: str, replicates: int) -> list[Run]:
    made = lab.experiments.propose(command=command, metric="acc", replicates=replicates, wall_s=60.0)
    lab.experiments.approve(made.id)
    started = lab.runs.launch(made.id, every=True)
    (lab.root / "go").touch()
    lab.wait([run.id for run in started], timeout_s=60)
    return [lab.runs.get(run.id) for run in started]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.init(tmp_path / "project", name="shared")


def test_a_file_of_a_shared_folder_is_nobodys(lab: Lab) -> None:
    with lab:
        runs = _runs(lab, _OWN % ".", 3)
        assert [run.metrics for run in runs] == [{}, {}, {}]
        assert all(run.shares_folder for run in runs)
        for run in runs:
            assert (run.status, run.reason) == ("done", "no_metric: acc was not found in the run's output")
            assert any("same working directory" in item["text"] for item in run.annotations)


def test_each_run_has_a_folder_of_its_own(lab: Lab) -> None:
    with lab:
        runs = _runs(lab, _OWN % "$PERPETUAL_RUN_DIR", 3)
        assert [run.metrics["acc"] for run in runs] == [float(f"0.{run.seed}") for run in runs]


def test_one_after_another_they_may_use_the_same_folder(lab: Lab) -> None:
    """Also where nobody looked in between: the first is measured before the second can write."""
    with lab:
        made = lab.experiments.propose(command=_OWN % ".", metric="acc", replicates=2, wall_s=60.0)
        lab.experiments.approve(made.id)
        (lab.root / "go").touch()
        scheduler = lab.part("scheduler")
        for _ in range(2):
            run = lab.runs.launch(made.id)[0]
            scheduler.wait(run.native_id, lab.root / run.log_dir, 30.0)
        lab.scan()
        runs = [lab.runs.get(id) for id in ("r1", "r2")]
        assert [run.metrics["acc"] for run in runs] == [float(f"0.{run.seed}") for run in runs]
        assert not any(run.shares_folder for run in runs)


def test_a_waiting_run_is_not_overtaken(tmp_path: Path) -> None:
    with Lab.init(tmp_path / "project", name="queue", methodology={"max_concurrent_runs": 1}) as lab:
        made = [lab.experiments.propose(command=f"sh -c '{_HELD % 'go'} true'", wall_s=60.0) for _ in range(2)]
        for item in made:
            lab.experiments.approve(item.id)
        lab.queue.set_state("paused")
        first = lab.runs.launch(made[0].id)[0]
        lab.queue.set_state("running")
        second = lab.runs.launch(made[1].id)[0]
        assert [lab.runs.get(first.id).status, second.status] == ["running", "queued"]
        (lab.root / "go").touch()
        lab.wait([first.id, second.id], timeout_s=60)

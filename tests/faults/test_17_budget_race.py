"""Row 17: launches, retries and the loop race for the last hours: what fits starts, the rest is refused, exit 7."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from tests.faults.run_harness import LONG_S, approved, opened, single_books

RACERS = 10

# Each racer is a process of its own, forked when everything is imported, so that they are off at the same moment.
_RACE = """
import json, os, sys
from perpetual import Lab, hookimpl
from perpetual.api import Gpu, GpuBackend, Provider, GpuReading
from perpetual.errors import PerpetualError
from perpetual.registry import Registry

class Many(GpuBackend):
    def read(self, deadline_s=5.0):
        return GpuReading("1", tuple(Gpu(n, f"GPU-{n}", "fake", 2**30, 0, 2**30, 0.0, 30.0, 50.0, None, (), True, None)
                                  for n in range(32)), None)

def build(options):
    return Many()

class Plugin:
    @hookimpl
    def perpetual_gpu_backends(self):
        return [Provider("gpus", "many", "__main__:build", "more than anybody needs")]

with Lab.open(registry=Registry(extra=[("acme", "gpus", "1", Plugin)])) as warm:
    warm.status()
    warm.part("gpus")
    warm.part("scheduler")
gate, answers = os.pipe(), os.pipe()
children = []
for deed, id in json.loads(sys.argv[1]):
    if child := os.fork():
        children.append(child)
        continue
    os.close(gate[1])
    with Lab.open(registry=Registry(extra=[("acme", "gpus", "1", Plugin)])) as lab:
        lab.budget.totals()
        os.read(gate[0], 1)  # until the parent lets all of them go
        try:
            if deed == "loop":
                launches = lab.loop.launch()
                answer = {"runs": list(launches.runs), "refused": launches.refused, "failed": launches.failed}
            else:
                made = lab.runs.launch(id) if deed == "launch" else [lab.runs.retry(id)]
                answer = {"runs": [run.id for run in made]}
        except PerpetualError as problem:
            answer = {"exit": problem.exit, "code": problem.code, "message": problem.message}
    os.write(answers[1], (json.dumps(answer) + "\\n").encode())
    os._exit(0)
os.close(gate[1])
ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
os.close(answers[1])
assert ends == [0] * len(children), ends
sys.stdout.write(open(answers[0]).read())
"""


def _race(project: Path, deeds: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """What each of the racers was answered, all of them let go at once."""
    done = subprocess.run(
        [sys.executable, "-c", _RACE, json.dumps(deeds)], cwd=project, capture_output=True, text=True, timeout=LONG_S
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(deeds)
    return answers


def _experiments(lab: Lab, count: int, **design: Any) -> list[str]:
    return [approved(lab, "exec sleep 600", config={"n": n}, **design) for n in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("store", ["tinydb", "sqlite"])
def test_ten_launches_for_the_last_hour(project: Path, store: str) -> None:
    """One run of one GPU for one hour fits: one is started, and never two."""
    config = project / ".perpetual" / "config.yaml"
    config.write_text(config.read_text().replace("gpus: nvml", "gpus: many"))
    with opened(project, store) as lab:
        lab.budget.set_limit(1.0)
        ids = _experiments(lab, RACERS, gpus=1, wall_s=3600.0)
        answers = _race(project, [("launch", id) for id in ids])
        started = [answer for answer in answers if "runs" in answer]
        refused = [answer for answer in answers if "exit" in answer]
        assert (len(started), len(refused)) == (1, RACERS - 1), answers
        assert {(answer["exit"], answer["code"]) for answer in refused} == {(7, "budget")}
        assert "may need 1.000 GPU-hours and 0.000 are left" in refused[0]["message"]
        totals = lab.budget.totals()
        assert (totals["reserved_gpu_hours"], totals["left_gpu_hours"]) == (1.0, 0.0)
        assert len(single_books(lab)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("store", ["tinydb", "sqlite"])
def test_as_many_racing_runs_start_as_the_budget_holds(project: Path, store: str) -> None:
    with opened(project, store, max_run_hours="3", max_concurrent_runs="10") as lab:
        answers = _race(project, [("launch", id) for id in _experiments(lab, RACERS, wall_s=3600.0)])
        assert sum("runs" in answer for answer in answers) == 3, answers
        assert {answer["exit"] for answer in answers if "exit" in answer} == {7}
        runs = single_books(lab)
        assert [run.status for run in runs] == ["running"] * 3
        assert lab.budget.room_run_hours() == 0.0
        lab.runs.kill(runs[0].id, grace_s=0.0)
        answers = _race(project, [("launch", id) for id in _experiments(lab, 4, wall_s=1800.0, gpus=0, priority=1)])
        assert sum("runs" in answer for answer in answers) == 1, answers  # what one gave back holds one of these
        assert lab.budget.room_run_hours() == pytest.approx(0.5, abs=0.1)


@pytest.mark.slow
def test_launches_retries_and_the_loop_at_once(project: Path) -> None:
    """Whoever is first gets the room; no replicate is started twice, and no failed run is tried again twice."""
    with opened(project, max_run_hours="2.01", max_concurrent_runs="20") as lab:
        # Fails once, and then stays: an attempt that ended at once would give its room to one more of the racers.
        failing = approved(lab, "mkdir tried && exit 1; exec sleep 600", wall_s=3600.0)
        (failed,) = lab.runs.launch(failing)
        lab.wait([failed.id], timeout_s=LONG_S)
        waiting = _experiments(lab, 2, wall_s=3600.0)
        answers = _race(
            project,
            [*[("launch", id) for id in waiting * 2], *[("retry", failed.id)] * 3, *[("loop", "")] * 3],
        )
        made = [run for answer in answers for run in answer.get("runs", ())]
        assert len(made) == len(set(made)) == 2, answers
        assert {answer["exit"] for answer in answers if "exit" in answer} <= {6, 7}
        live = [run for run in single_books(lab) if run.id in made]
        assert len({(run.experiment_id, run.replicate) for run in live}) == 2
        room = lab.budget.room_run_hours()
        assert room is not None
        assert room >= 0

"""Waiting, and the queue as it is shown: who is woken by what, and where a run stands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perpetual import Lab
from perpetual.cli.app import run as program
from perpetual.errors import CorruptData
from perpetual.lab.runs import wait as waiting

if TYPE_CHECKING:
    from perpetual.records import Run
    from tests.kernel.conftest import Campaign

LONG_S = 60.0
HELD = "sh -c 'while test ! -e go-$PERPETUAL_RUN; do sleep 0.02; done; echo acc=1.5'"


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def no_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nobody is woken by the time alone."""
    monkeypatch.setattr(waiting, "SWEEP_S", LONG_S)


@pytest.mark.usefixtures("no_sweep")
def test_the_end_of_any_run_wakes_the_waiter(lab: Lab, campaign: Campaign) -> None:
    """Also of one that is not waited for: it is recorded, and what was queued takes its place."""
    lab.settings.set_methodology("max_concurrent_runs", "3")
    _, experiment = campaign(HELD, replicates=4)
    runs = lab.runs.launch(experiment.id, every=True)
    assert [run.status for run in runs] == ["running", "running", "running", "queued"]
    answers: list[dict[str, str]] = []
    with Lab.open(lab.root) as other:
        thread = threading.Thread(target=lambda: answers.append(other.wait(["r1", "r4"])))
        thread.start()
        for ended, then in (("r3", "r4"), ("r2", None), ("r4", None)):
            Path(f"go-{ended}").touch()
            _until(lambda ended=ended: lab.runs.get(ended).status == "done")  # type: ignore[misc]
            if then is not None:
                _until(lambda then=then: lab.runs.get(then).status == "running")  # type: ignore[misc]
        assert answers == []
        Path("go-r1").touch()
        thread.join(LONG_S)
    assert answers == [{"r1": "done", "r4": "done"}]


@pytest.mark.usefixtures("no_sweep")
def test_a_start_by_another_process_wakes_the_waiter(lab: Lab, campaign: Campaign) -> None:
    """While nothing runs, the record is watched."""
    lab.queue.set_state("paused")
    _, experiment = campaign(replicates=1)
    (run,) = lab.runs.launch(experiment.id)
    answers: list[dict[str, str]] = []
    with Lab.open(lab.root) as other:
        thread = threading.Thread(target=lambda: answers.append(other.wait([run.id])))
        thread.start()
        lab.queue.set_state("running")
        lab.scan()
        thread.join(LONG_S)
    assert answers == [{run.id: "done"}]


def test_a_run_that_cannot_be_read_does_not_delay_waiters_of_others(lab: Lab, campaign: Campaign) -> None:
    _, experiment = campaign(HELD, replicates=2)
    broken, other = lab.runs.launch(experiment.id, every=True)
    record = lab.runs.log_dir(broken.id) / "started.json"
    kept = record.read_bytes()
    record.write_bytes(b"{")
    try:
        timer = threading.Timer(0.2, Path(f"go-{other.id}").touch)
        timer.start()
        assert lab.wait([other.id], timeout_s=LONG_S) == {other.id: "done"}
        with pytest.raises(CorruptData):
            lab.wait([broken.id], timeout_s=LONG_S)
        assert lab.loop.wait_any(0.05) is False
    finally:
        record.write_bytes(kept)


def test_the_loop_is_woken_by_whichever_run_ends(lab: Lab, campaign: Campaign) -> None:
    assert lab.loop.wait_any(LONG_S) is False  # nothing is live
    _, experiment = campaign(HELD, replicates=3)
    runs = lab.runs.launch(experiment.id, every=True)
    assert lab.loop.wait_any(0.05) is False
    Path(f"go-{runs[2].id}").touch()
    assert lab.loop.wait_any(LONG_S) is True


def test_the_queue_shows_places_priorities_and_reasons(
    lab: Lab, campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.settings.set_methodology("max_concurrent_runs", "1")
    _, first = campaign(HELD, replicates=1)
    lab.runs.launch(first.id)
    waits: list[Run] = []
    for priority in (0, 5, 0):
        _, experiment = campaign("true", statement=f"waits {len(waits)}", priority=priority, config={"n": len(waits)})
        waits += lab.runs.launch(experiment.id)
    assert [run.status for run in waits] == ["queued"] * 3
    page = lab.queue.waiting()
    places = lab.queue.places(page.items)
    assert [(place["run_id"], place["position"], place["priority"]) for place in places] == [
        ("r3", 1, 5),
        ("r2", 2, 0),
        ("r4", 3, 0),
    ]
    assert {place["waits_for"] for place in places} == {"1 run is live, and max_concurrent_runs is 1"}
    capsys.readouterr()
    assert program(["queue"]) == 0
    shown = capsys.readouterr().out
    assert "the queue is running" in shown
    assert shown.index("r3 ") < shown.index("r2 ") < shown.index("r4 ")
    assert "waits for, when last looked at" in shown
    # Paused, they wait for something else, as of the next look; and a killed one waits no more.
    lab.queue.set_state("paused")
    lab.scan()
    assert {place["waits_for"] for place in lab.queue.places(lab.queue.waiting().items)} == {
        "the queue is paused (perpetual queue resume)"
    }
    assert lab.runs.kill("r3").reason == f"taken from the queue by {lab.actor}"
    assert [run.id for run in lab.queue.waiting().items] == ["r2", "r4"]
    assert lab.storage.verify() == []
